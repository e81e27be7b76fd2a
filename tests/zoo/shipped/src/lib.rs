//! Bugs that shipped elsewhere, each rebuilt as a small kernel: with the bug if `bug`, otherwise without.
//!
//! The zoo runs the bodies on the SM model and checks the `//~` comments (`tests/zoo/shipped.rs`). The same
//! bodies are kernels of a device image, which `tests/zoo/gpu` launches, so that other tools can be tried on
//! them. `bug` is a parameter of the launch, so that both variants are one kernel.
//!
//! The kernels break the contracts of `isa`. Each SAFETY comment says which one.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

#[macro_use]
mod entry;
pub mod world;

pub mod clusters;
pub mod dependents;
pub mod hangs;
pub mod races;
pub mod rings;

#[cfg(not(target_arch = "nvptx64"))]
pub use entry::{Entry, Family};

/// The families, in the order of docs/zoo.md.
#[cfg(not(target_arch = "nvptx64"))]
pub const FAMILIES: &[Family] =
    &[hangs::FAMILY, rings::FAMILY, races::FAMILY, clusters::FAMILY, dependents::FAMILY];
