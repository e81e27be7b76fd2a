//! Raw mbarriers: the escape for a protocol that no ring, sequence or order has.
//!
//! Here the number of arrivals, the bytes and the phases are the author's, as in CUTLASS's
//! `ClusterBarrier` and `ClusterTransactionBarrier`. Every way to a handle is `unsafe`, with the
//! contract of [`MBarrier`]; with a handle, no call is. What the types still hold apart: a barrier
//! of the CTA from one of the cluster, and one that counts arrivals from one that counts bytes too.
//!
//! ```
//! use pipeline::raw::{Cluster, Cta, MBarrier, Transactions, Arrivals};
//! /// Waits for peers' arrivals, then arms the barrier of a copy.
//! fn arm(peers: &MBarrier<Cluster, Arrivals>, copy: &MBarrier<Cta, Transactions>, phase: u32) {
//!     peers.wait(phase);
//!     copy.arrive_expect::<4096>();
//! }
//! ```

use crate::cta::{Place, Region};
use crate::ring::Name;
use core::marker::PhantomData;
use isa::device;

/// The greatest count of arrivals, and of bytes, that an mbarrier holds: 2²⁰ - 1.
pub const MAX_COUNT: usize = (1 << 20) - 1;

/// Only threads and copies of the own CTA arrive (`.release.cta`, `.acquire.cta`).
///
/// (PTX `.release.cta`, `.acquire.cta`: what an instruction without a qualifier has.)
///
/// ```
/// use pipeline::raw::{Arrivals, Cta, MBarrier};
/// fn wait(own: &MBarrier<Cta, Arrivals>) { own.wait(0); }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Cta {}
/// Peers of the cluster arrive too, to hand over what they wrote (`.release.cluster`,
/// `.acquire.cluster`).
///
/// (PTX `.release.cluster`, `.acquire.cluster`; CUTLASS none: `ClusterBarrier` leaves the scope to its
/// calls.)
///
/// ```
/// use pipeline::raw::{Arrivals, Cluster, MBarrier};
/// fn wait(peers: &MBarrier<Cluster, Arrivals>) { peers.wait(0); }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Cluster {}
/// Counts arrivals.
///
/// (CUTLASS `ClusterBarrier`.)
///
/// ```
/// use pipeline::raw::{Arrivals, Cta, MBarrier};
/// fn say(threads: &MBarrier<Cta, Arrivals>) { threads.arrive(); }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Arrivals {}
/// Counts arrivals and the bytes of copies.
///
/// (CUTLASS `ClusterTransactionBarrier`.)
///
/// ```
/// use pipeline::raw::{Cta, MBarrier, Transactions};
/// fn arm(copy: &MBarrier<Cta, Transactions>) { copy.arrive_expect::<1024>(); }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Transactions {}

mod sealed {
    pub trait Scope {}
    impl Scope for super::Cta {}
    impl Scope for super::Cluster {}
}
/// [`Cta`] or [`Cluster`].
///
/// (PTX the scope of `mbarrier.try_wait`.)
///
/// ```
/// use pipeline::raw::{Arrivals, MBarrier, Scope};
/// fn both<S: Scope>(a: &MBarrier<S, Arrivals>, b: &MBarrier<S, Arrivals>) {
///     a.wait(0);
///     b.wait(0);
/// }
/// ```
pub trait Scope: sealed::Scope + 'static {
    /// Whether peers' writes are handed over.
    const CLUSTER: bool;
}
impl Scope for Cta {
    const CLUSTER: bool = false;
}
impl Scope for Cluster {
    const CLUSTER: bool = true;
}

/// An initialised mbarrier of the own CTA.
///
/// Waits for its phases. Signals itself. (PTX `mbarrier.*`; CUTLASS `ClusterBarrier`,
/// `ClusterTransactionBarrier`.)
///
/// ```
/// # use pipeline::raw::{Cta, MBarrier, Transactions};
/// /// Two copies of 1 KiB complete on the barrier's phase `phase`.
/// fn arm(full: &MBarrier<Cta, Transactions>, phase: u32) -> u32 {
///     full.expect::<1024>();
///     full.arrive_expect::<1024>();
///     // ... the copies complete on `full.addr()`.
///     if !full.test_wait(phase) {
///         full.wait(phase);
///     }
///     full.addr()
/// }
/// ```
///
/// # The contract
/// Who makes a handle promises, for as long as any thread uses one on this barrier:
/// 1. the address is that of an mbarrier, initialised, and made visible to all who use it
///    (a plan's [`Barriers`] are);
/// 2. each phase gets as many arrivals as the barrier was initialised with, and as many bytes land
///    on it as are expected of it;
/// 3. nobody waits for a phase once the one after it has completed (a waiter two behind is fooled);
/// 4. in a cluster, no CTA exits while a peer may still arrive here.
///
/// Breaking 2 to 4 hangs the kernel, or lets it read what has not arrived: the SM model says where.
pub struct MBarrier<S, C> {
    addr: u32,
    kind: PhantomData<(S, C, *const ())>,
}

/// A peer's mbarrier, which can be arrived at and never waited on.
///
/// Signals the peer's barrier. (PTX `mbarrier.arrive.shared::cluster`; CUTLASS
/// `ClusterBarrier::arrive(cta_id)`.)
///
/// ```
/// # use pipeline::raw::{Arrivals, Cluster, MBarrier, RemoteMBarrier, Transactions};
/// fn say(here: &MBarrier<Cluster, Arrivals>, peer: u32) {
///     let there: RemoteMBarrier<Arrivals> = here.remote(peer);
///     there.arrive();
/// }
/// fn arm(there: &RemoteMBarrier<Transactions>) {
///     there.arrive_expect::<1024>();
/// }
/// ```
pub struct RemoteMBarrier<C> {
    addr: u32,
    kind: PhantomData<(C, *const ())>,
}

impl<S: Scope, C> MBarrier<S, C> {
    /// A handle on the mbarrier at shared address `addr`.
    ///
    /// (CUTLASS `reinterpret_cast<ClusterBarrier*>`.)
    ///
    /// ```
    /// # use pipeline::raw::{Arrivals, Cta, MBarrier};
    /// /// # Safety
    /// /// The contract of `MBarrier`, of the mbarrier at `addr`.
    /// unsafe fn handle(addr: u32) -> MBarrier<Cta, Arrivals> {
    ///     unsafe { MBarrier::at(addr) }
    /// }
    /// ```
    ///
    /// # Safety
    /// The [contract](Self#the-contract).
    #[inline(always)]
    pub const unsafe fn at(addr: u32) -> Self {
        Self { addr, kind: PhantomData }
    }

    /// Its shared address: what a copy completes on.
    ///
    /// (CUTLASS `cast_smem_ptr_to_uint`.) See the example of [`MBarrier`].
    #[inline(always)]
    pub const fn addr(&self) -> u32 {
        self.addr
    }

    /// Arrives once.
    ///
    /// Signals the barrier. (PTX `mbarrier.arrive`; CUTLASS `ClusterBarrier::arrive()`.) See the example of
    /// [`Arrivals`].
    #[device]
    pub fn arrive(&self) {
        // SAFETY: the handle's contract.
        unsafe { isa::mbarrier::arrive(self.addr) };
    }

    /// Waits in a loop: phase 0 is the first one; on a fresh barrier, 1 passes.
    ///
    /// Waits for the phase of parity `phase` to complete. (PTX `mbarrier.try_wait.parity`; of a barrier of
    /// the cluster, `.acquire.cluster`; CUTLASS `ClusterBarrier::wait`.) See the example of [`MBarrier`].
    #[device]
    pub fn wait(&self, phase: u32) {
        // SAFETY: the handle's contract.
        unsafe {
            if S::CLUSTER {
                isa::mbarrier::wait_parity_cluster(self.addr, phase);
            } else {
                isa::mbarrier::wait_parity(self.addr, phase);
            }
        }
    }

    /// Whether the phase of parity `phase` has completed; never suspends.
    ///
    /// (PTX `mbarrier.test_wait.parity`; of a barrier of the cluster, `.acquire.cluster`; CUTLASS
    /// `ClusterBarrier::test_wait`.) See the example of [`MBarrier`].
    #[must_use = "what follows may be read only if the phase has completed"]
    #[device]
    pub fn test_wait(&self, phase: u32) -> bool {
        // SAFETY: the handle's contract.
        unsafe {
            if S::CLUSTER {
                isa::mbarrier::test_wait_parity_cluster(self.addr, phase)
            } else {
                isa::mbarrier::test_wait_parity(self.addr, phase)
            }
        }
    }
}

/// Transaction bytes that an mbarrier can hold, checked when `BYTES` is known.
struct Bytes<const BYTES: usize>;
impl<const BYTES: usize> Bytes<BYTES> {
    const COUNT: u32 = {
        assert!(BYTES <= MAX_COUNT, "an mbarrier expects at most 2^20 - 1 bytes of one phase");
        BYTES as u32
    };
}

impl<S: Scope> MBarrier<S, Transactions> {
    /// Expects `BYTES` more bytes of this phase, then arrives.
    ///
    /// Signals the barrier. (PTX `mbarrier.arrive.expect_tx`; CUTLASS
    /// `ClusterTransactionBarrier::arrive_and_expect_tx`.) See the example of [`MBarrier`].
    #[device]
    pub fn arrive_expect<const BYTES: usize>(&self) {
        // SAFETY: the handle's contract.
        unsafe { isa::mbarrier::arrive_expect_tx(self.addr, const { Bytes::<BYTES>::COUNT }) };
    }
    /// Expects `BYTES` more bytes of this phase.
    ///
    /// (PTX `mbarrier.expect_tx`; CUTLASS `ClusterTransactionBarrier::expect_transaction`.) See the example
    /// of [`MBarrier`].
    #[device]
    pub fn expect<const BYTES: usize>(&self) {
        // SAFETY: the handle's contract.
        unsafe { isa::mbarrier::expect_tx(self.addr, const { Bytes::<BYTES>::COUNT }) };
    }
}

impl<C> MBarrier<Cluster, C> {
    /// The barrier at the same place of CTA `rank`'s shared memory.
    ///
    /// (PTX `mapa.shared::cluster`; CUTLASS the `mapa` inside `ClusterBarrier::arrive(cta_id)`.) See the
    /// example of [`RemoteMBarrier`].
    #[device]
    pub fn remote(&self, rank: u32) -> RemoteMBarrier<C> {
        RemoteMBarrier { addr: isa::cluster::mapa(self.addr, rank), kind: PhantomData }
    }
}

impl<C> RemoteMBarrier<C> {
    /// Arrives once, handing over what this thread wrote to the peer's shared memory.
    ///
    /// Signals the peer's barrier. (PTX `mbarrier.arrive.release.cluster.shared::cluster`; CUTLASS
    /// `ClusterBarrier::arrive(cta_id)`.) See the example of [`RemoteMBarrier`].
    #[device]
    pub fn arrive(&self) {
        // SAFETY: the contract of the handle that this came from.
        unsafe { isa::mbarrier::arrive_remote_release_cluster(self.addr) };
    }
}

impl RemoteMBarrier<Transactions> {
    /// The peer's barrier expects `BYTES` more bytes, and gets an arrival.
    ///
    /// Signals the peer's barrier. (PTX `mbarrier.arrive.expect_tx.shared::cluster`; CUTLASS
    /// `ClusterTransactionBarrier::arrive_and_expect_tx(bytes, cta_id)`.) See the example of
    /// [`RemoteMBarrier`].
    #[device]
    pub fn arrive_expect<const BYTES: usize>(&self) {
        // SAFETY: the contract of the handle that this came from.
        unsafe {
            isa::mbarrier::arrive_expect_tx_remote(self.addr, const { Bytes::<BYTES>::COUNT });
        }
    }
}

/// A region of `COUNT` mbarriers that each expect `ARRIVALS` arrivals a phase. The plan initialises
/// them and makes them visible; the rest is the [contract of a handle](MBarrier#the-contract).
///
/// (PTX `mbarrier.init`; CUTLASS an array of `ClusterBarrier` in `SharedStorage`.)
///
/// ```
/// # use pipeline::{prelude::*, raw::{Arrivals, Barriers, Cta as OfCta}};
/// # names! { Steps = "steps" }
/// type Plan = SmemPlan<(Barriers<2, 128, OfCta, Arrivals, Steps>,)>;
/// assert_eq!(Plan::BYTES, 16);
/// ```
pub struct Barriers<const COUNT: usize, const ARRIVALS: usize, S, C, N>(PhantomData<(S, C, N)>);

// SAFETY: COUNT mbarriers of 8 bytes.
unsafe impl<const COUNT: usize, const ARRIVALS: usize, S: Scope, C, N: Name> Region
    for Barriers<COUNT, ARRIVALS, S, C, N>
{
    const BYTES: usize = {
        assert!(
            ARRIVALS >= 1 && ARRIVALS <= MAX_COUNT,
            "an mbarrier expects from 1 to 2^20 - 1 arrivals"
        );
        8 * COUNT
    };
    const ALIGN: usize = 8;
    const NAME: &'static str = N::NAME;
    type Ends = RawEnds<COUNT, S, C, N>;
    #[inline(always)]
    unsafe fn init(place: Place) {
        for i in 0..COUNT as u32 {
            // SAFETY: the region's own memory, initialised once.
            unsafe { isa::mbarrier::init(place.base + 8 * i, ARRIVALS as u32) };
            isa::debug::label_barrier(place.base + 8 * i, N::NAME, i);
        }
    }
    #[inline(always)]
    unsafe fn ends(place: Place) -> Self::Ends {
        RawEnds { base: place.base, kind: PhantomData }
    }
}

/// What a kernel gets of [`Barriers`].
///
/// ```
/// # use pipeline::{prelude::*, raw::{Arrivals, Cta as OfCta, RawEnds}};
/// # names! { Steps = "steps" }
/// /// # Safety
/// /// The contract of `MBarrier`, of both.
/// unsafe fn wait_for_both(ends: RawEnds<2, OfCta, Arrivals, Steps>) {
///     let [first, second] = unsafe { ends.handles() };
///     first.wait(0);
///     second.wait(0);
/// }
/// ```
#[derive(Clone, Copy)]
pub struct RawEnds<const COUNT: usize, S, C, N> {
    base: u32,
    kind: PhantomData<(S, C, N, *const ())>,
}

impl<const COUNT: usize, S: Scope, C, N: Name> RawEnds<COUNT, S, C, N> {
    /// Handles on the barriers, in order.
    ///
    /// See the example of [`RawEnds`].
    ///
    /// # Safety
    /// The [contract](MBarrier#the-contract), whose first point the plan has seen to.
    #[inline(always)]
    pub unsafe fn handles(self) -> [MBarrier<S, C>; COUNT] {
        core::array::from_fn(|i| MBarrier { addr: self.base + 8 * i as u32, kind: PhantomData })
    }
}

/// A region of `BYTES` bytes of shared memory, 128-byte aligned, for what a raw barrier guards.
///
/// (CUTLASS an array in `SharedStorage`.)
///
/// ```
/// # use pipeline::{prelude::*, raw::Memory};
/// # names! { Words = "words" }
/// type Plan = SmemPlan<(Memory<1024, Words>,)>;
/// assert_eq!(Plan::BYTES, 1024);
/// ```
pub struct Memory<const BYTES: usize, N>(PhantomData<N>);

// SAFETY: BYTES bytes, nothing to initialise.
unsafe impl<const BYTES: usize, N: Name> Region for Memory<BYTES, N> {
    const BYTES: usize = BYTES;
    const ALIGN: usize = 128;
    const NAME: &'static str = N::NAME;
    /// The shared address of the first byte.
    type Ends = u32;
    #[inline(always)]
    unsafe fn init(_place: Place) {}
    #[inline(always)]
    unsafe fn ends(place: Place) -> u32 {
        place.base
    }
}
