//! Logs against the manual, and a chip's log against the model's.

use crate::log::{Allowed, Log};

/// Findings that are named; the rest are counted.
const NAMED: usize = 8;

/// What comparing two logs gave.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Values compared.
    pub compared: usize,
    /// Values of the chip that the manual does not allow, or that differ from the model's where the
    /// manual allows one value.
    pub disagreements: usize,
    /// The first of them, in words.
    pub named: Vec<String>,
    /// Values that differ, both allowed.
    pub both_allowed: usize,
    /// The largest difference between the chip's floats and the model's, where a neighbourhood is
    /// allowed.
    pub largest: Option<f64>,
    /// The chip's largest distance from the exact result, as a part of what is allowed.
    pub of_bound: Option<f64>,
}

/// Values that the manual does not allow: how many, and the first of them in words.
pub fn broken(log: &Log) -> (usize, Vec<String>) {
    let wrong: Vec<_> = log.seen.iter().filter(|s| !s.allowed.holds(s.have)).collect();
    let named = wrong
        .iter()
        .take(NAMED)
        .map(|s| format!("{}: {:#x}, should be {}", log.place(s), s.have, s.allowed.describe()));
    (wrong.len(), named.collect())
}

/// Compares every value.
///
/// # Panics
/// If the logs are of different litmuses.
pub fn compare(model: &Log, chip: &Log) -> Comparison {
    assert_eq!(model.seen.len(), chip.seen.len(), "logs of one litmus");
    let mut out = Comparison::default();
    for (m, c) in model.seen.iter().zip(&chip.seen) {
        if m.allowed == Allowed::Any {
            continue;
        }
        out.compared += 1;
        if let Allowed::Near { want, bound } = c.allowed {
            let [m, c] = [m, c].map(|s| f64::from(f32::from_bits(s.have)));
            let worst = |old: Option<f64>, new: f64| Some(old.map_or(new, |old| old.max(new)));
            out.largest = worst(out.largest, (m - c).abs());
            out.of_bound = worst(out.of_bound, (c - want).abs() / bound);
        }
        if c.allowed.holds(c.have) {
            let same = m.have == c.have;
            out.both_allowed += usize::from(!same);
            continue;
        }
        out.disagreements += 1;
        if out.named.len() < NAMED {
            out.named.push(format!(
                "{}: chip {:#x}, model {:#x}, manual {}",
                chip.place(c),
                c.have,
                m.have,
                c.allowed.describe()
            ));
        }
    }
    out
}
