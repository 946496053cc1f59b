//! The two views of document 000: a table per engine, and the same cells again as a table per number of tables.
//!
//! Columns are the DOP where it is varied; any other factors are rows. Marks behind a number refer to the notes below
//! its table.

use super::cells::{Cell, Factors, Ordered, factor_names};
use super::text::{align, number};
use dbdyno_record::{TrialEnd, Warning};
use dbdyno_stats::Ratio;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The factor that makes the columns, if it is varied.
const COLUMN_FACTOR: &str = "dop";

/// What is printed in a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Content<'a> {
    /// Median and spread of a metric.
    Metric(&'a str),
    /// The ratio of a metric's medians to a base's, with the range that single blocks would give.
    RatioTo(&'a str, Base<'a>),
}

/// What ratios are taken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base<'a> {
    /// The same cell of this engine: by its full name, or, where there are several runs, by its name within each run.
    Engine(&'a str),
    /// The same cell of the same engine in the first run.
    FirstRun,
}

/// Between the letter of a run and the name of an engine.
pub const RUN_SEPARATOR: char = ':';
/// What the first of several runs is called.
const FIRST_RUN: &str = "A";

impl Base<'_> {
    /// The full name of the engine that another one is related to; `None` for a line that would relate to itself.
    fn of(self, engine: &str, known: &[&str]) -> Option<String> {
        let parts = engine.split_once(RUN_SEPARATOR);
        let base = match self {
            Base::Engine(name) if known.contains(&name) => name.to_owned(),
            Base::Engine(name) => format!("{}{RUN_SEPARATOR}{name}", parts?.0),
            Base::FirstRun => format!("{FIRST_RUN}{RUN_SEPARATOR}{}", parts?.1),
        };
        (base != engine).then_some(base)
    }
}

/// Cells by place.
struct Grid<'a> {
    columns: Vec<Option<Ordered>>,
    cells: BTreeMap<(&'a str, Factors, Option<Ordered>), &'a Cell>,
    all_engines: Vec<&'a str>,
    /// Those that get lines.
    engines: Vec<&'a str>,
    rows: BTreeSet<Factors>,
    row_factors: Vec<String>,
}

impl<'a> Grid<'a> {
    fn of(cells: &'a [Cell]) -> Self {
        let names = factor_names(cells);
        let row_factors = names.into_iter().filter(|name| name != COLUMN_FACTOR).collect();
        let mut grid = Grid {
            columns: Vec::new(),
            cells: BTreeMap::new(),
            all_engines: Vec::new(),
            engines: Vec::new(),
            rows: BTreeSet::new(),
            row_factors,
        };
        let mut columns = BTreeSet::new();
        for cell in cells {
            let mut row = cell.factors.clone();
            let column = row.remove(COLUMN_FACTOR);
            columns.insert(column.clone());
            if !grid.engines.contains(&cell.engine.as_str()) {
                grid.engines.push(&cell.engine);
            }
            grid.rows.insert(row.clone());
            grid.cells.insert((&cell.engine, row, column), cell);
        }
        grid.columns = columns.into_iter().collect();
        grid.all_engines.clone_from(&grid.engines);
        grid
    }

    fn cell(&self, engine: &'a str, row: &Factors, column: &Option<Ordered>) -> Option<&'a Cell> {
        self.cells.get(&(engine, row.clone(), column.clone())).copied()
    }

    fn head(&self) -> Vec<String> {
        let columns = self.columns.iter().map(|column| match column {
            Some(Ordered(value)) => format!("DOP={value}"),
            None => "value".to_owned(),
        });
        std::iter::once("engine".to_owned())
            .chain(self.row_factors.iter().cloned())
            .chain(columns)
            .collect()
    }

    fn line(
        &self,
        engine: &'a str,
        row: &Factors,
        content: Content<'_>,
        notes: &mut Notes,
    ) -> Vec<String> {
        let factors = self
            .row_factors
            .iter()
            .map(|name| row.get(name).map_or(String::new(), |Ordered(value)| value.to_string()));
        let base = match content {
            Content::RatioTo(_, base) => base.of(engine, &self.all_engines),
            Content::Metric(_) => None,
        };
        let values = self.columns.iter().map(|column| {
            let cell = self.cell(engine, row, column);
            let base = base.as_ref().and_then(|base| self.base_cell(base, row, column));
            cell_text(cell, base, content, notes)
        });
        std::iter::once(engine.to_owned()).chain(factors).chain(values).collect()
    }

    fn base_cell(&self, base: &str, row: &Factors, column: &Option<Ordered>) -> Option<&'a Cell> {
        let of_base = self.cells.iter().find(|((engine, at, in_column), _)| {
            *engine == base && at == row && in_column == column
        });
        of_base.map(|(_, cell)| *cell)
    }
}

/// Notes below a table: one letter for each kind of warning, and the reasons of trials that gave no number.
#[derive(Default)]
struct Notes {
    warnings: Vec<(Warning, usize)>,
    ends: BTreeMap<(String, String), usize>,
}

impl Notes {
    fn letters(&mut self, warnings: &[Warning]) -> String {
        let mut letters = BTreeSet::new();
        for warning in warnings {
            let known = self.warnings.iter().position(|(seen, _)| seen.name() == warning.name());
            let at = known.unwrap_or_else(|| {
                self.warnings.push((warning.clone(), 0));
                self.warnings.len() - 1
            });
            self.warnings[at].1 += 1;
            letters.insert(letter(at));
        }
        letters.into_iter().collect()
    }

    fn print(&self, out: &mut String) {
        for (at, (warning, count)) in self.warnings.iter().enumerate() {
            let times =
                if *count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
            let (name, sentence, advice) = (warning.name(), warning.sentence(), warning.advice());
            let _ = writeln!(out, "  {} {name}: {sentence}{times} {advice}", letter(at));
        }
        for ((end, reason), count) in &self.ends {
            let times = if *count > 1 { format!(" ({count} trials)") } else { String::new() };
            let _ = writeln!(out, "  {end}: {reason}{times}");
        }
    }
}

fn letter(at: usize) -> char {
    char::from(b'a' + (at % 26) as u8)
}

fn cell_text(
    cell: Option<&Cell>,
    base: Option<&Cell>,
    content: Content<'_>,
    notes: &mut Notes,
) -> String {
    let Some(cell) = cell else { return "X".to_owned() };
    let metric = match content {
        Content::Metric(metric) | Content::RatioTo(metric, _) => metric,
    };
    for trial in cell.ended_otherwise() {
        let is_left_out = matches!(trial.end, TrialEnd::NotRun { .. });
        if let Some(reason) = trial.end.reason().filter(|_| !is_left_out) {
            let key = (trial.end.name().to_owned(), reason.to_owned());
            *notes.ends.entry(key).or_default() += 1;
        }
    }
    let Some(summary) = cell.summary(metric) else { return word_for(cell) };
    match (content, base.and_then(|base| base.summary(metric))) {
        (Content::RatioTo(..), None) => "-".to_owned(),
        (Content::RatioTo(..), Some(base)) => {
            Ratio::of(summary, base).map_or("-".to_owned(), |r| {
                let (min, max) = (number(r.min), number(r.max));
                format!("{} [{min}..{max}] n={}/{}", number(r.ratio), r.n.0, r.n.1)
            })
        }
        (Content::Metric(_), _) => {
            let spread = summary.half_range_share();
            let spread = spread.map_or(String::new(), |s| format!(" ±{:.0}%", s * 100.0));
            let missing = summary.n < cell.planned;
            let n = if missing { format!(" n={}", summary.n) } else { String::new() };
            let letters = notes.letters(&cell.warnings(metric));
            let mark = if letters.is_empty() { String::new() } else { format!(" {letters}") };
            format!("{}{spread}{n}{mark}", number(summary.median))
        }
    }
}

/// What stands where there is no number.
fn word_for(cell: &Cell) -> String {
    let ends: BTreeSet<&str> = cell.trials.iter().map(|trial| trial.end.name()).collect();
    match ends.first() {
        None => "...".to_owned(),
        Some(&"NotRun") => "X".to_owned(),
        Some(&"Measured") => "-".to_owned(),
        Some(end) => end.to_lowercase(),
    }
}

/// Both views of the cells, each followed by its notes.
pub fn two_views(cells: &[Cell], content: Content<'_>, title: &str) -> String {
    let mut grid = Grid::of(cells);
    if let Content::RatioTo(_, base) = content {
        // What ratios are taken to would be a line of ones.
        grid.engines.retain(|engine| base.of(engine, &grid.all_engines).is_some());
    }
    let left = 1 + grid.row_factors.len();
    let mut out = String::new();
    let mut notes = Notes::default();
    let _ = writeln!(out, "{title}, by engine");
    for engine in &grid.engines {
        let mut rows = vec![grid.head()];
        rows.extend(grid.rows.iter().map(|row| grid.line(engine, row, content, &mut notes)));
        let _ = writeln!(out, "{}", align(&rows, left));
    }
    notes.print(&mut out);
    let (Content::Metric(metric) | Content::RatioTo(metric, _)) = content;
    let needs_schedule =
        metric.starts_with("response_time_") || metric.starts_with("send_lateness_");
    if needs_schedule && cells.iter().all(|cell| cell.values(metric).is_empty()) {
        out +=
            "  closed arrivals have no schedule, so there is no response time: see service_time\n";
    }
    let single = cells.iter().filter(|cell| cell.measured().count() == 1).count();
    if single > 0 {
        let warning = Warning::SingleBlock {};
        let (name, sentence, advice) = (warning.name(), warning.sentence(), warning.advice());
        let _ = writeln!(out, "  {name} ({single} cells): {sentence} {advice}");
    }
    if grid.engines.len() > 1 {
        let names = grid.row_factors.join(", ");
        let by = if names.is_empty() { "all engines" } else { &format!("by {names}") };
        let _ = writeln!(out, "\n{title}, {by}");
        // The same cells in another order: their notes stand above already.
        let mut seen = Notes { warnings: notes.warnings.clone(), ..Notes::default() };
        for row in &grid.rows {
            let mut rows = vec![grid.head()];
            rows.extend(
                grid.engines.iter().map(|engine| grid.line(engine, row, content, &mut seen)),
            );
            let _ = writeln!(out, "{}", align(&rows, left));
        }
    }
    out
}

#[cfg(test)]
#[path = "pivot_tests.rs"]
mod tests;
