//! Launches of the GEMMs for Blackwell ([`gpu_kernels::sm100`]): D = alpha · A·Bᵀ.
//!
//! **No chip has ever run this.** The SM model runs it, with the same tensor maps, arguments and grids.
//!
//! ```text
//! Plan::new(&device, &IMAGE, &INSTANCES[0], [m, n, k])?.run(&a, &b, None, &mut d, alpha, &stream)?
//! ```
//!
//! The caller chooses the kernel from the table `gpu_kernels::sm100::INSTANCES`: nothing is known of the speed of any, so
//! there is no pick. Operands are packed, and nothing is copied: the bytes of a row of A, B and D are multiples of 16.
//!
//! Operands of NVFP4 have two values in a byte, the first in the low bits ([`isa::E2m1x2`]): a row of K values is K / 2 bytes, and
//! K a multiple of 32. The factor of each whole tensor, which NVFP4 has as well, is a part of `alpha`.

use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Error;
use crate::launch::{Module, Prepared};
use crate::param::Param;
use crate::stream::Stream;
use crate::tensor::{TensorBox, TensorMap, TensorSpec};
use crate::tensor_error::dtype_name;
use gpu_kernels::gemm::TileSchedulerParams;
use gpu_kernels::sm100::{Instance, Scale};
use isa::kernel::{Dtype, Image, ParamMeta};

/// Rows of cluster tiles of a raster group.
const GROUP: u32 = 2;
/// Rows of an operand that a block of scales is for.
const SCALE_ROWS: u32 = 128;
/// Most cluster tiles, and most k tiles, for which the scheduler's arithmetic holds.
const MOST: u64 = 1 << 30;

/// A kernel with its grid for a product of one size.
pub struct Plan {
    device: Device,
    module: Module,
    instance: &'static Instance,
    size: [u32; 3],
    k_tiles: u32,
    scheduler: TileSchedulerParams,
    grid: [u32; 3],
    prepared: Prepared,
}

/// The operand of a kernel's parameter.
struct Operand<'a> {
    name: char,
    buffer: &'a Buffer,
    rows: u64,
    cols: u64,
    param: &'a ParamMeta,
}

impl Plan {
    /// Plans the product of A of m x k values and B of n x k values. On a GPU the driver assembles the kernel.
    ///
    /// The grid of a persistent kernel has as many clusters as the device holds, at most one for each cluster tile. That of
    /// a kernel with launch control has one for each.
    ///
    /// # Errors
    /// [`Error::ImageArch`] for an image without code for the device; the errors of [`Module::check`]; [`Error::SizeOverflow`]
    /// for a product without elements or with too many tiles; [`Error::PackedRow`] for an odd K of operands with two values in a
    /// byte; [`Error::ImageAssembly`] with the assembler's message.
    pub fn new(
        device: &Device,
        image: &'static Image,
        instance: &'static Instance,
        size: [u32; 3],
    ) -> Result<Self, Error> {
        let module = device.load(image)?;
        let meta = &instance.desc.meta;
        module.check(instance.desc)?;
        let [m, n, k] = size;
        let packing = instance.packing.max(1);
        if !k.is_multiple_of(packing) {
            return Err(Error::PackedRow { kernel: meta.name().to_owned(), k, packing });
        }
        let k_tile = meta.params[0].box_cols.saturating_mul(packing).max(1);
        let [rows, columns] = instance.cluster_tile.map(|extent| extent.max(1));
        let (tiles_m, tiles_n, k_tiles) =
            (m.div_ceil(rows), n.div_ceil(columns), k.div_ceil(k_tile));
        let count = u64::from(tiles_m) * u64::from(tiles_n);
        let ctas = count * u64::from(meta.cluster_size());
        if m == 0 || n == 0 || k == 0 || ctas > MOST || u64::from(k_tiles) > MOST {
            return Err(Error::SizeOverflow {
                what: "tiles of a product",
                factors: format!("{tiles_m} x {tiles_n} of {k_tiles} k tiles for {m} x {n} x {k}"),
                limit: "1 to 2^30 CTAs and 1 to 2^30 k tiles are right",
            });
        }
        module.preload(&[instance.desc])?;
        let tiles = count as u32;
        let clusters = if instance.launch_control {
            tiles
        } else {
            module.max_active_clusters(instance.desc)?.clamp(1, tiles)
        };
        let scheduler = TileSchedulerParams::new([tiles_m, tiles_n], k_tiles, GROUP, clusters, 0);
        let grid = [clusters * meta.cluster_size(), 1, 1];
        let prepared = module.prepare(instance.desc, grid)?;
        let device = device.clone();
        Ok(Self { device, module, instance, size, k_tiles, scheduler, grid, prepared })
    }

    /// CTAs of the grid.
    pub fn ctas(&self) -> u32 {
        self.grid[0]
    }

    /// The types of the elements of A, B and D. Those of NVFP4's A and B are bytes, of two values each.
    pub fn dtypes(&self) -> [Option<Dtype>; 3] {
        let d = if self.instance.block_scaled { 4 } else { 2 };
        [0, 1, d].map(|i| dtype(&self.instance.desc.meta.params[i]))
    }

    /// Bytes of the block scales of A and of B, if the kernel applies any.
    ///
    /// They come in blocks of 512 bytes, with four factors of each of 128 rows: the next along K for 32 values each of MXFP8, or for
    /// 16 each of NVFP4. The blocks of the same rows lie together, in the order of K, up to the end of the last k tile: 128
    /// values of MXFP8 (one block), or 256 of NVFP4 (four blocks). Within a block, row `r` has its factors at
    /// `16 * (r % 32) + 4 * (r / 32)`. Those of what lies beyond a matrix are any that are not NaN.
    pub fn scale_bytes(&self) -> Option<[usize; 2]> {
        let [m, n, _] = self.size;
        let bytes = |rows: u32, param: &ParamMeta| {
            let block = param.box_cols as usize * dtype(param).map_or(0, Dtype::size);
            (self.scale_rows(rows, param) as usize).saturating_mul(block)
        };
        let params = &self.instance.desc.meta.params;
        self.instance.block_scaled.then(|| [bytes(m, &params[2]), bytes(n, &params[3])])
    }

    /// Queues D = alpha · A·Bᵀ on `stream`. All matrices are row-major and packed. Nothing waits for it: [`Buffer::to_vec`]
    /// of D does.
    ///
    /// # Errors
    /// [`Error::OperandSize`] for a buffer of another size; [`Error::ScalesOfKernel`] for block scales that the kernel does
    /// not apply, or that are missing; [`Error::Tensor`] for rows that are no multiple of 16 bytes; [`Error::ForeignDevice`];
    /// errors of the launch.
    pub fn run(
        &self,
        a: &Buffer,
        b: &Buffer,
        scales: Option<[&Buffer; 2]>,
        d: &mut Buffer,
        alpha: f32,
        stream: &Stream,
    ) -> Result<(), Error> {
        self.device.owns(|| "the stream of a GEMM".into(), stream.backend())?;
        let (desc, [m, n, k]) = (self.instance.desc, self.size);
        // Elements of the tensor maps.
        let k = k / self.instance.packing.max(1);
        let operand = |i: usize, name, buffer, rows, cols| {
            let (rows, cols, param) = (u64::from(rows), u64::from(cols), &desc.meta.params[i]);
            self.map(&Operand { name, buffer, rows, cols, param })
        };
        let mut maps = vec![operand(0, 'A', a, m, k)?, operand(1, 'B', b, n, k)?];
        match (scales, self.instance.block_scaled) {
            (None, false) => {}
            (Some(factors), true) => {
                for (i, (name, rows)) in [('A', m), ('B', n)].into_iter().enumerate() {
                    let param = &desc.meta.params[2 + i];
                    let (rows, cols) = (self.scale_rows(rows, param), param.box_cols.into());
                    maps.push(self.map(&Operand {
                        name,
                        buffer: factors[i],
                        rows,
                        cols,
                        param,
                    })?);
                }
            }
            (_, applied) => {
                let (applies, right) = if applied {
                    ("block scales", "a run with Some of the two buffers")
                } else {
                    ("no block scales", "a run with None")
                };
                let kernel = desc.meta.name().to_owned();
                return Err(Error::ScalesOfKernel { kernel, applies, right });
            }
        }
        maps.push(operand(maps.len(), 'D', d, m, n)?);
        let mut params: Vec<Param<'_>> = maps.iter().map(Param::map).collect();
        params.extend([Param::value(Scale { alpha }), Param::value(self.scheduler)]);
        let (module, grid) = (&self.module, self.grid);
        self.device.launch_prepared(module, desc, self.prepared, grid, &params, stream)
    }

    /// Rows of the matrix of block scales of an operand of `rows` rows: one for each block.
    fn scale_rows(&self, rows: u32, param: &ParamMeta) -> u64 {
        let blocks = u64::from(rows.div_ceil(SCALE_ROWS)) * u64::from(self.k_tiles);
        blocks.saturating_mul(param.box_rows.into())
    }

    /// The tensor map of an operand that fills its buffer.
    fn map(&self, operand: &Operand<'_>) -> Result<TensorMap, Error> {
        let &Operand { name, buffer, rows, cols, param } = operand;
        let Some(dtype) = dtype(param) else {
            let kernel = self.instance.desc.meta.name();
            let right =
                format!("kernel {kernel} has none for {name}, or one without an element type");
            return Err(Error::TensorArgument { argument: "TensorMap", right });
        };
        let (have, row) = (buffer.len() as u64, cols.saturating_mul(dtype.size() as u64));
        let need = rows.saturating_mul(row);
        if have != need {
            let dtype = dtype_name(dtype);
            return Err(Error::OperandSize { operand: name, rows, cols, dtype, need, have });
        }
        let spec = TensorSpec { buffer, offset: 0, dtype, rows, cols, pitch_bytes: row };
        self.device.tensor_map(&spec, TensorBox::of(param))
    }
}

/// The element type of a tensor map.
fn dtype(param: &ParamMeta) -> Option<Dtype> {
    Dtype::ALL.into_iter().find(|dtype| *dtype as u32 == param.dtype)
}
