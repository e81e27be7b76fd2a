//! Measured ceilings of a GPU: wgmma alone, TMA loads alone, and what two GEMM products reach of them in
//! the same run.

use super::line::{Shape, Times, without_types};
use super::{Bench, BenchConfig, Contender, Timing, interleave};
use crate::error::Error;
use crate::machine::Machine;
use gpu_kernels::ceilings::{self, COLUMNS, DEPTH, ROWS};
use host::gemm::{BoundGemm, Gemm, GemmProblem};
use host::{Buffer, Device, Dtype, Module, Param, Stream, TensorBox, TensorMap, TensorSpec, data};
use isa::kernel::{Image, Kernel, KernelDesc};
use serde::Serialize;
use std::fmt;

/// The product bound by the tensor cores.
const SQUARE: Shape = Shape { m: 8192, n: 8192, k: 8192 };
/// The product bound by memory: A has few rows, and B exceeds the L2 cache.
const DECODE: Shape = Shape { m: 16, n: 14336, k: 4096 };
/// Bytes of B in [`DECODE`].
const DECODE_BYTES: u64 = 2 * DECODE.n * DECODE.k;
/// Bytes that the long run of loads reads: many times the L2 cache.
const READ_BYTES: u64 = 1 << 30;
/// Bytes that short runs of loads read: the caches of keys and values that attention is measured with.
const CACHE_BYTES: [u64; 4] = [4 << 20, 16 << 20, 64 << 20, 256 << 20];
/// Bytes of a row of the tensor that the loads read.
const ROW_BYTES: u64 = 128;
/// Number of normal values that the operands repeat: not a multiple of a row.
const VALUES: usize = (1 << 20) + 3;

/// Median rates in TFLOP/s or GB/s.
#[derive(Clone, Debug, Serialize)]
pub struct Ceilings {
    /// The GPU.
    pub machine: Machine,
    /// Rate of a copy in device memory, bytes read plus bytes written.
    pub copy_gbs: f64,
    /// TMA loads alone, in a launch so long that its start and end do not matter.
    pub read: Rate,
    /// TMA loads alone, of fewer bytes, which are not in the L2 cache.
    pub read_caches: Vec<Read>,
    /// TMA loads alone, of as many bytes as B has in the product bound by memory.
    pub read_as_much: Rate,
    /// The product bound by memory, in turn with `read_as_much`. Its rate counts the bytes of B.
    pub decode: Held,
    /// wgmma alone, with normal operands.
    pub wgmma: Rate,
    /// The product bound by the tensor cores, in turn with `wgmma`.
    pub square: Held,
    /// wgmma alone, with zeros, which draw less power because no bits switch.
    pub wgmma_zeros: Rate,
}

/// A timed contender and its rate.
#[derive(Clone, Debug, Serialize)]
pub struct Rate {
    /// The times.
    pub timing: Timing,
    /// The rate.
    pub rate: f64,
}

/// A rate of reading some bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Read {
    /// The bytes of a launch.
    pub bytes: u64,
    /// Times and rate.
    #[serde(flatten)]
    pub rate: Rate,
}

/// A product and the fraction of a ceiling that it reaches.
#[derive(Clone, Debug, Serialize)]
pub struct Held {
    /// M, N and K.
    #[serde(flatten)]
    pub shape: Shape,
    /// Kernel, times and rate.
    pub gemm: Rate,
    /// Fraction of the ceiling.
    pub part: f64,
}

impl Ceilings {
    /// Measures the ceilings with the kernels of `image`, the image of the GEMM.
    ///
    /// # Errors
    /// [`host::Error::NotOnModel`] on the SM model; [`host::Error::OutOfMemory`]; errors of the launches.
    pub fn measure(
        device: &Device,
        image: &'static Image,
        config: &BenchConfig,
    ) -> Result<Self, Error> {
        let info = device.info().ok_or(host::Error::NotOnModel { what: "a benchmark" })?;
        let machine = Machine::of(info);
        let copy_gbs = Bench::new(device, Dtype::Bf16, 0, &[])?.copy_gbs()?;
        let (gemm, module) = (Gemm::new(device, image)?, device.load(image)?);
        let against = |alone: &mut Alone<'_>, ceiling: f64, shape: Shape, amount: f64| {
            let (alone, gemm) = in_turn(device, &gemm, alone, shape, config)?;
            let (alone, gemm) = (Rate::of(alone, ceiling), Rate::of(gemm, amount));
            let part = gemm.rate / alone.rate;
            Ok::<_, Error>((alone, Held { shape, gemm, part }))
        };

        let from = device.alloc_zeroed(READ_BYTES as usize)?;
        let read_alone = |bytes: u64| {
            let mut reading = Alone::reading(device, &module, &from, bytes)?;
            let sets = reading.sets();
            let (mut timings, ..) = interleave(device, &mut [&mut reading], sets, 0.0, config)?;
            Ok::<_, Error>(Rate::of(timings.remove(0), bytes as f64 * 1e-3))
        };
        let read = read_alone(READ_BYTES)?;
        let read_caches = CACHE_BYTES
            .map(|bytes| Ok::<_, Error>(Read { bytes, rate: read_alone(bytes)? }))
            .into_iter()
            .collect::<Result<_, _>>()?;
        let mut reading = Alone::reading(device, &module, &from, DECODE_BYTES)?;
        let amount = DECODE_BYTES as f64 * 1e-3;
        let (read_as_much, decode) = against(&mut reading, amount, DECODE, amount)?;
        drop((reading, from));

        // As many multiplications as the large product has, rounded up to whole batches.
        let products = SQUARE.m * SQUARE.n * SQUARE.k;
        let batch = u64::from(device.sms()) * (ROWS * COLUMNS * DEPTH) as u64;
        let batches = products.div_ceil(batch) as u32;
        let alone = 2.0 * (u64::from(batches) * batch) as f64 * 1e-6;
        let normal = data::normal(config.seed, VALUES);
        let mut multiplying = Alone::multiplying(device, &module, &normal, batches)?;
        let (wgmma, square) =
            against(&mut multiplying, alone, SQUARE, 2.0 * products as f64 * 1e-6)?;
        let mut zeros = Alone::multiplying(device, &module, &[0.0], batches)?;
        let (mut timings, ..) = interleave(device, &mut [&mut zeros], 1, 0.0, config)?;
        let wgmma_zeros = Rate::of(timings.remove(0), alone);
        Ok(Self {
            machine,
            copy_gbs,
            read,
            read_caches,
            read_as_much,
            decode,
            wgmma,
            square,
            wgmma_zeros,
        })
    }
}

/// Times `alone` in turn with a product of normal values.
fn in_turn(
    device: &Device,
    gemm: &Gemm,
    alone: &mut Alone<'_>,
    Shape { m, n, k }: Shape,
    config: &BenchConfig,
) -> Result<(Timing, Timing), Error> {
    let bf16 = Dtype::Bf16;
    let problem = GemmProblem { m, n, k, ab: bf16, out: bf16, beta_c: false };
    let values = data::encode(&data::normal(config.seed, VALUES), bf16)?;
    let operand = |name| -> Result<Buffer, host::Error> {
        let bytes = problem.bytes(name) as usize;
        device.upload(&values.iter().copied().cycle().take(bytes).collect::<Vec<_>>())
    };
    let (a, b) = (operand('A')?, operand('B')?);
    let mut d = device.alloc(problem.bytes('D') as usize)?;
    let plan = gemm.plan(&problem)?;
    let name = plan.describe().kernel.as_ref().map_or("", |kernel| &kernel.name);
    let mut product = Product(name, plan.bind(&a, &b, None, &mut d)?);
    let (mut timings, ..) = interleave(device, &mut [alone, &mut product], 1, 0.0, config)?;
    let gemm = timings.remove(1);
    Ok((timings.remove(0), gemm))
}

/// A bound product with the name of its kernel.
struct Product<'a>(&'a str, BoundGemm<'a>);

impl Contender for Product<'_> {
    fn name(&self) -> &str {
        self.0
    }
    fn launch(&mut self, _: usize, stream: &Stream) -> Result<(), Error> {
        Ok(self.1.run(1.0, 0.0, stream)?)
    }
}

impl Rate {
    /// The rate of launches that each do `amount`, in units of 10^6 operations or 10^3 bytes.
    fn of(timing: Timing, amount: f64) -> Self {
        let rate = amount / timing.median_us;
        Self { timing, rate }
    }
}

/// A kernel that only multiplies or only loads, with its tensor maps.
struct Alone<'a> {
    device: &'a Device,
    module: &'a Module,
    desc: &'static KernelDesc,
    /// The tensor maps of each set of operands.
    maps: Vec<Vec<TensorMap>>,
    count: u32,
}

impl<'a> Alone<'a> {
    /// wgmma alone: `batches` batches of operands that repeat `values`.
    fn multiplying(
        device: &'a Device,
        module: &'a Module,
        values: &[f32],
        batches: u32,
    ) -> Result<Self, host::Error> {
        let desc = &<ceilings::wgmma_alone as Kernel>::DESC;
        let tensor = |rows: usize, cols: usize, param: usize| {
            let all: Vec<f32> = values.iter().copied().cycle().take(rows * cols).collect();
            let buffer = device.upload(&data::encode(&all, Dtype::Bf16)?)?;
            map(device, &buffer, [rows, cols], desc, param)
        };
        let rows = device.sms() as usize * ROWS;
        let maps =
            vec![tensor(rows, DEPTH, 0)?, tensor(COLUMNS, DEPTH, 1)?, tensor(rows, COLUMNS, 2)?];
        Ok(Self { device, module, desc, maps: vec![maps], count: batches })
    }

    /// TMA loads alone, of `bytes` bytes, in as many places of `from` as it has.
    fn reading(
        device: &'a Device,
        module: &'a Module,
        from: &Buffer,
        bytes: u64,
    ) -> Result<Self, host::Error> {
        let desc = &<ceilings::tma_read_alone as Kernel>::DESC;
        let rows = (bytes / ROW_BYTES) as usize;
        let sums_rows = device.sms() as usize * 64;
        let sums = device.alloc(sums_rows * ROW_BYTES as usize)?;
        let cols = (ROW_BYTES / 2) as usize;
        let maps = |set: u64| {
            Ok(vec![
                map_at(device, from, set * bytes, [rows, cols], desc, 0)?,
                map(device, &sums, [sums_rows, cols], desc, 1)?,
            ])
        };
        let sets = from.len() as u64 / bytes;
        let maps = (0..sets).map(maps).collect::<Result<_, host::Error>>()?;
        Ok(Self { device, module, desc, maps, count: rows as u32 / 64 })
    }

    fn sets(&self) -> usize {
        self.maps.len()
    }
}

fn map(
    device: &Device,
    buffer: &Buffer,
    sizes: [usize; 2],
    desc: &KernelDesc,
    param: usize,
) -> Result<TensorMap, host::Error> {
    map_at(device, buffer, 0, sizes, desc, param)
}

fn map_at(
    device: &Device,
    buffer: &Buffer,
    offset: u64,
    [rows, cols]: [usize; 2],
    desc: &KernelDesc,
    param: usize,
) -> Result<TensorMap, host::Error> {
    let (rows, cols) = (rows as u64, cols as u64);
    let spec = TensorSpec { buffer, offset, dtype: Dtype::Bf16, rows, cols, pitch_bytes: 2 * cols };
    device.tensor_map(&spec, TensorBox::of(&desc.meta.params()[param]))
}

impl Contender for Alone<'_> {
    fn name(&self) -> &str {
        self.desc.meta.name()
    }
    fn launch(&mut self, set: usize, stream: &Stream) -> Result<(), Error> {
        let mut params: Vec<Param<'_>> =
            self.maps[set % self.sets()].iter().map(Param::map).collect();
        params.push(Param::value(self.count));
        let grid = [self.device.sms(), 1, 1];
        Ok(self.device.launch(self.module, self.desc, grid, &params, stream)?)
    }
}

impl fmt::Display for Ceilings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, copy_gbs, read, read_caches, read_as_much, .. } = self;
        let Self { decode, wgmma, square, wgmma_zeros, .. } = self;
        let mut line = |what: &str, r: &Rate, unit: &str, of: &str| {
            let (us, spread) = (r.timing.median_us, Times::of(&r.timing).spread());
            writeln!(f, "{what:32} {us:9.2} {spread:5.1} {:8.1} {unit:8} {of}", r.rate)
        };
        let of = |part: f64, of: &str| format!("{part:.3} of {of}");
        let peak = |rate: f64, peak: f64| of(rate / peak, "the peak at the highest clock");
        let product =
            |held: &Held| format!("{} {}", held.shape, without_types(&held.gemm.timing.name));
        let alone = |bytes: u64| format!("read alone, {} MiB", bytes >> 20);
        let (gbs, tflops) = ("GB/s", "TFLOP/s");
        line(&alone(READ_BYTES), read, gbs, &peak(read.rate, machine.peak_gbs))?;
        for Read { bytes, rate } in read_caches {
            line(&alone(*bytes), rate, gbs, &of(rate.rate / read.rate, "reading 1024 MiB"))?;
        }
        line(
            &alone(DECODE_BYTES),
            read_as_much,
            gbs,
            &of(read_as_much.rate / read.rate, "reading 1024 MiB"),
        )?;
        line(&product(decode), &decode.gemm, gbs, &of(decode.part, "that, B alone counted"))?;
        line("wgmma alone, normal numbers", wgmma, tflops, &peak(wgmma.rate, machine.peak_tflops))?;
        line(&product(square), &square.gemm, tflops, &of(square.part, "that"))?;
        line(
            "wgmma alone, zeros",
            wgmma_zeros,
            tflops,
            &peak(wgmma_zeros.rate, machine.peak_tflops),
        )?;
        write!(
            f,
            "{:32} {:15} {copy_gbs:8.1} {gbs:8} {}",
            "a copy",
            "",
            peak(*copy_gbs, machine.peak_gbs)
        )
    }
}
