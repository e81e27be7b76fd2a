//! Every kernel for layouts and batches, on the SM model and on a GPU, compared to the bit.

use crate::on_devices::on_devices;
use crate::strided_cases::{PADDED, every_kernel, reference, right};
use warpipe::GEMM_IMAGE;
use warpipe::host::Dtype;
use warpipe::host::gemm::{Gemm, Layout, Order, StridedProblem};

#[test]
fn every_kernel_multiplies() {
    on_devices(&GEMM_IMAGE, "every_kernel_multiplies", 1, |bench| {
        let gemm = Gemm::strided(&bench.device, &GEMM_IMAGE).unwrap();
        every_kernel(&(bench.device.clone(), gemm));
    });
}

/// The picker's kernel for a column-major D, and more matrices than SMs where there is a GPU.
#[test]
fn column_major_results_and_many_matrices() {
    on_devices(&GEMM_IMAGE, "column_major_results_and_many_matrices", 1, |bench| {
        let gemm = Gemm::strided(&bench.device, &GEMM_IMAGE).unwrap();
        let device = (bench.device.clone(), gemm);
        let batch = if bench.device.is_sim() { 2 } else { 300 };
        for layout in Layout::ALL {
            for (order, dtype) in [(Order::ColumnMajor, Dtype::F16), (Order::RowMajor, Dtype::Bf16)]
            {
                let problem = StridedProblem { batch, m: 72, n: 40, k: 91, dtype, layout, order };
                let want = reference(&problem, [false; 2], 0.5);
                right(&device, &problem, None, [PADDED; 3], &want);
            }
        }
    });
}
