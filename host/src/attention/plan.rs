//! A plan holds everything about attention that does not depend on the addresses of its operands.

use super::Attention;
use super::kernel::AttentionKernel;
use super::pick::{Pick, asked_for, pick};
use super::problem::{AttentionProblem, Heads};
use super::sequences::Sequences;
use super::split_plan::SplitPlan;
use super::work::{TileShape, WorkList};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Error;
use crate::launch::{Module, Prepared};
use crate::turns::Turns;
use gpu_kernels::attention::Instance;
use gpu_kernels::attention::args::GROUP_ROWS;
use isa::kernel::KernelDesc;
use pipeline::grid::SplitTiles;
use serde::Serialize;
use std::fmt;

/// Planned attention; see [`Attention::plan`].
///
/// Threads may share it, and any number of runs on any streams may use it at the same time. A plan whose keys are split
/// among CTAs has one workspace: a run of it on one stream waits, on the device, for the last run on another stream, and
/// a graph of it may not run at the same time as anything else of the plan. A captured run reads the plan's work lists,
/// so the plan has to live as long as the graph.
pub struct AttentionPlan {
    pub(super) device: Device,
    pub(super) module: Module,
    pub(super) problem: AttentionProblem,
    /// The kernel in the module, for this grid.
    pub(super) prepared: Prepared,
    pub(super) grid: [u32; 3],
    pub(super) lists: Lists,
    info: AttentionInfo,
}

/// The kernel, and its work on the device.
pub(super) enum Lists {
    /// Tiles of queries; the keys of some may be split.
    Tiles(TilesPlan),
    /// Keys split among CTAs.
    Split(SplitPlan),
}

/// What a plan of tiles has on the device.
pub(super) struct TilesPlan {
    pub instance: &'static Instance,
    /// The work lists, and the entries of each.
    pub work: Buffer,
    pub entries: u32,
    /// The table of packed sequences.
    pub table: Option<Buffer>,
    /// The parts of the tiles whose keys are split.
    pub workspace: Buffer,
    /// Whose turn it is to use the workspace.
    pub turns: Turns,
}

impl Lists {
    pub fn desc(&self) -> &'static KernelDesc {
        match self {
            Self::Tiles(tiles) => tiles.instance.desc,
            Self::Split(split) => split.instance.desc,
        }
    }
}

/// Description of a plan, as text and as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AttentionInfo {
    /// The device.
    pub device: String,
    /// Element type.
    pub dtype: &'static str,
    /// Number of sequences.
    pub batch: u32,
    /// Heads of Q and O.
    pub heads_q: u32,
    /// Heads of K and V.
    pub heads_kv: u32,
    /// Queries of a sequence, or of all packed sequences.
    pub seq_q: u32,
    /// Keys of a sequence, or of all packed sequences, or those that the cache of a sequence has room for.
    pub seq_kv: u32,
    /// Whether the sequences are packed.
    pub packed: bool,
    /// Keys of all sequences, for a cache.
    pub cached_keys: Option<u64>,
    /// Elements of a head.
    pub head_dim: u32,
    /// The mask, in words.
    pub mask: String,
    /// Factor of the scores.
    pub scale: f32,
    /// The soft-cap.
    pub softcap: Option<f32>,
    /// Floating-point operations over the pairs of a query and a key that it sees.
    pub flops: f64,
    /// Name of the kernel in the image.
    pub kernel: String,
    /// Index in [`Attention::kernels`](super::Attention::kernels).
    pub index: usize,
    /// Why this kernel was chosen.
    pub why: String,
    /// Queries of a tile, keys of a block, and columns of both.
    pub tile: [u32; 3],
    /// Blocks of keys, and of values, that are in shared memory.
    pub stages: u32,
    /// Threads of a CTA.
    pub threads: u32,
    /// Shared memory of a CTA in bytes.
    pub smem_bytes: u32,
    /// CTAs of the grid.
    pub ctas: u32,
    /// Tiles of queries.
    pub tiles: u64,
    /// Key blocks of all tiles.
    pub blocks: u64,
    /// Time of the busiest CTA relative to the average.
    pub imbalance: f64,
    /// Bytes of the work lists on the device.
    pub work_bytes: u64,
    /// Parts of the tile whose keys are split among most CTAs; 1 if none is.
    pub parts: u32,
    /// Bytes of the workspace that the parts of tiles take.
    pub workspace_bytes: u64,
}

impl AttentionPlan {
    pub(super) fn new(
        attention: &Attention,
        problem: &AttentionProblem,
        asked: Option<usize>,
    ) -> Result<Self, Error> {
        problem.check()?;
        let Attention { device, module, .. } = attention;
        let Pick { kernel, index, why } = match asked {
            None => pick(attention, problem)?,
            Some(index) => asked_for(attention, problem, index)?,
        };
        let desc = kernel.desc();
        let meta = &desc.meta;
        let cluster = meta.cluster_size();
        let clusters = module.max_active_clusters(desc)?.min(device.sms() / cluster);
        if clusters == 0 {
            return Err(Error::LaunchCluster {
                kernel: meta.name().into(),
                grid: [cluster, 1, 1],
                cluster: meta.cluster,
                right: "the device has no room for one such cluster",
            });
        }
        let mut info = AttentionInfo::of(device, problem, kernel, (index, why));
        let lists = match kernel {
            AttentionKernel::Tiles(instance) => {
                let shape = TileShape { bm: instance.bm, bn: instance.bn };
                let work = WorkList::new(problem, shape, clusters);
                // A plan may be made during a capture.
                let constant = |words: &[u32]| {
                    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                    Buffer::constant(device, &bytes)
                };
                info.ctas = work.ctas * cluster;
                (info.tiles, info.blocks, info.imbalance) =
                    (work.tiles, work.blocks, work.imbalance);
                info.parts = work.most_parts;
                info.work_bytes = 4 * work.words.len() as u64;
                let slots = u64::from(work.parts * instance.bm / GROUP_ROWS);
                info.workspace_bytes = SplitTiles::bytes(slots, instance.head_dim.into());
                Lists::Tiles(TilesPlan {
                    instance,
                    work: constant(&work.words)?,
                    entries: work.entries,
                    table: problem.sequences.table().map(|words| constant(&words)).transpose()?,
                    workspace: Buffer::constant(device, &vec![0; info.workspace_bytes as usize])?,
                    turns: Turns::default(),
                })
            }
            AttentionKernel::Split(instance) => {
                let (split, list) = SplitPlan::new(device, problem, instance, clusters)?;
                info.ctas = clusters;
                (info.tiles, info.blocks, info.imbalance) =
                    (list.tiles, list.blocks, list.imbalance);
                info.parts = list.most_parts;
                [info.work_bytes, info.workspace_bytes] = split.bytes();
                Lists::Split(split)
            }
        };
        let grid = [info.ctas, 1, 1];
        // Assembled here, so that neither a bind nor a run, which may be captured, has to.
        module.preload(&[desc])?;
        let prepared = module.prepare(desc, grid)?;
        let (device, module, problem) = (device.clone(), module.clone(), problem.clone());
        Ok(Self { device, module, problem, prepared, grid, lists, info })
    }

    /// The plan of a decode kernel.
    pub(super) fn split(&self) -> Option<&SplitPlan> {
        match &self.lists {
            Lists::Split(split) => Some(split),
            Lists::Tiles(_) => None,
        }
    }

    /// Waits until the runs that share this plan's memory have ended, and releases the stream of the last one
    /// ([`GemmPlan::synchronize`](crate::gemm::GemmPlan::synchronize)). It does not wait for runs that were captured.
    ///
    /// # Errors
    /// [`Error::Driver`] if a run failed.
    pub fn synchronize(&self) -> Result<(), Error> {
        match &self.lists {
            Lists::Tiles(tiles) => tiles.turns.synchronize(),
            Lists::Split(split) => split.turns.synchronize(),
        }
    }

    /// Description of the plan: kernel, grid and work.
    pub fn describe(&self) -> &AttentionInfo {
        &self.info
    }

    /// The problem that the plan was made for.
    pub fn problem(&self) -> &AttentionProblem {
        &self.problem
    }
}

impl AttentionInfo {
    /// What is known before the work is dealt out.
    fn of(
        device: &Device,
        problem: &AttentionProblem,
        kernel: AttentionKernel,
        (index, why): (usize, String),
    ) -> Self {
        let (Heads { q, kv, dim }, sequences) = (problem.heads, &problem.sequences);
        let [seq_q, seq_kv] = sequences.rows();
        let meta = &kernel.desc().meta;
        Self {
            device: device.describe(),
            dtype: problem.dtype.name(),
            batch: sequences.batch(),
            heads_q: q,
            heads_kv: kv,
            seq_q,
            seq_kv: if sequences.cached() {
                u32::try_from(sequences.capacity()).unwrap_or(u32::MAX)
            } else {
                seq_kv
            },
            packed: matches!(sequences, Sequences::Packed { .. }),
            cached_keys: sequences.cached().then(|| sequences.keys()),
            head_dim: dim,
            mask: problem.mask.to_string(),
            scale: problem.scale(),
            softcap: problem.softcap,
            flops: problem.flops(),
            kernel: meta.name().into(),
            index,
            why,
            tile: kernel.tile(),
            stages: kernel.stages(),
            threads: meta.threads,
            smem_bytes: meta.smem_bytes,
            ctas: 0,
            tiles: 0,
            blocks: 0,
            imbalance: 1.0,
            work_bytes: 0,
            parts: 1,
            workspace_bytes: 0,
        }
    }
}

impl fmt::Display for AttentionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch, heads_q, heads_kv, seq_q, seq_kv, head_dim, dtype, .. } = self;
        let keys = match self.cached_keys {
            Some(keys) => format!("{keys} keys in caches of {seq_kv} each"),
            None if self.packed => format!("{seq_kv} keys in all"),
            None => format!("{seq_kv} keys"),
        };
        writeln!(
            f,
            "attention {dtype}: {batch} sequences, {heads_q} query and {heads_kv} key heads of {head_dim}, {seq_q} queries and {keys}, {} on {}",
            self.mask, self.device
        )?;
        write!(f, "  scale {}", self.scale)?;
        if let Some(cap) = self.softcap {
            write!(f, ", soft-cap {cap}")?;
        }
        writeln!(f, ", {:.3} GFLOP", self.flops / 1e9)?;
        writeln!(f, "  kernel {} ({}): {}", self.kernel, self.index, self.why)?;
        let [bm, bn, columns] = self.tile;
        writeln!(
            f,
            "  {bm} queries by blocks of {bn} keys by {columns} columns, {} stages, {} threads, {} bytes of shared memory",
            self.stages, self.threads, self.smem_bytes
        )?;
        writeln!(
            f,
            "  {} tiles with {} key blocks on {} CTAs; the busiest has {:.2} times the average",
            self.tiles, self.blocks, self.ctas, self.imbalance
        )?;
        if self.workspace_bytes > 0 {
            let (parts, mib) = (self.parts, self.workspace_bytes as f64 / f64::from(1 << 20));
            writeln!(
                f,
                "  a tile's keys are split into {parts} parts at most; {mib:.1} MiB of workspace"
            )?;
        }
        Ok(())
    }
}
