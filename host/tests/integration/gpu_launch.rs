//! Launches on a GPU: parameters, clusters, shared memory and tensor maps arrive as described.
//! Without a GPU each test prints a line and passes; with `WARPIPE_REQUIRE_GPU=1` it fails.

use crate::gpu::gpu;
use crate::probe::{self, FILL, IMAGE, code, fill, words};
use host::{Device, Error, Param};
use isa::kernel::{Code, Image, Kernel, KernelCode, KernelDesc, KernelMeta, name64};

#[test]
fn slices_and_values_arrive() {
    let Some(device) = gpu("slices_and_values_arrive") else { return };
    probe::slices_and_values_arrive(&device);
}

#[test]
fn clusters_have_their_size() {
    let Some(device) = gpu("clusters_have_their_size") else { return };
    probe::clusters_have_their_size(&device);
}

#[test]
fn all_of_the_shared_memory_can_be_had() {
    let Some(device) = gpu("all_of_the_shared_memory_can_be_had") else { return };
    probe::all_of_the_shared_memory_can_be_had(&device);
}

#[test]
fn tensor_maps_arrive_and_describe_the_matrix() {
    let Some(device) = gpu("tensor_maps_arrive_and_describe_the_matrix") else { return };
    probe::tensor_maps_arrive_and_describe_the_matrix(&device);
}

#[test]
fn copies_take_any_pitch() {
    let Some(device) = gpu("copies_take_any_pitch") else { return };
    probe::copies_take_any_pitch(&device);
}

/// An image with a kernel that assembles, one that does not, and one without code.
fn with_broken() -> (&'static Image, [KernelDesc; 2]) {
    const NONSENSE: &str =
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry broken() { nonsense; }\n";
    const fn named(name: &str) -> KernelDesc {
        KernelDesc { meta: KernelMeta { name: name64(name), ..FILL_META }, ..fill::DESC }
    }
    const FILL_META: KernelMeta = fill::DESC.meta;
    const BROKEN: KernelDesc = named("broken");
    const EMPTY: KernelDesc = named("empty");
    static MIXED: Image = Image {
        name: "mixed",
        arch: "sm_90a",
        code: &[code("fill"), KernelCode { kernel: "broken", code: Code::Ptx(NONSENSE) }],
        kernels: &[BROKEN.meta, EMPTY.meta, FILL_META],
        ptxas: None,
        others: &[],
    };
    (&MIXED, [BROKEN, EMPTY])
}

/// Loading assembles nothing, and a kernel that does not assemble is in nobody's way.
#[test]
fn kernels_are_assembled_one_by_one() {
    let Some(device) = gpu("kernels_are_assembled_one_by_one") else { return };
    let (image, [broken, empty]) = with_broken();
    let module = device.load(image).unwrap();
    module.preload(&[&FILL]).unwrap();
    for _ in 0..2 {
        let said = module.preload(&[&FILL, &broken]).unwrap_err().to_string();
        assert!(
            said.starts_with("the driver cannot assemble kernel broken of image mixed: "),
            "{said}"
        );
        assert!(!said.contains('\n'), "{said}");
    }
    assert_eq!(
        module.max_active_clusters(&empty).unwrap_err().to_string(),
        "image mixed has no code for kernel empty; it has code for 2 kernels"
    );
    let mut out = device.alloc_zeroed(4 * 64).unwrap();
    let params = [Param::slice_mut::<u32>(&mut out), Param::value(1u32)];
    device.launch(&module, &FILL, [1, 1, 1], &params, &device.stream()).unwrap();
    assert_eq!(words(&out), (1..65).collect::<Vec<u32>>());
}

#[test]
fn threads_may_use_a_kernel_first_at_the_same_time() {
    let Some(device) = gpu("threads_may_use_a_kernel_first_at_the_same_time") else { return };
    let module = device.load(&IMAGE).unwrap();
    std::thread::scope(|scope| {
        for i in 0..8u32 {
            let (device, module) = (&device, &module);
            scope.spawn(move || {
                let stream = device.new_stream().unwrap();
                let mut out = device.alloc_zeroed(4 * 64).unwrap();
                let params = [Param::slice_mut::<u32>(&mut out), Param::value(i)];
                device.launch(module, &FILL, [1, 1, 1], &params, &stream).unwrap();
                stream.synchronize().unwrap();
                assert_eq!(words(&out), (i..64 + i).collect::<Vec<u32>>());
            });
        }
    });
}

#[test]
fn a_device_that_is_not_there_is_counted() {
    let Some(_) = gpu("a_device_that_is_not_there_is_counted") else { return };
    let count = host::cuda_devices().unwrap().len();
    match Device::cuda(99) {
        Err(Error::NoSuchDevice { index: 99, count: said }) => assert_eq!(said, count),
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn too_much_memory_is_refused_with_the_numbers() {
    let Some(device) = gpu("too_much_memory_is_refused_with_the_numbers") else { return };
    let said = device.alloc(1 << 45).err().expect("must be refused").to_string();
    let start = "out of device memory: the allocation needs 35184372088832 bytes, and ";
    assert!(said.starts_with(start), "{said}");
}

#[test]
fn graphs_repeat_and_events_measure() {
    let Some(device) = gpu("graphs_repeat_and_events_measure") else { return };
    let module = device.load(&IMAGE).unwrap();
    let stream = device.new_stream().unwrap();
    let mut out = device.alloc_zeroed(4 * 64).unwrap();
    let graph = stream
        .capture(|| {
            let params = [Param::slice_mut::<u32>(&mut out), Param::value(1u32)];
            (0..10).try_for_each(|_| device.launch(&module, &FILL, [1, 1, 1], &params, &stream))
        })
        .unwrap();
    assert_eq!(words(&out), [0; 64], "captured, not run");
    let start = stream.record().unwrap();
    graph.launch().unwrap();
    let ms = stream.record().unwrap().elapsed_ms(&start).unwrap();
    assert!(ms > 0.0 && ms < 1000.0, "{ms}");
    assert_eq!(words(&out), (1..65).collect::<Vec<u32>>());

    let failed = stream.capture(|| device.alloc(1 << 45).map(drop));
    assert!(failed.is_err());
    // The stream works after a capture that failed.
    graph.launch().unwrap();
    stream.synchronize().unwrap();
}
