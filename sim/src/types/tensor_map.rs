//! Tensor maps: what TMA needs to know of a tensor, in the model's own 128 bytes.
//!
//! The constraints are those of `cuTensorMapEncodeTiled` (CUDA driver API, *Tensor Map Object
//! Management*); the packing is the model's, marked by a magic word.

/// Bytes of a tensor map.
pub(crate) const MAP_BYTES: u32 = 128;

/// Marks the model's tensor maps.
const MAGIC: u64 = 0x5750_544d_0001;

/// How 16-byte chunks of a row are permuted in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Swizzle {
    /// Not.
    #[default]
    None,
    /// Over 32 bytes, repeating every 256.
    B32,
    /// Over 64 bytes, repeating every 512.
    B64,
    /// Over 128 bytes, repeating every 1024.
    B128,
}

impl Swizzle {
    /// Bytes that a row of the pattern has.
    pub const fn span(self) -> u32 {
        match self {
            Self::None => 16,
            Self::B32 => 32,
            Self::B64 => 64,
            Self::B128 => 128,
        }
    }

    /// Bytes after which the pattern repeats: the alignment that tiles need.
    pub const fn repeat(self) -> u32 {
        match self {
            Self::None => 128,
            Self::B32 => 256,
            Self::B64 => 512,
            Self::B128 => 1024,
        }
    }

    /// Where the byte of a logical address lies: bits from 7 on are XORed into bits from 4 on, one
    /// for 32 B, two for 64 B, three for 128 B.
    #[inline]
    pub const fn apply(self, addr: u32) -> u32 {
        addr ^ (addr >> 3 & (self.span() - 16))
    }
}

/// Element types of tensors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[allow(missing_docs)]
pub enum DataType {
    U8,
    U16,
    U32,
    I32,
    U64,
    F16,
    Bf16,
    F32,
    /// f32 in global memory, which a load rounds to tf32.
    Tf32,
}

impl DataType {
    const ALL: [Self; 9] = [
        Self::U8,
        Self::U16,
        Self::U32,
        Self::I32,
        Self::U64,
        Self::F16,
        Self::Bf16,
        Self::F32,
        Self::Tf32,
    ];
    /// Bytes of an element.
    pub const fn size(self) -> u32 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 | Self::Tf32 => 4,
            Self::U64 => 8,
        }
    }
}

/// A tensor in global memory and the box that TMA moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TensorMapDesc {
    /// Element type.
    pub dtype: DataType,
    /// Dimensions, 1 to 5.
    pub rank: u32,
    /// Device address of element 0.
    pub addr: u64,
    /// Elements per dimension, innermost first.
    pub dims: [u64; 5],
    /// Bytes between elements of dimension 1, 2, 3, 4; dimension 0 is contiguous.
    pub strides: [u64; 4],
    /// Elements of the box per dimension.
    pub box_dims: [u32; 5],
    /// Permutation in shared memory.
    pub swizzle: Swizzle,
}

/// Why a tensor map can't be encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum EncodeError {
    #[error("rank {0}: 1 to 5")]
    Rank(u32),
    #[error("global address {0:#x} is not a multiple of 16")]
    Address(u64),
    #[error("dimension {dim} has {size} elements: 1 to 2^32")]
    Dim { dim: usize, size: u64 },
    #[error("stride {stride} of dimension {dim} is not a multiple of 16 below 2^40")]
    Stride { dim: usize, stride: u64 },
    #[error("box of {size} elements in dimension {dim}: 1 to 256")]
    Box { dim: usize, size: u32 },
    #[error("inner box of {0} bytes is not a multiple of 16")]
    InnerBytes(u32),
    #[error("inner box of {bytes} bytes with a swizzle over {span}: at most as many")]
    Span { bytes: u32, span: u32 },
    #[error("inner box of {bytes} bytes with a swizzle over {span}: the model needs as many")]
    Partial { bytes: u32, span: u32 },
}

impl TensorMapDesc {
    /// Bytes of one box.
    pub fn box_bytes(&self) -> u32 {
        self.box_dims[..self.rank as usize].iter().product::<u32>() * self.dtype.size()
    }

    fn check(&self) -> Result<(), EncodeError> {
        if !(1..=5).contains(&self.rank) {
            return Err(EncodeError::Rank(self.rank));
        }
        let rank = self.rank as usize;
        if !self.addr.is_multiple_of(16) {
            return Err(EncodeError::Address(self.addr));
        }
        for (dim, &size) in self.dims[..rank].iter().enumerate() {
            if size == 0 || size > 1 << 32 {
                return Err(EncodeError::Dim { dim, size });
            }
        }
        for (i, &stride) in self.strides[..rank - 1].iter().enumerate() {
            if !stride.is_multiple_of(16) || stride >= 1 << 40 {
                return Err(EncodeError::Stride { dim: i + 1, stride });
            }
        }
        for (dim, &size) in self.box_dims[..rank].iter().enumerate() {
            if size == 0 || size > 256 {
                return Err(EncodeError::Box { dim, size });
            }
        }
        let bytes = self.box_dims[0] * self.dtype.size();
        if !bytes.is_multiple_of(16) {
            return Err(EncodeError::InnerBytes(bytes));
        }
        let span = self.swizzle.span();
        if self.swizzle != Swizzle::None && bytes > span {
            return Err(EncodeError::Span { bytes, span });
        }
        if self.swizzle != Swizzle::None && bytes < span {
            return Err(EncodeError::Partial { bytes, span });
        }
        Ok(())
    }
}

/// Packs a tensor map.
pub fn encode(desc: &TensorMapDesc) -> Result<[u64; 16], EncodeError> {
    desc.check()?;
    let mut out = [0; 16];
    out[0] =
        MAGIC << 16 | u64::from(desc.rank) | (desc.swizzle as u64) << 4 | (desc.dtype as u64) << 8;
    out[1] = desc.addr;
    let rank = desc.rank as usize;
    out[2..2 + rank].copy_from_slice(&desc.dims[..rank]);
    out[7..7 + rank - 1].copy_from_slice(&desc.strides[..rank - 1]);
    for (i, &b) in desc.box_dims[..rank].iter().enumerate() {
        out[11 + i] = u64::from(b);
    }
    Ok(out)
}

/// Unpacks what [`encode`] gave; none if it is something else.
pub fn decode(words: &[u64; 16]) -> Option<TensorMapDesc> {
    let head = words[0];
    let swizzle = match head >> 4 & 15 {
        0 => Swizzle::None,
        1 => Swizzle::B32,
        2 => Swizzle::B64,
        3 => Swizzle::B128,
        _ => return None,
    };
    let desc = TensorMapDesc {
        dtype: *DataType::ALL.get((head >> 8 & 255) as usize)?,
        rank: (head & 15) as u32,
        addr: words[1],
        dims: std::array::from_fn(|i| words[2 + i]),
        strides: std::array::from_fn(|i| words[7 + i]),
        box_dims: std::array::from_fn(|i| words[11 + i] as u32),
        swizzle,
    };
    (head >> 16 == MAGIC && desc.check().is_ok()).then_some(desc)
}

/// A field of a tensor map and its new value, in the numbers of `tensormap.replace`. Fields with a value
/// for each dimension have the ordinal first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Field {
    Address(u64),
    /// One less than the rank.
    Rank(u32),
    BoxDim(u32, u32),
    GlobalDim(u32, u32),
    /// In bytes; ordinal 0 is that of dimension 1.
    GlobalStride(u32, u64),
    ElementStride(u32, u32),
    ElementType(u32),
    Interleave(u32),
    Swizzle(u32),
    Fill(u32),
}

/// Why a field can't be replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum ReplaceError {
    #[error("what lies there is no tensor map of the model, and not zeros")]
    NotAMap,
    #[error("ordinal {ord}: 0 to {last}")]
    Ordinal { ord: u32, last: u32 },
    #[error("rank operand {0}: one less than the rank, 0 to 4")]
    Rank(u32),
    #[error("{what} {value}: the model has only {only}")]
    NotModelled { what: &'static str, value: u32, only: &'static str },
}

/// The element types by number (PTX manual, *tensormap.replace*, table of values).
fn element_type(value: u32) -> Option<DataType> {
    Some(match value {
        0 => DataType::U8,
        1 => DataType::U16,
        2 => DataType::U32,
        3 => DataType::I32,
        4 => DataType::U64,
        6 => DataType::F16,
        7 => DataType::F32,
        10 => DataType::Bf16,
        11 => DataType::Tf32,
        _ => return None,
    })
}

/// Replaces one field of a packed map. What the fields make together is checked when the map is used:
/// between two replacements it may be nonsense. A map of zeros is one to begin with, as on sm_90a (CUDA
/// programming guide, *Encoding a Tensor Map on Device*).
pub(crate) fn replace(words: &mut [u64; 16], field: Field) -> Result<(), ReplaceError> {
    use ReplaceError::{NotAMap, NotModelled, Ordinal, Rank};
    if *words == [0; 16] {
        words[0] = MAGIC << 16;
    }
    if words[0] >> 16 != MAGIC {
        return Err(NotAMap);
    }
    let at = |first: usize, ord: u32, last: u32| {
        if ord > last { Err(Ordinal { ord, last }) } else { Ok(first + ord as usize) }
    };
    let only = |what, value, one, only| {
        if value == one { Ok(()) } else { Err(NotModelled { what, value, only }) }
    };
    let mut head = |bits: u64, shift: u32, value: u64| {
        words[0] = words[0] & !(bits << shift) | value << shift;
    };
    match field {
        Field::Address(addr) => words[1] = addr,
        Field::Rank(less) if less > 4 => return Err(Rank(less)),
        Field::Rank(less) => head(15, 0, u64::from(less) + 1),
        Field::BoxDim(ord, size) => words[at(11, ord, 4)?] = u64::from(size),
        Field::GlobalDim(ord, size) => words[at(2, ord, 4)?] = u64::from(size),
        Field::GlobalStride(ord, bytes) => words[at(7, ord, 3)?] = bytes,
        Field::ElementStride(ord, stride) => {
            at(0, ord, 4)?;
            only("element stride", stride, 1, "1")?;
        }
        Field::ElementType(value) => {
            let only = "u8, u16, u32, s32, u64, f16, f32 and bf16";
            let dtype =
                element_type(value).ok_or(NotModelled { what: "element type", value, only })?;
            head(255, 8, dtype as u64);
        }
        Field::Interleave(value) => only("interleave layout", value, 0, "0, none")?,
        Field::Swizzle(mode) if mode > 3 => {
            return Err(NotModelled { what: "swizzle mode", value: mode, only: "0 to 3" });
        }
        Field::Swizzle(mode) => head(15, 4, u64::from(mode)),
        Field::Fill(value) => only("fill mode", value, 0, "0, zeros")?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> TensorMapDesc {
        TensorMapDesc {
            dtype: DataType::Bf16,
            rank: 2,
            addr: 1 << 52,
            dims: [1000, 77, 0, 0, 0],
            strides: [2000, 0, 0, 0],
            box_dims: [64, 128, 0, 0, 0],
            swizzle: Swizzle::B128,
        }
    }

    #[test]
    fn a_map_comes_back() {
        assert_eq!(decode(&encode(&plain()).unwrap()), Some(plain()));
        assert_eq!(decode(&[0; 16]), None);
    }

    #[test]
    fn the_drivers_constraints() {
        let with = |f: fn(&mut TensorMapDesc)| {
            let mut d = plain();
            f(&mut d);
            encode(&d).unwrap_err()
        };
        assert_eq!(with(|d| d.rank = 6), EncodeError::Rank(6));
        assert_eq!(with(|d| d.addr += 8), EncodeError::Address((1 << 52) + 8));
        assert_eq!(with(|d| d.dims[1] = 0), EncodeError::Dim { dim: 1, size: 0 });
        assert_eq!(with(|d| d.strides[0] = 2002), EncodeError::Stride { dim: 1, stride: 2002 });
        assert_eq!(with(|d| d.box_dims[1] = 257), EncodeError::Box { dim: 1, size: 257 });
        assert_eq!(with(|d| d.box_dims[0] = 4), EncodeError::InnerBytes(8));
        assert_eq!(with(|d| d.box_dims[0] = 128), EncodeError::Span { bytes: 256, span: 128 });
    }

    /// Field by field, from zeros and from another map, comes what [`encode`] gives.
    #[test]
    fn replaced_fields_make_the_map() {
        let want = encode(&plain()).unwrap();
        let other = TensorMapDesc {
            dtype: DataType::U8,
            rank: 3,
            addr: 1 << 53,
            dims: [64, 64, 64, 0, 0],
            strides: [64, 4096, 0, 0],
            box_dims: [16, 16, 1, 0, 0],
            swizzle: Swizzle::None,
        };
        for mut words in [[0; 16], encode(&other).unwrap()] {
            let (zeros, d) = (words == [0; 16], plain());
            let mut set = |field| replace(&mut words, field).unwrap();
            set(Field::Address(d.addr));
            set(Field::Rank(1));
            for ord in 0..2 {
                set(Field::BoxDim(ord, d.box_dims[ord as usize]));
                set(Field::GlobalDim(ord, d.dims[ord as usize] as u32));
                set(Field::ElementStride(ord, 1));
            }
            set(Field::GlobalStride(0, d.strides[0]));
            set(Field::ElementType(10));
            set(Field::Interleave(0));
            set(Field::Swizzle(3));
            set(Field::Fill(0));
            let same = decode(&words).unwrap();
            assert_eq!((same.dims[..2].to_vec(), same.strides[0]), (vec![1000, 77], 2000));
            assert!(!zeros || words == want, "from zeros, nothing else is left");
        }
    }

    #[test]
    fn fields_out_of_range() {
        let with = |field| replace(&mut encode(&plain()).unwrap(), field).unwrap_err();
        assert_eq!(with(Field::Rank(5)), ReplaceError::Rank(5));
        assert_eq!(with(Field::GlobalStride(4, 0)), ReplaceError::Ordinal { ord: 4, last: 3 });
        assert!(matches!(with(Field::ElementStride(0, 2)), ReplaceError::NotModelled { .. }));
        assert!(matches!(with(Field::ElementType(9)), ReplaceError::NotModelled { .. }));
        assert_eq!(replace(&mut [7; 16], Field::Address(0)).unwrap_err(), ReplaceError::NotAMap);
    }

    /// PTX manual, *Tensor swizzling modes*, in words: with 128 B, chunk c of row r (rows of 128
    /// bytes) goes to chunk c XOR (r mod 8); with 64 B, of rows of 64 bytes, to c XOR (r / 2 mod
    /// 4); with 32 B, of rows of 32 bytes, to c XOR (r / 4 mod 2).
    #[test]
    fn swizzles_in_the_manuals_words() {
        for r in 0..32 {
            for c in 0..8 {
                assert_eq!(Swizzle::B128.apply(r * 128 + c * 16), r * 128 + (c ^ (r % 8)) * 16);
            }
            for c in 0..4 {
                assert_eq!(Swizzle::B64.apply(r * 64 + c * 16), r * 64 + (c ^ (r / 2 % 4)) * 16);
            }
            for c in 0..2 {
                assert_eq!(Swizzle::B32.apply(r * 32 + c * 16), r * 32 + (c ^ (r / 4 % 2)) * 16);
            }
            assert_eq!(Swizzle::None.apply(r * 16), r * 16);
        }
    }
}
