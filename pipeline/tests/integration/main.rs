//! Kernels on the pipeline, run by the SM model, in one program: each module is a subject.
//!
//! tests/compile_fail.rs is a program of its own: `cargo xtask mutate` builds it alone, of source that
//! these tests would refuse, and it needs a toolchain where it runs.

extern crate warpipe_pipeline as pipeline;

#[path = "../common/mod.rs"]
mod common;
#[path = "../ui/support/mod.rs"]
mod support;

mod by_columns;
mod certify;
mod certify_pair_scales;
mod certify_pairs;
mod certify_umma;
mod cluster_barrier;
mod copy;
mod cp_async;
mod dependent;
mod element_types;
mod explore;
mod facts;
mod in_turn;
mod mailbox;
mod misuses;
mod order;
mod partials;
mod planted;
mod raw;
mod sequence;
mod store;
mod throttle;
mod try_acquire;
mod ui_ok;
mod umma_written;
mod written;
