//! Paths with `*`, as `exclude` and `executable` of a recipe have them: `*` is anything, `/` included.

/// Whether a path fits a pattern.
pub(crate) fn fits(pattern: &str, path: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == path };
    let Some(mut left) = path.strip_prefix(start) else { return false };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let Some(end) = pieces.pop() else { return true };
    for piece in pieces {
        let Some(at) = left.find(piece) else { return false };
        left = &left[at + piece.len()..];
    }
    left.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_star_is_anything() {
        let check = |pattern: &str, path: &str, expected: bool| {
            assert_eq!(fits(pattern, path), expected, "{pattern} {path}");
        };
        check("bin/mysqld", "bin/mysqld", true);
        check("bin/mysqld", "bin/mysqld-debug", false);
        check("mysql-test/*", "mysql-test/suite/a.test", true);
        check("bin/*embedded*", "bin/mysql_client_test_embedded", true);
        check("*.txz", "postgres-linux-x86_64.txz", true);
        check("*.txz", "a.txz.md5", false);
        check("*/debug/*", "lib/plugin/debug/a.so", true);
        check("a*b*b", "ab", false);
        check("*", "", true);
    }
}
