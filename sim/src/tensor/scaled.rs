//! Block scales: their instruction descriptor, and their place in tensor memory.
//!
//! PTX manual, *TensorCore 5th Generation Family Instructions*: "Block Scaling".

use super::descriptor::{Kind, M, Shape};
use super::memory::TensorMemory;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use float8::F8E4M3;
use std::ops::Range;

/// Rows of a column.
const ROWS: u32 = 32;

fn wrong(message: String) -> Fault {
    Fault::new(Rule::Descriptor, message)
}

/// What a kind asks of its factors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Factors {
    /// Of each row in one instruction: its `.scale_vec`.
    pub count: u32,
    /// Whether they are ue8m0, and not ue4m3.
    powers: bool,
    /// The first byte of those of A and B in each word.
    pub bytes: [u32; 2],
}

/// Takes the instruction descriptor of a kind with block scales apart, by one CTA or by a pair: the shape, and its factors.
pub(crate) fn shape(d: u32, kind: Kind, pair: bool) -> Result<(Shape, Factors), Fault> {
    let bits = |first: u32, count: u32| d >> first & ((1 << count) - 1);
    let (count, powers) = match kind {
        Kind::Mxf4nvf4 => (4, false),
        Kind::Mxf4 => (2, true),
        _ => (1, true),
    };
    let name = kind.name();
    if bits(23, 1) != u32::from(powers) || bits(31, 1) != 0 {
        let (factors, bit) = if powers { ("ue8m0", 1) } else { ("ue4m3", 0) };
        return Err(wrong(format!(
            "instruction descriptor {d:#x} of kind {name} with {count} factors for a row: they are {factors} (bit 23 is {bit}), and \
             the extent along K is 32 bytes (bit 31 is 0)"
        )));
    }
    let bytes = [bits(29, 2), bits(4, 2)];
    if let Some(byte) = bytes.into_iter().find(|byte| !byte.is_multiple_of(count)) {
        return Err(wrong(format!(
            "instruction descriptor {d:#x} of kind {name} with factors from byte {byte} on: {count} for a row begin at a multiple of \
             {count}"
        )));
    }
    if count > 1 && bits(15, 2) != 0 {
        return Err(wrong(format!(
            "instruction descriptor {d:#x} of kind {name} with an MN-major operand: those of 4 bits are K-major (bits 15 and 16 \
             are 0)"
        )));
    }
    // The other fields are those of the kinds without factors, whose sums have a field that is the factors' here.
    let plain = d & !(3 << 4 | 1 << 23 | 3 << 29) | 1 << 4;
    Ok((Shape::new(plain, kind, pair)?, Factors { count, powers, bytes }))
}

/// Columns of the factors of `rows` rows, from `first` on.
pub(crate) fn columns(first: u32, rows: u32) -> Range<u32> {
    first..first + rows.div_ceil(ROWS)
}

/// The factors of `rows` rows, one after the other in each row: each 32 lanes must have the same.
pub(crate) fn factors(
    memory: &mut TensorMemory,
    first: u32,
    rows: u32,
    factors: Factors,
    operand: usize,
) -> Result<Vec<f32>, Fault> {
    let mut all = Vec::with_capacity((rows * factors.count) as usize);
    for row in 0..rows {
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
        for i in 0..factors.count {
            let byte = word.to_le_bytes()[(factors.bytes[operand] + i) as usize];
            all.push(if factors.powers { power(byte) } else { unsigned(byte) });
        }
    }
    Ok(all)
}

/// ue8m0
fn power(x: u8) -> f32 {
    if x == 0xff { f32::NAN } else { 2.0_f32.powi(i32::from(x) - 127) }
}

/// ue4m3. The manual says that the first bit is 0, and no more: with 1, it is a NaN here.
fn unsigned(x: u8) -> f32 {
    if x > 0x7f { f32::NAN } else { F8E4M3::from_bits(x).to_f32() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wgmma::operand::OperandType;

    #[test]
    fn an_instruction_of_the_field() {
        // 128 x 128, e4m3, with the factors of byte 2.
        let (found, factors) = shape(0x48a0_0020, Kind::Mxf8f6f4, false).unwrap();
        assert_eq!((found.n, factors.bytes, factors.count), (128, [2, 2], 1));
        assert!(shape(0x4820_0020, Kind::Mxf8f6f4, false).is_err(), "ue4m3");
        // e2m1, with ue8m0 of the bytes 2 and 3, and with ue4m3.
        let (found, factors) = shape(0x48a0_04a0, Kind::Mxf4, false).unwrap();
        assert_eq!((found.types, factors.count), ([OperandType::E2m1; 2], 2));
        assert_eq!(shape(0x0820_0480, Kind::Mxf4nvf4, false).unwrap().1.count, 4);
        for (d, kind) in [
            (0x28a0_0490, Kind::Mxf4),
            (0x48a0_0020, Kind::Mxf4),
            (0x4820_04a0, Kind::Mxf4nvf4),
            (0x08a0_0480, Kind::Mxf4nvf4),
            (0x0821_0480, Kind::Mxf4nvf4),
            (0x8820_0480, Kind::Mxf4nvf4),
        ] {
            assert_eq!(
                shape(d, kind, false).unwrap_err().rule,
                Rule::Descriptor,
                "{d:#x} {kind:?}"
            );
        }
    }

    /// 256 x 48 by a pair: N is a multiple of 16, where one without factors would be of 32.
    #[test]
    fn a_pair_has_columns_by_16() {
        let (found, factors) = shape(0x108c_0020, Kind::Mxf8f6f4, true).unwrap();
        assert_eq!((found.n, found.ctas, factors.count), (48, 2, 1));
        assert!(shape(0x108c_0020, Kind::Mxf8f6f4, false).is_err(), "256 rows of one CTA");
        assert!(shape(0x108a_0020, Kind::Mxf8f6f4, true).is_err(), "40 columns");
        assert!(Shape::new(0x100c_0490, Kind::F16, true).is_err(), "48 columns of bf16");
    }

    #[test]
    fn factors_have_their_formats() {
        assert_eq!((power(127), power(130), power(0)), (1.0, 8.0, 2.0_f32.powi(-127)));
        assert_eq!((unsigned(0x38), unsigned(0x7e), unsigned(1)), (1.0, 448.0, 1.0 / 512.0));
        assert!([power(255), unsigned(0x7f), unsigned(0xb8)].into_iter().all(f32::is_nan));
    }
}
