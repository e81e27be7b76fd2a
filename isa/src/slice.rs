//! Slices of device memory as kernel arguments.
//!
//! A slice is a pointer with a length, and every access is checked against the length. On the host a slice is a borrow of a
//! buffer, so that of a [`DeviceSliceMut`] is passed once per launch; parts of one buffer may overlap. To free a buffer waits
//! for the grid. Memory that another owner frees must live until then. All threads of the grid share the memory.
//! It is a race if two threads write the same element, or if one reads what another one writes without a
//! barrier between them. The value is then one of those written, without undefined behaviour in Rust, and
//! the SM model reports the race.

use crate::device;
use core::marker::PhantomData;

use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};

use crate::kernel::{Dtype, KernelArg, ParamKind, ParamMeta};
use crate::{E2m1x2, Tf32, Word, global};

/// An element of a device slice.
///
/// # Safety
/// `Word` has the size and alignment of `Self`, and `from_word` and `to_word` keep the bytes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the element of a device slice",
    label = "not an element type"
)]
pub unsafe trait Element: Copy + 'static {
    /// The word that one access moves.
    type Word: Word;
    /// The element type that a launch checks. With `None`, it checks only the size.
    const DTYPE: Option<Dtype>;
    /// Converts a word to the element with the same bytes.
    fn from_word(w: Self::Word) -> Self;
    /// Converts the element to the word with the same bytes.
    fn to_word(self) -> Self::Word;
}

macro_rules! elements {
    ($($t:ty as $w:ty, $dtype:expr, $from:expr, $to:expr;)*) => {$(
        // SAFETY: same size and alignment; the conversions keep the bits.
        unsafe impl Element for $t {
            type Word = $w;
            const DTYPE: Option<Dtype> = $dtype;
            #[inline(always)]
            fn from_word(w: $w) -> $t { $from(w) }
            #[inline(always)]
            fn to_word(self) -> $w { $to(self) }
        }
    )*};
}

elements! {
    bf16 as u16, Some(Dtype::Bf16), bf16::from_bits, bf16::to_bits;
    f16 as u16, Some(Dtype::F16), f16::from_bits, f16::to_bits;
    f32 as f32, Some(Dtype::F32), core::convert::identity, core::convert::identity;
    u32 as u32, Some(Dtype::U32), core::convert::identity, core::convert::identity;
    Tf32 as u32, Some(Dtype::Tf32), Tf32::from_bits, Tf32::to_bits;
    F8E4M3 as u8, Some(Dtype::E4m3), F8E4M3::from_bits, |v: F8E4M3| v.to_bits();
    F8E5M2 as u8, Some(Dtype::E5m2), F8E5M2::from_bits, |v: F8E5M2| v.to_bits();
    E2m1x2 as u8, Some(Dtype::U8), E2m1x2::from_bits, |v: E2m1x2| v.to_bits();
    i8 as u8, Some(Dtype::I8), u8::cast_signed, i8::cast_unsigned;
    u8 as u8, Some(Dtype::U8), core::convert::identity, core::convert::identity;
    u16 as u16, None, core::convert::identity, core::convert::identity;
    u64 as u64, None, core::convert::identity, core::convert::identity;
    i32 as u32, Some(Dtype::I32), u32::cast_signed, i32::cast_unsigned;
    [u32; 4] as [u32; 4], None, core::convert::identity, core::convert::identity;
    [f32; 4] as [u32; 4], None, |w: [u32; 4]| w.map(f32::from_bits), |v: [f32; 4]| v.map(f32::to_bits);
}

/// The kernel parameter of a slice.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SliceAbi {
    /// Device address of the first element.
    pub address: u64,
    /// Number of elements.
    pub elements: u64,
}

/// Description of the parameter of a slice of `T`.
const fn meta<T: Element>(writes: bool) -> ParamMeta {
    ParamMeta {
        kind: ParamKind::Slice as u32,
        size: size_of::<SliceAbi>() as u32,
        align: align_of::<SliceAbi>() as u32,
        dtype: match T::DTYPE {
            Some(dtype) => dtype as u32,
            None => 0,
        },
        box_rows: writes as u32,
        box_cols: size_of::<T>() as u32,
        ..ParamMeta::NONE
    }
}

/// A slice that the kernel reads.
#[derive(Clone, Copy)]
pub struct DeviceSlice<'a, T> {
    ptr: *const T,
    len: usize,
    memory: PhantomData<&'a [T]>,
}

impl<T: Element> DeviceSlice<'_, T> {
    /// Number of elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there is no element.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The address of the first element, for asynchronous copies.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const T {
        self.ptr
    }
    /// Element `i`, or `None` beyond the end.
    #[device]
    pub fn get(&self, i: usize) -> Option<T> {
        if i >= self.len {
            return None;
        }
        // SAFETY: `i < len`, and the launch lends `len` elements at `ptr` (`from_abi`).
        Some(T::from_word(unsafe { global::ld(self.ptr.wrapping_add(i).cast::<T::Word>()) }))
    }
    /// Element `i`, or `beyond` beyond the end.
    ///
    /// This takes no branch, and [`get`](Self::get) may take one. So several loads can be in flight together.
    /// (PTX: a predicated `ld.global`.)
    #[device]
    pub fn get_or(&self, i: usize, beyond: T) -> T {
        let p = self.ptr.wrapping_add(i).cast::<T::Word>();
        // SAFETY: it loads if `i < len`, and the launch lends `len` elements at `ptr` (`from_abi`).
        T::from_word(unsafe { global::ld_if(p, i < self.len, beyond.to_word()) })
    }
}

/// A slice that the kernel writes and may read. All threads of the grid share it, so `set` takes `&self`,
/// like a slice of cells.
pub struct DeviceSliceMut<'a, T> {
    ptr: *mut T,
    len: usize,
    memory: PhantomData<&'a mut [T]>,
}

impl<T: Element> DeviceSliceMut<'_, T> {
    /// Number of elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there is no element.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Element `i`, or `None` beyond the end.
    #[device]
    pub fn get(&self, i: usize) -> Option<T> {
        if i >= self.len {
            return None;
        }
        let p = self.ptr.wrapping_add(i).cast::<T::Word>();
        // SAFETY: `i < len`, and the launch lends `len` elements at `ptr` (`from_abi`).
        Some(T::from_word(unsafe { global::ld(p.cast_const()) }))
    }
    /// Writes element `i`. Beyond the end it traps, which is a report on the model and a launch error on a
    /// GPU.
    #[device]
    pub fn set(&self, i: usize, v: T) {
        if i >= self.len {
            crate::misc::trap();
        }
        // SAFETY: `i < len`, and the launch lends `len` elements at `ptr` (`from_abi`) to this grid
        // alone.
        unsafe { global::st(self.ptr.wrapping_add(i).cast::<T::Word>(), v.to_word()) }
    }
    /// Writes element `i`, if there is one, and returns whether there is.
    ///
    /// In a loop where only some lanes write, it is faster than [`set`](Self::set): a lane that could trap makes ptxas
    /// assume that the warp stays diverged, and then nothing after it is in uniform registers.
    #[device]
    pub fn try_set(&self, i: usize, v: T) -> bool {
        if i < self.len {
            // SAFETY: as in `set`.
            unsafe { global::st(self.ptr.wrapping_add(i).cast::<T::Word>(), v.to_word()) }
        }
        i < self.len
    }
}

impl DeviceSliceMut<'_, f32> {
    /// Raises element `i` to `magnitude`, which is not negative, if that is larger. A NaN counts as larger than all
    /// numbers. Beyond the end it does nothing.
    ///
    /// The order of such updates does not matter, so that any number of threads may do it at the same time. Nobody
    /// accesses the element in another way meanwhile. (PTX `red.global.max.u32`.)
    #[device]
    pub fn atomic_max(&self, i: usize, magnitude: f32) {
        if i < self.len {
            let p = self.ptr.wrapping_add(i).cast::<u32>();
            // SAFETY: `i < len`, and the launch lends `len` elements at `ptr` (`from_abi`).
            unsafe { global::red_max_u32(p, magnitude.to_bits() & 0x7fff_ffff) }
        }
    }
}

// SAFETY: `META` describes `SliceAbi`; a checked launch passes the address and length of a live
// buffer of `T`.
unsafe impl<T: Element> KernelArg for DeviceSlice<'_, T> {
    type Abi = SliceAbi;
    const META: ParamMeta = meta::<T>(false);
    #[inline(always)]
    unsafe fn from_abi(abi: SliceAbi) -> Self {
        Self { ptr: abi.address as *const T, len: abi.elements as usize, memory: PhantomData }
    }
}

// SAFETY: as for `DeviceSlice`. The launch passes the buffer to no other argument.
unsafe impl<T: Element> KernelArg for DeviceSliceMut<'_, T> {
    type Abi = SliceAbi;
    const META: ParamMeta = meta::<T>(true);
    #[inline(always)]
    unsafe fn from_abi(abi: SliceAbi) -> Self {
        Self { ptr: abi.address as *mut T, len: abi.elements as usize, memory: PhantomData }
    }
}
