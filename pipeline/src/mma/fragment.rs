//! Between fragments in registers and panels in shared memory.
//!
//! A strip is 16 rows (one warp's) by 16 columns of a wgmma result: 8 values a thread, in the order
//! of [`Accumulator::fragment`](crate::mma::Accumulator::fragment). 16-bit panels go through
//! `stmatrix`/`ldmatrix`, whose 8x8 matrices have exactly that layout; f32 panels through 8-byte
//! loads and stores.

use crate::cta::ClusterShape;
use crate::cta::{Role, Warpgroup};
use crate::tile::{EpilogueElement, swizzled};
use half::{bf16, f16};
use isa::device;

/// Which of a thread's two rows value `i` of a strip lies in: 0 the upper, 1 the lower (8 rows
/// further down).
///
/// Waits for nothing. Signals nothing. PTX: none. CUTLASS: `partition_C` of an identity tensor.
///
/// ```
/// use pipeline::mma::row_of;
/// assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(row_of), [0, 0, 1, 1, 0, 0, 1, 1]);
/// ```
#[inline(always)]
#[must_use]
pub const fn row_of(i: usize) -> usize {
    i / 2 % 2
}

/// A fragment of an accumulator: 64 rows (a warp group's) by 16 columns, eight values a thread, and where they
/// lie in the result. (PTX manual: the D fragment of `wgmma.mma_async`.)
///
/// A thread's values lie in two rows, eight apart: see [`row_of`] for which value lies in which.
///
/// ```
/// # use pipeline::{mma::Fragment, prelude::*};
/// # roles! { Math = 2 x 232 registers }
/// /// The first 16 columns of a tile that lies at row 128 and column 256, with the diagonal cleared.
/// fn cleared(group: &Warpgroup<Math, Cluster<1, 1>>, sum: &Accumulator<64>) -> Fragment {
///     let fragment = Fragment::new(group, sum.fragment(0), 128 + 64 * group.index(), 256);
///     fragment.map_at(|x, row, column| if row == column { 0.0 } else { x })
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Fragment {
    /// This thread's values.
    pub values: [f32; 8],
    /// Row and column of the first value.
    first: (u32, u32),
    transposed: bool,
}

impl Fragment {
    /// The fragment of `group` with these values, whose first row and column are `row` and `column`.
    #[inline(always)]
    pub fn new<R: Role, Cl: ClusterShape>(
        group: &Warpgroup<R, Cl>,
        values: [f32; 8],
        row: u32,
        column: u32,
    ) -> Self {
        let (down, right) = group.place(0);
        Self { values, first: (row + down, column + right), transposed: false }
    }

    /// The same values in a result whose rows are the accumulator's columns (`swap_ab`): the fragment's first
    /// row is then the result's first column.
    #[inline(always)]
    #[must_use]
    pub fn transposed(self) -> Self {
        let (row, column) = self.first;
        Self { first: (column, row), transposed: !self.transposed, ..self }
    }

    /// Row and column in the result of value `i`.
    #[inline(always)]
    #[must_use]
    pub fn coord(&self, i: usize) -> (u32, u32) {
        let (row, column) = self.first;
        let (down, right) = (8 * row_of(i) as u32, (i / 4 * 8 + i % 2) as u32);
        if self.transposed { (row + right, column + down) } else { (row + down, column + right) }
    }

    /// Each value replaced by `f` of it.
    #[inline(always)]
    #[must_use]
    pub fn map(self, f: impl FnMut(f32) -> f32) -> Self {
        Self { values: self.values.map(f), ..self }
    }

    /// Each value replaced by `f` of it, its row and its column in the result.
    #[inline(always)]
    #[must_use]
    pub fn map_at(self, mut f: impl FnMut(f32, u32, u32) -> f32) -> Self {
        let values = core::array::from_fn(|i| {
            let (row, column) = self.coord(i);
            f(self.values[i], row, column)
        });
        Self { values, ..self }
    }

    /// Each value replaced by `f` of it and the one at the same place of `other`.
    #[inline(always)]
    #[must_use]
    pub fn zip(self, other: Self, mut f: impl FnMut(f32, f32) -> f32) -> Self {
        let values = core::array::from_fn(|i| f(self.values[i], other.values[i]));
        Self { values, ..self }
    }
}

impl<R: Role, Cl: ClusterShape> Warpgroup<R, Cl> {
    /// Row in the group's 64, and column in the strip's 16, of value `i` of this thread's part of a
    /// strip.
    ///
    /// Waits for nothing. Signals nothing. PTX: none: the D fragment of the manual's
    /// `wgmma.mma_async`. CUTLASS: `partition_C` of an identity tensor.
    ///
    /// ```
    /// # use pipeline::prelude::*;
    /// # roles! { Math = 2 x 232 registers }
    /// # type Group = Warpgroup<Math, Cluster<1, 1>>;
    ///
    /// /// Adds 1 on the diagonal of the group's first 16 columns.
    /// fn identity(group: &Group, strip: [f32; 8]) -> [f32; 8] {
    ///     core::array::from_fn(|i| {
    ///         let (row, column) = group.place(i);
    ///         strip[i] + if row == column { 1.0 } else { 0.0 }
    ///     })
    /// }
    /// ```
    #[inline(always)]
    pub fn place(&self, i: usize) -> (u32, u32) {
        let (warp, lane) = (self.thread() / 32, self.thread() % 32);
        let column = i / 4 * 8 + i % 2;
        (16 * warp + lane / 4 + 8 * row_of(i) as u32, 2 * (lane % 4) + column as u32)
    }

    /// Sums over the four lanes that share a row: from each lane's own sums of its upper and its
    /// lower row, the whole rows' sums, in all four.
    ///
    /// Waits for the warp's other lanes. Signals nothing. PTX: `shfl.sync.bfly.b32`, twice a row.
    /// CUTLASS: none: `__shfl_xor_sync`.
    ///
    /// ```
    /// # use pipeline::prelude::*;
    /// # roles! { Math = 2 x 232 registers }
    /// # type Group = Warpgroup<Math, Cluster<1, 1>>;
    ///
    /// fn sums(group: &Group, strip: [f32; 8]) -> [f32; 2] {
    ///     let upper = strip[0] + strip[1] + strip[4] + strip[5];
    ///     let lower = strip[2] + strip[3] + strip[6] + strip[7];
    ///     group.row_sums([upper, lower])
    /// }
    /// ```
    #[device]
    pub fn row_sums(&self, own: [f32; 2]) -> [f32; 2] {
        own.map(|mut sum| {
            for lanes in [1, 2] {
                // SAFETY: the token says that the warp is converged.
                let other = unsafe { isa::warp::shfl_xor(sum.to_bits(), lanes) };
                sum += f32::from_bits(other);
            }
            sum
        })
    }
}

/// Result types whose panels a warp group can write and read strip by strip.
///
/// Waits for nothing. Signals nothing. PTX: `stmatrix`, `ldmatrix`; f32: `st.shared`, `ld.shared`.
/// CUTLASS: `SM90_U32x4_STSM_N`, `SM75_U32x4_LDSM_N`.
///
/// ```
/// # use pipeline::{mma::Fragments, prelude::*, ring::*};
/// # names! { Main = "main" } roles! { Math = 1 x 232 registers }
/// # type Alone = Cluster<1, 1>;
/// type Slot<T> = FullSlot<(Tile<T, 64, 64>,), Reads<Math>, Main, Alone>;
/// fn read<T: Fragments>(slot: &Slot<T>, group: &Warpgroup<Math, Alone>) -> [f32; 8] {
///     slot.fragment(group, 0)
/// }
/// ```
pub trait Fragments: EpilogueElement {
    /// Writes a strip of this warp's 16 rows to the panel at `panel`, rounding to nearest even.
    ///
    /// Waits for the warp's other lanes. Signals nothing. PTX: `stmatrix.sync.aligned.m8n8.x4`;
    /// f32: `st.shared.v2`. CUTLASS: `SM90_U32x4_STSM_N`. See the example of [`Fragments`].
    ///
    /// # Safety
    /// `panel` is a panel that this warp may write; the warp is converged.
    unsafe fn store_fragment(panel: u32, warp_row: u32, strip: u32, values: [f32; 8]);
    /// Reads a strip.
    ///
    /// Waits for the warp's other lanes. Signals nothing. PTX: `ldmatrix.sync.aligned.m8n8.x4`;
    /// f32: `ld.shared.v2`. CUTLASS: `SM75_U32x4_LDSM_N`. See the example of [`Fragments`].
    ///
    /// # Safety
    /// `panel` is a panel that has arrived; the warp is converged.
    unsafe fn load_fragment(panel: u32, warp_row: u32, strip: u32) -> [f32; 8];
}

/// Result types whose strips a warp group can write turned, columns as rows.
///
/// Waits for nothing. Signals nothing. PTX: `stmatrix.trans`, which 16-bit types have. CUTLASS:
/// `SM90_U16x8_STSM_T`. See the example of
/// [`FreeBuffer::put_transposed`](crate::store::FreeBuffer::put_transposed).
#[diagnostic::on_unimplemented(
    message = "a strip of `{Self}` can't be turned on its way to shared memory",
    label = "`stmatrix.trans` has 16-bit elements",
    note = "bf16 and f16 can be turned; store f32 by rows, with `put`"
)]
pub trait TransposedFragments: Fragments {
    /// Writes a strip's columns as rows 16 * `fragment`.. of the panel, in the 16 columns of `warp`.
    ///
    /// Waits for the warp's other lanes. Signals nothing. PTX:
    /// `stmatrix.sync.aligned.m8n8.x4.trans`. CUTLASS: `SM90_U16x8_STSM_T`. See the example of
    /// [`FreeBuffer::put_transposed`](crate::store::FreeBuffer::put_transposed).
    ///
    /// # Safety
    /// `panel` is a panel that this warp may write; the warp is converged.
    unsafe fn store_transposed(panel: u32, warp: u32, strip: u32, values: [f32; 8]);
}

/// The row that this lane names to stmatrix/ldmatrix `.x4`: lanes 0-7 the first 8x8 matrix (upper
/// rows, left columns), 8-15 the lower rows, 16-31 the same for the right columns.
#[inline(always)]
fn matrix_row(panel: u32, warp_row: u32, strip: u32) -> u32 {
    let lane = isa::warp::lane_id();
    panel + swizzled(warp_row + lane % 16, 2 * strip + lane / 16)
}

macro_rules! sixteen_bit {
    ($t:ty, $pack:path, $unpack:path) => {
        impl Fragments for $t {
            #[device]
            unsafe fn store_fragment(panel: u32, warp_row: u32, strip: u32, v: [f32; 8]) {
                let packed =
                    [$pack(v[0], v[1]), $pack(v[2], v[3]), $pack(v[4], v[5]), $pack(v[6], v[7])];
                // SAFETY: the caller's contract.
                unsafe { isa::matrix::stmatrix_x4(matrix_row(panel, warp_row, strip), packed) }
            }
            #[device]
            unsafe fn load_fragment(panel: u32, warp_row: u32, strip: u32) -> [f32; 8] {
                // SAFETY: the caller's contract.
                let p = unsafe { isa::matrix::ldmatrix_x4(matrix_row(panel, warp_row, strip)) };
                let (a, b, c, d) = ($unpack(p[0]), $unpack(p[1]), $unpack(p[2]), $unpack(p[3]));
                [a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]]
            }
        }
    };
}

macro_rules! turned {
    ($t:ty, $pack:path) => {
        impl TransposedFragments for $t {
            #[device]
            unsafe fn store_transposed(panel: u32, warp: u32, strip: u32, v: [f32; 8]) {
                let packed =
                    [$pack(v[0], v[1]), $pack(v[2], v[3]), $pack(v[4], v[5]), $pack(v[6], v[7])];
                // Lanes 0-7 name the rows of the first 8x8 matrix (the warp's upper rows, left
                // columns), 8-15 those of the lower rows, 16-31 the same for the right columns.
                let lane = isa::warp::lane_id();
                let row = 16 * strip + lane / 16 * 8 + lane % 8;
                let at = panel + swizzled(row, 2 * warp + lane / 8 % 2);
                // SAFETY: the caller's contract.
                unsafe { isa::matrix::stmatrix_x4_trans(at, packed) }
            }
        }
    };
}
turned!(bf16, isa::cvt::bf16x2);
turned!(f16, isa::cvt::f16x2);
sixteen_bit!(bf16, isa::cvt::bf16x2, isa::cvt::bf16x2_to_f32);
sixteen_bit!(f16, isa::cvt::f16x2, isa::cvt::f16x2_to_f32);

/// Address of this lane's pair of f32 in half `half` (8 columns) of a strip.
#[inline(always)]
fn pair(panel: u32, warp_row: u32, strip: u32, half: u32, lower: u32) -> u32 {
    let lane = isa::warp::lane_id();
    let chunk = 4 * strip + 2 * half + lane % 4 / 2;
    panel + swizzled(warp_row + lane / 4 + 8 * lower, chunk) + lane % 2 * 8
}

impl Fragments for f32 {
    #[device]
    unsafe fn store_fragment(panel: u32, warp_row: u32, strip: u32, v: [f32; 8]) {
        for i in 0..4u32 {
            let at = pair(panel, warp_row, strip, i / 2, i % 2);
            let (x, y) = (v[2 * i as usize].to_bits(), v[2 * i as usize + 1].to_bits());
            // SAFETY: the caller's contract.
            unsafe { isa::shared::st(at, [x, y]) }
        }
    }
    #[device]
    unsafe fn load_fragment(panel: u32, warp_row: u32, strip: u32) -> [f32; 8] {
        let mut v = [0.0; 8];
        for i in 0..4u32 {
            // SAFETY: the caller's contract.
            let [x, y]: [u32; 2] =
                unsafe { isa::shared::ld(pair(panel, warp_row, strip, i / 2, i % 2)) };
            v[2 * i as usize] = f32::from_bits(x);
            v[2 * i as usize + 1] = f32::from_bits(y);
        }
        v
    }
}
