//! Why a call is refused: one line with the numbers, and the Python exception that it becomes.

use crate::layout::{Element, Place};

/// A call that is refused before anything runs.
#[derive(thiserror::Error, Clone, Debug, PartialEq)]
pub enum Refusal {
    /// Too few or too many dimensions.
    #[error("{name} has {have} dimensions; {need} are needed")]
    Dimensions {
        /// The argument.
        name: &'static str,
        /// Its dimensions.
        have: usize,
        /// How many are right.
        need: &'static str,
    },
    /// The sizes do not belong together.
    #[error("{name} {shape}: {what}")]
    Shape {
        /// The argument.
        name: &'static str,
        /// Its shape.
        shape: String,
        /// What would be right.
        what: String,
    },
    /// Strides that the GEMM cannot use.
    #[error("{name} {shape} with strides {strides}: {what}")]
    Strides {
        /// The argument.
        name: &'static str,
        /// Its shape.
        shape: String,
        /// Its strides in elements.
        strides: String,
        /// What is wrong, and what would be right.
        what: &'static str,
    },
    /// The first element is not aligned.
    #[error(
        "{name} starts at {addr:#x}, which is {over} bytes past a multiple of 16; TMA reads and writes only from there"
    )]
    Misaligned {
        /// The argument.
        name: &'static str,
        /// Its address.
        addr: u64,
        /// Bytes past the last multiple.
        over: u64,
    },
    /// An element type that this argument cannot have.
    #[error("{name} has elements of type {have}; {need} is right")]
    Element {
        /// The argument.
        name: &'static str,
        /// Its type.
        have: Element,
        /// The right types.
        need: String,
    },
    /// The tensors are in different memories.
    #[error(
        "{name} is on {have} and {first} is on {need}; all tensors of a call must be on one device"
    )]
    Place {
        /// The argument.
        name: &'static str,
        /// Where it is.
        have: Place,
        /// The first operand.
        first: &'static str,
        /// Where that is.
        need: Place,
    },
    /// Neither the host nor a CUDA device.
    #[error(
        "{name} is on {place}; tensors must be on a CUDA device, or on the host for the SM model"
    )]
    Device {
        /// The first operand.
        name: &'static str,
        /// Where it is.
        place: Place,
    },
    /// The result would overwrite an operand.
    #[error(
        "out occupies bytes {out_start:#x}..{out_end:#x}, which overlap {name} at {start:#x}..{end:#x}"
    )]
    Alias {
        /// The operand.
        name: &'static str,
        /// Its first byte.
        start: u64,
        /// The byte behind it.
        end: u64,
        /// First byte of the result.
        out_start: u64,
        /// The byte behind the result.
        out_end: u64,
    },
    /// Its library forbids to write it.
    #[error("out is read-only")]
    ReadOnly,
    /// A factor without the operand that it scales.
    #[error("beta is {beta} and there is no c")]
    Beta {
        /// The factor.
        beta: f32,
    },
    /// Lengths that do not belong to the tensors.
    #[error("{name} {what}")]
    Lengths {
        /// The argument.
        name: String,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// An option with a value that it cannot have.
    #[error("{name} is {have}; {need} is right")]
    Option {
        /// The argument.
        name: &'static str,
        /// Its value.
        have: String,
        /// The right values.
        need: &'static str,
    },
    /// A plan is called with a product of another kind.
    #[error("the plan is for {planned}, and the call is {called}")]
    Plan {
        /// What was planned.
        planned: String,
        /// What was asked.
        called: String,
    },
}

impl Refusal {
    /// Whether it is a `TypeError`; otherwise it is a `ValueError`.
    pub fn is_type(&self) -> bool {
        matches!(self, Self::Element { .. })
    }
}
