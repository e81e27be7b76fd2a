//! A kernel on slices, run by the SM model through the entry that `#[kernel]` made.
#![allow(missing_docs)]

use half::bf16;
use isa::kernel;
use isa::kernel::{Kernel, KernelDesc};
use isa::slice::{DeviceSlice, DeviceSliceMut, Element, SliceAbi};
use isa::thread::{block_dim_x, block_idx_x, thread_idx_x};

/// The thread's number in the grid.
fn index() -> usize {
    (block_idx_x() * block_dim_x() + thread_idx_x()) as usize
}

#[kernel(threads = 64)]
fn axpy(a: f32, x: DeviceSlice<bf16>, y: DeviceSliceMut<f32>) {
    let i = index();
    if let (Some(xi), Some(yi)) = (x.get(i), y.get(i)) {
        y.set(i, a * xi.to_f32() + yi);
    }
}

#[kernel(threads = 32)]
fn writes_past_the_end(y: DeviceSliceMut<f32>) {
    y.set(index(), 1.0); // the marked line
}

/// Puts elements into the model's memory.
fn upload<T: Element>(
    memory: &sim::GlobalMemory,
    values: &[T],
    bytes: impl Fn(&T) -> Vec<u8>,
) -> SliceAbi {
    let bytes: Vec<u8> = values.iter().flat_map(bytes).collect();
    let address = memory.alloc(bytes.len());
    memory.write(address, &bytes).expect("the allocation holds them");
    SliceAbi { address, elements: values.len() as u64 }
}

fn download_f32(memory: &sim::GlobalMemory, slice: SliceAbi) -> Vec<f32> {
    let mut bytes = vec![0; slice.elements as usize * 4];
    memory.read(slice.address, &mut bytes).expect("the allocation holds them");
    bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// Launches on the model.
fn launch(
    memory: &sim::GlobalMemory,
    desc: &KernelDesc,
    ctas: u32,
    params: &[*const u8],
) -> Result<(), String> {
    let grid = sim::Grid {
        grid: [ctas, 1, 1],
        block: [desc.meta.threads, 1, 1],
        cluster: desc.meta.cluster,
        min_ctas: 1,
        smem_bytes: desc.meta.smem_bytes,
        name: desc.meta.name(),
    };
    let params: Vec<usize> = params.iter().map(|p| p.expose_provenance()).collect();
    let entry = || {
        let params: Vec<*const u8> =
            params.iter().map(|&p| std::ptr::with_exposed_provenance(p)).collect();
        // SAFETY: the tests below pass what their kernels take.
        unsafe { (desc.entry)(&params) }
    };
    sim::launch(&sim::Config::default(), memory, &grid, &entry)
        .map(|_| ())
        .map_err(|r| r.to_string())
}

#[test]
fn slices_are_read_and_written() {
    const N: usize = 150;
    let memory = sim::GlobalMemory::new();
    let x: Vec<bf16> = (0..N).map(|i| bf16::from_f32(i as f32)).collect();
    let y: Vec<f32> = (0..N).map(|i| 0.5 * i as f32).collect();
    let x_arg = upload(&memory, &x, |v| v.to_bits().to_le_bytes().to_vec());
    let y_arg = upload(&memory, &y, |v| v.to_le_bytes().to_vec());
    let a = 2.0f32;
    let params = [(&raw const a).cast(), (&raw const x_arg).cast(), (&raw const y_arg).cast()];
    // 192 threads for 150 elements: the last 42 find none.
    launch(&memory, &axpy::DESC, 3, &params).unwrap_or_else(|report| panic!("{report}"));
    let expected: Vec<u32> = (0..N).map(|i| (2.5 * i as f32).to_bits()).collect();
    let got: Vec<u32> = download_f32(&memory, y_arg).into_iter().map(f32::to_bits).collect();
    assert_eq!(got, expected);
}

#[test]
fn a_write_past_the_end_is_reported_with_its_line() {
    let memory = sim::GlobalMemory::new();
    let y_arg = upload(&memory, &[0.0f32; 20], |v| v.to_le_bytes().to_vec());
    let params = [(&raw const y_arg).cast()];
    let report = launch(&memory, &writes_past_the_end::DESC, 1, &params)
        .expect_err("32 threads write to 20 elements");
    let line = 1 + include_str!("model.rs")
        .lines()
        .position(|l| l.ends_with("// the marked line"))
        .expect("the mark");
    assert!(report.contains(&format!("model.rs:{line}")), "{report}");
    assert!(report.contains("trap"), "{report}");
}
