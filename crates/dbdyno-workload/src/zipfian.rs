//! Zipfian ranks over exactly N items: rank k comes with probability proportional to 1 / k^theta.
//!
//! Rejection-inversion after W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from monotone
//! discrete distributions", ACM TOMACS 6(3), 1996. Set-up costs the same for any N, unlike the sum over all items
//! that other benchmarks need, and any theta above 0 works, 1 included. Start with [`Zipfian::new`].

use crate::rng::Random;

/// Draws ranks 1 to N. Rank 1 is the most popular.
///
/// The idea: draw from the continuous density x^-theta between 1/2 and N + 1/2 by inverting its integral, round to
/// the nearest whole number, and reject the few draws by which the area around a whole number k exceeds k^-theta.
/// Fewer than one draw in twenty is rejected, whatever N and theta. Logarithm and exponential come from the platform,
/// so another C library may round the last digit differently and, rarely, give another rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Zipfian {
    items: u64,
    theta: f64,
    /// Integral up to 3/2, less the height 1 of the first bar: where the drawn area ends.
    area_first: f64,
    /// Integral up to N + 1/2: where the drawn area begins.
    area_last: f64,
    /// A draw this close above its whole number is accepted without computing the integral again.
    squeeze: f64,
}

impl Zipfian {
    /// Ranks 1 to `items` with exponent `theta`. Both must be above 0.
    #[must_use]
    pub fn new(items: u64, theta: f64) -> Zipfian {
        debug_assert!(items > 0 && theta > 0.0 && theta.is_finite());
        Zipfian {
            items,
            theta,
            area_first: integral(1.5, theta) - 1.0,
            area_last: integral(items as f64 + 0.5, theta),
            squeeze: 2.0 - inverse_integral(integral(2.5, theta) - height(2.0, theta), theta),
        }
    }

    /// The next rank, 1 to the number of items.
    // Not inlined: its registers and calls would slow down the other distributions in the request loop.
    #[inline(never)]
    pub fn next(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.area_last + random.unit() * (self.area_first - self.area_last);
            let position = inverse_integral(area, self.theta);
            // The cast saturates, and rounding errors at both ends stay within the items.
            let rank = ((position + 0.5) as u64).clamp(1, self.items);
            let bar = rank as f64;
            if bar - position <= self.squeeze
                || area >= integral(bar + 0.5, self.theta) - height(bar, self.theta)
            {
                return rank;
            }
        }
    }
}

/// The density x^-theta.
fn height(x: f64, theta: f64) -> f64 {
    (-theta * x.ln()).exp()
}

/// The integral of the density from 1 to x: (x^(1 - theta) - 1) / (1 - theta), which tends to ln x as theta nears 1.
fn integral(x: f64, theta: f64) -> f64 {
    let log = x.ln();
    log * exponential_ratio((1.0 - theta) * log)
}

/// The x at which [`integral`] reaches this area.
fn inverse_integral(area: f64, theta: f64) -> f64 {
    // Below -1 only by rounding, where the true x is beyond any number of items.
    let scaled = (area * (1.0 - theta)).max(-1.0);
    (area * logarithm_ratio(scaled)).exp()
}

/// (e^x - 1) / x, continued through 0.
fn exponential_ratio(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

/// ln(1 + x) / x, continued through 0.
fn logarithm_ratio(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}
