//! wgmma's operands: where a descriptor says they lie, and the product of what lies there.
//!
//! PTX manual, *Asynchronous Warpgroup Level Matrix Shared Memory Layout* and *Matrix Descriptor
//! Format*. An instruction reads 16 elements along K of each row (M of A, N of B). In a K-major operand
//! the elements of a row are contiguous, in an MN-major one those of a column.

use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::types::tensor_map::Swizzle;
use half::f16;

/// The element type of A and B.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperandType {
    /// `.bf16`
    Bf16,
    /// `.f16`
    F16,
}

/// The extent along which the elements of an operand are contiguous.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Major {
    /// K: `imm-trans` is 0.
    K,
    /// M of A, N of B: `imm-trans` is 1.
    Mn,
}

/// An operand in shared memory: `rows` rows (M of A, N of B) of 16 elements along K.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Operand {
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
    pub fn new((descriptor, major): (u64, Major), rows: u32) -> Result<Self, Fault> {
        let field = |shift: u32| ((descriptor >> shift & 0x3fff) as u32) << 4;
        let swizzle = match descriptor >> 62 {
            0 => Swizzle::None,
            1 => Swizzle::B128,
            2 => Swizzle::B64,
            _ => Swizzle::B32,
        };
        let (start, leading, stride) = (field(0), field(16), field(32));
        let o = Self { major, start, leading, stride, swizzle, rows };
        let fault = |message| Err(Fault::new(Rule::Descriptor, message));
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
        (start % span + 32 > span).then(|| {
            format!("16 elements from {start:#x} on leave the {span} bytes of the swizzle")
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

    /// Address of 8 elements: K-major from column `k` (0 or 8) of a row on, MN-major from row `row` (a
    /// multiple of 8) of a column on.
    fn address(&self, row: u32, k: u32) -> u32 {
        match self.major {
            Major::K => self.k_major(row, k),
            Major::Mn => self.mn_major(row, k),
        }
    }

    fn k_major(&self, row: u32, k: u32) -> u32 {
        let group = self.start + row / 8 * self.stride;
        if self.swizzle == Swizzle::None {
            // Core matrices of 8 rows of 16 bytes; `leading` leads to the next along K.
            return group + k / 8 * self.leading + row % 8 * 16;
        }
        self.swizzle.apply(group + row % 8 * self.swizzle.span() + k * 2)
    }

    /// The canonical layouts of MN-major operands, with eight elements of 16 bits in T:
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

    /// Calls `f` with row, column and address of each 16 bytes.
    pub fn for_each_chunk(&self, mut f: impl FnMut(u32, u32, u32)) {
        match self.major {
            Major::K => {
                for row in 0..self.rows {
                    f(row, 0, self.address(row, 0));
                    f(row, 8, self.address(row, 8));
                }
            }
            Major::Mn => {
                for row in (0..self.rows).step_by(8) {
                    (0..16).for_each(|k| f(row, k, self.address(row, k)));
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
            Major::K => groups * self.stride + 32,
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

/// Turns 16 bytes into 8 floats.
pub(crate) type Decode = fn(&[u8], &mut [f32]);

/// The decoder of an element type.
pub(crate) fn decoder(dtype: OperandType) -> Decode {
    fn with(bytes: &[u8], out: &mut [f32], f: impl Fn(u16) -> f32) {
        for (o, b) in out.iter_mut().zip(bytes.chunks_exact(2)) {
            *o = f(u16::from_le_bytes([b[0], b[1]]));
        }
    }
    match dtype {
        OperandType::Bf16 => |b, o| with(b, o, |h| f32::from_bits(u32::from(h) << 16)),
        OperandType::F16 => |b, o| with(b, o, |h| f16::from_bits(h).to_f32()),
    }
}

/// Decodes 8 elements into every `step`th of `out`.
pub(crate) fn spread(decode: Decode, bytes: &[u8], out: &mut [f32], step: usize) {
    if step == 1 {
        return decode(bytes, &mut out[..8]);
    }
    let mut values = [0.0; 8];
    decode(bytes, &mut values);
    for (out, value) in out.iter_mut().step_by(step).zip(values) {
        *out = value;
    }
}

/// A from registers: the fragment of `mma.m16n8k16`, a slab of 16 rows per warp. Register i of
/// lane l holds columns `2 (l % 4) + 8 (i / 2)` and + 1 of row `l / 4 + 8 (i % 2)`.
pub(crate) fn from_fragments(fragments: &[[u32; 4]], decode: Decode, a: &mut [f32]) {
    for (t, regs) in fragments.iter().enumerate() {
        for (i, r) in regs.iter().enumerate() {
            let row = t / 32 * 16 + t % 32 / 4 + 8 * (i % 2);
            let col = 2 * (t % 4) + 8 * (i / 2);
            decode(&r.to_le_bytes(), &mut a[row * 16 + col..row * 16 + col + 2]);
        }
    }
}

/// `d = a * b`: a is 64 by 16, b is 16 by n, all row-major. The 16 products of an element are
/// summed before the accumulator is added, as the tensor core does.
pub(crate) fn product(a: &[f32], b: &[f32], n: usize, d: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { product_avx2(a, b, n, d) };
    }
    product_with::<8>(a, b, n, d);
}

/// The same in wider vectors. No product is fused with its sum, so each element is the same.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn product_avx2(a: &[f32], b: &[f32], n: usize, d: &mut [f32]) {
    if n.is_multiple_of(16) {
        product_with::<16>(a, b, n, d);
    } else {
        product_with::<8>(a, b, n, d);
    }
}

/// `BLOCK` columns at a time, of which n is a multiple.
#[inline(always)] // Into callers with other instruction sets.
fn product_with<const BLOCK: usize>(a: &[f32], b: &[f32], n: usize, d: &mut [f32]) {
    for (rows, d) in a.chunks_exact(16 * 4).zip(d.chunks_exact_mut(4 * n)) {
        for col in (0..n).step_by(BLOCK) {
            // Four rows at a time: each part of b is loaded once for all of them.
            let mut sum = [[0.0f32; BLOCK]; 4];
            for k in 0..16 {
                let b: &[f32; BLOCK] =
                    b[k * n + col..][..BLOCK].try_into().expect("n is a multiple of it");
                for (r, sum) in sum.iter_mut().enumerate() {
                    let x = rows[r * 16 + k];
                    for (s, &y) in sum.iter_mut().zip(b) {
                        *s += x * y;
                    }
                }
            }
            for (r, sum) in sum.iter().enumerate() {
                d[r * n + col..][..BLOCK].copy_from_slice(sum);
            }
        }
    }
}

/// Adds a product of 64 by n to accumulators, or replaces these without `scale_d`: the threads' from
/// `first` on, each in the order of its registers.
///
/// PTX manual, *wgmma D fragments*: thread t has rows `16 (t / 32) + (t % 32) / 4` and + 8; register
/// `4 j + 2 h + e` is row half h, column `8 j + 2 (t % 4) + e`.
pub(crate) fn add(product: &[f32], n: usize, scale_d: bool, first: usize, values: &mut [f32]) {
    for (t, part) in (first..).zip(values.chunks_exact_mut(n / 2)) {
        let row = t / 32 * 16 + t % 32 / 4;
        let half = |row: usize| product[row * n..][..n].chunks_exact(8);
        let at = t % 4 * 2;
        for (part, (top, bottom)) in part.chunks_exact_mut(4).zip(half(row).zip(half(row + 8))) {
            let new = [top[at], top[at + 1], bottom[at], bottom[at + 1]];
            for (d, new) in part.iter_mut().zip(new) {
                *d = if scale_d { *d + new } else { new };
            }
        }
    }
}

#[cfg(test)]
mod tests;
