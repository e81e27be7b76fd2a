//! Kernel metadata: a kernel's name, its launch bounds and the types of its parameters.
//!
//! Device code and host code use the same [`KernelMeta`], which rustc computes once, so a kernel's bounds
//! cannot differ between the two sides. `#[kernel]` writes it beside each kernel. On the device it is a
//! constant whose symbol starts with [`META_SYMBOL_PREFIX`]. `kernel-build` reads it from the LLVM IR,
//! turns it into function attributes (`.maxntid`, `.minnctapersm`, `.reqnctapercluster`) and removes it.
//! On the host it is part of the [`KernelDesc`] that a launch is checked against.

#[cfg(not(target_arch = "nvptx64"))]
mod image;

mod cta;
mod value;

pub use cta::{CtaFacts, Part, RegionFacts, RoleFacts, TileFacts};
#[cfg(not(target_arch = "nvptx64"))]
pub use image::{Code, Image, ImageError, KernelCode, MOST_DICTIONARIES, unpack};
pub use value::{ByValue, layout};
/// Derives [`trait@KernelArg`] for a struct of by-value arguments.
pub use warpipe_macros::KernelArg;

/// Symbol prefix of a kernel's metadata constant in the device module.
pub const META_SYMBOL_PREFIX: &str = "__warpipe_kernel_";
/// First bytes of every [`KernelMeta`].
pub const META_MAGIC: [u8; 8] = *b"WPKERN03";
/// Most parameters that a kernel can have.
pub const MAX_PARAMS: usize = 12;

/// A kernel's name, launch bounds and parameters. All fields are `u32`s or bytes without padding, so that
/// the value is one byte string in the IR.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelMeta {
    /// [`META_MAGIC`].
    pub magic: [u8; 8],
    /// Entry name in PTX, zero-padded.
    pub name: [u8; 64],
    /// Threads per CTA (x dimension; y and z are 1).
    pub threads: u32,
    /// CTAs per SM that registers must allow (`.minnctapersm`).
    pub min_ctas: u32,
    /// Cluster dimensions in CTAs; `[1, 1, 1]` is no cluster.
    pub cluster: [u32; 3],
    /// Dynamic shared memory per CTA in bytes.
    pub smem_bytes: u32,
    /// 1 for a dependent grid (programmatic dependent launch), otherwise 0. A dependent grid may start
    /// before the primary grid is complete, and accesses no memory of other grids before
    /// `griddepcontrol.wait`.
    pub dependent: u32,
    /// Number of entries of `params` that are used.
    pub param_count: u32,
    /// The parameters, in order.
    pub params: [ParamMeta; MAX_PARAMS],
}

/// Launch bounds of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaunchFacts {
    /// Threads per CTA.
    pub threads: u32,
    /// CTAs per SM that registers must allow.
    pub min_ctas: u32,
    /// Cluster dimensions in CTAs.
    pub cluster: [u32; 3],
    /// Dynamic shared memory per CTA in bytes.
    pub smem_bytes: u32,
}

impl LaunchFacts {
    /// The launch bounds of a kernel: those of its CTA's token, which is at most one of `args`, or
    /// otherwise those that the attribute states. `#[kernel]` calls this function in a constant.
    #[track_caller]
    pub const fn of(args: &[Option<Self>], stated: Option<Self>) -> Self {
        match Self::of_token(args) {
            Some(facts) => facts,
            None => {
                stated.expect("a kernel without a Cta states its threads: #[kernel(threads = 128)]")
            }
        }
    }

    /// Fails if a token makes a key of the attribute superfluous.
    #[track_caller]
    pub const fn refuse_beside_a_token(args: &[Option<Self>], refusal: &str) {
        assert!(Self::of_token(args).is_none(), "{}", refusal);
    }

    #[track_caller]
    const fn of_token(args: &[Option<Self>]) -> Option<Self> {
        let (mut token, mut i) = (None, 0);
        while i < args.len() {
            if args[i].is_some() {
                assert!(token.is_none(), "a kernel takes the token of its CTA once");
                token = args[i];
            }
            i += 1;
        }
        token
    }
}

/// Description of a kernel parameter.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParamMeta {
    /// A [`ParamKind`] as `u32`.
    pub kind: u32,
    /// Size of the parameter in bytes.
    pub size: u32,
    /// Alignment of the parameter in bytes.
    pub align: u32,
    /// For tensor maps and slices: the element's [`Dtype`] as `u32`, or 0 if it has none. For scalars: their own.
    pub dtype: u32,
    /// For tensor maps: rows of the box (the outer dimension). For slices: 1 if the kernel may
    /// write, otherwise 0. For structs: the lower half of [`ByValue::LAYOUT`].
    pub box_rows: u32,
    /// For tensor maps: columns of the box in elements (the inner, contiguous dimension). For
    /// slices: bytes of an element. For structs: the upper half of [`ByValue::LAYOUT`].
    pub box_cols: u32,
    /// For tensor maps: span of the swizzle in bytes, 0, 32, 64 or 128.
    pub swizzle_bytes: u32,
    /// For tensor maps: the number of dimensions, from 2 to 5. The box has one element in each
    /// dimension beyond the second.
    pub rank: u32,
}

impl ParamMeta {
    /// An unused entry.
    pub const NONE: Self = Self {
        kind: 0,
        size: 0,
        align: 0,
        dtype: 0,
        box_rows: 0,
        box_cols: 0,
        swizzle_bytes: 0,
        rank: 0,
    };
    /// A plain value of `size` bytes.
    pub const fn value(size: usize, align: usize) -> Self {
        Self { kind: ParamKind::Value as u32, size: size as u32, align: align as u32, ..Self::NONE }
    }
    /// A struct of type `T`, which the kernel reads in place.
    pub const fn structure<T: ByValue>() -> Self {
        const { assert!(align_of::<T>() <= 16, "an argument is aligned to at most 16 bytes") };
        Self {
            box_rows: T::LAYOUT as u32,
            box_cols: (T::LAYOUT >> 32) as u32,
            kind: ParamKind::Struct as u32,
            ..Self::value(size_of::<T>(), align_of::<T>())
        }
    }
}

/// How a parameter is passed.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParamKind {
    /// Nothing is passed: an unused entry, or an argument that the launch does not pass, such as the token
    /// of the CTA.
    None = 0,
    /// A scalar or `repr(C)` value, copied.
    Value = 1,
    /// A device slice: `{ pointer: u64, elements: u64 }`.
    Slice = 2,
    /// A tensor map of 128 bytes, aligned to 64 bytes. It is a `__grid_constant__` of the kernel, so that
    /// TMA can take its address. In the IR it is a `ptr` parameter, which `kernel-build` turns into
    /// `byval([128 x i8]) align 64` with `"nvvm.grid_constant"`.
    TensorMap = 3,
    /// A `repr(C)` struct. Like a tensor map it is a `__grid_constant__`, and the kernel reads its fields
    /// from constant memory. (LLVM would keep a struct that is passed by value, with words of 32 and 64
    /// bits, in local memory.) The host passes it like a [`Value`](Self::Value).
    Struct = 4,
}

/// Element types of tensors and slices.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Dtype {
    /// bfloat16.
    Bf16 = 1,
    /// IEEE binary16.
    F16 = 2,
    /// IEEE binary32.
    F32 = 3,
    /// Unsigned byte.
    U8 = 4,
    /// 32-bit unsigned integer.
    U32 = 5,
    /// 8-bit float with 4 bits of exponent and 3 of fraction: no infinities, ±448 at most (OCP E4M3).
    E4m3 = 6,
    /// 8-bit float with 5 bits of exponent and 2 of fraction (OCP E5M2).
    E5m2 = 7,
    /// Signed byte.
    I8 = 8,
    /// 32-bit signed integer.
    I32 = 9,
    /// tf32 in 32 bits, of which the tensor core does not read the 13 lowest.
    Tf32 = 10,
}

impl Dtype {
    /// All types, in the order of their numbers, which begin with 1.
    pub const ALL: [Self; 10] = [
        Self::Bf16,
        Self::F16,
        Self::F32,
        Self::U8,
        Self::U32,
        Self::E4m3,
        Self::E5m2,
        Self::I8,
        Self::I32,
        Self::Tf32,
    ];
    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Self::Bf16 | Self::F16 => 2,
            Self::F32 | Self::U32 | Self::I32 | Self::Tf32 => 4,
            Self::U8 | Self::E4m3 | Self::E5m2 | Self::I8 => 1,
        }
    }
    /// Its name, as in Rust and PTX: `bf16`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::U8 => "u8",
            Self::U32 => "u32",
            Self::E4m3 => "e4m3",
            Self::E5m2 => "e5m2",
            Self::I8 => "i8",
            Self::I32 => "i32",
            Self::Tf32 => "tf32",
        }
    }
}

/// A type that can be an argument of a `#[kernel]`.
///
/// # Safety
/// `META` must describe how the driver passes `Abi`, and `from_abi` must be sound for every value that
/// a launch checked against `META` passes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be an argument of a kernel",
    label = "not a `KernelArg`",
    note = "arguments are u32, i32, u64, i64, f32, DeviceSlice, DeviceSliceMut, DependentSlice, DependentSliceMut, tensor maps, and repr(C) structs with #[derive(KernelArg)]"
)]
pub unsafe trait KernelArg {
    /// The type of the `ptx-kernel` parameter: a scalar, a `repr(C)` aggregate of alignment at most 16
    /// (passed by value), or a thin pointer ([`ParamKind::TensorMap`], [`ParamKind::Struct`]).
    type Abi: Copy;
    /// How the host passes the argument.
    const META: ParamMeta;
    /// Launch bounds that the argument states. Only the token of a kernel's CTA has them: threads, cluster,
    /// registers and shared memory.
    const LAUNCH: Option<LaunchFacts> = None;
    /// What the CTA consists of. Only the token of a kernel's CTA knows it.
    const CTA: Option<&'static CtaFacts> = None;
    /// Makes the argument from the parameter.
    ///
    /// # Safety
    /// `abi` comes from a launch that was checked against `META`.
    unsafe fn from_abi(abi: Self::Abi) -> Self;
    /// Makes `Abi` from the address of the parameter's bytes, as in `kernelParams` of `cuLaunchKernel`.
    /// The SM model uses it. The default reads the value; tensor maps and structs return the address.
    ///
    /// # Safety
    /// `param` points to `META.size` readable bytes, aligned to `META.align`, alive for the launch.
    #[cfg(not(target_arch = "nvptx64"))]
    unsafe fn abi_from_param(param: *const u8) -> Self::Abi {
        // SAFETY: the caller's contract: a value of `Abi`'s size and alignment lies there.
        unsafe { param.cast::<Self::Abi>().read() }
    }
}

/// An argument that gives access to memory only after `griddepcontrol.wait`. Every argument of a kernel
/// with `dependent = true` must implement it.
///
/// Such a kernel is a dependent grid: it may start while the primary grid still runs (programmatic
/// dependent launch). A value gives no access to memory. An argument that needs a token of a `pipeline`
/// shared-memory plan is safe too, because the plan's initialisation ends with that wait.
///
/// # Safety
/// No safe function reads or writes memory of other grids through the argument before the calling thread
/// has executed `griddepcontrol.wait`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be an argument of a kernel with `dependent = true`",
    label = "gives access to memory at once",
    note = "a dependent kernel starts before the kernel that it depends on has ended: it may only take values, tensor maps, DependentSlice, DependentSliceMut and other arguments that are of use after `griddepcontrol.wait` alone"
)]
pub unsafe trait AfterWait: KernelArg {}

macro_rules! scalar_args {
    ($($t:ty $(= $dtype:ident)?),*) => {$(
        // SAFETY: a scalar is its own ABI.
        unsafe impl KernelArg for $t {
            type Abi = $t;
            const META: ParamMeta = ParamMeta {
                $(dtype: Dtype::$dtype as u32,)?
                ..ParamMeta::value(size_of::<$t>(), align_of::<$t>())
            };
            unsafe fn from_abi(abi: $t) -> $t { abi }
        }
        // SAFETY: a value gives no access to memory.
        unsafe impl AfterWait for $t {}
    )*};
}
scalar_args!(u32 = U32, i32 = I32, u64, i64, f32 = F32);

/// A kernel on the host: its metadata, and the function that the SM model runs.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy)]
pub struct KernelDesc {
    /// The same value that the device image carries.
    pub meta: KernelMeta,
    /// The names of the parameters that a launch passes, in order; empty where there is none.
    pub names: [&'static str; MAX_PARAMS],
    /// Runs one thread of the kernel on the model. `params[i]` points to the bytes of parameter i.
    pub entry: unsafe fn(params: &[*const u8]),
}

/// The host side of a kernel. `#[kernel]` implements it for a type with the kernel's name (`enum gemm {}`
/// for `fn gemm`).
#[cfg(not(target_arch = "nvptx64"))]
pub trait Kernel {
    /// The kernel's description.
    const DESC: KernelDesc;
}

/// Pads a name to the metadata's 64 bytes; a longer one is a compile error.
#[track_caller]
pub const fn name64(name: &str) -> [u8; 64] {
    let bytes = name.as_bytes();
    assert!(bytes.len() < 64, "kernel names are at most 63 bytes");
    let mut out = [0; 64];
    let mut i = 0;
    while i < bytes.len() {
        out[i] = bytes[i];
        i += 1;
    }
    out
}

/// Threads of a warp.
const WARP: u32 = 32;
/// Most threads of a CTA.
pub const MAX_THREADS: u32 = 1024;
/// Most CTAs of a cluster on sm_90. More than 8 are not portable: the host must allow them
/// (`CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`), and a GPU may not support them.
pub const MAX_CLUSTER: u32 = 16;
/// Most bytes of shared memory of a CTA on sm_90 (227 KiB).
pub const MAX_SMEM_BYTES: u32 = 227 * 1024;

/// Address of the bytes of argument `index` among a launch's parameters. The address of an argument that
/// is not passed is dangling.
///
/// # Safety
/// `launch` must be the parameters of a launch that was checked against the kernel's metadata.
#[cfg(not(target_arch = "nvptx64"))]
pub unsafe fn param(launch: &[*const u8], args: &[ParamMeta], index: usize) -> *const u8 {
    let passed = |arg: &&ParamMeta| arg.kind != ParamKind::None as u32;
    if !passed(&&args[index]) {
        return core::ptr::dangling();
    }
    launch[args[..index].iter().filter(passed).count()]
}

/// What the device module has of a kernel: the [`KernelMeta`], the names of its parameters, and what its CTA consists of.
/// `kernel-build` reads it and takes it out of the module.
///
/// Names and CTA are references, so that rustc has nothing to compute for them.
#[repr(C)]
pub struct Described {
    /// The metadata.
    pub meta: KernelMeta,
    /// The names of the parameters. Those behind the last one are empty.
    pub names: [&'static str; MAX_PARAMS],
    /// The CTA, if the kernel has a token of it.
    pub cta: Option<&'static CtaFacts>,
}

/// The names of those arguments that a launch passes, in order. `#[kernel]` calls it in a constant.
#[must_use]
pub const fn passed_names(
    args: &[ParamMeta],
    names: &[&'static str],
) -> [&'static str; MAX_PARAMS] {
    let mut passed = [""; MAX_PARAMS];
    let (mut i, mut count) = (0, 0);
    while i < args.len() {
        if args[i].kind != ParamKind::None as u32 {
            passed[count] = names[i];
            count += 1;
        }
        i += 1;
    }
    passed
}

impl KernelMeta {
    /// Makes a kernel's metadata. `#[kernel]` calls it in a constant, so that a bound beyond the hardware's
    /// limits is a compile error.
    #[track_caller]
    pub const fn new(name: &str, launch: LaunchFacts, dependent: bool, args: &[ParamMeta]) -> Self {
        let LaunchFacts { threads, min_ctas, cluster, smem_bytes } = launch;
        assert!(
            threads.is_multiple_of(WARP) && threads > 0,
            "a kernel's threads must be a multiple of 32, and not 0"
        );
        assert!(threads <= MAX_THREADS, "a kernel has at most 1024 threads per CTA");
        assert!(
            cluster[0] >= 1 && cluster[1] >= 1 && cluster[2] >= 1,
            "each dimension of a cluster must be at least 1"
        );
        assert!(
            cluster[0] <= MAX_CLUSTER
                && cluster[1] <= MAX_CLUSTER
                && cluster[2] <= MAX_CLUSTER
                && cluster[0] * cluster[1] * cluster[2] <= MAX_CLUSTER,
            "a cluster has at most 16 CTAs"
        );
        assert!(smem_bytes <= MAX_SMEM_BYTES, "a CTA has at most 232448 bytes of shared memory");
        assert!(min_ctas >= 1 && min_ctas <= 32, "an SM holds 1 to 32 CTAs");
        assert!(
            min_ctas * threads <= 2048,
            "min_ctas * threads must be at most an SM's 2048 threads"
        );
        assert!(args.len() <= MAX_PARAMS, "a kernel has at most 12 parameters");
        let mut params = [ParamMeta::NONE; MAX_PARAMS];
        let (mut i, mut count) = (0, 0);
        while i < args.len() {
            if args[i].kind != ParamKind::None as u32 {
                params[count] = args[i];
                count += 1;
            }
            i += 1;
        }
        Self {
            magic: META_MAGIC,
            name: name64(name),
            threads,
            min_ctas,
            cluster,
            smem_bytes,
            dependent: dependent as u32,
            param_count: count as u32,
            params,
        }
    }
    /// Entry name in PTX.
    pub fn name(&self) -> &str {
        let len = self.name.iter().position(|&b| b == 0).unwrap_or(64);
        core::str::from_utf8(&self.name[..len]).unwrap_or("?")
    }
    /// The parameters that are used.
    pub fn params(&self) -> &[ParamMeta] {
        &self.params[..self.param_count as usize]
    }
    /// CTAs in a cluster.
    pub const fn cluster_size(&self) -> u32 {
        self.cluster[0] * self.cluster[1] * self.cluster[2]
    }
}
