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
    KernelTimes::of([64, 64], [1, 1], Cooperative, [1.003, 0.138]),
    KernelTimes::of([64, 64], [1, 4], Cooperative, [0.884, 0.168]),
    KernelTimes::of([64, 64], [2, 2], Cooperative, [0.940, 0.330]),
    KernelTimes::of([64, 64], [4, 1], Cooperative, [0.877, 0.274]),
    KernelTimes::of([64, 96], [4, 1], Cooperative, [0.862, 0.200]),
    KernelTimes::of([64, 128], [1, 1], Cooperative, [1.110, 0.220]),
    KernelTimes::of([64, 128], [2, 1], Cooperative, [0.951, 0.478]),
    KernelTimes::of([64, 128], [4, 1], Cooperative, [0.886, 0.328]),
    KernelTimes::of([128, 64], [1, 2], Cooperative, [0.987, 0.153]),
    KernelTimes::of([128, 64], [2, 1], Cooperative, [0.798, 0.328]),
    KernelTimes::of([128, 96], [4, 1], Cooperative, [0.928, 0.064]),
    KernelTimes::of([128, 112], [1, 2], Cooperative, [0.974, 0.004]),
    KernelTimes::of([128, 112], [2, 1], Cooperative, [0.921, 0.125]),
    KernelTimes::of([128, 128], [1, 1], Cooperative, [1.010, 0.143]),
    KernelTimes::of([128, 128], [2, 1], Cooperative, [0.983, 0.235]),
    KernelTimes::of([128, 160], [2, 1], Cooperative, [0.988, 0.026]),
    KernelTimes::of([128, 176], [2, 1], Cooperative, [0.992, 0.135]),
    KernelTimes::of([128, 192], [2, 1], Cooperative, [0.972, 0.192]),
    KernelTimes::of([128, 208], [2, 1], Cooperative, [1.037, 0.001]),
    KernelTimes::of([128, 224], [2, 1], Cooperative, [1.079, -0.076]),
    KernelTimes::of([128, 256], [2, 1], Cooperative, [1.035, 0.145]),
    KernelTimes::of([192, 80], [1, 2], Cooperative, [0.923, 0.157]),
    KernelTimes::of([192, 96], [1, 2], Cooperative, [0.974, -0.004]),
    KernelTimes::of([192, 128], [1, 2], Cooperative, [0.944, 0.240]),
    KernelTimes::of([192, 160], [2, 1], Cooperative, [0.996, 0.187]),
    KernelTimes::of([192, 192], [2, 1], Cooperative, [1.104, -0.006]),
    KernelTimes::of([64, 128], [1, 1], Pingpong, [0.984, -0.217]),
    KernelTimes::of([64, 224], [2, 1], Pingpong, [1.092, -0.250]),
    KernelTimes::of([64, 256], [2, 1], Pingpong, [1.131, -0.315]),
    KernelTimes::of([128, 128], [1, 1], Pingpong, [0.967, -0.301]),
    KernelTimes::of([128, 128], [2, 1], Pingpong, [1.035, 0.020]),
    KernelTimes::of([128, 176], [2, 1], Pingpong, [1.033, 0.023]),
    KernelTimes::of([64, 16], [1, 1], Swapped, [0.842, 0.480]),
    KernelTimes::of([64, 32], [1, 1], Swapped, [0.986, 0.297]),
    KernelTimes::of([64, 32], [4, 1], Swapped, [0.913, 0.314]),
    KernelTimes::of([64, 48], [1, 1], Swapped, [1.010, 0.222]),
    KernelTimes::of([128, 16], [1, 1], Swapped, [0.941, 0.273]),
    KernelTimes::of([64, 16], [1, 1], TwoFit, [1.101, -0.259]),
    KernelTimes::of([64, 32], [1, 1], TwoFit, [1.291, -0.364]),
];
