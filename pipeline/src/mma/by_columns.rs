//! Operands whose product is divided among the warp groups by columns.

use crate::cta::ClusterShape;
use crate::mma::operand::sealed::Sealed;
use crate::mma::operand::{MmaTiles, Operands};
use crate::ring::{FullSlot, MmaInTurn, MmaReaders, Name, RetiredSlot, Stage};
use isa::device;
use isa::wgmma::{M64, Shape};

/// A full slot whose product the warp groups divide by columns: each multiplies all rows of A with its part of B's rows.
/// [`FullSlot::by_columns`] makes it.
///
/// (CUTLASS: a `TiledMma` whose `AtomLayoutMNK` is 1 x 2 x 1.)
///
/// ```
/// # use {half::bf16, warpipe_pipeline::{mma::*, prelude::*, ring::*}};
/// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
/// # type Alone = Cluster<1, 1>;
/// type Operands = (Tile<bf16, 192, 64>, Tile<bf16, 208, 64>);
/// /// Three blocks of 64 rows and 104 columns for each of two warp groups.
/// fn sum(
///     mut full: Consumer<4, Operands, Mma<Math>, Main, Alone>,
///     group: &Warpgroup<Math, Alone>,
/// ) -> TallAccumulator<104, 3> {
///     let mut sum = TallAccumulator::<104, 3>::start(group, full.wait().by_columns());
///     for _k in 1..9 {
///         sum.next(full.wait().by_columns()).release();
///     }
///     let (sum, last) = sum.finish();
///     last.release();
///     sum
/// }
/// ```
#[must_use = "a slot that is never multiplied stops the ring: give it to an accumulator"]
pub struct ByColumns<Slot>(Slot);

impl<St: Stage, Rd: MmaReaders, Tag: Name, Cl: ClusterShape> FullSlot<St, Rd, Tag, Cl> {
    /// Divides the product among the warp groups by columns: each multiplies all rows of A with an equal part of B's rows, in
    /// the order of the groups. Without it, each multiplies an equal part of A's rows with all of B.
    ///
    /// The tile of A has 64 rows for each block of the accumulator, and that of B has as many rows as the accumulators of all
    /// warp groups have columns. A build refuses others:
    ///
    /// ```compile_fail,E0080
    /// # use {half::bf16, warpipe_pipeline::{mma::*, prelude::*, ring::*}};
    /// # names! { Main = "main loop" } roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }
    /// # type Alone = Cluster<1, 1>;
    /// # type Slot = FullSlot<(Tile<bf16, 192, 64>, Tile<bf16, 208, 64>), Mma<Math>, Main, Alone>;
    /// /// Two warp groups with 96 columns each can't have all 208.
    /// fn sum(slot: Slot, group: &Warpgroup<Math, Alone>) {
    ///     let (_sum, slot) = TallAccumulator::<96, 3>::start(group, slot.by_columns()).finish();
    ///     slot.release();
    /// }
    /// let _built: fn(Slot, &Warpgroup<Math, Alone>) = sum;
    /// ```
    ///
    /// (CUTLASS: the `AtomLayoutMNK` of `make_tiled_mma`.) See the example of [`ByColumns`].
    #[isa::forceinline]
    pub fn by_columns(self) -> ByColumns<Self> {
        ByColumns(self)
    }
}

impl<Slot> Sealed for ByColumns<Slot> {}
impl<const N: usize, const BLOCKS: usize, S, St, Rd, Tag, Cl> Operands<N, BLOCKS, S>
    for ByColumns<FullSlot<St, Rd, Tag, Cl>>
where
    M64<N>: Shape<S>,
    St: MmaTiles<S>,
    Rd: MmaReaders,
    Tag: Name,
    Cl: ClusterShape,
{
    type Role = Rd::Role;
    type Cluster = Cl;
    type Retired = RetiredSlot<St, Rd, Tag, Cl>;
    #[device]
    unsafe fn issue(
        &mut self,
        group: u32,
        regs: &mut [<M64<N> as Shape<S>>::Regs; BLOCKS],
        accumulate: bool,
    ) {
        const {
            assert!(
                N * Rd::GROUPS == St::COLUMNS,
                "the tile of B has the columns of the accumulators of all warp groups that read it"
            );
        }
        let first = N * Rd::share(group) as usize;
        // A reader that has the slot to itself reads all rows of A.
        type Alone<Rd> = MmaInTurn<<Rd as crate::ring::Readers>::Role>;
        // SAFETY: the caller's contract; the token proves that the tiles have arrived, and `first` + N is at most
        // COLUMNS, because a group's share is below GROUPS.
        unsafe { St::issue::<Alone<Rd>, N, BLOCKS>(self.0.data(), 0, first, regs, accumulate) }
    }
    #[isa::forceinline]
    unsafe fn retired(self) -> Self::Retired {
        // SAFETY: the caller's contract.
        unsafe { self.0.into_retired() }
    }
}
