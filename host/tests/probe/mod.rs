//! Small kernels twice, in Rust for the model and by hand in PTX for a GPU, and what must come of
//! launching them: the same on both.
#![allow(dead_code)]

pub use crate::map::{Map, TILE};
use host::{Buffer, Copy2d, Device, Dtype, Module, Param, TensorMap, TensorSpec};
use isa::kernel;
use isa::kernel::{Code, Image, Kernel, KernelCode, KernelDesc, KernelMeta, name64};
use isa::slice::DeviceSliceMut;
use isa::{cluster, cp_async_bulk, fence, mbarrier, shared, sreg, thread};

/// Bytes of a box.
const TILE_BYTES: u32 = TILE.rows * 128;

/// `out[i] = value + i`, for i below the length.
#[kernel(threads = 128)]
pub fn fill(out: DeviceSliceMut<'_, u32>, value: u32) {
    let i = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
    if (i as usize) < out.len() {
        out.set(i as usize, value + i);
    }
}

/// `out[ctaid]` = rank in the cluster + 100 * CTAs of the cluster.
#[kernel(threads = 32, cluster = (2, 1, 1))]
pub fn ranks2(out: DeviceSliceMut<'_, u32>) {
    if thread::thread_idx_x() == 0 {
        let rank = cluster::cta_rank() + 100 * cluster::num_ctas();
        out.set(thread::block_idx_x() as usize, rank);
    }
}

/// Writes and reads the last word of the dynamic shared memory; `out[0]` = its size.
#[kernel(threads = 32, smem = 227 * 1024)]
pub fn shared_memory(out: DeviceSliceMut<'_, u32>) {
    if thread::thread_idx_x() == 0 {
        let size = sreg::dynamic_smem_size();
        let last = shared::dynamic_base() + size - 4;
        // SAFETY: the last four bytes of the CTA's own memory.
        unsafe {
            shared::st(last, size);
            out.set(0, shared::ld(last));
        }
    }
}

/// Loads the box at (row, col) by TMA, and writes shared memory, word after word, to `out`.
#[kernel(threads = 128, smem = TILE_BYTES + 8)]
pub fn tile(map: &Map, out: DeviceSliceMut<'_, u32>, row: u32, col: u32) {
    let tile = shared::dynamic_base();
    let bar = tile + TILE_BYTES;
    let me = thread::thread_idx_x();
    // SAFETY: tile and barrier are the CTA's own memory; the barrier is initialised and published
    // before the meeting, and armed with the bytes of the box; all threads meet.
    unsafe {
        if me == 0 {
            mbarrier::init(bar, 1);
            fence::mbarrier_init_release_cluster();
            fence::proxy_async();
            mbarrier::arrive_expect_tx(bar, TILE_BYTES);
            cp_async_bulk::tensor_load(tile, &raw const map.0, [col as i32, row as i32], bar);
        }
        thread::sync_threads();
        mbarrier::wait_parity(bar, 0);
        let mut i = me;
        while i < TILE_BYTES / 4 {
            out.set(i as usize, shared::ld(tile + 4 * i));
            i += 128;
        }
    }
}

pub static FILL: KernelDesc = fill::DESC;
pub static RANKS2: KernelDesc = ranks2::DESC;
/// As [`ranks2`], with the largest cluster: beyond the 8 CTAs that `#[kernel]` gives, for they are
/// what every sm_90 GPU runs.
pub static RANKS16: KernelDesc = KernelDesc {
    meta: KernelMeta { cluster: [16, 1, 1], name: name64("ranks16"), ..ranks2::DESC.meta },
    ..ranks2::DESC
};
pub static SHARED: KernelDesc = shared_memory::DESC;
pub static TILE_COPY: KernelDesc = tile::DESC;
static KERNELS: [KernelMeta; 5] =
    [FILL.meta, RANKS2.meta, RANKS16.meta, SHARED.meta, TILE_COPY.meta];
/// One small module serves each.
pub const fn code(kernel: &'static str) -> KernelCode {
    KernelCode { kernel, code: Code::Ptx(include_str!("../fixtures/probe.ptx")) }
}
pub static IMAGE: Image = Image {
    name: "probe",
    arch: "sm_90a",
    code: &[code("fill"), code("ranks2"), code("ranks16"), code("shared_memory"), code("tile")],
    kernels: &KERNELS,
    ptxas: None,
    others: &[],
};

pub fn words(buffer: &Buffer) -> Vec<u32> {
    let bytes = buffer.to_vec().unwrap();
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn run(device: &Device, module: &Module, desc: &KernelDesc, grid: u32, params: &[Param<'_>]) {
    let launched = device.launch(module, desc, [grid, 1, 1], params, &device.stream());
    launched.unwrap_or_else(|e| panic!("{e}"));
}

pub fn slices_and_values_arrive(device: &Device) {
    let module = device.load(&IMAGE).unwrap();
    let mut out = device.alloc_zeroed(4 * 300).unwrap();
    run(device, &module, &FILL, 4, &[Param::slice_mut::<u32>(&mut out), Param::value(7u32)]);
    // 4 CTAs of 128 threads are more than 300: the length arrived, too.
    assert_eq!(words(&out), (7..307).collect::<Vec<u32>>());
}

pub fn clusters_have_their_size(device: &Device) {
    let module = device.load(&IMAGE).unwrap();
    for (desc, size) in [(&RANKS2, 2), (&RANKS16, 16)] {
        let mut out = device.alloc_zeroed(4 * 32).unwrap();
        run(device, &module, desc, 32, &[Param::slice_mut::<u32>(&mut out)]);
        let want: Vec<u32> = (0..32).map(|cta| 100 * size + cta % size).collect();
        assert_eq!(words(&out), want);
        assert!(module.max_active_clusters(desc).unwrap() >= 1);
    }
}

pub fn all_of_the_shared_memory_can_be_had(device: &Device) {
    assert_eq!(device.smem_bytes(), 227 * 1024);
    let module = device.load(&IMAGE).unwrap();
    let mut out = device.alloc_zeroed(4).unwrap();
    run(device, &module, &SHARED, 1, &[Param::slice_mut::<u32>(&mut out)]);
    assert_eq!(words(&out), [227 * 1024]);
}

/// 100 rows of 72 elements at a pitch of 80, each element its own number.
const ROWS: usize = 100;
const COLS: usize = 72;
const PITCH: usize = 80;

fn element(row: usize, col: usize) -> u16 {
    (row * PITCH + col) as u16
}

pub fn matrix(device: &Device) -> TensorMap {
    let data: Vec<u8> =
        (0..ROWS).flat_map(|r| (0..PITCH).flat_map(move |c| element(r, c).to_le_bytes())).collect();
    let buffer = device.upload(&data).unwrap();
    let spec = TensorSpec {
        buffer: &buffer,
        offset: 0,
        dtype: Dtype::Bf16,
        rows: ROWS as u64,
        cols: COLS as u64,
        pitch_bytes: 2 * PITCH as u64,
    };
    // The map keeps the buffer's memory.
    device.tensor_map_for::<&Map>(&spec).unwrap()
}

pub fn tensor_maps_arrive_and_describe_the_matrix(device: &Device) {
    let module = device.load(&IMAGE).unwrap();
    let map = matrix(device);
    for (row, col) in [(0usize, 0usize), (64, 0), (32, 64)] {
        let mut out = device.alloc_zeroed(TILE_BYTES as usize).unwrap();
        let params = [
            Param::map(&map),
            Param::slice_mut::<u32>(&mut out),
            Param::value(row as u32),
            Param::value(col as u32),
        ];
        run(device, &module, &TILE_COPY, 1, &params);
        let bytes = out.to_vec().unwrap();
        for i in 0..64 {
            for j in 0..64 {
                // The manual's 128-byte swizzle: chunk of 16 bytes XOR row modulo 8.
                let at = i * 128 + (((j / 8) ^ (i % 8)) * 16) + j % 8 * 2;
                let (y, x) = (row + i, col + j);
                let inside = y < ROWS && x < COLS;
                let want = if inside { element(y, x) } else { 0 };
                let have = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
                assert_eq!(have, want, "box at ({row}, {col}), element ({i}, {j})");
            }
        }
    }
}

/// Rows of odd lengths are padded and come back: the driver's manual promises 2D copies between
/// device memories for its own pitches alone.
pub fn copies_take_any_pitch(device: &Device) {
    let stream = device.stream();
    for (width, rows, pitch) in [(130, 129, 144), (514, 77, 528), (3, 1000, 16), (1, 2, 7)] {
        let data: Vec<u8> = (0..width * rows).map(|i| (i * 7 + i / 251) as u8).collect();
        let tight = device.upload(&data).unwrap();
        let mut padded = device.alloc_zeroed(rows * pitch).unwrap();
        let mut back = device.alloc_zeroed(data.len()).unwrap();
        let shape = |src_pitch: usize, dst_pitch: usize| Copy2d {
            width: width as u64,
            rows: rows as u64,
            src_pitch: src_pitch as u64,
            dst_pitch: dst_pitch as u64,
        };
        device.copy_2d(&tight, &mut padded, shape(width, pitch), &stream).unwrap();
        device.copy_2d(&padded, &mut back, shape(pitch, width), &stream).unwrap();
        let there = padded.to_vec().unwrap();
        for (row, line) in there.chunks_exact(pitch).enumerate() {
            assert_eq!(line[..width], data[row * width..][..width], "row {row} of {width} bytes");
            assert!(line[width..].iter().all(|&b| b == 0), "row {row} of {width} bytes");
        }
        assert!(back.to_vec().unwrap() == data, "{width} x {rows} at {pitch}");
    }
}
