//! wgmma's operands: where a descriptor says they lie.
//!
//! PTX manual, *Asynchronous Warpgroup Level Matrix Shared Memory Layout* and *Matrix Descriptor
//! Format*. An instruction reads 32 bytes along K of each row (M of A, N of B). In a K-major operand
//! the elements of a row are contiguous, in an MN-major one, whose elements have 16 bits, those of a
//! column.

use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::types::tensor_map::Swizzle;

/// Bytes of each row along K that an instruction multiplies.
const K_BYTES: u32 = 32;
/// Bytes of a chunk: what the swizzles move as a whole.
const CHUNK: u32 = 16;

/// The element type of A or of B.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperandType {
    /// `.bf16`
    Bf16,
    /// `.f16`
    F16,
    /// `.tf32`, in 32 bits, of which the 13 lowest are not read
    Tf32,
    /// `.e4m3`
    E4m3,
    /// `.e5m2`
    E5m2,
    /// `.s8`
    S8,
    /// `.e2m1`, two in a byte. Of tcgen05 alone.
    E2m1,
}

impl OperandType {
    /// Bits of an element.
    fn bits(self) -> u32 {
        match self {
            Self::Bf16 | Self::F16 => 16,
            Self::Tf32 => 32,
            Self::E4m3 | Self::E5m2 | Self::S8 => 8,
            Self::E2m1 => 4,
        }
    }
    /// Elements of each row that an instruction multiplies: 8, 16, 32 or 64.
    pub(crate) fn k(self) -> u32 {
        8 * K_BYTES / self.bits()
    }
}

/// The extent along which the elements of an operand are contiguous.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Major {
    /// K: `imm-trans` is 0.
    K,
    /// M of A, N of B: `imm-trans` is 1.
    Mn,
}

/// An operand in shared memory: `rows` rows (M of A, N of B) of 32 bytes along K.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Operand {
    dtype: OperandType,
    major: Major,
    start: u32,
    leading: u32,
    stride: u32,
    swizzle: Swizzle,
    rows: u32,
}

impl Operand {
    /// Takes a descriptor apart: start address >> 4 in bits 0 to 13, leading offset >> 4 in 16 to
    /// 29, stride offset >> 4 in 32 to 45, base offset in 49 to 51, swizzle in 62 and 63 (1 is
    /// 128 B, 2 is 64 B, 3 is 32 B).
    pub fn new(
        (descriptor, major): (u64, Major),
        rows: u32,
        dtype: OperandType,
    ) -> Result<Self, Fault> {
        let field = |shift: u32| ((descriptor >> shift & 0x3fff) as u32) << 4;
        let swizzle = match descriptor >> 62 {
            0 => Swizzle::None,
            1 => Swizzle::B128,
            2 => Swizzle::B64,
            _ => Swizzle::B32,
        };
        let (start, leading, stride) = (field(0), field(16), field(32));
        let o = Self { dtype, major, start, leading, stride, swizzle, rows };
        let fault = |message| Err(Fault::new(Rule::Descriptor, message));
        if major == Major::Mn && dtype.bits() != 16 {
            return fault(format!(
                "an MN-major operand of {dtype:?}: only bf16 and f16 have both majors"
            ));
        }
        if descriptor >> 49 & 7 != 0 {
            let base = descriptor >> 49 & 7;
            return fault(format!(
                "base offset {base}: the model knows patterns that start aligned"
            ));
        }
        if swizzle == Swizzle::None {
            return Ok(o);
        }
        match major {
            Major::K => o.check_k_major(),
            Major::Mn => o.check_mn_major(),
        }
        .map_or(Ok(o), fault)
    }

    /// What is wrong with a K-major operand that is swizzled.
    fn check_k_major(&self) -> Option<String> {
        let (start, span, repeat) = (self.start, self.swizzle.span(), self.swizzle.repeat());
        if start % repeat >= span {
            return Some(format!(
                "start address {start:#x} with a swizzle over {span} bytes: the tile begins at a \
                 multiple of {repeat}, plus a step along K inside the first row"
            ));
        }
        (start % span + K_BYTES > span).then(|| {
            let k = self.dtype.k();
            format!("{k} elements from {start:#x} on leave the {span} bytes of the swizzle")
        })
    }

    /// The same of an MN-major one. Panels, and groups of eight rows along K in them, begin where the
    /// pattern repeats, because the base offset is 0.
    fn check_mn_major(&self) -> Option<String> {
        let (start, span, repeat) = (self.start, self.swizzle.span(), self.swizzle.repeat());
        let rows = self.rows;
        if start % repeat >= span {
            return Some(format!(
                "start address {start:#x} of an MN-major operand with a swizzle over {span} bytes: the \
                 tile begins at a multiple of {repeat}, plus a step along M or N inside the first panel"
            ));
        }
        if start % span + span.min(2 * rows) > span {
            return Some(format!(
                "{rows} elements along M or N from {start:#x} on leave the {span} bytes of an MN-major \
                 panel: a step of 16 along K is twice the stride offset there, {} bytes",
                2 * self.stride
            ));
        }
        if !self.stride.is_multiple_of(repeat) {
            return Some(format!(
                "stride offset {} of an MN-major operand: eight rows of {span} bytes along K are \
                 followed by the next eight, at a multiple of {repeat}",
                self.stride
            ));
        }
        (2 * rows > span && !self.leading.is_multiple_of(repeat)).then(|| {
            format!(
                "leading offset {} of an MN-major operand of {rows} elements along M or N: a panel of \
                 {} is followed by the next one, at a multiple of {repeat}",
                self.leading,
                span / 2
            )
        })
    }

    /// The address that the descriptor names.
    pub fn start(&self) -> u32 {
        self.start
    }

    /// The extent along which its elements are contiguous.
    pub fn major(&self) -> Major {
        self.major
    }

    /// Address of a chunk of a row of a K-major operand: its first 16 bytes (0) or its second (1).
    fn k_major(&self, row: u32, chunk: u32) -> u32 {
        let group = self.start + row / 8 * self.stride;
        if self.swizzle == Swizzle::None {
            // Core matrices of 8 rows of 16 bytes; `leading` leads to the next along K.
            return group + chunk * self.leading + row % 8 * CHUNK;
        }
        self.swizzle.apply(group + row % 8 * self.swizzle.span() + chunk * CHUNK)
    }

    /// Address of 8 elements of column `k` of an MN-major operand, from row `row` on, a multiple of 8.
    /// The canonical layouts, with eight elements of 16 bits in T:
    /// `((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))` without a swizzle, and with one over U chunks of 16 bytes
    /// `((T,U,m),(8,k)):((1,T,LBO),(UT,SBO))`.
    fn mn_major(&self, row: u32, k: u32) -> u32 {
        if self.swizzle == Swizzle::None {
            // Core matrices of 8 columns of 16 bytes; `stride` leads to the next along M or N.
            return self.start + row / 8 * self.stride + k / 8 * self.leading + k % 8 * 16;
        }
        let span = self.swizzle.span();
        let panel = self.start + 2 * row / span * self.leading;
        self.swizzle.apply(panel + 2 * row % span + k / 8 * self.stride + k % 8 * span)
    }

    /// Calls `f` with row, column and address of the first element of each 16 bytes.
    pub fn for_each_chunk(&self, mut f: impl FnMut(u32, u32, u32)) {
        match self.major {
            Major::K => {
                let second = self.dtype.k() / 2;
                for row in 0..self.rows {
                    f(row, 0, self.k_major(row, 0));
                    f(row, second, self.k_major(row, 1));
                }
            }
            Major::Mn => {
                for row in (0..self.rows).step_by(8) {
                    (0..16).for_each(|k| f(row, k, self.mn_major(row, k)));
                }
            }
        }
    }

    /// An address and an end between which all of it lies, for a swizzle with what shares its spans.
    pub fn around(&self) -> (u32, u32) {
        let groups = (self.rows - 1) / 8;
        if self.swizzle == Swizzle::None {
            // Of either major: `stride` along the rows, `leading` along K.
            return (self.start, self.start + groups * self.stride + self.leading + 8 * 16);
        }
        let span = self.swizzle.span();
        let last = match self.major {
            Major::K => groups * self.stride + K_BYTES,
            Major::Mn => 2 * (self.rows - 1) / span * self.leading + self.stride + span,
        };
        let end = self.start + last + 7 * span;
        (self.start / span * span, end.next_multiple_of(span))
    }

    /// Whether the operand has the 16 bytes that an address lies in.
    pub fn covers(&self, addr: u32) -> bool {
        let mut found = false;
        self.for_each_chunk(|_, _, a| found |= a == addr & !15);
        found
    }
}

#[cfg(test)]
mod tests;
