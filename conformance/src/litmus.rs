//! The litmus programs and what the manual says of each.
//!
//! Chapter names are those of the PTX manual.

mod barriers;
mod bulk;
mod clusters;
mod element_types;
mod launches;
mod majors;
mod math;
mod mbarrier;
mod memory;
mod places;
mod registers;
mod small_floats;
mod tensor;
mod tensor_maps;
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

/// The model's rule that a program breaks, and what the chip makes of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The rule's code.
    pub code: &'static str,
    /// The error with which the chip ends the context; none: it goes on, and its values are recorded.
    pub error: Option<&'static str>,
}

impl Refusal {
    /// The model refuses what the chip runs.
    pub const fn rule(code: &'static str) -> Self {
        Self { code, error: None }
    }
    /// Model and chip refuse.
    pub const fn both(code: &'static str, error: &'static str) -> Self {
        Self { code, error: Some(error) }
    }
}

impl Litmus {
    /// The error with which it ends the chip's context, if it does: it needs a process of its own.
    pub fn fatal(&self) -> Option<&'static str> {
        self.refused.and_then(|refusal| refusal.error)
    }
}

/// Every litmus of a Hopper, in the order of the report. Those of Blackwell are [`crate::blackwell::ALL`].
pub fn all() -> Vec<Litmus> {
    [
        mbarrier::ALL,
        transactions::ALL,
        barriers::ALL,
        clusters::ALL,
        bulk::ALL,
        tensor::ALL,
        tensor_stores::ALL,
        tensor_maps::ALL,
        wgmma::ALL,
        majors::ALL,
        element_types::ALL,
        registers::ALL,
        warp::ALL,
        math::ALL,
        small_floats::ALL,
        places::ALL,
        memory::ALL,
        launches::ALL,
    ]
    .concat()
}
