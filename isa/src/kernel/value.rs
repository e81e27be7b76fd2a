//! Arguments that are passed by value: numbers, and structs of numbers.

#[cfg(not(target_arch = "nvptx64"))]
use crate::slice::SliceAbi;

/// A type that can be a field of a struct with `#[derive(KernelArg)]`. Its bytes mean the same on the
/// host and on the device.
///
/// # Safety
/// The type must be valid for all bytes of any value with the same size, alignment and `LAYOUT`. No safe
/// function may access memory of other grids through it before the calling thread has executed
/// `griddepcontrol.wait`. The value must borrow the memory that it gives access to.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a field of a kernel's argument",
    label = "not a by-value argument",
    note = "fields are numbers, arrays of them, dependent slices and structs with #[derive(KernelArg)]; a tensor map, a DeviceSlice or a token is an argument of its own"
)]
pub unsafe trait ByValue: Copy {
    /// A hash of the layout: 0 for numbers without a gap, which are valid for any bytes. A launch compares
    /// it, so that only a slice can be passed as a slice.
    const LAYOUT: u64;
    /// Calls `visit` for each slice in the value, so that the host can check its memory.
    #[cfg(not(target_arch = "nvptx64"))]
    fn slices(&self, visit: &mut dyn FnMut(SliceAbi)) {
        let _ = visit;
    }
}

/// Adds a word to a layout's hash (FNV-1a over words).
const fn mix(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3)
}

/// [`ByValue::LAYOUT`] of a type of `size` bytes with the parts `(offset, size, layout)`.
pub const fn layout(size: usize, parts: &[(usize, usize, u64)]) -> u64 {
    let mut hash = mix(0xcbf2_9ce4_8422_2325, size as u64);
    let (mut i, mut bytes, mut numbers) = (0, 0, true);
    while i < parts.len() {
        let (offset, size, layout) = parts[i];
        bytes += size;
        numbers &= layout == 0;
        hash = mix(mix(mix(hash, offset as u64), size as u64), layout);
        i += 1;
    }
    // Contiguous numbers have layout 0; every other layout has its lowest bit set.
    if numbers && bytes == size { 0 } else { hash | 1 }
}

macro_rules! numbers {
    ($($t:ty),*) => {$(
        // SAFETY: valid for any bytes, without access to memory.
        unsafe impl ByValue for $t {
            const LAYOUT: u64 = 0;
        }
    )*};
}
numbers!(u8, i8, u16, i16, u32, i32, u64, i64, f32, half::bf16, half::f16);

// SAFETY: it has no bytes.
unsafe impl<T> ByValue for core::marker::PhantomData<T> {
    const LAYOUT: u64 = 0;
}

// SAFETY: the elements are contiguous, and each is a by-value argument.
unsafe impl<T: ByValue, const N: usize> ByValue for [T; N] {
    const LAYOUT: u64 = if T::LAYOUT == 0 {
        0
    } else {
        layout(size_of::<Self>(), &[(N, size_of::<T>(), T::LAYOUT)])
    };
    #[cfg(not(target_arch = "nvptx64"))]
    fn slices(&self, visit: &mut dyn FnMut(SliceAbi)) {
        for element in self {
            element.slices(visit);
        }
    }
}
