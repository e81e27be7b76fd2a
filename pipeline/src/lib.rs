//! `pipeline`: the producer/consumer discipline of Hopper kernels, as types.
//!
//! A kernel says once what it keeps in shared memory ([`cta::SmemPlan`]), gets the ends of its
//! rings and barriers, splits the CTA into roles ([`cta::Ready::specialize`]) and gives each role
//! its ends. Slots are tokens; what compiles acquires, loads, waits, retires and releases in order.
//!
//! Each item says what it waits for, what it signals, which PTX it becomes and what CUTLASS calls it;
//! "none" where there is nothing of the kind. `docs/vocabulary.md` has the names of CuTe DSL and Mojo
//! too.
//!
//! This kernel multiplies two tiles; the example runs it on the SM model and checks the product.
//!
//! ```
//! # use {half::bf16, pipeline::prelude::*};
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
//! /// D = A·Bᵀ, 128 x 64, over `k_tiles` tiles of 64 columns.
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
//!             for strip in 0..4 {
//!                 out.put(strip, sum.fragment(strip));
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
//! | CUTLASS | here |
//! |---|---|
//! | `PipelineState<Stages>` | [`ring::PipelineState`] |
//! | `PipelineTmaAsync<Stages>` | [`ring::Ring`] filled by [`ring::Tma`] |
//! | `PipelineTransactionAsync<Stages>` | [`ring::Ring`] filled by [`ring::TmaParts`] |
//! | `PipelineAsync<Stages>` | [`ring::Ring`] filled by [`ring::Writes`] |
//! | `PipelineAsync<Stages>` with `cpasync_barrier_arrive_noinc` | [`ring::Ring`] filled by [`ring::CpAsync`] |
//! | `producer_acquire`, `producer_get_barrier`, `copy` | [`ring::Producer::acquire`], [`ring::EmptySlot::load`] |
//! | `producer_tail` | [`ring::Producer::tail`] |
//! | `consumer_wait` | [`ring::Consumer::wait`] |
//! | `consumer_release` | [`ring::RetiredSlot::release`], [`ring::FullSlot`]`::release` |
//! | `warpgroup_arrive`, `gemm`, `warpgroup_commit_batch`, `warpgroup_wait` | [`mma::TallAccumulator::start`], [`mma::InFlight::next`], [`mma::InFlight::finish`], [`mma::TallAccumulator::add`] |
//! | none: a tile in halves, whose epilogue overlaps its own main loop | [`mma::SplitAccumulator`] |
//! | `PipelineTmaStore` | [`store::Stores`] |
//! | `OrderedSequenceBarrier<1, 2>` as load order barrier | [`barrier::LoadOrderBarrier`] |
//! | `OrderedSequenceBarrier<Depth, Length>` | [`barrier::OrderedSequence`] |
//! | `cluster_arrive`, `cluster_wait` | [`cta::Ready::cluster_arrive`], [`barrier::ClusterArrived`] |
//! | `NamedBarrier` | [`barrier::NamedBarrier`] |
//! | `mapa`, `st.shared::cluster`, remote arrival by hand | [`barrier::Mailbox`] |
//! | `SharedStorage` | [`cta::SmemPlan`] |
//! | `PersistentTileSchedulerSm90StreamK::fixup` | [`grid::Partials`] |
//! | `ClusterTransactionBarrier`, `ClusterBarrier`, by hand | [`raw::MBarrier`] |
#![cfg_attr(target_arch = "nvptx64", no_std)]

pub mod barrier;
pub mod cta;
pub mod grid;
pub mod mma;
pub mod raw;
pub mod ring;
pub mod store;
pub mod tile;

/// What most kernels need.
pub mod prelude {
    pub use crate::barrier::LoadOrderBarrier;
    pub use crate::barrier::Mailbox;
    pub use crate::barrier::NamedBarrier;
    pub use crate::barrier::OrderedSequence;
    pub use crate::cta::{AlongM, AlongN, Cluster, ClusterCoord, ClusterShape, Peers};
    pub use crate::cta::{Cta, Role, Warpgroup};
    pub use crate::cta::{SmemPlan, When};
    pub use crate::grid::Throttle;
    pub use crate::grid::{DependentSlice, DependentSliceMut};
    pub use crate::grid::{Part, Partials};
    pub use crate::mma::Fragments;
    pub use crate::mma::SplitAccumulator;
    pub use crate::mma::{Accumulator, GROUP_ROWS, TallAccumulator};
    pub use crate::ring::PipelineState;
    pub use crate::ring::{
        CpAsync, Mma, MmaInTurn, Reads, ReadsInTurn, Ring, Tma, TmaParts, Writes,
    };
    pub use crate::store::StoreBuffers;
    pub use crate::tile::MatrixView;
    pub use crate::tile::TensorMap;
    pub use crate::tile::{Element, EpilogueElement, Tile};
    pub use crate::{names, roles};
}
