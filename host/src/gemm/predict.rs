//! Predicted time of a product with an instance and a schedule, term by term.
//!
//! ```text
//! launch + the longest of { start + whole tiles + run + epilogues + fix-up, memory, power }
//! ```
//! - The first of the three is the time of the busiest cluster. After its first loads it computes `rounds`
//!   data-parallel tiles of `k_tiles` k tiles each; then its run of the split tiles' k tiles; then the epilogue of
//!   each tile that it finishes; and it loads and reduces the partials of other clusters.
//! - `memory` is the time to read the operands from memory and to write the result. A short read does not reach the
//!   full rate, and memory is idle while partials are reduced, unless the dependent grid already prefetches.
//! - `power` is the time in which the power limit lets the tensor cores do the multiplications.
//!
//! A network then compares the candidates whose times are near the shortest, and corrects them by a few percent
//! ([`Prediction::correction`]).
//!
//! "The longest" is a smooth maximum, the fourth root of the sum of fourth powers: where two of the three
//! are equal, neither hides all of the other.

mod candidates;
mod features;
mod main_loop;
mod memory;
mod network;
mod split;
mod tiled;

pub use candidates::{Candidate, candidates, features_of, predict};
pub(super) use candidates::{best, resident, schedule};
pub use network::FEATURES;
pub(super) use tiled::Tiled;

use super::calibration::*;
use super::schedule::Schedule;
use gpu_kernels::gemm::Instance;
use main_loop::MainLoop;
pub(super) use memory::longest;
use memory::{Rows, Traffic, pingpong};
use serde::Serialize;
use split::{givers, loaded_together};
use std::cmp::Ordering;

/// A predicted time and what it is made of.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Prediction {
    /// Clusters of the grid, and cluster tiles that are split along K.
    #[serde(flatten)]
    pub schedule: Schedule,
    /// Total time in microseconds. All times here are in microseconds.
    pub predicted_us: f64,
    /// Tiles of D.
    pub tiles: u64,
    /// Cluster tiles of D. Those at the edges may extend beyond D.
    pub cluster_tiles: u64,
    /// K tiles of one tile.
    pub k_tiles: u64,
    /// Data-parallel tiles that the busiest cluster computes.
    pub rounds: u64,
    /// K tiles of split tiles that the busiest cluster computes.
    pub run: u64,
    /// Split tiles that the busiest cluster finishes.
    pub finished: u64,
    /// Launch, start and end of the kernel.
    pub launch_us: f64,
    /// Until the first tiles have come from memory, with the kernel's own part of it
    /// ([`KernelTimes`](super::KernelTimes)), so it may be below 0; and what the clusters wait for bytes that memory
    /// delivers once more, because split tiles put them out of step.
    pub start_us: f64,
    /// One k tile.
    pub k_tile_us: f64,
    /// Factor of a k tile of the whole tiles.
    pub whole_slower: f64,
    /// Factor of a k tile of the split tiles.
    pub run_slower: f64,
    /// One epilogue.
    pub epilogue_us: f64,
    /// What a cluster's later tiles save of each epilogue: their first stages are loaded meanwhile.
    pub prefetched_us: f64,
    /// What the stores of an epilogue delay the loads of the other warp group's tile, with ping-pong.
    pub contended_us: f64,
    /// Whether the next tile's main loop hides the epilogue.
    pub pingpong: bool,
    /// Stream-K fix-up: other clusters' partials are loaded and reduced. 0 if no tile is split.
    pub fixup_us: f64,
    /// Reading the operands from memory and writing the result, with the time in which memory is idle.
    pub memory_us: f64,
    /// The part of `memory_us` that the bytes take at full rate.
    pub bytes_us: f64,
    /// The multiplications at the rate that the power limit allows.
    pub power_us: f64,
    /// Factor of `predicted_us` beside the terms: what a comparison with the other candidates near the shortest time gave. It is 1
    /// for the first of them, for those that are far, and where nothing was compared.
    pub correction: f64,
    /// CTAs of the grid.
    pub ctas: u64,
    /// Bytes of A and B in a k tile.
    pub stage_bytes: u32,
    /// Whether A and B together exceed the L2 cache.
    pub beyond_l2: bool,
    /// Whether several clusters load each tile of A, and of B.
    pub shared: bool,
}

impl Prediction {
    /// Predicts the product with a schedule.
    pub(super) fn new(product: &Tiled<'_>, schedule: Schedule) -> Self {
        let Tiled { bytes_us, traffic: Traffic { c, rows, .. }, .. } = *product;
        let MainLoop { instance: i, tiling, active, k_tiles, fixed_us, .. } = product.main_loop;
        let (clusters, streamed) =
            (u64::from(schedule.clusters).max(1), u64::from(schedule.streamed));
        let ctas = clusters * u64::from(i.cluster_m * i.cluster_n);
        let busy = (clusters as f64 / active.max(1) as f64).min(1.0);
        let crowded = product.shares_pairs(ctas);
        let elements = f64::from(i.bm * i.bn);
        let givers = givers(clusters, streamed, k_tiles);
        let fixup_us = match givers {
            0 => 0.0,
            n => {
                let rounds = n.div_ceil(loaded_together(i));
                let n = f64::from(n);
                c.fixup_us
                    + c.fixup_round_us * f64::from(rounds)
                    + elements * (c.fixup_store_us_per_element + c.fixup_load_us_per_element * n)
                    + ctas as f64 * elements * c.fixup_traffic_us_per_element
            }
        };
        // Memory's part of the fix-up, and what it loses to few readers.
        let (of_memory, few_us) = match (rows, givers) {
            (Rows::WholeLines, 0) => (0.0, c.few_ctas_us * (1.0 - busy)),
            // Where a twin of this grid has room beside it, it runs there already.
            (Rows::WholeLines, 1) if crowded => {
                let left = (2.0 - 2.0 * streamed as f64 / clusters as f64).clamp(0.0, 1.0);
                (c.fixup_of_memory + (c.fixup_of_memory_left - c.fixup_of_memory) * left, 0.0)
            }
            _ => (c.fixup_of_memory, 0.0),
        };
        let out_of_step_us = product.out_of_step_us(schedule);
        let exposed = match rows {
            Rows::WholeLines => c.out_of_step_lines_exposed,
            _ => c.out_of_step_exposed,
        };
        let cluster_tiles = tiling.clusters();
        let k_tile_us = product.k_tile_us(clusters, ctas);
        let idle = f64::from(product.sms) / ctas as f64;
        // Where power decides, fewer SMs are slower by (SMs / CTAs) to the power of 2/3: the clock rises as the cube root of the
        // power for each SM. It does not hold for 8-bit products: there, whole tiles on 128 SMs are faster than tiles that are split
        // among 132.
        let fewer = idle > 1.0 && !product.is_8_bit();
        let slower = if fewer { f64::from(((idle * idle) as f32).cbrt()) } else { 1.0 };
        let [whole_slower, run_slower] = product.out_of_step(schedule);
        let mut prediction = Self {
            schedule,
            predicted_us: 0.0,
            tiles: tiling.tiles,
            cluster_tiles,
            k_tiles,
            rounds: cluster_tiles.saturating_sub(streamed).div_ceil(clusters),
            run: (streamed * k_tiles).div_ceil(clusters),
            finished: streamed.div_ceil(clusters),
            launch_us: c.launch_us + if crowded { c.crowded_us } else { 0.0 },
            start_us: fixed_us + c.memory_not_hidden * bytes_us + exposed * out_of_step_us,
            k_tile_us,
            whole_slower,
            run_slower,
            epilogue_us: product.epilogue_us,
            prefetched_us: product.prefetched_us(k_tile_us),
            contended_us: product.contended_us(k_tile_us),
            pingpong: pingpong(i),
            fixup_us,
            memory_us: product.read_us
                + few_us
                + fixup_us * of_memory
                + c.out_of_step * out_of_step_us,
            bytes_us,
            power_us: product.power_us * slower,
            correction: 1.0,
            ctas,
            stage_bytes: i.stage_bytes,
            beyond_l2: product.beyond_l2,
            shared: tiling.clusters_m.min(tiling.clusters_n) > 1,
        };
        prediction.launch_us += prediction.two_fit_us(i, busy, c);
        let run = prediction.run as f64 / prediction.busiest() as f64;
        prediction.power_us *= whole_slower + run * (run_slower - whole_slower);
        prediction.predicted_us = prediction.total_us();
        prediction
    }

    /// Multiplies the predicted time by a correction.
    fn correct(&mut self, by: f64) {
        self.predicted_us *= by;
        self.correction *= by;
    }

    /// Main loops of the data-parallel tiles.
    pub fn whole_us(&self) -> f64 {
        (self.rounds * self.k_tiles) as f64 * self.k_tile_us * self.whole_slower
    }

    /// Main loops of the split tiles.
    pub fn run_us(&self) -> f64 {
        self.run as f64 * self.k_tile_us * self.run_slower
    }

    /// The exposed part of the epilogues, of data-parallel and of split tiles.
    pub fn epilogues_us(&self) -> f64 {
        if self.pingpong {
            // While one warp group computes and stores a tile, the other one computes a tile.
            let main_loop = self.k_tiles as f64 * self.k_tile_us;
            let exposed = (self.epilogue_us - main_loop).max(0.0) / 2.0 + self.contended_us;
            return self.epilogue_us + self.rounds.saturating_sub(1) as f64 * exposed;
        }
        let later = (self.rounds + u64::from(self.schedule.streamed > 0)).saturating_sub(1);
        (self.rounds + self.finished) as f64 * self.epilogue_us - later as f64 * self.prefetched_us
    }

    /// Time of the busiest cluster.
    pub fn busiest_us(&self) -> f64 {
        let main_loop = self.whole_us() + self.run_us();
        (self.start_us + main_loop + self.epilogues_us() + self.fixup_us).max(0.0)
    }

    /// The smooth maximum of the three concurrent terms, and the launch.
    fn total_us(&self) -> f64 {
        let longest = longest([self.busiest_us(), self.memory_us, self.power_us]);
        self.launch_us + longest
    }

    /// Penalty or gain when two CTAs fit on an SM. `busy` is the fraction of the device that is occupied. There is a gain
    /// only where memory decides: the dependent grid's CTAs, which have room beside these, read ahead from memory. Operands
    /// that stay in the L2 cache need no reading ahead.
    fn two_fit_us(&self, instance: &Instance, busy: f64, c: &Calibration) -> f64 {
        let whole =
            self.schedule.streamed == 0 && (self.rounds > 1 || TWO_FIT_BUSY.contains(&busy));
        let streams = whole && self.beyond_l2 && self.bytes_us > self.busiest_us();
        match instance.two_fit() {
            false => 0.0,
            true if streams => -c.two_fit_gain_us,
            true => c.two_fit_loss_us,
        }
    }

    /// Whether the grid is throttled ([`pipeline::grid::Throttle`]): its CTAs compute several long tiles,
    /// and load what others have loaded, and the operands exceed the L2 cache.
    pub fn throttled(&self) -> bool {
        let tile = self.k_tiles as f64 * self.k_tile_us;
        self.rounds > 1 && tile >= THROTTLED_TILE_US && self.beyond_l2 && self.shared
    }

    /// K tiles of its first tile that a CTA prefetches into L2 while the primary grid still runs, on a
    /// device of `sms` SMs. Prefetch pays in two cases: the grid leaves half of the SMs free, so that the
    /// next one starts early; or memory decides the time.
    pub fn prefetch(&self, sms: u32) -> u32 {
        let room = 2 * self.ctas <= u64::from(sms);
        let memory = self.bytes_us >= PREFETCH_MEMORY * self.busiest_us();
        if room || memory { PREFETCH_BYTES / self.stage_bytes } else { 0 }
    }

    /// K tiles of the busiest cluster.
    fn busiest(&self) -> u64 {
        self.rounds * self.k_tiles + self.run
    }

    /// Orders by time, then by the number of split tiles.
    fn order(&self, other: &Self) -> Ordering {
        let time = self.predicted_us.total_cmp(&other.predicted_us);
        time.then(self.schedule.streamed.cmp(&other.schedule.streamed))
    }

    /// Utilisation of the clusters: k tiles over the k tiles that all clusters could compute while the
    /// busiest one does. It is 1 if no cluster waits for the busiest one.
    pub fn filled(&self) -> f64 {
        let room = u64::from(self.schedule.clusters) * self.busiest();
        (self.cluster_tiles * self.k_tiles) as f64 / room.max(1) as f64
    }
}
