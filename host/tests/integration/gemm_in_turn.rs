//! Ping-pong with C on the SM model, with more tiles than warp groups: the warp groups read the ring of C in
//! turn.

use gpu_kernels::gemm::config::{LoadArgs, MapA, MapB, MapC, MapD};
use gpu_kernels::gemm::{Linear, TileSchedulerParams};
use host::{Buffer, Device, Dtype, Param, SimConfig, TensorSpec, data};
use isa::kernel::Kernel;
use pipeline::grid::Throttle;
use table::in_turn_c::{Parts, in_turn_c};

/// What is compiled for this test.
mod table {
    use gpu_kernels::gemm::Linear;
    use half::bf16;

    gpu_kernels::gemm_kernels! {
        /// A ping-pong kernel that reads C.
        pub static KERNELS: Linear;
        in_turn_c: bf16 => bf16, 128 x 128, cluster 1 x 1, Pingpong, with C;
    }
}

fn spec(buffer: &Buffer, rows: usize, cols: usize) -> TensorSpec<'_> {
    let pitch_bytes = 2 * cols as u64;
    let (rows, cols) = (rows as u64, cols as u64);
    TensorSpec { buffer, offset: 0, dtype: Dtype::Bf16, rows, cols, pitch_bytes }
}

/// One CTA, six tiles, one k tile: a warp group has the products of its next tile before the other one has its C.
#[test]
fn a_warp_group_waits_for_its_c_after_the_other_one() -> Result<(), host::Error> {
    let (m, n, k) = (40, 6 * 128, 64);
    let (alpha, beta) = (0.5, -2.0);
    let values = |seed, count| data::rounded(&data::normal(seed, count), Dtype::Bf16);
    let (a, b, c) = (values(1, m * k)?, values(2, n * k)?, values(3, m * n)?);
    let product = host::reference::Product { m, n, k, a: &a, b: &b, c: Some(&c), alpha, beta };
    for seed in 0..20 {
        let device = Device::sim(SimConfig { seed, ..SimConfig::default() });
        let on_device = |values: &[f32]| device.upload(&data::encode(values, Dtype::Bf16)?);
        let (a_memory, b_memory, c_memory) = (on_device(&a)?, on_device(&b)?, on_device(&c)?);
        let d_memory = device.alloc(2 * m * n)?;
        let map_a = device.tensor_map_for::<&MapA<Parts>>(&spec(&a_memory, m, k))?;
        let map_b = device.tensor_map_for::<&MapB<Parts>>(&spec(&b_memory, n, k))?;
        let map_c = device.tensor_map_for::<&MapC<Parts>>(&spec(&c_memory, m, n))?;
        let map_d = device.tensor_map_for::<&MapD<Parts>>(&spec(&d_memory, m, n))?;
        device.launch_on_model(
            &<in_turn_c as Kernel>::DESC,
            [1, 1, 1],
            &[
                Param::map(&map_a),
                Param::map(&map_b),
                Param::map(&map_c),
                Param::map(&map_d),
                Param::value(LoadArgs {
                    prefetch: 0,
                    epochs: 0,
                    epoch: 1,
                    throttle: Throttle::NONE,
                }),
                Param::value(Linear { alpha, beta }),
                Param::value(TileSchedulerParams::new([1, 6], 1, 1, 1, 0)),
            ],
        )?;
        let d = data::decode(&d_memory.to_vec()?, Dtype::Bf16)?;
        let check = product.check(&d)?;
        assert!(check.below(4e-3), "seed {seed}: {check}");
    }
    Ok(())
}
