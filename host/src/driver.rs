//! The functions of the CUDA driver that this crate calls, loaded at run time.
//!
//! A program may use another binding of the driver beside this crate, with features of its own: whether
//! libcuda is linked, and for which CUDA version. Cargo unifies such features over a whole program, so this
//! crate has none, and declares the few functions that it needs. Each is a function of the driver's name
//! that returns its status as an [`Error`]; before libcuda is loaded it returns [`Error::NoDriver`].
//!
//! The driver resolves handles and addresses, so all of these functions are `unsafe`: handles must be
//! alive, pointers valid for what the function reads or writes, and, except for the calls about devices, the
//! context must be bound to the calling thread. (CUDA Driver API reference; `cuda.h`.)

use crate::error::Error;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;

/// `CUdevice`: an ordinal.
pub(crate) type CuDevice = c_int;
/// `CUmemGenericAllocationHandle`.
pub(crate) type CuMemHandle = u64;
/// `CUdeviceptr`.
pub(crate) type CuDevicePtr = u64;
/// `CUresult`.
type CuResult = c_uint;

/// Handles, each a pointer to something of the driver's.
macro_rules! handles {
    ($($name:ident)*) => {
        $(#[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) struct $name(pub *mut c_void);

        impl $name {
            pub const NULL: Self = Self(ptr::null_mut());
        })*
    };
}
handles! { CuContext CuStream CuEvent CuModule CuFunction CuGraph CuGraphExec }

/// `CUtensorMap`, which CUDA 13 aligns to 128 bytes and CUDA 12 to 64.
#[repr(C, align(128))]
pub(crate) struct CuTensorMap(pub [u64; 16]);

/// `CUDA_MEMCPY2D`.
#[repr(C)]
pub(crate) struct CuMemcpy2d {
    pub src_x: usize,
    pub src_y: usize,
    pub src_type: c_uint,
    pub src_host: *const c_void,
    pub src_device: CuDevicePtr,
    pub src_array: *mut c_void,
    pub src_pitch: usize,
    pub dst_x: usize,
    pub dst_y: usize,
    pub dst_type: c_uint,
    pub dst_host: *mut c_void,
    pub dst_device: CuDevicePtr,
    pub dst_array: *mut c_void,
    pub dst_pitch: usize,
    pub width: usize,
    pub height: usize,
}

/// `CUlaunchAttribute`, whose value is a union of 64 bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct CuLaunchAttribute {
    pub id: c_uint,
    pub pad: c_uint,
    pub value: [c_uint; 16],
}

/// `CUlaunchConfig`.
#[repr(C)]
pub(crate) struct CuLaunchConfig {
    pub grid: [c_uint; 3],
    pub block: [c_uint; 3],
    pub smem_bytes: c_uint,
    pub stream: CuStream,
    pub attributes: *mut CuLaunchAttribute,
    pub count: c_uint,
}

/// Values of the driver's enumerations. A test compares them with another binding's.
pub(crate) mod value {
    use std::ffi::{c_int, c_uint};

    pub const SUCCESS: c_uint = 0;
    pub const ERROR_OUT_OF_MEMORY: c_uint = 2;
    pub const ERROR_NO_DEVICE: c_uint = 100;
    pub const ERROR_NOT_READY: c_uint = 600;

    pub const DEVICE_CLOCK_RATE: c_int = 13;
    pub const DEVICE_SMS: c_int = 16;
    pub const DEVICE_PCI_BUS: c_int = 33;
    pub const DEVICE_PCI_DEVICE: c_int = 34;
    pub const DEVICE_MEMORY_CLOCK_RATE: c_int = 36;
    pub const DEVICE_MEMORY_BUS_WIDTH: c_int = 37;
    pub const DEVICE_L2_BYTES: c_int = 38;
    pub const DEVICE_PCI_DOMAIN: c_int = 50;
    pub const DEVICE_MAJOR: c_int = 75;
    pub const DEVICE_MINOR: c_int = 76;
    pub const DEVICE_SMEM_OPTIN: c_int = 97;

    pub const FUNCTION_MAX_DYNAMIC_SMEM: c_int = 8;
    pub const FUNCTION_NON_PORTABLE_CLUSTER: c_int = 14;

    pub const JIT_ERROR_LOG: c_uint = 5;
    pub const JIT_ERROR_LOG_BYTES: c_uint = 6;

    pub const STREAM_NON_BLOCKING: c_uint = 1;
    pub const EVENT_DEFAULT: c_uint = 0;
    pub const EVENT_NO_TIMING: c_uint = 2;
    pub const WAIT_DEFAULT: c_uint = 0;
    pub const CAPTURE_ACTIVE: c_uint = 1;
    pub const CAPTURE_THREAD_LOCAL: c_uint = 1;
    pub const CAPTURE_RELAXED: c_uint = 2;
    pub const POINTER_CONTEXT: c_uint = 1;
    pub const POINTER_MEMORY_TYPE: c_uint = 2;
    pub const POINTER_DEVICE: c_uint = 9;
    pub const POINTER_RANGE_START: c_uint = 11;
    pub const POINTER_RANGE_BYTES: c_uint = 12;
    pub const MEMORY_HOST: c_uint = 1;
    pub const MEMORY_DEVICE: c_uint = 2;

    pub const LAUNCH_CLUSTER_DIMENSION: c_uint = 4;
    pub const LAUNCH_PROGRAMMATIC_SERIALIZATION: c_uint = 6;

    pub const TENSOR_U8: c_uint = 0;
    pub const TENSOR_U32: c_uint = 2;
    pub const TENSOR_I32: c_uint = 3;
    pub const TENSOR_F16: c_uint = 6;
    pub const TENSOR_F32: c_uint = 7;
    pub const TENSOR_BF16: c_uint = 9;
    pub const TENSOR_TF32: c_uint = 11;
    pub const TENSOR_NO_INTERLEAVE: c_uint = 0;
    pub const TENSOR_SWIZZLE_NONE: c_uint = 0;
    pub const TENSOR_SWIZZLE_32: c_uint = 1;
    pub const TENSOR_SWIZZLE_64: c_uint = 2;
    pub const TENSOR_SWIZZLE_128: c_uint = 3;
    pub const TENSOR_L2_128: c_uint = 2;
    pub const TENSOR_FILL_ZERO: c_uint = 0;
}

/// Declares the driver's functions: the table of their addresses, and for each a function that calls it.
/// `as "symbol"` is the name under which the library exports it, which has a version where the signature
/// has changed.
macro_rules! functions {
    ($($name:ident $(as $symbol:literal)? ($($arg:ident: $type:ty),* $(,)?);)*) => {
        /// The addresses of the functions.
        #[allow(non_snake_case)]
        struct Table {
            $($name: unsafe extern "system" fn($($type),*) -> CuResult,)*
        }

        impl Table {
            /// Looks every function up.
            fn of(library: &libloading::Library) -> Result<Self, String> {
                Ok(Self {
                    // SAFETY: the type is that of the function in cuda.h. The library stays loaded:
                    // the caller never drops it.
                    $($name: unsafe { symbol(library, functions!(@ $name $($symbol)?))? },)*
                })
            }
        }

        $(
            /// The driver's function of this name.
            ///
            /// # Safety
            /// See the module's documentation.
            // Those that name errors are called through the table.
            #[allow(non_snake_case, dead_code)]
            pub(crate) unsafe fn $name($($arg: $type),*) -> Result<(), Error> {
                // SAFETY: the caller's contract.
                check(stringify!($name), unsafe { (table()?.$name)($($arg),*) })
            }
        )*
    };
    (@ $name:ident) => { stringify!($name) };
    (@ $name:ident $symbol:literal) => { $symbol };
}

functions! {
    cuInit(flags: c_uint);
    cuDriverGetVersion(version: *mut c_int);
    cuGetErrorName(error: CuResult, name: *mut *const c_char);
    cuGetErrorString(error: CuResult, text: *mut *const c_char);

    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGet(device: *mut CuDevice, ordinal: c_int);
    cuDeviceGetName(name: *mut c_char, len: c_int, device: CuDevice);
    cuDeviceTotalMem as "cuDeviceTotalMem_v2"(bytes: *mut usize, device: CuDevice);
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: CuDevice);
    cuDevicePrimaryCtxRetain(context: *mut CuContext, device: CuDevice);
    cuDevicePrimaryCtxRelease as "cuDevicePrimaryCtxRelease_v2"(device: CuDevice);
    cuDevicePrimaryCtxGetState(device: CuDevice, flags: *mut c_uint, active: *mut c_int);
    cuCtxSetCurrent(context: CuContext);
    cuCtxGetCurrent(context: *mut CuContext);
    cuCtxPushCurrent as "cuCtxPushCurrent_v2"(context: CuContext);
    cuCtxPopCurrent as "cuCtxPopCurrent_v2"(context: *mut CuContext);
    cuCtxGetDevice(device: *mut CuDevice);
    cuCtxSynchronize();

    cuMemAlloc as "cuMemAlloc_v2"(addr: *mut CuDevicePtr, bytes: usize);
    cuMemFree as "cuMemFree_v2"(addr: CuDevicePtr);
    cuMemGetInfo as "cuMemGetInfo_v2"(free: *mut usize, total: *mut usize);
    cuMemcpyDtoH as "cuMemcpyDtoH_v2"(dst: *mut c_void, src: CuDevicePtr, bytes: usize);
    cuMemcpyHtoD as "cuMemcpyHtoD_v2"(dst: CuDevicePtr, src: *const c_void, bytes: usize);
    cuMemcpyHtoDAsync as "cuMemcpyHtoDAsync_v2"(
        dst: CuDevicePtr,
        src: *const c_void,
        bytes: usize,
        stream: CuStream,
    );
    cuMemcpy2DAsync as "cuMemcpy2DAsync_v2"(copy: *const CuMemcpy2d, stream: CuStream);
    cuMemsetD8 as "cuMemsetD8_v2"(dst: CuDevicePtr, byte: u8, bytes: usize);
    cuPointerGetAttributes(
        count: c_uint,
        attributes: *mut c_uint,
        data: *mut *mut c_void,
        addr: CuDevicePtr,
    );
    cuMemRetainAllocationHandle(handle: *mut CuMemHandle, addr: *mut c_void);
    cuMemRelease(handle: CuMemHandle);

    cuModuleLoadDataEx(
        module: *mut CuModule,
        image: *const c_void,
        options: c_uint,
        keys: *mut c_uint,
        values: *mut *mut c_void,
    );
    cuModuleUnload(module: CuModule);
    cuModuleGetFunction(function: *mut CuFunction, module: CuModule, name: *const c_char);
    cuModuleGetGlobal as "cuModuleGetGlobal_v2"(
        addr: *mut CuDevicePtr,
        bytes: *mut usize,
        module: CuModule,
        name: *const c_char,
    );
    cuFuncLoad(function: CuFunction);
    cuFuncSetAttribute(function: CuFunction, attribute: c_int, value: c_int);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(
        ctas: *mut c_int,
        function: CuFunction,
        threads: c_int,
        smem_bytes: usize,
    );
    cuOccupancyMaxActiveClusters(
        clusters: *mut c_int,
        function: CuFunction,
        config: *const CuLaunchConfig,
    );
    cuLaunchKernelEx(
        config: *const CuLaunchConfig,
        function: CuFunction,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    );
    cuTensorMapEncodeTiled(
        map: *mut CuTensorMap,
        dtype: c_uint,
        rank: c_uint,
        addr: *mut c_void,
        dims: *const u64,
        strides: *const u64,
        box_dims: *const u32,
        steps: *const u32,
        interleave: c_uint,
        swizzle: c_uint,
        l2: c_uint,
        fill: c_uint,
    );

    cuStreamCreate(stream: *mut CuStream, flags: c_uint);
    cuStreamDestroy as "cuStreamDestroy_v2"(stream: CuStream);
    cuStreamSynchronize(stream: CuStream);
    cuStreamQuery(stream: CuStream);
    cuStreamGetCtx(stream: CuStream, context: *mut CuContext);
    cuStreamWaitEvent(stream: CuStream, event: CuEvent, flags: c_uint);
    cuStreamGetCaptureInfo as "cuStreamGetCaptureInfo_v3"(
        stream: CuStream,
        status: *mut c_uint,
        id: *mut u64,
        graph: *mut CuGraph,
        dependencies: *mut *const c_void,
        edges: *mut *const c_void,
        count: *mut usize,
    );
    cuStreamBeginCapture as "cuStreamBeginCapture_v2"(stream: CuStream, mode: c_uint);
    cuStreamEndCapture(stream: CuStream, graph: *mut CuGraph);
    cuThreadExchangeStreamCaptureMode(mode: *mut c_uint);
    cuEventCreate(event: *mut CuEvent, flags: c_uint);
    cuEventDestroy as "cuEventDestroy_v2"(event: CuEvent);
    cuEventRecord(event: CuEvent, stream: CuStream);
    cuEventSynchronize(event: CuEvent);
    cuEventElapsedTime(ms: *mut f32, start: CuEvent, end: CuEvent);
    cuGraphInstantiateWithFlags(exec: *mut CuGraphExec, graph: CuGraph, flags: u64);
    cuGraphDestroy(graph: CuGraph);
    cuGraphExecDestroy(exec: CuGraphExec);
    cuGraphLaunch(exec: CuGraphExec, stream: CuStream);
}

/// The function that the library exports under a name.
///
/// # Safety
/// `F` is the function's type, and the library is never unloaded.
unsafe fn symbol<F: Copy>(library: &libloading::Library, name: &str) -> Result<F, String> {
    // SAFETY: the caller's contract.
    unsafe { library.get::<F>(name.as_bytes()) }
        .map(|f| *f)
        .map_err(|_| format!("it has no {name}; NVIDIA driver 570 or newer is needed"))
}

/// The table, which is filled at the first call of a process.
fn table() -> Result<&'static Table, Error> {
    static TABLE: OnceLock<Result<Table, String>> = OnceLock::new();
    let load = || {
        let names: &[&str] =
            if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };
        let mut first = None;
        for name in names {
            // SAFETY: loading libcuda runs its initialisers, which have no preconditions.
            match unsafe { libloading::Library::new(*name) } {
                Ok(library) => {
                    let table = Table::of(&library).map_err(|e| format!("{name}: {e}"));
                    // The driver can't be unloaded; and the table points into it.
                    std::mem::forget(library);
                    return table;
                }
                Err(e) => first = first.or(Some(loader(&e))),
            }
        }
        Err(first.unwrap_or_default())
    };
    TABLE.get_or_init(load).as_ref().map_err(|reason| Error::NoDriver { reason: reason.clone() })
}

/// The dynamic loader's message, which libloading keeps in the error's source.
fn loader(error: &libloading::Error) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    one_line(&cause.unwrap_or_else(|| error.to_string()))
}

/// Joins the lines of a text into one line.
pub(crate) fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("; ")
}

/// Turns a status into a result.
fn check(call: &'static str, status: CuResult) -> Result<(), Error> {
    if status == value::SUCCESS {
        return Ok(());
    }
    type Describe = unsafe extern "system" fn(CuResult, *mut *const c_char) -> CuResult;
    let text = |describe: Describe| {
        let mut text = ptr::null();
        // SAFETY: `text` is a valid place for the result.
        let known = unsafe { describe(status, &raw mut text) } == value::SUCCESS;
        if !known || text.is_null() {
            return "?".to_owned();
        }
        // SAFETY: the driver's texts are constants that end in a zero byte.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    let table = table()?;
    let (name, text) = (text(table.cuGetErrorName), text(table.cuGetErrorString));
    Err(Error::Driver { call, code: status, name, text })
}

/// Whether an error is this status of the driver's.
pub(crate) fn is(error: &Error, status: CuResult) -> bool {
    matches!(error, Error::Driver { code, .. } if *code == status)
}

#[cfg(test)]
mod tests;
