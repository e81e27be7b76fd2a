//! `tcgen05.cp`: the rows of shared memory that it reads, and the lanes of tensor memory that it fills.
//!
//! PTX manual, *TensorCore 5th Generation Family Instructions*: `tcgen05.cp`, "Data Movement Shape". CUTLASS: `Copy_Traits` of
//! `SM100_UTCCP_*`.

use super::memory::LANES;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use std::ops::Range;

/// The shape of a copy, with where its rows go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// `.128x256b`
    All256,
    /// `.4x256b`: a row to each 32 lanes, to that with the number of the address's lane.
    Four256,
    /// `.128x128b`
    All128,
    /// `.64x128b.warpx2::02_13`: the lanes of the warps 0 and 1 get the rows, and those of 2 and 3 the same.
    Half128Alternate,
    /// `.64x128b.warpx2::01_23`: the lanes of the warps 0 and 1 get the first 32 rows, those of 2 and 3 the others.
    Half128Adjacent,
    /// `.32x128b.warpx4`: the lanes of each warp get the 32 rows.
    Quarter128,
}

fn wrong(rule: Rule, message: String) -> Fault {
    Fault::new(rule, message)
}

impl Shape {
    /// Rows in shared memory.
    fn rows(self) -> u32 {
        match self {
            Self::All256 | Self::All128 => 128,
            Self::Half128Alternate | Self::Half128Adjacent => 64,
            Self::Quarter128 => 32,
            Self::Four256 => 4,
        }
    }

    /// Chunks of 16 bytes in a row.
    pub fn chunks(self) -> u32 {
        if matches!(self, Self::All256 | Self::Four256) { 2 } else { 1 }
    }

    /// Columns of tensor memory.
    pub fn columns(self) -> u32 {
        4 * self.chunks()
    }

    /// The lanes that a copy to an address of this lane fills, in steps.
    pub fn lanes(self, lane: u32) -> Result<(Range<u32>, usize), Fault> {
        match self {
            Self::Four256 if lane < 32 => Ok((lane..LANES, 32)),
            Self::Four256 => Err(wrong(
                Rule::TensorLanes,
                format!("a copy of 4x256b to lane {lane}: its lane is below 32, and so in each 32"),
            )),
            _ if lane == 0 => Ok((0..LANES, 1)),
            _ => Err(wrong(
                Rule::TensorLanes,
                format!("a copy to lane {lane}: but for 4x256b, it begins at lane 0"),
            )),
        }
    }

    /// The row that a lane gets.
    pub fn row(self, lane: u32) -> u32 {
        match self {
            Self::All256 | Self::All128 => lane,
            Self::Half128Alternate => lane % 64,
            Self::Half128Adjacent => lane / 64 * 32 + lane % 32,
            Self::Quarter128 => lane % 32,
            Self::Four256 => lane / 32,
        }
    }

    /// The addresses of the 16 bytes of all rows that a descriptor names, one row after the other.
    pub fn addresses(self, d: u64) -> Result<Vec<u32>, Fault> {
        if d >> 46 & 7 != 1 || d >> 61 != 0 {
            return Err(wrong(
                Rule::Descriptor,
                format!(
                    "shared-memory descriptor {d:#x} of tcgen05.cp: bits 48 to 46 are 0b001, and the model knows no swizzle \
                     (bits 63 to 61 are 0)"
                ),
            ));
        }
        let field = |first: u32| ((d >> first & 0x3fff) << 4) as u32;
        let (start, lead, stride) = (field(0), field(16), field(32));
        let row = |row: u32| {
            (0..self.chunks()).map(move |c| start + row / 8 * stride + row % 8 * 16 + c * lead)
        };
        Ok((0..self.rows()).flat_map(row).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_reads_rows_of_core_matrices() {
        // 128 bytes from 8 rows to the next, and 2048 to the second chunk of a row.
        let d = 1 << 46 | 8 << 32 | 128 << 16 | 0x40;
        let rows = Shape::Quarter128.addresses(d).unwrap();
        assert_eq!(
            (rows.len(), rows[0], rows[1], rows[8], rows[31]),
            (32, 0x400, 0x410, 0x480, 0x5f0)
        );
        let rows = Shape::All256.addresses(d).unwrap();
        assert_eq!((rows.len(), rows[0], rows[1], rows[2]), (256, 0x400, 0xc00, 0x410));
        assert!(Shape::All128.addresses(d | 2 << 61).is_err(), "swizzled");
    }
}
