//! Shows that every key distribution draws what its formula says, at small and very large numbers of rows.
//!
//! Small numbers of rows are compared bar by bar (Pearson's chi-square), a hundred million rows by the frequency of
//! the first ranks. Seeds are fixed, so a failure repeats; each message names its seed.

use dbdyno_workload::{KeyDistribution, Random, Seed};
use proptest::prelude::*;

const DRAWS: u64 = 400_000;

/// How often each of the rows 1 to `rows` came.
fn histogram(distribution: KeyDistribution, rows: u64, seed: u64) -> Vec<u64> {
    let mut sampler = distribution.sampler(rows);
    let mut random = Random::new(Seed(seed));
    let mut counts = vec![0; rows as usize];
    for _ in 0..DRAWS {
        counts[sampler.next(&mut random) as usize - 1] += 1;
    }
    counts
}

/// Distance of Pearson's chi-square from its mean in standard deviations, by the cube-root approximation of Wilson
/// and Hilferty (1931). Bars expected fewer than ten times are taken together.
fn chi_square_z(counts: &[u64], probabilities: &[f64]) -> f64 {
    let (mut sum, mut bars) = (0.0, 0.0);
    let (mut seen, mut expected) = (0.0, 0.0);
    for (&count, &probability) in counts.iter().zip(probabilities) {
        seen += count as f64;
        expected += probability * DRAWS as f64;
        if expected >= 10.0 {
            sum += (seen - expected) * (seen - expected) / expected;
            bars += 1.0;
            (seen, expected) = (0.0, 0.0);
        }
    }
    let freedom: f64 = bars - 1.0;
    let spread = 2.0 / (9.0 * freedom);
    ((sum / freedom).cbrt() - (1.0 - spread)) / spread.sqrt()
}

fn zipfian_probabilities(rows: u64, theta: f64) -> Vec<f64> {
    let heights: Vec<f64> = (1..=rows).map(|k| (k as f64).powf(-theta)).collect();
    let sum: f64 = heights.iter().sum();
    heights.into_iter().map(|height| height / sum).collect()
}

fn check_shape(distribution: KeyDistribution, probabilities: &[f64]) {
    for seed in 1..=4 {
        let counts = histogram(distribution, probabilities.len() as u64, seed);
        let z = chi_square_z(&counts, probabilities);
        assert!(z.abs() < 4.0, "{distribution}, {} rows, seed {seed}: z = {z}", counts.len());
    }
}

#[test]
fn zipfian_matches_its_formula_bar_by_bar() {
    for theta in [0.01, 0.5, 0.99, 1.0, 1.000_000_001, 1.5, 3.0] {
        for rows in [2, 3, 10, 1000] {
            check_shape(KeyDistribution::Zipfian { theta }, &zipfian_probabilities(rows, theta));
        }
    }
}

#[test]
fn latest_is_zipfian_from_the_last_row() {
    let mut probabilities = zipfian_probabilities(1000, 0.99);
    probabilities.reverse();
    check_shape(KeyDistribution::Latest, &probabilities);
}

#[test]
fn uniform_and_hotspot_match_their_formula() {
    check_shape(KeyDistribution::Uniform, &[1.0 / 1000.0; 1000]);
    let mut probabilities = vec![0.9 / 100.0; 100];
    probabilities.extend([0.1 / 900.0; 900]);
    check_shape(KeyDistribution::Hotspot { fraction: 0.1, share: 0.9 }, &probabilities);
}

#[test]
fn hotspot_sends_its_share_to_the_hot_rows() {
    for (fraction, share) in [(0.1, 0.9), (0.01, 0.5), (0.5, 0.0), (0.2, 1.0)] {
        for seed in 1..=4 {
            let counts = histogram(KeyDistribution::Hotspot { fraction, share }, 1000, seed);
            let hot: u64 = counts[..(fraction * 1000.0) as usize].iter().sum();
            let error = hot as f64 / DRAWS as f64 - share;
            let limit = 4.0 * (share * (1.0 - share) / DRAWS as f64).sqrt();
            assert!(error.abs() <= limit, "hotspot({fraction}, {share}), seed {seed}: {error}");
        }
    }
}

/// The sum of k^-theta for k = 1 to n: a thousand terms, then Euler and Maclaurin's formula.
fn zeta(n: f64, theta: f64) -> f64 {
    let first = 1000.0;
    let head: f64 = (1..1000).map(|k| f64::from(k).powf(-theta)).sum();
    let area = if theta == 1.0 {
        (n / first).ln()
    } else {
        (n.powf(1.0 - theta) - first.powf(1.0 - theta)) / (1.0 - theta)
    };
    head + area
        + (first.powf(-theta) + n.powf(-theta)) / 2.0
        + theta * (first.powf(-theta - 1.0) - n.powf(-theta - 1.0)) / 12.0
}

#[test]
fn zipfian_over_a_hundred_million_rows_has_the_right_first_ranks() {
    let rows = 100_000_000;
    for theta in [0.5, 0.99, 1.0, 1.5] {
        let sum = zeta(rows as f64, theta);
        for seed in 1..=2 {
            let mut sampler = KeyDistribution::Zipfian { theta }.sampler(rows);
            let mut random = Random::new(Seed(seed));
            // Ranks 1 to 4 alone, then everything up to 10, 1000 and a million.
            let bounds = [1, 2, 3, 4, 10, 1000, 1_000_000];
            let mut up_to = [0u64; 7];
            for _ in 0..DRAWS {
                let row = sampler.next(&mut random);
                assert!((1..=rows).contains(&row), "theta {theta}, seed {seed}: {row}");
                for (count, bound) in up_to.iter_mut().zip(bounds) {
                    *count += u64::from(row <= bound);
                }
            }
            for (count, bound) in up_to.into_iter().zip(bounds) {
                let below: f64 = (1..=bound).map(|k| (k as f64).powf(-theta)).sum();
                let expected = below / sum;
                let error = count as f64 / DRAWS as f64 - expected;
                let limit = 4.5 * (expected * (1.0 - expected) / DRAWS as f64).sqrt();
                assert!(
                    error.abs() <= limit + 1e-9,
                    "theta {theta}, seed {seed}, up to {bound}: {error}"
                );
            }
        }
    }
}

#[test]
fn one_row_is_always_row_one() {
    for text in ["single", "uniform", "zipfian(0.99)", "zipfian(1)", "hotspot(0.1, 0.1)", "latest"]
    {
        let distribution = KeyDistribution::parse(text).expect("it is valid");
        let mut sampler = distribution.sampler(1);
        let mut random = Random::new(Seed(1));
        assert!((0..1000).all(|_| sampler.next(&mut random) == 1), "{text}");
    }
}

fn any_distribution() -> impl Strategy<Value = KeyDistribution> {
    prop_oneof![
        Just(KeyDistribution::Single),
        Just(KeyDistribution::Uniform),
        Just(KeyDistribution::Latest),
        // Exponents far from 1 and within a hair of it.
        (1e-12..=100.0).prop_map(|theta| KeyDistribution::Zipfian { theta }),
        (-1e-7..1e-7).prop_map(|gap: f64| KeyDistribution::Zipfian { theta: 1.0 + gap }),
        (1e-12..0.999_999, 0.0..=1.0)
            .prop_map(|(fraction, share)| KeyDistribution::Hotspot { fraction, share }),
    ]
}

proptest! {
    #[test]
    fn rows_stay_in_range(
        distribution in any_distribution(),
        rows in prop_oneof![1..20u64, 1..1u64 << 40],
        seed in any::<u64>(),
    ) {
        let mut sampler = distribution.sampler(rows);
        let mut random = Random::new(Seed(seed));
        for _ in 0..200 {
            let row = sampler.next(&mut random);
            prop_assert!((1..=rows).contains(&row), "{distribution} gave {row}");
        }
    }

    #[test]
    fn display_is_read_back(distribution in any_distribution()) {
        prop_assert_eq!(KeyDistribution::parse(&distribution.to_string()), Ok(distribution));
    }

    #[test]
    fn any_text_is_refused_or_read_without_panic(text in "(single|zipfian|hotspot)?[()., 0-9a-z-]{0,12}") {
        if let Ok(distribution) = KeyDistribution::parse(&text) {
            prop_assert_eq!(KeyDistribution::parse(&distribution.to_string()), Ok(distribution));
        }
    }
}
