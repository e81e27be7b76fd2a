//! Tiles that several CTAs compute in parts, and that the last CTA finishes (split-K with few rows).
//!
//! Invariant: a part is read only after all parts of its tile have been stored. Each warp group that stores a part increments
//! a counter in the tile's first slot. The last one gets [`SplitTile`], the only way to read the parts. It reads them in a
//! fixed order, so the rounding is the same in every run, whichever CTA comes last. No CTA waits for another.
//!
//! ```text
//!   CTA 7:  keys 0..500 of tile 3    ──► store part 0; counts 1 of 2
//!   CTA 8:  keys 500..900 of tile 3  ──► store part 1; counts 2 of 2 ──► SplitTile: part 0 + part 1 ──► result
//! ```

use crate::cta::{ClusterShape, Role, Warpgroup};
use crate::mma::{Accumulator, GROUP_ROWS, Rows};
use core::array::from_fn;
use core::marker::PhantomData;
use isa::device;
use isa::kernel::{AfterWait, ByValue, KernelArg, ParamMeta};
use isa::slice::{DeviceSliceMut, SliceAbi};
use isa::wgmma::{M64, Shape};

/// Four sums: what a thread loads in one instruction.
type Quad = [f32; 4];
/// Eights of columns whose sums a thread loads before it adds the first one: 32 registers. One after the other, each
/// would take a round trip to the L2 cache.
const EIGHTS: usize = 8;
/// Quads of a slot's counter: 128 bytes, a cache line of its own.
const COUNTER: u32 = 8;

/// The workspace of tiles that are split: a slot of 64 rows of `N` sums and a value for each row, for every part.
///
/// All bytes must be 0 before the first launch; every launch leaves the counters 0. The host allocates
/// [`SplitTiles::bytes`]. ([`Partials`](super::Partials) is for tiles with many rows, whose first CTA keeps its own
/// sums in registers and waits for the others. CUDA sample `threadFenceReduction`; FlashAttention
/// `flash_fwd_combine`.)
///
/// ```
/// # use warpipe_pipeline::{grid::{Part, SplitPart, SplitTiles}, mma::Rows, prelude::*};
/// # roles! { Math = 1 x 232 registers }
/// # type Group = Warpgroup<Math, Cluster<1, 1>>;
/// /// Sums up one column of a tile of 8 rows in the group that comes last.
/// fn column(tiles: &SplitTiles<'_>, group: &Group, part: SplitPart, sum: &Accumulator<128>) -> Option<f32> {
///     let tile = tiles.store(group, part, 8, sum, Rows::splat(1.0))?;
///     let row = group.thread() % 8;
///     let of = |part| {
///         let ([value], [[sum, ..]]) = (tile.values_of_row(part, row), tile.sums_of_row(part, row, 0));
///         value * sum
///     };
///     Some((0..tile.parts()).map(of).sum())
/// }
/// assert_eq!(SplitTiles::bytes(132, 128), 132 * (128 + 64 * 4 + 64 * 128 * 4));
/// ```
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct SplitTiles<'a>(SliceAbi, PhantomData<&'a mut [Quad]>);

/// One part of a tile. See the example of [`SplitTiles`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SplitPart {
    /// The slot of the tile's part 0; part p has slot `first` + p.
    pub first: u32,
    /// The number of this part, below `parts`.
    pub part: u32,
    /// The number of parts of the tile. In a launch, one warp group of one CTA stores each part once.
    pub parts: u32,
}

/// A tile whose parts have all been stored. See the example of [`SplitTiles`].
#[derive(Clone, Copy)]
pub struct SplitTile<'a, const N: usize> {
    tiles: SplitTiles<'a>,
    first: u32,
    parts: u32,
}

/// The quads of a slot: its counter, a value for each row, and the sums.
const fn slot_quads(columns: usize) -> u32 {
    COUNTER + (GROUP_ROWS / 4 + GROUP_ROWS * columns / 4) as u32
}

impl<'a> SplitTiles<'a> {
    /// The size of the workspace in bytes, for `slots` parts of 64 rows and `columns` columns.
    ///
    /// See the example of [`SplitTiles`].
    #[must_use]
    pub const fn bytes(slots: u64, columns: u64) -> u64 {
        slots * slot_quads(columns as usize) as u64 * size_of::<Quad>() as u64
    }

    /// The address of the first of `count` slots. If the workspace does not have them all, it is 0, so that the first access
    /// faults and ends the grid.
    #[isa::forceinline]
    fn slots<const N: usize>(&self, first: u32, count: u32) -> *mut Quad {
        let quads = const { slot_quads(N) as u64 };
        let [first, count] = [first, count].map(|slots| u64::from(slots) * quads);
        let memory = self.0.address as *mut Quad;
        // Address 0 is never mapped.
        if first + count <= self.0.elements {
            memory.wrapping_add(first as usize)
        } else {
            core::ptr::null_mut()
        }
    }

    /// The address of a slot, as [`slots`](Self::slots).
    #[isa::forceinline]
    fn slot<const N: usize>(&self, slot: u32) -> *mut Quad {
        self.slots::<N>(slot, 1)
    }

    /// Stores the first `rows` rows of `sum`, and one value per row, as a part of its tile. Returns the tile to the warp
    /// group that stores the last part.
    ///
    /// A part is stored once in a launch, and all parts of a tile state the same number of parts.
    ///
    /// Waits for the group's other threads, and not for other groups. (PTX `st.global`, `barrier.cta.sync`,
    /// `atom.acq_rel.gpu.global.inc`, `barrier.cta.red.or`; CUDA `__threadfence`, `atomicInc`, `__syncthreads_or`.) See the
    /// example of [`SplitTiles`].
    #[device]
    pub fn store<const N: usize, R: Role, Cl: ClusterShape>(
        &self,
        group: &Warpgroup<R, Cl>,
        part: SplitPart,
        rows: u32,
        sum: &Accumulator<N>,
        values: Rows,
    ) -> Option<SplitTile<'a, N>>
    where
        M64<N>: Shape,
    {
        let SplitPart { first, part, parts } = part;
        let slot = self.slot::<N>(first + part);
        let (own, column) = place_of(group);
        for half in 0..2 {
            let row = own.0[half];
            if row < rows {
                if column == 0 {
                    // SAFETY: inside the slot, which no other grid has. One lane of one group writes the word, and
                    // nobody reads it before all parts have counted.
                    unsafe { isa::global::st(value_at(slot, row), values.0[half].to_bits()) }
                }
                let line = sums_at::<N>(slot, row, 0).cast::<[u32; 2]>();
                for eight in 0..N / 8 {
                    let quad = sum.quad(eight);
                    let pair = [quad[2 * half], quad[2 * half + 1]].map(f32::to_bits);
                    let at = line.wrapping_add(4 * eight + column as usize / 2);
                    // SAFETY: as above.
                    unsafe { isa::global::st(at, pair) }
                }
            }
        }
        group.sync();
        let mut last = parts == 1;
        if parts > 1 && group.thread() == 0 {
            let (counter, others) = (self.slot::<N>(first).cast::<u32>(), parts - 1);
            // SAFETY: all CTAs access the word with atomic operations only. The group has synchronised, so the release covers
            // the stores of all its threads, and the acquire orders what the group reads after the count. The last part
            // sets the counter back to 0.
            last = unsafe { isa::global::atomic_inc_acq_rel_gpu_u32(counter, others) } == others;
        }
        if parts > 1 {
            last = group.any(last);
        }
        // Not `then_some`: ptxas would keep two registers for the tile where there is none.
        if !last {
            return None;
        }
        Some(SplitTile { tiles: *self, first, parts })
    }
}

impl<const N: usize> SplitTile<'_, N> {
    /// The parts of the tile. See the example of [`SplitTiles`].
    #[isa::forceinline]
    #[must_use]
    pub fn parts(&self) -> u32 {
        self.parts
    }

    /// The values of row `row` in `COUNT` parts from part `first` on; −∞ for parts that the tile does not have. Only the rows
    /// that were stored have one.
    ///
    /// There is no branch, so the loads are in flight together, and those of several calls too. (PTX `@p ld.global.f32`.)
    /// See the example of [`SplitTiles`].
    #[device]
    #[must_use]
    pub fn values_of_row<const COUNT: usize>(&self, first: u32, row: u32) -> [f32; COUNT] {
        let (slot, left) = self.slots(first, COUNT);
        let at = value_at(slot, row);
        from_fn(|i| {
            let at = at.wrapping_add(i * const { 4 * slot_quads(N) as usize });
            // SAFETY: inside the slot. All parts were stored, and nobody writes them again in this launch.
            f32::from_bits(unsafe {
                isa::global::ld_if(at.cast_const(), (i as u32) < left, f32::NEG_INFINITY.to_bits())
            })
        })
    }

    /// The values of this thread's two rows in a part; −∞ if the tile has no such part.
    ///
    /// There is no branch, as in [`values_of_row`](Self::values_of_row). (PTX `@p ld.global.f32`.)
    ///
    /// ```
    /// # use warpipe_pipeline::{grid::SplitTile, mma::Rows, prelude::*};
    /// # roles! { Math = 1 x 232 registers }
    /// /// Sums up the parts of a tile, each times its value.
    /// fn weighed(tile: &SplitTile<'_, 64>, group: &Warpgroup<Math, Cluster<1, 1>>) -> Accumulator<64> {
    ///     let mut sum = Accumulator::zeros();
    ///     for part in 0..tile.parts() {
    ///         tile.add(group, part, tile.values(group, part), &mut sum);
    ///     }
    ///     sum
    /// }
    /// ```
    #[device]
    #[must_use]
    pub fn values<R: Role, Cl: ClusterShape>(&self, group: &Warpgroup<R, Cl>, part: u32) -> Rows {
        let slot = self.slot(part);
        place_of(group).0.map(|row| {
            let (at, none) = (value_at(slot, row).cast_const(), f32::NEG_INFINITY);
            // SAFETY: as in `values_of_row`.
            f32::from_bits(unsafe { isa::global::ld_if(at, part < self.parts, none.to_bits()) })
        })
    }

    /// Adds the sums of a part to `sum`, each row times its factor. Nothing is added if the tile has no such part.
    ///
    /// All 64 rows of the part have to be stored. (PTX `@p ld.global.v2`, `fma.rn.f32`.) See the example of
    /// [`values`](Self::values).
    #[device]
    pub fn add<R: Role, Cl: ClusterShape>(
        &self,
        group: &Warpgroup<R, Cl>,
        part: u32,
        by: Rows,
        sum: &mut Accumulator<N>,
    ) where
        M64<N>: Shape,
    {
        let (slot, (own, column)) = (self.slot(part), place_of(group));
        let lines = own.map(|row| sums_at::<N>(slot, row, 0).cast::<[u32; 2]>());
        for batch in 0..(N / 8).div_ceil(EIGHTS) {
            // A thread's pairs of columns: those of the upper row, and those of the lower one.
            let place = |i: usize| (i / EIGHTS, EIGHTS * batch + i % EIGHTS);
            let pairs: [[u32; 2]; 2 * EIGHTS] = from_fn(|i| {
                let (half, eight) = place(i);
                let (inside, eight) = (part < self.parts && eight < N / 8, eight.min(N / 8 - 1));
                let at = lines.0[half].wrapping_add(4 * eight + column as usize / 2);
                // SAFETY: as in `values_of_row`.
                unsafe { isa::global::ld_if(at.cast_const(), inside, [0; 2]) }
            });
            for (i, pair) in pairs.into_iter().enumerate() {
                let (half, eight) = place(i);
                if eight < N / 8 {
                    sum.fma_pair(2 * eight + half, pair.map(f32::from_bits), by.0[half]);
                }
            }
        }
    }

    /// The sums of row `row` in `COUNT` parts from part `first` on, in columns 4 `quad` to 4 `quad` + 3; zeros for parts that
    /// the tile does not have.
    ///
    /// There is no branch, as in [`values_of_row`](Self::values_of_row). (PTX `@p ld.global.v4`.) See the example of
    /// [`SplitTiles`].
    #[device]
    #[must_use]
    pub fn sums_of_row<const COUNT: usize>(
        &self,
        first: u32,
        row: u32,
        quad: u32,
    ) -> [Quad; COUNT] {
        let (slot, left) = self.slots(first, COUNT);
        let at = sums_at::<N>(slot, row, quad).cast::<[u32; 4]>();
        from_fn(|i| {
            let at = at.wrapping_add(i * const { slot_quads(N) as usize });
            // SAFETY: as in `values_of_row`.
            unsafe { isa::global::ld_if(at.cast_const(), (i as u32) < left, [0; 4]) }
                .map(f32::from_bits)
        })
    }

    /// The address of a part's slot.
    #[isa::forceinline]
    fn slot(&self, part: u32) -> *mut Quad {
        self.tiles.slot::<N>(self.first + part)
    }

    /// The address of the slot of part `first`, and the number of parts from there on, at most `most`. If the workspace does not
    /// have them all, the load from the first one faults and ends the grid.
    #[isa::forceinline]
    fn slots(&self, first: u32, most: usize) -> (*mut Quad, u32) {
        let left = self.parts.saturating_sub(first).min(most as u32);
        (self.tiles.slots::<N>(self.first + first, left), left)
    }
}

/// This thread's rows, and its first column. They are opaque, because a caller's main loop would hold addresses that
/// follow from them.
#[isa::forceinline]
fn place_of<R: Role, Cl: ClusterShape>(group: &Warpgroup<R, Cl>) -> (Rows<u32>, u32) {
    (group.rows().map(isa::misc::opaque), isa::misc::opaque(group.place(0).1))
}

/// The address of a row's value.
#[isa::forceinline]
fn value_at(slot: *mut Quad, row: u32) -> *mut u32 {
    let values = slot.wrapping_add(COUNTER as usize).cast::<u32>();
    values.wrapping_add(row as usize % GROUP_ROWS)
}

/// The address of quad `quad` of a row's sums.
#[isa::forceinline]
fn sums_at<const N: usize>(slot: *mut Quad, row: u32, quad: u32) -> *mut Quad {
    let (row, quad) = (row as usize % GROUP_ROWS, quad as usize % (N / 4));
    slot.wrapping_add(COUNTER as usize + GROUP_ROWS / 4 + row * (N / 4) + quad)
}

// SAFETY: the parameter is that of a slice of quads that the kernel may write. A checked launch passes the address
// and length of a live buffer that no other argument has.
unsafe impl KernelArg for SplitTiles<'_> {
    type Abi = SliceAbi;
    const META: ParamMeta = <DeviceSliceMut<'_, Quad> as KernelArg>::META;
    #[isa::forceinline]
    unsafe fn from_abi(abi: SliceAbi) -> Self {
        Self(abi, PhantomData)
    }
}

// SAFETY: `LAYOUT` is that of a slice of such elements. Access to the memory needs a token that exists only after
// the wait. The launch owns the memory, so there is no buffer of the user to borrow.
unsafe impl ByValue for SplitTiles<'_> {
    const LAYOUT: u64 = <super::DependentSliceMut<'_, Quad> as ByValue>::LAYOUT;
}

// SAFETY: storing needs a `Warpgroup` token, which exists only after the wait for the primary grids, and reading what
// storing returns.
unsafe impl AfterWait for SplitTiles<'_> {}
