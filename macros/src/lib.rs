//! The attributes `#[kernel]` and `#[device]`, used as `isa::kernel` and `isa::device`, and
//! `#[derive(KernelArg)]`, which comes with the trait `isa::kernel::KernelArg`.

mod argument;
mod bounds;
mod device;
mod expand;
mod signature;

use proc_macro::TokenStream;
use syn::{Item, ItemFn, parse_macro_input};

/// Makes a safe function the entry of a grid. The crate depends on `warpipe-isa` under its library
/// name, `isa`.
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
/// A kernel whose first parameter is the token of its CTA, `pipeline::cta::Cta`, states none of these: the
/// token's type has the threads, the cluster, the registers and the shared memory. Without one, each value
/// is a constant expression of type `u32`:
/// - `threads`: threads of a CTA, a multiple of 32 up to 1024. It must be given.
/// - `cluster`: CTAs of a cluster along x, y and z; default `(1, 1, 1)`, which is no cluster; 16
///   at most in all, and more than 8 not on every GPU.
/// - `min_ctas`: CTAs that an SM must be able to hold. With `threads` it caps the registers. Default 1.
/// - `smem`: bytes of dynamic shared memory of a CTA; default 0, at most 232448.
///
/// With or without a token:
/// - `dependent`: `true` lets a launch overlap the end of the kernel before it in its stream
///   (programmatic dependent launch). Every argument must then be `isa::kernel::AfterWait`; default
///   `false`.
///
/// Each parameter's type implements `isa::kernel::KernelArg`; there are at most 12. The function
/// itself stays as it is. Beside it come
/// - on the device: the entry, `extern "ptx-kernel"` with the function's name as its symbol, and its
///   `KernelMeta` in a constant of which the device build makes `.maxntid` and the like;
/// - on the host: a type of the function's name that implements `isa::kernel::Kernel`, with the same
///   `KernelMeta` and the function that the SM model runs.
///
/// The generated code is the only unsafe code, so a crate of kernels can say
/// `#![forbid(unsafe_code)]`.
#[proc_macro_attribute]
pub fn kernel(args: TokenStream, item: TokenStream) -> TokenStream {
    let bounds = parse_macro_input!(args as bounds::Bounds);
    let function = match syn::parse::<ItemFn>(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            // What is a whole item, but no function, is the attribute's error and not the item's.
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

/// Makes a function one that kernels call: it becomes a part of each kernel that calls it, and on the
/// host it passes the line of its caller on, so that a report of the SM model names the kernel's line and
/// not one in between.
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

/// Makes a `repr(C)`, `Copy` struct of by-value arguments a by-value argument itself: it implements
/// `isa::kernel::KernelArg`, with itself as what crosses the launch, and `isa::kernel::AfterWait`.
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
/// Every field's type must be `isa::kernel::ByValue`: numbers, arrays of them, structs with this derive,
/// and the slices of `pipeline` that are of use after the wait alone. Type parameters may have any bounds;
/// that a field of such a type is `ByValue` is checked where the struct is used as an argument.
#[proc_macro_derive(KernelArg)]
pub fn kernel_arg(item: TokenStream) -> TokenStream {
    let input = parse_macro_input!(item as syn::DeriveInput);
    argument::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
