//! Runs one test on the SM model, under several schedules, and on a GPU where there is one.
//!
//! Shared, by path, by the tests of the kernels and those of the scenarios, whose programs have
//! host/tests/common/gpu.rs as `gpu` beside it.
#![allow(dead_code)]

use half::{bf16, f16};
use host::{Buffer, Device, Dtype, Error, Module, Param, SimConfig, TensorBox, TensorSpec};
use isa::kernel::{Image, KernelDesc, ParamMeta};
use std::io::Write;

/// A device to test on, with the image loaded.
pub struct Bench {
    pub device: Device,
    module: Module,
    /// What it is, for messages.
    what: String,
}

/// Runs `test` on the model with each of `seeds`, which are schedules, then on GPU 0.
///
/// Without a GPU a line says so; with `WARPIPE_REQUIRE_GPU=1` that fails the test. `WARPIPE_SKIP_MODEL=1` leaves out the
/// model, which takes most of the time; then a missing GPU fails the test, too.
pub fn on_devices(image: &'static Image, name: &str, seeds: u64, test: impl Fn(&Bench)) {
    let set = |name| std::env::var_os(name).is_some_and(|v| v == "1");
    let skip_model = set("WARPIPE_SKIP_MODEL");
    for seed in (0..seeds).filter(|_| !skip_model) {
        let device = Device::sim(SimConfig { seed, ..SimConfig::default() });
        test(&Bench::new(device, image, format!("{name}, seed {seed}")));
    }
    let _alone = crate::gpu::alone();
    // A GPU for which the image has no code is none for this test.
    match Device::cuda(0).and_then(|device| device.load(image).map(|_| device)) {
        Ok(device) => test(&Bench::new(device, image, format!("{name}, GPU"))),
        Err(why) => {
            assert!(!skip_model, "WARPIPE_SKIP_MODEL=1: {why}");
            assert!(!set("WARPIPE_REQUIRE_GPU"), "WARPIPE_REQUIRE_GPU=1: {why}");
            let _ = writeln!(std::io::stderr(), "{name}: on the model alone, {why}");
        }
    }
}

impl Bench {
    fn new(device: Device, image: &'static Image, what: String) -> Self {
        let module = device.load(image).unwrap_or_else(|e| panic!("{what}: {e}"));
        Self { device, module, what }
    }

    /// What it is, for messages.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Launches a kernel and waits for it; `case` says which of a test's cases it is.
    pub fn launch(&self, desc: &KernelDesc, ctas: u32, params: &[Param<'_>], case: &str) {
        self.try_launch(desc, ctas, params).unwrap_or_else(|e| {
            panic!("{}: {}, {ctas} CTAs, {case}:\n{e}", self.what, desc.meta.name())
        });
    }

    /// As `launch`, for launches that must fail.
    pub fn try_launch(
        &self,
        desc: &KernelDesc,
        ctas: u32,
        params: &[Param<'_>],
    ) -> Result<(), Error> {
        self.device.launch(&self.module, desc, [ctas, 1, 1], params, &self.device.stream())?;
        self.device.synchronize()
    }

    /// Compares a result with what it should be, element by element.
    pub fn expect(&self, have: &Matrix, want: impl Fn(usize, usize) -> f32, case: &str) {
        self.expect_near(have, want, 0.0, case);
    }

    /// As `expect`, with a relative error.
    pub fn expect_near(
        &self,
        have: &Matrix,
        want: impl Fn(usize, usize) -> f32,
        tolerance: f32,
        case: &str,
    ) {
        for (i, &x) in have.values().iter().enumerate() {
            let (row, col) = (i / have.cols, i % have.cols);
            let y = want(row, col);
            assert!(
                (x - y).abs() <= tolerance * y.abs(),
                "{}: {case}: element ({row}, {col}) is {x}, should be {y}",
                self.what
            );
        }
    }
}

/// A row-major matrix on a device, whose rows are padded for TMA. Padding, and what a kernel must
/// write, is full of NaNs.
pub struct Matrix {
    pub buffer: Buffer,
    dtype: Dtype,
    pub rows: usize,
    pub cols: usize,
}

/// The NaN of the padding: every byte 0xff.
const POISON: u8 = 0xff;

impl Matrix {
    /// A matrix of given values.
    pub fn new(
        bench: &Bench,
        dtype: Dtype,
        rows: usize,
        cols: usize,
        f: impl Fn(usize, usize) -> f32,
    ) -> Self {
        let mut this = Self::poisoned(bench, dtype, rows, cols);
        let pitch = this.pitch();
        let mut bytes = vec![POISON; rows * pitch];
        for row in 0..rows {
            for col in 0..cols {
                let (x, at) = (f(row, col), row * pitch + col * dtype.size());
                match dtype {
                    Dtype::Bf16 => {
                        bytes[at..][..2].copy_from_slice(&bf16::from_f32(x).to_le_bytes());
                    }
                    Dtype::F16 => {
                        bytes[at..][..2].copy_from_slice(&f16::from_f32(x).to_le_bytes());
                    }
                    Dtype::F32 => bytes[at..][..4].copy_from_slice(&x.to_le_bytes()),
                    other => panic!("no test has matrices of {other:?}"),
                }
            }
        }
        this.buffer.write(&bytes).expect("the matrix's own buffer");
        this
    }

    /// A matrix that a kernel has to write.
    pub fn poisoned(bench: &Bench, dtype: Dtype, rows: usize, cols: usize) -> Self {
        let pitch = Self::pitch_of(dtype, cols);
        let mut buffer = bench.device.alloc(rows * pitch).expect("a small matrix");
        buffer.fill(POISON).expect("just allocated");
        Self { buffer, dtype, rows, cols }
    }

    /// Bytes from row to row: what TMA takes, and always some padding, which must stay as it is.
    fn pitch_of(dtype: Dtype, cols: usize) -> usize {
        (cols * dtype.size()).next_multiple_of(16) + 16
    }
    fn pitch(&self) -> usize {
        Self::pitch_of(self.dtype, self.cols)
    }

    /// The tensor map that a kernel's parameter asks for.
    pub fn map(&self, bench: &Bench, param: &ParamMeta) -> host::TensorMap {
        let spec = TensorSpec {
            buffer: &self.buffer,
            offset: 0,
            dtype: self.dtype,
            rows: self.rows as u64,
            cols: self.cols as u64,
            pitch_bytes: self.pitch() as u64,
        };
        let map = bench.device.tensor_map(&spec, TensorBox::of(param));
        map.unwrap_or_else(|e| panic!("{}: {e}", bench.what))
    }

    /// What it holds; the padding must be as it was, but for the rest of a row's last 16 bytes, which
    /// TMA writes with it.
    pub fn values(&self) -> Vec<f32> {
        let bytes = self.buffer.to_vec().expect("the matrix's own buffer");
        let width = self.cols * self.dtype.size();
        let mut values = Vec::with_capacity(self.rows * self.cols);
        for (row, bytes) in bytes.chunks_exact(self.pitch()).enumerate() {
            let (inside, rest) = bytes.split_at(width);
            let padding = &rest[width.next_multiple_of(16) - width..];
            assert!(padding.iter().all(|&b| b == POISON), "row {row}: the padding was written");
            values.extend(inside.chunks_exact(self.dtype.size()).map(|b| match self.dtype {
                Dtype::Bf16 => bf16::from_le_bytes([b[0], b[1]]).to_f32(),
                Dtype::F16 => f16::from_le_bytes([b[0], b[1]]).to_f32(),
                _ => f32::from_le_bytes([b[0], b[1], b[2], b[3]]),
            }));
        }
        values
    }

    /// Whether nobody has written to it.
    pub fn untouched(&self) -> bool {
        self.buffer.to_vec().expect("the matrix's own buffer").iter().all(|&b| b == POISON)
    }
}

/// A small integer that depends on its arguments in no simple way: sums of products of them are exact
/// in f32, so results can be compared bit for bit.
pub fn small(salt: u32, row: usize, col: usize) -> f32 {
    let mut x =
        salt ^ (row as u32).wrapping_mul(0x9e37_79b9) ^ (col as u32).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 15)).wrapping_mul(0x2c1b_3c6d);
    x = (x ^ (x >> 12)).wrapping_mul(0x297a_2d39);
    ((x >> 16) % 7) as f32 - 3.0
}
