//! The kernels of both tables as one list.

use gpu_kernels::attention::Instance;
use gpu_kernels::attention::decode::DecodeInstance;
use gpu_kernels::attention::decode::args::ROWS;
use isa::kernel::{Dtype, KernelDesc};

/// A kernel of [`Attention::instances`](super::Attention::instances), or one of
/// [`Attention::decode_instances`](super::Attention::decode_instances).
#[derive(Clone, Copy)]
pub enum AttentionKernel {
    /// It computes tiles of queries, each with all keys that it sees.
    Tiles(&'static Instance),
    /// It computes few queries, whose keys are split among CTAs.
    Split(&'static DecodeInstance),
}

impl AttentionKernel {
    /// The kernel in the image.
    pub fn desc(&self) -> &'static KernelDesc {
        match self {
            Self::Tiles(instance) => instance.desc,
            Self::Split(instance) => instance.desc,
        }
    }

    /// Its name in the image.
    pub fn name(&self) -> &'static str {
        self.desc().meta.name()
    }

    /// Element type of Q, K, V and O.
    pub fn dtype(&self) -> Dtype {
        match self {
            Self::Tiles(instance) => instance.dtype,
            Self::Split(instance) => instance.dtype,
        }
    }

    /// Rows of a tile, which are queries or the heads of queries that share their keys, keys of a block, and columns of
    /// a head.
    pub fn tile(&self) -> [u32; 3] {
        match self {
            Self::Tiles(i) => [i.bm, i.bn, i.head_dim],
            Self::Split(i) => [ROWS, i.bn, i.head_dim],
        }
    }

    /// Blocks of keys, and of values, that are in shared memory.
    pub fn stages(&self) -> u32 {
        match self {
            Self::Tiles(instance) => instance.stages,
            Self::Split(instance) => instance.stages,
        }
    }

    /// Whether it needs a soft-cap. A decode kernel needs none: [`DecodeInstance::soft_cap`] says whether it takes one.
    pub fn soft_cap(&self) -> bool {
        matches!(self, Self::Tiles(instance) if instance.soft_cap)
    }
}
