//! TMA loads: every rank, edge, swizzle and element size, byte by byte.

use super::wgmma_layout::swizzled;
use super::{Litmus, Refusal};
use crate::bench::{Bench, UNWRITTEN, words};
use crate::kernels::tensor::*;
use crate::log::{Allowed, Log};
use host::{Buffer, Dtype, Error, Param, TensorMap, TensorNd};
use isa::kernel::{Kernel, KernelDesc};

pub(super) const ALL: &[Litmus] = &[
    Litmus {
        name: "TMA: loads of rank 1 to 5, with edges",
        says: "Coordinates are in elements and may be negative or beyond the end; what lies outside \
               reads as zero, and the full box counts in bytes.",
        run: ranks,
        refused: None,
    },
    Litmus {
        name: "TMA: swizzles",
        says: "Spans of 128, 64 and 32 bytes exchange the 16-byte chunks of a row with its row \
               number, modulo 8, 4 and 2, over 128, 128 and 128 bytes of address.",
        run: swizzles,
        refused: None,
    },
    Litmus {
        name: "TMA: a load that begins between 16-byte boundaries",
        says: "The manual does not forbid it.",
        run: misaligned,
        refused: Some(Refusal::both("WP015", ILLEGAL)),
    },
    Litmus {
        name: "TMA: the largest box",
        says: "A box has at most 256 elements in each dimension.",
        run: limits,
        refused: None,
    },
];

/// What the chip says of an instruction that its TMA unit refuses.
pub(super) const ILLEGAL: &str = "CUDA_ERROR_ILLEGAL_INSTRUCTION";

/// A tensor whose elements are named by where they lie, and a box of it.
#[derive(Clone, Copy)]
pub(super) struct Tensor<'a> {
    pub dtype: Dtype,
    pub dims: &'a [u64],
    pub box_dims: &'a [u32],
    pub swizzle: u32,
}

impl<'a> Tensor<'a> {
    /// One without a swizzle.
    pub fn plain(dtype: Dtype, dims: &'a [u64], box_dims: &'a [u32]) -> Self {
        Self { dtype, dims, box_dims, swizzle: 0 }
    }
}

impl Tensor<'_> {
    /// Bytes of an element.
    pub fn size(&self) -> u64 {
        self.dtype.size() as u64
    }

    /// Bytes between elements of the outer dimensions: rows end on 16 bytes, and 16 bytes of padding
    /// follow; every further dimension has one row of padding.
    pub fn strides(&self) -> Vec<u64> {
        let mut strides: Vec<u64> = Vec::new();
        for d in 1..self.dims.len() {
            strides.push(match strides.last() {
                None => (self.dims[0] * self.size()).next_multiple_of(16) + 16,
                Some(inner) => inner * self.dims[d - 1] + strides[0],
            });
        }
        strides
    }

    /// Bytes of the tensor with its padding.
    pub fn bytes(&self) -> u64 {
        let row = (self.dims[0] * self.size()).next_multiple_of(16) + 16;
        let outer: u64 = self.dims[1..].iter().zip(self.strides()).map(|(d, s)| (d - 1) * s).sum();
        row + outer
    }

    /// Bytes of the box.
    pub fn box_bytes(&self) -> u32 {
        self.box_dims.iter().product::<u32>() * self.size() as u32
    }

    /// Address of an element in the tensor's memory, if it is one.
    pub fn address(&self, at: &[i64]) -> Option<u64> {
        let inside = at.iter().zip(self.dims).all(|(&x, &d)| x >= 0 && (x as u64) < d);
        let outer = || at[1..].iter().zip(self.strides()).map(|(&x, s)| x as u64 * s).sum::<u64>();
        inside.then(|| at[0] as u64 * self.size() + outer())
    }

    /// The elements of the box at `coords`, in the order of the box: offset in shared memory, and
    /// coordinates in the tensor.
    pub fn elements(&self, coords: [i32; 5]) -> impl Iterator<Item = (u32, Vec<i64>)> {
        let count: u32 = self.box_dims.iter().product();
        (0..count).map(move |e| {
            let mut rest = e;
            let at = self.box_dims.iter().zip(coords).map(|(&size, c)| {
                let x = i64::from(c) + i64::from(rest % size);
                rest /= size;
                x
            });
            (swizzled(self.swizzle, e * self.size() as u32), at.collect())
        })
    }

    /// The map of the tensor in `buffer`.
    pub fn map(&self, bench: &Bench, buffer: &Buffer) -> Result<TensorMap, Error> {
        bench.device.tensor_map_nd(&TensorNd {
            buffer,
            dtype: self.dtype,
            dims: self.dims,
            strides: &self.strides(),
            box_dims: self.box_dims,
            swizzle_bytes: self.swizzle,
        })
    }

    /// The bytes that a load of the box at `coords` brings from the tensor's memory.
    pub fn loads(&self, data: &[u8], coords: [i32; 5]) -> Vec<u8> {
        let (mut box_bytes, size) = (vec![0; self.box_bytes() as usize], self.size() as usize);
        for (offset, at) in self.elements(coords) {
            if let Some(address) = self.address(&at) {
                box_bytes[offset as usize..][..size]
                    .copy_from_slice(&data[address as usize..][..size]);
            }
        }
        box_bytes
    }

    /// What it is, in words.
    pub fn describe(&self, coords: [i32; 5]) -> String {
        let rank = self.dims.len();
        format!(
            "{:?} {:?}, box {:?}, swizzle {}, at {:?}",
            self.dtype,
            self.dims,
            self.box_dims,
            self.swizzle,
            &coords[..rank]
        )
    }
}

/// The byte at an address of a tensor's memory: never zero, and different for neighbours.
pub(super) fn named(address: u64) -> u8 {
    ((address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).max(1)
}

fn load(bench: &Bench, log: &mut Log, of: Tensor<'_>, coords: &[[i32; 5]]) -> Result<(), Error> {
    let kernels: [&KernelDesc; 5] = [
        &tensor_load_1::DESC,
        &tensor_load_2::DESC,
        &tensor_load_3::DESC,
        &tensor_load_4::DESC,
        &tensor_load_5::DESC,
    ];
    let data: Vec<u8> = (0..of.bytes()).map(named).collect();
    let buffer = bench.device.upload(&data)?;
    let map = of.map(bench, &buffer)?;
    for &at in coords {
        let bytes = of.box_bytes();
        let count = (1 + bytes / 4 + GUARD) as usize;
        let params = vec![Param::map(&map), Param::value(Coords(at)), Param::value(bytes)];
        log.part(format!("{}: the phase completed", of.describe(at)));
        let have = bench.observe_desc(kernels[of.dims.len() - 1], [1, 1, 1], count, params)?;
        let want = of.loads(&data, at);
        log.push(have[0], Allowed::Is(1));
        log.part(format!("{}: words of the box", of.describe(at)));
        log.exactly(&have[1..=(bytes / 4) as usize], words(&want));
        log.part(format!("{}: words behind it", of.describe(at)));
        log.exactly(&have[1 + (bytes / 4) as usize..], [FILL; GUARD as usize]);
        assert_ne!(FILL, UNWRITTEN, "a kernel that does not write shows");
    }
    Ok(())
}

fn ranks(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    use Dtype::{Bf16, F16, F32, U8, U32};
    let t = Tensor::plain;
    let line = |xs: &[i32]| xs.iter().map(|&x| [x, 0, 0, 0, 0]).collect::<Vec<_>>();
    load(
        bench,
        log,
        t(U32, &[100], &[16]),
        &line(&[0, 4, 84, 96, 100, 1000, -4, -12, -16, -1000, i32::MAX - 19, i32::MIN]),
    )?;
    load(bench, log, t(Bf16, &[203], &[64]), &line(&[0, 8, 136, 152, 200, 208, -8, -56, -64]))?;
    load(bench, log, t(U8, &[333], &[48]), &line(&[0, 16, 288, 320, 336, -16, -48]))?;
    let plane = |xs: &[[i32; 2]]| xs.iter().map(|&[x, y]| [x, y, 0, 0, 0]).collect::<Vec<_>>();
    let edges = [
        [0, 0],
        [16, 3],
        [0, 7],
        [-16, -2],
        [-16, 0],
        [0, -1],
        [48, 20],
        [64, 39],
        [80, 39],
        [80, 0],
        [0, 40],
        [-64, 0],
        [0, -24],
        [-112, -100],
        [512, 500],
        [64, -5],
        [-16, 33],
    ];
    load(bench, log, t(F16, &[72, 40], &[64, 24]), &plane(&edges))?;
    load(bench, log, t(F32, &[72, 40], &[20, 10]), &plane(&edges))?;
    load(bench, log, t(U8, &[72, 40], &[32, 8]), &plane(&edges))?;
    load(
        bench,
        log,
        t(Bf16, &[37, 6, 5], &[16, 4, 3]),
        &[
            [0, 0, 0, 0, 0],
            [24, 2, 2, 0, 0],
            [32, 5, 4, 0, 0],
            [-8, -1, -2, 0, 0],
            [16, -2, 3, 0, 0],
            [40, 3, -1, 0, 0],
            [-16, 0, 0, 0, 0],
            [0, 6, 0, 0, 0],
        ],
    )?;
    load(
        bench,
        log,
        t(F32, &[24, 3, 4, 3], &[8, 2, 3, 2]),
        &[
            [0, 0, 0, 0, 0],
            [16, 1, 1, 1, 0],
            [20, 2, 3, 2, 0],
            [-4, -1, -1, -1, 0],
            [4, 2, -2, 1, 0],
            [0, 0, 0, 3, 0],
        ],
    )?;
    load(
        bench,
        log,
        t(Bf16, &[19, 3, 3, 2, 3], &[8, 2, 2, 2, 2]),
        &[
            [0, 0, 0, 0, 0],
            [8, 1, 1, 0, 1],
            [16, 2, 2, 1, 2],
            [-8, -1, -1, -1, -1],
            [8, -1, 2, 0, 2],
            [0, 0, 0, 0, -2],
        ],
    )
}

fn swizzles(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    use Dtype::{Bf16, F16, F32, U8, U32};
    for dtype in [Bf16, F32, U8, F16, U32] {
        for span in [0, 32, 64, 128] {
            // Without a swizzle any row of whole chunks: here three of them.
            let cols = if span == 0 { 48 } else { span } / dtype.size() as u32;
            let of = Tensor {
                dtype,
                dims: &[u64::from(cols) + 9, 70],
                box_dims: &[cols, 40],
                swizzle: span,
            };
            load(
                bench,
                log,
                of,
                &[[0; 5], [16, 11, 0, 0, 0], [-16, 45, 0, 0, 0], [16, -7, 0, 0, 0]],
            )?;
        }
    }
    // Rows of every outer dimension count on: the pattern runs through the box.
    let of = Tensor { dtype: Bf16, dims: &[64, 5, 4], box_dims: &[64, 3, 4], swizzle: 128 };
    load(bench, log, of, &[[0; 5], [0, 2, 0, 0, 0], [-8, -1, 1, 0, 0]])?;
    let of =
        Tensor { dtype: F32, dims: &[16, 3, 2, 2, 3], box_dims: &[8, 3, 2, 1, 3], swizzle: 32 };
    load(bench, log, of, &[[0; 5], [8, 0, 0, 1, 0], [4, 1, -1, 1, 1]])
}

fn misaligned(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    load(bench, log, Tensor::plain(Dtype::U32, &[100], &[16]), &[[1, 0, 0, 0, 0]])
}

fn limits(bench: &Bench, log: &mut Log) -> Result<(), Error> {
    let t = Tensor::plain;
    load(bench, log, t(Dtype::F32, &[256], &[256]), &[[0; 5], [-4, 0, 0, 0, 0]])?;
    load(bench, log, t(Dtype::U8, &[300, 9], &[256, 8]), &[[0; 5], [48, 1, 0, 0, 0]])?;
    load(bench, log, t(Dtype::Bf16, &[8, 260], &[8, 256]), &[[0; 5], [0, 4, 0, 0, 0]])?;
    load(bench, log, t(Dtype::F16, &[64, 256], &[64, 256]), &[[0; 5], [0, 1, 0, 0, 0]])
}
