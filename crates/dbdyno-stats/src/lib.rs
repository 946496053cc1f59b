//! Numbers about numbers: what several measurements of one thing say together, always with how many there were and how
//! far apart they lie. No input, no output, no outside crate. Verdicts are not here: `show` prints spreads only.

/// Several measurements of one quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// How many there are, at least one.
    pub n: usize,
    /// The middle one (of an even number, the mean of the two middle ones).
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Of the finite values among these; `None` if there is none.
    pub fn of(values: &[f64]) -> Option<Summary> {
        let mut sorted: Vec<f64> =
            values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let n = sorted.len();
        let median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
        Some(Summary { n, median, min, max })
    }

    /// Half the distance from smallest to largest, as a share of the median: what `show` prints behind "±". `None` for a
    /// single measurement, which says nothing of its error, and for a median of zero.
    pub fn half_range_share(&self) -> Option<f64> {
        let is_known = self.n > 1 && self.median != 0.0;
        is_known.then(|| (self.max - self.min) / 2.0 / self.median.abs())
    }
}

/// How one quantity relates to another, from measurements of both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Median over median.
    pub ratio: f64,
    /// Smallest over largest: the lowest ratio that single measurements could show.
    pub min: f64,
    /// Largest over smallest: the highest ratio that single measurements could show.
    pub max: f64,
    /// Measurements above and below the line.
    pub n: (usize, usize),
}

impl Ratio {
    /// `a` over `b`; `None` where the lower one has a zero.
    pub fn of(a: Summary, b: Summary) -> Option<Ratio> {
        let is_positive = a.min >= 0.0 && b.min > 0.0;
        is_positive.then(|| Ratio {
            ratio: a.median / b.median,
            min: a.min / b.max,
            max: a.max / b.min,
            n: (a.n, b.n),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f64], expected: Option<(usize, f64, f64, f64, Option<f64>)>) {
        let found =
            Summary::of(values).map(|s| (s.n, s.median, s.min, s.max, s.half_range_share()));
        assert_eq!(found, expected, "{values:?}");
    }

    /// Medians, extremes and spread of small samples.
    #[test]
    fn summaries() {
        check(&[], None);
        check(&[f64::NAN], None);
        check(&[5.0], Some((1, 5.0, 5.0, 5.0, None)));
        check(&[3.0, 1.0, 2.0], Some((3, 2.0, 1.0, 3.0, Some(0.5))));
        check(&[4.0, 1.0], Some((2, 2.5, 1.0, 4.0, Some(0.6))));
        check(&[0.0, 0.0], Some((2, 0.0, 0.0, 0.0, None)));
        check(&[1.0, f64::INFINITY], Some((1, 1.0, 1.0, 1.0, None)));
    }

    /// A ratio carries its outer bounds; nothing is divided by zero.
    #[test]
    fn ratios() {
        let of = |values: &[f64]| Summary::of(values).expect("finite values");
        let ratio = Ratio::of(of(&[4.0, 6.0]), of(&[2.0, 3.0])).expect("positive");
        assert_eq!((ratio.ratio, ratio.min, ratio.max, ratio.n), (2.0, 4.0 / 3.0, 3.0, (2, 2)));
        assert_eq!(Ratio::of(of(&[1.0]), of(&[0.0])), None);
    }
}
