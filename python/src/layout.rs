//! A tensor of another library, as an address with shape and strides, and the matrix that the GEMM reads.
//!
//! Invariant: a [`Matrix`] made here lies inside its tensor, its rows do not overlap, and on a GPU it starts
//! at a multiple of 16 bytes. Nothing here touches memory.

use crate::refusal::Refusal;
use std::fmt;

/// Most dimensions of a tensor.
pub const MAX_DIMS: usize = 8;

/// TMA requires that a matrix starts at a multiple of this many bytes.
const ALIGNMENT: u64 = 16;

/// Memory that holds a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Place {
    /// Memory of the host.
    Host,
    /// Memory of the GPU with this ordinal.
    Cuda(i32),
    /// Another kind, with its number in DLPack's `DLDeviceType`.
    Other(i32),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => write!(f, "cpu"),
            Self::Cuda(i) => write!(f, "cuda:{i}"),
            Self::Other(kind) => write!(f, "DLPack device type {kind}"),
        }
    }
}

/// An element type as DLPack states it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(C)]
pub struct Element {
    /// Kind: 0 int, 1 uint, 2 float, 4 bfloat, …
    pub code: u8,
    /// Bits of one element.
    pub bits: u8,
    /// Elements of a vector; 1 for scalars.
    pub lanes: u16,
}

impl Element {
    /// float16.
    pub const F16: Self = Self { code: 2, bits: 16, lanes: 1 };
    /// bfloat16.
    pub const BF16: Self = Self { code: 4, bits: 16, lanes: 1 };
    /// float32.
    pub const F32: Self = Self { code: 2, bits: 32, lanes: 1 };
    /// float8_e4m3fn.
    pub const E4M3: Self = Self { code: 10, bits: 8, lanes: 1 };
    /// uint8.
    pub const U8: Self = Self { code: 1, bits: 8, lanes: 1 };

    /// Bytes of one element.
    pub fn size(self) -> u64 {
        (u64::from(self.bits) * u64::from(self.lanes)).div_ceil(8)
    }

    /// The type of this name in numpy and torch, if the GEMM knows it.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "float16" | "half" => Some(Self::F16),
            "bfloat16" => Some(Self::BF16),
            "float32" | "float" => Some(Self::F32),
            _ => None,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.bits;
        match self.code {
            0 => write!(f, "int{bits}")?,
            1 => write!(f, "uint{bits}")?,
            2 => write!(f, "float{bits}")?,
            4 => write!(f, "bfloat{bits}")?,
            5 => write!(f, "complex{bits}")?,
            6 => write!(f, "bool")?,
            10 => write!(f, "float8_e4m3fn")?,
            12 => write!(f, "float8_e5m2")?,
            code => write!(f, "DLPack type {code} of {bits} bits")?,
        }
        if self.lanes == 1 { Ok(()) } else { write!(f, "x{}", self.lanes) }
    }
}

/// A short list of sizes or strides.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dims {
    values: [i64; MAX_DIMS],
    len: usize,
}

impl Dims {
    /// No dimensions.
    pub const EMPTY: Self = Self { values: [0; MAX_DIMS], len: 0 };

    /// Copies a list; `None` if it is longer than [`MAX_DIMS`].
    pub fn new(list: &[i64]) -> Option<Self> {
        let mut dims = Self { len: list.len(), ..Self::EMPTY };
        dims.values.get_mut(..list.len())?.copy_from_slice(list);
        Some(dims)
    }

    /// Appends a value; `false` if there is no room.
    pub fn push(&mut self, value: i64) -> bool {
        let Some(place) = self.values.get_mut(self.len) else { return false };
        *place = value;
        self.len += 1;
        true
    }

    /// The values.
    pub fn as_slice(&self) -> &[i64] {
        &self.values[..self.len]
    }

    /// Strides, in elements, of a tensor of this shape without gaps.
    #[must_use]
    pub fn contiguous(&self) -> Self {
        let mut strides = *self;
        let mut step = 1i64;
        for i in (0..self.len).rev() {
            strides.values[i] = step;
            step = step.saturating_mul(self.values[i].max(1));
        }
        strides
    }
}

impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

impl fmt::Display for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_slice())
    }
}

/// A tensor of another library.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct View {
    /// Address of the first element.
    pub addr: u64,
    /// Memory that the address belongs to.
    pub place: Place,
    /// Element type.
    pub element: Element,
    /// Size of each dimension.
    pub shape: Dims,
    /// Elements from one index of a dimension to the next.
    pub strides: Dims,
    /// Whether its library forbids to write it.
    pub readonly: bool,
}

/// A matrix whose rows have adjacent elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Matrix {
    /// Address of the first element.
    pub addr: u64,
    /// Rows.
    pub rows: u64,
    /// Elements of a row.
    pub cols: u64,
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// Bytes of a row.
    pub row_bytes: u64,
}

impl Matrix {
    /// Bytes from the first element to the end of the last; 0 if there are no elements.
    pub fn span(&self) -> u64 {
        if self.rows == 0 || self.cols == 0 {
            return 0;
        }
        ((self.rows - 1).saturating_mul(self.pitch)).saturating_add(self.row_bytes)
    }
}

/// How the GEMM can read a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// In place.
    Rows(Matrix),
    /// Through a copy whose rows have adjacent elements.
    Copy,
}

/// Which dimension of a tensor has the elements that are multiplied with each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The last one: `[..., rows, cols]`.
    Rows,
    /// The one before: `[..., cols, rows]`, such as B [K, N] of which the GEMM reads rows of K elements.
    Columns,
}

impl View {
    /// The matrix of the tensor, with all dimensions before the last as rows.
    ///
    /// # Errors
    /// A negative stride, elements that overlap, or a start that is not aligned on a GPU.
    pub fn layout(&self, name: &'static str, order: Order) -> Result<Layout, Refusal> {
        let (mut shape, mut strides) = (self.shape, self.strides);
        if order == Order::Columns {
            for dims in [&mut shape, &mut strides] {
                let len = dims.len;
                dims.values.swap(len - 2, len - 1);
            }
        }
        if self.shape.as_slice().contains(&0) {
            let (rows, cols) = rows_and_cols(&shape);
            let row_bytes = cols * self.element.size();
            return Ok(Layout::Rows(Matrix {
                addr: self.addr,
                rows,
                cols,
                pitch: row_bytes,
                row_bytes,
            }));
        }
        self.check_signs(name)?;
        if self.overlaps() {
            return Err(self.refuse(name, "its elements overlap; copy it, e.g. with .contiguous()"));
        }
        let (rows, cols) = rows_and_cols(&shape);
        let Some((&last, leading)) = strides.as_slice().split_last() else {
            return Err(Refusal::Dimensions { name, have: 0, need: "at least 1" });
        };
        if cols > 1 && last != 1 {
            return Ok(Layout::Copy);
        }
        // Leading dimensions must follow each other without a jump.
        let mut pitch = None;
        let mut step = 0i64;
        for (&size, &stride) in shape.as_slice()[..leading.len()].iter().zip(leading).rev() {
            if size == 1 {
                continue;
            }
            if pitch.is_some() && stride != step {
                return Ok(Layout::Copy);
            }
            pitch = pitch.or(Some(stride));
            step = stride.saturating_mul(size);
        }
        self.check_alignment(name)?;
        let size = self.element.size();
        let row_bytes = cols * size;
        let pitch = pitch.map_or(row_bytes, |p| (p as u64).saturating_mul(size));
        Ok(Layout::Rows(Matrix { addr: self.addr, rows, cols, pitch, row_bytes }))
    }

    /// Checks that no stride is negative.
    ///
    /// # Errors
    /// A [`Refusal`] with shape and strides.
    pub fn check_signs(&self, name: &'static str) -> Result<(), Refusal> {
        let mut pairs = self.shape.as_slice().iter().zip(self.strides.as_slice());
        if !pairs.any(|(&size, &stride)| size > 1 && stride < 0) {
            return Ok(());
        }
        Err(self.refuse(name, "a stride is negative; copy it, e.g. with .contiguous()"))
    }

    /// Whether two indices may have the same element.
    pub fn overlaps(&self) -> bool {
        let pairs = self.shape.as_slice().iter().zip(self.strides.as_slice());
        let dims: Counted = pairs.filter(|(size, _)| **size > 1).map(|(n, s)| (*n, *s)).collect();
        !self.shape.as_slice().contains(&0) && dims.overlap()
    }

    /// Whether TMA can start at the first element; the host's memory is copied from anywhere.
    ///
    /// # Errors
    /// A [`Refusal`] with the address.
    pub fn check_alignment(&self, name: &'static str) -> Result<(), Refusal> {
        let odd = self.addr % ALIGNMENT;
        if odd == 0 || !matches!(self.place, Place::Cuda(_)) {
            return Ok(());
        }
        Err(Refusal::Misaligned { name, addr: self.addr, over: odd })
    }

    /// The refusal of these strides.
    pub fn refuse(&self, name: &'static str, what: &'static str) -> Refusal {
        let (shape, strides) = (self.shape.to_string(), self.strides.to_string());
        Refusal::Strides { name, shape, strides, what }
    }

    /// First byte and the byte behind the last one that any element occupies.
    pub fn range(&self) -> (u64, u64) {
        let pairs = self.shape.as_slice().iter().zip(self.strides.as_slice());
        if self.shape.as_slice().contains(&0) {
            return (self.addr, self.addr);
        }
        let (mut low, mut high) = (0i64, 0i64);
        for (&size, &stride) in pairs {
            let reach = (size - 1).saturating_mul(stride);
            low = low.saturating_add(reach.min(0));
            high = high.saturating_add(reach.max(0));
        }
        let size = self.element.size();
        let start = self.addr.saturating_sub(low.unsigned_abs().saturating_mul(size));
        (start, self.addr.saturating_add((high as u64).saturating_add(1).saturating_mul(size)))
    }
}

/// The product of all dimensions but the last, and the last.
fn rows_and_cols(shape: &Dims) -> (u64, u64) {
    let Some((&cols, leading)) = shape.as_slice().split_last() else { return (1, 1) };
    (leading.iter().fold(1u64, |rows, &size| rows.saturating_mul(size as u64)), cols as u64)
}

/// Sizes above 1, with their strides.
#[derive(Default)]
struct Counted {
    dims: [(i64, i64); MAX_DIMS],
    len: usize,
}

impl FromIterator<(i64, i64)> for Counted {
    fn from_iter<T: IntoIterator<Item = (i64, i64)>>(iter: T) -> Self {
        let mut all = Self::default();
        for (place, dim) in all.dims.iter_mut().zip(iter) {
            *place = dim;
            all.len += 1;
        }
        all
    }
}

impl Counted {
    /// Whether two indices may have the same element. In the order of the strides, each stride must exceed
    /// the reach of those before it.
    fn overlap(mut self) -> bool {
        let dims = &mut self.dims[..self.len];
        dims.sort_unstable_by_key(|&(_, stride)| stride);
        let mut reach = 0i64;
        for &mut (size, stride) in dims {
            if stride <= reach {
                return true;
            }
            reach = reach.saturating_add((size - 1).saturating_mul(stride));
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(shape: &[i64], strides: &[i64]) -> View {
        View {
            addr: 4096,
            place: Place::Cuda(0),
            element: Element::BF16,
            shape: Dims::new(shape).unwrap(),
            strides: Dims::new(strides).unwrap(),
            readonly: false,
        }
    }

    fn rows(shape: &[i64], strides: &[i64], order: Order) -> Option<(u64, u64, u64)> {
        match view(shape, strides).layout("x", order).unwrap() {
            Layout::Rows(m) => Some((m.rows, m.cols, m.pitch)),
            Layout::Copy => None,
        }
    }

    #[test]
    fn rows_with_adjacent_elements_are_read_in_place() {
        use Order::{Columns, Rows};
        type Case<'a> = (&'a [i64], &'a [i64], Order, Option<(u64, u64, u64)>);
        let cases: &[Case<'_>] = &[
            (&[3, 8], &[8, 1], Rows, Some((3, 8, 16))),
            (&[3, 8], &[64, 1], Rows, Some((3, 8, 128))),
            // Leading dimensions that follow each other, with gaps between rows.
            (&[2, 3, 8], &[48, 16, 1], Rows, Some((6, 8, 32))),
            (&[2, 3, 8], &[100, 16, 1], Rows, None),
            // Strides of dimensions of size 1 mean nothing.
            (&[1, 3, 8], &[7, 16, 1], Rows, Some((3, 8, 32))),
            (&[3, 1], &[5, 77], Rows, Some((3, 1, 10))),
            (&[1, 8], &[1, 1], Rows, Some((1, 8, 16))),
            // The view w.t() of a weight [N, K] = [4, 8], and the same shape stored row by row.
            (&[8, 4], &[1, 8], Columns, Some((4, 8, 16))),
            (&[8, 4], &[4, 1], Columns, None),
            (&[3, 8], &[1, 3], Rows, None),
            (&[3, 4], &[16, 2], Rows, None),
            (&[8], &[1], Rows, Some((1, 8, 16))),
            (&[0, 8], &[8, 1], Rows, Some((0, 8, 16))),
        ];
        for &(shape, strides, order, want) in cases {
            assert_eq!(rows(shape, strides, order), want, "{shape:?} {strides:?} {order:?}");
        }
    }

    #[test]
    fn overlapping_negative_and_misaligned_views_are_refused_with_their_numbers() {
        for (shape, strides, word) in [
            ([3i64, 8], [4i64, 1], "overlap"),
            ([3, 8], [0, 1], "overlap"),
            ([3, 8], [8, 0], "overlap"),
            ([3, 8], [-8, 1], "negative"),
            ([3, 8], [8, -1], "negative"),
        ] {
            let text = view(&shape, &strides).layout("a", Order::Rows).unwrap_err().to_string();
            assert!(text.contains(word) && text.contains(&format!("{strides:?}")), "{text}");
        }
        let odd = View { addr: 4098, ..view(&[3, 8], &[8, 1]) };
        let text = odd.layout("a", Order::Rows).unwrap_err().to_string();
        assert!(text.contains("0x1002") && text.contains("16"), "{text}");
        // The host's copies start anywhere.
        let host = View { place: Place::Host, ..odd };
        assert!(matches!(host.layout("a", Order::Rows), Ok(Layout::Rows(_))));
    }

    #[test]
    fn a_range_covers_all_elements() {
        assert_eq!(view(&[3, 8], &[16, 1]).range(), (4096, 4096 + 2 * (2 * 16 + 8)));
        assert_eq!(view(&[3, 8], &[-16, 1]).range(), (4096 - 64, 4096 + 16));
        assert_eq!(view(&[0, 8], &[8, 1]).range(), (4096, 4096));
    }

    #[test]
    fn sizes_near_the_limits_do_not_overflow() {
        let huge = view(&[i64::MAX, i64::MAX], &[i64::MAX, 1]);
        assert!(matches!(huge.layout("a", Order::Rows), Ok(_) | Err(_)));
        let _ = huge.range();
        assert_eq!(Dims::new(&[1; 9]), None);
        assert_eq!(Dims::new(&[2, 3, 4]).unwrap().contiguous().as_slice(), [12, 4, 1]);
    }
}
