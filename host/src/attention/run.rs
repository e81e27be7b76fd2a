//! A plan bound to its operands.

use super::error::AttentionError;
use super::operand::{Bound, check_apart};
use super::plan::{AttentionPlan, Lists, TilesPlan};
use super::sequences::Sequences;
use super::strides::Operand;
use crate::error::Error;
use crate::param::Param;
use crate::stream::Stream;
use crate::tensor::{TensorBox, TensorMap};
use crate::tensor_nd::TensorNd;
use crate::turns::Turn;
use crate::view::{View, ViewMut};
use gpu_kernels::attention::args::UNBOUNDED;
use gpu_kernels::attention::{AttentionArgs, Packed, SoftCap};
use isa::cp_async_bulk::TensorMapBytes;
use isa::kernel::{ByValue, KernelArg};
use isa::slice::SliceAbi;
use pipeline::grid::{ConstantSlice, DependentSliceMut, SplitTiles};
use std::sync::Arc;

/// A plan with its operands. The tensor maps are encoded once, for any number of runs. Threads may share it.
pub struct BoundAttention<'p> {
    plan: &'p AttentionPlan,
    /// Q, K, V and O.
    tensors: [Bound<'p>; 4],
    /// Those of the kernel's parameters.
    maps: Vec<TensorMap>,
    lse: Option<Bound<'p>>,
    block_table: Option<Bound<'p>>,
}

impl AttentionPlan {
    /// Queues attention on the device's stream. [`Buffer::read`](crate::Buffer::read) waits for it.
    ///
    /// # Errors
    /// The errors of [`AttentionPlan::bind`], and of the launch.
    pub fn run<'v>(
        &'v self,
        q: impl Into<View<'v>>,
        k: impl Into<View<'v>>,
        v: impl Into<View<'v>>,
        o: impl Into<ViewMut<'v>>,
        lse: Option<ViewMut<'v>>,
    ) -> Result<(), Error> {
        self.bind(q, k, v, o, lse)?.run(&self.device.stream())
    }

    /// Checks the operands and encodes their tensor maps, once for any number of runs.
    ///
    /// An operand is a `&Buffer` (`&mut` for O and LSE) or a [`View`] that begins somewhere in one; the strides are
    /// those of the problem. All are used in place. Of the memory of O only its elements are written. LSE is given if
    /// the problem asks for it.
    ///
    /// Nothing is allocated or assembled here, and a run can be captured.
    ///
    /// # Errors
    /// [`AttentionError`] for views that the plan can't use: a tensor beyond its buffer, an address that is not a
    /// multiple of 16 bytes, another element type, an O or an LSE that overlaps another operand;
    /// [`Error::ForeignDevice`].
    pub fn bind<'p>(
        &'p self,
        q: impl Into<View<'p>>,
        k: impl Into<View<'p>>,
        v: impl Into<View<'p>>,
        o: impl Into<ViewMut<'p>>,
        lse: Option<ViewMut<'p>>,
    ) -> Result<BoundAttention<'p>, Error> {
        self.bind_all([q.into(), k.into(), v.into()], None, o.into(), lse)
    }

    /// [`AttentionPlan::bind`] for a cache in pages. The block table is u32, `[batch, sequence_pages]` without gaps; it
    /// may change between runs. A number that no page has stands for a page of zeros.
    ///
    /// # Errors
    /// Those of [`AttentionPlan::bind`].
    pub fn bind_paged<'p>(
        &'p self,
        q: impl Into<View<'p>>,
        k: impl Into<View<'p>>,
        v: impl Into<View<'p>>,
        block_table: impl Into<View<'p>>,
        o: impl Into<ViewMut<'p>>,
        lse: Option<ViewMut<'p>>,
    ) -> Result<BoundAttention<'p>, Error> {
        let inputs = [q.into(), k.into(), v.into()];
        self.bind_all(inputs, Some(block_table.into()), o.into(), lse)
    }

    fn bind_all<'p>(
        &'p self,
        [q, k, v]: [View<'p>; 3],
        block_table: Option<View<'p>>,
        o: ViewMut<'p>,
        lse: Option<ViewMut<'p>>,
    ) -> Result<BoundAttention<'p>, Error> {
        if lse.is_some() != self.problem.lse {
            let words = |with| if with { "with" } else { "without" };
            let (planned, run) = (words(self.problem.lse), words(lse.is_some()));
            return Err(AttentionError::LseOperand { planned, run }.into());
        }
        let bound = |operand, view| Bound::new(&self.device, &self.problem, operand, view);
        let tensors = [
            bound(Operand::Q, q)?,
            bound(Operand::K, k)?,
            bound(Operand::V, v)?,
            bound(Operand::O, o.0)?,
        ];
        let paged = matches!(self.problem.sequences, Sequences::Paged { .. });
        if paged != block_table.is_some() {
            let words = |with| if with { "with" } else { "without" };
            let (planned, bound) = (words(paged), words(block_table.is_some()));
            return Err(AttentionError::BlockTable { planned, bound }.into());
        }
        let block_table = block_table.map(|table| bound(Operand::BlockTable, table)).transpose()?;
        let lse = lse.map(|lse| bound(Operand::Lse, lse.0)).transpose()?;
        check_apart(&tensors[3], tensors[..3].iter().chain(&block_table))?;
        if let Some(lse) = &lse {
            check_apart(lse, tensors.iter().chain(&block_table))?;
        }
        let [q, k, v, o] = &tensors;
        let maps = match &self.lists {
            Lists::Split(split) => split.maps(&self.device, &self.problem, [q, k, v])?.into(),
            Lists::Tiles(tiles) => {
                let map = |parameter, bound| self.map(tiles, parameter, bound);
                vec![map(0, q)?, map(1, k)?, map(2, v)?, map(3, o)?]
            }
        };
        Ok(BoundAttention { plan: self, tensors, maps, lse, block_table })
    }

    /// The tensor map of an operand: dimensions (column, row, head, sequence), with the box of the kernel's parameter. For
    /// packed sequences, that of [`Packed`].
    fn map(
        &self,
        tiles: &TilesPlan,
        parameter: usize,
        bound: &Bound<'_>,
    ) -> Result<TensorMap, Error> {
        let param = &tiles.instance.desc.meta.params[parameter];
        let (dtype, strides) =
            (self.problem.dtype(bound.operand), self.problem.strides(bound.operand));
        let [batch, heads, rows, dim] = self.problem.sizes(bound.operand);
        let size = dtype.size() as u64;
        // The stride of a dimension of size 1 is never used, but TMA's rules hold for it.
        let step = |count: u64, stride: u64| if count > 1 { stride * size } else { dim * size };
        let part = bound.part()?;
        let spec = TensorNd {
            buffer: &part,
            dtype,
            dims: &[dim, rows, heads, batch],
            strides: &[
                step(rows, strides.seq),
                step(heads, strides.head),
                step(batch, strides.batch),
            ],
            box_dims: &[param.box_cols, param.box_rows, 1, 1],
            swizzle_bytes: param.swizzle_bytes,
        };
        let (bytes, rank) = if tiles.table.is_some() {
            let packed = TensorNd {
                dims: &spec.dims[..3],
                strides: &spec.strides[..2],
                box_dims: &spec.box_dims[..3],
                ..spec
            };
            let stored = bound.operand == Operand::O;
            let longest = stored.then(|| self.problem.sequences.longest()[0].into());
            let bytes = self.device.tensor_map_ragged(&packed, longest)?;
            (TensorMapBytes(bytes), if stored { 4 } else { 5 })
        } else {
            (*self.device.tensor_map_nd(&spec)?.bytes(), 4)
        };
        let (tile, memory) = (TensorBox::of(param), Arc::clone(&part.memory));
        Ok(TensorMap::new(bytes, Some(dtype), tile, rank, memory))
    }
}

impl BoundAttention<'_> {
    /// Queues attention on `stream`, with the problem's soft-cap if it has one.
    ///
    /// The stream may be in a capture, of this crate's or somebody else's.
    ///
    /// # Errors
    /// [`Error::ForeignDevice`] for a stream of another device; [`AttentionError::ViewStream`] for an operand that was
    /// borrowed for another stream; errors of the launch.
    pub fn run(&self, stream: &Stream) -> Result<(), Error> {
        // A decode kernel has it among its arguments.
        let cap = self.plan.problem.softcap.filter(|_| self.plan.split().is_none());
        self.queue(cap.map(|cap| Param::value(SoftCap { cap })), stream)
    }

    /// Queues attention with a [`Score`](gpu_kernels::attention::Score) of your own, for kernels of your own
    /// ([`Attention::with_instances`](super::Attention::with_instances),
    /// [`Attention::with_tables`](super::Attention::with_tables)).
    ///
    /// The score is the last parameter: after [`AttentionArgs`], or after [`Packed`] if the sequences are packed; of a decode
    /// kernel after [`DecodeArgs`](gpu_kernels::attention::decode::DecodeArgs). Leave the problem's soft-cap `None`: a score that
    /// caps does so itself.
    ///
    /// # Errors
    /// The errors of [`BoundAttention::run`]; [`Error::LaunchParam`] for a kernel that takes a score of another size or layout
    /// (two scores of one layout can't be told apart); [`Error::LaunchParamCount`] for a kernel of tiles that takes none, and
    /// [`AttentionError::Score`] for a decode kernel that takes none.
    pub fn run_with<S: ByValue + KernelArg>(&self, score: S, stream: &Stream) -> Result<(), Error> {
        if self.plan.split().is_some_and(|split| !split.takes_score()) {
            let kernel = self.plan.describe().kernel.clone();
            return Err(AttentionError::Score { kernel }.into());
        }
        self.queue(Some(Param::value(score)), stream)
    }

    fn queue(&self, score: Option<Param<'_>>, stream: &Stream) -> Result<(), Error> {
        let plan = self.plan;
        plan.device.owns(|| "the stream of attention".into(), stream.backend())?;
        for bound in self.tensors.iter().chain(&self.lse).chain(&self.block_table) {
            bound.check_stream(stream)?;
        }
        let mut params: Vec<Param<'_>> = self.maps.iter().map(Param::map).collect();
        let turn = match &plan.lists {
            Lists::Tiles(tiles) => {
                self.push_tiles(tiles, &mut params);
                params.extend(score);
                let split = !tiles.workspace.is_empty();
                split.then(|| tiles.turns.begin(stream)).transpose()?
            }
            Lists::Split(split) => {
                let [_, _, _, o] = &self.tensors;
                let (lse, pages) = (self.lse.as_ref(), self.block_table.as_ref());
                params.push(Param::value(split.args(&plan.problem, o, lse, pages)?));
                params.extend(score);
                Some(split.turns.begin(stream)?)
            }
        };
        let (module, desc) = (&plan.module, plan.lists.desc());
        plan.device.launch_prepared(module, desc, plan.prepared, plan.grid, &params, stream)?;
        turn.map_or(Ok(()), Turn::end)
    }

    /// The arguments behind the tensor maps of a kernel of tiles, without the score.
    fn push_tiles<'a>(&'a self, tiles: &'a TilesPlan, params: &mut Vec<Param<'a>>) {
        let problem = &self.plan.problem;
        let lse = self.lse.as_ref();
        let lse = lse.map_or(SliceAbi { address: 0, elements: 0 }, |lse| lse.slice(4));
        let [seq_q, seq_kv] = problem.sequences.longest();
        let bound = |keys: Option<u32>| keys.map_or(UNBOUNDED, |keys| keys.min(UNBOUNDED));
        // SAFETY: the plan owns the lists, which nobody writes after the plan was made, and the workspace, whose users
        // its turns order. LSE's memory is kept alive by `self`, was checked to be large enough and aligned, and
        // overlaps no other operand; the view that it came from borrowed it mutably.
        let (work, lse, parts) = unsafe {
            (
                ConstantSlice::new(tiles.work.elements::<[u32; 4]>()),
                DependentSliceMut::<f32>::new(lse),
                SplitTiles::from_abi(tiles.workspace.elements::<[f32; 4]>()),
            )
        };
        params.push(Param::value(AttentionArgs {
            work,
            lse,
            tiles: parts,
            list: tiles.entries,
            seq_q,
            seq_kv,
            heads: problem.heads.q,
            left: bound(problem.mask.left),
            right: bound(problem.mask.right),
            scale: problem.scale(),
            scale_log2: problem.scale() * std::f32::consts::LOG2_E,
        }));
        if let Some(table) = &tiles.table {
            // SAFETY: the plan owns the table, which nobody writes after the plan was made.
            let table = unsafe { ConstantSlice::<u32>::new(table.elements::<u32>()) };
            params.push(Param::value(Packed { table, rows: problem.sequences.rows()[0] }));
        }
    }
}
