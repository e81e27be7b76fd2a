//! The declarations against those of another binding, which bindgen makes from cuda.h.

use super::*;
use cudarc::driver::sys;
use std::mem::{align_of, offset_of, size_of};

#[test]
fn values_are_those_of_the_header() {
    use sys::CUdevice_attribute_enum as Device;
    use sys::CUfunction_attribute_enum as Function;
    let status = |name: &str, ours: u32, theirs: u32| assert_eq!(ours, theirs, "{name}");
    macro_rules! same {
        ($($ours:ident = $theirs:path;)*) => {
            $(status(stringify!($ours), value::$ours as u32, $theirs as u32);)*
        };
    }
    same! {
        SUCCESS = sys::CUresult::CUDA_SUCCESS;
        ERROR_OUT_OF_MEMORY = sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        ERROR_NO_DEVICE = sys::CUresult::CUDA_ERROR_NO_DEVICE;
        ERROR_NOT_READY = sys::CUresult::CUDA_ERROR_NOT_READY;
        DEVICE_CLOCK_RATE = Device::CU_DEVICE_ATTRIBUTE_CLOCK_RATE;
        DEVICE_SMS = Device::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        DEVICE_PCI_BUS = Device::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID;
        DEVICE_PCI_DEVICE = Device::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID;
        DEVICE_MEMORY_CLOCK_RATE = Device::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE;
        DEVICE_MEMORY_BUS_WIDTH = Device::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH;
        DEVICE_L2_BYTES = Device::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;
        DEVICE_PCI_DOMAIN = Device::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID;
        DEVICE_MAJOR = Device::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
        DEVICE_MINOR = Device::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;
        DEVICE_SMEM_OPTIN = Device::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        FUNCTION_MAX_DYNAMIC_SMEM = Function::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        FUNCTION_NON_PORTABLE_CLUSTER =
            Function::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
        JIT_ERROR_LOG = sys::CUjit_option_enum::CU_JIT_ERROR_LOG_BUFFER;
        JIT_ERROR_LOG_BYTES = sys::CUjit_option_enum::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES;
        STREAM_NON_BLOCKING = sys::CUstream_flags::CU_STREAM_NON_BLOCKING;
        EVENT_DEFAULT = sys::CUevent_flags::CU_EVENT_DEFAULT;
        EVENT_NO_TIMING = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING;
        WAIT_DEFAULT = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        CAPTURE_ACTIVE = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE;
        CAPTURE_THREAD_LOCAL = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        CAPTURE_RELAXED = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        POINTER_CONTEXT = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT;
        POINTER_MEMORY_TYPE = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
        POINTER_DEVICE = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
        POINTER_RANGE_START = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR;
        POINTER_RANGE_BYTES = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE;
        MEMORY_HOST = sys::CUmemorytype::CU_MEMORYTYPE_HOST;
        MEMORY_DEVICE = sys::CUmemorytype::CU_MEMORYTYPE_DEVICE;
        LAUNCH_CLUSTER_DIMENSION =
            sys::CUlaunchAttributeID_enum::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        LAUNCH_PROGRAMMATIC_SERIALIZATION =
            sys::CUlaunchAttributeID_enum::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        TENSOR_U8 = sys::CUtensorMapDataType_enum::CU_TENSOR_MAP_DATA_TYPE_UINT8;
        TENSOR_U32 = sys::CUtensorMapDataType_enum::CU_TENSOR_MAP_DATA_TYPE_UINT32;
        TENSOR_I32 = sys::CUtensorMapDataType_enum::CU_TENSOR_MAP_DATA_TYPE_INT32;
        TENSOR_F16 = sys::CUtensorMapDataType_enum::CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
        TENSOR_F32 = sys::CUtensorMapDataType_enum::CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
        TENSOR_BF16 = sys::CUtensorMapDataType_enum::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
        TENSOR_TF32 = sys::CUtensorMapDataType_enum::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
        TENSOR_NO_INTERLEAVE = sys::CUtensorMapInterleave_enum::CU_TENSOR_MAP_INTERLEAVE_NONE;
        TENSOR_SWIZZLE_NONE = sys::CUtensorMapSwizzle_enum::CU_TENSOR_MAP_SWIZZLE_NONE;
        TENSOR_SWIZZLE_32 = sys::CUtensorMapSwizzle_enum::CU_TENSOR_MAP_SWIZZLE_32B;
        TENSOR_SWIZZLE_64 = sys::CUtensorMapSwizzle_enum::CU_TENSOR_MAP_SWIZZLE_64B;
        TENSOR_SWIZZLE_128 = sys::CUtensorMapSwizzle_enum::CU_TENSOR_MAP_SWIZZLE_128B;
        TENSOR_L2_128 = sys::CUtensorMapL2promotion_enum::CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
        TENSOR_FILL_ZERO = sys::CUtensorMapFloatOOBfill_enum::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
    }
}

#[test]
fn structures_are_those_of_the_header() {
    type Copy = sys::CUDA_MEMCPY2D_st;
    type Attribute = sys::CUlaunchAttribute_st;
    type Config = sys::CUlaunchConfig_st;
    assert_eq!(size_of::<CuTensorMap>(), size_of::<sys::CUtensorMap_st>());
    assert_eq!(align_of::<CuTensorMap>(), align_of::<sys::CUtensorMap_st>());
    assert_eq!(size_of::<CuMemcpy2d>(), size_of::<Copy>());
    assert_eq!(offset_of!(CuMemcpy2d, src_device), offset_of!(Copy, srcDevice));
    assert_eq!(offset_of!(CuMemcpy2d, src_pitch), offset_of!(Copy, srcPitch));
    assert_eq!(offset_of!(CuMemcpy2d, dst_type), offset_of!(Copy, dstMemoryType));
    assert_eq!(offset_of!(CuMemcpy2d, dst_device), offset_of!(Copy, dstDevice));
    assert_eq!(offset_of!(CuMemcpy2d, dst_pitch), offset_of!(Copy, dstPitch));
    assert_eq!(offset_of!(CuMemcpy2d, width), offset_of!(Copy, WidthInBytes));
    assert_eq!(offset_of!(CuMemcpy2d, height), offset_of!(Copy, Height));
    assert_eq!(size_of::<CuLaunchAttribute>(), size_of::<Attribute>());
    assert_eq!(align_of::<CuLaunchAttribute>(), align_of::<Attribute>());
    assert_eq!(offset_of!(CuLaunchAttribute, value), offset_of!(Attribute, value));
    assert_eq!(size_of::<CuLaunchConfig>(), size_of::<Config>());
    assert_eq!(offset_of!(CuLaunchConfig, block), offset_of!(Config, blockDimX));
    assert_eq!(offset_of!(CuLaunchConfig, smem_bytes), offset_of!(Config, sharedMemBytes));
    assert_eq!(offset_of!(CuLaunchConfig, stream), offset_of!(Config, hStream));
    assert_eq!(offset_of!(CuLaunchConfig, attributes), offset_of!(Config, attrs));
    assert_eq!(offset_of!(CuLaunchConfig, count), offset_of!(Config, numAttrs));
}

/// Bytes of a function's arguments.
macro_rules! sizes {
    ($($name:ident($($arg:ident)*);)*) => {
        $(
            #[allow(non_snake_case)]
            fn $name<$($arg,)* R>(_: unsafe fn($($arg),*) -> R) -> Vec<usize> {
                vec![$(size_of::<$arg>()),*]
            }
        )*
    };
}
sizes! {
    of_0();
    of_1(A);
    of_2(A B);
    of_3(A B C);
    of_4(A B C D);
    of_5(A B C D E);
    of_7(A B C D E F G);
    of_12(A B C D E F G H I J K L);
}

/// Each function has as many arguments as in the header, of the same sizes in the same order.
#[test]
fn functions_take_what_the_header_says() {
    macro_rules! same {
        ($($ours:ident = $theirs:ident by $sizes:ident;)*) => {
            $(assert_eq!($sizes(super::$ours), $sizes(sys::$theirs), stringify!($ours));)*
        };
    }
    same! {
        cuInit = cuInit by of_1;
        cuDriverGetVersion = cuDriverGetVersion by of_1;
        cuGetErrorName = cuGetErrorName by of_2;
        cuGetErrorString = cuGetErrorString by of_2;
        cuDeviceGetCount = cuDeviceGetCount by of_1;
        cuDeviceGet = cuDeviceGet by of_2;
        cuDeviceGetName = cuDeviceGetName by of_3;
        cuDeviceTotalMem = cuDeviceTotalMem_v2 by of_2;
        cuDeviceGetAttribute = cuDeviceGetAttribute by of_3;
        cuDevicePrimaryCtxRetain = cuDevicePrimaryCtxRetain by of_2;
        cuDevicePrimaryCtxRelease = cuDevicePrimaryCtxRelease_v2 by of_1;
        cuDevicePrimaryCtxGetState = cuDevicePrimaryCtxGetState by of_3;
        cuCtxSetCurrent = cuCtxSetCurrent by of_1;
        cuCtxGetCurrent = cuCtxGetCurrent by of_1;
        cuCtxPushCurrent = cuCtxPushCurrent_v2 by of_1;
        cuCtxPopCurrent = cuCtxPopCurrent_v2 by of_1;
        cuCtxGetDevice = cuCtxGetDevice by of_1;
        cuCtxSynchronize = cuCtxSynchronize by of_0;
        cuMemAlloc = cuMemAlloc_v2 by of_2;
        cuMemFree = cuMemFree_v2 by of_1;
        cuMemGetInfo = cuMemGetInfo_v2 by of_2;
        cuMemcpyDtoH = cuMemcpyDtoH_v2 by of_3;
        cuMemcpyHtoD = cuMemcpyHtoD_v2 by of_3;
        cuMemcpyHtoDAsync = cuMemcpyHtoDAsync_v2 by of_4;
        cuMemcpy2DAsync = cuMemcpy2DAsync_v2 by of_2;
        cuMemsetD8 = cuMemsetD8_v2 by of_3;
        cuPointerGetAttributes = cuPointerGetAttributes by of_4;
        cuMemRetainAllocationHandle = cuMemRetainAllocationHandle by of_2;
        cuMemRelease = cuMemRelease by of_1;
        cuModuleLoadDataEx = cuModuleLoadDataEx by of_5;
        cuModuleUnload = cuModuleUnload by of_1;
        cuModuleGetFunction = cuModuleGetFunction by of_3;
        cuModuleGetGlobal = cuModuleGetGlobal_v2 by of_4;
        cuFuncLoad = cuFuncLoad by of_1;
        cuFuncSetAttribute = cuFuncSetAttribute by of_3;
        cuOccupancyMaxActiveBlocksPerMultiprocessor = cuOccupancyMaxActiveBlocksPerMultiprocessor by of_4;
        cuOccupancyMaxActiveClusters = cuOccupancyMaxActiveClusters by of_3;
        cuLaunchKernelEx = cuLaunchKernelEx by of_4;
        cuTensorMapEncodeTiled = cuTensorMapEncodeTiled by of_12;
        cuStreamCreate = cuStreamCreate by of_2;
        cuStreamDestroy = cuStreamDestroy_v2 by of_1;
        cuStreamSynchronize = cuStreamSynchronize by of_1;
        cuStreamQuery = cuStreamQuery by of_1;
        cuStreamGetCtx = cuStreamGetCtx by of_2;
        cuStreamWaitEvent = cuStreamWaitEvent by of_3;
        cuStreamGetCaptureInfo = cuStreamGetCaptureInfo_v3 by of_7;
        cuStreamBeginCapture = cuStreamBeginCapture_v2 by of_2;
        cuStreamEndCapture = cuStreamEndCapture by of_2;
        cuThreadExchangeStreamCaptureMode = cuThreadExchangeStreamCaptureMode by of_1;
        cuEventCreate = cuEventCreate by of_2;
        cuEventDestroy = cuEventDestroy_v2 by of_1;
        cuEventRecord = cuEventRecord by of_2;
        cuEventSynchronize = cuEventSynchronize by of_1;
        // The second version has the same arguments.
        cuEventElapsedTime = cuEventElapsedTime_v2 by of_3;
        cuGraphInstantiateWithFlags = cuGraphInstantiateWithFlags by of_3;
        cuGraphDestroy = cuGraphDestroy by of_1;
        cuGraphExecDestroy = cuGraphExecDestroy by of_1;
        cuGraphLaunch = cuGraphLaunch by of_2;
    }
}

/// Where the driver lies on this machine, every function is found.
#[test]
fn the_driver_has_every_function() {
    match table() {
        Ok(_) => {}
        Err(Error::NoDriver { reason }) => {
            assert!(!reason.contains("it has no"), "{reason}");
            println!("the_driver_has_every_function: skipped, {reason}");
        }
        Err(other) => panic!("{other}"),
    }
}
