//! What single kernels take more or less than the constants of the predictions say.
//!
//! Two kernels with the same tile differ by what the constants do not know: how ptxas orders their main loop, how many
//! stages hide a slow fetch, how soon the first tile is there. Two numbers a kernel hold that.

use super::calibration::Calibration;
use gpu_kernels::gemm::{Instance, KernelSchedule};

/// Measured times of the kernels with one tile and cluster, relative to the prediction without them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelTimes {
    tile: [u32; 2],
    cluster: [u32; 2],
    kind: Kind,
    /// Factor of the time of a k tile.
    pub step: f64,
    /// Time beside the k tiles and epilogues, in microseconds. It may be below 0.
    pub fixed_us: f64,
}

/// What beside tile and cluster tells a kernel from others, apart from its types.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Cooperative,
    Pingpong,
    /// With swap_ab.
    Swapped,
    /// With swap_ab, and two CTAs fit on an SM.
    TwoFit,
    /// Ping-pong with swap_ab.
    SwappedPingpong,
}
use Kind::{Cooperative, Pingpong, Swapped, SwappedPingpong, TwoFit};

impl KernelTimes {
    const fn of(tile: [u32; 2], cluster: [u32; 2], kind: Kind, [step, fixed_us]: [f64; 2]) -> Self {
        Self { tile, cluster, kind, step, fixed_us }
    }

    /// Whether these are the times of an instance. They were measured with 16-bit operands.
    #[must_use]
    pub fn are_of(&self, i: &Instance) -> bool {
        let kind = match i.kernel_schedule {
            KernelSchedule::Pingpong if i.swap_ab => SwappedPingpong,
            KernelSchedule::Pingpong => Pingpong,
            KernelSchedule::Cooperative | KernelSchedule::SplitN => {
                match (i.swap_ab, i.two_fit()) {
                    (true, false) => Swapped,
                    (true, true) => TwoFit,
                    (false, _) => Cooperative,
                }
            }
        };
        self.tile == [i.bm, i.bn]
            && self.cluster == [i.cluster_m, i.cluster_n]
            && self.kind == kind
            && i.ab.size() == 2
    }

    /// The row of the table of an H200 for these times, as source text.
    #[must_use]
    pub fn row(&self) -> String {
        let Self { tile, cluster, kind, step, fixed_us } = self;
        format!("KernelTimes::of({tile:?}, {cluster:?}, {kind:?}, [{step:.3}, {fixed_us:.3}]),")
    }
}

impl Calibration {
    /// Factor of the time of a k tile, and time beside the tiles. A kernel that was not measured has the factor 1.
    pub(super) fn of_kernel(&self, instance: &Instance) -> (f64, f64) {
        let times = self.kernels.iter().find(|times| times.are_of(instance));
        times.map_or((1.0, 0.0), |times| (times.step, times.fixed_us))
    }
}

/// One NVIDIA H200.
pub(super) const H200: [KernelTimes; 51] = [
    KernelTimes::of([64, 64], [1, 1], Cooperative, [0.991, 0.079]),
    KernelTimes::of([64, 64], [1, 4], Cooperative, [0.941, 0.016]),
    KernelTimes::of([64, 64], [2, 2], Cooperative, [1.034, 0.179]),
    KernelTimes::of([64, 64], [4, 1], Cooperative, [0.898, 0.092]),
    KernelTimes::of([64, 96], [4, 1], Cooperative, [0.893, 0.239]),
    KernelTimes::of([64, 128], [1, 1], Cooperative, [1.141, 0.171]),
    KernelTimes::of([64, 128], [2, 1], Cooperative, [1.001, 0.381]),
    KernelTimes::of([64, 128], [4, 1], Cooperative, [0.931, 0.244]),
    KernelTimes::of([128, 64], [1, 4], Cooperative, [0.853, 0.175]),
    KernelTimes::of([128, 80], [1, 4], Cooperative, [0.844, -0.028]),
    KernelTimes::of([64, 96], [1, 4], Cooperative, [1.057, -0.049]),
    KernelTimes::of([128, 64], [2, 1], Cooperative, [0.784, 0.369]),
    KernelTimes::of([128, 96], [4, 1], Cooperative, [0.945, 0.045]),
    KernelTimes::of([128, 112], [1, 2], Cooperative, [0.994, 0.224]),
    KernelTimes::of([128, 112], [2, 1], Cooperative, [0.887, 0.117]),
    KernelTimes::of([128, 128], [1, 1], Cooperative, [1.030, 0.109]),
    KernelTimes::of([128, 160], [2, 1], Cooperative, [0.994, 0.038]),
    KernelTimes::of([128, 176], [2, 1], Cooperative, [1.026, 0.014]),
    KernelTimes::of([128, 192], [2, 1], Cooperative, [0.950, 0.174]),
    KernelTimes::of([128, 208], [2, 1], Cooperative, [1.039, 0.049]),
    KernelTimes::of([128, 224], [2, 1], Cooperative, [1.124, 0.033]),
    KernelTimes::of([128, 256], [2, 1], Cooperative, [1.079, -0.285]),
    KernelTimes::of([192, 80], [1, 2], Cooperative, [0.906, 0.084]),
    KernelTimes::of([192, 96], [1, 2], Cooperative, [0.973, 0.108]),
    KernelTimes::of([192, 128], [1, 2], Cooperative, [1.035, 0.244]),
    KernelTimes::of([192, 160], [2, 1], Cooperative, [0.988, 0.012]),
    KernelTimes::of([192, 192], [2, 1], Cooperative, [1.093, -0.047]),
    KernelTimes::of([64, 128], [1, 1], Pingpong, [1.061, -0.298]),
    KernelTimes::of([64, 256], [2, 1], Pingpong, [1.199, -0.189]),
    KernelTimes::of([128, 128], [1, 1], Pingpong, [0.998, 0.021]),
    KernelTimes::of([128, 128], [2, 1], Pingpong, [1.122, 0.025]),
    KernelTimes::of([128, 176], [2, 1], Pingpong, [1.059, 0.043]),
    KernelTimes::of([64, 16], [1, 1], Swapped, [0.939, 0.308]),
    KernelTimes::of([64, 32], [1, 1], Swapped, [1.045, 0.226]),
    KernelTimes::of([64, 32], [4, 1], Swapped, [0.963, 0.142]),
    KernelTimes::of([64, 48], [1, 1], Swapped, [0.999, 0.163]),
    KernelTimes::of([128, 16], [1, 1], Swapped, [1.014, 0.355]),
    KernelTimes::of([64, 16], [1, 1], TwoFit, [1.245, -0.537]),
    KernelTimes::of([64, 32], [1, 1], TwoFit, [1.504, -0.389]),
    KernelTimes::of([64, 96], [4, 1], Swapped, [0.959, 0.066]),
    KernelTimes::of([128, 112], [1, 2], Swapped, [0.987, -0.047]),
    KernelTimes::of([128, 144], [1, 2], Swapped, [1.007, 0.007]),
    KernelTimes::of([128, 144], [2, 1], Swapped, [0.996, 0.031]),
    KernelTimes::of([192, 80], [1, 2], Swapped, [0.887, 0.117]),
    KernelTimes::of([192, 144], [1, 2], Swapped, [0.991, -0.051]),
    KernelTimes::of([128, 160], [2, 1], SwappedPingpong, [1.125, -0.430]),
    KernelTimes::of([128, 176], [2, 1], SwappedPingpong, [1.096, -0.146]),
    KernelTimes::of([192, 96], [1, 2], SwappedPingpong, [1.076, -0.186]),
    KernelTimes::of([64, 224], [2, 1], Pingpong, [1.127, -0.250]),
    KernelTimes::of([64, 112], [1, 2], Cooperative, [1.113, 0.150]),
    KernelTimes::of([192, 176], [1, 2], Swapped, [1.048, 0.000]),
];
