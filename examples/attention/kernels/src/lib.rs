//! Attention of your own: a small kernel in steps, and warpipe's kernel with a bias on its scores.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
#![forbid(unsafe_code)]

pub mod alibi;
pub mod small;
