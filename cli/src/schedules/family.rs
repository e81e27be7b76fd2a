//! A kernel with a number of steps, as `--certify` runs it.

use super::Failure;
use host::SimConfig;
use host::sim::{Stats, Trial};

/// A kernel that can be run with any number of steps.
pub trait Family: Sync {
    /// Kernel, and what a step is, for messages.
    fn name(&self) -> String;
    /// Runs the kernel once and compares the result.
    fn run(&self, config: &SimConfig, trial: Trial) -> Result<Stats, Failure>;
}
