//! Raw mbarriers and shared memory: the escape hatch for a protocol that no ring or barrier of the crate has.
//!
//! Invariant: every function that makes a handle is `unsafe`, and its caller promises the
//! [contract](MBarrier#the-contract). The methods of a handle are safe.
//!
//! The author chooses arrival counts, bytes and phases, as with CUTLASS's `ClusterBarrier` and
//! `ClusterTransactionBarrier`. The types still distinguish barriers of the CTA from barriers of the cluster, and
//! barriers that count arrivals from those that count bytes too.
//!
//! ```
//! use warpipe_pipeline::raw::{Arrivals, Cluster, Cta, MBarrier, Transactions};
//! /// Waits for the peers' arrivals, then arms the barrier of a copy.
//! fn arm(peers: &MBarrier<Cluster, Arrivals>, copy: &MBarrier<Cta, Transactions>, phase: u32) {
//!     peers.wait(phase);
//!     copy.arrive_expect::<4096>();
//! }
//! ```

use crate::cta::{Place, Region};
use crate::ring::{Name, name_of};
use core::marker::PhantomData;
use isa::device;
use isa::kernel::{Part, RegionFacts};

/// The greatest arrival count and the greatest transaction count (in bytes) of an mbarrier: 2²⁰ - 1.
pub const MAX_COUNT: usize = (1 << 20) - 1;

/// The scope of a barrier at which only threads and copies of its own CTA arrive.
///
/// (PTX `.release.cta`, `.acquire.cta`, the defaults of the instructions.)
///
/// ```
/// use warpipe_pipeline::raw::{Arrivals, Cta, MBarrier};
/// fn wait(own: &MBarrier<Cta, Arrivals>) { own.wait(0); }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Cta {}
/// The scope of a barrier at which peers of the cluster arrive too, to release what they wrote.
///
/// (PTX `.release.cluster`, `.acquire.cluster`. CUTLASS's `ClusterBarrier` leaves the scope to each call.)
///
/// ```
/// use warpipe_pipeline::raw::{Arrivals, Cluster, MBarrier};
/// fn wait(peers: &MBarrier<Cluster, Arrivals>) { peers.wait(0); }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Cluster {}
/// The kind of a barrier that counts arrivals only.
///
/// (CUTLASS `ClusterBarrier`.)
///
/// ```
/// use warpipe_pipeline::raw::{Arrivals, Cta, MBarrier};
/// fn say(threads: &MBarrier<Cta, Arrivals>) { threads.arrive(); }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Arrivals {}
/// The kind of a barrier that counts arrivals and the bytes of copies.
///
/// (CUTLASS `ClusterTransactionBarrier`.)
///
/// ```
/// use warpipe_pipeline::raw::{Cta, MBarrier, Transactions};
/// fn arm(copy: &MBarrier<Cta, Transactions>) { copy.arrive_expect::<1024>(); }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Transactions {}

mod sealed {
    pub trait Scope {}
    impl Scope for super::Cta {}
    impl Scope for super::Cluster {}
}
/// The scope of a barrier: [`Cta`] or [`Cluster`].
///
/// (PTX: the scope of `mbarrier.try_wait`.)
///
/// ```
/// use warpipe_pipeline::raw::{Arrivals, MBarrier, Scope};
/// fn both<S: Scope>(a: &MBarrier<S, Arrivals>, b: &MBarrier<S, Arrivals>) {
///     a.wait(0);
///     b.wait(0);
/// }
/// ```
pub trait Scope: sealed::Scope + 'static {
    /// Whether waits acquire the writes of peers in the cluster.
    const CLUSTER: bool;
}
impl Scope for Cta {
    const CLUSTER: bool = false;
}
impl Scope for Cluster {
    const CLUSTER: bool = true;
}

/// A handle on an initialised mbarrier of this thread's CTA.
///
/// (PTX `mbarrier.*`; CUTLASS `ClusterBarrier`, `ClusterTransactionBarrier`.)
///
/// ```
/// # use warpipe_pipeline::raw::{Cta, MBarrier, Transactions};
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
/// The caller that makes a handle promises four things, for as long as any thread uses a handle on this barrier:
/// 1. An initialised mbarrier lies at the address, and it is visible to all threads that use it. (The plan does
///    this for [`Barriers`].)
/// 2. Each phase gets the number of arrivals that the barrier was initialised with, and the bytes that land on it
///    are those that it expects.
/// 3. No thread waits for a phase after the next phase has completed, because the parities of phases n and n + 2
///    are equal.
/// 4. In a cluster, no CTA exits while a peer may still arrive on its barrier.
///
/// A kernel that breaks 2, 3 or 4 hangs or reads data that has not arrived. The model of the SM reports where.
pub struct MBarrier<S, C> {
    addr: u32,
    kind: PhantomData<(S, C, *const ())>,
}

/// A handle on a peer's mbarrier, on which a thread can arrive but not wait.
///
/// (PTX `mbarrier.arrive.shared::cluster`; CUTLASS `ClusterBarrier::arrive(cta_id)`.)
///
/// ```
/// # use warpipe_pipeline::raw::{Arrivals, Cluster, MBarrier, RemoteMBarrier, Transactions};
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
    /// Makes a handle on the mbarrier at the shared address `addr`.
    ///
    /// (CUTLASS `reinterpret_cast<ClusterBarrier*>`.)
    ///
    /// ```
    /// # use warpipe_pipeline::raw::{Arrivals, Cta, MBarrier};
    /// /// # Safety
    /// /// The contract of `MBarrier`, for the mbarrier at `addr`.
    /// unsafe fn handle(addr: u32) -> MBarrier<Cta, Arrivals> {
    ///     unsafe { MBarrier::at(addr) }
    /// }
    /// ```
    ///
    /// # Safety
    /// The [contract](Self#the-contract).
    #[isa::forceinline]
    pub const unsafe fn at(addr: u32) -> Self {
        Self { addr, kind: PhantomData }
    }

    /// The barrier's shared address, which a copy takes to complete on.
    ///
    /// (CUTLASS `cast_smem_ptr_to_uint`.) See the example of [`MBarrier`].
    #[isa::forceinline]
    pub const fn addr(&self) -> u32 {
        self.addr
    }

    /// Arrives once.
    ///
    /// (PTX `mbarrier.arrive`; CUTLASS `ClusterBarrier::arrive()`.) See the example of
    /// [`Arrivals`].
    #[device]
    pub fn arrive(&self) {
        // SAFETY: the handle's contract.
        unsafe { isa::mbarrier::arrive(self.addr) };
    }

    /// Waits until the phase of parity `phase` has completed.
    ///
    /// The first phase has parity 0. On a fresh barrier, a wait for parity 1 passes. (PTX
    /// `mbarrier.try_wait.parity` in a loop, with `.acquire.cluster` for a barrier of the cluster; CUTLASS
    /// `ClusterBarrier::wait`.) See the example of [`MBarrier`].
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

    /// Tests whether the phase of parity `phase` has completed, without suspending the thread.
    ///
    /// (PTX `mbarrier.test_wait.parity`, with `.acquire.cluster` for a barrier of the cluster; CUTLASS
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

/// `BYTES` as a transaction count, checked against [`MAX_COUNT`].
struct Bytes<const BYTES: usize>;
impl<const BYTES: usize> Bytes<BYTES> {
    const COUNT: u32 = {
        assert!(BYTES <= MAX_COUNT, "an mbarrier expects at most 2^20 - 1 bytes of one phase");
        BYTES as u32
    };
}

impl<S: Scope> MBarrier<S, Transactions> {
    /// Expects `BYTES` more bytes in this phase, then arrives.
    ///
    /// (PTX `mbarrier.arrive.expect_tx`; CUTLASS
    /// `ClusterTransactionBarrier::arrive_and_expect_tx`.) See the example of [`MBarrier`].
    #[device]
    pub fn arrive_expect<const BYTES: usize>(&self) {
        // SAFETY: the handle's contract.
        unsafe { isa::mbarrier::arrive_expect_tx(self.addr, const { Bytes::<BYTES>::COUNT }) };
    }
    /// Expects `BYTES` more bytes in this phase.
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
    /// Returns a handle on the barrier at the same place in the shared memory of CTA `rank`.
    ///
    /// (PTX `mapa.shared::cluster`; CUTLASS: the `mapa` inside `ClusterBarrier::arrive(cta_id)`.) See the
    /// example of [`RemoteMBarrier`].
    #[device]
    pub fn remote(&self, rank: u32) -> RemoteMBarrier<C> {
        RemoteMBarrier { addr: isa::cluster::mapa(self.addr, rank), kind: PhantomData }
    }
}

impl<C> RemoteMBarrier<C> {
    /// Arrives once on the peer's barrier and releases what this thread wrote to the peer's shared memory.
    ///
    /// (PTX `mbarrier.arrive.release.cluster.shared::cluster`; CUTLASS
    /// `ClusterBarrier::arrive(cta_id)`.) See the example of [`RemoteMBarrier`].
    #[device]
    pub fn arrive(&self) {
        // SAFETY: the contract of the handle that this came from.
        unsafe { isa::mbarrier::arrive_remote_release_cluster(self.addr) };
    }
}

impl RemoteMBarrier<Transactions> {
    /// Makes the peer's barrier expect `BYTES` more bytes in this phase, then arrives on it.
    ///
    /// (PTX `mbarrier.arrive.expect_tx.shared::cluster`; CUTLASS
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

/// A region of `COUNT` mbarriers that each expect `ARRIVALS` arrivals per phase.
///
/// The plan initialises them and makes them visible. The caller promises the rest of the
/// [contract](MBarrier#the-contract). (PTX `mbarrier.init`; CUTLASS: an array of `ClusterBarrier` in
/// `SharedStorage`.)
///
/// ```
/// # use warpipe_pipeline::{prelude::*, raw::{Arrivals, Barriers, Cta as OfCta}};
/// # names! { Steps = "steps" }
/// type Plan = SmemPlan<(Barriers<2, 128, OfCta, Arrivals, Steps>,)>;
/// assert_eq!(Plan::BYTES, 16);
/// ```
pub struct Barriers<const COUNT: usize, const ARRIVALS: usize, S, C, N>(PhantomData<(S, C, N)>);

// SAFETY: the region has COUNT mbarriers of 8 bytes.
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
    const NAME: &'static str = name_of::<N>();
    const FACTS: RegionFacts = RegionFacts::of(
        "raw::Barriers",
        &[Part::Mbarriers {
            what: "",
            offset: 0,
            count: COUNT as u32,
            arrivals: ARRIVALS as u32,
            by: "the kernel's own protocol",
        }],
    );
    type Ends = RawEnds<COUNT, S, C, N>;
    #[isa::forceinline]
    unsafe fn init(place: Place) {
        for i in 0..COUNT as u32 {
            // SAFETY: the region's own memory, initialised once.
            unsafe { isa::mbarrier::init(place.base + 8 * i, ARRIVALS as u32) };
            isa::debug::label_barrier(place.base + 8 * i, N::NAME, i);
        }
    }
    #[isa::forceinline]
    unsafe fn ends(place: Place) -> Self::Ends {
        RawEnds { base: place.base, kind: PhantomData }
    }
}

/// The ends of [`Barriers`], from which a kernel gets the handles.
///
/// ```
/// # use warpipe_pipeline::{prelude::*, raw::{Arrivals, Cta as OfCta, RawEnds}};
/// # names! { Steps = "steps" }
/// /// # Safety
/// /// The contract of `MBarrier`, for both.
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
    /// Returns handles on the barriers, in order.
    ///
    /// See the example of [`RawEnds`].
    ///
    /// # Safety
    /// The [contract](MBarrier#the-contract) except its first point, which the plan ensures.
    #[isa::forceinline]
    pub unsafe fn handles(self) -> [MBarrier<S, C>; COUNT] {
        core::array::from_fn(|i| MBarrier { addr: self.base + 8 * i as u32, kind: PhantomData })
    }
}

/// A region of `BYTES` bytes of shared memory, aligned to 128 bytes, for data that a raw barrier guards.
///
/// (CUTLASS: an array in `SharedStorage`.)
///
/// ```
/// # use warpipe_pipeline::{prelude::*, raw::Memory};
/// # names! { Words = "words" }
/// type Plan = SmemPlan<(Memory<1024, Words>,)>;
/// assert_eq!(Plan::BYTES, 1024);
/// ```
pub struct Memory<const BYTES: usize, N>(PhantomData<N>);

// SAFETY: the region has BYTES bytes and nothing to initialise.
unsafe impl<const BYTES: usize, N: Name> Region for Memory<BYTES, N> {
    const BYTES: usize = BYTES;
    const ALIGN: usize = 128;
    const NAME: &'static str = name_of::<N>();
    const FACTS: RegionFacts = RegionFacts::of(
        "raw::Memory",
        &[Part::Bytes { what: "bytes", offset: 0, bytes: BYTES as u32 }],
    );
    /// The shared address of the first byte.
    type Ends = u32;
    #[isa::forceinline]
    unsafe fn init(_place: Place) {}
    #[isa::forceinline]
    unsafe fn ends(place: Place) -> u32 {
        place.base
    }
}
