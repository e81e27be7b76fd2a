//! A plan of a pointer array: its kernels, and the memory of its tensor maps.

use super::{ArrayError, ArrayGemm, MAPS};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Error;
use crate::launch::{Module, Prepared};
use crate::tensor::{Matrix, TensorBox, TensorMap};
use crate::turns::Turns;
use gpu_kernels::gemm::grouped::{ArrayInstance, PROBLEMS_PER_CTA};
use gpu_kernels::gemm::scheduler::ArrayParams;
use isa::cp_async_bulk::TensorMapBytes;
use isa::kernel::Dtype;

/// Most problems of a plan.
const MAX_PROBLEMS: u64 = 1 << 20;
/// Bytes of a tensor map.
const MAP_BYTES: u64 = size_of::<TensorMapBytes>() as u64;
/// Bytes of the sizes that the first kernel writes for a problem.
const SHAPE_BYTES: u64 = 16;
/// Cluster-tile rows of a raster group.
const RASTER: u32 = 8;

/// A planned grouped product of pointer arrays; see [`ArrayGemm::plan`].
pub struct ArrayPlan {
    pub(super) device: Device,
    pub(super) module: Module,
    pub(super) instance: ArrayInstance,
    pub(super) problems: u64,
    /// The grids of the two kernels.
    pub(super) maps: ([u32; 3], Prepared),
    pub(super) gemm: ([u32; 3], Prepared),
    pub(super) params: ArrayParams,
    /// The templates of the tensor maps: maps of a matrix in `anchor`.
    pub(super) templates: [TensorMap; MAPS],
    /// The tensor maps of all problems, for A, B and D.
    pub(super) places: [Buffer; MAPS],
    pub(super) shapes: Buffer,
    /// The status that a run without an info of its own writes: 0, or 1 + the first problem that it skipped.
    pub(super) status: Buffer,
    /// Whose turn it is to use this memory: the two launches of a run follow one another.
    pub(super) turns: Turns,
}

impl ArrayGemm {
    /// The row of the table for `problems` products, of which M, N and K, in elements, are those of a typical one. It has the
    /// largest tile for which each cluster gets a tile, and the problems fill at least half of the tile's rows.
    /// [`ArrayGemm::plan_with`] takes it; [`ArrayGemm::plan`] picks by itself.
    ///
    /// # Errors
    /// Those of loading a kernel.
    pub fn pick(&self, problems: u64, [m, n, _]: [u64; 3]) -> Result<usize, Error> {
        let mut best = self.instances.len().saturating_sub(1);
        let clusters = self.active()?;
        for (index, ArrayInstance { gemm, .. }) in self.instances.iter().enumerate().rev() {
            let rows = u64::from(gemm.bm * gemm.cluster_m);
            let tiles = m.div_ceil(rows).saturating_mul(n.div_ceil(gemm.bn.into()));
            let active = u64::from(clusters[index]);
            if m >= rows / 2 && tiles.saturating_mul(problems) >= active {
                best = index;
            }
        }
        Ok(best)
    }

    /// Clusters of each instance that the device holds at one time. The driver is asked once.
    fn active(&self) -> Result<&[u32], Error> {
        if let Some(active) = self.active.get() {
            return Ok(active);
        }
        let of = |i: &ArrayInstance| self.module.max_active_clusters(i.gemm.desc);
        let active = self.instances.iter().map(of).collect::<Result<_, _>>()?;
        Ok(self.active.get_or_init(|| active))
    }
}

impl ArrayPlan {
    pub(super) fn new(gemm: &ArrayGemm, problems: u64, index: usize) -> Result<Self, Error> {
        if problems == 0 || problems > MAX_PROBLEMS {
            return Err(ArrayError::Problems { problems, limit: MAX_PROBLEMS }.into());
        }
        let Some(&instance) = gemm.instances.get(index) else {
            let (count, have) = (gemm.instances.len(), "the table has no such row".into());
            return Err(Error::WrongInstance { index, count, have });
        };
        let (device, module, i) = (&gemm.device, &gemm.module, &instance.gemm);
        let cluster = i.desc.meta.cluster_size();
        let clusters = module.max_active_clusters(i.desc)?.min(device.sms() / cluster);
        if clusters == 0 {
            return Err(Error::LaunchCluster {
                kernel: i.desc.meta.name().into(),
                grid: [cluster, 1, 1],
                cluster: i.desc.meta.cluster,
                right: "the device has no room for one such cluster",
            });
        }
        // Assembled here, so that a run does not have to.
        module.preload(&[instance.maps, i.desc])?;
        let prepare = |desc, grid| Ok::<_, Error>((grid, module.prepare(desc, grid)?));
        let maps = [problems.div_ceil(PROBLEMS_PER_CTA.into()) as u32, 1, 1];
        let tile = [i.bm * i.cluster_m, i.bn * i.cluster_n, i.bk];
        let anchor = device.alloc_zeroed(MAP_BYTES as usize)?;
        let template = |index: usize| {
            let tile = TensorBox::of(&instance.maps.meta.params[index]);
            let matrix = Matrix { offset: 0, dtype: Dtype::Bf16, rows: 1, cols: 8, pitch: 16 };
            device.tensor_map_of(&anchor.memory, &matrix, tile)
        };
        let place = || device.alloc((problems * MAP_BYTES) as usize);
        Ok(Self {
            device: device.clone(),
            module: module.clone(),
            instance,
            problems,
            maps: prepare(instance.maps, maps)?,
            gemm: prepare(i.desc, [clusters * cluster, 1, 1])?,
            params: ArrayParams::new(tile, RASTER, clusters),
            templates: [template(0)?, template(1)?, template(2)?],
            places: [place()?, place()?, place()?],
            shapes: device.alloc((problems * SHAPE_BYTES) as usize)?,
            status: device.alloc_zeroed(4)?,
            turns: Turns::default(),
        })
    }

    /// Name of the kernel that multiplies.
    pub fn kernel(&self) -> &'static str {
        self.instance.gemm.desc.meta.name()
    }

    /// CTAs of its grid.
    pub fn ctas(&self) -> u32 {
        self.gemm.0[0]
    }

    /// Problems of the plan: lines of the table that a run takes.
    pub fn problems(&self) -> u64 {
        self.problems
    }

    /// The first problem that the last run skipped, because it is not allowed. Waits for the device.
    ///
    /// A run with an info of its own ([`BoundArray::with_info`](super::BoundArray::with_info)) does not count.
    ///
    /// # Errors
    /// What [`Buffer::read`] reports.
    pub fn bad_problem(&self) -> Result<Option<u32>, Error> {
        let mut word = [0; 4];
        self.status.read(&mut word)?;
        Ok(u32::from_ne_bytes(word).checked_sub(1))
    }

    /// Waits until the runs of this plan have ended, and releases the stream of the last one.
    ///
    /// Call this before you destroy a stream that you passed to [`Stream::from_raw`](crate::Stream::from_raw). It does not
    /// wait for runs that were captured.
    ///
    /// # Errors
    /// [`Error::Driver`] if a run failed.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.turns.synchronize()
    }
}
