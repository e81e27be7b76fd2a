//! Launches on a GPU: parameters, clusters, shared memory and tensor maps arrive as described.
//! Without a GPU each test prints a line and passes; with `WARPIPE_REQUIRE_GPU=1` it fails.

#[path = "common/gpu.rs"]
#[allow(dead_code)]
mod gpu;

use gpu::gpu;
use host::{Buffer, Device, Dtype, Error, Module, Param, TensorBox, TensorSpec};
use isa::kernel::{
    Image, KernelDesc, KernelMeta, MAX_PARAMS, META_MAGIC, ParamKind, ParamMeta, name64,
};

fn on_the_gpu_alone(_: &[*const u8]) {
    unreachable!("the kernels of probe.ptx exist in PTX alone");
}

const OUT: ParamMeta = ParamMeta {
    kind: ParamKind::Slice as u32,
    size: 16,
    align: 8,
    dtype: Dtype::U32 as u32,
    box_rows: 1,
    box_cols: 4,
    ..ParamMeta::NONE
};
const U32: ParamMeta = ParamMeta::value(4, 4);
const TILE: TensorBox = TensorBox { rows: 64, cols: 64, swizzle_bytes: 128 };
const MAP: ParamMeta = ParamMeta {
    kind: ParamKind::TensorMap as u32,
    size: 128,
    align: 64,
    dtype: Dtype::Bf16 as u32,
    box_rows: TILE.rows,
    box_cols: TILE.cols,
    swizzle_bytes: TILE.swizzle_bytes,
};

const fn desc(name: &str, threads: u32, cluster: u32, smem: u32, p: &[ParamMeta]) -> KernelDesc {
    let mut params = [ParamMeta::NONE; MAX_PARAMS];
    let mut i = 0;
    while i < p.len() {
        params[i] = p[i];
        i += 1;
    }
    let meta = KernelMeta {
        magic: META_MAGIC,
        name: name64(name),
        threads,
        min_ctas: 1,
        cluster: [cluster, 1, 1],
        smem_bytes: smem,
        param_count: p.len() as u32,
        params,
    };
    KernelDesc { meta, entry: on_the_gpu_alone }
}

static FILL: KernelDesc = desc("fill", 128, 1, 0, &[OUT, U32]);
static RANKS2: KernelDesc = desc("ranks2", 32, 2, 0, &[OUT]);
static RANKS16: KernelDesc = desc("ranks16", 32, 16, 0, &[OUT]);
static SHARED: KernelDesc = desc("shared", 32, 1, 227 * 1024, &[OUT]);
static TILE_COPY: KernelDesc = desc("tile", 128, 1, 8192 + 8, &[MAP, OUT, U32, U32]);
static KERNELS: [KernelMeta; 5] =
    [FILL.meta, RANKS2.meta, RANKS16.meta, SHARED.meta, TILE_COPY.meta];
static IMAGE: Image = Image {
    name: "probe",
    arch: "sm_90a",
    ptx: include_str!("fixtures/probe.ptx"),
    kernels: &KERNELS,
    ptxas: None,
};

fn words(buffer: &Buffer) -> Vec<u32> {
    let bytes = buffer.to_vec().unwrap();
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn run(device: &Device, module: &Module, desc: &KernelDesc, grid: u32, params: &[Param<'_>]) {
    device.launch(module, desc, [grid, 1, 1], params, &device.stream()).unwrap();
}

#[test]
fn slices_and_values_arrive() {
    let Some(device) = gpu("slices_and_values_arrive") else { return };
    let module = device.load(&IMAGE).unwrap();
    let mut out = device.alloc_zeroed(4 * 300).unwrap();
    run(&device, &module, &FILL, 4, &[Param::slice_mut(&mut out, Dtype::U32), Param::value(7u32)]);
    // 4 CTAs of 128 threads are more than 300: the length arrived, too.
    assert_eq!(words(&out), (7..307).collect::<Vec<u32>>());
}

#[test]
fn clusters_have_their_size() {
    let Some(device) = gpu("clusters_have_their_size") else { return };
    let module = device.load(&IMAGE).unwrap();
    for (desc, size) in [(&RANKS2, 2), (&RANKS16, 16)] {
        let mut out = device.alloc_zeroed(4 * 32).unwrap();
        run(&device, &module, desc, 32, &[Param::slice_mut(&mut out, Dtype::U32)]);
        let want: Vec<u32> = (0..32).map(|cta| 100 * size + cta % size).collect();
        assert_eq!(words(&out), want);
        let most = module.max_active_clusters(desc).unwrap();
        assert!(most >= 1, "{size}: {most}");
    }
}

#[test]
fn all_of_the_shared_memory_can_be_had() {
    let Some(device) = gpu("all_of_the_shared_memory_can_be_had") else { return };
    assert_eq!(device.smem_bytes(), 227 * 1024);
    let module = device.load(&IMAGE).unwrap();
    let mut out = device.alloc_zeroed(4).unwrap();
    run(&device, &module, &SHARED, 1, &[Param::slice_mut(&mut out, Dtype::U32)]);
    assert_eq!(words(&out), [227 * 1024]);
}

#[test]
fn tensor_maps_arrive_and_describe_the_matrix() {
    let Some(device) = gpu("tensor_maps_arrive_and_describe_the_matrix") else { return };
    let module = device.load(&IMAGE).unwrap();
    // 100 rows of 72 elements at a pitch of 80, each element its own number.
    let (rows, cols, pitch) = (100usize, 72usize, 80usize);
    let element = |row: usize, col: usize| (row * pitch + col) as u16;
    let data: Vec<u8> =
        (0..rows).flat_map(|r| (0..pitch).flat_map(move |c| element(r, c).to_le_bytes())).collect();
    let buffer = device.upload(&data).unwrap();
    let spec = TensorSpec {
        buffer: &buffer,
        offset: 0,
        dtype: Dtype::Bf16,
        rows: rows as u64,
        cols: cols as u64,
        pitch_bytes: 2 * pitch as u64,
    };
    let map = device.tensor_map(&spec, TILE).unwrap();
    for (row, col) in [(0usize, 0usize), (64, 0), (32, 64)] {
        let mut out = device.alloc_zeroed(64 * 64 * 2).unwrap();
        let at = [Param::value(row as u32), Param::value(col as u32)];
        let [r, c] = at;
        let params = [Param::map(&map), Param::slice_mut(&mut out, Dtype::U32), r, c];
        run(&device, &module, &TILE_COPY, 1, &params);
        let bytes = out.to_vec().unwrap();
        for i in 0..64 {
            for j in 0..64 {
                // The manual's 128-byte swizzle: chunk of 16 bytes XOR row modulo 8.
                let at = i * 128 + (((j / 8) ^ (i % 8)) * 16) + j % 8 * 2;
                let (y, x) = (row + i, col + j);
                let inside = y < rows && x < cols;
                let want = if inside { element(y, x) } else { 0 };
                let have = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
                assert_eq!(have, want, "box at ({row}, {col}), element ({i}, {j})");
            }
        }
    }
}

#[test]
fn what_the_assembler_says_is_one_line() {
    let Some(device) = gpu("what_the_assembler_says_is_one_line") else { return };
    static BROKEN: Image = Image {
        name: "broken",
        arch: "sm_90a",
        ptx: ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry x() { nonsense; }\n",
        kernels: &[],
        ptxas: None,
    };
    let said = device.load(&BROKEN).err().expect("must be refused").to_string();
    assert!(said.starts_with("the driver can't assemble image broken: "), "{said}");
    assert!(!said.contains('\n'), "{said}");
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
    assert!(said.starts_with("out of device memory: 35184372088832 bytes asked for"), "{said}");
}

#[test]
fn graphs_repeat_and_events_measure() {
    let Some(device) = gpu("graphs_repeat_and_events_measure") else { return };
    let module = device.load(&IMAGE).unwrap();
    let stream = device.new_stream().unwrap();
    let mut out = device.alloc_zeroed(4 * 64).unwrap();
    let graph = stream
        .capture(|| {
            let params = [Param::slice_mut(&mut out, Dtype::U32), Param::value(1u32)];
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
