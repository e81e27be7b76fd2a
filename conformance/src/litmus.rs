//! The litmus programs and what the manual says of each.
//!
//! Chapter names are those of the PTX manual.

mod barriers;
mod bulk;
mod clusters;
mod mbarrier;
mod memory;
mod places;
mod tensor;
mod tensor_stores;
mod transactions;
mod warp;
mod wgmma;
mod wgmma_layout;

use crate::bench::Bench;
use crate::log::Log;
use host::Error;

/// A litmus program.
#[derive(Clone, Copy)]
pub struct Litmus {
    /// Its name: chapter, then subject.
    pub name: &'static str,
    /// What the manual says, in our words.
    pub says: &'static str,
    /// Runs it on a device, and pairs what it saw with what is allowed.
    pub run: fn(&Bench, &mut Log) -> Result<(), Error>,
    /// Programs beyond the rules: what the model says instead of running them.
    pub refused: Option<Refusal>,
}

/// The model's rule that a program breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal(pub &'static str);

/// Every litmus, in the order of the report.
pub fn all() -> Vec<Litmus> {
    [
        mbarrier::ALL,
        transactions::ALL,
        barriers::ALL,
        clusters::ALL,
        bulk::ALL,
        tensor::ALL,
        tensor_stores::ALL,
        wgmma::ALL,
        warp::ALL,
        places::ALL,
        memory::ALL,
    ]
    .concat()
}
