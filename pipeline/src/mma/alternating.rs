//! Accumulators with promotion, whose parts are whole k tiles: one k tile is added while the next one is multiplied.
//!
//! Invariant: as in [`promoted`](super::promoted). A part is read only when no wgmma that writes it is in flight, and the
//! sums are returned only when all parts have been added.
//!
//! [`PromotedAccumulator`] divides a tile's columns into parts, so each part reads all of A once more. Tiles of up to 144
//! columns have room for two parts of all columns, which take turns from k tile to k tile:
//!
//! ```text
//! wgmma   k │ k+1 │ k+2 │ k+3
//! part    0 │  1  │  0  │  1
//! add       │  0  │  1  │  0
//! ```
//!
//! Which part is in flight is a constant of the type, because registers have no index at run time.
//!
//! [`PromotedAccumulator`]: super::PromotedAccumulator

use super::promoted::{Regs, add, factors, issue, wait};
use crate::cta::{ClusterShape, Warpgroup};
use crate::mma::{Accumulator, PromoteTiles};
use crate::ring::{FullSlot, MmaReaders, Name, RetiredSlot};
use core::mem::ManuallyDrop;
use isa::device;
use isa::wgmma::{M64, Shape};

/// A warp group's f32 accumulator of 64 rows and `N` columns, to which whole k tiles are added.
///
/// The sums take `N` / 2 registers of a thread, and the two parts `N`.
///
/// (PTX: the D registers of `wgmma.mma_async` are those of the parts; CUTLASS `GmmaFP8Accumulation`, with a second temporary
/// accumulator.)
///
/// ```
/// # use {float8::F8E4M3, warpipe_pipeline::{mma::AlternatingAccumulator, prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 1 x 216 registers }
/// # type Operands = (Tile<F8E4M3, 64, 128>, Tile<F8E4M3, 112, 128>); type Alone = Cluster<1, 1>;
/// /// The sums of `k_tiles` slots, one at least.
/// fn sum(
///     mut full: Consumer<4, Operands, Mma<Math>, Main, Alone>,
///     group: &Warpgroup<Math, Alone>,
///     k_tiles: u32,
/// ) -> Accumulator<112> {
///     let mut even = AlternatingAccumulator::<112>::start(group, full.wait());
///     for _ in 0..(k_tiles - 1) / 2 {
///         let (odd, slot) = even.next(full.wait());
///         slot.release();
///         let (next, slot) = odd.next(full.wait());
///         slot.release();
///         even = next;
///     }
///     let (sum, last) = if k_tiles.is_multiple_of(2) {
///         let (odd, slot) = even.next(full.wait());
///         slot.release();
///         odd.finish()
///     } else {
///         even.finish()
///     };
///     last.release();
///     sum
/// }
/// ```
pub struct AlternatingAccumulator<const N: usize>
where
    M64<N>: Shape,
{
    sums: Regs<N>,
    parts: [Regs<N>; 2],
}

/// An accumulator whose part `PART`, 0 or 1, is in flight: the product of the newest slot.
///
/// See the example of [`AlternatingAccumulator`].
#[must_use = "a part that is never finished keeps its slot: call `finish`"]
pub struct AlternatingInFlight<
    'g,
    const PART: usize,
    const N: usize,
    Rd: MmaReaders,
    St: PromoteTiles<Rd>,
    Tag,
    Cl,
> where
    M64<N>: Shape,
{
    acc: AlternatingAccumulator<N>,
    slot: FullSlot<St, Rd, Tag, Cl>,
    /// The scale factors of the slot.
    factors: St::Factors,
    group: &'g Warpgroup<Rd::Role, Cl>,
}

impl<const N: usize> AlternatingAccumulator<N>
where
    M64<N>: Shape,
{
    /// Starts an accumulation: issues the product of the first slot and commits it as a wgmma group.
    ///
    /// (PTX `wgmma.fence`, `wgmma.mma_async` BK / 32 times, `wgmma.commit_group`; CUTLASS `warpgroup_arrive`, `gemm` with
    /// `ScaleOut::Zero`, `warpgroup_commit_batch`.) See the example of [`AlternatingAccumulator`].
    #[device]
    pub fn start<Rd, St, Tag, Cl>(
        group: &Warpgroup<Rd::Role, Cl>,
        slot: FullSlot<St, Rd, Tag, Cl>,
    ) -> AlternatingInFlight<'_, 0, N, Rd, St, Tag, Cl>
    where
        Rd: MmaReaders,
        St: PromoteTiles<Rd>,
        Tag: Name,
        Cl: ClusterShape,
    {
        let zero = <M64<N> as Shape>::ZERO;
        let mut acc = Self { sums: zero, parts: [zero; 2] };
        let factors = factors(&slot, group);
        acc.issue(&slot, group, 0);
        AlternatingInFlight { acc, slot, factors, group }
    }

    /// Issues the product of a slot into a part.
    #[device]
    fn issue<Rd, St, Tag, Cl>(
        &mut self,
        slot: &FullSlot<St, Rd, Tag, Cl>,
        group: &Warpgroup<Rd::Role, Cl>,
        part: usize,
    ) where
        Rd: MmaReaders,
        St: PromoteTiles<Rd>,
        Tag: Name,
        Cl: ClusterShape,
    {
        const { assert!(N == St::COLUMNS, "a part has all columns of the tile of B") }
        // SAFETY: the slot and the registers stay inside `AlternatingInFlight` until a wait.
        unsafe { issue::<N, _, _, _, _>(&mut self.parts[part], slot, group, 0) };
    }
}

/// `AlternatingInFlight` of the one part, and what turns it into that of the other one.
macro_rules! turns {
    ($($part:literal => $other:literal),+) => {$(
        impl<'g, const N: usize, Rd, St, Tag, Cl> AlternatingInFlight<'g, $part, N, Rd, St, Tag, Cl>
        where
            M64<N>: Shape,
            Rd: MmaReaders,
            St: PromoteTiles<Rd>,
            Tag: Name,
            Cl: ClusterShape,
        {
            /// Issues the product of the next slot into the other part, and adds this one, scaled. Returns the older slot, which
            /// has been read.
            ///
            /// Waits for the older product. (PTX `wgmma.fence`, `wgmma.mma_async` BK / 32 times, `wgmma.commit_group`,
            /// `wgmma.wait_group 1` and additions; CUTLASS: `GmmaFP8Accumulation::promote_if_needed`, here with two temporary
            /// accumulators.) See the example of [`AlternatingAccumulator`].
            #[device]
            #[allow(clippy::type_complexity, reason = "the pair is what the caller binds to two names")]
            pub fn next(
                self,
                slot: FullSlot<St, Rd, Tag, Cl>,
            ) -> (
                AlternatingInFlight<'g, $other, N, Rd, St, Tag, Cl>,
                RetiredSlot<St, Rd, Tag, Cl>,
            ) {
                let this = ManuallyDrop::new(self);
                let group = this.group;
                let mut acc =
                    AlternatingAccumulator { sums: this.acc.sums, parts: this.acc.parts };
                let later = factors(&slot, group);
                acc.issue(&slot, group, $other);
                wait::<1, _, _>(group);
                add::<N, Rd, St>(&mut acc.sums, &mut acc.parts[$part], 0, &this.factors);
                // SAFETY: only the batch just committed can be in flight, so nothing reads the older slot any more. `this` is
                // never dropped, so the slot does not exist twice.
                let older = unsafe { core::ptr::read(&raw const this.slot).into_retired() };
                (AlternatingInFlight { acc, slot, factors: later, group }, older)
            }

            /// Ends the accumulation: returns the sums and the last slot.
            ///
            /// Waits for the product in flight. (PTX `wgmma.wait_group 0` and additions; CUTLASS `warpgroup_wait<0>`.) See the
            /// example of [`AlternatingAccumulator`].
            #[device]
            pub fn finish(self) -> (Accumulator<N>, RetiredSlot<St, Rd, Tag, Cl>) {
                wait::<0, _, _>(self.group);
                let mut this = ManuallyDrop::new(self);
                let factors = this.factors;
                let AlternatingAccumulator { sums, parts } = &mut this.acc;
                add::<N, Rd, St>(sums, &mut parts[$part], 0, &factors);
                let sums = *sums;
                // SAFETY: no batch is in flight after the wait. `this` is never dropped, so the slot does not exist twice.
                let last = unsafe { core::ptr::read(&raw const this.slot).into_retired() };
                (Accumulator::from_regs(sums), last)
            }
        }
    )+};
}
turns!(0 => 1, 1 => 0);

/// Waits for parts that are dropped, so that they can't write registers that have been reused by then.
///
/// Their slot is lost, so the ring stops.
///
/// (PTX `wgmma.wait_group 0`; no instruction in code that finishes every accumulation.)
impl<const PART: usize, const N: usize, Rd: MmaReaders, St: PromoteTiles<Rd>, Tag, Cl> Drop
    for AlternatingInFlight<'_, PART, N, Rd, St, Tag, Cl>
where
    M64<N>: Shape,
{
    #[device]
    fn drop(&mut self) {
        wait::<0, _, _>(self.group);
        M64::<N>::fence_operand(&mut self.acc.parts[PART]);
    }
}
