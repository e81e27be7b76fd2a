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

/// Makes a descriptor. The instruction says whether the operand is K-major or MN-major
/// ([`super::Major`]).
///
/// | operand | `lead_bytes` | `stride_bytes` | 16 along K |
/// |---|---|---|---|
/// | K-major, swizzled | ignored; 16 is usual | from 8 rows to the next 8 | 32 bytes |
/// | K-major | from a core matrix to the next along K | from 8 rows to the next 8 | twice the lead |
/// | MN-major, swizzled | from a panel to the next along M or N | from 8 k to the next 8 | twice the stride |
/// | MN-major | from 8 k to the next 8 | from a core matrix to the next along M or N | twice the lead |
///
/// A *panel* of an operand with a swizzle is as wide as its span ([`Swizzle::span_bytes`]): a K-major
/// panel has as many bytes of each row, an MN-major panel of each k. Its lines follow each other, so eight
/// lines have [`Swizzle::repeat_bytes`]. TMA writes such a panel with a box as wide as the span. So the
/// packed stride is 1024 bytes with [`Swizzle::B128`], and an MN-major operand, of which a tile holds `k`
/// lines along K, has a lead of `128 * k` and steps of 2048 bytes. A *core matrix* has 8 lines of 16 bytes,
/// 128 bytes in all.
///
/// The last column is the distance from one instruction's operand to that of the next 16 elements along K,
/// which is added to `addr`; for a swizzled K-major operand inside of a panel. An MN-major operand that has
/// no more than one panel has no lead, and it may start inside of a panel, as far as it does not leave it:
/// 16 bytes on `addr` are 8 elements.
///
/// The tile must start at a multiple of [`Swizzle::repeat_bytes`], so that the base offset is 0; so must,
/// with a swizzle, the lead and the stride of an MN-major operand.
///
/// PTX manual: *Asynchronous Warpgroup Level Matrix Shared Memory Layout*, "Canonical Layouts". CUTLASS
/// `make_gmma_desc`.
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

    /// A tile of 128 lines along K and of two panels of 64 columns along N. The second step
    /// along K follows after 16 lines of 128 bytes.
    #[test]
    fn mn_major_128_byte_swizzle() {
        let first = descriptor(0x4000, 128 * 128, 1024, Swizzle::B128);
        assert_eq!(first, 0x4000_0040_0400_0400);
        assert_eq!(descriptor(0x4000 + 16 * 128, 128 * 128, 1024, Swizzle::B128), first + 0x80);
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
