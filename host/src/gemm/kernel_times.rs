//! What single kernels take more or less than the constants of the predictions say.
//!
//! Two kernels with the same tile differ by what the constants do not know: how ptxas orders their main loop, how many
//! stages hide a slow fetch, how soon the first tile is there. Two numbers a kernel hold that.

use super::calibration::Calibration;
use gpu_kernels::gemm::{Instance, KernelSchedule};
use isa::kernel::Dtype;

/// Measured times of the kernels with one tile and cluster, relative to the prediction without them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelTimes {
    tile: [u32; 2],
    cluster: [u32; 2],
    kind: Kind,
    sums: Sums,
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

/// The operands that a kernel multiplies, and how it sums the products of those of 8 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sums {
    /// Operands of 16 bits.
    Whole,
    /// 8-bit floats, whose sums of each k tile are added in f32.
    Promoted,
    /// 8-bit floats, whose sums the tensor cores keep.
    FastAccum,
    /// 8-bit floats with block scales.
    BlockScaled,
}
use Sums::{BlockScaled, FastAccum, Promoted, Whole};

impl Sums {
    /// `None` for other operands: those of 32 bits, and integers.
    fn of(i: &Instance) -> Option<Self> {
        match i.ab {
            Dtype::E4m3 | Dtype::E5m2 => Some(match (i.promotes, i.scale_granularity) {
                (false, _) => FastAccum,
                (true, None) => Promoted,
                (true, Some(_)) => BlockScaled,
            }),
            ab => (ab.size() == 2).then_some(Whole),
        }
    }
}

impl KernelTimes {
    const fn of(tile: [u32; 2], cluster: [u32; 2], kind: Kind, [step, fixed_us]: [f64; 2]) -> Self {
        Self { tile, cluster, kind, sums: Whole, step, fixed_us }
    }

    /// Of a kernel for 8-bit floats.
    const fn e4m3(
        tile: [u32; 2],
        cluster: [u32; 2],
        kind: Kind,
        sums: Sums,
        [step, fixed_us]: [f64; 2],
    ) -> Self {
        Self { tile, cluster, kind, sums, step, fixed_us }
    }

    /// Whether these are the times of an instance. They are measured with operands and results of bf16, or with operands of e4m3
    /// and results of bf16.
    #[must_use]
    pub fn are_of(&self, i: &Instance) -> bool {
        // First what tells most kernels apart: a pick asks this thousands of times.
        if self.tile != [i.bm, i.bn] || self.cluster != [i.cluster_m, i.cluster_n] {
            return false;
        }
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
        self.kind == kind && Sums::of(i) == Some(self.sums)
    }

    /// The row of the table of an H200 for these times, as source text.
    #[must_use]
    pub fn row(&self) -> String {
        let Self { tile, cluster, kind, sums, step, fixed_us } = self;
        let (of, sums) = match sums {
            Whole => ("of", String::new()),
            sums => ("e4m3", format!(" {sums:?},")),
        };
        format!(
            "KernelTimes::{of}({tile:?}, {cluster:?}, {kind:?},{sums} [{step:.3}, {fixed_us:.3}]),"
        )
    }
}

impl Calibration {
    /// Factor of the time of a k tile, and time beside the tiles. A kernel that was not measured has the factor 1.
    pub(super) fn of_kernel(&self, instance: &Instance) -> (f64, f64) {
        let mut all = self.kernels.iter().chain(&self.e4m3_kernels);
        let times = all.find(|times| times.are_of(instance));
        times.map_or((1.0, 0.0), |times| (times.step, times.fixed_us))
    }

    /// Factors of the time in the tensor cores, and of the time at the power limit, for the operands of an instance.
    pub(super) fn of_operands(&self, instance: &Instance) -> (f64, f64) {
        let mma = match Sums::of(instance) {
            None | Some(Whole) => return (1.0, 1.0),
            Some(FastAccum) => self.e4m3_mma,
            Some(Promoted) => self.e4m3_mma * self.e4m3_promoted,
            Some(BlockScaled) => self.e4m3_mma * self.e4m3_block_scaled,
        };
        (mma, self.e4m3_power)
    }
}

/// One NVIDIA H200, kernels for operands of 16 bits.
pub(super) const H200: [KernelTimes; 72] = [
    KernelTimes::of([128, 256], [2, 1], Cooperative, [1.124, -0.034]),
    KernelTimes::of([128, 128], [1, 1], Cooperative, [1.084, 0.141]),
    KernelTimes::of([128, 128], [1, 1], Pingpong, [0.914, 0.276]),
    KernelTimes::of([64, 128], [1, 1], Cooperative, [1.059, 0.114]),
    KernelTimes::of([128, 192], [2, 1], Cooperative, [1.041, 0.146]),
    KernelTimes::of([64, 64], [1, 1], Cooperative, [0.970, 0.073]),
    KernelTimes::of([128, 176], [2, 1], Cooperative, [0.992, 0.138]),
    KernelTimes::of([128, 112], [2, 1], Cooperative, [1.001, 0.018]),
    KernelTimes::of([128, 112], [1, 2], Cooperative, [1.034, 0.008]),
    KernelTimes::of([128, 64], [2, 1], Cooperative, [0.971, 0.238]),
    KernelTimes::of([128, 64], [1, 4], Cooperative, [0.905, -0.050]),
    KernelTimes::of([128, 80], [1, 4], Cooperative, [0.897, -0.234]),
    KernelTimes::of([64, 96], [1, 4], Cooperative, [1.040, -0.185]),
    KernelTimes::of([64, 128], [2, 1], Cooperative, [1.004, 0.218]),
    KernelTimes::of([64, 64], [2, 2], Cooperative, [1.034, 0.078]),
    KernelTimes::of([128, 208], [2, 1], Cooperative, [1.013, 0.043]),
    KernelTimes::of([128, 160], [2, 1], Cooperative, [1.015, -0.045]),
    KernelTimes::of([192, 128], [1, 2], Cooperative, [1.025, 0.182]),
    KernelTimes::of([192, 80], [1, 2], Cooperative, [0.993, -0.032]),
    KernelTimes::of([64, 96], [4, 1], Cooperative, [0.916, -0.053]),
    KernelTimes::of([64, 64], [1, 4], Cooperative, [0.955, 0.007]),
    KernelTimes::of([128, 176], [2, 1], Pingpong, [0.977, 0.276]),
    KernelTimes::of([64, 128], [1, 1], Pingpong, [1.178, -0.411]),
    KernelTimes::of([128, 160], [4, 2], Cooperative, [1.034, -0.022]),
    KernelTimes::of([128, 144], [4, 1], Cooperative, [0.948, -0.046]),
    KernelTimes::of([128, 128], [4, 2], Cooperative, [0.993, 0.120]),
    KernelTimes::of([128, 112], [4, 2], Cooperative, [0.945, 0.117]),
    KernelTimes::of([64, 192], [4, 1], Pingpong, [1.043, -0.219]),
    KernelTimes::of([64, 160], [4, 1], Cooperative, [0.932, 0.002]),
    KernelTimes::of([64, 144], [1, 4], Cooperative, [1.130, -0.153]),
    KernelTimes::of([64, 112], [2, 4], Cooperative, [0.949, 0.105]),
    KernelTimes::of([64, 96], [4, 2], Cooperative, [0.988, 0.037]),
    KernelTimes::of([64, 80], [4, 2], Cooperative, [0.927, 0.045]),
    KernelTimes::of([64, 16], [1, 1], Swapped, [0.975, 0.240]),
    KernelTimes::of([64, 32], [1, 1], Swapped, [1.021, 0.141]),
    KernelTimes::of([64, 32], [4, 1], Swapped, [0.938, 0.085]),
    KernelTimes::of([64, 48], [4, 1], Swapped, [0.975, 0.107]),
    KernelTimes::of([64, 16], [1, 1], TwoFit, [1.041, -0.447]),
    KernelTimes::of([64, 96], [4, 1], Swapped, [0.916, 0.022]),
    KernelTimes::of([128, 144], [2, 1], Swapped, [1.043, 0.033]),
    KernelTimes::of([192, 144], [1, 2], Swapped, [0.990, 0.065]),
    KernelTimes::of([192, 176], [1, 2], Swapped, [1.076, 0.051]),
    KernelTimes::of([128, 160], [2, 1], SwappedPingpong, [1.040, 0.022]),
    KernelTimes::of([128, 176], [2, 1], SwappedPingpong, [0.997, 0.255]),
    KernelTimes::of([192, 96], [1, 2], SwappedPingpong, [1.045, 0.095]),
    KernelTimes::of([128, 144], [4, 1], SwappedPingpong, [1.001, -0.183]),
    KernelTimes::of([64, 192], [4, 1], SwappedPingpong, [1.058, -0.298]),
    KernelTimes::of([128, 160], [2, 4], Swapped, [0.973, 0.070]),
    KernelTimes::of([128, 176], [4, 1], SwappedPingpong, [1.023, -0.317]),
    KernelTimes::of([128, 112], [4, 1], Swapped, [0.981, -0.187]),
    KernelTimes::of([64, 208], [4, 1], SwappedPingpong, [1.098, -0.284]),
    KernelTimes::of([128, 96], [4, 1], Swapped, [1.001, -0.047]),
    KernelTimes::of([128, 96], [1, 2], Cooperative, [1.041, -0.026]),
    KernelTimes::of([128, 144], [4, 2], Cooperative, [0.985, -0.027]),
    KernelTimes::of([128, 176], [4, 2], Cooperative, [1.072, -0.000]),
    KernelTimes::of([64, 112], [4, 2], Cooperative, [0.975, 0.094]),
    KernelTimes::of([192, 112], [1, 2], Cooperative, [0.994, -0.047]),
    KernelTimes::of([128, 16], [2, 1], Swapped, [0.925, 0.211]),
    KernelTimes::of([192, 32], [2, 1], Swapped, [1.047, 0.082]),
    KernelTimes::of([64, 16], [4, 1], Swapped, [0.970, 0.315]),
    KernelTimes::of([128, 224], [2, 1], Swapped, [0.995, 0.064]),
    KernelTimes::of([128, 208], [2, 1], Swapped, [1.037, -0.051]),
    KernelTimes::of([128, 240], [2, 1], Swapped, [1.038, 0.087]),
    KernelTimes::of([128, 144], [4, 2], Swapped, [1.045, 0.007]),
    KernelTimes::of([128, 176], [4, 2], Swapped, [1.016, 0.026]),
    KernelTimes::of([128, 176], [1, 2], Swapped, [1.065, 0.040]),
    KernelTimes::of([64, 80], [4, 2], Swapped, [0.979, 0.003]),
    KernelTimes::of([64, 96], [4, 2], Swapped, [0.962, 0.081]),
    KernelTimes::of([64, 144], [4, 1], Swapped, [0.915, -0.005]),
    KernelTimes::of([64, 160], [4, 1], Swapped, [0.943, -0.028]),
    KernelTimes::of([64, 176], [2, 1], SwappedPingpong, [1.199, -0.241]),
    KernelTimes::of([192, 160], [2, 1], Swapped, [1.021, -0.014]),
];

/// One NVIDIA H200, kernels for 8-bit floats.
pub(super) const H200_E4M3: [KernelTimes; 29] = [
    KernelTimes::e4m3([128, 256], [2, 1], Cooperative, Promoted, [0.921, -0.012]),
    KernelTimes::e4m3([128, 128], [1, 1], Cooperative, Promoted, [1.018, 0.013]),
    KernelTimes::e4m3([64, 64], [1, 1], Swapped, Promoted, [1.076, 0.073]),
    KernelTimes::e4m3([64, 16], [1, 1], Swapped, Promoted, [1.052, 0.249]),
    KernelTimes::e4m3([64, 32], [1, 1], Swapped, Promoted, [1.134, 0.171]),
    KernelTimes::e4m3([128, 64], [1, 2], Cooperative, Promoted, [1.116, 0.019]),
    KernelTimes::e4m3([128, 64], [2, 1], Cooperative, Promoted, [1.130, -0.024]),
    KernelTimes::e4m3([128, 128], [2, 1], Cooperative, Promoted, [0.965, 0.064]),
    KernelTimes::e4m3([128, 192], [2, 1], Cooperative, Promoted, [0.929, -0.005]),
    KernelTimes::e4m3([128, 112], [2, 1], Cooperative, Promoted, [1.044, -0.043]),
    KernelTimes::e4m3([64, 112], [2, 1], Cooperative, Promoted, [1.144, 0.183]),
    KernelTimes::e4m3([64, 16], [1, 1], TwoFit, Promoted, [1.202, -0.384]),
    KernelTimes::e4m3([128, 256], [2, 1], Cooperative, FastAccum, [0.918, 0.137]),
    KernelTimes::e4m3([128, 128], [1, 1], Cooperative, FastAccum, [1.031, -0.001]),
    KernelTimes::e4m3([64, 64], [1, 1], Swapped, FastAccum, [0.984, 0.003]),
    KernelTimes::e4m3([64, 16], [1, 1], Swapped, FastAccum, [0.932, 0.233]),
    KernelTimes::e4m3([64, 32], [1, 1], Swapped, FastAccum, [1.058, 0.148]),
    KernelTimes::e4m3([128, 64], [1, 2], Cooperative, FastAccum, [1.105, -0.009]),
    KernelTimes::e4m3([128, 64], [2, 1], Cooperative, FastAccum, [1.077, -0.041]),
    KernelTimes::e4m3([128, 128], [2, 1], Cooperative, FastAccum, [0.994, 0.061]),
    KernelTimes::e4m3([128, 176], [2, 1], Cooperative, FastAccum, [0.941, 0.037]),
    KernelTimes::e4m3([128, 224], [2, 1], Cooperative, FastAccum, [0.975, -0.070]),
    KernelTimes::e4m3([128, 112], [2, 1], Cooperative, FastAccum, [0.980, -0.019]),
    KernelTimes::e4m3([64, 112], [2, 1], Cooperative, FastAccum, [1.001, -0.023]),
    KernelTimes::e4m3([64, 16], [1, 1], TwoFit, FastAccum, [1.044, -0.374]),
    KernelTimes::e4m3([128, 256], [2, 1], Cooperative, BlockScaled, [0.930, 0.038]),
    KernelTimes::e4m3([128, 128], [1, 1], Cooperative, BlockScaled, [1.140, -0.056]),
    KernelTimes::e4m3([64, 128], [1, 1], Cooperative, BlockScaled, [1.214, 0.220]),
    KernelTimes::e4m3([128, 128], [2, 1], Cooperative, BlockScaled, [1.117, 0.004]),
];
