//! The GEMM family: D = epilogue(A·Bᵀ), one [kernel](kernel::gemm) with three seams.
//!
//! ```text
//! scheduler ──► work      which tile of D, and which of its k tiles   DataParallel, StreamK, Grouped
//! main loop ──► sums      how a tile is multiplied                    Cooperative, SplitN, Pingpong, promoted
//! epilogue  ──► results   what becomes of a fragment at (row, column) Linear, a chain of fusion's, or your own
//! ```
//!
//! A [`Config`](config::Config) names one of each, the tiles and the types. The macro
//! [`gemm_kernels!`](crate::gemm_kernels!) compiles configurations to kernels and lists them for the host;
//! [`table`] has those of this crate, by features.

// Why `not(test)`: see the crate's first lines.
mod activation;
mod bias;
pub mod by_columns;
mod chain;
pub mod config;
pub mod divmod;
#[cfg(not(test))]
pub mod e5m2;
mod elt_act;
pub mod epilogue;
mod epilogue_tiles;
#[cfg(not(test))]
pub mod fused;
pub mod fusion;
#[cfg(not(test))]
pub mod grouped;
#[cfg(not(target_arch = "nvptx64"))]
pub mod instance;
pub mod instances;
#[cfg(not(test))]
pub mod integer;
pub mod kernel;
#[cfg(not(test))]
pub mod layouts;
pub mod output;
pub mod promoted;
#[cfg(not(test))]
pub mod quantised;
pub mod rank;
pub mod scales;
pub mod scheduler;
#[cfg(not(test))]
pub mod table;
pub mod tall;

pub use config::LoadArgs;
pub use epilogue::{Epilogue, Linear, Scaled, Scales};
#[cfg(not(target_arch = "nvptx64"))]
pub use instance::{Instance, KernelSchedule};
#[cfg(not(any(test, target_arch = "nvptx64")))]
pub use layouts::LAYOUT_INSTANCES;
pub use scales::Sfb;
pub use scheduler::{BatchedArgs, StreamKArgs, TileSchedulerParams};
#[cfg(not(any(test, target_arch = "nvptx64")))]
pub use table::{BLOCK_SCALED_INSTANCES, FAST_ACCUM_INSTANCES, INSTANCES, SCALED_INSTANCES};
