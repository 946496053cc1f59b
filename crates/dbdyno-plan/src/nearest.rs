//! The known name nearest to a misspelt one, and the sentence that offers it.
//!
//! Distance counts inserted, dropped, replaced and swapped letters. Every message about an unknown key, engine,
//! experiment, workload, scale or run ends with [`suggestion`].

/// The known name nearest to `name`, unless all are so far off that offering one would mislead.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = name.chars().count();
    let allowed = letters.div_ceil(3).max(1);
    known
        .into_iter()
        .map(|candidate| {
            let extends = letters >= 3 && candidate.starts_with(name);
            (if extends { 1 } else { distance(name, candidate) }, candidate)
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The end of a message about an unknown name: the nearest known one, or all of them.
pub fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    if let Some(candidate) = nearest(name, known.clone()) {
        return format!("; did you mean \"{candidate}\"?");
    }
    let all: Vec<&str> = known.into_iter().collect();
    match all.is_empty() {
        true => "; nothing is known here".to_string(),
        false => format!("; known: {}", all.join(", ")),
    }
}

/// Optimal string alignment distance (Damerau-Levenshtein without edits inside a swapped pair).
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=right.len()).collect()];
    for i in 1..=left.len() {
        let mut row = vec![i];
        for j in 1..=right.len() {
            let replaced = usize::from(left[i - 1] != right[j - 1]);
            let mut best =
                (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + replaced);
            let swapped =
                i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
            if swapped {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["dop", "rows", "rate", "tables", "durability", "biebermarks"];

    #[test]
    fn near_names_are_offered_and_far_ones_are_not() {
        let check =
            |name, expected| assert_eq!(nearest(name, KNOWN.iter().copied()), expected, "{name}");
        check("dopp", Some("dop"));
        check("dpo", Some("dop"));
        check("row", Some("rows"));
        check("tabels", Some("tables"));
        check("bieber", Some("biebermarks"));
        check("durabilty", Some("durability"));
        check("zzz", None);
        check("", None);
        check("compression", None);
    }

    #[test]
    fn a_message_offers_the_nearest_name_or_lists_all() {
        let text = |name| suggestion(name, ["dop", "rows"]);
        assert_eq!(text("dopp"), "; did you mean \"dop\"?");
        assert_eq!(text("compression"), "; known: dop, rows");
        assert_eq!(suggestion("x", []), "; nothing is known here");
    }
}
