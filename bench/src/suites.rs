//! The shapes of the benchmark suites.

use super::line::Shape;

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
