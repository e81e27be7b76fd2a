//! Compares the operator with candle's own product: `cargo run --release --features cuda`, or on the CPU
//! without the feature.

use candle_core::{D, DType, Device, Result, Tensor};
use interop_candle::Linear;

fn main() -> Result<()> {
    let device = Device::cuda_if_available(0)?;
    let linear = Linear::default();
    // Rows 64 to 191 of the activations, and 256 columns of the weight: nothing is copied.
    let x = Tensor::randn(0f32, 1.0, (256, 256), &device)?.to_dtype(DType::BF16)?;
    let w = Tensor::randn(0f32, 1.0, (384, 512), &device)?.to_dtype(DType::BF16)?;
    let (x, w) = (x.narrow(0, 64, 128)?, w.narrow(1, 128, 256)?);
    let y = linear.forward(&x, &w)?.to_dtype(DType::F32)?;
    let right = x.contiguous()?.to_dtype(DType::F32)?;
    let right = right.matmul(&w.t()?.contiguous()?.to_dtype(DType::F32)?)?;
    let norm = |t: &Tensor| t.sqr()?.sum_all()?.sqrt()?.to_scalar::<f32>();
    let error = norm(&(y - &right)?)? / norm(&right)?;
    println!("{device:?}: {:?} x {:?}, relative error {error:.2e}", x.dims(), w.dims());
    // bf16 rounds the result to 8 bits.
    if !(error < 4e-3) {
        candle_core::bail!("the relative error must be below 4e-3");
    }
    let bad = linear.forward(&x, &w.narrow(D::Minus1, 0, 128)?);
    println!("refused: {}", bad.expect_err("x and w must agree"));
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_candles_product() {
        super::main().unwrap();
    }
}
