//! The shapes of the benchmark suites.

use super::line::Shape;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::ops::RangeInclusive;

/// A set of related shapes.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// Name of the suite.
    pub name: &'static str,
    /// Origin of the shapes.
    pub about: &'static str,
    /// The report marks ratios to cuBLASLt below this.
    pub floor: f64,
    /// M, N and K.
    pub shapes: &'static [Shape],
}

/// The floor of shapes outside of all suites.
pub const FLOOR: f64 = 0.97;

/// The floor of a suite's ratios.
pub fn floor(suite: &str) -> f64 {
    SUITES.iter().find(|s| s.name == suite).map_or(FLOOR, |s| s.floor)
}

/// All suites.
pub const SUITES: &[Suite] = &[
    Suite {
        name: "square",
        about: "M = N = K, from a few tiles to sizes that the power limit bounds",
        floor: FLOOR,
        shapes: SQUARE,
    },
    Suite {
        name: "llm",
        about: "layers of a training step or a prefill: 2048 to 8192 tokens",
        floor: FLOOR,
        shapes: LLM,
    },
    Suite {
        name: "decode",
        about: "1 to 256 tokens times a layer's weights, bound by memory",
        floor: 0.95,
        shapes: DECODE,
    },
    Suite {
        name: "ragged",
        about: "residues in every dimension, rows that TMA cannot access in place, long and flat shapes",
        floor: FLOOR,
        shapes: RAGGED,
    },
];

/// Name of the suite of random shapes.
pub const RANDOM: &str = "random";
/// N and K of random shapes are multiples of this, so that TMA reads and writes their rows of 16-bit elements in place.
const STEP: u64 = 8;

/// A suite of random shapes, for results that do not depend on shapes that somebody chose.
///
/// M, N and K are log-uniform: each power of two is as likely as any other. M is any number, N and K are multiples
/// of `step`. The same settings give the same shapes on every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    /// Number of shapes.
    pub shapes: usize,
    /// Seed of the shapes.
    pub seed: u64,
    /// Least and largest M.
    pub m: RangeInclusive<u64>,
    /// Least and largest N.
    pub n: RangeInclusive<u64>,
    /// Least and largest K.
    pub k: RangeInclusive<u64>,
    /// N and K are multiples of this: 8 for operands of 16 bits, 16 for those of 8 bits.
    pub step: u64,
}

impl Default for Random {
    fn default() -> Self {
        let (n, k) = (128..=32768, 128..=32768);
        Self { shapes: 200, seed: 1, m: 1..=16384, n, k, step: STEP }
    }
}

impl Random {
    /// Draws the shapes. More shapes of one seed begin with those of fewer.
    pub fn draw(&self) -> Vec<Shape> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let mut draw = |range: &RangeInclusive<u64>, step: u64| {
            let step = step.max(1);
            // 53 bits, as many as an f64 has.
            let part = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            let (least, most) = ((*range.start()).max(1) as f64, (*range.end()).max(1) as f64);
            let size = (least.ln() + part * (most.ln() - least.ln())).exp().round() as u64;
            let rounded = (size + step / 2) / step * step;
            let (least, most) = (range.start().next_multiple_of(step), range.end() / step * step);
            rounded.min(most).max(least).max(step)
        };
        (0..self.shapes)
            .map(|_| shape(draw(&self.m, 1), draw(&self.n, self.step), draw(&self.k, self.step)))
            .collect()
    }
}

const fn shape(m: u64, n: u64, k: u64) -> Shape {
    Shape { m, n, k }
}

const SQUARE: &[Shape] = &[
    shape(512, 512, 512),
    shape(1024, 1024, 1024),
    shape(2048, 2048, 2048),
    shape(3072, 3072, 3072),
    shape(4096, 4096, 4096),
    shape(6144, 6144, 6144),
    shape(8192, 8192, 8192),
    shape(12288, 12288, 12288),
    shape(16384, 16384, 16384),
];

const LLM: &[Shape] = &[
    shape(2048, 4096, 4096),
    shape(2048, 14336, 4096),
    shape(2048, 4096, 14336),
    shape(2048, 8192, 28672),
    shape(2048, 28672, 8192),
    shape(2048, 7168, 2048),
    shape(2048, 2112, 7168),
    shape(2048, 7168, 16384),
    shape(4096, 4096, 4096),
    shape(4096, 14336, 4096),
    shape(4096, 4096, 14336),
    shape(4096, 8192, 28672),
    shape(4096, 28672, 8192),
    shape(4096, 7168, 2048),
    shape(4096, 2112, 7168),
    shape(4096, 7168, 16384),
    shape(8192, 4096, 4096),
    shape(8192, 14336, 4096),
    shape(8192, 4096, 14336),
    shape(8192, 8192, 28672),
    shape(8192, 28672, 8192),
    shape(8192, 7168, 2048),
    shape(8192, 2112, 7168),
    shape(8192, 7168, 16384),
];

const DECODE: &[Shape] = &[
    shape(1, 4096, 4096),
    shape(8, 4096, 4096),
    shape(16, 4096, 4096),
    shape(32, 4096, 4096),
    shape(64, 4096, 4096),
    shape(128, 4096, 4096),
    shape(256, 4096, 4096),
    shape(1, 14336, 4096),
    shape(8, 14336, 4096),
    shape(16, 14336, 4096),
    shape(32, 14336, 4096),
    shape(64, 14336, 4096),
    shape(128, 14336, 4096),
    shape(256, 14336, 4096),
    shape(1, 7168, 18432),
    shape(8, 7168, 18432),
    shape(16, 7168, 18432),
    shape(32, 7168, 18432),
    shape(64, 7168, 18432),
    shape(128, 7168, 18432),
    shape(256, 7168, 18432),
    shape(1, 8192, 8192),
    shape(8, 8192, 8192),
    shape(16, 8192, 8192),
    shape(32, 8192, 8192),
    shape(64, 8192, 8192),
    shape(128, 8192, 8192),
    shape(256, 8192, 8192),
];

const RAGGED: &[Shape] = &[
    shape(5000, 3000, 1000),
    shape(1111, 2222, 3336),
    shape(8191, 8193, 4104),
    shape(65536, 256, 1024),
    shape(256, 65536, 1024),
    shape(300, 520, 7200),
    shape(8192, 8192, 512),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn random_shapes_are_in_range_spread_and_always_the_same() {
        let random = Random { shapes: 300, seed: 7, m: 3..=100, n: 100..=5000, k: 8..=8, step: 8 };
        let shapes = random.draw();
        assert!(shapes.iter().all(|s| (3..=100).contains(&s.m)), "{shapes:?}");
        // 100 is no multiple of 8; the least that is allowed is 104.
        assert!(shapes.iter().all(|s| (104..=5000).contains(&s.n) && s.n % 8 == 0 && s.k == 8));
        // Half of them below the geometric mean of the ends.
        let below = shapes.iter().filter(|s| s.n < 707).count();
        assert!((110..190).contains(&below), "{below}");
        assert!(shapes.iter().any(|s| s.m % 2 == 1));
        assert_eq!(Random { shapes: 20, ..random.clone() }.draw(), shapes[..20]);
        assert_ne!(Random { seed: 8, ..random }.draw(), shapes);
        // Recorded data name only the seed, so the shapes of a seed must not change.
        assert_eq!(Random::default().draw()[0], shape(50, 200, 3496));
    }

    #[test]
    fn no_suite_has_a_shape_twice_and_every_floor_is_a_ratio() {
        for suite in SUITES {
            let different: BTreeSet<_> = suite.shapes.iter().collect();
            assert_eq!(different.len(), suite.shapes.len(), "{}", suite.name);
            assert!(suite.shapes.iter().all(|s| s.m > 0 && s.n > 0 && s.k > 0));
        }
        assert_eq!(SUITES.iter().map(|s| s.shapes.len()).collect::<Vec<_>>(), [9, 24, 28, 7]);
        assert!(SUITES.iter().all(|s| (0.9..1.0).contains(&s.floor)));
    }
}
