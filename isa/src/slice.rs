//! Slices of device memory as kernel arguments: a pointer with its length, so that every access is
//! checked.
//!
//! A launch lends the memory: the host checks that each slice lies inside a live buffer, that a
//! [`DeviceSliceMut`]'s buffer is given to no other argument of the launch, and keeps both until the
//! grid has ended. Among the threads of the grid the memory is shared. Two threads that write the
//! same element, or one that reads what another writes without a barrier between, have a race: the
//! value is then one of those written, no language rule is broken, and the SM model reports it.

use crate::device;
use core::marker::PhantomData;

use half::{bf16, f16};

use crate::kernel::{Dtype, KernelArg, ParamKind, ParamMeta};
use crate::{Word, global};

/// An element of a device slice.
///
/// # Safety
/// `Word` has the size and alignment of `Self`, and `from_word` and `to_word` keep the bytes.
pub unsafe trait Element: Copy + 'static {
    /// The word that one access moves.
    type Word: Word;
    /// The element's type for the host's check of the launch; `None`: only the size is checked.
    const DTYPE: Option<Dtype>;
    /// The element that the word's bytes are.
    fn from_word(w: Self::Word) -> Self;
    /// The element's bytes as a word.
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
    u16 as u16, None, core::convert::identity, core::convert::identity;
    u64 as u64, None, core::convert::identity, core::convert::identity;
    i32 as u32, None, u32::cast_signed, i32::cast_unsigned;
    [f32; 4] as [u32; 4], None, |w: [u32; 4]| w.map(f32::from_bits), |v: [f32; 4]| v.map(f32::to_bits);
}

/// What crosses the kernel's boundary for a slice.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SliceAbi {
    /// Device address of the first element.
    pub address: u64,
    /// Number of elements.
    pub elements: u64,
}

/// How the host passes a slice of `T`.
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

/// Elements that the kernel reads.
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
    /// The address of the first element, for copies that the slice does not make itself.
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
}

/// Elements that the kernel writes (and may read): shared by all threads of the grid, so `set` takes
/// `&self`, as a slice of cells would.
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
    /// Writes element `i`. Beyond the end it traps: a report on the model, an error of the launch on
    /// a GPU.
    #[device]
    pub fn set(&self, i: usize, v: T) {
        if i >= self.len {
            crate::misc::trap();
        }
        // SAFETY: `i < len`, and the launch lends `len` elements at `ptr` (`from_abi`) to this grid
        // alone.
        unsafe { global::st(self.ptr.wrapping_add(i).cast::<T::Word>(), v.to_word()) }
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

// SAFETY: as for `DeviceSlice`; the launch gives the buffer to no other argument.
unsafe impl<T: Element> KernelArg for DeviceSliceMut<'_, T> {
    type Abi = SliceAbi;
    const META: ParamMeta = meta::<T>(true);
    #[inline(always)]
    unsafe fn from_abi(abi: SliceAbi) -> Self {
        Self { ptr: abi.address as *mut T, len: abi.elements as usize, memory: PhantomData }
    }
}
