//! A model of a Hopper SM that runs kernels written in Rust on any CPU, and finds what breaks the
//! rules of its barriers, copies and tensor cores.
//!
//! Each CUDA thread is a coroutine. The threads of a cluster of CTAs run on one OS thread, one at a time,
//! and a seed decides every choice of their scheduler. Asynchronous work (TMA, bulk stores, `cp.async`)
//! lands at a moment that the scheduler draws, from at once to as late as possible. A run ends in
//! [`Stats`] or in a [`Report`]. The report names the [`Rule`] that was broken, the thread, the line of
//! the kernel, and the state of the barriers around it.
//!
//! [`ops`] has the instructions: what `isa` calls on the host, with its module paths and names.
//!
//! ```
//! use warpipe_sim::{Config, GlobalMemory, Grid, ops};
//!
//! let memory = GlobalMemory::new();
//! let out = memory.alloc(64 * 4);
//! let grid = Grid { grid: [2, 1, 1], block: [32, 1, 1], cluster: [1, 1, 1], min_ctas: 1, smem_bytes: 0, name: "squares" };
//! warpipe_sim::launch(&Config::default(), &memory, &grid, &|| {
//!     let i = ops::thread::block_idx_x() * 32 + ops::thread::thread_idx_x();
//!     ops::global::st((out + u64::from(i) * 4) as *mut u32, i * i);
//! })
//! .unwrap();
//! let mut nine = [0; 4];
//! memory.read(out + 3 * 4, &mut nine).unwrap();
//! assert_eq!(u32::from_le_bytes(nine), 9);
//! ```
//!
#![doc = include_str!("../README.md")]
#![cfg_attr(test, allow(clippy::float_cmp))] // Tests of arithmetic that is exact.

mod barrier;
mod certify;
mod cluster;
mod config;
mod copy;
mod drive;
mod engine;
mod exec;
mod explore;
mod finding;
mod grid;
mod memory;
pub mod ops;
mod protocol;
mod race;
mod schedule;
mod tensor;
pub mod trace;
mod types;
mod walk;
mod warp;
mod wgmma;

pub use certify::{Certificate, Limits, Refusal, Trial, certify};
pub use config::{Config, Progress, Stats};
pub use drive::launch::{launch, launch_all};
pub use drive::run::Launch;
pub use explore::{Explored, Finding, Strategy, explore};
pub use finding::report::{BarrierState, Report, SourceLine, StepLine, ThreadGroup, ThreadPlace};
pub use finding::rule::Rule;
pub use memory::global::{GlobalError, GlobalMemory};
pub use schedule::plan::{Schedule, ScheduleError};
pub use types::grid::Grid;
pub use types::tensor_map;
