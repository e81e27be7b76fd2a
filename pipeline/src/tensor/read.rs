//! The readers of accumulators in tensor memory: the four warps of a warp group, 32 rows each.

use super::accumulators::AccumulatorReaderEnd;
use super::layout::Layout;
use crate::cta::{ClusterShape, CtaGroup, OneSm, Role, Warpgroup};
use crate::ring::{ConsumerSide, Name, PipelineState};
use core::marker::PhantomData;
use isa::{device, tcgen05};

/// Columns of a [`Strip`].
pub const STRIP_COLUMNS: usize = 64;

impl<const STAGES: usize, const N: usize, Ro: Role, Tag: Name, G: CtaGroup>
    AccumulatorReaderEnd<STAGES, N, Ro, Tag, G>
{
    /// Binds the end to the warp group that reads.
    ///
    /// Waits until tensor memory is allocated. See the example of [`AccumulatorReader`].
    #[device]
    pub fn by<Cl: ClusterShape>(
        self,
        group: &Warpgroup<Ro, Cl>,
    ) -> AccumulatorReader<'_, STAGES, N, Ro, Tag, Cl, G> {
        // SAFETY: the plan initialised the barrier, whose first phase says that the word is written.
        let address: u32 = unsafe {
            isa::mbarrier::wait_parity(self.at.allocated(), 0);
            isa::shared::ld(self.at.base)
        };
        // The warps of a warp group are the warps 0 to 3 of each four.
        let lane = group.thread() / 32 * 32;
        let empties = if G::CTAS == 1 {
            self.at
        } else {
            Layout { base: isa::cluster::mapa(self.at.base, group.coord().rank() & !1) }
        };
        AccumulatorReader {
            at: self.at,
            empties,
            address: address + (lane << 16),
            state: PipelineState::start(),
            group,
            ring: PhantomData,
        }
    }
}

/// The accumulators in the warp group that reads them: its position in their ring, and the verb `wait`.
///
/// (CUTLASS: the consumer's side of `PipelineUmmaAsync`.)
///
/// ```
/// # use warpipe_pipeline::{prelude::*, tensor::*};
/// # names! { Sums = "sums" } roles! { Store = 1 x 216 registers } type Alone = Cluster<1, 1>;
/// fn largest(group: &Warpgroup<Store, Alone>, sums: AccumulatorReaderEnd<2, 256, Store, Sums>) -> f32 {
///     let mut sums = sums.by(group);
///     let full = sums.wait();
///     let mut most = f32::NEG_INFINITY;
///     for strip in 0..4 {
///         let strip = full.strip(strip);
///         for half in 0..2 {
///             for fragment in 0..4 {
///                 most = strip.fragment(half, fragment).into_iter().fold(most, f32::max);
///             }
///         }
///     }
///     full.release();
///     most
/// }
/// ```
#[must_use]
pub struct AccumulatorReader<'g, const STAGES: usize, const N: usize, Ro, Tag, Cl, G = OneSm> {
    at: Layout<STAGES>,
    /// The accumulators of the CTA whose thread multiplies: it waits for the releases.
    empties: Layout<STAGES>,
    /// This warp's first lane, and the first column.
    address: u32,
    state: PipelineState<STAGES, ConsumerSide>,
    group: &'g Warpgroup<Ro, Cl>,
    ring: PhantomData<(Tag, G)>,
}

impl<const STAGES: usize, const N: usize, Ro: Role, Tag: Name, Cl: ClusterShape, G: CtaGroup>
    AccumulatorReader<'_, STAGES, N, Ro, Tag, Cl, G>
{
    /// Takes the next accumulator, once it is full, and advances.
    ///
    /// Waits until its multiplications have completed. (PTX `mbarrier.try_wait.parity`,
    /// `tcgen05.fence::after_thread_sync`; CUTLASS `consumer_wait`.) See the example of [`AccumulatorReader`].
    #[device]
    pub fn wait(&mut self) -> FullAccumulator<'_, N, Ro, Tag, Cl, G> {
        let stage = self.state.index();
        // SAFETY: the plan initialised the barrier; the state tracks its phase.
        unsafe { isa::mbarrier::wait_parity(self.at.full(stage), self.state.phase()) };
        tcgen05::fence_after_thread_sync();
        self.state.advance();
        let empty = self.empties.empty(stage);
        isa::debug::hold(empty, "accumulator of", Tag::NAME, stage, "released");
        FullAccumulator {
            columns: self.address + stage * N as u32,
            empty,
            group: self.group,
            ring: PhantomData,
        }
    }
}

/// A full accumulator. Each warp reads its 32 rows.
///
/// See the example of [`AccumulatorReader`].
#[must_use = "an accumulator that is never released stops the ring: call `release`"]
pub struct FullAccumulator<'g, const N: usize, Ro, Tag, Cl, G = OneSm> {
    columns: u32,
    empty: u32,
    group: &'g Warpgroup<Ro, Cl>,
    ring: PhantomData<(Tag, G)>,
}

impl<const N: usize, Ro: Role, Tag: Name, Cl: ClusterShape, G: CtaGroup>
    FullAccumulator<'_, N, Ro, Tag, Cl, G>
{
    /// Loads this warp's 32 rows of the 64 columns from `64 * index` on. An `index` beyond the last strip begins again at
    /// strip 0.
    ///
    /// Waits for the loads. (PTX `tcgen05.ld.sync.aligned.16x256b.x8.b32` twice, `tcgen05.wait::ld`; CUTLASS
    /// `SM100_TMEM_LOAD_16dp256b8x`, `fence_view_async_tmem_load`.) See the example of [`AccumulatorReader`].
    #[device]
    pub fn strip(&self, index: usize) -> Strip {
        const { assert!(N.is_multiple_of(STRIP_COLUMNS), "strips of 64 columns divide the accumulator") };
        let at = self.columns + ((index % (N / STRIP_COLUMNS)) * STRIP_COLUMNS) as u32;
        // SAFETY: the warp is converged, owns these lanes, and has waited for the accumulator.
        let (upper, lower) = unsafe {
            let upper = tcgen05::ld_16x256b_x8(at);
            let lower = tcgen05::ld_16x256b_x8(at + (16 << 16));
            tcgen05::wait_ld();
            (upper, lower)
        };
        Strip { halves: [upper.ready(), lower.ready()] }
    }

    /// Releases the accumulator: the next tile may be multiplied into it.
    ///
    /// Waits for the other lanes of the warp. Signals one arrival per warp on the empty barrier; of a pair on that of the
    /// CTA that leads. (PTX `tcgen05.fence::before_thread_sync`, `bar.warp.sync`, `mbarrier.arrive`, of a pair with
    /// `.release.cluster`; CUTLASS `consumer_release`.) See the example of [`AccumulatorReader`].
    #[device]
    pub fn release(self) {
        isa::debug::let_go(self.empty);
        tcgen05::fence_before_thread_sync();
        self.group.sync_warp();
        // SAFETY: all loads of the warp have been waited for, and are fenced.
        unsafe {
            if isa::warp::lane_id() == 0 {
                if G::CTAS == 1 {
                    isa::mbarrier::arrive(self.empty);
                } else {
                    // The leader's multiplications follow loads by this CTA.
                    isa::mbarrier::arrive_remote_release_cluster(self.empty);
                }
            }
        }
    }
}

/// A warp's 32 rows of 64 columns of an accumulator, in registers.
///
/// See the example of [`AccumulatorReader`].
pub struct Strip {
    halves: [[u32; 32]; 2],
}

impl Strip {
    /// This thread's eight values of the 16 rows from `16 * half` on and the 16 columns from `16 * index` on, in the order of
    /// [`Accumulator::fragment`](crate::mma::Accumulator::fragment).
    ///
    /// See the example of [`AccumulatorReader`].
    #[isa::forceinline]
    #[must_use]
    pub fn fragment(&self, half: usize, index: usize) -> [f32; 8] {
        core::array::from_fn(|i| f32::from_bits(self.halves[half % 2][8 * (index % 4) + i]))
    }
}
