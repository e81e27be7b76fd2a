//! Producer/consumer pipelines for Hopper kernels, as Rust types: CUTLASS's rings, barriers, warp
//! specialization and epilogue stores, whose protocols the compiler checks.
//!
//! A kernel declares its shared memory once, as a type ([`cta::SmemPlan`]). Initialising the plan
//! ([`cta::Cta::init`]) returns the two ends of each ring and barrier. [`cta::Ready::specialize`] splits the
//! CTA into roles, and each role takes its ends. A ring's slots are tokens that each step consumes: acquire,
//! load, wait, retire and release happen in this order and at most once, or the kernel does not compile.
//! Arrival counts, transaction bytes, phases and fences follow from the types.
//!
//! Device code compiles to PTX. The same kernel also runs on a CPU model of the SM (crate `sim`), as in the
//! example below.
//!
//! # Tiers
//!
//! | tier | modules | what is in it |
//! |---|---|---|
//! | core | [`cta`], [`tile`], [`ring`], [`mma`], [`barrier`], [`store`] | What every kernel uses: roles and shared memory; tiles and tensor maps; pipelines; wgmma accumulators; barriers; TMA stores. |
//! | grid | [`grid`] | State that the CTAs of a grid share, and the order between one grid and the next: stream-K partials, split tiles, the grid throttle, programmatic dependent launch, dependent slices, launch control (Blackwell). |
//! | Blackwell | [`tensor`] | Accumulators in tensor memory. Nothing of it has run on a chip. |
//! | raw | [`raw`] | Escape hatches: mbarriers and shared memory whose protocol the author promises, with `unsafe`. |
//!
//! The [`prelude`] has the names that a first kernel needs.
//!
//! # The smallest whole kernel
//!
//! One warp group loads tiles of A and B with TMA; two multiply them with wgmma and store the product with TMA.
//! The example runs on the model of the SM and checks the product.
//!
//! ```
//! # use {half::bf16, warpipe_pipeline::prelude::*};
//! names! { MainLoop = "main loop" }
//! roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
//! type A = Tile<bf16, 128, 64>;
//! type B = Tile<bf16, 64, 64>;
//! type Alone = Cluster<1, 1>;
//! type Plan = SmemPlan<(
//!     Ring<4, (A, B), Tma, Mma<Math>, MainLoop, Alone>,
//!     StoreBuffers<bf16, 1, Math>,
//! )>;
//!
//! /// D = A·Bᵀ, 128 x 64: K is `k_tiles` k tiles of 64.
//! fn kernel(
//!     cta: Cta<(Load, Math), Alone, Plan>,
//!     a: &TensorMap<A>,
//!     b: &TensorMap<B>,
//!     d: &TensorMap<Tile<bf16, 64, 64>>,
//!     k_tiles: u32,
//! ) {
//!     let (cta, (ring, stores)) = cta.init();
//!     cta.specialize(
//!         |load| {
//!             load.elect(|one| {
//!                 let mut empty = ring.producer.by(&one);
//!                 for k in 0..k_tiles {
//!                     let tiles =
//!                         (a.tile(0, 64 * k, Peers::ALONE), b.tile(0, 64 * k, Peers::ALONE));
//!                     empty.acquire().load(tiles);
//!                 }
//!                 empty.tail();
//!             });
//!         },
//!         |group| {
//!             let mut full = ring.consumer.by(&group);
//!             let mut sum = Accumulator::<64>::start(&group, full.wait());
//!             for _ in 1..k_tiles {
//!                 sum.next(full.wait()).release();
//!             }
//!             let (sum, last) = sum.finish();
//!             last.release();
//!
//!             let mut stores = stores.by(&group);
//!             let mut out = stores.acquire();
//!             for fragment in 0..4 {
//!                 out.put(fragment, sum.fragment(fragment));
//!             }
//!             out.publish().store(d, 64 * group.index(), 0);
//!             stores.tail();
//!         },
//!     );
//! }
//! # mod model { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/model.rs")); }
//! # use model::{Image, run};
//! # let memory = sim::GlobalMemory::new();
//! # let a = Image::new(&memory, 128, 192, |i| (i % 5) as f32 - 2.0);
//! # let b = Image::new(&memory, 64, 192, |i| (i % 7) as f32 - 3.0);
//! # let d = Image::new(&memory, 128, 64, |_| f32::NAN);
//! # let (a_map, b_map, d_map) = (a.map(), b.map(), d.map());
//! # run(1, &memory, |cta| kernel(cta, &a_map, &b_map, &d_map, 3)).unwrap();
//! # let (a, b, d) = (a.read(), b.read(), d.read());
//! # for (row, col) in (0..128).flat_map(|row| (0..64).map(move |col| (row, col))) {
//! #     let sum: f32 = (0..192).map(|k| a[192 * row + k] * b[192 * col + k]).sum();
//! #     assert_eq!(d[64 * row + col], bf16::from_f32(sum).to_f32(), "({row}, {col})");
//! # }
//! ```
//!
//! # Names in CUTLASS
//!
//! `docs/vocabulary.md` has the names of CuTe DSL and Mojo too.
//!
//! | CUTLASS | here |
//! |---|---|
//! | `SharedStorage` | [`cta::SmemPlan`] |
//! | `WarpGroupRole`, `ProducerWarpRole` | [`roles!`](crate::roles), [`cta::Ready::specialize`] |
//! | `ClusterShape` | [`cta::Cluster`] |
//! | `TmaDescriptor` | [`tile::TensorMap`] |
//! | `PipelineState<Stages>` | [`ring::PipelineState`] |
//! | `PipelineTmaAsync<Stages>` | [`ring::Ring`] filled by [`ring::Tma`] |
//! | `PipelineTransactionAsync<Stages>` | [`ring::Ring`] filled by [`ring::TmaParts`] |
//! | `PipelineAsync<Stages>` | [`ring::Ring`] filled by [`ring::Writes`] |
//! | `PipelineAsync<Stages>` with `cpasync_barrier_arrive_noinc` | [`ring::Ring`] filled by [`ring::CpAsync`] |
//! | `producer_acquire` | [`ring::Producer::acquire`] |
//! | `producer_get_barrier`, `copy` | [`ring::EmptySlot::load`] |
//! | `producer_commit` | [`ring::WriteSlot::commit`]; a TMA load commits by itself |
//! | `producer_tail` | [`ring::Producer::tail`] |
//! | `consumer_wait` | [`ring::Consumer::wait`] |
//! | `consumer_release` | [`ring::RetiredSlot::release`], [`ring::FullSlot::release`] |
//! | `warpgroup_arrive`, `gemm`, `warpgroup_commit_batch` | [`mma::TallAccumulator::start`], [`mma::TallAccumulator::add`], [`mma::InFlight::next`] |
//! | `warpgroup_wait` | [`mma::InFlight::next`], [`mma::InFlight::finish`] |
//! | (no counterpart) overlapped epilogue, split along N | [`mma::SplitAccumulator`] |
//! | `PipelineTmaStore` | [`store::StoreBuffers`], [`store::Stores`] |
//! | `OrderedSequenceBarrier<1, 2>` as load order barrier | [`barrier::LoadOrderBarrier`] |
//! | `OrderedSequenceBarrier<Depth, Length>` | [`barrier::OrderedSequence`] |
//! | `cluster_arrive`, `cluster_wait` | [`cta::Ready::cluster_arrive`], [`barrier::ClusterArrived::wait`] |
//! | `NamedBarrier` | [`barrier::NamedBarrier`] |
//! | `mapa`, `st.shared::cluster` and a remote arrival, by hand | [`barrier::Mailbox`] |
//! | `PersistentTileSchedulerSm90StreamK::fixup` | [`grid::Partials`] |
//! | `launch_dependent_grids` | [`cta::Cta::launch_dependents`], [`cta::Elected::launch_dependents`] |
//! | `wait_on_dependent_grids` | [`grid::BeforeWait::wait`] |
//! | `ClusterBarrier`, `ClusterTransactionBarrier`, by hand | [`raw::MBarrier`] |
#![cfg_attr(target_arch = "nvptx64", no_std)]

pub mod barrier;
pub mod cta;
pub mod grid;
pub mod mma;
pub mod raw;
pub mod ring;
pub mod store;
pub mod tensor;
pub mod tile;

/// The names that a first kernel needs.
///
/// Everything else is imported from its module: a kernel that uses stream-K, cluster multicast or a barrier
/// of its own says so in its `use` lines.
///
/// ```
/// use warpipe_pipeline::prelude::{Accumulator, StoreBuffers, TensorMap, Tile};
/// use warpipe_pipeline::prelude::{Cluster, Cta, Peers, SmemPlan, Warpgroup};
/// use warpipe_pipeline::prelude::{Mma, Reads, Ring, Tma, Writes};
/// use warpipe_pipeline::prelude::{names, roles};
/// // The element types of tiles, from the crates `half` and `float8`; tf32 is in the 32 bits of an f32.
/// use warpipe_pipeline::prelude::{E2m1x2, F8E4M3, F8E5M2, Tf32, bf16, f16};
/// ```
pub mod prelude {
    pub use crate::cta::{Cluster, Cta, Peers, SmemPlan, Warpgroup};
    pub use crate::mma::Accumulator;
    pub use crate::ring::{Mma, Reads, Ring, Tma, Writes};
    pub use crate::store::StoreBuffers;
    pub use crate::tile::{TensorMap, Tile};
    pub use crate::{names, roles};
    pub use float8::{F8E4M3, F8E5M2};
    pub use half::{bf16, f16};
    pub use isa::{E2m1x2, Tf32};
}
