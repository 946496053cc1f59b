//! Which rows are asked for, and how often: single, uniform, zipfian, hotspot or latest, over rows 1 to n.
//!
//! A [`KeyDistribution`] is what an experiment writes, such as `zipfian(0.99)`; a [`KeySampler`] is that distribution
//! over a known number of rows and draws keys without allocating. Popular rows are neighbours: rank k is row k, so
//! that skew also means shared pages; no rank is scattered by hashing.

use crate::rng::Random;
use crate::zipfian::Zipfian;
use std::fmt;

/// What an experiment can write, for messages.
const SYNTAX: &str = "single, uniform, zipfian(theta), hotspot(fraction, share) or latest";
/// Largest exponent taken: beyond it all requests go to row 1 within any run's length, which `single` says plainly.
const THETA_MAX: f64 = 100.0;
/// Exponent of [`KeyDistribution::Latest`], the one that YCSB uses (Cooper et al., SoCC 2010).
const LATEST_THETA: f64 = 0.99;

/// How requests spread over the rows of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeyDistribution {
    /// Row 1 only.
    Single,
    /// Every row alike.
    Uniform,
    /// Row k with probability proportional to 1 / k^theta.
    Zipfian {
        /// The exponent, above 0 and at most 100.
        theta: f64,
    },
    /// The first rows, a fraction of all, get a share of the requests; the others share the rest. Uniform in both.
    Hotspot {
        /// Rows that are hot, as a fraction of all (rounded up), between 0 and 1, both excluded.
        fraction: f64,
        /// Requests that go to the hot rows, as a fraction of all, between 0 and 1, both included.
        share: f64,
    },
    /// The last row most, the ones before it less: zipfian(0.99) counted backwards.
    Latest,
}

impl KeyDistribution {
    /// Reads what an experiment wrote. The message says what is wrong and what can be written instead.
    ///
    /// # Errors
    /// When the name is unknown, the numbers are missing or too many, or one is out of its range.
    pub fn parse(text: &str) -> Result<KeyDistribution, String> {
        let (name, numbers) = split_call(text)?;
        match (name, numbers.as_deref()) {
            ("single", None) => Ok(KeyDistribution::Single),
            ("uniform", None) => Ok(KeyDistribution::Uniform),
            ("latest", None) => Ok(KeyDistribution::Latest),
            ("zipfian", Some(&[theta])) => {
                if !(theta > 0.0 && theta <= THETA_MAX) {
                    return Err(format!(
                        "theta of zipfian is {theta}; it must be above 0 and at most {THETA_MAX}, \
                         for example zipfian(0.99)"
                    ));
                }
                Ok(KeyDistribution::Zipfian { theta })
            }
            ("hotspot", Some(&[fraction, share])) => {
                if !(fraction > 0.0 && fraction < 1.0) {
                    return Err(format!(
                        "fraction of hotspot is {fraction}; it must be above 0 and below 1 \
                         (0.1 makes a tenth of the rows hot)"
                    ));
                }
                if !(0.0..=1.0).contains(&share) {
                    return Err(format!(
                        "share of hotspot is {share}; it must be from 0 to 1 \
                         (0.9 sends nine requests of ten to the hot rows)"
                    ));
                }
                Ok(KeyDistribution::Hotspot { fraction, share })
            }
            ("single" | "uniform" | "latest", Some(_)) => {
                Err(format!("{name} takes no numbers; write {name} alone"))
            }
            ("zipfian", _) => Err("zipfian takes one number, for example zipfian(0.99)".to_owned()),
            ("hotspot", _) => {
                Err("hotspot takes two numbers, the fraction of the rows and their share \
                                   of the requests, for example hotspot(0.1, 0.9)"
                    .to_owned())
            }
            _ => Err(format!("\"{name}\" is no key distribution; write {SYNTAX}")),
        }
    }

    /// The distribution over rows 1 to `rows`, which must be at least 1.
    #[must_use]
    pub fn sampler(&self, rows: u64) -> KeySampler {
        debug_assert!(rows > 0);
        match *self {
            KeyDistribution::Single => KeySampler::Single,
            KeyDistribution::Uniform => KeySampler::Uniform { rows },
            KeyDistribution::Zipfian { theta } => KeySampler::Zipfian(Zipfian::new(rows, theta)),
            KeyDistribution::Hotspot { fraction, share } => {
                let hot = hot_rows(fraction, rows);
                // With one row there is nothing cold to ask for.
                let share = if hot == rows { 1.0 } else { share };
                KeySampler::Hotspot { hot, cold: rows - hot, share }
            }
            KeyDistribution::Latest => {
                KeySampler::Latest { rows, age: Zipfian::new(rows, LATEST_THETA) }
            }
        }
    }
}

impl fmt::Display for KeyDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyDistribution::Single => f.write_str("single"),
            KeyDistribution::Uniform => f.write_str("uniform"),
            KeyDistribution::Zipfian { theta } => write!(f, "zipfian({theta})"),
            KeyDistribution::Hotspot { fraction, share } => {
                write!(f, "hotspot({fraction}, {share})")
            }
            KeyDistribution::Latest => f.write_str("latest"),
        }
    }
}

/// Splits `name(1, 2)` into its name and numbers; no parentheses, no numbers.
fn split_call(text: &str) -> Result<(&str, Option<Vec<f64>>), String> {
    let text = text.trim();
    let Some((name, rest)) = text.split_once('(') else {
        return Ok((text, None));
    };
    let Some(inside) = rest.strip_suffix(')') else {
        return Err(format!("\"{text}\" does not end with its closing parenthesis"));
    };
    let numbers = inside
        .split(',')
        .map(|number| match number.trim().parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(value),
            _ => Err(format!("\"{}\" in \"{text}\" is not a finite number", number.trim())),
        })
        .collect::<Result<Vec<f64>, String>>()?;
    Ok((name.trim_end(), Some(numbers)))
}

/// The fraction of the rows, rounded up, at least 1. A product that misses a whole number only by the rounding of
/// the decimal fraction counts as that number: 0.07 of 100 rows is 7 rows, not 8.
fn hot_rows(fraction: f64, rows: u64) -> u64 {
    let exact = fraction * rows as f64;
    let nearest = exact.round();
    let hot = if (exact - nearest).abs() <= nearest * 1e-12 { nearest } else { exact.ceil() };
    (hot as u64).clamp(1, rows)
}

/// A distribution over a known number of rows, ready to draw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeySampler {
    /// Row 1 only; draws nothing from the stream.
    Single,
    /// Every row alike.
    Uniform {
        /// Number of rows.
        rows: u64,
    },
    /// Row = rank.
    Zipfian(Zipfian),
    /// Two uniform ranges.
    Hotspot {
        /// Number of hot rows, which come first.
        hot: u64,
        /// Number of other rows.
        cold: u64,
        /// Probability of a hot row.
        share: f64,
    },
    /// Row = number of rows + 1 - rank.
    Latest {
        /// Number of rows.
        rows: u64,
        /// Rank 1 is the last row.
        age: Zipfian,
    },
}

impl KeySampler {
    /// The next row, 1 to the number of rows.
    #[inline]
    pub fn next(&mut self, random: &mut Random) -> u64 {
        match self {
            KeySampler::Single => 1,
            KeySampler::Uniform { rows } => 1 + random.below(*rows),
            KeySampler::Zipfian(ranks) => ranks.next(random),
            KeySampler::Hotspot { hot, cold, share } => {
                if random.unit() < *share {
                    1 + random.below(*hot)
                } else {
                    1 + *hot + random.below(*cold)
                }
            }
            KeySampler::Latest { rows, age } => *rows + 1 - age.next(random),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Shows what can be written, what is refused with which advice, and how many rows are hot.
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let check = |text: &str, expected: KeyDistribution| {
            assert_eq!(KeyDistribution::parse(text), Ok(expected), "{text}");
            assert_eq!(KeyDistribution::parse(&expected.to_string()), Ok(expected), "{text}");
        };
        check("single", KeyDistribution::Single);
        check(" uniform ", KeyDistribution::Uniform);
        check("latest", KeyDistribution::Latest);
        check("zipfian(1)", KeyDistribution::Zipfian { theta: 1.0 });
        check("zipfian( 0.99 )", KeyDistribution::Zipfian { theta: 0.99 });
        check("hotspot(0.1,0.9)", KeyDistribution::Hotspot { fraction: 0.1, share: 0.9 });
        check("hotspot (0.1, 1)", KeyDistribution::Hotspot { fraction: 0.1, share: 1.0 });
    }

    #[test]
    fn bad_text_gets_advice() {
        let check = |text: &str, advice: &str| {
            let message = KeyDistribution::parse(text).expect_err(text);
            assert!(message.contains(advice), "{text}: {message}");
        };
        check("", "write single, uniform");
        check(
            "zipf(0.9)",
            "\"zipf\" is no key distribution; write single, uniform, zipfian(theta)",
        );
        check("single(1)", "write single alone");
        check("zipfian", "zipfian(0.99)");
        check("zipfian()", "\"\" in \"zipfian()\" is not a finite number");
        check("zipfian(0.9", "closing parenthesis");
        check("zipfian(0)", "above 0 and at most 100");
        check("zipfian(-1)", "above 0");
        check("zipfian(101)", "at most 100");
        check("zipfian(inf)", "finite");
        check("zipfian(1, 2)", "one number");
        check("hotspot(0.1)", "two numbers");
        check("hotspot(1, 0.9)", "above 0 and below 1");
        check("hotspot(0.1, 1.1)", "from 0 to 1");
        check("hotspot(a, 0.9)", "\"a\" in");
    }

    #[test]
    fn hot_rows_are_rounded_up_but_not_by_decimal_error() {
        let check = |fraction, rows, expected| {
            assert_eq!(hot_rows(fraction, rows), expected, "{fraction} of {rows}");
        };
        check(0.07, 100, 7);
        check(0.1, 10, 1);
        check(0.1, 11, 2);
        check(0.001, 5, 1);
        check(0.999, 5, 5);
        check(0.5, 1, 1);
        check(0.1, 100_000_000, 10_000_000);
    }
}
