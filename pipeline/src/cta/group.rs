//! How many CTAs execute a `tcgen05.mma` together: one, or a pair.
//!
//! This is for Blackwell. It has never run on a chip.
//!
//! Invariant: in a pair, only the thread that has the [`Leader`] token multiplies. There is one such thread, in the CTA with
//! the even rank.

use super::{ClusterCoord, ClusterShape, Role};
use core::marker::PhantomData;
use isa::device;
use isa::tcgen05::{self, ScaledKind};

mod sealed {
    pub trait Sealed {}
}

/// The CTAs that multiply together: [`OneSm`] or [`TwoSm`]. All of a kernel's rings and accumulators in tensor memory say
/// the same.
///
/// (PTX `.cta_group`; CUTLASS `AtomThrShapeMNK`, 1SM and 2SM.)
///
/// ```
/// use warpipe_pipeline::cta::{CtaGroup, OneSm, TwoSm};
/// assert_eq!((OneSm::CTAS, TwoSm::CTAS), (1, 2));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say how many CTAs multiply together",
    label = "not `OneSm` or `TwoSm`"
)]
pub trait CtaGroup: sealed::Sealed + 'static {
    /// The number of CTAs that multiply together: 1 or 2.
    const CTAS: usize;

    /// Allocates columns of tensor memory, and gives up the permit.
    ///
    /// # Safety
    /// As `alloc` and `relinquish_alloc_permit`, or `alloc_2sm` and `relinquish_alloc_permit_2sm`.
    #[doc(hidden)]
    unsafe fn alloc(to: u32, columns: u32);

    /// Commits this thread's multiplications to a barrier, in each CTA of `mask` unless that is 0.
    ///
    /// # Safety
    /// As `commit` and `commit_multicast`, or `commit_2sm` and `commit_multicast_2sm`.
    #[doc(hidden)]
    unsafe fn commit(bar: u32, mask: u16);

    /// Copies a block of factors from shared to tensor memory, in each CTA.
    ///
    /// # Safety
    /// As `cp_32x128b_warpx4` or `cp_32x128b_warpx4_2sm`.
    #[doc(hidden)]
    unsafe fn copy_factors(taddr: u32, from: u64);

    /// Issues a multiplication with block scales.
    ///
    /// # Safety
    /// As `mma_mxf8f6f4_block_scale` or `mma_mxf8f6f4_block_scale_2sm`. `idesc` is of the kind.
    #[doc(hidden)]
    unsafe fn multiply_scaled<K: ScaledKind>(
        d: u32,
        operands: (u64, u64),
        idesc: u32,
        factors: (u32, u32),
        adds: bool,
    );
}

/// Each CTA multiplies by itself. (PTX `.cta_group::1`; CUTLASS 1SM.)
///
/// ```
/// # use warpipe_pipeline::{cta::{OneSm, TwoSm}, prelude::*, tensor::TensorAccumulators};
/// # names! { Sums = "sums" } roles! { Store = 1 x 216 registers }
/// type Alone = TensorAccumulators<2, 256, Store, Sums, OneSm>;
/// type Pair = TensorAccumulators<2, 256, Store, Sums, TwoSm>;
/// assert_eq!(SmemPlan::<(Pair,)>::BYTES, SmemPlan::<(Alone,)>::BYTES + 8);
/// ```
#[derive(Clone, Copy, Debug)]
pub enum OneSm {}

/// The two CTAs of a cluster multiply together. The one with rank 0 leads. (PTX `.cta_group::2`; CUTLASS 2SM.)
///
/// See the example of [`OneSm`].
#[derive(Clone, Copy, Debug)]
pub enum TwoSm {}

impl sealed::Sealed for OneSm {}
impl CtaGroup for OneSm {
    const CTAS: usize = 1;
    #[device]
    unsafe fn alloc(to: u32, columns: u32) {
        // SAFETY: the caller's contract.
        unsafe {
            tcgen05::alloc(to, columns);
            tcgen05::relinquish_alloc_permit();
        }
    }
    #[device]
    unsafe fn commit(bar: u32, mask: u16) {
        // SAFETY: the caller's contract.
        unsafe {
            if mask == 0 {
                tcgen05::commit(bar);
            } else {
                tcgen05::commit_multicast(bar, mask);
            }
        }
    }
    #[device]
    unsafe fn copy_factors(taddr: u32, from: u64) {
        // SAFETY: the caller's contract.
        unsafe { tcgen05::cp_32x128b_warpx4(taddr, from) }
    }
    #[device]
    unsafe fn multiply_scaled<K: ScaledKind>(
        d: u32,
        (a, b): (u64, u64),
        idesc: u32,
        (sfa, sfb): (u32, u32),
        adds: bool,
    ) {
        // SAFETY: the caller's contract.
        unsafe { K::mma(d, a, b, idesc, sfa, sfb, adds) }
    }
}

impl sealed::Sealed for TwoSm {}
impl CtaGroup for TwoSm {
    const CTAS: usize = 2;
    #[device]
    unsafe fn alloc(to: u32, columns: u32) {
        // SAFETY: the caller's contract.
        unsafe {
            tcgen05::alloc_2sm(to, columns);
            tcgen05::relinquish_alloc_permit_2sm();
        }
    }
    #[device]
    unsafe fn commit(bar: u32, mask: u16) {
        // SAFETY: the caller's contract.
        unsafe { tcgen05::commit_multicast_2sm(bar, mask) }
    }
    #[device]
    unsafe fn copy_factors(taddr: u32, from: u64) {
        // SAFETY: the caller's contract.
        unsafe { tcgen05::cp_32x128b_warpx4_2sm(taddr, from) }
    }
    #[device]
    unsafe fn multiply_scaled<K: ScaledKind>(
        d: u32,
        (a, b): (u64, u64),
        idesc: u32,
        (sfa, sfb): (u32, u32),
        adds: bool,
    ) {
        // SAFETY: the caller's contract.
        unsafe { K::mma_2sm(d, a, b, idesc, sfa, sfb, adds) }
    }
}

/// The CTAs of a pair, as a multicast mask.
pub(crate) const PAIR: u16 = 3;

/// Refuses clusters that are not one pair.
pub(crate) const fn is_pair<Cl: ClusterShape>() -> bool {
    Cl::M == 2 && Cl::N == 1
}

impl<Cl: ClusterShape> ClusterCoord<Cl> {
    /// Whether this CTA leads its pair: its rank is even. (CUTLASS `is_mma_leader_cta`.)
    #[isa::forceinline]
    pub(crate) fn leads(self) -> bool {
        self.rank().is_multiple_of(2)
    }
}

/// The token of the one thread of a pair of CTAs that multiplies. It is a thread of the CTA with the even rank.
///
/// [`AccumulatorProducerEnd::by`](crate::tensor::AccumulatorProducerEnd::by) makes it. (CUTLASS: the code under
/// `is_mma_leader_cta`.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{prelude::*, cta::*, ring::*, tensor::*}};
/// # names! { Main = "main loop", Sums = "sums" }
/// # roles! { Work = 1 x 40 registers, Store = 1 x 216 registers }
/// # type Halves = (Tile<bf16, 128, 64>, Tile<bf16, 128, 64>); type Pair = Cluster<2, 1>;
/// fn multiply(
///     warp: Warp<Work, Pair>,
///     operands: ConsumerEnd<6, Halves, Umma<Work, TwoSm>, Main, Pair>,
///     sums: AccumulatorProducerEnd<2, 256, Store, Sums, TwoSm>,
///     k_tiles: u32,
/// ) {
///     sums.by(warp, |leader: &Leader<Work, Pair>, sums| {
///         let mut operands = operands.by_leader(leader);
///         let mut sum = sums.acquire().start(operands.wait());
///         for _ in 1..k_tiles {
///             sum.add(operands.wait());
///         }
///         sum.commit();
///     });
/// }
/// ```
#[must_use]
pub struct Leader<R, Cl> {
    at: ClusterCoord<Cl>,
    here: PhantomData<(R, *const ())>,
}

impl<R: Role, Cl: ClusterShape> Leader<R, Cl> {
    /// The caller is the elected thread of the CTA that leads.
    #[isa::forceinline]
    pub(crate) fn new(at: ClusterCoord<Cl>) -> Self {
        Self { at, here: PhantomData }
    }

    /// This CTA's place in its cluster. See the example of [`Leader`].
    #[isa::forceinline]
    pub fn coord(&self) -> ClusterCoord<Cl> {
        self.at
    }
}
