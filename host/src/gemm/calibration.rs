//! Constants of the predictions: times and rates of one NVIDIA H200.
//!
//! The constants are fitted to the measurements in docs/data/h200-candidates.txt. The fit weighs which
//! kernel and schedule they pick more than the times they predict (docs/performance.md).

/// Declares the constants as fields of [`Calibration`], so that a fit can go through them.
macro_rules! calibration {
    ($($(#[doc = $doc:literal])* $name:ident = $value:expr;)*) => {
        /// Constants of a GPU that the predictions are made of. Times are in microseconds.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Calibration {
            $($(#[doc = $doc])* pub $name: f64,)*
        }

        impl Calibration {
            /// One NVIDIA H200.
            pub const H200: Self = Self { $($name: $value,)* };

            /// The constants with their names, to change them.
            pub fn constants(&mut self) -> Vec<(&'static str, &mut f64)> {
                vec![$((stringify!($name), &mut self.$name),)*]
            }
        }
    };
}

calibration! {
    /// Launch, start and end of a kernel that does almost nothing, in microseconds.
    launch_us = 1.45;
    /// Added to `launch_us` for each doubling of the cluster: its CTAs start together and synchronise.
    cluster_us = 0.18;
    /// Least time of a k tile, however small the tile: barriers, TMA and issue.
    k_tile_us = 0.026;
    /// `k_tile_us` for tiles of one warp group: a slot waits for one arrival fewer.
    k_tile_one_group_us = 0.02;
    /// `k_tile_us` for ping-pong: one warp group issues while the other one computes.
    k_tile_pingpong_us = 0.0063;
    /// Added to each k tile for each doubling of the cluster: its CTAs wait for one another's slots.
    cluster_k_tile_us = 0.005;
    /// Time of the tensor cores for each element of the tile, in a k tile of 64 columns. 2048
    /// multiplications per clock would give 0.017e-3 µs at 1.9 GHz.
    mma_us_per_element = 0.0168e-3;
    /// Bytes per microsecond from the L2 cache to all CTAs together.
    l2_bytes_per_us = 38e6;
    /// `l2_bytes_per_us` where the row pitch is not a multiple of 128 bytes: each row of a TMA box then
    /// touches two lines.
    l2_bytes_per_us_two_lines = 6.2e6;
    /// `l2_bytes_per_us` where the row pitch is not a multiple of 32 bytes: each row of a TMA box then
    /// touches five sectors.
    l2_bytes_per_us_partial_sectors = 6.2e6;
    /// Bytes per microsecond into one SM.
    sm_bytes_per_us = 191e3;
    /// Weight of a row that wgmma reads from shared memory, relative to one that TMA writes to it.
    smem_reads = 0.02;
    /// Extra L2 traffic of the operand with more rows, as a fraction of its bytes: it misses more often.
    larger_operand = 0.125;
    /// Added to a k tile for each row of a TMA box that lies outside of the tensor, beyond the first
    /// `outside_free` rows. TMA fills such rows with zeros more slowly than it loads rows from L2.
    outside_us = 3.0e-3;
    /// Rows outside of the tensor that cost nothing.
    outside_free = 15.0;
    /// Fixed time of an epilogue that no main loop hides.
    epilogue_us = 0.22;
    /// Added to `epilogue_us` for each element of the tile: 0.33 µs for a tile of 128 x 256.
    epilogue_us_per_element = 0.33 / (128.0 * 256.0);
    /// Time of a k tile of a split tile, relative to one of a data-parallel tile. The clusters are at
    /// different columns of A and B, so fewer loads hit L2.
    split_k_tile_factor = 1.1;
    /// `split_k_tile_factor` where the row pitch is not a multiple of 128 bytes. Half of each line belongs
    /// to the next k tile, and clusters at other columns do not use it.
    split_k_tile_factor_two_lines = 1.2;
    /// Least time of the stream-K fix-up: until a CTA has another one's partials.
    fixup_us = 0.27;
    /// Added to `fixup_us` for each CTA whose partials are added: its flag and its partials are loaded
    /// one after the other.
    fixup_giver_us = 0.3;
    /// Added to `fixup_us` for each element of the tile: partials are stored.
    fixup_store_us_per_element = 4.75 / (128.0 * 256.0);
    /// The same for each CTA whose partials are added: partials are loaded.
    fixup_load_us_per_element = 4.75 / (128.0 * 256.0);
    /// Added to `fixup_us` for each element of all CTAs: the partials of all tiles pass through L2 at the same
    /// time.
    fixup_traffic_us_per_element = 0.2e-6;
    /// Bytes per microsecond from memory.
    memory_bytes_per_us = 4.22e6;
    /// Time until the first bytes arrive from memory.
    memory_us = 1.28;
    /// Idle SMs have no loads in flight. If nearly all SMs are idle, each this many bytes beyond
    /// `starting_bytes` lose a microsecond.
    idle_bytes_per_us = 45e6;
    /// Bytes that are in flight from the start.
    starting_bytes = 4e6;
    /// Fraction of the fix-up that is added to the memory time: memory is idle meanwhile.
    fixup_of_memory = 0.3;
    /// Loads that hit L2 delay loads from memory: each this many bytes lose a microsecond.
    fetched_bytes_per_us = 160e6;
    /// Extra bytes from memory, as a fraction, of an operand that several clusters load.
    read_again = 0.25;
    /// Gain of a grid bound by memory when two CTAs fit on an SM and each SM computes several
    /// data-parallel tiles: its end overlaps with the start of the dependent grid.
    two_fit_gain_us = 1.3;
    /// Loss in every other case where two CTAs fit on an SM: CTAs of one grid crowd onto one SM.
    two_fit_loss_us = 0.6;
}

/// Bytes of a sector of the L2 cache, a quarter of a line.
pub(super) const SECTOR_BYTES: u64 = 32;
/// Bytes of a line of the L2 cache.
pub(super) const LINE_BYTES: u64 = 128;
/// The same gain applies to one round of tiles that occupies this fraction of the device. The dependent
/// grid then finds free SMs, but too few to start all of its CTAs.
pub(super) const TWO_FIT_BUSY: std::ops::Range<f64> = 0.5..0.9;
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
