//! Fragments: their layout in registers, and how threads write them to and read them from epilogue tiles in shared memory.
//!
//! Invariant: a fragment is 64 rows (one warp group) by 16 columns of an accumulator. Each warp has
//! 16 of its rows, and each thread 8 of its values, in the order of
//! [`Accumulator::fragment`](crate::mma::Accumulator::fragment).
//!
//! 16-bit tiles are accessed with `stmatrix` and `ldmatrix`, whose 8x8 matrices have exactly that
//! layout. f32 tiles are accessed with 8-byte stores and loads. e4m3 tiles are accessed with 2-byte ones, or with single
//! bytes if they are transposed.

use crate::cta::ClusterShape;
use crate::cta::{Role, Warpgroup};
use crate::tile::{EpilogueElement, TileShape, by_fragments, swizzled, swizzled_64};
use float8::F8E4M3;
use half::{bf16, f16};
use isa::device;

/// Rows that one wgmma of a warp group computes: the M of `wgmma.m64nNk16`.
pub const GROUP_ROWS: usize = 64;

/// Returns the row of value `i` of a fragment among this thread's two rows: 0 for the upper row, 1 for the lower one (8
/// rows further down).
///
/// (CUTLASS: `partition_C` of an identity tensor.)
///
/// ```
/// use warpipe_pipeline::mma::row_of;
/// assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(row_of), [0, 0, 1, 1, 0, 0, 1, 1]);
/// ```
#[isa::forceinline]
#[must_use]
pub const fn row_of(i: usize) -> usize {
    i / 2 % 2
}

/// A fragment of an accumulator (64 rows by 16 columns, eight values a thread), and its place in
/// the result. (PTX manual: the D fragment of `wgmma.mma_async`.)
///
/// A thread's values lie in two rows, eight apart: [`row_of`] says which value lies in which.
///
/// ```
/// # use warpipe_pipeline::{mma::Fragment, prelude::*};
/// # roles! { Math = 2 x 232 registers }
/// /// The first 16 columns of a tile that lies at row 128 and column 256, with the diagonal cleared.
/// fn cleared(group: &Warpgroup<Math, Cluster<1, 1>>, sum: &Accumulator<64>) -> Fragment {
///     let fragment = Fragment::new(group, sum.fragment(0), 128 + 64 * group.index(), 256);
///     fragment.map_at(|x, row, column| if row == column { 0.0 } else { x })
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Fragment {
    /// This thread's values, in the order of
    /// [`Accumulator::fragment`](crate::mma::Accumulator::fragment).
    pub values: [f32; 8],
    /// Row and column of this thread's first value.
    first: (u32, u32),
    transposed: bool,
}

impl Fragment {
    /// Creates the fragment of `group` with these values. Its first row and column in the result
    /// are `row` and `column`.
    #[isa::forceinline]
    pub fn new<Ro: Role, Cl: ClusterShape>(
        group: &Warpgroup<Ro, Cl>,
        values: [f32; 8],
        row: u32,
        column: u32,
    ) -> Self {
        let (down, right) = group.place(0);
        Self { values, first: (row + down, column + right), transposed: false }
    }

    /// Returns the same values for a result whose rows are the accumulator's columns (`swap_ab`).
    /// The fragment's first row becomes the result's first column.
    #[isa::forceinline]
    #[must_use]
    pub fn transposed(self) -> Self {
        let (row, column) = self.first;
        Self { first: (column, row), transposed: !self.transposed, ..self }
    }

    /// Whether rows of the result are columns of the accumulator ([`transposed`](Self::transposed)).
    #[isa::forceinline]
    pub(crate) const fn is_transposed(&self) -> bool {
        self.transposed
    }

    /// Returns the row and column of value `i` in the result.
    #[isa::forceinline]
    #[must_use]
    pub fn coord(&self, i: usize) -> (u32, u32) {
        let (row, column) = self.first;
        let (down, right) = (8 * row_of(i) as u32, (i / 4 * 8 + i % 2) as u32);
        if self.transposed { (row + right, column + down) } else { (row + down, column + right) }
    }

    /// Replaces each value x by `f(x)`.
    #[isa::forceinline]
    #[must_use]
    pub fn map(self, f: impl FnMut(f32) -> f32) -> Self {
        Self { values: self.values.map(f), ..self }
    }

    /// Replaces value `i`, x, by `f(i, x)`.
    #[isa::forceinline]
    pub(crate) fn indexed(self, f: impl Fn(usize, f32) -> f32) -> Self {
        Self { values: core::array::from_fn(|i| f(i, self.values[i])), ..self }
    }

    /// Replaces each value x by `f(x, row, column)`, with its row and column in the result.
    #[isa::forceinline]
    #[must_use]
    pub fn map_at(self, mut f: impl FnMut(f32, u32, u32) -> f32) -> Self {
        let values = core::array::from_fn(|i| {
            let (row, column) = self.coord(i);
            f(self.values[i], row, column)
        });
        Self { values, ..self }
    }

    /// Multiplies each value by `rows` of its row and `columns` of its column in the result.
    ///
    /// (CUTLASS: `Sm90ColBroadcast` and `Sm90RowBroadcast` as factors.)
    ///
    /// ```
    /// # use warpipe_pipeline::mma::Fragment;
    /// /// Divides each value by the number of its row.
    /// fn by_row(sum: Fragment) -> Fragment {
    ///     sum.scaled(|row| 1.0 / (1 + row) as f32, |_column| 1.0)
    /// }
    /// ```
    #[isa::forceinline]
    #[must_use]
    pub fn scaled(self, rows: impl FnMut(u32) -> f32, columns: impl FnMut(u32) -> f32) -> Self {
        self.map_by(rows, columns, |x, row, column| x * (column * row))
    }

    /// Replaces each value x by `f(x, r, c)`, where r is `rows` of its row and c `columns` of its column in the result.
    ///
    /// A thread's values lie in two rows and four columns, or, of a transposed fragment, in four rows and two columns.
    /// `rows` and `columns` are called once for each of them, rows first, so that they may load.
    ///
    /// (CUTLASS: `Sm90ColBroadcast` and `Sm90RowBroadcast`.)
    ///
    /// ```
    /// # use warpipe_pipeline::mma::Fragment;
    /// /// Adds a bias of the column.
    /// fn biased(sum: Fragment, bias: impl FnMut(u32) -> f32) -> Fragment {
    ///     sum.map_by(|_row| (), bias, |x, (), bias| x + bias)
    /// }
    /// ```
    #[isa::forceinline]
    #[must_use]
    pub fn map_by<R: Copy, C: Copy>(
        self,
        rows: impl FnMut(u32) -> R,
        columns: impl FnMut(u32) -> C,
        mut f: impl FnMut(f32, R, C) -> f32,
    ) -> Self {
        /// The first values of the two rows and of the four columns of an accumulator's fragment.
        const DOWN: [usize; 2] = [0, 2];
        const RIGHT: [usize; 4] = [0, 1, 4, 5];
        let (row, column) = (|i| self.coord(i).0, |i| self.coord(i).1);
        let right = |i: usize| i / 4 * 2 + i % 2;
        let values = if self.transposed {
            let (rows, columns) = (RIGHT.map(row).map(rows), DOWN.map(column).map(columns));
            core::array::from_fn(|i| f(self.values[i], rows[right(i)], columns[row_of(i)]))
        } else {
            let (rows, columns) = (DOWN.map(row).map(rows), RIGHT.map(column).map(columns));
            core::array::from_fn(|i| f(self.values[i], rows[row_of(i)], columns[right(i)]))
        };
        Self { values, ..self }
    }

    /// Replaces each value x by `f(x, y)`, where y is the value at the same place of `other`.
    #[isa::forceinline]
    #[must_use]
    pub fn zip(self, other: Self, mut f: impl FnMut(f32, f32) -> f32) -> Self {
        let values = core::array::from_fn(|i| f(self.values[i], other.values[i]));
        Self { values, ..self }
    }
}

impl<Ro: Role, Cl: ClusterShape> Warpgroup<Ro, Cl> {
    /// Returns the place of this thread's value `i`, below 8, of a fragment: the row, of 64, and the column, of 16.
    ///
    /// (PTX manual: the D fragment of `wgmma.mma_async`; CUTLASS: `partition_C` of an identity
    /// tensor.)
    ///
    /// ```
    /// # use warpipe_pipeline::prelude::*;
    /// # roles! { Math = 2 x 232 registers }
    /// # type Group = Warpgroup<Math, Cluster<1, 1>>;
    ///
    /// /// Adds 1 on the diagonal of the group's first 16 columns.
    /// fn identity(group: &Group, fragment: [f32; 8]) -> [f32; 8] {
    ///     core::array::from_fn(|i| {
    ///         let (row, column) = group.place(i);
    ///         fragment[i] + if row == column { 1.0 } else { 0.0 }
    ///     })
    /// }
    /// ```
    #[isa::forceinline]
    pub fn place(&self, i: usize) -> (u32, u32) {
        let (warp, lane) = (self.thread() / 32, self.thread() % 32);
        let column = i / 4 * 8 + i % 2;
        (16 * warp + lane / 4 + 8 * row_of(i) as u32, 2 * (lane % 4) + column as u32)
    }
}

/// Element types whose tiles a warp group can write and read by fragments.
///
/// (PTX `stmatrix` and `ldmatrix`, or `st.shared` and `ld.shared` for f32; CUTLASS
/// `SM90_U32x4_STSM_N`, `SM75_U32x4_LDSM_N`.)
///
/// ```
/// # use warpipe_pipeline::{mma::Fragments, prelude::*, ring::*};
/// # names! { Main = "main" } roles! { Math = 1 x 232 registers }
/// # type Alone = Cluster<1, 1>;
/// type Slot<E> = FullSlot<(Tile<E, 64, 64>,), Reads<Math>, Main, Alone>;
/// fn read<E: Fragments>(slot: &Slot<E>, group: &Warpgroup<Math, Alone>) -> [f32; 8] {
///     slot.fragment(group, 0)
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "tiles of `{Self}` can't be written or read by fragments",
    label = "not bf16, f16, f32, F8E4M3 or i32"
)]
pub trait Fragments: EpilogueElement {
    /// Writes this warp's 16 rows of fragment number `fragment` to the tile at address `tile`, from
    /// row `warp_row` on. Rounds to nearest even, and to `i32` towards zero. What is beyond the range of `F8E4M3` or `i32`
    /// becomes the largest number.
    ///
    /// Waits for the warp's other lanes. (PTX `stmatrix.sync.aligned.m8n8.x4`, or `st.shared.v2`
    /// for f32; CUTLASS `SM90_U32x4_STSM_N`.) See the example of [`Fragments`].
    ///
    /// # Safety
    /// This warp may write the tile at `tile`. The warp is converged.
    unsafe fn store_fragment(tile: u32, warp_row: u32, fragment: u32, values: [f32; 8]);
    /// Reads this warp's 16 rows of fragment number `fragment` from the tile at address `tile`,
    /// from row `warp_row` on.
    ///
    /// Waits for the warp's other lanes. (PTX `ldmatrix.sync.aligned.m8n8.x4`, or `ld.shared.v2`
    /// for f32; CUTLASS `SM75_U32x4_LDSM_N`.) See the example of [`Fragments`].
    ///
    /// # Safety
    /// The tile at `tile` has arrived. The warp is converged.
    unsafe fn load_fragment(tile: u32, warp_row: u32, fragment: u32) -> [f32; 8];
}

/// Returns the number of a fragment among the `count` of a tile.
///
/// A number beyond them would lead out of the tile. On the host it panics, which the model reports at
/// the kernel's line. On the device it wraps around, which costs nothing where the number is known.
#[isa::forceinline]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) const fn within(fragment: usize, count: usize) -> u32 {
    #[cfg(not(target_arch = "nvptx64"))]
    assert!(fragment < count, "the tile has fewer fragments");
    (fragment % count) as u32
}

/// Columns of a fragment.
pub(crate) const COLUMNS: usize = 16;

/// Writes this warp's 16 rows of fragment number `fragment` to a tile of one panel or more.
///
/// # Safety
/// As [`Fragments::store_fragment`]; the tile has that fragment.
#[device]
pub(crate) unsafe fn store_fragment<T>(tile: u32, warp_row: u32, fragment: u32, values: [f32; 8])
where
    T: TileShape,
    T::Element: Fragments,
{
    const {
        assert!(
            by_fragments::<T>(),
            "fragments are written to K-major tiles, swizzled as the element's epilogue tile is"
        );
    }
    let per_panel = (T::LINE_ELEMENTS / COLUMNS) as u32;
    let panel = tile + fragment / per_panel * T::PANEL_BYTES as u32;
    // SAFETY: the caller's contract; the panels lie one after the other.
    unsafe { T::Element::store_fragment(panel, warp_row, fragment % per_panel, values) }
}

/// Reads this warp's 16 rows of fragment number `fragment` of a tile of one panel or more.
///
/// # Safety
/// As [`Fragments::load_fragment`]; the tile has that fragment.
#[device]
pub(crate) unsafe fn load_fragment<T>(tile: u32, warp_row: u32, fragment: u32) -> [f32; 8]
where
    T: TileShape,
    T::Element: Fragments,
{
    const {
        assert!(
            by_fragments::<T>(),
            "fragments are read from K-major tiles, swizzled as the element's epilogue tile is"
        );
    }
    let per_panel = (T::LINE_ELEMENTS / COLUMNS) as u32;
    let panel = tile + fragment / per_panel * T::PANEL_BYTES as u32;
    // SAFETY: the caller's contract; the panels lie one after the other.
    unsafe { T::Element::load_fragment(panel, warp_row, fragment % per_panel) }
}

/// Result types whose fragments a warp group can write transposed, columns as rows.
///
/// (PTX `stmatrix.trans` for 16-bit types, and `st.shared.u8` for e4m3; CUTLASS `SM90_U16x8_STSM_T`.) See the
/// example of [`FreeBuffer::put_transposed`](crate::store::FreeBuffer::put_transposed).
#[diagnostic::on_unimplemented(
    message = "a fragment of `{Self}` can't be stored transposed",
    label = "`stmatrix.trans` has 16-bit elements",
    note = "bf16, f16 and F8E4M3 can be stored transposed; store f32 by rows, with `put`"
)]
pub trait TransposedFragments: Fragments {
    /// Writes this warp's 16 rows of a fragment transposed: the fragment's 16 columns become 16
    /// rows of the tile, from row `16 * fragment` on, and the rows of warp number `warp` become 16
    /// columns, from column `16 * warp` on.
    ///
    /// Waits for the warp's other lanes. (PTX `stmatrix.sync.aligned.m8n8.x4.trans`; CUTLASS
    /// `SM90_U16x8_STSM_T`.) See the example of
    /// [`FreeBuffer::put_transposed`](crate::store::FreeBuffer::put_transposed).
    ///
    /// # Safety
    /// This warp may write the tile at `tile`. The warp is converged.
    unsafe fn store_transposed(tile: u32, warp: u32, fragment: u32, values: [f32; 8]);
}

/// Returns the address of the row that this lane passes to stmatrix or ldmatrix `.x4`. Lanes 0-7
/// address the first 8x8 matrix (upper rows, left columns), lanes 8-15 the lower rows, and lanes
/// 16-31 the same for the right columns.
#[isa::forceinline]
fn row_address(tile: u32, warp_row: u32, fragment: u32) -> u32 {
    let lane = isa::warp::lane_id();
    tile + swizzled(warp_row + lane % 16, 2 * fragment + lane / 16)
}

macro_rules! sixteen_bit {
    ($t:ty, $pack:path, $unpack:path) => {
        impl Fragments for $t {
            #[device]
            unsafe fn store_fragment(tile: u32, warp_row: u32, fragment: u32, v: [f32; 8]) {
                let packed =
                    [$pack(v[0], v[1]), $pack(v[2], v[3]), $pack(v[4], v[5]), $pack(v[6], v[7])];
                // SAFETY: the caller's contract.
                unsafe { isa::matrix::stmatrix_x4(row_address(tile, warp_row, fragment), packed) }
            }
            #[device]
            unsafe fn load_fragment(tile: u32, warp_row: u32, fragment: u32) -> [f32; 8] {
                // SAFETY: the caller's contract.
                let p = unsafe { isa::matrix::ldmatrix_x4(row_address(tile, warp_row, fragment)) };
                let (a, b, c, d) = ($unpack(p[0]), $unpack(p[1]), $unpack(p[2]), $unpack(p[3]));
                [a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]]
            }
        }
    };
}

macro_rules! transposed {
    ($t:ty, $pack:path) => {
        impl TransposedFragments for $t {
            #[device]
            unsafe fn store_transposed(tile: u32, warp: u32, fragment: u32, v: [f32; 8]) {
                let packed =
                    [$pack(v[0], v[1]), $pack(v[2], v[3]), $pack(v[4], v[5]), $pack(v[6], v[7])];
                // Lanes 0-7 address the rows of the first 8x8 matrix (the warp's upper rows, left
                // columns), lanes 8-15 those of the lower rows, and lanes 16-31 the same for the
                // right columns.
                let lane = isa::warp::lane_id();
                let row = 16 * fragment + lane / 16 * 8 + lane % 8;
                let at = tile + swizzled(row, 2 * warp + lane / 8 % 2);
                // SAFETY: the caller's contract.
                unsafe { isa::matrix::stmatrix_x4_trans(at, packed) }
            }
        }
    };
}
transposed!(bf16, isa::cvt::bf16x2);
transposed!(f16, isa::cvt::f16x2);
sixteen_bit!(bf16, isa::cvt::bf16x2, isa::cvt::bf16x2_to_f32);
sixteen_bit!(f16, isa::cvt::f16x2, isa::cvt::f16x2_to_f32);

/// Returns the address of this lane's pair of f32 in 8-column half `half` of a fragment, in its
/// upper row (`lower` = 0) or its lower one (1).
#[isa::forceinline]
fn pair_address(tile: u32, warp_row: u32, fragment: u32, half: u32, lower: u32) -> u32 {
    let lane = isa::warp::lane_id();
    let chunk = 4 * fragment + 2 * half + lane % 4 / 2;
    tile + swizzled(warp_row + lane / 4 + 8 * lower, chunk) + lane % 2 * 8
}

/// Writes this warp's 16 rows of a fragment of 32-bit values.
///
/// # Safety
/// As [`Fragments::store_fragment`].
#[device]
pub(crate) unsafe fn store_words(tile: u32, warp_row: u32, fragment: u32, v: [u32; 8]) {
    for i in 0..4u32 {
        let at = pair_address(tile, warp_row, fragment, i / 2, i % 2);
        // SAFETY: the caller's contract.
        unsafe { isa::shared::st(at, [v[2 * i as usize], v[2 * i as usize + 1]]) }
    }
}

impl Fragments for f32 {
    #[device]
    unsafe fn store_fragment(tile: u32, warp_row: u32, fragment: u32, v: [f32; 8]) {
        // SAFETY: the caller's contract.
        unsafe { store_words(tile, warp_row, fragment, v.map(f32::to_bits)) }
    }
    #[device]
    unsafe fn load_fragment(tile: u32, warp_row: u32, fragment: u32) -> [f32; 8] {
        let mut v = [0.0; 8];
        for i in 0..4u32 {
            // SAFETY: the caller's contract.
            let [x, y]: [u32; 2] =
                unsafe { isa::shared::ld(pair_address(tile, warp_row, fragment, i / 2, i % 2)) };
            v[2 * i as usize] = f32::from_bits(x);
            v[2 * i as usize + 1] = f32::from_bits(y);
        }
        v
    }
}

impl Fragments for i32 {
    #[device]
    unsafe fn store_fragment(tile: u32, warp_row: u32, fragment: u32, v: [f32; 8]) {
        // SAFETY: the caller's contract.
        unsafe { store_words(tile, warp_row, fragment, v.map(|x| (x as i32).cast_unsigned())) }
    }
    #[device]
    unsafe fn load_fragment(tile: u32, warp_row: u32, fragment: u32) -> [f32; 8] {
        // SAFETY: the caller's contract.
        let v = unsafe { f32::load_fragment(tile, warp_row, fragment) };
        v.map(|x| x.to_bits().cast_signed() as f32)
    }
}

/// Returns the address of this lane's pair of e4m3 in 8-column half `half` of a fragment, in its upper row (`lower` = 0)
/// or its lower one (1). A fragment is a chunk wide. The 32 lanes reach 16 banks with 4 bytes each, and no bank twice.
#[isa::forceinline]
fn pair_of_bytes(tile: u32, warp_row: u32, fragment: u32, half: u32, lower: u32) -> u32 {
    let lane = isa::warp::lane_id();
    tile + swizzled_64(warp_row + lane / 4 + 8 * lower, fragment) + 8 * half + lane % 4 * 2
}

impl Fragments for F8E4M3 {
    #[device]
    unsafe fn store_fragment(tile: u32, warp_row: u32, fragment: u32, v: [f32; 8]) {
        for i in 0..4u32 {
            let at = pair_of_bytes(tile, warp_row, fragment, i / 2, i % 2);
            let pair = isa::cvt::e4m3x2(v[2 * i as usize], v[2 * i as usize + 1]);
            // SAFETY: the caller's contract.
            unsafe { isa::shared::st(at, pair) }
        }
    }
    #[device]
    unsafe fn load_fragment(tile: u32, warp_row: u32, fragment: u32) -> [f32; 8] {
        let mut v = [0.0; 8];
        for i in 0..4u32 {
            // SAFETY: the caller's contract.
            let pair: u16 =
                unsafe { isa::shared::ld(pair_of_bytes(tile, warp_row, fragment, i / 2, i % 2)) };
            let [x, y] = isa::cvt::f16x2_to_f32(isa::cvt::e4m3x2_to_f16x2(pair));
            v[2 * i as usize] = x;
            v[2 * i as usize + 1] = y;
        }
        v
    }
}

impl TransposedFragments for F8E4M3 {
    // The eight lanes of a column of the fragment write eight bytes side by side, and the four columns lie in four banks.
    #[device]
    unsafe fn store_transposed(tile: u32, warp: u32, fragment: u32, v: [f32; 8]) {
        let lane = isa::warp::lane_id();
        for i in 0..4u32 {
            let pair = isa::cvt::e4m3x2(v[2 * i as usize], v[2 * i as usize + 1]);
            let (row, column) = (16 * fragment + i / 2 * 8 + lane % 4 * 2, lane / 4 + i % 2 * 8);
            for (right, byte) in [pair as u8, (pair >> 8) as u8].into_iter().enumerate() {
                let at = tile + swizzled_64(row + right as u32, warp) + column;
                // SAFETY: the caller's contract.
                unsafe { isa::shared::st(at, byte) }
            }
        }
    }
}
