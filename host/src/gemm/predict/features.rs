//! What a network is told of a candidate: numbers of about 1 that say what its predicted time is made of.
//!
//! If they change, the network has to be trained again (`bench/network/train.py`).

use super::main_loop::of_instance;
use super::memory::{Rows, pingpong};
use super::network::FEATURES;
use super::split::givers;
use super::{Prediction, Tiled};
use gpu_kernels::gemm::KernelSchedule;

/// About the logarithm to base 2: exact for powers of two, and linear between them. It takes one instruction or two, and a
/// network needs no more.
fn lg(x: f64) -> f32 {
    let bits = (x.max(1e-6) as f32).to_bits();
    bits as f32 / (1 << 23) as f32 - 127.0
}

/// The same, in tenths, for numbers that go to thousands.
fn size(x: f64) -> f32 {
    0.1 * lg(x)
}

fn flag(is: bool) -> f32 {
    f32::from(u8::from(is))
}

/// Tells a network of a prediction of a product.
pub(super) fn features(product: &Tiled<'_>, p: &Prediction) -> [f32; FEATURES] {
    let (main, traffic) = (&product.main_loop, &product.traffic);
    let (i, t) = (main.instance, &main.tiling);
    let [m, n] = of_instance(i, traffic.sides);
    let whole = 1.0 / p.predicted_us;
    let part = |us: f64| (us * whole) as f32;
    let k_tile = main.step / p.k_tile_us;
    let step = |us: f64| (us * k_tile) as f32;
    let clusters = f64::from(p.schedule.clusters);
    let streamed = f64::from(p.schedule.streamed);
    let tiles = p.cluster_tiles.max(1) as f64;
    let covered =
        |tiles: u64, cluster: u32, tile: u32| (tiles * u64::from(cluster * tile)).max(1) as f64;
    let givers = givers(p.schedule.clusters.into(), p.schedule.streamed.into(), p.k_tiles);
    let written = product.traffic.bytes[2] / traffic.c.memory_bytes_per_us;
    let [sectors, lines] = traffic.written_twice(i);
    [
        size(m),
        size(n),
        size(p.k_tiles as f64),
        size(p.predicted_us),
        size(traffic.operand_bytes()) - 2.0,
        flag(traffic.rows == Rows::TwoLines),
        flag(traffic.rows == Rows::PartialSectors),
        flag(traffic.whole_sectors),
        flag(traffic.whole_lines),
        f64::from(i.bm) as f32 / 128.0,
        f64::from(i.bn) as f32 / 128.0,
        0.5 * lg(i.cluster_m.into()),
        0.5 * lg(i.cluster_n.into()),
        i.stages as f32 / 8.0,
        flag(i.groups == 1),
        flag(i.groups == 3),
        flag(pingpong(i)),
        flag(i.swap_ab),
        flag(i.kernel_schedule == KernelSchedule::SplitN),
        flag(i.kernel_schedule == KernelSchedule::CooperativeByColumns),
        flag(i.two_fit()),
        flag(i.splits_k),
        (m / covered(t.clusters_m, i.cluster_m, i.bm)) as f32,
        (n / covered(t.clusters_n, i.cluster_n, i.bn)) as f32,
        p.filled() as f32,
        (p.ctas as f64 / f64::from(product.sms)) as f32,
        size(tiles),
        0.25 * lg(p.rounds as f64 + 0.25),
        flag(p.rounds == 1),
        flag(streamed > 0.0),
        (streamed / tiles) as f32,
        (streamed / clusters) as f32,
        0.25 * lg(f64::from(givers) + 0.25),
        part(p.launch_us),
        part(p.start_us),
        part(p.whole_us()),
        part(p.run_us()),
        part(p.epilogues_us()),
        part(p.fixup_us),
        part(p.busiest_us()),
        part(p.memory_us),
        part(p.power_us),
        step(main.issue_us),
        step(main.mma_us),
        step(p.ctas as f64 * main.l2_us),
        step(main.sm_us),
        step(clusters * main.outside_us),
        traffic.c.memory_gbs as f32 / 4000.0,
        part(8.0 * sectors * written),
        part(2.0 * lines * written),
    ]
}
