#![doc = include_str!("../README.md")]
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch, stdarch_nvptx))]

// The attributes and derives of warpipe-macros name this crate by its own name, here as elsewhere.
extern crate self as warpipe_isa;

#[macro_use]
mod op;

pub mod barrier;
pub mod cluster;
pub mod clusterlaunchcontrol;
pub mod cp_async;
pub mod cp_async_bulk;
pub mod cvt;
pub mod debug;
mod e2m1;
pub mod fence;
pub mod global;
pub mod griddepcontrol;
pub mod kernel;
pub mod math;
pub mod matrix;
pub mod mbarrier;
pub mod misc;
pub mod setmaxnreg;
pub mod shared;
pub mod slice;
pub mod sreg;
#[cfg(all(feature = "stress", target_arch = "nvptx64"))]
mod stress;
pub mod tcgen05;
pub mod tensormap;
mod tf32;
pub mod thread;
pub mod trace;
pub mod warp;
#[cfg(target_arch = "nvptx64")]
mod watchdog;
pub mod wgmma;
mod word;

pub use e2m1::E2m1x2;
pub use tf32::Tf32;
pub use warpipe_macros::{device, forceinline, kernel};
pub use word::Word;

/// A panic on the device ends the grid with an error. It prints nothing.
#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    misc::trap()
}
