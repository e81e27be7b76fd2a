//! The result of one kernel for one shape.

use crate::measure::Ours;
use host::gemm::{KernelInfo, Schedule};
use serde::{Deserialize, Serialize};

/// The spread of one contender's times in microseconds per launch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Median.
    pub median_us: f64,
    /// 10th percentile.
    pub p10_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
}

impl Times {
    pub(crate) fn of(t: &crate::Timing) -> Self {
        Self { median_us: t.median_us, p10_us: t.p10_us, p90_us: t.p90_us }
    }

    /// Distance from the 10th to the 90th percentile, in percent of the median.
    pub fn spread(&self) -> f64 {
        100.0 * (self.p90_us - self.p10_us) / self.median_us
    }
}

/// The fastest of the kernels that cuBLASLt's heuristic proposes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rival {
    /// Its place among the proposals, from 0.
    pub candidate: usize,
    /// Number of proposals.
    pub candidates: usize,
    /// Measured times.
    #[serde(flatten)]
    pub times: Times,
}

/// The result of one warpipe kernel for one shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The kernel's name.
    pub instance: String,
    /// The kernel's schedule.
    pub schedule: Option<Schedule>,
    /// BM, BN, BK.
    pub tile: [u32; 3],
    /// Time that the picker predicts, in microseconds.
    pub predicted_us: Option<f64>,
    /// Measured times.
    #[serde(flatten)]
    pub times: Times,
    /// The largest relative error.
    pub error: f64,
    /// Whether the errors are below the bound.
    pub right: bool,
    /// Whether the last timed launch gave the same bits as the first launch.
    pub same_bits: bool,
}

impl Run {
    /// Makes the result from a measurement. The error must be below `bound`.
    pub fn new(ours: &Ours, bound: f64) -> Self {
        let kernel = ours.plan.kernel.as_ref();
        Self {
            instance: kernel.map_or_else(|| "none".to_owned(), |k| k.name.clone()),
            schedule: kernel.map(KernelInfo::schedule),
            tile: kernel.map_or([0; 3], |k| k.tile),
            predicted_us: kernel.map(|k| k.predicted_us),
            times: Times::of(&ours.timing),
            error: ours.check.error(),
            right: ours.check.below(bound),
            same_bits: ours.same_bits,
        }
    }

    /// The kernel's name and its schedule.
    pub fn name(&self) -> String {
        self.with_schedule(&self.instance)
    }

    /// The name without its types, and the schedule.
    pub(super) fn short(&self) -> String {
        self.with_schedule(without_types(&self.instance))
    }

    fn with_schedule(&self, name: &str) -> String {
        self.schedule.map_or_else(|| name.to_owned(), |schedule| format!("{name} {schedule}"))
    }

    /// The faults of the kernel's results, as text.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !self.right {
            faults.push(format!("WRONG: error {:.1e}", self.error));
        }
        if !self.same_bits {
            faults.push("bits differ between runs".to_owned());
        }
        faults
    }
}

/// A kernel's name without `gemm` and its types: `128x256_2x1` for `gemm_bf16_bf16_128x256_2x1`.
pub(crate) fn without_types(name: &str) -> &str {
    name.splitn(4, '_').nth(3).unwrap_or(name)
}
