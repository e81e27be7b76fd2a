//! The plan of a decode kernel: its lists and its workspace on the device, and its arguments.

use super::error::AttentionError;
use super::operand::Bound;
use super::plan::AttentionPlan;
use super::problem::AttentionProblem;
use super::split::{RowShape, SplitList};
use super::strides::Operand;
use crate::buffer::Buffer;
use crate::device::{Backend, Device};
use crate::driver;
use crate::error::Error;
use crate::stream::Stream;
use crate::tensor::{TensorBox, TensorMap};
use crate::tensor_nd::TensorNd;
use crate::turns::Turns;
use gpu_kernels::attention::args::UNBOUNDED;
use gpu_kernels::attention::decode::args::ENTRY_QUADS;
use gpu_kernels::attention::decode::{DecodeArgs, DecodeInstance};
use isa::cp_async_bulk::TensorMapBytes;
use isa::kernel::KernelArg;
use isa::slice::SliceAbi;
use pipeline::grid::{ConstantSlice, DependentSlice, DependentSliceMut, SplitTiles};
use std::sync::Arc;

/// What a plan of a decode kernel has on the device.
pub(super) struct SplitPlan {
    pub instance: &'static DecodeInstance,
    /// The CTAs' lists, with room for those of any lengths.
    words: Buffer,
    /// The parts of tiles.
    workspace: Buffer,
    ctas: u32,
    /// Whose turn it is to use the workspace.
    pub turns: Turns,
}

impl SplitPlan {
    /// Splits the keys among at most `ctas` CTAs.
    pub fn new(
        device: &Device,
        problem: &AttentionProblem,
        instance: &'static DecodeInstance,
        ctas: u32,
    ) -> Result<(Self, SplitList), Error> {
        let list = SplitList::new(problem, instance.bn, ctas);
        let words = padded(&list, SplitList::most_entries(problem, ctas));
        let workspace = SplitTiles::bytes(SplitList::slots(ctas).into(), instance.head_dim.into());
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        // A plan may be made during a capture.
        let words = Buffer::constant(device, &bytes)?;
        let workspace = Buffer::constant(device, &vec![0; workspace as usize])?;
        Ok((Self { instance, words, workspace, ctas, turns: Turns::default() }, list))
    }

    /// Bytes of the lists, and of the workspace.
    pub fn bytes(&self) -> [u64; 2] {
        [&self.words, &self.workspace].map(|buffer| buffer.len() as u64)
    }

    /// Whether the kernel takes a score from the launch: a parameter behind [`DecodeArgs`].
    pub fn takes_score(&self) -> bool {
        self.instance.desc.meta.params().len() > 4
    }

    /// The tensor maps of Q, K and V.
    pub fn maps(
        &self,
        device: &Device,
        problem: &AttentionProblem,
        [q, k, v]: [&Bound<'_>; 3],
    ) -> Result<[TensorMap; 3], Error> {
        Ok([
            self.map_q(device, problem, q)?,
            self.map_keys(device, problem, 1, k)?,
            self.map_keys(device, problem, 2, v)?,
        ])
    }

    /// Dimensions (column, head of those that share keys, query, head of the keys, sequence).
    fn map_q(
        &self,
        device: &Device,
        problem: &AttentionProblem,
        bound: &Bound<'_>,
    ) -> Result<TensorMap, Error> {
        let param = &self.instance.desc.meta.params[0];
        let (heads, strides) = (problem.heads, problem.strides(Operand::Q));
        let [batch, _, rows, dim] = problem.sizes(Operand::Q);
        let readers = u64::from(heads.q / heads.kv);
        let size = problem.dtype.size() as u64;
        // The stride of a dimension of size 1 is never used, but TMA's rules hold for it.
        let step = |count: u64, stride: u64| if count > 1 { stride * size } else { dim * size };
        let shape = RowShape::of(readers as u32);
        let part = bound.part()?;
        let spec = TensorNd {
            buffer: &part,
            dtype: problem.dtype,
            dims: &[dim, readers, rows, heads.kv.into(), batch],
            strides: &[
                step(readers, strides.head),
                step(rows, strides.seq),
                step(heads.kv.into(), readers * strides.head),
                step(batch, strides.batch),
            ],
            box_dims: &[param.box_cols, shape.heads(), shape.queries(), 1, 1],
            swizzle_bytes: param.swizzle_bytes,
        };
        let bytes = *device.tensor_map_nd(&spec)?.bytes();
        let memory = Arc::clone(&part.memory);
        Ok(TensorMap::new(bytes, Some(problem.dtype), TensorBox::of(param), 5, memory))
    }

    /// Dimensions (column, row of a page, head, end of a page, wrap).
    fn map_keys(
        &self,
        device: &Device,
        problem: &AttentionProblem,
        parameter: usize,
        bound: &Bound<'_>,
    ) -> Result<TensorMap, Error> {
        let param = &self.instance.desc.meta.params[parameter];
        let strides = problem.strides(bound.operand);
        let [batch, heads, rows, dim] = problem.sizes(bound.operand);
        let size = problem.dtype.size() as u64;
        let row = match (rows, batch) {
            (1, 1) => dim * size,
            (1, _) => strides.batch * size,
            _ => strides.seq * size,
        };
        let ends = (batch - 1) * u64::from(problem.page_step(bound.operand)?) + rows;
        let part = bound.part()?;
        let spec = TensorNd {
            buffer: &part,
            dtype: problem.dtype,
            dims: &[dim, ends, heads],
            strides: &[row, if heads > 1 { strides.head * size } else { dim * size }],
            box_dims: &[param.box_cols, param.box_rows, 1],
            swizzle_bytes: param.swizzle_bytes,
        };
        let bytes = TensorMapBytes(device.tensor_map_ragged(&spec, None)?);
        let memory = Arc::clone(&part.memory);
        Ok(TensorMap::new(bytes, Some(problem.dtype), TensorBox::of(param), 5, memory))
    }

    /// The kernel's argument.
    pub fn args<'a>(
        &'a self,
        problem: &AttentionProblem,
        o: &'a Bound<'_>,
        lse: Option<&'a Bound<'_>>,
        block_table: Option<&'a Bound<'_>>,
    ) -> Result<DecodeArgs<'a>, Error> {
        let heads = problem.heads;
        let readers = heads.q / heads.kv;
        let none = SliceAbi { address: 0, elements: 0 };
        let slice = |bound: Option<&Bound<'_>>| bound.map_or(none, |bound| bound.slice(4));
        // SAFETY: the plan owns the lists, which only a copy writes, in the order of the streams, and the workspace; its
        // turns order what uses them. O's, LSE's and the
        // block table's memory is kept alive by the bound plan, was checked to be large enough and aligned, and that of
        // O and LSE overlaps no other operand; the views that they came from borrowed them mutably.
        let (work, block_table, o, lse, tiles) = unsafe {
            (
                ConstantSlice::new(self.words.elements::<[u32; 4]>()),
                DependentSlice::<u32>::new(slice(block_table)),
                DependentSliceMut::<u32>::new(o.slice(4)),
                DependentSliceMut::<f32>::new(slice(lse)),
                SplitTiles::from_abi(self.workspace.elements::<[f32; 4]>()),
            )
        };
        let pairs = problem.strides(Operand::O);
        let bound = |keys: Option<u32>| keys.map_or(UNBOUNDED, |keys| keys.min(UNBOUNDED));
        let sequences = &problem.sequences;
        let [seq_q, page_rows] = sequences.rows();
        Ok(DecodeArgs {
            work,
            block_table,
            o,
            lse,
            tiles,
            o_strides: [pairs.batch / 2, pairs.head / 2, pairs.seq / 2],
            sequence_pages: sequences.sequence_pages(),
            pages: sequences.batches()[1],
            page_rows,
            k_page: problem.page_step(Operand::K)?,
            v_page: problem.page_step(Operand::V)?,
            seq_q,
            heads: heads.q,
            readers,
            row_heads: RowShape::of(readers).row_heads,
            head_dim: heads.dim,
            left: bound(problem.mask.left),
            right: bound(problem.mask.right),
            scale: problem.scale(),
            scale_log2: problem.scale() * std::f32::consts::LOG2_E,
            cap: problem.softcap.unwrap_or(0.0),
        })
    }

    /// Replaces the lists by those for other lengths, in the order of `stream`.
    fn rewrite(&self, device: &Device, list: &SplitList, stream: &Stream) -> Result<(), Error> {
        let bytes: Vec<u8> = list.words().iter().flat_map(|word| word.to_ne_bytes()).collect();
        match &device.backend {
            Backend::Cuda(context) => {
                let _bound = context.bind()?;
                let from = bytes.as_ptr().cast();
                // SAFETY: the lists of any lengths fit in the buffer. The driver has read pageable memory when the
                // call returns.
                unsafe {
                    driver::cuMemcpyHtoDAsync(self.words.addr(), from, bytes.len(), stream.cu())
                }
            }
            Backend::Sim(model) => {
                stream.synchronize()?;
                model.write(self.words.addr(), &bytes)
            }
        }
    }
}

/// The words of a list, with zeros for the entries that other lengths may need.
fn padded(list: &SplitList, entries: u64) -> Vec<u32> {
    let mut words = list.words();
    words.resize(4 * ENTRY_QUADS as usize * entries as usize, 0);
    words
}

impl AttentionPlan {
    /// Gives the sequences of a cache other lengths, for all runs that are queued on `stream` from now on, those of a
    /// graph among them. Nothing is allocated, and the plan's description stays that of the first lengths.
    ///
    /// The bits of a result depend on the lengths alone, not on those before.
    ///
    /// # Errors
    /// [`AttentionError`] for a plan without a cache, another number of sequences, and lengths beyond the cache's
    /// capacity; [`AttentionError::KeysInCapture`] if `stream` is being captured.
    pub fn set_keys(&self, keys: &[u32], stream: &Stream) -> Result<(), Error> {
        use super::sequences::Sequences;
        self.device.owns(|| "the stream of attention".into(), stream.backend())?;
        let mut problem = self.problem.clone();
        let want = problem.sequences.batch();
        match &mut problem.sequences {
            Sequences::Equal { .. } => {
                return Err(AttentionError::NoCache { sequences: "equal" }.into());
            }
            Sequences::Packed { .. } => {
                return Err(AttentionError::NoCache { sequences: "packed" }.into());
            }
            Sequences::Cache { keys: own, .. } | Sequences::Paged { keys: own, .. } => {
                if keys.len() != want as usize {
                    return Err(AttentionError::KeyCount { have: keys.len(), want }.into());
                }
                own.copy_from_slice(keys);
            }
        }
        problem.sequences.check_keys(keys)?;
        if stream.capture_id()?.is_some() {
            return Err(AttentionError::KeysInCapture.into());
        }
        let Some(split) = self.split() else { return Ok(()) };
        let list = SplitList::new(&problem, split.instance.bn, split.ctas);
        let turn = split.turns.begin(stream)?;
        split.rewrite(&self.device, &list, stream)?;
        turn.end()
    }
}
