//! The product of a linear layer, y = x w^T in bf16, as a custom operator of candle.
//!
//! On a GPU it runs on candle's stream and memory: x and w may be narrowed to some rows or columns of larger
//! tensors, and nothing is copied as long as rows begin at multiples of 16 bytes.

use candle_core::{CpuStorage, CustomOp2, DType, Error, Layout, Result, Shape, Tensor, bail};
use half::bf16;

#[cfg(feature = "cuda")]
mod cuda;

/// y = x w^T for x [m, k] and w [n, k]. It keeps the plans that it makes, so make it once.
#[derive(Default)]
pub struct Linear {
    #[cfg(feature = "cuda")]
    plans: cuda::Plans,
}

impl Linear {
    /// Computes y [m, n].
    ///
    /// # Errors
    /// Tensors of other types or ranks, or whose columns are not contiguous; errors of the device.
    pub fn forward(&self, x: &Tensor, w: &Tensor) -> Result<Tensor> {
        for (name, tensor) in [("x", x), ("w", w)] {
            if tensor.dtype() != DType::BF16 {
                bail!("{name} has elements of {:?}; the operator takes BF16", tensor.dtype());
            }
        }
        x.apply_op2_no_bwd(w, self)
    }
}

/// A matrix in a storage, in elements.
struct Matrix {
    rows: usize,
    cols: usize,
    offset: usize,
    stride: usize,
}

impl Matrix {
    fn new(name: &str, layout: &Layout) -> Result<Self> {
        let (rows, cols) = layout.shape().dims2()?;
        let &[stride, inner] = layout.stride() else { bail!("{name} is no matrix") };
        if inner != 1 && cols > 1 {
            bail!("{name} has columns {inner} elements apart; they must be contiguous");
        }
        Ok(Self { rows, cols, offset: layout.start_offset(), stride })
    }
}

/// The matrices of both operands.
fn operands(x: &Layout, w: &Layout) -> Result<[Matrix; 2]> {
    let (x, w) = (Matrix::new("x", x)?, Matrix::new("w", w)?);
    if x.cols != w.cols {
        bail!("x has {} columns and w {}; they must be equal", x.cols, w.cols);
    }
    Ok([x, w])
}

impl CustomOp2 for Linear {
    fn name(&self) -> &'static str {
        "warpipe-linear"
    }

    /// A plain product, for tests without a GPU.
    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        lx: &Layout,
        w: &CpuStorage,
        lw: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let [mx, mw] = operands(lx, lw)?;
        let (CpuStorage::BF16(x), CpuStorage::BF16(w)) = (x, w) else {
            return Err(Error::Msg("the operator takes BF16".into()));
        };
        let row = |values: &'_ [bf16], m: &Matrix, i: usize| -> Vec<f32> {
            let start = m.offset + i * m.stride;
            values[start..start + m.cols].iter().map(|v| v.to_f32()).collect()
        };
        let mut y = Vec::with_capacity(mx.rows * mw.rows);
        for i in 0..mx.rows {
            let a = row(x, &mx, i);
            for j in 0..mw.rows {
                let b = row(w, &mw, j);
                y.push(bf16::from_f32(a.iter().zip(&b).map(|(a, b)| a * b).sum()));
            }
        }
        Ok((CpuStorage::BF16(y), (mx.rows, mw.rows).into()))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        x: &candle_core::CudaStorage,
        lx: &Layout,
        w: &candle_core::CudaStorage,
        lw: &Layout,
    ) -> Result<(candle_core::CudaStorage, Shape)> {
        self.plans.run(x, w, operands(lx, lw)?)
    }
}
