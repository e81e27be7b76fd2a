//! The examples of CONTRIBUTING.md on the SM model: a GEMM with an epilogue, a main loop and a scheduler
//! of one's own.

#[path = "../../../gpu-kernels/tests/seams.rs"]
mod seams;

use gpu_kernels::gemm::config::{LoadArgs, MapA, MapB, MapC, MapD};
use host::{Buffer, Device, Dtype, Param, SimConfig, TensorSpec, data};
use isa::kernel::Kernel;
use pipeline::grid::Throttle;
use seams::serial_by_columns::{Parts, serial_by_columns};
use seams::{ByColumnsArgs, Relu};

fn spec(buffer: &Buffer, rows: usize, cols: usize) -> TensorSpec<'_> {
    let pitch_bytes = 2 * cols as u64;
    let (rows, cols) = (rows as u64, cols as u64);
    TensorSpec { buffer, offset: 0, dtype: Dtype::Bf16, rows, cols, pitch_bytes }
}

#[test]
fn a_kernel_of_own_parts_computes_on_the_model() -> Result<(), host::Error> {
    // Two by three cluster tiles of 256 x 128, with residues in each dimension.
    let (m, n, k) = (300, 264, 200);
    let scheduler = ByColumnsArgs { tiles_m: 2, tiles_n: 3, k_tiles: 4, clusters: 2 };
    let alpha = 0.5;

    let device = Device::sim(SimConfig { sms: 4, ..SimConfig::default() });
    let a = data::rounded(&data::normal(1, m * k), Dtype::Bf16)?;
    let b = data::rounded(&data::normal(2, n * k), Dtype::Bf16)?;
    let on_device = |values: &[f32]| device.upload(&data::encode(values, Dtype::Bf16)?);
    let (a_memory, b_memory, d_memory) = (on_device(&a)?, on_device(&b)?, device.alloc(2 * m * n)?);
    let map_a = device.tensor_map_for::<&MapA<Parts>>(&spec(&a_memory, m, k))?;
    let map_b = device.tensor_map_for::<&MapB<Parts>>(&spec(&b_memory, n, k))?;
    // Ignored: the kernel reads no C.
    let map_c = device.tensor_map_for::<&MapC<Parts>>(&spec(&d_memory, m, n))?;
    let map_d = device.tensor_map_for::<&MapD<Parts>>(&spec(&d_memory, m, n))?;
    let throttle = Throttle::NONE;
    device.launch_on_model(
        &<serial_by_columns as Kernel>::DESC,
        [2 * scheduler.clusters, 1, 1],
        &[
            Param::map(&map_a),
            Param::map(&map_b),
            Param::map(&map_c),
            Param::map(&map_d),
            Param::value(LoadArgs { prefetch: 1, throttle }),
            Param::value(Relu { alpha }),
            Param::value(scheduler),
        ],
    )?;

    let d = data::decode(&d_memory.to_vec()?, Dtype::Bf16)?;
    for (i, &have) in d.iter().enumerate() {
        let (row, column) = (i / n, i % n);
        let product = |x: usize| f64::from(a[row * k + x]) * f64::from(b[column * k + x]);
        let want = (f64::from(alpha) * (0..k).map(product).sum::<f64>()).max(0.0);
        let error = (f64::from(have) - want).abs() / (1.0 + want.abs());
        assert!(error < 5e-3, "({row}, {column}): {have}, and {want} is right");
    }
    Ok(())
}
