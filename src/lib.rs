//! warpipe: pipeline templates for Hopper GPUs in safe Rust.
