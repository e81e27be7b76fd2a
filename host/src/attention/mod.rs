//! Attention forward, `O = softmax(mask(cap(scale * Q K^T))) V`: planned once, run many times.
//!
//! [`AttentionProblem`] states sizes, mask and layouts. [`Attention::plan`] picks the kernel and deals the tiles of
//! queries out to the CTAs of a persistent grid ([`WorkList`]). [`AttentionPlan::bind`] checks the operands, which are
//! used where they lie. With the feature `reference`, [`reference::Attention`](crate::reference::Attention) computes
//! the same in f64.

mod area;
mod error;
mod kernel;
mod mask;
mod operand;
mod pick;
mod plan;
mod problem;
mod row;
mod run;
mod sequences;
mod split;
mod split_plan;
mod strides;
mod work;

pub use error::AttentionError;
pub use kernel::AttentionKernel;
pub use mask::Mask;
pub use plan::{AttentionInfo, AttentionPlan};
pub use problem::{AttentionProblem, Heads, MAX_HEAD_DIM};
pub use run::BoundAttention;
pub use sequences::Sequences;
pub use strides::{Operand, Strides};
pub use work::{TileShape, WorkList};

use crate::device::Device;
use crate::error::Error;
use crate::launch::Module;
use gpu_kernels::attention::decode::args::ROWS;
use gpu_kernels::attention::decode::{DECODE_INSTANCES, DecodeArgs, DecodeInstance};
use gpu_kernels::attention::{AttentionArgs, INSTANCES, Instance, Packed, SoftCap};
use isa::kernel::{Image, KernelArg, ParamKind, ParamMeta};

/// The attention kernels of an image, loaded on a device.
pub struct Attention {
    device: Device,
    module: Module,
    instances: &'static [Instance],
    decode: &'static [DecodeInstance],
}

impl Attention {
    /// Loads the attention kernels of `gpu_kernels` from their image.
    ///
    /// # Errors
    /// The errors of [`Attention::with_instances`].
    pub fn new(device: &Device, image: &'static Image) -> Result<Self, Error> {
        Self::with_tables(device, image, INSTANCES, DECODE_INSTANCES)
    }

    /// Loads the kernels of a table of your own. Without decode kernels, few queries run in kernels of tiles, and caches are
    /// refused. [`Instance`] says what a kernel of a table must do.
    ///
    /// # Errors
    /// An error of [`Device::load`]; a row of the table that contradicts its kernel; a kernel that the image does not
    /// have.
    pub fn with_instances(
        device: &Device,
        image: &'static Image,
        instances: &'static [Instance],
    ) -> Result<Self, Error> {
        Self::with_tables(device, image, instances, &[])
    }

    /// [`Attention::with_instances`] with kernels for few queries, too.
    ///
    /// # Errors
    /// Those of [`Attention::with_instances`].
    pub fn with_tables(
        device: &Device,
        image: &'static Image,
        instances: &'static [Instance],
        decode: &'static [DecodeInstance],
    ) -> Result<Self, Error> {
        for instance in instances {
            check_instance(instance)?;
        }
        for instance in decode {
            check_decode(instance)?;
        }
        let module = device.load(image)?;
        let attention = Self { device: device.clone(), module, instances, decode };
        for kernel in attention.kernels() {
            attention.module.check(kernel.desc())?;
        }
        Ok(attention)
    }

    /// The module that holds the kernels.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The instance table.
    pub fn instances(&self) -> &'static [Instance] {
        self.instances
    }

    /// The table of kernels for few queries.
    pub fn decode_instances(&self) -> &'static [DecodeInstance] {
        self.decode
    }

    /// All kernels, in the order of [`AttentionInfo::index`]: those of [`Attention::instances`], then those of
    /// [`Attention::decode_instances`].
    pub fn kernels(&self) -> impl Iterator<Item = AttentionKernel> + use<> {
        let tiles = self.instances.iter().map(AttentionKernel::Tiles);
        tiles.chain(self.decode.iter().map(AttentionKernel::Split))
    }

    /// Plans attention with a kernel for the smallest head dim that holds the problem's. A decode kernel, which splits the keys
    /// among CTAs, computes every cache, and sequences of equal lengths if at most 64 query rows share a KV head.
    ///
    /// The calling thread may be in a capture. Nothing waits for the device's work.
    ///
    /// # Errors
    /// [`AttentionError`] for a problem that can't be computed; errors of the assembler and of an allocation.
    pub fn plan(&self, problem: &AttentionProblem) -> Result<AttentionPlan, Error> {
        AttentionPlan::new(self, problem, None)
    }

    /// Plans attention with kernel `index` of [`Attention::kernels`].
    ///
    /// # Errors
    /// The errors of [`Attention::plan`]; [`AttentionError::WrongInstance`].
    pub fn plan_with(
        &self,
        problem: &AttentionProblem,
        index: usize,
    ) -> Result<AttentionPlan, Error> {
        AttentionPlan::new(self, problem, Some(index))
    }
}

/// Checks that a row of the table agrees with its kernel.
fn check_instance(instance: &Instance) -> Result<(), AttentionError> {
    let meta = &instance.desc.meta;
    let bad = |what| Err(AttentionError::BadInstance { kernel: meta.name().into(), what });
    let Instance { bm, bn, head_dim, .. } = *instance;
    if [bm, bn, head_dim].contains(&0) {
        return bad(format!("tile {bm}x{bn}x{head_dim}: no size may be 0"));
    }
    let params = meta.params();
    let maps = params.iter().take_while(|p| p.kind == ParamKind::TensorMap as u32).count();
    if maps != 4 || params.get(4) != Some(&<AttentionArgs<'_> as KernelArg>::META) {
        return bad(format!(
            "{maps} tensor maps in front; expected 4, those of Q, K, V and O, and then AttentionArgs"
        ));
    }
    if instance.packed != (params.get(5) == Some(&<Packed<'_> as KernelArg>::META)) {
        let (says, has) = if instance.packed { ("", "no ") } else { ("no ", "") };
        return bad(format!(
            "the table says {says}packed sequences; behind AttentionArgs there is {has}Packed"
        ));
    }
    let ranks = if instance.packed { [5, 5, 5, 4] } else { [4; 4] };
    let other = |(p, rank): &(&ParamMeta, u32)| (p.dtype, p.rank) != (instance.dtype as u32, *rank);
    if let Some((map, rank)) = params.iter().zip(ranks).find(other) {
        let (dtype, have) = (instance.dtype.name(), crate::param::describe(map));
        return bad(format!(
            "the table says tensor maps of {dtype} and rank {rank}; the kernel has {have}"
        ));
    }
    // A work list of other tiles would be wrong without an error.
    let [queries, keys] = [0, 1].map(|map: usize| params[map].box_rows);
    if queries != bm {
        return bad(format!("the table says tiles of {bm} queries; the kernel has {queries}"));
    }
    if keys != bn {
        return bad(format!("the table says blocks of {bn} keys; the kernel has {keys}"));
    }
    let capped =
        params.get(5 + usize::from(instance.packed)) == Some(&<SoftCap as KernelArg>::META);
    if instance.soft_cap && !capped {
        return bad("the table says a soft cap; the kernel takes no SoftCap".into());
    }
    // A kernel for fewer columns would leave those behind them unwritten.
    let tiles = u64::from(bm) + 2 * u64::from(instance.stages) * u64::from(bn);
    let (need, have) =
        (tiles * u64::from(head_dim) * instance.dtype.size() as u64, meta.smem_bytes);
    if need > have.into() {
        let stages = instance.stages;
        return bad(format!(
            "{bm} queries and {stages} blocks of {bn} keys and values with {head_dim} columns take {need} bytes of shared \
             memory; the kernel has {have}"
        ));
    }
    Ok(())
}

/// Bytes. The barriers of a decode kernel take less, with the alignment of its shared memory.
const BARRIERS: u64 = 4096;

/// Checks that a row of the table of decode kernels agrees with its kernel.
fn check_decode(instance: &DecodeInstance) -> Result<(), AttentionError> {
    let meta = &instance.desc.meta;
    let bad = |what| Err(AttentionError::BadInstance { kernel: meta.name().into(), what });
    let params = meta.params();
    let maps: Vec<_> = params
        .iter()
        .map_while(|p| (p.kind == ParamKind::TensorMap as u32).then_some((p.dtype, p.rank)))
        .collect();
    let dtype = instance.dtype as u32;
    if maps != [(dtype, 5); 3] || params.get(3) != Some(&<DecodeArgs<'_> as KernelArg>::META) {
        let dtype = instance.dtype.name();
        return bad(format!(
            "{} tensor maps in front; expected those of Q, K and V, of rank 5 and {dtype}, and then DecodeArgs",
            maps.len()
        ));
    }
    let DecodeInstance { bn, head_dim, stages, .. } = *instance;
    let keys = params[1].box_rows;
    if keys != bn {
        return bad(format!("the table says blocks of {bn} keys; the kernel has {keys}"));
    }
    if [head_dim, stages].contains(&0) {
        return bad(format!("head dim {head_dim}, {stages} stages: neither may be 0"));
    }
    if instance.soft_cap && params.len() > 4 {
        return bad("the table says a soft cap; a kernel that takes a score ignores it".into());
    }
    let tiles = u64::from(ROWS) + 2 * u64::from(stages) * u64::from(bn);
    let (need, have) =
        (tiles * u64::from(head_dim) * instance.dtype.size() as u64, u64::from(meta.smem_bytes));
    // Beside the tiles there are barriers alone. More room means other tiles than the row says.
    if need > have || have - need >= BARRIERS {
        return bad(format!(
            "{ROWS} rows and {stages} blocks of {bn} keys and values with {head_dim} columns take {need} bytes of shared \
             memory; the kernel has {have}"
        ));
    }
    Ok(())
}
