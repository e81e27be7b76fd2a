//! Views: matrices that lie somewhere in device memory, as the GEMM takes them.
//!
//! A view says where a matrix is. How many rows and columns it has, and of which type, the plan knows; the
//! plan checks the view when it is bound.

use crate::buffer::{Buffer, Memory};
use crate::stream::Stream;
use isa::kernel::Dtype;
use std::sync::Arc;

/// A row-major matrix in device memory that is read: an address, and a row pitch.
///
/// A `&Buffer` converts into the view of a packed matrix that fills it. The view keeps the memory of a
/// buffer alive; memory that was borrowed elsewhere stays borrowed for `'a`.
///
/// ```
/// # fn main() -> Result<(), host::Error> {
/// # let device = host::Device::sim(host::SimConfig::default());
/// use host::View;
///
/// // Rows 256 to 511 of activations [1024, 4096] in bf16.
/// let activations = device.alloc(1024 * 4096 * 2)?;
/// let rows = View::new(&activations).pitch(4096 * 2).offset(256 * 4096 * 2);
/// // The keys of head 5: columns 640 to 767 of matrix 3 of a cache [8, 2048, 4096].
/// let cache = device.alloc(8 * 2048 * 4096 * 2)?;
/// let keys = View::new(&cache).pitch(4096 * 2).batch(3, 2048 * 4096 * 2).offset(640 * 2);
/// # let _ = (rows, keys);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a view does nothing until a plan is bound to it"]
pub struct View<'a> {
    pub(crate) memory: Arc<Memory>,
    /// Bytes from the start of the memory to the first element; `u64::MAX` if that overflowed.
    pub(crate) offset: u64,
    /// Bytes from row to row; `None` for rows without gaps.
    pub(crate) pitch: Option<u64>,
    /// Whether the matrix must be as large as the memory.
    pub(crate) whole: bool,
    pub(crate) dtype: Option<Dtype>,
    pub(crate) loan: Option<Arc<Loan<'a>>>,
}

/// [`View`] of a matrix that is written.
#[must_use = "a view does nothing until a plan is bound to it"]
pub struct ViewMut<'a>(pub(crate) View<'a>);

/// Memory that is borrowed from another library until this is dropped.
pub(crate) struct Loan<'a> {
    /// The stream that its uses must be queued on.
    pub stream: Stream,
    /// Tells the library that the uses queued so far are all.
    _end: Box<dyn End + Send + Sync + 'a>,
}

/// Anything that acts when it is dropped.
trait End {}
impl<T> End for T {}

impl Loan<'_> {
    /// A loan that dropping `end` ends.
    #[cfg_attr(not(feature = "cudarc"), expect(dead_code, reason = "only adapters borrow"))]
    pub fn new<'a>(stream: Stream, end: impl Send + Sync + 'a) -> Arc<Loan<'a>> {
        Arc::new(Loan { stream, _end: Box::new(end) })
    }
}

/// The methods that both kinds of views have.
macro_rules! placed {
    ($self:ident => $view:expr) => {
        /// Moves the first element by `bytes` from where it is.
        pub fn offset(mut $self, bytes: u64) -> Self {
            let view = &mut $view;
            view.offset = view.offset.saturating_add(bytes);
            view.whole = false;
            $self
        }

        /// Sets the bytes from one row to the next. Without it, rows have no gaps.
        pub fn pitch(mut $self, bytes: u64) -> Self {
            let view = &mut $view;
            view.pitch = Some(bytes);
            view.whole = false;
            $self
        }

        /// Moves the first element to matrix `index` of a batch whose matrices are `stride` bytes apart.
        pub fn batch($self, index: u64, stride: u64) -> Self {
            $self.offset(index.saturating_mul(stride))
        }

        /// States the type of the elements, which the plan then checks. Memory itself has no type.
        pub fn dtype(mut $self, dtype: Dtype) -> Self {
            $view.dtype = Some(dtype);
            $self
        }
    };
}

impl View<'_> {
    /// The matrix at the start of a buffer, with rows without gaps. The buffer may be larger.
    pub fn new(buffer: &Buffer) -> Self {
        let memory = Arc::clone(&buffer.memory);
        Self { memory, offset: 0, pitch: None, whole: false, dtype: None, loan: None }
    }

    placed!(self => self);
}

impl ViewMut<'_> {
    /// The matrix at the start of a buffer, with rows without gaps. The buffer may be larger.
    pub fn new(buffer: &mut Buffer) -> Self {
        Self(View::new(buffer))
    }

    placed!(self => self.0);
}

impl From<&Buffer> for View<'_> {
    /// The packed matrix that fills the buffer.
    fn from(buffer: &Buffer) -> Self {
        Self { whole: true, ..Self::new(buffer) }
    }
}

impl From<&mut Buffer> for View<'_> {
    /// The packed matrix that fills the buffer.
    fn from(buffer: &mut Buffer) -> Self {
        Self::from(&*buffer)
    }
}

impl From<&mut Buffer> for ViewMut<'_> {
    /// The packed matrix that fills the buffer.
    fn from(buffer: &mut Buffer) -> Self {
        Self(View::from(&*buffer))
    }
}

/// A view that a plan can't use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The elements are of another type.
    #[error("GEMM operand {operand}: the view has elements of {have}; the plan has {want}")]
    Dtype {
        /// A, B, C or D.
        operand: char,
        /// The view's type.
        have: &'static str,
        /// The plan's type.
        want: &'static str,
    },
    /// The row pitch is less than a row, so rows overlap.
    #[error(
        "GEMM operand {operand}: the row pitch of {pitch} bytes is less than a row of {cols} {dtype} = {row} bytes"
    )]
    Pitch {
        /// A, B, C or D.
        operand: char,
        /// The pitch.
        pitch: u64,
        /// Columns.
        cols: u64,
        /// Element type.
        dtype: &'static str,
        /// Bytes of a row.
        row: u64,
    },
    /// The address or the row pitch is not a multiple of the element size.
    #[error(
        "GEMM operand {operand}: {what} {value:#x} is not a multiple of {size}, the bytes of {dtype}"
    )]
    Misaligned {
        /// A, B, C or D.
        operand: char,
        /// "address" or "row pitch".
        what: &'static str,
        /// Its value.
        value: u64,
        /// Bytes of an element.
        size: u64,
        /// Element type.
        dtype: &'static str,
    },
    /// The matrix is larger than its memory.
    #[error(
        "GEMM operand {operand}: {rows} rows of {row} bytes, {pitch} bytes apart, from byte {offset} end at byte {end}; the buffer has {len}"
    )]
    OutOfBuffer {
        /// A, B, C or D.
        operand: char,
        /// Rows.
        rows: u64,
        /// Bytes of a row.
        row: u64,
        /// Bytes from row to row.
        pitch: u64,
        /// Offset of the first element.
        offset: u64,
        /// One past the last byte.
        end: u64,
        /// Bytes of the buffer.
        len: u64,
    },
    /// D shares bytes with an operand that is read.
    #[error(
        "GEMM operand {operand} at {theirs:#x} (pitch {their_pitch}) overlaps D at {ours:#x} (pitch {our_pitch}); {right}"
    )]
    Overlap {
        /// A, B or C.
        operand: char,
        /// Its first byte.
        theirs: u64,
        /// Its row pitch.
        their_pitch: u64,
        /// First byte of D.
        ours: u64,
        /// Row pitch of D.
        our_pitch: u64,
        /// What would be right.
        right: &'static str,
    },
    /// Borrowed memory is used on a stream that its owner does not know of.
    #[error(
        "GEMM operand {operand} was borrowed for stream {have:#x}, and the product is run on stream {run:#x}"
    )]
    Stream {
        /// A, B, C or D.
        operand: char,
        /// The stream of the loan.
        have: u64,
        /// The stream of the run.
        run: u64,
    },
}
