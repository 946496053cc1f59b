//! What is printed: per program and number of clients, the median of the rounds, their range, and ratios.

use crate::peer::{Cost, Program};

/// The rounds of one program with one number of clients, or why there are none.
pub struct Cell {
    pub program: Program,
    pub rounds: Result<Vec<Cost>, String>,
}

impl Cell {
    /// CPU time of all rounds together, seconds.
    pub fn cpu_s(&self) -> f64 {
        self.rounds.iter().flatten().map(|cost| cost.user_s + cost.system_s).sum()
    }

    fn median(&self, of: impl Fn(&Cost) -> f64) -> Option<f64> {
        let values = self.sorted(of);
        let middle = values.len() / 2;
        match values.len() {
            0 => None,
            even if even % 2 == 0 => Some((values[middle - 1] + values[middle]) / 2.0),
            _ => Some(values[middle]),
        }
    }

    fn sorted(&self, of: impl Fn(&Cost) -> f64) -> Vec<f64> {
        let mut values: Vec<f64> = self.rounds.iter().flatten().map(of).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// User CPU over all rounds together: the kernel splits user from system time by samples, which single rounds have
    /// too few of.
    fn user_us(&self) -> f64 {
        let rounds = || self.rounds.iter().flatten();
        let operations: u64 = rounds().map(|cost| cost.operations).sum();
        rounds().map(|cost| cost.user_s).sum::<f64>() * 1e6 / operations.max(1) as f64
    }
}

pub fn print_head(title: &str) {
    println!("\n{title}");
    println!(
        "{:>7}  {:<13} {:>9} {:>17} {:>9} {:>10} {:>2} {:>8}",
        "clients", "program", "cpu us/op", "range", "user", "op/s", "n", "cpu s"
    );
}

pub fn print_cells(clients: u32, cells: &[Cell]) {
    for cell in cells {
        let name = cell.program.name();
        match &cell.rounds {
            Err(reason) => println!("{clients:>7}  {name:<13} not measured: {reason}"),
            Ok(rounds) => {
                let costs = cell.sorted(Cost::cpu_us);
                let range = format!("{:.2} to {:.2}", costs[0], costs[costs.len() - 1]);
                println!(
                    "{clients:>7}  {name:<13} {:>9.2} {range:>17} {:>9.2} {:>10.0} {:>2} {:>8.1}",
                    cell.median(Cost::cpu_us).unwrap_or(f64::NAN),
                    cell.user_us(),
                    cell.median(Cost::per_s).unwrap_or(f64::NAN),
                    rounds.len(),
                    cell.cpu_s(),
                );
            }
        }
    }
    print_ratios(clients, cells);
}

/// Ratios of medians, of dbdyno and of the bare loop to the others.
fn print_ratios(clients: u32, cells: &[Cell]) {
    let cost = |program: Program| {
        cells.iter().find(|cell| cell.program == program).and_then(|cell| cell.median(Cost::cpu_us))
    };
    let pairs = [
        (Program::Dbdyno, Program::BareEpoll),
        (Program::DbdynoUring, Program::BareEpoll),
        (Program::DbdynoUring, Program::BareUring),
        (Program::DbdynoUring, Program::Sysbench),
        (Program::DbdynoUring, Program::Pgbench),
        (Program::DbdynoUring, Program::GoYcsb),
        (Program::Dbdyno, Program::GoYcsb),
        (Program::Dbdyno, Program::Sysbench),
        (Program::Dbdyno, Program::Pgbench),
        (Program::BareEpoll, Program::Pgbench),
        (Program::BareUring, Program::Pgbench),
    ];
    let ratios: Vec<String> = pairs
        .into_iter()
        .filter_map(|(above, below)| {
            let ratio = cost(above)? / cost(below)?;
            Some(format!("{} / {} {ratio:.2}", above.name(), below.name()))
        })
        .collect();
    if !ratios.is_empty() {
        println!("{clients:>7}  ratios of cpu us/op: {}", ratios.join(", "));
    }
}
