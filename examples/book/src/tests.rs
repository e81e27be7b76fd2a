//! The kernels on the SM model, under many schedules.
// Small integers: exact in bf16, and their sums in f32.
#![allow(clippy::float_cmp)]

use crate::IMAGE;
use book_kernels::{overlap, product};
use warpipe::host::testing::check;
use warpipe::host::{Buffer, Device, Dtype, Error, Param, SimConfig, TensorSpec, data};
use warpipe::isa::kernel::Kernel;
use warpipe::pipeline::tile::TensorMap;

/// A packed bf16 matrix.
fn spec(buffer: &Buffer, rows: usize, cols: usize) -> TensorSpec<'_> {
    TensorSpec {
        buffer,
        offset: 0,
        dtype: Dtype::Bf16,
        rows: rows as u64,
        cols: cols as u64,
        pitch_bytes: 2 * cols as u64,
    }
}

fn upload(device: &Device, values: &[f32]) -> Result<Buffer, Error> {
    device.upload(&data::encode(values, Dtype::Bf16)?)
}

#[test]
fn add_adds() {
    check(4, |model| {
        let a: Vec<f32> = (0..1000).map(|i| i as f32).collect();
        let sums = crate::add::sum(model, &a, &vec![0.5; 1000])?;
        assert!(sums.iter().zip(&a).all(|(sum, a)| *sum == a + 0.5));
        Ok(())
    });
}

#[test]
fn the_gemm_multiplies() {
    let device = Device::sim(SimConfig { sms: 4, ..SimConfig::default() });
    let (a, b) = (vec![2.0; 96 * 64], vec![0.5; 80 * 64]);
    let d = crate::gemm::product(&device, [96, 80, 64], &a, &b).expect("a product");
    assert_eq!(d, vec![64.0; 96 * 80]);
}

#[test]
fn product_multiplies() {
    let (m, n, k) = (256, 128, 320);
    let a: Vec<f32> = (0..m * k).map(|i| (i % 5) as f32 - 2.0).collect();
    let b: Vec<f32> = (0..n * k).map(|i| (i % 7) as f32 - 3.0).collect();
    check(3, |model| {
        let (da, db) = (upload(model, &a)?, upload(model, &b)?);
        let dd = model.alloc(2 * m * n)?;
        let a_map = model.tensor_map_for::<&TensorMap<product::TileA>>(&spec(&da, m, k))?;
        let b_map = model.tensor_map_for::<&TensorMap<product::TileB>>(&spec(&db, n, k))?;
        let d_map = model.tensor_map_for::<&TensorMap<product::Panel>>(&spec(&dd, m, n))?;
        let [a_map, b_map, d_map] = [&a_map, &b_map, &d_map].map(Param::map);
        let params = [a_map, b_map, d_map, Param::value(2u32), Param::value(k as u32 / 64)];
        let module = model.load(&IMAGE)?;
        model.launch(&module, &product::product::DESC, [2, 1, 1], &params, &model.stream())?;
        for (i, have) in data::decode(&dd.to_vec()?, Dtype::Bf16)?.into_iter().enumerate() {
            let (row, col) = (i / n, i % n);
            let sum: f32 = (0..k).map(|x| a[row * k + x] * b[col * k + x]).sum();
            assert_eq!(data::rounded(&[sum], Dtype::Bf16)?, [have], "({row}, {col})");
        }
        Ok(())
    });
}

/// Three grids in a row, each of which may start before the one ahead has ended: x, 2x + 1, 2(2x + 1) + 1.
#[test]
fn dependent_grids_wait_for_what_they_read() {
    check(10, |model| {
        let rows = 5 * 64;
        let values: Vec<f32> = (0..rows * 64).map(|i| (i % 16) as f32).collect();
        let ones: Vec<u8> = [1f32; 5].into_iter().flat_map(f32::to_le_bytes).collect();
        let (from, bias) = (upload(model, &values)?, model.upload(&ones)?);
        let (middle, to) = (model.alloc(from.len())?, model.alloc(from.len())?);
        let module = model.load(&IMAGE)?;
        for [source, target] in [[&from, &middle], [&middle, &to]] {
            let map = |buffer| {
                model.tensor_map_for::<&TensorMap<overlap::Panel>>(&spec(buffer, rows, 64))
            };
            let (source, target) = (map(source)?, map(target)?);
            let bias = overlap::Bias { scale: 2.0, values: bias.dependent_slice() };
            let params =
                [Param::map(&source), Param::map(&target), Param::value(bias), Param::value(5u32)];
            model.launch(&module, &overlap::biased::DESC, [1, 1, 1], &params, &model.stream())?;
        }
        let result = data::decode(&to.to_vec()?, Dtype::Bf16)?;
        assert!(result.iter().zip(&values).all(|(have, x)| *have == 4.0 * x + 3.0));
        Ok(())
    });
}
