//! The 64-bit matrix descriptor of an operand in shared memory.
//!
//! PTX manual: *Asynchronous Warpgroup Level Matrix Instructions*, "Matrix Descriptor Format":
//!
//! ```text
//! bits 13-0    start address        (address & 0x3FFFF) >> 4
//! bits 29-16   leading dimension byte offset, encoded the same way
//! bits 45-32   stride dimension byte offset, encoded the same way
//! bits 51-49   base offset: 0 when the pattern starts at a multiple of its repeat
//! bits 63-62   swizzle mode: 0 none, 1 128 B, 2 64 B, 3 32 B
//! ```

/// The swizzle of a tile in shared memory. The value is the descriptor's code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Swizzle {
    /// No swizzle: core matrices of 8 rows of 16 bytes.
    None = 0,
    /// Rows of 128 bytes. The index of a 16-byte unit is xored with the row modulo 8.
    B128 = 1,
    /// Rows of 64 bytes.
    B64 = 2,
    /// Rows of 32 bytes.
    B32 = 3,
}

impl Swizzle {
    /// Bytes of a swizzled row; 0 without a swizzle.
    pub const fn span_bytes(self) -> u32 {
        match self {
            Self::None => 0,
            Self::B128 => 128,
            Self::B64 => 64,
            Self::B32 => 32,
        }
    }
    /// The alignment of a tile for which the descriptor's base offset is 0: the bytes after which the
    /// pattern repeats (8 rows), or 16 without a swizzle.
    pub const fn repeat_bytes(self) -> u32 {
        match self {
            Self::None => 16,
            _ => 8 * self.span_bytes(),
        }
    }
}

/// One 14-bit field: an address or offset without its low 4 bits.
const fn field(bytes: u32) -> u64 {
    ((bytes & 0x3_ffff) >> 4) as u64
}

/// Makes a descriptor.
///
/// For a K-major operand, `stride_bytes` is the distance from one group of 8 rows to the next (1024 with
/// [`Swizzle::B128`]). Without a swizzle, `lead_bytes` is the distance from one core matrix to the next
/// along K; with a swizzle it is ignored, and 16 is the usual value. A step of 16 elements along K inside
/// of a swizzled row adds 32 bytes to `addr`.
///
/// The tile must start at a multiple of [`Swizzle::repeat_bytes`], so that the base offset is 0.
#[inline(always)]
pub const fn descriptor(addr: u32, lead_bytes: u32, stride_bytes: u32, swizzle: Swizzle) -> u64 {
    field(addr) | field(lead_bytes) << 16 | field(stride_bytes) << 32 | (swizzle as u64) << 62
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The manual's table, field by field: first bit, width, and what it holds, for a tile at byte
    /// 0x2480 with offsets 0x30 and 0x500.
    #[test]
    fn fields_are_where_the_manual_says() {
        let codes = [(Swizzle::None, 0), (Swizzle::B128, 1), (Swizzle::B64, 2), (Swizzle::B32, 3)];
        for (swizzle, code) in codes {
            let d = descriptor(0x2480, 0x30, 0x500, swizzle);
            let bits = |first: u32, last: u32| d >> first & ((1 << (last - first + 1)) - 1);
            assert_eq!(bits(0, 13), 0x248, "start address");
            assert_eq!(bits(14, 15), 0);
            assert_eq!(bits(16, 29), 0x3, "leading dimension byte offset");
            assert_eq!(bits(30, 31), 0);
            assert_eq!(bits(32, 45), 0x50, "stride dimension byte offset");
            assert_eq!(bits(46, 48), 0);
            assert_eq!(bits(49, 51), 0, "base offset");
            assert_eq!(bits(52, 61), 0);
            assert_eq!(bits(62, 63), code, "swizzle of {swizzle:?}");
        }
    }

    /// The descriptor that published Hopper kernels use for a K-major tile of 128-byte rows.
    #[test]
    fn k_major_128_byte_swizzle() {
        assert_eq!(descriptor(0, 16, 1024, Swizzle::B128), 0x4000_0040_0001_0000);
        // The highest shared address of a CTA, 228 KiB, fits 18 bits; a step of 16 elements is 32 B.
        assert_eq!(
            descriptor(0x38c00 + 32, 16, 1024, Swizzle::B128),
            0x4000_0040_0001_0000 | 0x38c2
        );
    }

    #[test]
    fn addresses_of_the_cluster_window_lose_their_rank() {
        assert_eq!(
            descriptor(0x0200_0400, 16, 1024, Swizzle::B128),
            descriptor(0x400, 16, 1024, Swizzle::B128)
        );
    }
}
