//! The table of a pointer array: one line for each problem.

use gpu_kernels::gemm::grouped::PROBLEM_WORDS;

/// One problem of a pointer array: D [M, N] = alpha * A [M, K] * B [N, K]^T, row-major.
///
/// Offsets and pitches are in elements. An offset counts from the first element of the buffer that a run gets for the
/// operand, so the device can check it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArrayProblem {
    /// Rows of A and D.
    pub m: u64,
    /// Rows of B and columns of D: a multiple of 8.
    pub n: u64,
    /// Columns of A and B: at least 1.
    pub k: u64,
    /// Offsets of the first elements of A, B and D: multiples of 8.
    pub first: [u64; 3],
    /// Row pitches of A, B and D: multiples of 8.
    pub pitch: [u64; 3],
}

impl ArrayProblem {
    /// Bytes of a line of the table.
    pub const BYTES: u64 = 8 * PROBLEM_WORDS as u64;

    /// A problem whose matrices begin at `first` and have the shortest row pitches that TMA accepts.
    #[must_use]
    pub fn packed([m, n, k]: [u64; 3], first: [u64; 3]) -> Self {
        let [of_k, of_n] = [k, n].map(|x| x.next_multiple_of(8));
        Self { m, n, k, first, pitch: [of_k, of_k, of_n] }
    }

    /// Elements that A, B and D take: the rows times the pitch, with the gap behind the last row.
    #[must_use]
    pub fn elements(&self) -> [u64; 3] {
        let [of_a, of_b, of_d] = self.pitch;
        [(self.m, of_a), (self.n, of_b), (self.m, of_d)]
            .map(|(rows, pitch)| rows.saturating_mul(pitch))
    }

    /// The line of the table, as it lies in device memory.
    #[must_use]
    pub fn line(&self) -> [u64; PROBLEM_WORDS as usize] {
        let Self { m, n, k, first: [a, b, d], pitch: [of_a, of_b, of_d] } = *self;
        [m, n, k, a, b, d, of_a, of_b, of_d]
    }

    /// The table of `problems`, for an upload.
    #[must_use]
    pub fn table(problems: &[Self]) -> Vec<u8> {
        problems.iter().flat_map(Self::line).flat_map(u64::to_ne_bytes).collect()
    }
}
