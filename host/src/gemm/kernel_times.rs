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
pub(super) const H200: [KernelTimes; 55] = [
    KernelTimes::of([128, 256], [2, 1], Cooperative, [1.070, -0.173]),
    KernelTimes::of([128, 128], [1, 1], Cooperative, [1.084, 0.147]),
    KernelTimes::of([128, 128], [1, 1], Pingpong, [0.958, 0.077]),
    KernelTimes::of([64, 128], [1, 1], Cooperative, [1.063, 0.216]),
    KernelTimes::of([128, 192], [2, 1], Cooperative, [0.998, 0.242]),
    KernelTimes::of([64, 64], [1, 1], Cooperative, [1.067, 0.039]),
    KernelTimes::of([128, 176], [2, 1], Cooperative, [1.009, 0.173]),
    KernelTimes::of([128, 112], [2, 1], Cooperative, [1.012, 0.082]),
    KernelTimes::of([128, 112], [1, 2], Cooperative, [1.036, 0.068]),
    KernelTimes::of([128, 64], [2, 1], Cooperative, [1.011, 0.144]),
    KernelTimes::of([128, 64], [1, 4], Cooperative, [0.926, 0.080]),
    KernelTimes::of([128, 80], [1, 4], Cooperative, [0.908, -0.109]),
    KernelTimes::of([64, 96], [1, 4], Cooperative, [1.031, -0.120]),
    KernelTimes::of([64, 128], [2, 1], Cooperative, [1.062, 0.210]),
    KernelTimes::of([64, 64], [2, 2], Cooperative, [1.062, 0.097]),
    KernelTimes::of([128, 208], [2, 1], Cooperative, [1.027, -0.043]),
    KernelTimes::of([128, 160], [2, 1], Cooperative, [1.019, 0.011]),
    KernelTimes::of([192, 128], [1, 2], Cooperative, [1.025, 0.257]),
    KernelTimes::of([192, 80], [1, 2], Cooperative, [1.012, 0.042]),
    KernelTimes::of([64, 96], [4, 1], Cooperative, [0.936, -0.024]),
    KernelTimes::of([64, 64], [1, 4], Cooperative, [0.975, 0.032]),
    KernelTimes::of([128, 176], [2, 1], Pingpong, [1.027, -0.027]),
    KernelTimes::of([64, 128], [1, 1], Pingpong, [1.116, -0.147]),
    KernelTimes::of([128, 160], [4, 2], Cooperative, [0.970, 0.157]),
    KernelTimes::of([128, 144], [4, 1], Cooperative, [0.945, 0.006]),
    KernelTimes::of([128, 128], [4, 2], Cooperative, [0.998, 0.200]),
    KernelTimes::of([128, 112], [4, 2], Cooperative, [0.935, 0.207]),
    KernelTimes::of([64, 192], [4, 1], Pingpong, [1.056, -0.119]),
    KernelTimes::of([64, 160], [4, 1], Cooperative, [0.917, 0.190]),
    KernelTimes::of([64, 144], [1, 4], Cooperative, [1.110, -0.058]),
    KernelTimes::of([64, 112], [2, 4], Cooperative, [0.997, 0.159]),
    KernelTimes::of([64, 96], [4, 2], Cooperative, [1.035, 0.131]),
    KernelTimes::of([64, 80], [4, 2], Cooperative, [0.970, 0.115]),
    KernelTimes::of([64, 80], [2, 2], Cooperative, [1.081, -0.055]),
    KernelTimes::of([64, 16], [1, 1], Swapped, [0.856, 0.509]),
    KernelTimes::of([64, 32], [1, 1], Swapped, [0.965, 0.244]),
    KernelTimes::of([64, 32], [4, 1], Swapped, [0.928, 0.151]),
    KernelTimes::of([64, 48], [4, 1], Swapped, [0.992, 0.146]),
    KernelTimes::of([64, 16], [1, 1], TwoFit, [1.132, -0.428]),
    KernelTimes::of([64, 96], [4, 1], Swapped, [0.932, 0.004]),
    KernelTimes::of([128, 112], [1, 2], Swapped, [1.044, 0.053]),
    KernelTimes::of([128, 144], [2, 1], Swapped, [1.042, -0.013]),
    KernelTimes::of([192, 144], [1, 2], Swapped, [1.009, 0.070]),
    KernelTimes::of([192, 176], [1, 2], Swapped, [1.065, 0.059]),
    KernelTimes::of([128, 160], [2, 1], SwappedPingpong, [1.027, -0.137]),
    KernelTimes::of([128, 176], [2, 1], SwappedPingpong, [0.974, 0.101]),
    KernelTimes::of([192, 96], [1, 2], SwappedPingpong, [1.042, 0.057]),
    KernelTimes::of([128, 144], [4, 1], SwappedPingpong, [1.001, -0.220]),
    KernelTimes::of([64, 192], [4, 1], SwappedPingpong, [1.006, -0.197]),
    KernelTimes::of([128, 160], [2, 4], Swapped, [0.978, 0.039]),
    KernelTimes::of([128, 176], [4, 1], SwappedPingpong, [0.978, -0.259]),
    KernelTimes::of([128, 112], [4, 1], Swapped, [0.987, -0.081]),
    KernelTimes::of([64, 208], [4, 1], SwappedPingpong, [1.074, -0.341]),
    KernelTimes::of([128, 96], [4, 1], Swapped, [0.994, -0.008]),
    KernelTimes::of([192, 176], [2, 1], Swapped, [1.117, 0.073]),
];
