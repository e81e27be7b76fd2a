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
/// # fn main() -> Result<(), warpipe_host::Error> {
/// # let device = warpipe_host::Device::sim(warpipe_host::SimConfig::default());
/// use warpipe_host::View;
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
