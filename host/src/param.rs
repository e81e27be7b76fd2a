//! Kernel parameters that the host passes, and their description in error messages.

use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Error;
use crate::tensor::TensorMap;
use crate::tensor_error::dtype_name;
use isa::cp_async_bulk::TensorMapBytes;
use isa::kernel::{ByValue, Dtype, KernelArg, KernelDesc, ParamKind, ParamMeta};
use isa::slice::{Element, SliceAbi};
use std::mem::MaybeUninit;

/// One parameter of a launch.
///
/// A parameter borrows what it passes. A buffer that the kernel may write is borrowed mutably, so one
/// launch cannot receive it twice. A launch compares kind, element type and size of each with the kernel's.
pub struct Param<'a>(Kind<'a>);

enum Kind<'a> {
    Value { bytes: Box<[MaybeUninit<u128>]>, meta: ParamMeta, slices: Vec<SliceAbi> },
    Slice { buffer: &'a Buffer, dtype: u32, elem_bytes: usize, writes: bool },
    Map(&'a TensorMap),
}

impl<'a> Param<'a> {
    /// A number or a struct with `#[derive(KernelArg)]`, copied byte by byte. Write a number's type, as in `3u32`: without one it is
    /// an `i32`. A launch does not tell `u64` from `i64`. The buffers of its slices
    /// stay borrowed while the parameter lives.
    pub fn value<T: ByValue + KernelArg + 'a>(value: T) -> Param<'a> {
        let mut slices = Vec::new();
        value.slices(&mut |slice| slices.push(slice));
        let mut bytes: Box<[MaybeUninit<u128>]> =
            Box::new_uninit_slice(size_of::<T>().div_ceil(16));
        // SAFETY: the storage has at least `size_of::<T>()` bytes, aligned to 16.
        unsafe { bytes.as_mut_ptr().cast::<T>().write(value) };
        Param(Kind::Value { bytes, meta: T::META, slices })
    }

    /// A buffer of tensor maps, for a parameter of [`TensorMaps`](pipeline::tile::TensorMaps) or
    /// [`TensorMapsMut`](pipeline::tile::TensorMapsMut) that `meta` describes.
    ///
    /// # Safety
    /// The contract of that type's `new`, for the boxes that `meta` names.
    pub(crate) unsafe fn tensor_maps(buffer: &'a Buffer, meta: ParamMeta) -> Param<'a> {
        let elements = buffer.len() as u64;
        let slices = vec![SliceAbi { address: buffer.addr(), elements }];
        let maps = elements / size_of::<TensorMapBytes>() as u64;
        let mut bytes: Box<[MaybeUninit<u128>]> = Box::new_uninit_slice(1);
        bytes[0].write(u128::from(buffer.addr()) | u128::from(maps) << 64);
        Param(Kind::Value { bytes, meta, slices })
    }

    /// A whole buffer that the kernel reads as a [`DeviceSlice`](isa::slice::DeviceSlice) of `T`. A launch refuses a buffer whose
    /// bytes are no whole number of elements.
    pub fn slice<T: Element>(buffer: &'a Buffer) -> Param<'a> {
        Self::elements::<T>(buffer, false)
    }

    /// A whole buffer that the kernel may write, as a [`DeviceSliceMut`](isa::slice::DeviceSliceMut) of
    /// `T`.
    pub fn slice_mut<T: Element>(buffer: &'a mut Buffer) -> Param<'a> {
        Self::elements::<T>(buffer, true)
    }

    fn elements<T: Element>(buffer: &'a Buffer, writes: bool) -> Param<'a> {
        let dtype = T::DTYPE.map_or(0, |d| d as u32);
        Param(Kind::Slice { buffer, dtype, elem_bytes: size_of::<T>(), writes })
    }

    /// A tensor map.
    pub fn map(map: &'a TensorMap) -> Param<'a> {
        Param(Kind::Map(map))
    }

    fn meta(&self) -> ParamMeta {
        match &self.0 {
            Kind::Value { meta, .. } => *meta,
            Kind::Slice { dtype, elem_bytes, writes, .. } => ParamMeta {
                kind: ParamKind::Slice as u32,
                size: 16,
                align: 8,
                dtype: *dtype,
                box_rows: u32::from(*writes),
                box_cols: *elem_bytes as u32,
                ..ParamMeta::NONE
            },
            Kind::Map(map) => map.meta(),
        }
    }
}

/// Whether a launch can pass `have` to a kernel that takes `want`.
fn takes(want: &ParamMeta, have: &ParamMeta) -> bool {
    let slice = want.kind == ParamKind::Slice as u32 && have.kind == want.kind;
    // A kernel that only reads a slice may receive a writable one.
    let box_rows = if slice && want.box_rows == 0 { 0 } else { have.box_rows };
    *want == ParamMeta { box_rows, ..*have }
}

/// The bytes of a launch's parameters, and a pointer to each.
pub(crate) struct Packed<'a> {
    pub pointers: Vec<*const u8>,
    /// Storage that the slices' pointers point to.
    _slices: Vec<[u64; 2]>,
    _params: std::marker::PhantomData<&'a ()>,
}

/// The name of a parameter, or its number where it has none.
fn called(desc: &KernelDesc, index: usize) -> String {
    match desc.names[index] {
        "" => index.to_string(),
        name => name.to_owned(),
    }
}

/// The number of a parameter, and its name.
fn number(desc: &KernelDesc, index: usize) -> String {
    match desc.names[index] {
        "" => format!("parameter {index}"),
        name => format!("parameter {index} (`{name}`)"),
    }
}

/// Checks parameters against the kernel's and packs them.
pub(crate) fn pack<'a>(
    device: &Device,
    desc: &KernelDesc,
    params: &'a [Param<'_>],
) -> Result<Packed<'a>, Error> {
    let meta = &desc.meta;
    let kernel = || meta.name().to_owned();
    let want = meta.params();
    if want.len() != params.len() {
        let names: Vec<_> = (0..want.len()).map(|index| called(desc, index)).collect();
        let (want, have, names) = (want.len(), params.len(), names.join(", "));
        return Err(Error::LaunchParamCount { kernel: kernel(), want, have, names });
    }
    // The vector must not reallocate, because `pointers` points into it.
    let mut slices: Vec<[u64; 2]> = Vec::with_capacity(params.len());
    let mut pointers = Vec::with_capacity(params.len());
    for (index, (want, param)) in want.iter().zip(params).enumerate() {
        let have = param.meta();
        if !takes(want, &have) {
            return Err(Error::LaunchParam {
                kernel: kernel(),
                parameter: number(desc, index),
                want: describe(want),
                have: describe(&have),
            });
        }
        let what = || format!("{} of kernel {}", number(desc, index), meta.name());
        pointers.push(match &param.0 {
            Kind::Value { bytes, slices, .. } => {
                for slice in slices {
                    device.holds(what, *slice)?;
                }
                bytes.as_ptr().cast()
            }
            Kind::Slice { buffer, elem_bytes, .. } => {
                device.owns(what, &buffer.memory.backend)?;
                // A part of a buffer, or memory of somebody else's, may begin anywhere.
                if !buffer.addr().is_multiple_of(*elem_bytes as u64) {
                    return Err(Error::LaunchParam {
                        kernel: kernel(),
                        parameter: number(desc, index),
                        want: format!("{} at a multiple of {elem_bytes}", describe(want)),
                        have: format!("one at address {:#x}", buffer.addr()),
                    });
                }
                if !buffer.len().is_multiple_of(*elem_bytes) {
                    return Err(Error::LaunchParam {
                        kernel: kernel(),
                        parameter: number(desc, index),
                        want: format!(
                            "{} from a buffer of a multiple of {elem_bytes} bytes",
                            describe(want)
                        ),
                        have: format!("one of {} bytes", buffer.len()),
                    });
                }
                let at = slices.len();
                slices.push([buffer.addr(), (buffer.len() / elem_bytes) as u64]);
                slices.as_ptr().wrapping_add(at).cast()
            }
            Kind::Map(map) => {
                device.owns(what, map.backend())?;
                (&raw const *map.bytes()).cast()
            }
        });
    }
    Ok(Packed { pointers, _slices: slices, _params: std::marker::PhantomData })
}

/// Describes a parameter for an error message.
pub(crate) fn describe(param: &ParamMeta) -> String {
    const KINDS: [ParamKind; 4] =
        [ParamKind::Value, ParamKind::Struct, ParamKind::Slice, ParamKind::TensorMap];
    let dtype =
        || Dtype::ALL.into_iter().find(|d| *d as u32 == param.dtype).map_or("elements", dtype_name);
    match KINDS.into_iter().find(|k| *k as u32 == param.kind) {
        Some(kind @ (ParamKind::Value | ParamKind::Struct)) => {
            if let Some(dtype) = Dtype::ALL.into_iter().find(|d| *d as u32 == param.dtype) {
                return format!("a value of {}", dtype_name(dtype));
            }
            let kind = if kind == ParamKind::Value { "value" } else { "struct" };
            let what = format!("a {kind} of {} bytes aligned to {}", param.size, param.align);
            match u64::from(param.box_cols) << 32 | u64::from(param.box_rows) {
                0 => what,
                layout => format!("{what}, with gaps or slices (layout {layout:016x})"),
            }
        }
        Some(ParamKind::Slice) => {
            let mutable = if param.box_rows == 0 { "" } else { "mutable " };
            format!("a {mutable}slice of {} of {} bytes", dtype(), param.box_cols)
        }
        Some(ParamKind::TensorMap) => format!(
            "a tensor map of {} with box {}x{} and swizzle {}{}",
            dtype(),
            param.box_rows,
            param.box_cols,
            param.swizzle_bytes,
            if param.rank > 2 { format!(", of {} dimensions", param.rank) } else { String::new() }
        ),
        _ => format!("a parameter of unknown kind {}", param.kind),
    }
}
