//! Contexts, streams, events and memory of somebody else's on a GPU: cudarc stands for the other program.
//! Without a GPU each test prints a line and passes; with `WARPIPE_REQUIRE_GPU=1` it fails.

use crate::gpu::gpu;
use crate::probe::{FILL, IMAGE, words};
use cudarc::driver::{CudaContext, DevicePtr, result, sys};
use host::{Buffer, Device, Error, Event, Module, Param, Stream};
use std::ffi::c_void;
use std::ptr;

fn current() -> *mut c_void {
    result::ctx::get_current().unwrap().map_or(ptr::null_mut(), <*mut _>::cast)
}

/// Makes a context current, or none.
fn set_current(context: *mut c_void) {
    // SAFETY: the contexts of these tests live long enough.
    unsafe { result::ctx::set_current(context.cast()) }.unwrap();
}

/// Fills a buffer of 64 words with `value + i` on a stream.
fn fill(device: &Device, module: &Module, out: &mut Buffer, value: u32, stream: &Stream) {
    let params = [Param::slice_mut::<u32>(out), Param::value(value)];
    device.launch(module, &FILL, [1, 1, 1], &params, stream).unwrap_or_else(|e| panic!("{e}"));
}

fn line<T>(result: Result<T, Error>) -> String {
    let line = result.err().expect("must be refused").to_string();
    assert!(!line.contains('\n'), "one line, got: {line}");
    line
}

#[test]
fn a_context_of_the_caller_s_is_used_and_left_alone() {
    let Some(primary) = gpu("a_context_of_the_caller_s_is_used_and_left_alone") else { return };
    let own = CudaContext::new_non_primary(0, 0).unwrap();
    let raw = own.cu_ctx().cast::<c_void>();
    assert_ne!(raw, primary.raw_context());
    // SAFETY: `own` is dropped last.
    let device = unsafe { Device::from_raw_context(raw) }.unwrap();
    assert_eq!(device.raw_context(), raw);
    assert!(device.describe().contains(&format!("context {:#x}", raw as u64)));
    // Whatever is current stays current, and nothing must be.
    for before in [raw, primary.raw_context(), ptr::null_mut()] {
        set_current(before);
        for device in [&device, &*primary] {
            let module = device.load(&IMAGE).unwrap();
            let mut out = device.alloc_zeroed(4 * 64).unwrap();
            let stream = device.new_stream().unwrap();
            fill(device, &module, &mut out, 5, &stream);
            let (start, end) = (stream.record().unwrap(), stream.record().unwrap());
            assert!(end.elapsed_ms(&start).unwrap() >= 0.0);
            assert_eq!(words(&out), (5..69).collect::<Vec<u32>>());
            device.synchronize().unwrap();
        }
        assert_eq!(current(), before);
    }
    let theirs = primary.alloc(256).unwrap();
    assert!(line(device.check_buffer("it", &theirs)).starts_with("it belongs to "));
    // SAFETY: refused.
    let said = line(unsafe { Buffer::from_raw(&device, theirs.addr(), 256) });
    let words =
        format!("memory of context {:#x}, not of {:#x},", primary.raw_context() as u64, raw as u64);
    assert!(said.contains(&words), "{said}");
    let stream = primary.new_stream().unwrap();
    // SAFETY: refused.
    let said = line(unsafe { Stream::from_raw(&device, stream.raw()) });
    assert_eq!(
        said,
        format!(
            "stream {:#x} belongs to context {:#x}; this device is context {:#x} (device 0)",
            stream.raw() as u64,
            primary.raw_context() as u64,
            raw as u64
        )
    );
}

#[test]
fn the_current_context_is_found() {
    let Some(primary) = gpu("the_current_context_is_found") else { return };
    set_current(ptr::null_mut());
    assert!(line(Device::current()).starts_with("no CUDA context: "));
    primary.make_current().unwrap();
    let device = Device::current().unwrap();
    assert_eq!(device.raw_context(), primary.raw_context());
    // The same context: what belongs to one device belongs to the other.
    device.check_buffer("it", &primary.alloc(16).unwrap()).unwrap();
    let own = CudaContext::new_non_primary(0, 0).unwrap();
    set_current(own.cu_ctx().cast());
    let said = line(Device::current());
    assert!(said.contains("is not the device's primary context"), "{said}");
    set_current(ptr::null_mut());
    // SAFETY: null is refused.
    assert!(line(unsafe { Device::from_raw_context(ptr::null_mut()) }).contains("is null"));
}

#[test]
fn streams_and_events_go_both_ways() {
    let Some(device) = gpu("streams_and_events_go_both_ways") else { return };
    let theirs = CudaContext::new(0).unwrap();
    let stream = theirs.new_stream().unwrap();
    let module = device.load(&IMAGE).unwrap();
    let mut out = device.alloc_zeroed(4 * 64).unwrap();
    // The legacy default stream under both of its handles, the thread's own, and one of cudarc's.
    for (i, raw) in [0, 1, 2, stream.cu_stream() as usize].into_iter().enumerate() {
        // SAFETY: the first three always exist, and `stream` is dropped last.
        let stream = unsafe { Stream::from_raw(&device, raw as *mut c_void) }.unwrap();
        assert_eq!(stream.raw() as usize, raw);
        fill(&device, &module, &mut out, i as u32, &stream);
        stream.synchronize().unwrap();
        assert_eq!(words(&out)[0], i as u32);
    }
    // Theirs waits for ours, and ours for theirs, many times: a wait that is missing shows.
    // SAFETY: `stream` is dropped last.
    let on_theirs = unsafe { Stream::from_raw(&device, stream.cu_stream().cast()) }.unwrap();
    let ours = device.new_stream().unwrap();
    for i in 0..500u32 {
        fill(&device, &module, &mut out, 2 * i, &on_theirs);
        let recorded = stream.record_event(None).unwrap();
        // SAFETY: the event outlives this one, which the wait has used up.
        let event = unsafe { Event::from_raw(&device, recorded.cu_event().cast()) }.unwrap();
        assert_eq!(event.raw(), recorded.cu_event().cast());
        ours.wait(&event).unwrap();
        fill(&device, &module, &mut out, 2 * i + 1, &ours);
        let event = ours.record().unwrap();
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both are alive.
        unsafe { result::stream::wait_event(stream.cu_stream(), event.raw().cast(), flags) }
            .unwrap();
    }
    assert_eq!(words(&out)[0], 999);
    // SAFETY: null is refused.
    let said = line(unsafe { Event::from_raw(&device, ptr::null_mut()) });
    assert!(said.contains("is null"), "{said}");
}

#[test]
fn memory_is_what_its_address_says() {
    let Some(device) = gpu("memory_is_what_its_address_says") else { return };
    let theirs = CudaContext::new(0).unwrap();
    let stream = theirs.default_stream();
    let module = device.load(&IMAGE).unwrap();
    // SAFETY: what is refused is not used, and the memory outlives the buffers.
    let at = |addr, bytes| unsafe { Buffer::from_raw(&device, addr, bytes) };

    // Of a pool, as cudarc allocates.
    let slice = stream.alloc_zeros::<u32>(1024).unwrap();
    let (addr, _end) = slice.device_ptr(&stream);
    stream.synchronize().unwrap();
    let mut out = at(addr + 256, 4 * 64).unwrap();
    fill(&device, &module, &mut out, 7, &device.stream());
    device.synchronize().unwrap();
    drop(out);
    let now = stream.clone_dtoh(&slice).unwrap();
    assert_eq!(now[64..128], (7..71).collect::<Vec<u32>>());
    assert!(now[..64].iter().chain(&now[128..]).all(|&x| x == 0));

    // Allocated, and beyond.
    let ours = device.alloc(1 << 20).unwrap();
    drop(at(ours.addr(), 1 << 20).unwrap());
    let said = line(at(ours.addr() + 16, 1 << 40));
    assert!(
        said.starts_with(&format!("{} bytes from {:#x} exceed", 1u64 << 40, ours.addr() + 16)),
        "{said}"
    );

    let pageable = [0u8; 64];
    let said = line(at(pageable.as_ptr() as u64, 64));
    assert!(said.contains("no memory that the CUDA driver knows"), "{said}");
    assert!(line(at(0x10, 1)).contains("and can't be used as memory of device 0"));
    // SAFETY: freed below.
    let pinned = unsafe { result::malloc_host(4096, 0) }.unwrap();
    let said = line(at(pinned as u64, 4096));
    assert!(said.contains("is memory of the host"), "{said}");
    // SAFETY: allocated above.
    unsafe { result::free_host(pinned) }.unwrap();
}

/// A launch inside of somebody else's capture, whose mode forbids all that could wait or allocate.
#[test]
fn launches_are_captured_by_somebody_else() {
    let Some(device) = gpu("launches_are_captured_by_somebody_else") else { return };
    let theirs = CudaContext::new(0).unwrap();
    let stream = theirs.new_stream().unwrap();
    let module = device.load(&IMAGE).unwrap();
    module.preload(&[&FILL]).unwrap();
    let mut out = device.alloc_zeroed(4 * 64).unwrap();
    // SAFETY: `stream` is dropped last.
    let ours = unsafe { Stream::from_raw(&device, stream.cu_stream().cast()) }.unwrap();
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    fill(&device, &module, &mut out, 3, &ours);
    let graph = stream.end_capture(sys::CUgraphInstantiate_flags(0)).unwrap().expect("a graph");
    assert_eq!(words(&out), [0; 64], "captured, not run");
    graph.launch().unwrap();
    assert_eq!(words(&out), (3..67).collect::<Vec<u32>>());
}
