//! A kernel with a fault and its twin without: the one is found under every seed, the other silent.

use super::{Shape, run_on};
use sim::{GlobalMemory, Report, Rule};

/// The kernel is told whether to be right.
pub fn twins(rule: Rule, shape: Shape, kernel: impl Fn(bool) + Sync) -> Report {
    twins_on(&GlobalMemory::new(), rule, shape, kernel)
}

pub fn twins_on(
    memory: &GlobalMemory,
    rule: Rule,
    shape: Shape,
    kernel: impl Fn(bool) + Sync,
) -> Report {
    silent_on(memory, shape, || kernel(true));
    found_on(memory, rule, shape, || kernel(false))
}

pub fn silent(shape: Shape, kernel: impl Fn() + Sync) {
    silent_on(&GlobalMemory::new(), shape, kernel);
}

pub fn silent_on(memory: &GlobalMemory, shape: Shape, kernel: impl Fn() + Sync) {
    for seed in 0..100 {
        run_on(memory, seed, shape, &kernel).unwrap_or_else(|r| panic!("{r}"));
    }
}

pub fn found(rule: Rule, shape: Shape, kernel: impl Fn() + Sync) -> Report {
    found_on(&GlobalMemory::new(), rule, shape, kernel)
}

/// Gives one of the reports.
pub fn found_on(
    memory: &GlobalMemory,
    rule: Rule,
    shape: Shape,
    kernel: impl Fn() + Sync,
) -> Report {
    let mut one = None;
    for seed in 0..40 {
        let report = run_on(memory, seed, shape, &kernel)
            .expect_err(&format!("{} is not found with seed {seed}", rule.code()));
        assert_eq!(report.rule, rule, "seed {seed}\n{report}");
        assert!(report.at.is_some() && report.other.is_some(), "two sides\n{report}");
        one = Some(*report);
    }
    one.expect("forty runs")
}
