//! Tensor maps of matrices whose rows belong to parts of any lengths: sequences one behind the other, groups of rows, pages.
//!
//! Invariant: a box that begins in a part ends in it. TMA loads zeros for what lies behind the part, and stores nothing there.

/// A part of the rows of a ragged tensor map: those in front of row `end`.
///
/// TMA cuts a box off at the end of a dimension, which is the same for all boxes. So the map has its rows in front of each row
/// e at which a part may end. Its dimensions are (column, row, matrix, e, wrap):
///
/// ```text
/// dimension   column   row        matrix       e          wrap
/// elements    columns  2^30       matrices     rows + 1   2^30 + 1
/// stride               pitch      of matrices  pitch      2^34 - pitch % 2^34
/// ```
///
/// Row r of a part of `rows` rows is row 2^30 - `rows` + r, so that the first one behind the part lies behind the dimension.
/// Its address has to be `end` - `rows` + r pitches behind the tensor's. Coordinate 2^30 of the last dimension adds 2^64 bytes
/// less 2^30 pitches. Addresses wrap around at 2^64, so that takes 2^30 pitches away.
///
/// An address in front of the tensor would do that, too, with one dimension less. But a load of a box that lies outside of the
/// tensor reads from the map's address: if no memory is there, the GPU reports an illegal access (seen on an H200).
///
/// (Triton `ragged_tma`.)
///
/// ```
/// # use warpipe_pipeline::{cta::Unshared, prelude::*, tile::{Load, RaggedRows}}; use half::bf16;
/// type Keys = TensorMap<Tile<bf16, 128, 64>, Unshared, 5>;
/// /// Keys 128 to 255 of a sequence that ends before row `end` of the tensor, of head 3.
/// fn second(map: &Keys, end: u32, rows: u32) -> Load<'_, Tile<bf16, 128, 64>> {
///     let (row, at) = RaggedRows { end, rows }.row(128, 3);
///     map.tile_of(at, row, 0, Peers::ALONE)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaggedRows {
    /// One past the part's last row in the tensor.
    pub end: u32,
    /// Rows of the part, at most 2^30.
    pub rows: u32,
}

impl RaggedRows {
    /// Rows of the dimension of rows, and the last coordinate of each box.
    pub const ROWS: u32 = 1 << 30;

    /// The stride of the last dimension in bytes, for rows that are `pitch` bytes apart, a multiple of 16. It is a multiple of
    /// 16, and at most 2^34.
    ///
    /// ```
    /// # use warpipe_pipeline::tile::RaggedRows;
    /// let rows = u64::from(RaggedRows::ROWS);
    /// for pitch in [16, 2560, 1 << 34, (1 << 38) + 48] {
    ///     let stride = RaggedRows::wrap(pitch);
    ///     assert_eq!(rows.wrapping_mul(stride), rows.wrapping_mul(pitch).wrapping_neg());
    ///     assert!((16..1 << 40).contains(&stride) && stride.is_multiple_of(16)); // What TMA requires.
    /// }
    /// ```
    #[must_use]
    pub const fn wrap(pitch: u64) -> u64 {
        const WRAP: u64 = 1 << 34;
        WRAP - pitch % WRAP
    }

    /// Row `row` of the part in matrix `matrix`: its row in the map, and the coordinates behind it. A `row` may lie behind the
    /// part, by less than 2^30 rows.
    ///
    /// See the example of [`RaggedRows`].
    #[isa::forceinline]
    #[must_use]
    pub const fn row(self, row: u32, matrix: u32) -> (u32, [u32; 3]) {
        (row + Self::ROWS - self.rows, [matrix, self.end, Self::ROWS])
    }
}
