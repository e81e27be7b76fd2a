//! What the predictions are made from: times and rates of an H200.
//!
//! The constants are fitted to the measurements in docs/data/h200-candidates.txt, by what they pick
//! more than by what they predict (docs/performance.md says how).

/// A launch, and the start and the end of a kernel that does nothing much, in microseconds.
pub(super) const LAUNCH_US: f64 = 1.45;
/// What a cluster adds to that: its CTAs start together and meet.
pub(super) const CLUSTER_US: f64 = 0.18;
/// A stage of the main loop takes this long even for a tiny tile: barriers, TMA, issue.
pub(super) const STAGE_US: f64 = 0.026;
/// The same for tiles of one warp group: one arrival fewer frees a slot.
pub(super) const STAGE_OF_ONE_US: f64 = 0.02;
/// The same where warp groups multiply in turn: each issues for the other.
pub(super) const STAGE_IN_TURN_US: f64 = 0.0063;
/// What a cluster adds to a stage: its CTAs wait for each other's slots.
pub(super) const CLUSTER_STAGE_US: f64 = 0.005;
/// What the tensor cores take for each element of the tile in a stage of 64 columns: 2048
/// multiplications a clock give 0.017e-3 µs at 1.9 GHz.
pub(super) const MMA_US_PER_ELEMENT: f64 = 0.0168e-3;
/// Bytes a microsecond that the L2 cache gives to all CTAs together.
pub(super) const L2_BYTES_PER_US: f64 = 38e6;
/// The same where rows are no multiple of 128 bytes: what a box takes of a row lies in two lines.
pub(super) const L2_BYTES_PER_US_TWO_LINES: f64 = 6.2e6;
/// A line of the L2 cache.
pub(super) const LINE_BYTES: u64 = 128;
/// Bytes a microsecond that come into one SM.
pub(super) const SM_BYTES_PER_US: f64 = 191e3;
/// What the operand with more rows costs the L2 cache beyond its bytes: more of it misses.
pub(super) const LARGER_OPERAND: f64 = 0.125;
/// What each row of a box that lies outside of the tensor adds to a stage, beyond the first few: TMA
/// fills it with zeros more slowly than from the cache.
pub(super) const OUTSIDE_US: f64 = 3.0e-3;
pub(super) const OUTSIDE_FREE: f64 = 15.0;
/// An epilogue, and that of a tile of 128 x 256, as far as the next main loop does not hide it.
pub(super) const EPILOGUE_US: f64 = 0.22;
pub(super) const EPILOGUE_US_PER_ELEMENT: f64 = 0.33 / (128.0 * 256.0);
/// What a stage of a shared tile takes, by one of a whole tile: the clusters of a run are at different
/// columns of A and B, and find less of them in the L2 cache.
pub(super) const SHARED_STAGE: f64 = 1.1;
/// The same where rows are no multiple of 128 bytes: half of each line is the next stage's, and lost to
/// clusters that are elsewhere.
pub(super) const SHARED_STAGE_TWO_LINES: f64 = 1.2;
/// What it takes at least until a CTA has the sums that another one gave.
pub(super) const FIXUP_US: f64 = 0.27;
/// What each element of the tile adds to that: it is written and read once.
pub(super) const FIXUP_US_PER_ELEMENT: f64 = 9.5 / (128.0 * 256.0);
/// Bytes a microsecond from memory, and how long until the first are there.
pub(super) const MEMORY_BYTES_PER_US: f64 = 4.22e6;
pub(super) const MEMORY_US: f64 = 1.28;
/// Idle SMs have no loads under way: bytes for each microsecond that is lost if nearly all are idle, beyond those that
/// are under way from the start.
pub(super) const IDLE_BYTES_PER_US: f64 = 45e6;
pub(super) const STARTING_BYTES: f64 = 4e6;
/// How much of what CTAs wait for each other's sums is added to that: nothing is read from memory meanwhile.
pub(super) const FIXUP_OF_MEMORY: f64 = 0.3;
/// What clusters fetch beyond that, from the L2 cache, holds up what comes from memory: bytes for each
/// microsecond that is lost.
pub(super) const FETCHED_BYTES_PER_US: f64 = 160e6;
/// What an operand that several clusters read, each for itself, adds to its bytes from memory.
pub(super) const READ_AGAIN: f64 = 0.25;
/// What a grid that streams from memory gains where CTAs of the one behind have room beside its own,
/// and each SM computes several whole tiles: its end and their start overlap.
pub(super) const ROOM_FOR_TWO_US: f64 = 1.3;
/// How much of the device is busy with one round of tiles where that is so as well: the grid behind finds SMs that are
/// free, but not so many that all of it could start there.
pub(super) const ROOM_ASIDE: std::ops::Range<f64> = 0.5..0.9;
/// What it loses elsewhere: CTAs of one grid crowd onto an SM.
pub(super) const CROWDED_US: f64 = 0.6;
/// What a CTA brings into the L2 cache early, at most.
pub(super) const EARLY_BYTES: u32 = 64 * 1024;
/// How much of a grid's time memory must need for that: else it delays loads that nobody waits for
/// otherwise.
pub(super) const EARLY_MEMORY: f64 = 0.75;
/// What the L2 cache holds. Operands that fit are read once anyway.
pub(super) const L2_BYTES: u64 = 60 << 20;
/// A tile that takes less is over before its CTAs have drifted apart, or have told one another.
pub(super) const PACED_TILE_US: f64 = 10.0;
/// Operations a microsecond that the power limit allows, over milliseconds.
pub(super) const POWER_FLOPS_PER_US: f64 = 720e6;
/// Products that take longer, in microseconds, are held by it from start to end. What is fetched from the L2 cache then
/// counts: of two kernels that are else as fast, the one that fetches twice as much was 7 % slower at 16384 cubed. Bytes
/// a microsecond.
pub(super) const HELD_US: f64 = 3000.0;
pub(super) const POWER_BYTES_PER_US: f64 = 3.5e9;
