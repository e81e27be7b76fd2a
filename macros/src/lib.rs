//! The attributes `#[kernel]`, `#[device]` and `#[forceinline]` and the derive `#[derive(KernelArg)]`. The crate `isa`
//! re-exports them as `isa::kernel`, `isa::device`, `isa::forceinline` and `isa::kernel::KernelArg`.

mod argument;
mod bounds;
mod device;
mod expand;
mod path;
mod signature;

use proc_macro::TokenStream;
use syn::{Item, ItemFn, parse_macro_input};

/// Makes a safe function a kernel entry (CUDA `__global__`). The crate must depend on `warpipe` or on
/// `warpipe-isa`, under any name; if its Cargo.toml has neither, `crate` says where `warpipe-isa` is.
///
/// ```
/// use isa::kernel;
/// use isa::kernel::Kernel;
/// use isa::slice::{DeviceSlice, DeviceSliceMut};
/// use isa::thread::{block_dim_x, block_idx_x, thread_idx_x};
///
/// const WARPS: u32 = 4;
///
/// #[kernel(threads = 32 * WARPS, min_ctas = 2)]
/// pub fn scale(a: f32, x: DeviceSlice<f32>, y: DeviceSliceMut<f32>) {
///     let i = (block_idx_x() * block_dim_x() + thread_idx_x()) as usize;
///     if let Some(v) = x.get(i) {
///         y.set(i, a * v);
///     }
/// }
///
/// assert_eq!(scale::DESC.meta.threads, 128);
/// ```
///
/// If the first parameter is the token of the CTA (`pipeline::cta::Cta`), its type has the threads, the
/// cluster, the registers and the shared memory, and the attribute must not state them. Without a token, the
/// attribute has these keys, each a constant expression of type `u32`:
/// - `threads`: threads of a CTA, a multiple of 32 up to 1024. Required.
/// - `cluster`: CTAs of a cluster along x, y and z, at most 16 in total. More than 8 do not run on every
///   GPU. The default is `(1, 1, 1)`, no cluster.
/// - `min_ctas`: CTAs that an SM must be able to hold. Together with `threads` it limits the registers. The
///   default is 1.
/// - `smem`: bytes of dynamic shared memory of a CTA, at most 232448. The default is 0.
///
/// With or without a token:
/// - `dependent`: `true` makes the kernel a dependent grid, which may start before the primary grid is
///   complete (programmatic dependent launch). Every argument must then be `isa::kernel::AfterWait`. The
///   default is `false`.
/// - `crate`: the path of `warpipe-isa`, for a macro of yours that writes kernels into other crates:
///   `crate = $crate::isa`.
///
/// A kernel has at most 12 parameters. The type of each one implements `isa::kernel::KernelArg`. The macro
/// keeps the function and adds
/// - on the device: the entry, `extern "ptx-kernel"` with the function's name as its symbol, and a constant
///   with its `KernelMeta`, from which the device build makes `.maxntid` and similar directives;
/// - on the host: a type with the function's name that implements `isa::kernel::Kernel`, with the same
///   `KernelMeta` and the function that the SM model runs.
///
/// Only the generated code is unsafe, so a crate of kernels can have `#![forbid(unsafe_code)]`.
#[proc_macro_attribute]
pub fn kernel(args: TokenStream, item: TokenStream) -> TokenStream {
    let bounds = parse_macro_input!(args as bounds::Bounds);
    let function = match syn::parse::<ItemFn>(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            // If the item is valid but not a function, the error belongs to the attribute.
            let error = match syn::parse::<Item>(item) {
                Ok(other) => syn::Error::new_spanned(other, "#[kernel] goes on a function"),
                Err(_) => error,
            };
            return error.into_compile_error().into();
        }
    };
    match signature::Signature::new(&function) {
        Ok(signature) => expand::expand(&bounds, &function, &signature).into(),
        Err(error) => error.into_compile_error().into(),
    }
}

/// Marks a function that kernels call (CUDA `__device__`). It is inlined into each kernel that calls it. On
/// the host it is `#[track_caller]`, so that a report of the SM model names the kernel's line.
///
/// ```
/// use isa::device;
///
/// /// The first thread's number in its warp's row.
/// #[device]
/// pub fn row() -> u32 {
///     isa::thread::thread_idx_x() / 4
/// }
/// ```
#[proc_macro_attribute]
pub fn device(args: TokenStream, item: TokenStream) -> TokenStream {
    device::expand(&args.into(), &item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Marks a function that is inlined into each kernel that calls it (CUDA `__forceinline__`). On the host the compiler
/// decides. Unlike [`macro@device`], it leaves alone where a report of the SM model points: to this function's own lines.
///
/// ```
/// use isa::forceinline;
///
/// /// How many of the rows each CTA has.
/// #[forceinline]
/// pub fn share(rows: u32) -> u32 {
///     rows / isa::thread::grid_dim_x()
/// }
/// ```
#[proc_macro_attribute]
pub fn forceinline(args: TokenStream, item: TokenStream) -> TokenStream {
    device::forceinline("forceinline", &args.into(), &item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Makes a `repr(C)`, `Copy` struct of by-value arguments a by-value argument. It implements
/// `isa::kernel::ByValue`, `isa::kernel::KernelArg` and `isa::kernel::AfterWait`.
///
/// ```
/// use isa::kernel;
/// use isa::kernel::{ByValue, KernelArg};
///
/// #[repr(C)]
/// #[derive(Clone, Copy, KernelArg)]
/// struct Shape {
///     rows: u32,
///     cols: u32,
/// }
///
/// #[repr(C)]
/// #[derive(Clone, Copy, KernelArg)]
/// struct Args<E: ByValue> {
///     shape: Shape,
///     epilogue: E,
/// }
///
/// #[kernel(threads = 128, dependent = true)]
/// fn product(args: Args<[f32; 2]>) {
///     let _ = (args.shape.rows, args.shape.cols, args.epilogue);
/// }
/// ```
///
/// Every field's type must be `isa::kernel::ByValue`: a number, an array of such types, a struct with this
/// derive, or a dependent slice of `pipeline`. Type parameters may have any bounds; the use as an argument
/// checks that a field of such a type is `ByValue`. `#[kernel_arg(crate = path)]` does what `crate` does for
/// `#[kernel]`.
#[proc_macro_derive(KernelArg, attributes(kernel_arg))]
pub fn kernel_arg(item: TokenStream) -> TokenStream {
    let input = parse_macro_input!(item as syn::DeriveInput);
    argument::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
