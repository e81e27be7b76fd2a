//! Kernel parameters as the host gives them, and in words.

use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Error;
use crate::tensor::TensorMap;
use crate::tensor_error::dtype_name;
use isa::kernel::{Dtype, KernelMeta, ParamKind, ParamMeta};
use std::mem::MaybeUninit;

/// One parameter of a launch.
pub enum Param<'a> {
    /// A scalar or `repr(C)` value.
    Value(ValueParam),
    /// A device slice: the first `elements` elements of a buffer.
    Slice {
        /// Where it lies.
        buffer: &'a Buffer,
        /// Element type.
        dtype: Dtype,
        /// How many elements.
        elements: u64,
    },
    /// A tensor map.
    Map(&'a TensorMap),
}

/// The bytes of a value, aligned to 16 as no kernel parameter exceeds.
pub struct ValueParam {
    bytes: Box<[MaybeUninit<u128>]>,
    size: u32,
    align: u32,
}

impl<'a> Param<'a> {
    /// A value, copied byte for byte. `T` is what the kernel's parameter has as its ABI.
    pub fn value<T: Copy + 'static>(value: T) -> Param<'a> {
        const { assert!(align_of::<T>() <= 16, "a kernel parameter is aligned to at most 16 bytes") };
        let mut bytes: Box<[MaybeUninit<u128>]> =
            Box::new_uninit_slice(size_of::<T>().div_ceil(16));
        // SAFETY: the storage has at least `size_of::<T>()` bytes, aligned to 16.
        unsafe { bytes.as_mut_ptr().cast::<T>().write(value) };
        let (size, align) = (size_of::<T>() as u32, align_of::<T>() as u32);
        Param::Value(ValueParam { bytes, size, align })
    }

    /// A whole buffer as a slice of `dtype`.
    pub fn slice(buffer: &'a Buffer, dtype: Dtype) -> Param<'a> {
        Param::Slice { buffer, dtype, elements: (buffer.len() / dtype.size()) as u64 }
    }

    fn meta(&self) -> ParamMeta {
        match self {
            Self::Value(value) => ParamMeta::value(value.size as usize, value.align as usize),
            Self::Slice { dtype, .. } => ParamMeta {
                kind: ParamKind::Slice as u32,
                size: 16,
                align: 8,
                dtype: *dtype as u32,
                ..ParamMeta::NONE
            },
            Self::Map(map) => map.meta(),
        }
    }
}

/// The bytes of a launch's parameters, and a pointer to each.
pub(crate) struct Packed<'a> {
    pub pointers: Vec<*const u8>,
    /// What the slices' pointers point to.
    _slices: Vec<[u64; 2]>,
    _params: std::marker::PhantomData<&'a ()>,
}

/// Checks parameters against the kernel's, and packs them.
pub(crate) fn pack<'a>(
    device: &Device,
    meta: &KernelMeta,
    params: &'a [Param<'_>],
) -> Result<Packed<'a>, Error> {
    let kernel = || meta.name().to_owned();
    let want = meta.params();
    if want.len() != params.len() {
        let (want, have) = (want.len(), params.len());
        return Err(Error::LaunchParamCount { kernel: kernel(), want, have });
    }
    // Its buffer must not move once pointed into: reserved for all.
    let mut slices: Vec<[u64; 2]> = Vec::with_capacity(params.len());
    let mut pointers = Vec::with_capacity(params.len());
    for (index, (want, param)) in want.iter().zip(params).enumerate() {
        let have = param.meta();
        // A slice without an element type in the kernel's facts takes any.
        let any_dtype = want.kind == ParamKind::Slice as u32 && want.dtype == 0;
        if *want != (ParamMeta { dtype: if any_dtype { 0 } else { have.dtype }, ..have }) {
            return Err(Error::LaunchParam {
                kernel: kernel(),
                index,
                want: describe(want),
                have: describe(&have),
            });
        }
        pointers.push(match param {
            Param::Value(value) => value.bytes.as_ptr().cast(),
            Param::Slice { buffer, dtype, elements } => {
                let what = || format!("parameter {index} of kernel {}", meta.name());
                device.owns(&what(), &buffer.memory.backend)?;
                let end = elements.saturating_mul(dtype.size() as u64);
                if end > buffer.len() as u64 {
                    let len = buffer.len() as u64;
                    return Err(Error::OutOfBuffer { what: what(), offset: 0, end, len });
                }
                let at = slices.len();
                slices.push([buffer.addr(), *elements]);
                slices.as_ptr().wrapping_add(at).cast()
            }
            Param::Map(map) => {
                device
                    .owns(&format!("parameter {index} of kernel {}", meta.name()), map.backend())?;
                map.words().as_ptr().cast()
            }
        });
    }
    Ok(Packed { pointers, _slices: slices, _params: std::marker::PhantomData })
}

/// A parameter in words.
pub(crate) fn describe(param: &ParamMeta) -> String {
    const KINDS: [ParamKind; 3] = [ParamKind::Value, ParamKind::Slice, ParamKind::TensorMap];
    let dtype = || {
        [Dtype::Bf16, Dtype::F16, Dtype::F32, Dtype::U8, Dtype::U32]
            .into_iter()
            .find(|d| *d as u32 == param.dtype)
            .map_or("any type", dtype_name)
    };
    match KINDS.into_iter().find(|k| *k as u32 == param.kind) {
        Some(ParamKind::Value) => {
            format!("a value of {} bytes aligned to {}", param.size, param.align)
        }
        Some(ParamKind::Slice) => format!("a slice of {}", dtype()),
        Some(ParamKind::TensorMap) => format!(
            "a tensor map of {} with box {}x{} and swizzle {}",
            dtype(),
            param.box_rows,
            param.box_cols,
            param.swizzle_bytes
        ),
        _ => format!("a parameter of unknown kind {}", param.kind),
    }
}
