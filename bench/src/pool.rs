//! Operands for any number of shapes, from normal values that are made and uploaded once.
//!
//! No two rows of a matrix are equal, so the check finds exchanged rows or columns. The host makes
//! [`PERIOD`] values, and the device repeats them until its allocation is full. The period is a prime
//! larger than `rows` and `cols`. Rows begin `cols` elements apart, and no multiple of `cols` below
//! `rows * cols` is a multiple of such a prime.

use super::check::Values;
use host::gemm::GemmProblem;
use host::{Buffer, Copy2d, Device, Dtype, Error, data};

/// Number of different values of a pool: the first prime above 2^25, 64 MiB of bf16.
const PERIOD: usize = 33_554_467;
/// Operands begin at multiples of this many bytes, the alignment of an allocation.
const ALIGN: usize = 256;
/// Largest number of operand sets in rotation.
const MOST_SETS: u64 = 256;

/// How many sets of operands of `bytes` bytes fill an L2 cache of `l2_bytes` bytes twice: from 1 to `most`.
///
/// Launches that take turns at them find nothing of their own set in the cache, unless `most` sets are too few.
pub fn rotating_sets(bytes: usize, l2_bytes: u64, most: u64) -> usize {
    (2 * l2_bytes).div_ceil(bytes.max(1) as u64).clamp(1, most) as usize
}

/// Normal values on a device and on the host.
pub struct Pool {
    dtype: Dtype,
    /// One period, rounded to the pool's type.
    values: Vec<f32>,
    buffer: Buffer,
}

/// A matrix in a pool, row-major without gaps.
pub struct Operand<'p> {
    values: &'p [f32],
    start: usize,
    cols: usize,
    /// The matrix on the device.
    pub buffer: Buffer,
}

/// The operand sets of a problem in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Sets of operands.
    pub sets: usize,
    /// Elements of A, rounded up.
    a: usize,
    /// Elements of A and B, both rounded up.
    both: usize,
}

impl Rotation {
    /// Chooses as many sets as fill the L2 cache twice, so that nothing of a set is left there when it is
    /// used again.
    pub fn of(problem: &GemmProblem, l2_bytes: u64) -> Self {
        let align = ALIGN / problem.ab.size();
        let round = |rows: u64, cols: u64| ((rows * cols) as usize).next_multiple_of(align);
        let (a, b) = (round(problem.m, problem.k), round(problem.n, problem.k));
        let sets = rotating_sets((a + b) * problem.ab.size(), l2_bytes, MOST_SETS);
        Self { sets, a, both: a + b }
    }

    /// Elements of all sets.
    pub fn elements(&self) -> usize {
        self.sets * self.both
    }
}

impl Pool {
    /// Makes a pool of `elements` values.
    ///
    /// # Errors
    /// [`Error::GemmDtype`] for types that are not floats; [`Error::OutOfMemory`]; errors of the driver.
    pub fn new(device: &Device, dtype: Dtype, seed: u64, elements: usize) -> Result<Self, Error> {
        Self::with_period(device, dtype, seed, elements, PERIOD)
    }

    fn with_period(
        device: &Device,
        dtype: Dtype,
        seed: u64,
        elements: usize,
        period: usize,
    ) -> Result<Self, Error> {
        let period = period.min(elements);
        let bytes = data::encode(&data::normal(seed, period), dtype)?;
        let buffer = device.alloc(elements * dtype.size())?;
        let first = device.upload(&bytes)?;
        let stream = device.stream();
        for start in (0..buffer.len()).step_by(bytes.len().max(1)) {
            let width = bytes.len().min(buffer.len() - start);
            let pitch = width as u64;
            let shape = Copy2d { width: pitch, rows: 1, src_pitch: pitch, dst_pitch: pitch };
            device.copy_2d(&first, &mut buffer.part(start, width)?, shape, &stream)?;
        }
        stream.synchronize()?;
        Ok(Self { dtype, values: data::decode(&bytes, dtype)?, buffer })
    }

    /// A and B of set `set`.
    ///
    /// # Errors
    /// [`Error::OutOfBuffer`] if the pool is too small for the set.
    pub fn operands(
        &self,
        problem: &GemmProblem,
        rotation: Rotation,
        set: usize,
    ) -> Result<[Operand<'_>; 2], Error> {
        let start = set * rotation.both;
        Ok([
            self.matrix(start, problem.m, problem.k)?,
            self.matrix(start + rotation.a, problem.n, problem.k)?,
        ])
    }

    /// The matrix that begins at an element. It may begin at any multiple of 16 bytes.
    ///
    /// # Errors
    /// [`Error::OutOfBuffer`] if the pool is too small for it.
    pub fn matrix(&self, start: usize, rows: u64, cols: u64) -> Result<Operand<'_>, Error> {
        let size = self.dtype.size();
        let bytes = (rows * cols) as usize * size;
        let buffer = self.buffer.part(start * size, bytes)?;
        Ok(Operand { values: &self.values, start, cols: cols as usize, buffer })
    }
}

impl Values for Operand<'_> {
    fn row(&self, row: usize, out: &mut [f32]) {
        let mut from = (self.start + row * self.cols) % self.values.len();
        let mut out = &mut out[..self.cols];
        while !out.is_empty() {
            let len = out.len().min(self.values.len() - from);
            let (now, rest) = out.split_at_mut(len);
            now.copy_from_slice(&self.values[from..from + len]);
            (out, from) = (rest, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::data::decode;

    fn problem(m: u64, n: u64, k: u64) -> GemmProblem {
        GemmProblem { m, n, k, ab: Dtype::Bf16, out: Dtype::Bf16, beta_c: false }
    }

    #[test]
    fn what_the_device_has_is_what_the_host_says() {
        let device = Device::sim(host::SimConfig::default());
        let p = problem(7, 30, 19);
        let rotation = Rotation::of(&p, 1000);
        assert_eq!((rotation.sets, rotation.a, rotation.both), (2, 256, 896));
        // A period shorter than a row's distance to its end: rows wrap around.
        let pool =
            Pool::with_period(&device, Dtype::Bf16, 5, rotation.elements(), 101).expect("a pool");
        let mut first = Vec::new();
        for set in 0..rotation.sets {
            let operands = pool.operands(&p, rotation, set).expect("both");
            for (operand, rows) in operands.iter().zip([7, 30]) {
                let have = decode(&operand.buffer.to_vec().expect("bytes"), Dtype::Bf16).unwrap();
                let mut row = [0.0; 19];
                for i in 0..rows {
                    operand.row(i, &mut row);
                    assert_eq!(row.to_vec(), have[i * 19..][..19].to_vec(), "set {set}, row {i}");
                }
                first.push(have[..8].to_vec());
            }
        }
        // A, B and the sets are four different parts of the pool.
        for (i, one) in first.iter().enumerate() {
            assert!(first[..i].iter().all(|other| other != one));
        }
        let past = Rotation { sets: 3, ..rotation };
        assert!(pool.operands(&p, past, 2).is_err());
    }

    #[test]
    fn small_problems_rotate_and_large_ones_need_not() {
        let l2 = 60 << 20;
        assert_eq!(Rotation::of(&problem(512, 512, 512), l2).sets, 120);
        assert_eq!(Rotation::of(&problem(1, 4096, 4096), l2).sets, 4);
        assert_eq!(Rotation::of(&problem(16384, 16384, 16384), l2).sets, 1);
        assert_eq!(Rotation::of(&problem(1, 1, 1), l2).sets, 256);
    }

    #[test]
    fn operands_of_one_byte_begin_at_the_same_multiples() {
        let p = GemmProblem { ab: Dtype::E4m3, ..problem(7, 30, 19) };
        let rotation = Rotation::of(&p, 1000);
        assert_eq!((rotation.sets, rotation.a, rotation.both), (2, 256, 1024));
    }

    #[test]
    fn the_period_is_prime() {
        assert!((2..=PERIOD.isqrt()).all(|i| !PERIOD.is_multiple_of(i)));
    }
}
