//! Constants of the predictions: times and rates of one GPU.
//!
//! `cargo run --release -p warpipe-bench --example fit_predictions` fits them to records of `warpipe bench --record`
//! (docs/benchmarking.md), and writes the files of the folder `calibration`.

mod h100;
mod h200;

use super::kernel_times::{E4M3_KERNELS, KERNELS, KernelTimes};

/// Declares the constants as fields of [`Calibration`], so that a fit can go through them.
macro_rules! calibration {
    ($($(#[doc = $doc:literal])* $name:ident;)*) => {
        /// Constants of a GPU that the predictions are made of. Times are in microseconds.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Calibration {
            /// The GPU that was measured, for example `H200`.
            pub gpu: &'static str,
            /// Peak rate of its memory in GB/s, from the data sheet. [`HardwareInfo`](super::HardwareInfo) knows GPUs by it.
            pub memory_gbs: f64,
            $($(#[doc = $doc])* pub $name: f64,)*
            /// What single kernels for operands of 16 bits take more or less than the constants say.
            pub kernels: [KernelTimes; KERNELS],
            /// The same of those for 8-bit floats.
            pub e4m3_kernels: [KernelTimes; E4M3_KERNELS],
        }

        impl Calibration {
            /// The constants with their names, to change them.
            pub fn constants(&mut self) -> Vec<(&'static str, &mut f64)> {
                vec![$((stringify!($name), &mut self.$name),)*]
            }
        }
    };
}

calibration! {
    /// Launch, start and end of a kernel that does almost nothing.
    launch_us;
    /// Added to `launch_us` where a grid occupies both SMs of some pair (TPC): the dependent grid then finds no room
    /// beside it, and starts when this grid's CTAs exit.
    crowded_us;
    /// Added to each k tile of two cooperative warp groups: barriers and issue.
    k_tile_us;
    /// The same for one warp group: a slot waits for one arrival fewer.
    k_tile_one_group_us;
    /// The same for three warp groups.
    k_tile_three_groups_us;
    /// The same for ping-pong: one warp group issues while the other one computes.
    k_tile_pingpong_us;
    /// Time of the tensor cores for each element of the tile, in a k tile of 64 columns. 2048
    /// multiplications per clock would give 0.017e-3 µs at 1.9 GHz.
    mma_us_per_element;
    /// Bytes per microsecond from the L2 cache to all CTAs together. CTAs that load the same lines at about the same
    /// time share a request, so this is more than the cache delivers.
    l2_bytes_per_us;
    /// `l2_bytes_per_us` where the row pitch is not a multiple of 128 bytes: each row of a TMA box touches
    /// two lines.
    l2_bytes_per_us_two_lines;
    /// `l2_bytes_per_us` where the row pitch is not a multiple of 32 bytes: each row of a TMA box touches
    /// five sectors of two lines.
    l2_bytes_per_us_partial_sectors;
    /// Extra L2 traffic of the operand with more rows, as a fraction of its bytes: it misses more often.
    larger_operand;
    /// Bytes per microsecond into one SM.
    sm_bytes_per_us;
    /// What a byte that a CTA requests costs beside a byte that comes into its SM, as a factor. With multicast a CTA
    /// requests only its part of the bytes that come in.
    requested;
    /// Factor of the time into an SM where more CTAs run than there are pairs of SMs (TPCs): both SMs of a pair
    /// then load.
    shared_pair;
    /// Factor of the time into an SM where each row of a TMA box touches two lines.
    two_lines_into_sm;
    /// The same where it touches five sectors.
    partial_sectors_into_sm;
    /// Added to each k tile for each row of a cluster tile that lies outside of the tensors, in each of the clusters
    /// that run: TMA fills such rows with zeros more slowly than it loads rows, and the clusters hinder one another.
    row_outside_us;
    /// Fixed time of an epilogue.
    epilogue_us;
    /// Time of an epilogue for each element of the tile: 0.9 µs for a tile of 128 x 256 in halves.
    epilogue_us_per_element;
    /// Factor of `epilogue_us_per_element` with ping-pong: one warp group writes a tile, where otherwise two do.
    epilogue_pingpong;
    /// Added to `epilogue_us` where two epilogue tiles overlap, because they don't divide the tile: one waits until the other
    /// one is written.
    epilogue_overlap_us;
    /// Factor of `epilogue_us_per_element` with swap_ab, whose fragments are transposed.
    epilogue_swapped;
    /// Fraction of an epilogue by which its stores delay the loads of the other warp group's tile, with ping-pong, where these
    /// take all of the time of a k tile.
    epilogue_contends;
    /// Least time of the stream-K fix-up: until a CTA has another one's partials.
    fixup_us;
    /// Added to `fixup_us` for each round of loads: the partials of up to eight CTAs, if they are small.
    fixup_round_us;
    /// Added to `fixup_us` for each element of the tile: partials are stored.
    fixup_store_us_per_element;
    /// The same for each CTA whose partials are added: partials are loaded.
    fixup_load_us_per_element;
    /// Added to `fixup_us` for each element of the tiles of all CTAs: the partials of all tiles pass through the L2
    /// cache at the same time.
    fixup_traffic_us_per_element;
    /// Fraction of the fix-up that is added to the memory time: memory is idle meanwhile.
    fixup_of_memory;
    /// `fixup_of_memory` where half of the clusters only give partials, one to each tile: they exit before the fix-up,
    /// and CTAs of the dependent grid that take their SMs prefetch meanwhile. Measured where rows of A and B are whole
    /// lines of the L2 cache, and used only there.
    fixup_of_memory_left;
    /// Bytes per microsecond from memory, in a long read.
    memory_bytes_per_us;
    /// Time until the first bytes arrive from memory.
    memory_us;
    /// What a long read loses until memory delivers at its full rate.
    memory_slow_us;
    /// Time of the bytes, at full rate, of a read that loses half of `memory_slow_us`.
    memory_half_slow_us;
    /// Added to the memory time, times the fraction of the device that has no CTA, where no tile is split and rows of
    /// A and B are whole lines.
    few_ctas_us;
    /// Fraction of the time of the bytes that is added to the time of the busiest cluster. The first tiles of
    /// all clusters come from memory, and nothing is multiplied meanwhile.
    memory_not_hidden;
    /// Extra bytes from memory, as a fraction, of an operand that several clusters load.
    read_again;
    /// What memory delivers once more of what L2 can't hold, as a fraction, where clusters that split tiles are at other k
    /// tiles.
    out_of_step;
    /// Fraction of the time of these bytes by which the busiest cluster waits for them.
    out_of_step_exposed;
    /// The same where rows of A and B are whole lines: clusters in step share requests for a line, and others don't.
    out_of_step_lines_exposed;
    /// Bytes of the operands that L2 holds for clusters that are at other k tiles. The rest is loaded again.
    shared_l2_bytes;
    /// Extra time of the bytes of D, as a fraction: memory writes more slowly than it reads.
    written;
    /// Added to `written`, divided by the CTAs of a cluster: what a cluster writes at the same time lies together in memory.
    written_cluster;
    /// Added to `written` with ping-pong, whose warp groups write different tiles at the same time.
    written_pingpong;
    /// Added to `written` where rows of D begin inside a sector of 32 bytes.
    written_partial_sectors;
    /// Added to that with ping-pong, whose warp groups write the parts of a sector that two tiles share at other times.
    written_partial_sectors_pingpong;
    /// Added to `written` where rows of D begin inside a line of 128 bytes, times the fraction of D that L2 can't hold: a line
    /// at the edge of a tile is written to memory in parts.
    written_partial_lines_evicted;
    /// Bytes of D that L2 holds until all of a line is written.
    written_l2_bytes;
    /// Operations per microsecond that the power limit allows, over milliseconds.
    power_flops_per_us;
    /// Bytes from L2 that cost a microsecond in a product longer than 3 ms. At 16384 cubed, twice the bytes are
    /// 3 % of the time. In turn with cuBLASLt alone they were 7 %, in a record of many kernels nothing.
    power_bytes_per_us;
    /// Fraction of the time at the power limit that a very short product saves: the limit holds for the mean of some time.
    power_saved;
    /// Time at the power limit of a product that saves half of `power_saved`.
    power_half_saved_us;
    /// Gain of a grid bound by memory when two CTAs fit on an SM and each SM computes several
    /// data-parallel tiles: its end overlaps with the start of the dependent grid.
    two_fit_gain_us;
    /// Loss in every other case where two CTAs fit on an SM: CTAs of one grid crowd onto one SM.
    two_fit_loss_us;
    /// Factor of the time of the tensor cores with 8-bit floats: with 1, a byte of them takes as long as a byte of 16-bit
    /// operands.
    e4m3_mma;
    /// Another factor where sums are promoted: warps add those of each k tile to sums in f32.
    e4m3_promoted;
    /// `e4m3_promoted` where the main loop applies block scales too.
    e4m3_block_scaled;
    /// Factor of the time at the power limit with 8-bit floats: with 1, a multiplication takes half the energy of one of 16
    /// bits.
    e4m3_power;
    /// Fraction by which a k tile of 8-bit floats takes longer, and needs more power, where clusters that split tiles are at
    /// other k tiles.
    e4m3_out_of_step;
    /// The same for the whole tiles, which come after the split ones.
    e4m3_out_of_step_whole;
    /// Added to each k tile with block scales: its slot has a third load, and the warps read the factors.
    e4m3_scales_us;
}

impl Calibration {
    /// All that were fitted.
    pub const ALL: [&'static Self; 2] = [&Self::H100, &Self::H200];
}

/// Bytes of a line of the L2 cache.
pub(super) const LINE_BYTES: u64 = 128;
/// Bytes of a sector, a quarter of a line.
pub(super) const SECTOR_BYTES: u64 = 32;
/// `two_fit_gain_us` applies also to one round of tiles that occupies this fraction of the device. The dependent
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
/// K tiles of an epoch of the throttle. With 32 to 128, three products of 13 to 17 ms took the same time (an H100).
pub(super) const THROTTLE_EPOCH: u32 = 64;
/// A product that takes longer than this is held by the power limit from start to end.
pub(super) const HELD_US: f64 = 3000.0;
