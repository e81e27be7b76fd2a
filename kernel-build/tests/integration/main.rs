//! Device builds, in one program: each module is a subject. All of them run cargo.

extern crate warpipe_kernel_build as kernel_build;

mod archs;
mod device;
mod embed;
