//! How a program that works with `cust` passes its stream and its memory to a plan of warpipe's.

use cust::memory::{DeviceBuffer, DeviceSlice};
use cust::stream::Stream as CustStream;
use half::bf16;
use host::gemm::GemmPlan;
use host::{Buffer, Device, Error, Stream};

/// The device of cust's context, which is the device's primary context (`cust::quick_init`,
/// `Context::new`). The plan must be made for it.
///
/// # Errors
/// No context is current on this thread, or it is one of `cust::context::legacy`, which is no primary context.
pub fn device() -> Result<Device, Error> {
    Device::current()
}

/// Queues d = a b^T on cust's stream.
///
/// # Safety
/// The memory stays alive until the work is complete, and what else uses it is ordered by the stream. The stream
/// is not destroyed before the plan is dropped, runs on another stream, or is told to let go of it
/// (`GemmPlan::synchronize`).
///
/// # Errors
/// Memory or a stream of another context, or of another size than the plan's.
pub unsafe fn multiply(
    device: &Device,
    plan: &GemmPlan,
    stream: &CustStream,
    a: &DeviceBuffer<u16>,
    b: &DeviceBuffer<u16>,
    d: &mut DeviceBuffer<u16>,
) -> Result<(), Error> {
    let buffer = |memory: &DeviceSlice<u16>| {
        let bytes = memory.len() * size_of::<bf16>();
        // SAFETY: the caller keeps the memory alive.
        unsafe { Buffer::from_raw(device, memory.as_device_ptr().as_raw(), bytes) }
    };
    let (a, b, mut d) = (buffer(a)?, buffer(b)?, buffer(d)?);
    // SAFETY: the caller keeps the stream alive.
    let stream = unsafe { Stream::from_raw(device, stream.as_inner().cast()) }?;
    plan.bind(&a, &b, None, &mut d)?.run(1.0, 0.0, &stream)
}
