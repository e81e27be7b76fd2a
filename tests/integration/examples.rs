//! The example kernels against plain loops on the CPU, on the SM model under several schedules and on
//! a GPU where there is one.
#![allow(missing_docs)]

use crate::on_devices::{Matrix, on_devices, small};
use gpu_kernels::examples::{
    cluster_exchange::cluster_exchange, ordered_loads::ordered_loads, ping_pong::ping_pong,
    rms_norm::rms_norm, stream_copy::stream_copy, two_rings::two_rings,
};
use half::bf16;
use host::{Dtype, Param};
use isa::kernel::Kernel;
use warpipe::GEMM_IMAGE;

fn rounded(x: f32) -> f32 {
    bf16::from_f32(x).to_f32()
}

fn blocks_of(rows: usize, height: usize) -> u32 {
    rows.div_ceil(height) as u32
}

/// Rows, columns, CTAs: one panel, a part of one, several with a part at the end, more CTAs than
/// panels, and enough for the rings to wrap twice.
const PANELS: [(usize, usize, u32); 5] =
    [(64, 64, 1), (1, 8, 1), (325, 56, 2), (130, 64, 5), (1200, 40, 2)];

#[test]
fn stream_copy_copies() {
    on_devices(&GEMM_IMAGE, "stream_copy_copies", 6, |bench| {
        let desc = &<stream_copy as Kernel>::DESC;
        for (rows, cols, ctas) in PANELS {
            let case = format!("{rows} x {cols}");
            let value = |i: usize, j: usize| ((7 * i + j) % 251) as f32;
            let from = Matrix::new(bench, Dtype::Bf16, rows, cols, value);
            let to = Matrix::poisoned(bench, Dtype::Bf16, rows, cols);
            let maps = [&from, &to].map(|m| m.map(bench, &desc.meta.params()[0]));
            let [from, target] = &maps;
            let panels = Param::value(blocks_of(rows, 64));
            bench.launch(desc, ctas, &[Param::map(from), Param::map(target), panels], &case);
            bench.expect(&to, value, &case);
        }
    });
}

#[test]
fn two_rings_transform() {
    on_devices(&GEMM_IMAGE, "two_rings_transform", 6, |bench| {
        let desc = &<two_rings as Kernel>::DESC;
        for (rows, cols, ctas) in PANELS {
            let case = format!("{rows} x {cols}");
            let value = |i: usize, j: usize| rounded(small(3, i, j) * 0.37);
            let from = Matrix::new(bench, Dtype::Bf16, rows, cols, value);
            let to = Matrix::poisoned(bench, Dtype::Bf16, rows, cols);
            let maps = [&from, &to].map(|m| m.map(bench, &desc.meta.params()[0]));
            let [from, target] = &maps;
            let panels = Param::value(blocks_of(rows, 64));
            bench.launch(desc, ctas, &[Param::map(from), Param::map(target), panels], &case);
            bench.expect(&to, |i, j| rounded(value(i, j).max(0.0).powi(2)), &case);
        }
    });
}

#[test]
fn ordered_loads_add() {
    on_devices(&GEMM_IMAGE, "ordered_loads_add", 8, |bench| {
        let desc = &<ordered_loads as Kernel>::DESC;
        for (rows, cols, ctas) in PANELS {
            let case = format!("{rows} x {cols}");
            let x = Matrix::new(bench, Dtype::Bf16, rows, cols, |i, j| small(4, i, j) * 0.5);
            let y = Matrix::new(bench, Dtype::Bf16, rows, cols, |i, j| small(5, i, j) * 8.0);
            let out = Matrix::poisoned(bench, Dtype::Bf16, rows, cols);
            let maps = [&x, &y, &out].map(|m| m.map(bench, &desc.meta.params()[0]));
            let [x, y, sum] = maps.each_ref().map(Param::map);
            bench.launch(desc, ctas, &[x, y, sum, Param::value(blocks_of(rows, 64))], &case);
            bench.expect(&out, |i, j| small(4, i, j) * 0.5 + small(5, i, j) * 8.0, &case);
        }
    });
}

#[test]
fn ping_pong_multiplies() {
    on_devices(&GEMM_IMAGE, "ping_pong_multiplies", 3, |bench| {
        let desc = &<ping_pong as Kernel>::DESC;
        // Odd numbers of tiles, so that one group has one more; K in part of a stage.
        for (m, n, k, ctas) in
            [(64, 128, 64, 1), (192, 128, 100, 1), (320, 200, 456, 2), (60, 1000, 200, 3)]
        {
            let case = format!("{m} x {n} x {k}");
            let a = Matrix::new(bench, Dtype::Bf16, m, k, |i, j| small(6, i, j));
            let b = Matrix::new(bench, Dtype::Bf16, n, k, |i, j| small(7, i, j));
            let d = Matrix::poisoned(bench, Dtype::Bf16, m, n);
            let meta = desc.meta.params();
            let maps = [a.map(bench, &meta[0]), b.map(bench, &meta[1]), d.map(bench, &meta[2])];
            let [pa, pb, pd] = maps.each_ref().map(Param::map);
            let tiles = [blocks_of(m, 64), blocks_of(n, 128), blocks_of(k, 64)];
            let [tm, tn, tk] = tiles.map(Param::value);
            bench.launch(desc, ctas, &[pa, pb, pd, tm, tn, tk], &case);
            let product =
                |i: usize, j: usize| (0..k).map(|x| small(6, i, x) * small(7, j, x)).sum::<f32>();
            bench.expect(&d, |i, j| rounded(product(i, j)), &case);
        }
    });
}

#[test]
fn rms_norm_normalises() {
    on_devices(&GEMM_IMAGE, "rms_norm_normalises", 4, |bench| {
        let desc = &<rms_norm as Kernel>::DESC;
        for (rows, cols, ctas) in [(64, 512, 1), (1, 8, 1), (200, 300, 2), (330, 72, 1)] {
            let case = format!("{rows} x {cols}");
            let value = |i: usize, j: usize| rounded(small(8, i, j) * 1.3 + 0.1 * (i % 5) as f32);
            let weight = |j: usize| 0.5 + (j % 17) as f32 / 16.0;
            let eps = 1e-3f32;
            let x = Matrix::new(bench, Dtype::Bf16, rows, cols, value);
            let y = Matrix::poisoned(bench, Dtype::Bf16, rows, cols);
            let weights: Vec<u8> = (0..cols).flat_map(|j| weight(j).to_le_bytes()).collect();
            let weights = bench.device.upload(&weights).expect("a small buffer");
            let maps = [&x, &y].map(|m| m.map(bench, &desc.meta.params()[0]));
            let params = [
                Param::map(&maps[0]),
                Param::slice::<f32>(&weights),
                Param::map(&maps[1]),
                Param::value(blocks_of(rows, 64)),
                Param::value(cols as u32),
                Param::value(eps),
            ];
            bench.launch(desc, ctas, &params, &case);
            let scale: Vec<f64> = (0..rows)
                .map(|i| {
                    let squares: f64 = (0..cols).map(|j| f64::from(value(i, j)).powi(2)).sum();
                    (squares / cols as f64 + f64::from(eps)).sqrt().recip()
                })
                .collect();
            let want = |i: usize, j: usize| {
                (f64::from(value(i, j)) * scale[i] * f64::from(weight(j))) as f32
            };
            // Half a unit of bf16's last place, and a little for the order of the f32 sums.
            bench.expect_near(&y, want, 1.01 / 256.0, &case);
        }
    });
}

#[test]
fn cluster_exchange_divides_by_the_whole_row() {
    on_devices(&GEMM_IMAGE, "cluster_exchange_divides_by_the_whole_row", 8, |bench| {
        let desc = &<cluster_exchange as Kernel>::DESC;
        for (rows, cols, clusters) in [(64, 256, 1), (1, 200, 1), (300, 256, 2), (400, 130, 1)] {
            let case = format!("{rows} x {cols}");
            // Every seventh row is zero.
            let value = |i: usize, j: usize| if i % 7 == 3 { 0.0 } else { small(9, i, j) + 0.5 };
            let x = Matrix::new(bench, Dtype::Bf16, rows, cols, value);
            let y = Matrix::poisoned(bench, Dtype::Bf16, rows, cols);
            let maps = [&x, &y].map(|m| m.map(bench, &desc.meta.params()[0]));
            let [px, py] = maps.each_ref().map(Param::map);
            let blocks = Param::value(blocks_of(rows, 64));
            bench.launch(desc, 4 * clusters, &[px, py, blocks], &case);
            let want = |i: usize, j: usize| {
                let sum: f32 = (0..cols).map(|k| value(i, k).abs()).sum();
                if sum > 0.0 { value(i, j) / sum } else { 0.0 }
            };
            // The sum is exact; half a unit of bf16's last place, and the division's rounding.
            bench.expect_near(&y, want, 1.001 / 256.0, &case);
        }
    });
}
