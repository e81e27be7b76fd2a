//! Values of a tile's columns, which a warp group holds in registers while it multiplies.
//!
//! Invariant: all lanes of a warp load the values and use them together. The warp group's token, and fragments of it, stand
//! for that.

use crate::cta::{ClusterShape, Role, Warpgroup};
use crate::mma::{COLUMNS, Fragment, GROUP_ROWS, row_of};
use isa::device;
use isa::kernel::KernelArg;

/// The most columns of which there are values.
const MOST: u32 = 256;
/// The lanes of a warp. Each holds the values of a pair of columns.
const LANES: u32 = 32;
const PAIRS: usize = (MOST / (2 * LANES)) as usize;

/// Where the results of a warp group lie that belong to one tile.
///
/// (CUTLASS: the tile coordinates that a visitor's `get_consumer_store_callbacks` gets.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TileOfGroup {
    /// First row in the result.
    pub row: u32,
    /// First column in the result.
    pub column: u32,
    /// Number of rows.
    pub rows: u32,
    /// Number of columns.
    pub columns: u32,
    /// Whether rows of the result are columns of the accumulators (`swap_ab`).
    pub transposed: bool,
}

/// One 16-bit value for each column of a warp group's tile, in registers: a warp has each value once, and its lanes exchange
/// them. A tile of 256 columns takes eight registers of a thread.
///
/// Load them before the tile is multiplied, so that the latency of the loads is hidden. It may be a part of a kernel's
/// argument, which the host makes with [`ColumnValues::NONE`].
///
/// (CUTLASS `Sm90RowBroadcast`, which holds them in shared memory.)
///
/// ```
/// # use warpipe_pipeline::{mma::{ColumnValues, Fragment, TileOfGroup}, prelude::*};
/// # roles! { Math = 2 x 232 registers }
/// # type Group = Warpgroup<Math, Cluster<1, 1>>;
/// /// Adds to each column its number, as a bias would be added.
/// fn biased(group: &Group, sum: &Accumulator<64>) -> Fragment {
///     let tile = TileOfGroup { row: 0, column: 256, rows: 64, columns: 64, transposed: false };
///     let bias = ColumnValues::load(group, &tile, |column| column as u16);
///     let first = Fragment::new(group, sum.fragment(0), 0, 256);
///     bias.map(first, |[left, right]| [left as f32, right as f32], |x, bias| x + bias)
/// }
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelArg)]
pub struct ColumnValues {
    /// The first column.
    first: u32,
    /// Of a tile that is not transposed, pair `p` of lane `l` has columns 2 · (32 · p + l) and the next one. Of a transposed
    /// tile it has the thread's two columns of the `p`-th 64.
    ///
    /// Each value has a register of its own. To join the two would wait for their loads, before the tile is multiplied.
    left: [u32; PAIRS],
    right: [u32; PAIRS],
}

impl ColumnValues {
    /// No values, for the host.
    pub const NONE: Self = Self { first: 0, left: [0; PAIRS], right: [0; PAIRS] };

    /// Gets the values of a tile of at most 256 columns from `value`, which is called for one column at a time.
    ///
    /// All threads of the warp group call this together. On the model, a tile of more columns is an error at the kernel's line.
    /// It waits for nothing: if `value` loads, the loads are in flight until [`map`](Self::map) needs them.
    #[isa::forceinline]
    pub fn load<Ro: Role, Cl: ClusterShape>(
        group: &Warpgroup<Ro, Cl>,
        tile: &TileOfGroup,
        value: impl Fn(u32) -> u16,
    ) -> Self {
        #[cfg(not(target_arch = "nvptx64"))]
        assert!(tile.columns <= MOST, "a tile of at most 256 columns, not {}", tile.columns);
        let lane = group.thread() % LANES;
        // The values of all pairs' columns that are `further` than the first one of the pair.
        let values = |further: u32| {
            core::array::from_fn(|pair| {
                let pair = pair as u32;
                let (column, of_thread) = if tile.transposed {
                    (GROUP_ROWS as u32 * pair, group.place(0).0)
                } else {
                    (2 * LANES * pair, 2 * lane)
                };
                if column < tile.columns {
                    u32::from(value(tile.column + column + of_thread + further))
                } else {
                    0
                }
            })
        };
        let apart = if tile.transposed { 8 } else { 1 };
        Self { first: tile.column, left: values(0), right: values(apart) }
    }

    /// Replaces each value x of a fragment of the tile by `f(x, v)`, where v is its column's. `widened` gets the values of
    /// two columns. On the model, a fragment more than 256 columns away from the tile's first one is an error.
    ///
    /// All threads of the warp group call this together. Waits for the warp's other lanes, and for the loads of
    /// [`load`](Self::load). (PTX `shfl.sync.idx.b32`.)
    #[isa::forceinline]
    #[must_use]
    pub fn map(
        &self,
        x: Fragment,
        widened: impl Fn([u16; 2]) -> [f32; 2],
        f: impl Fn(f32, f32) -> f32,
    ) -> Fragment {
        let halves = |word: u32| widened([word as u16, (word >> 16) as u16]);
        let column = x.coord(0).1 - self.first;
        if x.is_transposed() {
            let columns = halves(self.word(column / GROUP_ROWS as u32));
            x.indexed(|i, x| f(x, columns[row_of(i)]))
        } else {
            let pair = column / 2;
            // The left and the right 8 columns: a lane's pairs lie four apart.
            let sides = [0, COLUMNS as u32 / 4].map(|right| {
                let word = self.word((pair + right) / LANES);
                halves(shared(word, (pair + right) % LANES))
            });
            x.indexed(|i, x| f(x, sides[i / 4][i % 2]))
        }
    }

    /// Pair `index` of this thread as a word. Where the index is known, the values are registers.
    #[isa::forceinline]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn word(&self, index: u32) -> u32 {
        #[cfg(not(target_arch = "nvptx64"))]
        assert!(index < PAIRS as u32, "the fragment lies in the tile whose values were loaded");
        let of = |[a, b, c, d]: [u32; PAIRS]| match index {
            0 => a,
            1 => b,
            2 => c,
            _ => d,
        };
        of(self.left) | of(self.right) << 16
    }
}

/// `word` of lane `lane`.
#[device]
fn shared(word: u32, lane: u32) -> u32 {
    // SAFETY: a fragment belongs to a warp group, and all its threads map it together: the warp is converged.
    unsafe { isa::warp::shfl_idx(word, lane) }
}
