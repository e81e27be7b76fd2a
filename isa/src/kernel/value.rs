//! Arguments that are passed by value: numbers, and structs of them.

#[cfg(not(target_arch = "nvptx64"))]
use crate::slice::SliceAbi;

/// A type that a struct with `#[derive(KernelArg)]` can have as a field: bytes that mean the same on both
/// sides of a launch.
///
/// # Safety
/// The type is valid for all bytes that a value of a type with the same size, alignment and `LAYOUT` can
/// have. No safe function reaches memory of other grids by way of it before the calling thread has
/// executed `griddepcontrol.wait`. What memory it leads to is borrowed for as long as the value lives.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a field of a kernel's argument",
    label = "not a by-value argument",
    note = "fields are numbers, arrays of them, dependent slices and structs with #[derive(KernelArg)]; a tensor map, a DeviceSlice or a token is an argument of its own"
)]
pub unsafe trait ByValue: Copy {
    /// What lies where, as a number: 0 for numbers without a gap, which are valid for any bytes. It is
    /// compared at a launch, so that nothing but a slice can be taken for a slice.
    const LAYOUT: u64;
    /// Calls `visit` for each slice in it, so that the host can check that its memory is the device's.
    #[cfg(not(target_arch = "nvptx64"))]
    fn slices(&self, visit: &mut dyn FnMut(SliceAbi)) {
        let _ = visit;
    }
}

/// One more number of a layout (FNV-1a, of words).
const fn mix(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3)
}

/// [`ByValue::LAYOUT`] of something of `size` bytes whose parts are `(offset, size, layout)`.
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
    // Numbers side by side are the same as any others. (The last bit tells the rest from them.)
    if numbers && bytes == size { 0 } else { hash | 1 }
}

macro_rules! numbers {
    ($($t:ty),*) => {$(
        // SAFETY: valid for any bytes, and no way to memory.
        unsafe impl ByValue for $t {
            const LAYOUT: u64 = 0;
        }
    )*};
}
numbers!(u8, i8, u16, i16, u32, i32, u64, i64, f32, half::bf16, half::f16);

// SAFETY: its elements lie side by side, and each is a by-value argument.
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
