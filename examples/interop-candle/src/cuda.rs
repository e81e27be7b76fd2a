//! The operator on a GPU.

use crate::Matrix;
use candle_core::cuda_backend::WrapErr;
use candle_core::{CudaStorage, Error, Result, Shape};
use half::bf16;
use warpipe::host::gemm::{Gemm, GemmPlan, GemmProblem};
use warpipe::host::{Device, Dtype, Stream, View, ViewMut};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The plans of one device, made as they are needed.
#[derive(Default)]
pub struct Plans(Mutex<HashMap<usize, OnDevice>>);

/// The kernels on one device, and a plan for each shape.
struct OnDevice {
    device: Device,
    gemm: Gemm,
    plans: HashMap<[usize; 3], GemmPlan>,
}

impl Plans {
    /// Computes x w^T on candle's stream, in memory of candle's.
    pub fn run(
        &self,
        x: &CudaStorage,
        w: &CudaStorage,
        [mx, mw]: [Matrix; 2],
    ) -> Result<(CudaStorage, Shape)> {
        let stream = x.device.cuda_stream();
        let context = stream.context();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let OnDevice { device, gemm, plans } = match all.entry(context.cu_ctx() as usize) {
            std::collections::hash_map::Entry::Occupied(have) => have.into_mut(),
            std::collections::hash_map::Entry::Vacant(none) => {
                let device = Device::from_cudarc(context).map_err(Error::wrap)?;
                let gemm = Gemm::new(&device, &warpipe::GEMM_IMAGE).map_err(Error::wrap)?;
                none.insert(OnDevice { device, gemm, plans: HashMap::new() })
            }
        };
        let sizes = [mx.rows, mw.rows, mx.cols];
        let [m, n, k] = sizes.map(|size| size as u64);
        if let std::collections::hash_map::Entry::Vacant(none) = plans.entry(sizes) {
            let ab = Dtype::Bf16;
            let problem = GemmProblem { m, n, k, ab, out: ab, beta_c: false };
            none.insert(gemm.plan(&problem).map_err(Error::wrap)?);
        }
        // SAFETY: the product writes every element.
        let mut y = unsafe { x.device.alloc::<bf16>(mx.rows * mw.rows) }?;
        {
            let place = |storage, m: &Matrix| -> Result<View<'_>> {
                let view = View::from_cudarc(device, storage, &stream).map_err(Error::wrap)?;
                Ok(view.offset(2 * m.offset as u64).pitch(2 * m.stride as u64))
            };
            let a = place(x.as_cuda_slice::<bf16>()?, &mx)?;
            let b = place(w.as_cuda_slice::<bf16>()?, &mw)?;
            let d = ViewMut::from_cudarc(device, &mut y, &stream).map_err(Error::wrap)?;
            let on = Stream::from_cudarc(device, &stream).map_err(Error::wrap)?;
            let product = plans[&sizes].bind(a, b, None, d).map_err(Error::wrap)?;
            product.run(1.0, 0.0, &on).map_err(Error::wrap)?;
        }
        Ok((CudaStorage::wrap_cuda_slice(y, x.device.clone()), (mx.rows, mw.rows).into()))
    }
}
