//! Every litmus on the model, judged by the manual, and on a GPU where there is one, compared value
//! by value with the model.
#![allow(missing_docs)]

use conformance::report::{OnModel, ends_on_chip, on_chip, on_model, table};
use conformance::{Bench, all};
use host::Device;
use std::io::Write;
use std::process::Command;

/// A line that the test harness does not swallow.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Schedules of the model.
const SEEDS: u64 = 3;

#[test]
fn the_model_agrees_with_the_manual() {
    let mut wrong = Vec::new();
    let (mut count, mut refused) = (0, 0);
    for litmus in all() {
        for seed in 0..SEEDS {
            match on_model(&litmus, seed) {
                Ok(OnModel::Ran(log)) if seed == 0 => {
                    say(&format!("{}: {} values", litmus.name, log.seen.len()));
                    count += log.seen.len();
                }
                Ok(OnModel::Refused(code)) if seed == 0 => {
                    say(&format!("{}: reported as {}", litmus.name, code.code));
                    refused += 1;
                }
                Ok(_) => {}
                Err(line) => wrong.push(line),
            }
        }
    }
    say(&format!("{count} values on the model; {refused} programs beyond the rules reported"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The GPU with the litmus kernels; none where there is none, which the test says.
fn chip(test: &str) -> Option<Bench> {
    match Device::cuda(0).and_then(Bench::new) {
        Ok(bench) => Some(bench),
        Err(why) => {
            let required = std::env::var_os("WARPIPE_REQUIRE_GPU").is_some_and(|v| v == "1");
            assert!(!required, "WARPIPE_REQUIRE_GPU=1: {why}");
            say(&format!("{test}: skipped, {why}"));
            None
        }
    }
}

/// Names the litmus that a process of its own runs.
const ALONE: &str = "WARPIPE_LITMUS_ALONE";

/// Each in a process of its own, for none of them leaves a context behind.
#[test]
fn the_chip_ends_what_it_refuses() {
    let Some(chip) = chip("the_chip_ends_what_it_refuses") else { return };
    let name = std::env::var(ALONE).ok();
    for litmus in all() {
        let Some(error) = litmus.fatal() else { continue };
        if name.as_deref() == Some(litmus.name) {
            let row = ends_on_chip(&litmus, &chip, error).unwrap_or_else(|e| panic!("{e}"));
            return say(&row.line());
        }
        if name.is_none() {
            let status = Command::new(std::env::current_exe().expect("this program"))
                .args(["--exact", "conformance::the_chip_ends_what_it_refuses"])
                .env(ALONE, litmus.name)
                .status()
                .expect("a child");
            assert!(status.success(), "{}: {status}", litmus.name);
        }
    }
}

#[test]
fn the_chip_agrees_with_the_model() {
    let Some(chip) = chip("the_chip_agrees_with_the_model") else { return };
    let mut rows = Vec::new();
    for litmus in all().into_iter().filter(|litmus| litmus.fatal().is_none()) {
        let row = on_chip(&litmus, &chip).unwrap_or_else(|e| panic!("{e}"));
        say(&row.line());
        rows.push(row);
    }
    say(&table(&rows));
    let wrong: Vec<_> =
        rows.iter().filter(|r| r.comparison.disagreements > 0).map(|r| r.name).collect();
    assert!(wrong.is_empty(), "chip and model disagree: {}", wrong.join("; "));
}
