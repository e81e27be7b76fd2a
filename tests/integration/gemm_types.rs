//! Every kernel of the GEMM's other types (results of e4m3, operands of e5m2, of 8-bit integers and of tf32), on the SM model
//! and on a GPU, compared to the bit.

use crate::on_devices::on_devices;
use crate::typed_cases::{Products, every_kernel};
use warpipe::GEMM_IMAGE;

#[test]
fn every_typed_kernel_multiplies() {
    on_devices(&GEMM_IMAGE, "every_typed_kernel_multiplies", 1, |bench| {
        let run = |products: &Products<'_>| {
            every_kernel(&bench.device, &GEMM_IMAGE, bench.what(), products);
        };
        run(&Products { size: &|_| [9, 24, 13], all_scales: true });
        run(&Products { size: &|i| [40, 267, i.bk as usize + 16], all_scales: true });
        if !bench.device.is_sim() {
            // More tiles than SMs, and more k tiles than stages. Sums of the numbers of floats stay below 2^13.
            run(&Products { size: &|_| [264, 8720, 144], all_scales: true });
            let deep = |i: &warpipe::gpu_kernels::gemm::Instance| {
                [136, 520, (i.bk * (i.stages + 3)) as usize + 16]
            };
            run(&Products { size: &deep, all_scales: true });
        }
    });
}
