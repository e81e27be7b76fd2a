//! How `ldmatrix` and `stmatrix` spread a matrix of 8 by 8 over the lanes of a warp.
//!
//! PTX manual, *ldmatrix*: lane `8 i + r` gives the address of row `r` of matrix `i`; register `i`
//! of lane `l` holds elements `2 (l % 4)` and `+ 1` of row `l / 4`. With `.trans` the matrix is
//! transposed: they are rows `2 (l % 4)` and `+ 1` of column `l / 4`.

use crate::finding::fault::Fault;
use crate::finding::rule::Rule;

/// A matrix by rows, of elements of 16 bits.
pub(crate) type Matrix = [[u16; 8]; 8];

/// Checks the address of a row that a lane gives.
pub(crate) fn row(addr: u32, lane: usize) -> Result<(), Fault> {
    if addr.is_multiple_of(16) {
        return Ok(());
    }
    let message = format!("row address {addr:#x} of lane {lane} is not a multiple of 16");
    Err(Fault::new(Rule::Misaligned, message))
}

/// The row that 16 bytes hold.
pub(crate) fn from_bytes(bytes: &[u8]) -> [u16; 8] {
    std::array::from_fn(|i| u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]))
}

/// The bytes of a row.
pub(crate) fn to_bytes(row: &[u16; 8], out: &mut [u8]) {
    for (b, e) in out.chunks_exact_mut(2).zip(row) {
        b.copy_from_slice(&e.to_le_bytes());
    }
}

/// Register `i` of each lane, of matrix `i`.
pub(crate) fn spread(matrix: &Matrix, trans: bool, i: usize, registers: &mut [[u32; 4]; 32]) {
    for (l, lane) in registers.iter_mut().enumerate() {
        let (r, c) = (l / 4, 2 * (l % 4));
        let (lo, hi) =
            if trans { (matrix[c][r], matrix[c + 1][r]) } else { (matrix[r][c], matrix[r][c + 1]) };
        lane[i] = u32::from(lo) | u32::from(hi) << 16;
    }
}

/// Matrix `i`, of register `i` of each lane.
pub(crate) fn collect(registers: &[[u32; 4]; 32], trans: bool, i: usize) -> Matrix {
    let mut matrix = Matrix::default();
    for (l, lane) in registers.iter().enumerate() {
        let (r, c) = (l / 4, 2 * (l % 4));
        for (k, half) in [lane[i] as u16, (lane[i] >> 16) as u16].into_iter().enumerate() {
            let (r, c) = if trans { (c + k, r) } else { (r, c + k) };
            matrix[r][c] = half;
        }
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spread_comes_back() {
        let matrix: Matrix = std::array::from_fn(|r| std::array::from_fn(|c| (10 * r + c) as u16));
        let mut registers = [[0; 4]; 32];
        for trans in [false, true] {
            spread(&matrix, trans, 2, &mut registers);
            assert_eq!(collect(&registers, trans, 2), matrix);
        }
        spread(&matrix, false, 0, &mut registers);
        assert_eq!(registers[5][0], 0xd_000c, "row 1, columns 2 and 3");
        spread(&matrix, true, 0, &mut registers);
        assert_eq!(registers[5][0], 0x1f_0015, "rows 2 and 3 of column 1");
        let mut bytes = [0; 16];
        to_bytes(&matrix[3], &mut bytes);
        assert_eq!(from_bytes(&bytes), matrix[3]);
    }
}
