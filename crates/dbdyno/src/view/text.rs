//! Columns of text, aligned.

/// Rows of cells, the first row being the head. The first `left` columns are aligned to the left, others to the right.
pub fn align(rows: &[Vec<String>], left: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width_of = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width_of).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            if column > 0 {
                line.push_str("  ");
            }
            let padding = " ".repeat(width - cell.chars().count());
            let (before, after) =
                if column < left { ("", padding.as_str()) } else { (padding.as_str(), "") };
            line.push_str(before);
            line.push_str(cell);
            line.push_str(after);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A number with as many digits as it deserves: whole from 100, three significant digits below.
pub fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 0.001 => format!("{value:.3}"),
        _ => format!("{value:.1e}"),
    }
}

/// A duration in words people use: `45 s`, `6 min 10 s`, `3 h 20 min`.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

/// Bytes in the unit that fits.
pub fn bytes(count: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let step = (count.max(1.0).log2() / 10.0).floor().clamp(0.0, 4.0);
    format!("{} {}", number(count / 1024f64.powf(step)), units[step as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers, durations and sizes as people write them.
    #[test]
    fn words() {
        let numbers = [0.0, 24932.4, 99.94, 1.234, 0.0123, 0.000_012].map(number);
        assert_eq!(numbers, ["0", "24932", "99.9", "1.23", "0.012", "1.2e-5"]);
        assert_eq!(
            [0.4, 45.0, 370.0, 12_000.0].map(duration),
            ["0 s", "45 s", "6 min 10 s", "3 h 20 min"]
        );
        assert_eq!([0.0, 512.0, 1536.0, 3e9].map(bytes), ["0 B", "512 B", "1.50 KiB", "2.79 GiB"]);
    }

    /// Columns line up and no line ends in blanks.
    #[test]
    fn columns() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let table = align(&[row(["engine", "n", "x"]), row(["a", "10", ""])], 1);
        assert_eq!(table, "engine   n  x\na       10\n");
    }
}
