//! A plan of a pointer array: its kernels, and the memory of its tensor maps.

use super::{ArrayError, ArrayGemm, ArrayProblem, MAPS};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Error;
use crate::launch::{Module, Prepared};
use crate::param::Param;
use crate::tensor::{Matrix, TensorBox, TensorMap};
use gpu_kernels::gemm::Linear;
use gpu_kernels::gemm::grouped::{ArrayInstance, ArrayTable, PROBLEMS_PER_CTA};
use gpu_kernels::gemm::scheduler::{ArrayArgs, ArrayParams, ProblemShape};
use half::bf16;
use isa::cp_async_bulk::TensorMapBytes;
use isa::kernel::Dtype;
use pipeline::grid::DependentSliceMut;
use std::sync::{Mutex, PoisonError};

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
    device: Device,
    module: Module,
    instance: ArrayInstance,
    problems: u64,
    /// The grids of the two kernels.
    maps: ([u32; 3], Prepared),
    gemm: ([u32; 3], Prepared),
    params: ArrayParams,
    /// The templates of the tensor maps: maps of a matrix in `anchor`.
    templates: [TensorMap; MAPS],
    /// The tensor maps of all problems, for A, B and D.
    places: [Buffer; MAPS],
    shapes: Buffer,
    status: Buffer,
    /// The maps belong to one run at a time: its two launches follow one another on the stream.
    launches: Mutex<()>,
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
        for (index, ArrayInstance { gemm, .. }) in self.instances.iter().enumerate().rev() {
            let rows = u64::from(gemm.bm * gemm.cluster_m);
            let tiles = m.div_ceil(rows).saturating_mul(n.div_ceil(gemm.bn.into()));
            let active = u64::from(self.module.max_active_clusters(gemm.desc)?);
            if m >= rows / 2 && tiles.saturating_mul(problems) >= active {
                best = index;
            }
        }
        Ok(best)
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
            launches: Mutex::new(()),
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

    /// Queues D = alpha * A * B^T of each problem on the device's stream. [`Buffer::read`] waits for it.
    ///
    /// `table` has one line per problem ([`ArrayProblem::table`]). The device reads it when the product runs. Each A is in
    /// `a`, each B in `b` and each D in `d`. Problems may share an A or a B. If two problems share elements of D, either
    /// result may be stored.
    ///
    /// A problem with M or N of 0 is valid. Any other problem is invalid in these cases:
    ///
    /// - a matrix reaches beyond its buffer;
    /// - a first element or a row pitch is not a multiple of 16 bytes;
    /// - N is not a multiple of 8, or K is 0.
    ///
    /// The device stores nothing for an invalid problem and computes the others. [`ArrayPlan::bad_problem`] returns the
    /// first invalid one.
    ///
    /// # Errors
    /// [`ArrayError`] for a table of another size, a buffer that begins at an odd byte, or a D that shares bytes with what is
    /// read; [`Error::ForeignDevice`]; errors of the launches.
    pub fn run(
        &self,
        a: &Buffer,
        b: &Buffer,
        table: &Buffer,
        d: &mut Buffer,
        alpha: f32,
    ) -> Result<(), Error> {
        self.check(a, b, table, d)?;
        let stream = self.device.stream();
        let ArrayInstance { gemm, maps } = &self.instance;
        let place = |desc: &isa::kernel::KernelDesc, first: usize, index: usize| {
            // SAFETY: the buffer has a map for each problem. Only launches of this plan access it, one after another on the
            // device's stream: the first kernel writes each map, and the second one reads them. Both kernels are those of
            // one instance, whose boxes agree. What the maps describe lies in the buffers of the run, or in the templates'.
            unsafe { Param::tensor_maps(&self.places[index], desc.meta.params[first + index]) }
        };
        // SAFETY: only the launches of this plan access the sizes and the status, in the order of the stream.
        let (shapes, status) = unsafe {
            (
                DependentSliceMut::new(self.shapes.elements::<ProblemShape>()),
                DependentSliceMut::new(self.status.elements::<u32>()),
            )
        };
        let lines = ArrayTable {
            problems: table.dependent_slice(),
            a: a.dependent_slice::<bf16>(),
            b: b.dependent_slice::<bf16>(),
            d: d.dependent_slice_mut::<bf16>(),
            shapes,
        };
        let mut first: Vec<Param<'_>> = self.templates.iter().map(Param::map).collect();
        first.extend((0..MAPS).map(|index| place(maps, MAPS, index)));
        first.push(Param::value(lines));
        let args = ArrayArgs { shapes: self.shapes.dependent_slice(), status, params: self.params };
        let mut second: Vec<Param<'_>> = (0..MAPS).map(|i| place(gemm.desc, 0, i)).collect();
        second.extend([Param::value(Linear { alpha, beta: 0.0 }), Param::value(args)]);

        let _one_run = self.launches.lock().unwrap_or_else(PoisonError::into_inner);
        let launch = |desc, (grid, prepared): ([u32; 3], Prepared), params: &[Param<'_>]| {
            self.device.launch_prepared(&self.module, desc, prepared, grid, params, &stream)
        };
        launch(maps, self.maps, &first)?;
        launch(gemm.desc, self.gemm, &second)
    }

    /// The first problem that the last run found not to be allowed. Waits for the device.
    ///
    /// # Errors
    /// What [`Buffer::read`] reports.
    pub fn bad_problem(&self) -> Result<Option<u32>, Error> {
        let mut word = [0; 4];
        self.status.read(&mut word)?;
        Ok(u32::from_ne_bytes(word).checked_sub(1))
    }

    fn check(&self, a: &Buffer, b: &Buffer, table: &Buffer, d: &Buffer) -> Result<(), Error> {
        let problems = self.problems;
        let (need, have, addr) = (problems * ArrayProblem::BYTES, table.len() as u64, table.addr());
        if have != need || !addr.is_multiple_of(8) {
            return Err(ArrayError::Table { problems, need, have, addr }.into());
        }
        let end = |buffer: &Buffer| buffer.addr() + buffer.len() as u64;
        for (what, buffer) in [("A", a), ("B", b), ("the table", table), ("D", d)] {
            self.device.check_buffer(what, buffer)?;
            let addr = buffer.addr();
            if !addr.is_multiple_of(2) {
                return Err(ArrayError::Misaligned { what, addr }.into());
            }
            if what != "D" && addr < end(d) && d.addr() < end(buffer) {
                return Err(ArrayError::Overlap { what, theirs: addr, d: d.addr() }.into());
            }
        }
        Ok(())
    }
}
