//! Constants of the predictions: times and rates of one NVIDIA H200.
//!
//! The constants are fitted to the measurements in docs/data/h200-candidates.txt. The fit weighs which
//! kernel and schedule they pick more than the times they predict (docs/performance.md).

/// Launch, start and end of a kernel that does almost nothing, in microseconds.
pub(super) const LAUNCH_US: f64 = 1.45;
/// Added to [`LAUNCH_US`] for a cluster: its CTAs start together and synchronise.
pub(super) const CLUSTER_US: f64 = 0.18;
/// Least time of a k tile, however small the tile: barriers, TMA and issue.
pub(super) const K_TILE_US: f64 = 0.026;
/// [`K_TILE_US`] for tiles of one warp group: a slot waits for one arrival fewer.
pub(super) const K_TILE_ONE_GROUP_US: f64 = 0.02;
/// [`K_TILE_US`] for ping-pong: one warp group issues while the other one computes.
pub(super) const K_TILE_PINGPONG_US: f64 = 0.0063;
/// Added to each k tile for a cluster: its CTAs wait for one another's slots.
pub(super) const CLUSTER_K_TILE_US: f64 = 0.005;
/// Time of the tensor cores for each element of the tile, in a k tile of 64 columns. 2048
/// multiplications per clock would give 0.017e-3 µs at 1.9 GHz.
pub(super) const MMA_US_PER_ELEMENT: f64 = 0.0168e-3;
/// Bytes per microsecond from the L2 cache to all CTAs together.
pub(super) const L2_BYTES_PER_US: f64 = 38e6;
/// [`L2_BYTES_PER_US`] where the row pitch is not a multiple of 128 bytes: each row of a TMA box then
/// touches two lines.
pub(super) const L2_BYTES_PER_US_TWO_LINES: f64 = 6.2e6;
/// Bytes of a line of the L2 cache.
pub(super) const LINE_BYTES: u64 = 128;
/// Bytes per microsecond into one SM.
pub(super) const SM_BYTES_PER_US: f64 = 191e3;
/// Extra L2 traffic of the operand with more rows, as a fraction of its bytes: it misses more often.
pub(super) const LARGER_OPERAND: f64 = 0.125;
/// Added to a k tile for each row of a TMA box that lies outside of the tensor, beyond the first
/// [`OUTSIDE_FREE`] rows. TMA fills such rows with zeros more slowly than it loads rows from L2.
pub(super) const OUTSIDE_US: f64 = 3.0e-3;
/// Rows outside of the tensor that cost nothing.
pub(super) const OUTSIDE_FREE: f64 = 15.0;
/// Fixed time of an epilogue that no main loop hides.
pub(super) const EPILOGUE_US: f64 = 0.22;
/// Added to [`EPILOGUE_US`] for each element of the tile: 0.33 µs for a tile of 128 x 256.
pub(super) const EPILOGUE_US_PER_ELEMENT: f64 = 0.33 / (128.0 * 256.0);
/// Time of a k tile of a split tile, relative to one of a data-parallel tile. The clusters are at
/// different columns of A and B, so fewer loads hit L2.
pub(super) const SPLIT_K_TILE_FACTOR: f64 = 1.1;
/// [`SPLIT_K_TILE_FACTOR`] where the row pitch is not a multiple of 128 bytes. Half of each line belongs
/// to the next k tile, and clusters at other columns do not use it.
pub(super) const SPLIT_K_TILE_FACTOR_TWO_LINES: f64 = 1.2;
/// Least time of the stream-K fix-up: until a CTA has another one's partials.
pub(super) const FIXUP_US: f64 = 0.27;
/// Added to [`FIXUP_US`] for each element of the tile, which is stored once and loaded once.
pub(super) const FIXUP_US_PER_ELEMENT: f64 = 9.5 / (128.0 * 256.0);
/// Bytes per microsecond from memory.
pub(super) const MEMORY_BYTES_PER_US: f64 = 4.22e6;
/// Time until the first bytes arrive from memory.
pub(super) const MEMORY_US: f64 = 1.28;
/// Idle SMs have no loads in flight. If nearly all SMs are idle, each this many bytes beyond
/// [`STARTING_BYTES`] lose a microsecond.
pub(super) const IDLE_BYTES_PER_US: f64 = 45e6;
/// Bytes that are in flight from the start.
pub(super) const STARTING_BYTES: f64 = 4e6;
/// Fraction of the fix-up that is added to the memory time: memory is idle meanwhile.
pub(super) const FIXUP_OF_MEMORY: f64 = 0.3;
/// Loads that hit L2 delay loads from memory: each this many bytes lose a microsecond.
pub(super) const FETCHED_BYTES_PER_US: f64 = 160e6;
/// Extra bytes from memory, as a fraction, of an operand that several clusters load.
pub(super) const READ_AGAIN: f64 = 0.25;
/// Gain of a grid bound by memory when two CTAs fit on an SM and each SM computes several
/// data-parallel tiles: its end overlaps with the start of the dependent grid.
pub(super) const TWO_FIT_GAIN_US: f64 = 1.3;
/// The same gain applies to one round of tiles that occupies this fraction of the device. The dependent
/// grid then finds free SMs, but too few to start all of its CTAs.
pub(super) const TWO_FIT_BUSY: std::ops::Range<f64> = 0.5..0.9;
/// Loss in every other case where two CTAs fit on an SM: CTAs of one grid crowd onto one SM.
pub(super) const TWO_FIT_LOSS_US: f64 = 0.6;
/// Most bytes that a CTA prefetches into L2.
pub(super) const PREFETCH_BYTES: u32 = 64 * 1024;
/// Prefetch pays when the memory time is at least this fraction of the busiest cluster's time. Below
/// it, the prefetch delays other loads.
pub(super) const PREFETCH_MEMORY: f64 = 0.75;
/// Bytes that L2 holds. Operands that fit are read from memory once.
pub(super) const L2_BYTES: u64 = 60 << 20;
/// Shortest tile that is worth a throttle. CTAs do not drift apart in a shorter one, and the throttle's
/// signal would arrive after its end.
pub(super) const THROTTLED_TILE_US: f64 = 10.0;
/// Operations per microsecond that the power limit allows, over milliseconds.
pub(super) const POWER_FLOPS_PER_US: f64 = 720e6;
/// A product that takes longer than this is held by the power limit from start to end.
pub(super) const HELD_US: f64 = 3000.0;
/// Bytes from L2 that cost a microsecond in a product longer than [`HELD_US`]. At 16384 cubed, of two
/// otherwise equally fast kernels the one that fetches twice as much was 7 % slower.
pub(super) const POWER_BYTES_PER_US: f64 = 3.5e9;
