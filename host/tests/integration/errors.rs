//! What bad input gets: one line with the numbers, before any driver sees it.

use host::{Buffer, Copy2d, Device, Dtype, Error, SimConfig, TensorBox, TensorNd, TensorSpec};

fn model() -> Device {
    Device::sim(SimConfig::default())
}

/// The error's line; fails if there is none or if it is more than one line.
fn line<T>(result: Result<T, Error>) -> String {
    let line = result.err().expect("must be refused").to_string();
    assert!(!line.is_empty() && !line.contains('\n'), "one line, got: {line}");
    line
}

#[test]
fn a_machine_without_a_gpu_gets_an_error_and_the_model() {
    match host::cuda_devices() {
        Ok(devices) => assert!(!devices.is_empty()),
        Err(e @ (Error::NoDriver { .. } | Error::NoGpu)) => {
            assert!(e.to_string().contains("SM model"), "{e}");
            if let Error::NoDriver { reason } = &e {
                // The loader's own words, which name the file.
                assert!(reason.contains("cuda"), "{e}");
            }
            let refused = line(Device::cuda(0));
            assert_eq!(refused, e.to_string());
            let device = Device::auto();
            assert!(device.is_sim());
            assert!(device.describe().contains(&refused), "{}", device.describe());
        }
        Err(e) => panic!("{e}"),
    }
}

/// `main` and `unwrap` print errors with `Debug`.
#[test]
fn debug_is_the_message() {
    let error = Error::NotOnModel { what: "a driver call" };
    assert_eq!(format!("{error:?}"), error.to_string());
}

const TILE: TensorBox = TensorBox { rows: 64, cols: 64, swizzle_bytes: 128 };

/// A correct tensor map of 100 x 72 bf16, changed by `change`, must be refused with this line.
fn tensor(change: impl FnOnce(&mut TensorSpec<'_>, &mut TensorBox), words: &str) {
    let device = model();
    let buffer = device.alloc(100 * 144 + 16).unwrap();
    let mut spec = TensorSpec {
        buffer: &buffer,
        offset: 0,
        dtype: Dtype::Bf16,
        rows: 100,
        cols: 72,
        pitch_bytes: 144,
    };
    let mut tile = TILE;
    device.tensor_map(&spec, tile).expect("the unchanged tensor is right");
    change(&mut spec, &mut tile);
    assert_eq!(line(device.tensor_map(&spec, tile)), words);
}

#[test]
fn tensor_maps_of_any_rank_have_as_many_of_everything() {
    let device = model();
    let buffer = device.alloc(4096).unwrap();
    let good = TensorNd {
        buffer: &buffer,
        dtype: Dtype::F32,
        dims: &[16, 8, 8],
        strides: &[64, 512],
        box_dims: &[16, 4, 2],
        swizzle_bytes: 0,
    };
    assert_eq!(good.box_bytes(), 512);
    device.tensor_map_nd(&good).unwrap();
    assert_eq!(
        line(device.tensor_map_nd(&TensorNd { strides: &[64], ..good })),
        "tensor map: 3 dimensions, 1 strides and a box of 3; expected 1 to 5 dimensions of at least 1, one \
         stride fewer, and as many box dimensions"
    );
    // 7 * 512 + 8 * 64 + 64 bytes.
    assert_eq!(
        line(device.tensor_map_nd(&TensorNd { dims: &[16, 9, 8], ..good })),
        "tensor map: 72 rows of 64 bytes from byte 0 need 4160 bytes; the buffer has 4096"
    );
    let other = model();
    assert!(line(other.tensor_map_nd(&good)).contains("belongs to"));
}

#[test]
fn tensor_maps_are_checked_before_the_driver() {
    tensor(
        |s, _| s.pitch_bytes = 152,
        "tensor map: row pitch 152 bytes is not a multiple of 16 below 2^40",
    );
    tensor(
        |s, _| s.pitch_bytes = 128,
        "tensor map: row pitch 128 bytes is less than a row of 72 bf16 = 144 bytes",
    );
    tensor(|s, _| s.rows = 0, "tensor map: 0 rows x 72 columns; each must be 1 to 2^31-1");
    tensor(
        |s, _| s.rows = 1 << 31,
        "tensor map: 2147483648 rows x 72 columns; each must be 1 to 2^31-1",
    );
    tensor(
        |s, _| s.rows = 102,
        "tensor map: 102 rows of 144 bytes from byte 0 need 14688 bytes; the buffer has 14416",
    );
    tensor(
        |s, _| s.offset = 32,
        "tensor map: 100 rows of 144 bytes from byte 32 need 14432 bytes; the buffer has 14416",
    );
    tensor(|_, t| t.rows = 257, "tensor map: box of 257 rows x 64 columns; each must be 1 to 256");
    tensor(|_, t| t.cols = 0, "tensor map: box of 64 rows x 0 columns; each must be 1 to 256");
    tensor(
        |_, t| t.cols = 128,
        "tensor map: a box row of 128 bf16 is 256 bytes; it must be a multiple of 16 and at most the swizzle's 128",
    );
    tensor(
        |_, t| *t = TensorBox { cols: 20, swizzle_bytes: 0, ..*t },
        "tensor map: a box row of 20 bf16 is 40 bytes; it must be a multiple of 16",
    );
    tensor(
        |_, t| t.swizzle_bytes = 96,
        "tensor map: swizzle of 96 bytes; expected 0, 32, 64 or 128",
    );
}

#[test]
fn a_misaligned_address_is_named() {
    let device = model();
    let buffer = device.alloc(64 * 128 + 16).unwrap();
    let spec = TensorSpec {
        buffer: &buffer,
        offset: 8,
        dtype: Dtype::F16,
        rows: 64,
        cols: 64,
        pitch_bytes: 128,
    };
    let said = line(device.tensor_map(&spec, TILE));
    let addr = buffer.addr() + 8;
    assert_eq!(said, format!("tensor map: address {addr:#x} is not a multiple of 16"));
}

#[test]
fn buffers_refuse_other_lengths_and_other_devices() {
    let device = model();
    let mut buffer = device.upload(&[1, 2, 3]).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3]);
    assert_eq!(
        line(buffer.read(&mut [0; 4])),
        "reading a buffer: 4 bytes on the host and 3 on the device must be equal"
    );
    assert!(line(buffer.write(&[0; 2])).contains("2 bytes on the host and 3"));
    buffer.fill(0xff).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [0xff; 3]);
    assert!(device.upload(&[]).unwrap().to_vec().unwrap().is_empty());

    let other = model();
    let copy = Copy2d { width: 1, rows: 1, src_pitch: 1, dst_pitch: 1 };
    let mut theirs = other.alloc(1).unwrap();
    let said = line(device.copy_2d(&buffer, &mut theirs, copy, &device.stream()));
    assert!(said.starts_with("the destination of a copy belongs to SM model"), "{said}");
}

#[test]
fn copies_change_the_pitch_and_stay_inside() {
    let device = model();
    let stream = device.stream();
    let src = device.upload(&[1, 2, 3, 4, 5, 6]).unwrap();
    let mut dst = device.alloc_zeroed(8).unwrap();
    let copy = Copy2d { width: 3, rows: 2, src_pitch: 3, dst_pitch: 5 };
    device.copy_2d(&src, &mut dst, copy, &stream).unwrap();
    assert_eq!(dst.to_vec().unwrap(), [1, 2, 3, 0, 0, 4, 5, 6]);

    let wide = Copy2d { dst_pitch: 6, ..copy };
    assert_eq!(
        line(device.copy_2d(&src, &mut dst, wide, &stream)),
        "copy of 2 rows, destination: bytes 0 to 9 exceed the buffer of 8 bytes"
    );
    let tight = Copy2d { dst_pitch: 2, ..copy };
    assert_eq!(
        line(device.copy_2d(&src, &mut dst, tight, &stream)),
        "copy of rows of 3 bytes: the destination pitch of 2 bytes is smaller than a row"
    );
    let huge = Copy2d { rows: u64::MAX, src_pitch: u64::MAX, ..copy };
    assert!(line(device.copy_2d(&src, &mut dst, huge, &stream)).contains("exceed"));
}

#[test]
fn memory_that_there_is_not() {
    let device = model();
    let refused = line(device.alloc(usize::MAX));
    assert_eq!(
        refused,
        "the SM model's global memory: the host has no room for an allocation of 18446744073709551615 bytes"
    );
    let own = device.alloc_zeroed(64).unwrap();
    for (at, bytes) in [(own.addr(), usize::MAX), (own.addr(), 65), (8, 8)] {
        // SAFETY: the model checks the range; nothing is freed.
        let refused = line(unsafe { Buffer::from_raw(&device, at, bytes) });
        assert!(refused.starts_with("the SM model's global memory: "), "{refused}");
    }
    // SAFETY: as above; `own` outlives it.
    assert_eq!(unsafe { Buffer::from_raw(&device, own.addr(), 64) }.unwrap().len(), 64);
}

#[test]
fn an_event_of_another_model() {
    let [ours, theirs] = [model(), model()].map(|device| device.stream().record().unwrap());
    assert!(line(ours.elapsed_ms(&theirs)).contains("an event"));
    assert!(ours.elapsed_ms(&ours).unwrap() < 1e-3);
}

#[test]
fn sizes_whose_products_overflow() {
    let buffer = model().alloc_zeroed(8).unwrap();
    let tensor = TensorNd {
        buffer: &buffer,
        dtype: Dtype::F32,
        dims: &[u64::MAX; 3],
        strides: &[u64::MAX; 2],
        box_dims: &[u32::MAX; 3],
        swizzle_bytes: 0,
    };
    assert_eq!(tensor.box_bytes(), u32::MAX);
    line(model().tensor_map_nd(&tensor));
    let heads = |q, kv| host::attention::Heads { q, kv, dim: 64 };
    assert_eq!((heads(8, 2).kv_of(5), heads(8, 0).kv_of(5), heads(2, 8).kv_of(1)), (1, 5, 1));
}

#[test]
fn handles_can_be_sent_and_shared() {
    fn shared<T: Send + Sync>() {}
    shared::<Device>();
    shared::<host::Buffer>();
    shared::<host::Stream>();
    shared::<host::Event>();
    shared::<host::Module>();
    shared::<host::TensorMap>();
    shared::<host::gemm::Gemm>();
    shared::<host::gemm::GemmPlan>();
    shared::<Error>();
}
