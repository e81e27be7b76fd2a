//! The descriptors of `tcgen05.mma`: of the instruction, and of an operand in shared memory.
//!
//! PTX manual, *TensorCore 5th Generation Family Instructions*: "Instruction descriptor" and "Shared memory descriptor".

use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::wgmma::operand::{Major, Operand, OperandType};

/// Rows of A, and lanes of D, in one CTA.
pub(crate) const M: u32 = 128;

/// The kind of a multiplication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    F16,
    Tf32,
    F8f6f4,
    I8,
    /// With block scales, as those below.
    Mxf8f6f4,
    Mxf4,
    Mxf4nvf4,
}

impl Kind {
    /// Whether each block of a row has a factor.
    fn scaled(self) -> bool {
        matches!(self, Self::Mxf8f6f4 | Self::Mxf4 | Self::Mxf4nvf4)
    }

    /// As PTX writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Tf32 => "tf32",
            Self::F8f6f4 => "f8f6f4",
            Self::I8 => "i8",
            Self::Mxf8f6f4 => "mxf8f6f4",
            Self::Mxf4 => "mxf4",
            Self::Mxf4nvf4 => "mxf4nvf4",
        }
    }

    /// The code and the name of its sums, of those that the model knows.
    fn sums(self) -> (u32, &'static str) {
        if self == Self::I8 { (2, "s32") } else { (1, "f32") }
    }

    /// The element type of a code, and for an error those that the model knows.
    fn element(self, code: u32) -> Result<OperandType, &'static str> {
        match (self, code) {
            (Self::F16, 0) => Ok(OperandType::F16),
            (Self::F16, 1) => Ok(OperandType::Bf16),
            (Self::F16, _) => Err("0, f16, and 1, bf16"),
            (Self::Tf32, 2) => Ok(OperandType::Tf32),
            (Self::Tf32, _) => Err("2, tf32"),
            (Self::F8f6f4 | Self::Mxf8f6f4, 0) => Ok(OperandType::E4m3),
            (Self::F8f6f4 | Self::Mxf8f6f4, 1) => Ok(OperandType::E5m2),
            (Self::F8f6f4 | Self::Mxf8f6f4, _) => {
                Err("0, e4m3, and 1, e5m2 (the model knows no others)")
            }
            (Self::I8, 1) => Ok(OperandType::S8),
            (Self::I8, _) => Err("1, s8 (the model knows no u8)"),
            (Self::Mxf4 | Self::Mxf4nvf4, 1) => Ok(OperandType::E2m1),
            (Self::Mxf4 | Self::Mxf4nvf4, _) => Err("1, e2m1"),
        }
    }
}

/// What an instruction descriptor says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub n: u32,
    /// CTAs that multiply together, 1 or 2: each has [`M`] rows of A and of D, and its part of the columns of B.
    pub ctas: u32,
    pub types: [OperandType; 2],
    pub majors: [Major; 2],
}

fn wrong(message: String) -> Fault {
    Fault::new(Rule::Descriptor, message)
}

impl Shape {
    /// Takes the instruction descriptor of a multiplication of a kind apart, by one CTA or by a pair.
    pub fn new(d: u32, kind: Kind, pair: bool) -> Result<Self, Fault> {
        let ctas = 1 + u32::from(pair);
        let bits = |first: u32, count: u32| d >> first & ((1 << count) - 1);
        if bits(0, 4) != 0 || bits(13, 2) != 0 || bits(30, 2) != 0 {
            return Err(wrong(format!(
                "instruction descriptor {d:#x}: the model knows dense multiplications without saturation, signs or \
                 shifts (bits 0-3, 13, 14, 30 and 31 are 0)"
            )));
        }
        let (sums, name) = kind.sums();
        if bits(4, 2) != sums {
            return Err(wrong(format!(
                "instruction descriptor {d:#x} of kind {} with sums of type {} (bits 4 and 5): the model knows {name}, {sums}",
                kind.name(),
                bits(4, 2)
            )));
        }
        let dtype = |code: u32| {
            kind.element(code).map_err(|known| {
                wrong(format!(
                    "instruction descriptor {d:#x} with elements of type {code}: kind {} has {known}",
                    kind.name()
                ))
            })
        };
        let major = |bit: u32| if bit == 0 { Major::K } else { Major::Mn };
        let (n, m) = (8 * bits(17, 6), 16 * bits(24, 5));
        // Halves of B of 8 rows are allowed with block scales alone.
        let (rows, step) = (M * ctas, if kind.scaled() { 16 } else { 16 * ctas });
        if m != rows || !(step..=256).contains(&n) || !n.is_multiple_of(step) {
            return Err(wrong(format!(
                "instruction descriptor {d:#x} of kind {} and a shape of {m} x {n}: with .cta_group::{ctas}, M is {rows} (the model \
                 knows no other), and N a multiple of {step} from {step} to 256",
                kind.name()
            )));
        }
        Ok(Self {
            n,
            ctas,
            types: [dtype(bits(7, 3))?, dtype(bits(10, 3))?],
            majors: [major(bits(15, 1)), major(bits(16, 1))],
        })
    }
}

/// The operand of `rows` rows that a shared-memory descriptor describes.
pub(crate) fn operand(
    d: u64,
    major: Major,
    rows: u32,
    dtype: OperandType,
) -> Result<Operand, Fault> {
    if d >> 46 & 7 != 1 {
        return Err(wrong(format!(
            "shared-memory descriptor {d:#x}: bits 48 to 46 are {:#05b} and must be 0b001 (they are 0 in a descriptor of \
             wgmma)",
            d >> 46 & 7
        )));
    }
    if d >> 52 & 1 != 0 {
        return Err(wrong(format!(
            "shared-memory descriptor {d:#x}: the model knows leading offsets that are relative (bit 52 is 0)"
        )));
    }
    // The code of the same swizzle in a descriptor of wgmma, whose fields are otherwise the same.
    let code: u64 = match d >> 61 {
        0 => 0,
        2 => 1,
        4 => 2,
        6 => 3,
        mode => {
            return Err(wrong(format!(
                "shared-memory descriptor {d:#x} of swizzle mode {mode}: the model knows 0, none, 2, 128 B, 4, 64 B, \
                 and 6, 32 B"
            )));
        }
    };
    let fields = d & ((1 << 46) - 1) | d & 7 << 49;
    Operand::new((fields | code << 62, major), rows, dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_of_the_field() {
        // 128 x 256, bf16, as published kernels have it.
        let bf16 = [OperandType::Bf16; 2];
        let shape = Shape { n: 256, ctas: 1, types: bf16, majors: [Major::K; 2] };
        let f16 = |d| Shape::new(d, Kind::F16, false);
        assert_eq!(f16(0x0840_0490).unwrap(), shape);
        assert_eq!(f16(0x0840_0010).unwrap().types, [OperandType::F16; 2]);
        for broken in [0x0840_0480, 0x0440_0490, 0x0800_0490, 0x0842_0490, 0x0840_0491] {
            assert_eq!(f16(broken).unwrap_err().rule, Rule::Descriptor, "{broken:#x}");
        }
    }

    /// 256 x 256 by a pair, bf16.
    #[test]
    fn a_pair_has_twice_the_rows() {
        let pair = |d| Shape::new(d, Kind::F16, true);
        assert_eq!(pair(0x1040_0490).unwrap().ctas, 2);
        for broken in [0x0840_0490, 0x1044_0490, 0x1004_0490] {
            assert_eq!(pair(broken).unwrap_err().rule, Rule::Descriptor, "{broken:#x}");
        }
        assert!(Shape::new(0x1040_0490, Kind::F16, false).is_err());
    }

    /// The same codes are other types in another kind.
    #[test]
    fn a_kind_has_types_of_its_own() {
        let types = |d, kind| Shape::new(d, kind, false).map(|shape| shape.types);
        let (zeros, ones, twos) = (0x0840_0010, 0x0840_0490, 0x0840_0910);
        assert_eq!(types(zeros, Kind::F8f6f4).unwrap(), [OperandType::E4m3; 2]);
        assert_eq!(types(ones, Kind::F8f6f4).unwrap(), [OperandType::E5m2; 2]);
        assert_eq!(types(twos, Kind::Tf32).unwrap(), [OperandType::Tf32; 2]);
        assert_eq!(types(0x0840_04a0, Kind::I8).unwrap(), [OperandType::S8; 2]);
        for (d, kind) in [
            (zeros, Kind::Tf32),
            (ones, Kind::Tf32),
            (twos, Kind::F16),
            (twos, Kind::F8f6f4),
            (ones, Kind::I8),
            (0x0840_04a0, Kind::F16),
            (0x0840_0020, Kind::I8),
        ] {
            assert_eq!(types(d, kind).unwrap_err().rule, Rule::Descriptor, "{d:#x} {kind:?}");
        }
    }

    #[test]
    fn an_operand_has_the_bits_of_its_generation() {
        let (hopper, blackwell) = (0x4000_0040_0001_0040, 0x4000_4040_0001_0040);
        let of = |d| operand(d, Major::K, 128, OperandType::Bf16);
        assert!(of(hopper).unwrap_err().message.contains("0b001"));
        let expected = Operand::new((hopper, Major::K), 128, OperandType::Bf16).unwrap();
        assert_eq!(of(blackwell).unwrap(), expected);
        assert!(of(blackwell | 1 << 61).is_err(), "128 B of 32-byte atoms");
    }
}
