//! What single kernels take more or less than the constants of the predictions say.
//!
//! Two kernels with the same tile differ by what the constants do not know: how ptxas orders their main loop, how many
//! stages hide a slow fetch, how soon the first tile is there. Two numbers a kernel hold that.

use super::calibration::Calibration;
use gpu_kernels::gemm::{Instance, KernelSchedule};
use isa::kernel::Dtype;

/// Kernels for operands of 16 bits that were measured. The network that compares candidates has numbers for each of these rows, by
/// their places: if a row joins, leaves or moves, it has to be trained again (`bench/network/train.py`).
pub(super) const KERNELS: usize = 159;
/// Kernels for 8-bit floats that were measured.
pub(super) const E4M3_KERNELS: usize = 45;

/// Measured times of the kernels with one tile and cluster, relative to the prediction without them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelTimes {
    /// What the next four fields are in one number: a pick looks for the row of each kernel of its table.
    key: u64,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Cooperative,
    Pingpong,
    /// With swap_ab.
    Swapped,
    /// With swap_ab, and two CTAs fit on an SM.
    TwoFit,
    /// Ping-pong with swap_ab.
    SwappedPingpong,
}
pub(super) use Kind::{Cooperative, Pingpong, Swapped, SwappedPingpong, TwoFit};

/// The operands that a kernel multiplies, and how it sums the products of those of 8 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sums {
    /// Operands of 16 bits.
    Whole,
    /// 8-bit floats, whose sums of each k tile are added in f32.
    Promoted,
    /// 8-bit floats, whose sums the tensor cores keep.
    FastAccum,
    /// 8-bit floats with block scales.
    BlockScaled,
}
pub(super) use Sums::{BlockScaled, FastAccum, Promoted, Whole};

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

/// Tile, cluster, kind and sums of a kernel in one number.
const fn key(tile: [u32; 2], cluster: [u32; 2], kind: Kind, sums: Sums) -> u64 {
    let [bm, bn] = tile;
    let [m, n] = cluster;
    (bm as u64) << 48
        | (bn as u64) << 32
        | (m as u64) << 24
        | (n as u64) << 16
        | (kind as u64) << 8
        | sums as u64
}

/// That of an instance; `None` if no kernel for its operands has times of its own.
fn key_of(i: &Instance) -> Option<u64> {
    let kind = match i.kernel_schedule {
        KernelSchedule::Pingpong if i.swap_ab => SwappedPingpong,
        KernelSchedule::Pingpong => Pingpong,
        KernelSchedule::Cooperative
        | KernelSchedule::CooperativeByColumns
        | KernelSchedule::CooperativeTall
        | KernelSchedule::SplitN => match i.swap_ab {
            false => Cooperative,
            true if i.two_fit() => TwoFit,
            true => Swapped,
        },
    };
    Some(key([i.bm, i.bn], [i.cluster_m, i.cluster_n], kind, Sums::of(i)?))
}

/// Slots of a hash table of the rows, in which most keys have one of their own.
const SLOTS: usize = 1024;
/// In each slot the place of a row, plus one, or 0. All calibrations have the same rows at the same places.
static PLACES: [u8; SLOTS] = {
    let Calibration { kernels, e4m3_kernels, .. } = &Calibration::H200;
    with_places(with_places([0; SLOTS], kernels), e4m3_kernels)
};

/// The first slot where the row of a key may be. If another row has it, the next slots follow.
const fn slot(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize
}

const fn with_places(mut places: [u8; SLOTS], rows: &[KernelTimes]) -> [u8; SLOTS] {
    assert!(rows.len() < 256);
    let mut at = 0;
    while at < rows.len() {
        let mut slot = slot(rows[at].key);
        while places[slot] != 0 {
            slot = (slot + 1) % SLOTS;
        }
        at += 1;
        places[slot] = at as u8;
    }
    places
}

impl KernelTimes {
    pub(super) const fn of(
        tile: [u32; 2],
        cluster: [u32; 2],
        kind: Kind,
        [step, fixed_us]: [f64; 2],
    ) -> Self {
        Self::e4m3(tile, cluster, kind, Whole, [step, fixed_us])
    }

    /// Of a kernel for 8-bit floats.
    pub(super) const fn e4m3(
        tile: [u32; 2],
        cluster: [u32; 2],
        kind: Kind,
        sums: Sums,
        [step, fixed_us]: [f64; 2],
    ) -> Self {
        let key = key(tile, cluster, kind, sums);
        Self { key, tile, cluster, kind, sums, step, fixed_us }
    }

    /// Whether these are the times of an instance. They are measured with operands and results of bf16, or with operands of e4m3
    /// and results of bf16.
    #[must_use]
    pub fn are_of(&self, i: &Instance) -> bool {
        key_of(i) == Some(self.key)
    }

    /// The row of a calibration for these times, as source text.
    #[must_use]
    pub fn row(&self) -> String {
        let Self { tile, cluster, kind, sums, step, fixed_us, .. } = self;
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
    /// The row of an instance among the times of kernels for its operands; `None` for a kernel that was not measured.
    #[inline]
    pub(super) fn row_of(&self, instance: &Instance) -> Option<(usize, &KernelTimes)> {
        let key = key_of(instance)?;
        let rows = if instance.ab.size() == 2 { &self.kernels[..] } else { &self.e4m3_kernels };
        let mut slot = slot(key);
        loop {
            let at = usize::from(PLACES[slot].checked_sub(1)?);
            match rows.get(at) {
                Some(row) if row.key == key => return Some((at, row)),
                _ => slot = (slot + 1) % SLOTS,
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel without times looks fast: the picker took such a one for layers, and lost 5 %.
    #[test]
    fn every_kernel_with_an_activation_has_times() {
        for instance in gpu_kernels::gemm::table::all_instances().filter(|i| i.activates) {
            let name = instance.desc.meta.name();
            assert!(Calibration::H200.row_of(instance).is_some(), "{name}");
        }
    }

    /// One table of places serves all calibrations.
    #[test]
    fn calibrations_have_the_same_rows() {
        let keys = |rows: &[KernelTimes]| rows.iter().map(|row| row.key).collect::<Vec<_>>();
        for Calibration { gpu, kernels, e4m3_kernels, .. } in Calibration::ALL {
            assert_eq!(keys(kernels), keys(&Calibration::H200.kernels), "{gpu}");
            assert_eq!(keys(e4m3_kernels), keys(&Calibration::H200.e4m3_kernels), "{gpu}");
        }
    }
}
