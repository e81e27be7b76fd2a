//! Launches on the SM model: the whole path, and every launch that must be refused.

use crate::probe::{self, FILL, IMAGE, RANKS2, RANKS16, SHARED, TILE_COPY};
use host::{Device, Dtype, Error, Param, SimConfig, TensorBox, TensorSpec};
use isa::kernel::{Image, Kernel, KernelDesc, KernelMeta};

fn model() -> Device {
    Device::sim(SimConfig::default())
}

#[test]
fn slices_and_values_arrive() {
    probe::slices_and_values_arrive(&model());
}

#[test]
fn clusters_have_their_size() {
    probe::clusters_have_their_size(&model());
}

/// 65,536 registers are enough for two CTAs of 128 threads with 248 each, and for eight of 32.
#[test]
fn clusters_are_as_many_as_the_sms_have_room_for() {
    let module = model().load(&IMAGE).unwrap();
    let held = |desc| module.max_active_clusters(desc).unwrap();
    assert_eq!(held(&SHARED), 132);
    assert_eq!(held(&FILL), 2 * 132);
    assert_eq!(held(&RANKS2), 8 * 132 / 2);
    assert_eq!(held(&RANKS16), 8 * 132 / 16);
}

#[test]
fn all_of_the_shared_memory_can_be_had() {
    probe::all_of_the_shared_memory_can_be_had(&model());
}

#[test]
fn tensor_maps_arrive_and_describe_the_matrix() {
    probe::tensor_maps_arrive_and_describe_the_matrix(&model());
}

#[test]
fn copies_take_any_pitch() {
    probe::copies_take_any_pitch(&model());
}

/// The line with which a launch on the model is refused.
fn refused(device: &Device, desc: &KernelDesc, grid: [u32; 3], params: &[Param<'_>]) -> String {
    let module = device.load(&IMAGE).unwrap();
    let launched = device.launch(&module, desc, grid, params, &device.stream());
    let line = launched.expect_err("must be refused").to_string();
    assert!(!line.contains('\n'), "one line, got: {line}");
    line
}

#[test]
fn a_slice_begins_at_an_element() {
    let device = model();
    let memory = device.alloc_zeroed(64).unwrap();
    let mut part = memory.part(2, 32).unwrap();
    let said = refused(
        &device,
        &FILL,
        [1, 1, 1],
        &[Param::slice_mut::<u32>(&mut part), Param::value(1u32)],
    );
    let end =
        format!("at a multiple of 4, the launch passes one at address {:#x}", memory.addr() + 2);
    assert!(said.ends_with(&end), "{said}");
}

#[test]
fn parameters_must_be_the_kernels() {
    let device = model();
    let mut out = device.alloc_zeroed(64).unwrap();
    let one = [1, 1, 1];
    assert_eq!(
        refused(&device, &FILL, one, &[Param::value(1u32)]),
        "kernel fill takes 2 parameters (out, value); the launch passes 1"
    );
    assert_eq!(
        refused(&device, &FILL, one, &[Param::value(1u32), Param::value(1u32)]),
        "kernel fill, parameter 0 (`out`): the kernel takes a mutable slice of u32 of 4 bytes, the launch passes a value of u32"
    );
    assert_eq!(
        refused(&device, &FILL, one, &[Param::slice::<u32>(&out), Param::value(1u32)]),
        "kernel fill, parameter 0 (`out`): the kernel takes a mutable slice of u32 of 4 bytes, the launch passes a slice of u32 of 4 bytes"
    );
    let floats = Param::slice_mut::<f32>(&mut out);
    assert!(refused(&device, &FILL, one, &[floats, Param::value(1u32)]).contains("slice of f32"));
    let slice = Param::slice_mut::<u32>(&mut out);
    assert_eq!(
        refused(&device, &FILL, one, &[slice, Param::value(1u64)]),
        "kernel fill, parameter 1 (`value`): the kernel takes a value of u32, the launch passes a value of 8 bytes aligned to 8"
    );
    let slice = Param::slice_mut::<u32>(&mut out);
    assert_eq!(
        refused(&device, &FILL, one, &[slice, Param::value(1.0f32)]),
        "kernel fill, parameter 1 (`value`): the kernel takes a value of u32, the launch passes a value of f32"
    );
    let mut odd = device.alloc_zeroed(63).unwrap();
    let slice = Param::slice_mut::<u32>(&mut odd);
    assert_eq!(
        refused(&device, &FILL, one, &[slice, Param::value(1u32)]),
        "kernel fill, parameter 0 (`out`): the kernel takes a mutable slice of u32 of 4 bytes from a buffer of a multiple of 4 bytes, the launch passes one of 63 bytes"
    );
    let mut theirs = model().alloc(64).unwrap();
    let slice = Param::slice_mut::<u32>(&mut theirs);
    let said = refused(&device, &FILL, one, &[slice, Param::value(1u32)]);
    assert!(said.starts_with("parameter 0 (`out`) of kernel fill belongs to SM model"), "{said}");
}

#[test]
fn a_tensor_map_of_another_box_or_swizzle_is_refused() {
    let device = model();
    let buffer = device.alloc_zeroed(64 * 128).unwrap();
    let mut out = device.alloc_zeroed(64 * 128).unwrap();
    let spec = TensorSpec {
        buffer: &buffer,
        offset: 0,
        dtype: Dtype::Bf16,
        rows: 64,
        cols: 64,
        pitch_bytes: 128,
    };
    let right = probe::TILE;
    let mut launch = |spec: &TensorSpec<'_>, tile: TensorBox| {
        let map = device.tensor_map(spec, tile).unwrap();
        let params = [
            Param::map(&map),
            Param::slice_mut::<u32>(&mut out),
            Param::value(0u32),
            Param::value(0u32),
        ];
        refused(&device, &TILE_COPY, [1, 1, 1], &params)
    };
    let want = "kernel tile, parameter 0 (`map`): the kernel takes a tensor map of bf16 with box 64x64 and swizzle 128, the launch passes a tensor map of";
    let said = launch(&spec, TensorBox { rows: 32, ..right });
    assert_eq!(said, format!("{want} bf16 with box 32x64 and swizzle 128"));
    let said = launch(&spec, TensorBox { swizzle_bytes: 0, ..right });
    assert_eq!(said, format!("{want} bf16 with box 64x64 and swizzle 0"));
    let said = launch(&TensorSpec { dtype: Dtype::F16, ..spec }, right);
    assert_eq!(said, format!("{want} f16 with box 64x64 and swizzle 128"));
    let floats = TensorSpec { dtype: Dtype::F16, ..spec };
    let said = device.tensor_map_for::<&probe::Map>(&floats).err().unwrap().to_string();
    assert!(said.starts_with("a tensor map for a kernel argument of type &"), "{said}");
    let right = "it takes a tensor map of bf16 with box 64x64 and swizzle 128, and the tensor has elements of f16";
    assert!(said.ends_with(right), "{said}");
    let said = device.tensor_map_for::<u32>(&spec).err().unwrap().to_string();
    assert_eq!(
        said,
        "a tensor map for a kernel argument of type u32: it takes a value of u32, and no tensor map"
    );
}

#[test]
fn shapes_must_be_possible() {
    let device = model();
    let mut out = device.alloc_zeroed(64).unwrap();
    let mut one = |desc: &KernelDesc, grid| {
        refused(&device, desc, grid, &[Param::slice_mut::<u32>(&mut out)])
    };
    assert_eq!(
        one(&RANKS2, [3, 1, 1]),
        "kernel ranks2: grid [3, 1, 1] with clusters of [2, 1, 1]: each dimension of the grid must be a multiple of the cluster's"
    );
    assert_eq!(
        one(&RANKS2, [2, 0, 1]),
        "kernel ranks2: grid [2, 0, 1]; x must be 1 to 2^31-1, y and z 1 to 65535"
    );
    assert!(one(&RANKS2, [2, 1, 65536]).contains("y and z 1 to 65535"));
    let mut big = SHARED;
    big.meta.smem_bytes += 4;
    // A kernel that differs from the image's is named before its shape is looked at.
    assert_eq!(
        one(&big, [1, 1, 1]),
        "kernel shared_memory: the image has smem_bytes = 232448, this program has 232452; rebuild the image from the same source"
    );
}

#[test]
fn blocks_clusters_and_shared_memory_beyond_the_device_are_refused() {
    const fn changed(threads: u32, cluster: u32, smem_bytes: u32) -> KernelMeta {
        KernelMeta { threads, cluster: [cluster, 1, 1], smem_bytes, ..SHARED_DESC.meta }
    }
    const SHARED_DESC: KernelDesc = <probe::shared_memory as Kernel>::DESC;
    static BIG: [KernelMeta; 1] = [changed(32, 1, 227 * 1024 + 4)];
    static WIDE: [KernelMeta; 1] = [changed(1056, 1, 0)];
    static MANY: [KernelMeta; 1] = [changed(32, 32, 0)];
    static IMAGES: [Image; 3] = [
        Image { name: "big", arch: "sm_90a", code: &[], kernels: &BIG, ptxas: None, others: &[] },
        Image { name: "wide", arch: "sm_90a", code: &[], kernels: &WIDE, ptxas: None, others: &[] },
        Image { name: "many", arch: "sm_90a", code: &[], kernels: &MANY, ptxas: None, others: &[] },
    ];
    let device = model();
    let mut out = device.alloc_zeroed(4).unwrap();
    let mut said = |image: &'static Image| {
        let module = device.load(image).unwrap();
        let desc = KernelDesc { meta: image.kernels[0], ..SHARED_DESC };
        let params = [Param::slice_mut::<u32>(&mut out)];
        let launched = device.launch(&module, &desc, [32, 1, 1], &params, &device.stream());
        launched.expect_err("must be refused").to_string()
    };
    assert_eq!(
        said(&IMAGES[0]),
        "kernel shared_memory: 232452 bytes of shared memory per CTA; this device has 232448: use fewer stages or smaller tiles"
    );
    assert_eq!(
        said(&IMAGES[1]),
        "kernel shared_memory: 1056 threads per CTA; the number must be 1 to 1024"
    );
    assert_eq!(
        said(&IMAGES[2]),
        "kernel shared_memory: grid [32, 1, 1] with clusters of [32, 1, 1]: a cluster has 1 to 16 CTAs"
    );
}

#[test]
fn what_the_model_finds_comes_back_as_its_report() {
    let device = model();
    let module = device.load(&IMAGE).unwrap();
    let map = probe::matrix(&device);
    // Room for the first word alone: the kernel writes beyond the slice, and traps.
    let mut out = device.alloc_zeroed(4).unwrap();
    let params = [
        Param::map(&map),
        Param::slice_mut::<u32>(&mut out),
        Param::value(0u32),
        Param::value(0u32),
    ];
    let launched = device.launch(&module, &TILE_COPY, [1, 1, 1], &params, &device.stream());
    match launched {
        Err(Error::Model(report)) => {
            assert!(report.to_string().contains("tile"), "{report}");
            // What `main` prints when it returns the error.
            let page = report.to_string();
            assert_eq!(format!("{:?}", Error::Model(report)), page);
        }
        other => panic!("{other:?}"),
    }
}
