//! Where the elements of a K-major operand lie in shared memory, and those of D in registers: the
//! manual's layouts, as arithmetic.

use crate::kernels::wgmma::Operands;

/// A way to lay out an operand of rows along K.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Span of the swizzle: 0 for none.
    pub span: u32,
    /// Bytes between core matrices along K; without a swizzle only.
    pub lead: u32,
    /// Bytes between groups of eight rows.
    pub stride: u32,
}

impl Layout {
    /// The offset of byte `at` of a row.
    ///
    /// Without a swizzle: core matrices of eight rows of 16 bytes, one after the other in memory
    /// inside, `lead` apart along K, `stride` apart along rows. With one: rows of `span` bytes, eight
    /// to a group, the 16-byte chunk of a row exchanged as the swizzle says.
    pub fn offset(self, row: u32, at: u32) -> u32 {
        let group = row / 8 * self.stride;
        if self.span == 0 {
            return group + at / 16 * self.lead + row % 8 * 16 + at % 16;
        }
        group + swizzled(self.span, row % 8 * self.span + at)
    }

    /// Bytes on the start address for a step of 32 bytes along K.
    pub fn step(self) -> u32 {
        if self.span == 0 { 2 * self.lead } else { 32 }
    }
}

/// The manual's swizzles in words: rows of 128 bytes exchange chunk c with c XOR row modulo 8; rows of
/// 64 bytes with c XOR (row / 2) modulo 4; rows of 32 bytes with c XOR (row / 4) modulo 2.
pub fn swizzled(span: u32, offset: u32) -> u32 {
    if span == 0 {
        return offset;
    }
    let (row, chunk) = (offset / span, offset % span / 16);
    let other = match span {
        128 => row % 8,
        64 => row / 2 % 4,
        _ => row / 4 % 2,
    };
    row * span + (chunk ^ other) * 16 + offset % 16
}

/// Row and column of register `r` of thread `t`.
pub fn place(t: usize, r: usize) -> (usize, usize) {
    let row = 16 * (t / 32) + t % 32 / 4 + 8 * (r / 2 % 2);
    (row, 8 * (r / 4) + 2 * (t % 4) + r % 2)
}

/// Row and column (along K) of element `e` of register `r` of thread `t`, of an A in registers of two
/// elements each.
pub fn place_a(t: usize, r: usize, e: usize) -> (usize, usize) {
    let (row, byte) = byte_of_a(t, r, 2 * e);
    (row, byte / 2)
}

/// Row of A, and which byte of the row's 32, byte `b` of register `r` of thread `t` holds. So do the manual's
/// figures of 8-bit types, of 16-bit ones and of tf32 have it.
pub fn byte_of_a(t: usize, r: usize, b: usize) -> (usize, usize) {
    (16 * (t / 32) + t % 32 / 4 + 8 * (r % 2), 4 * (t % 4) + 16 * (r / 2) + b)
}

/// Bytes of shared memory where B starts.
pub const B_START: u32 = 16 * 1024;

/// The operands of a multiplication in shared memory.
pub struct Image {
    /// Its words.
    pub words: Vec<u32>,
    /// How wgmma reads it, from step `first` on.
    pub operands: Operands,
}

/// Lays out A (64 rows) and B (`n` rows) of `k` columns, elements as 16 bits.
pub fn image(
    layouts: [Layout; 2],
    n: u32,
    k: u32,
    element: impl Fn(usize, u32, u32) -> u16,
    first: u32,
    steps: u32,
) -> Image {
    let byte = |which, row, at: u32| element(which, row, at / 2).to_le_bytes()[at as usize % 2];
    image_of_bytes(layouts, n, 2 * k, byte, [first, steps])
}

/// Lays out A (64 rows) and B (`n` rows) of `width` bytes each, of which steps are multiplied.
pub fn image_of_bytes(
    [a, b]: [Layout; 2],
    n: u32,
    width: u32,
    byte: impl Fn(usize, u32, u32) -> u8,
    [first, steps]: [u32; 2],
) -> Image {
    let mut bytes = vec![0u8; crate::kernels::wgmma::SMEM as usize];
    for (which, layout, rows, start) in [(0, a, 64, 0), (1, b, n, B_START)] {
        for (row, at) in (0..rows).flat_map(|row| (0..width).map(move |at| (row, at))) {
            bytes[(start + layout.offset(row, at)) as usize] = byte(which, row, at);
        }
    }
    // With a swizzle the manual assumes a leading offset of 1, encoded.
    let lead = |l: Layout| if l.span == 0 { l.lead } else { 16 };
    Image {
        words: crate::bench::words(&bytes),
        operands: Operands {
            start: [first * a.step(), B_START + first * b.step()],
            lead: [lead(a), lead(b)],
            stride: [a.stride, b.stride],
            span: a.span,
            step: [a.step(), b.step()],
            steps,
            before: 0.0,
            scale_d: 1,
        },
    }
}
