#![doc = include_str!("../README.md")]
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch, stdarch_nvptx))]

#[cfg(target_arch = "nvptx64")]
#[macro_use]
mod op;

#[cfg(target_arch = "nvptx64")]
pub mod barrier;
#[cfg(target_arch = "nvptx64")]
pub mod cluster;
#[cfg(target_arch = "nvptx64")]
pub mod cp_async;
#[cfg(target_arch = "nvptx64")]
pub mod cp_async_bulk;
#[cfg(target_arch = "nvptx64")]
pub mod cvt;
#[cfg(target_arch = "nvptx64")]
pub mod debug;
#[cfg(target_arch = "nvptx64")]
pub mod fence;
#[cfg(target_arch = "nvptx64")]
pub mod global;
#[cfg(target_arch = "nvptx64")]
pub mod griddepcontrol;
pub mod kernel;
#[cfg(target_arch = "nvptx64")]
pub mod matrix;
#[cfg(target_arch = "nvptx64")]
pub mod mbarrier;
#[cfg(target_arch = "nvptx64")]
pub mod misc;
#[cfg(target_arch = "nvptx64")]
pub mod setmaxnreg;
#[cfg(target_arch = "nvptx64")]
pub mod shared;
#[cfg(target_arch = "nvptx64")]
pub mod slice;
#[cfg(target_arch = "nvptx64")]
pub mod sreg;
#[cfg(target_arch = "nvptx64")]
pub mod thread;
#[cfg(target_arch = "nvptx64")]
pub mod warp;
#[cfg(target_arch = "nvptx64")]
pub mod wgmma;
#[cfg(target_arch = "nvptx64")]
mod word;

pub use warpipe_macros::kernel;
#[cfg(target_arch = "nvptx64")]
pub use word::Word;

/// A device panic ends the grid: there is nobody to print for.
#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    misc::trap()
}
