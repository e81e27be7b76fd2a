//! The consumer of a ring whose slots one thread multiplies into tensor memory (CUTLASS `PipelineTmaUmmaAsync`).
//!
//! Invariant: a slot is released by the commit of the multiplications that read it, and by nothing else. The hardware
//! arrives when they have completed.
//!
//! This is for Blackwell. It has never run on a chip.

use super::{ConsumerEnd, Layout, Name, Readers, sealed::Sealed};
use crate::cta::{ClusterShape, CtaGroup, Elected, Leader, OneSm, PAIR, Role, TwoSm};
use crate::ring::{ConsumerSide, PipelineState, Stage};
use core::marker::PhantomData;
use isa::device;

/// One thread of role `Ro` multiplies every slot into tensor memory (`tcgen05.mma`). With `G` of [`TwoSm`], it is one thread
/// of a pair of CTAs, which multiplies the slots of both.
///
/// Waits for a full slot. A `tcgen05.commit` signals one arrival on the empty barrier, in this CTA and in the peers that
/// share the slot, when the multiplications that read the slot have completed. (CUTLASS: the consumer of
/// `PipelineTmaUmmaAsync`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, ring::Umma}}; names! { Main = "main" } type Alone = Cluster<1, 1>;
/// # roles! { Work = 1 x 40 registers } type A = Tile<bf16, 128, 64>; type B = Tile<bf16, 256, 64>;
/// const BYTES: u32 = SmemPlan::<(Ring<4, (A, B), Tma, Umma<Work>, Main, Alone>,)>::BYTES;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Umma<Ro, G = OneSm>(PhantomData<(Ro, G)>);
impl<Ro, G> Sealed for Umma<Ro, G> {}
impl<Ro: Role, G: CtaGroup> Readers for Umma<Ro, G> {
    type Role = Ro;
    const GROUPS: usize = 1;
    const ARRIVALS: usize = 1;
    const MULTICAST: bool = !Self::PAIR;
    const PAIR: bool = G::CTAS == 2;
    const ASYNC: bool = true;
    const BY: &'static str =
        "the commit of the thread that multiplies, in each CTA that gets the slot's data";
}

impl<const STAGES: usize, St: Stage, Ro: Role, Tag: Name, Cl: ClusterShape>
    ConsumerEnd<STAGES, St, Umma<Ro>, Tag, Cl>
{
    /// Binds the end to the thread that multiplies.
    ///
    /// See the example of [`UmmaConsumer`].
    #[isa::forceinline]
    pub fn by_one(self, one: &Elected<Ro, Cl>) -> UmmaConsumer<STAGES, St, Tag> {
        let at = one.coord();
        let peers = if Cl::SIZE == 1 { 0 } else { at.sharing_a().mask | at.sharing_b().mask };
        UmmaConsumer { base: self.base(), peers, state: PipelineState::start(), ring: PhantomData }
    }
}

impl<const STAGES: usize, St: Stage, Ro: Role, Tag: Name, Cl: ClusterShape>
    ConsumerEnd<STAGES, St, Umma<Ro, TwoSm>, Tag, Cl>
{
    /// Binds the end to the thread that multiplies for the pair.
    ///
    /// See the example of [`Leader`].
    #[isa::forceinline]
    pub fn by_leader(self, _leader: &Leader<Ro, Cl>) -> UmmaConsumer<STAGES, St, Tag, TwoSm> {
        UmmaConsumer {
            base: self.base(),
            peers: PAIR,
            state: PipelineState::start(),
            ring: PhantomData,
        }
    }
}

/// The consumer of a ring, in the thread that multiplies: its position, and the verb `wait`.
///
/// Waits for full slots. (PTX `mbarrier.try_wait.parity`; CUTLASS: the consumer's side of `PipelineTmaUmmaAsync`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, cta::Elected, ring::*, tensor::EmptyAccumulator}};
/// # names! { Main = "main loop", Sums = "sums" } roles! { Work = 1 x 40 registers }
/// # type Alone = Cluster<1, 1>;
/// # type Operands = (Tile<bf16, 128, 64>, Tile<bf16, 256, 64>);
/// fn multiply(
///     one: &Elected<Work, Alone>,
///     end: ConsumerEnd<4, Operands, Umma<Work>, Main, Alone>,
///     empty: EmptyAccumulator<256, Sums>,
/// ) {
///     let mut full = end.by_one(one);
///     let mut sum = empty.start(full.wait());
///     for _ in 1..9 {
///         sum.add(full.wait());
///     }
///     sum.commit();
/// }
/// ```
#[must_use]
pub struct UmmaConsumer<const STAGES: usize, St, Tag, G = OneSm> {
    base: u32,
    /// The CTAs that share the slots; 0 if nobody does.
    peers: u16,
    state: PipelineState<STAGES, ConsumerSide>,
    ring: PhantomData<(St, Tag, G, *const ())>,
}

impl<const STAGES: usize, St: Stage, Tag: Name, G: CtaGroup> UmmaConsumer<STAGES, St, Tag, G> {
    /// Takes the next slot, once it is full, and advances.
    ///
    /// Waits until all writers have arrived and all transaction bytes have landed. (PTX
    /// `mbarrier.try_wait.parity` on the full barrier, in a loop; CUTLASS `consumer_wait`.) See the example of
    /// [`UmmaConsumer`].
    #[device]
    pub fn wait(&mut self) -> UmmaSlot<St, Tag, G> {
        let stage = self.state.index();
        let full = Layout::<STAGES, St>::full(self.base, stage);
        // SAFETY: the plan initialised the barrier; the state tracks its phase.
        unsafe { isa::mbarrier::wait_parity(full, self.state.phase()) };
        self.state.advance();
        let empty = Layout::<STAGES, St>::empty(self.base, stage);
        isa::debug::hold(empty, "slot of ring", Tag::NAME, stage, "multiplied");
        UmmaSlot {
            data: Layout::<STAGES, St>::slot(self.base, stage),
            empty,
            peers: self.peers,
            ring: PhantomData,
        }
    }
}

/// A full slot that is multiplied next. The commit of the multiplications releases it.
///
/// (CUTLASS: the stage's part of `SharedStorage`, after `consumer_wait`.) See the example of [`UmmaConsumer`].
#[must_use = "a full slot that is never multiplied stops the ring: give it to an accumulator, with `start` or `add`"]
pub struct UmmaSlot<St, Tag, G = OneSm> {
    data: u32,
    empty: u32,
    peers: u16,
    ring: PhantomData<(St, Tag, G, *const ())>,
}

impl<St: Stage, Tag: Name, G: CtaGroup> UmmaSlot<St, Tag, G> {
    /// The address of the tiles.
    #[isa::forceinline]
    pub(crate) fn data(&self) -> u32 {
        self.data
    }

    /// Releases the slot, here and in the peers that share it, when all multiplications that this thread has issued so far
    /// have completed.
    #[device]
    pub(crate) fn release_by_commit(self) {
        isa::debug::let_go(self.empty);
        // SAFETY: the empty barriers expect one arrival of this thread's commit per slot. A peer's producer waits for it at
        // its end.
        unsafe { G::commit(self.empty, self.peers) };
    }
}
