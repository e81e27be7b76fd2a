//! Every kernel for layouts and batches, on the SM model and on a GPU, compared to the bit.

use crate::on_devices::on_devices;
use crate::strided_cases::{ODD, PADDED, every_kernel, reference, right};
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
                for (beta_c, place) in [(false, PADDED), (true, PADDED), (true, ODD)] {
                    let (m, n, k) = (72, 40, 91);
                    let problem = StridedProblem { batch, m, n, k, dtype, layout, order, beta_c };
                    let want = reference(&problem, [false; 2]);
                    right(&device, &problem, None, [place; 3], &want);
                }
            }
        }
    });
}
