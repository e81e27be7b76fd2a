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
}
use Kind::{Cooperative, Pingpong, Swapped, TwoFit};

impl KernelTimes {
    const fn of(tile: [u32; 2], cluster: [u32; 2], kind: Kind, [step, fixed_us]: [f64; 2]) -> Self {
        Self { tile, cluster, kind, step, fixed_us }
    }

    /// Whether these are the times of an instance. They were measured with 16-bit operands.
    #[must_use]
    pub fn are_of(&self, i: &Instance) -> bool {
        let kind = match i.kernel_schedule {
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
pub(super) const H200: [KernelTimes; 39] = [
    KernelTimes::of([64, 64], [1, 1], Cooperative, [1.002, 0.003]),
    KernelTimes::of([64, 64], [1, 4], Cooperative, [0.881, -0.022]),
    KernelTimes::of([64, 64], [2, 2], Cooperative, [0.937, 0.109]),
    KernelTimes::of([64, 64], [4, 1], Cooperative, [0.869, 0.048]),
    KernelTimes::of([64, 96], [4, 1], Cooperative, [0.834, 0.099]),
    KernelTimes::of([64, 128], [1, 1], Cooperative, [1.016, 0.133]),
    KernelTimes::of([64, 128], [2, 1], Cooperative, [0.981, 0.294]),
    KernelTimes::of([64, 128], [4, 1], Cooperative, [0.876, 0.030]),
    KernelTimes::of([128, 64], [1, 2], Cooperative, [1.021, 0.053]),
    KernelTimes::of([128, 64], [2, 1], Cooperative, [0.910, 0.155]),
    KernelTimes::of([128, 96], [4, 1], Cooperative, [0.931, -0.057]),
    KernelTimes::of([128, 112], [1, 2], Cooperative, [0.972, -0.095]),
    KernelTimes::of([128, 112], [2, 1], Cooperative, [0.971, 0.038]),
    KernelTimes::of([128, 128], [1, 1], Cooperative, [1.009, 0.093]),
    KernelTimes::of([128, 128], [2, 1], Cooperative, [0.989, 0.097]),
    KernelTimes::of([128, 160], [2, 1], Cooperative, [0.975, -0.004]),
    KernelTimes::of([128, 176], [2, 1], Cooperative, [0.968, 0.077]),
    KernelTimes::of([128, 192], [2, 1], Cooperative, [0.944, 0.094]),
    KernelTimes::of([128, 208], [2, 1], Cooperative, [1.013, -0.019]),
    KernelTimes::of([128, 224], [2, 1], Cooperative, [0.991, -0.040]),
    KernelTimes::of([128, 256], [2, 1], Cooperative, [0.989, 0.075]),
    KernelTimes::of([192, 80], [1, 2], Cooperative, [0.914, 0.081]),
    KernelTimes::of([192, 96], [1, 2], Cooperative, [0.943, -0.051]),
    KernelTimes::of([192, 128], [1, 2], Cooperative, [0.887, 0.146]),
    KernelTimes::of([192, 160], [2, 1], Cooperative, [0.969, 0.121]),
    KernelTimes::of([192, 192], [2, 1], Cooperative, [1.070, -0.017]),
    KernelTimes::of([64, 128], [1, 1], Pingpong, [1.039, -0.280]),
    KernelTimes::of([64, 224], [2, 1], Pingpong, [1.098, -0.209]),
    KernelTimes::of([64, 256], [2, 1], Pingpong, [1.129, -0.244]),
    KernelTimes::of([128, 128], [1, 1], Pingpong, [1.005, -0.243]),
    KernelTimes::of([128, 128], [2, 1], Pingpong, [0.987, -0.039]),
    KernelTimes::of([128, 176], [2, 1], Pingpong, [0.983, 0.015]),
    KernelTimes::of([64, 16], [1, 1], Swapped, [0.886, 0.253]),
    KernelTimes::of([64, 32], [1, 1], Swapped, [0.963, 0.133]),
    KernelTimes::of([64, 32], [4, 1], Swapped, [0.910, 0.117]),
    KernelTimes::of([64, 48], [1, 1], Swapped, [1.012, 0.039]),
    KernelTimes::of([128, 16], [1, 1], Swapped, [0.914, 0.148]),
    KernelTimes::of([64, 16], [1, 1], TwoFit, [1.041, 0.002]),
    KernelTimes::of([64, 32], [1, 1], TwoFit, [1.151, -0.193]),
];
