//! Block scales: their instruction descriptor, their place in tensor memory, and the copy that brings them there.
//!
//! PTX manual, *TensorCore 5th Generation Family Instructions*: "Block Scaling", `tcgen05.cp`.

use super::descriptor::{Kind, M, Shape};
use super::memory::TensorMemory;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use std::ops::Range;

/// Columns of tensor memory that one copy fills, and rows of 16 bytes that it reads.
pub(crate) const COPIED: u32 = 4;
const ROWS: u32 = 32;

fn wrong(message: String) -> Fault {
    Fault::new(Rule::Descriptor, message)
}

/// Takes the instruction descriptor of `.kind::mxf8f6f4` apart: the shape, and the bytes of the factors of A and B in each
/// word.
pub(crate) fn shape(d: u32) -> Result<(Shape, [u32; 2]), Fault> {
    let bits = |first: u32, count: u32| d >> first & ((1 << count) - 1);
    if bits(23, 1) != 1 || bits(31, 1) != 0 {
        return Err(wrong(format!(
            "instruction descriptor {d:#x} of kind mxf8f6f4: the factors are ue8m0 (bit 23 is 1), and the extent along K is 32 \
             (bit 31 is 0)"
        )));
    }
    // The other fields are those of kind f8f6f4, whose sums have a field that is the factors' here.
    let plain = d & !(3 << 4 | 1 << 23 | 3 << 29) | 1 << 4;
    Ok((Shape::new(plain, Kind::F8f6f4, false)?, [bits(29, 2), bits(4, 2)]))
}

/// The addresses of the 16-byte rows that a copy of `.32x128b` reads.
pub(crate) fn copied(d: u64) -> Result<Vec<u32>, Fault> {
    if d >> 46 & 7 != 1 || d >> 61 != 0 {
        return Err(wrong(format!(
            "shared-memory descriptor {d:#x} of tcgen05.cp: bits 48 to 46 are 0b001, and the model knows no swizzle (bits 63 \
             to 61 are 0)"
        )));
    }
    let field = |first: u32| ((d >> first & 0x3fff) << 4) as u32;
    let (start, stride) = (field(0), field(32));
    Ok((0..ROWS).map(|row| start + row / 8 * stride + row % 8 * 16).collect())
}

/// Columns of the factors of `rows` rows, from `first` on.
pub(crate) fn columns(first: u32, rows: u32) -> Range<u32> {
    first..first + rows.div_ceil(ROWS)
}

/// The factors of `rows` rows: each 32 lanes must have the same.
pub(crate) fn factors(
    memory: &mut TensorMemory,
    first: u32,
    rows: u32,
    byte: u32,
) -> Result<Vec<f32>, Fault> {
    let factor = |row: u32| {
        let (lane, column) = (row % ROWS, first + row / ROWS);
        let word = *memory.word(lane, column);
        let same = (1..M / ROWS).all(|quarter| *memory.word(lane + ROWS * quarter, column) == word);
        if !same {
            let message = format!(
                "the factors at lane {lane}, column {column} of tensor memory differ in its quarters of 32 lanes: all have the same \
                 (tcgen05.cp with .warpx4)"
            );
            return Err(Fault::new(Rule::TensorLanes, message));
        }
        let x = word >> (8 * byte) & 0xff;
        Ok(if x == 0xff { f32::NAN } else { 2.0_f32.powi(x.cast_signed() - 127) })
    };
    (0..rows).map(factor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_of_the_field() {
        // 128 x 128, e4m3, with the factors of byte 2.
        let (shape, bytes) = shape(0x48a0_0020).unwrap();
        assert_eq!((shape.n, bytes), (128, [2, 2]));
        assert!(super::shape(0x4820_0020).is_err(), "ue4m3");
    }

    #[test]
    fn a_copy_reads_rows_of_sixteen_bytes() {
        let rows = copied(1 << 46 | 8 << 32 | 0x40).unwrap();
        assert_eq!((rows[0], rows[1], rows[8], rows[31]), (0x400, 0x410, 0x480, 0x5f0));
    }
}
