//! The example kernels as cases, each with its data and a plain loop that computes the expected result.

use super::family::Family;
use super::{Case, Failure};
use crate::error::Error;
use gpu_kernels::examples::{
    cluster_exchange::cluster_exchange, ordered_loads::ordered_loads, ping_pong::ping_pong,
    rms_norm::rms_norm, stream_copy::stream_copy, two_rings::two_rings,
};
use host::sim::{Stats, Trial};
use host::{Buffer, Device, Dtype, Param, SimConfig, TensorBox, TensorMap, TensorSpec, data};
use isa::kernel::{Kernel, KernelDesc, ParamMeta};

/// Rows of a tile (the examples call it a panel).
const ROWS: usize = 64;

struct Example {
    name: &'static str,
    /// Rows of the checked result.
    rows: usize,
    run: fn(&Device, usize, usize) -> Result<(), Failure>,
    /// Rows of a step: one panel of each CTA.
    step: usize,
}

const EXAMPLES: [Example; 6] = [
    Example { name: "cluster_exchange", rows: 130, run: exchange, step: ROWS },
    Example { name: "ordered_loads", rows: 325, run: ordered, step: 2 * ROWS },
    Example { name: "ping_pong", rows: 192, run: multiply, step: ROWS },
    Example { name: "rms_norm", rows: 130, run: normalise, step: 2 * ROWS },
    Example { name: "stream_copy", rows: 325, run: copy, step: 2 * ROWS },
    Example { name: "two_rings", rows: 325, run: rings, step: 2 * ROWS },
];

/// The names of the examples.
pub fn names() -> [&'static str; 6] {
    EXAMPLES.map(|e| e.name)
}

/// The example `name` with `rows` rows.
pub fn case(name: &str, rows: usize) -> Result<Box<dyn Case>, Error> {
    let found = EXAMPLES.into_iter().find(|e| e.name == name);
    let example = found.ok_or_else(|| unknown(name))?;
    Ok(Box::new(Example { rows, ..example }))
}

fn unknown(name: &str) -> Error {
    Error::Usage(format!("no example {name}; there are: {}", names().join(", ")))
}

/// The example `name`, or all examples.
pub fn cases(name: Option<&str>) -> Result<Vec<Box<dyn Case>>, Error> {
    Ok(chosen(name)?.into_iter().map(|e| Box::new(e) as Box<dyn Case>).collect())
}

/// The same, with any number of steps.
pub fn families(name: Option<&str>) -> Result<Vec<Box<dyn Family>>, Error> {
    Ok(chosen(name)?.into_iter().map(|e| Box::new(Panels(e)) as Box<dyn Family>).collect())
}

fn chosen(name: Option<&str>) -> Result<Vec<Example>, Error> {
    let chosen: Vec<Example> =
        EXAMPLES.into_iter().filter(|e| name.is_none_or(|n| n == e.name)).collect();
    if chosen.is_empty() {
        return Err(unknown(name.unwrap_or_default()));
    }
    Ok(chosen)
}

impl Case for Example {
    fn name(&self) -> String {
        self.name.to_owned()
    }
    fn run(&self, config: &SimConfig) -> Result<Stats, Failure> {
        let device = Device::sim(config.clone());
        (self.run)(&device, self.rows, 0)?;
        Ok(device.model_stats().unwrap_or_default())
    }
}

/// An example whose steps are the panels of a CTA.
struct Panels(Example);

impl Family for Panels {
    fn name(&self) -> String {
        format!("{}, a step is a panel of each CTA", self.0.name)
    }
    fn run(&self, config: &SimConfig, trial: Trial) -> Result<Stats, Failure> {
        let device = Device::sim(config.clone());
        let Example { run, step, .. } = self.0;
        run(&device, step * trial.steps as usize, trial.data as usize)?;
        Ok(device.model_stats().unwrap_or_default())
    }
}

/// A row-major bf16 matrix.
struct Matrix {
    buffer: Buffer,
    values: Vec<f32>,
    rows: usize,
    cols: usize,
}

impl Matrix {
    fn new(
        device: &Device,
        (rows, cols): (usize, usize),
        f: impl Fn(usize, usize) -> f32,
    ) -> Result<Self, Failure> {
        let values: Vec<f32> = (0..rows * cols).map(|i| f(i / cols, i % cols)).collect();
        let values = data::rounded(&values, Dtype::Bf16)?;
        let buffer = device.upload(&data::encode(&values, Dtype::Bf16)?)?;
        Ok(Self { buffer, values, rows, cols })
    }

    /// A matrix full of NaN, for a result.
    fn blank(device: &Device, shape: (usize, usize)) -> Result<Self, Failure> {
        Self::new(device, shape, |_, _| f32::NAN)
    }

    fn map(&self, device: &Device, param: &ParamMeta) -> Result<TensorMap, Failure> {
        let spec = TensorSpec {
            buffer: &self.buffer,
            offset: 0,
            dtype: Dtype::Bf16,
            rows: self.rows as u64,
            cols: self.cols as u64,
            pitch_bytes: 2 * self.cols as u64,
        };
        Ok(device.tensor_map(&spec, TensorBox::of(param))?)
    }

    fn at(&self, i: usize, j: usize) -> f32 {
        self.values[i * self.cols + j]
    }

    /// Compares the kernel's result. `near` is the largest relative error, for bf16's last place.
    fn expect(&self, near: f32, want: impl Fn(usize, usize) -> f32) -> Result<(), Failure> {
        let have = data::decode(&self.buffer.to_vec()?, Dtype::Bf16)?;
        for (at, x) in have.into_iter().enumerate() {
            let (i, j) = (at / self.cols, at % self.cols);
            let y = want(i, j);
            // This form also rejects NaN.
            let right = (x - y).abs() <= near * y.abs();
            if !right {
                let text = format!("wrong result: element ({i}, {j}) is {x}, expected {y}");
                return Err(Failure::Other(text));
            }
        }
        Ok(())
    }
}

fn rounded(x: f32) -> f32 {
    data::rounded(&[x], Dtype::Bf16).map_or(f32::NAN, |v| v[0])
}

/// A small integer that depends on the position irregularly. Sums of products are exact in f32.
fn small(salt: usize, i: usize, j: usize) -> f32 {
    ((salt * 31 + i * 17 + j * 29 + i * j) % 7) as f32 - 3.0
}

fn launch(
    device: &Device,
    desc: &KernelDesc,
    ctas: u32,
    params: &[Param<'_>],
) -> Result<(), Failure> {
    Ok(device.launch_on_model(desc, [ctas, 1, 1], params)?)
}

fn panels(rows: usize) -> u32 {
    rows.div_ceil(ROWS) as u32
}

fn copy(device: &Device, rows: usize, data: usize) -> Result<(), Failure> {
    let (shape, desc) = ((rows, 56), &<stream_copy as Kernel>::DESC);
    let from = Matrix::new(device, shape, |i, j| ((7 * i + j + data) % 251) as f32)?;
    let to = Matrix::blank(device, shape)?;
    let [a, b] =
        [from.map(device, &desc.meta.params()[0])?, to.map(device, &desc.meta.params()[1])?];
    launch(device, desc, 2, &[Param::map(&a), Param::map(&b), Param::value(panels(rows))])?;
    to.expect(0.0, |i, j| from.at(i, j))
}

fn rings(device: &Device, rows: usize, data: usize) -> Result<(), Failure> {
    let (shape, desc) = ((rows, 56), &<two_rings as Kernel>::DESC);
    let from = Matrix::new(device, shape, |i, j| small(3 + data, i, j) * 0.37)?;
    let to = Matrix::blank(device, shape)?;
    let [a, b] =
        [from.map(device, &desc.meta.params()[0])?, to.map(device, &desc.meta.params()[1])?];
    launch(device, desc, 2, &[Param::map(&a), Param::map(&b), Param::value(panels(rows))])?;
    to.expect(0.0, |i, j| rounded(from.at(i, j).max(0.0).powi(2)))
}

fn ordered(device: &Device, rows: usize, data: usize) -> Result<(), Failure> {
    let (shape, desc) = ((rows, 56), &<ordered_loads as Kernel>::DESC);
    let x = Matrix::new(device, shape, |i, j| small(4 + data, i, j) * 0.5)?;
    let y = Matrix::new(device, shape, |i, j| small(5 + data, i, j) * 8.0)?;
    let sum = Matrix::blank(device, shape)?;
    let meta = desc.meta.params();
    let (a, b, c) =
        (x.map(device, &meta[0])?, y.map(device, &meta[1])?, sum.map(device, &meta[2])?);
    let count = Param::value(panels(rows));
    launch(device, desc, 2, &[Param::map(&a), Param::map(&b), Param::map(&c), count])?;
    sum.expect(0.0, |i, j| x.at(i, j) + y.at(i, j))
}

fn multiply(device: &Device, m: usize, data: usize) -> Result<(), Failure> {
    let ((n, k), desc) = ((128, 104), &<ping_pong as Kernel>::DESC);
    let a = Matrix::new(device, (m, k), |i, j| small(6 + data, i, j))?;
    let b = Matrix::new(device, (n, k), |i, j| small(7 + data, i, j))?;
    let d = Matrix::blank(device, (m, n))?;
    let meta = desc.meta.params();
    let (x, y, z) = (a.map(device, &meta[0])?, b.map(device, &meta[1])?, d.map(device, &meta[2])?);
    let [tm, tn, tk] = [m.div_ceil(64), n.div_ceil(128), k.div_ceil(64)];
    let [tm, tn, tk] = [tm, tn, tk].map(|tiles| Param::value(tiles as u32));
    launch(device, desc, 1, &[Param::map(&x), Param::map(&y), Param::map(&z), tm, tn, tk])?;
    d.expect(0.0, |i, j| rounded((0..k).map(|l| a.at(i, l) * b.at(j, l)).sum()))
}

fn normalise(device: &Device, rows: usize, data: usize) -> Result<(), Failure> {
    let (cols, desc) = (304, &<rms_norm as Kernel>::DESC);
    let x = Matrix::new(device, (rows, cols), |i, j| small(8 + data, i, j) * 1.3 + 0.1)?;
    let y = Matrix::blank(device, (rows, cols))?;
    let weight = |j: usize| 0.5 + (j % 17) as f32 / 16.0;
    let weights: Vec<f32> = (0..cols).map(weight).collect();
    let weights = device.upload(&data::encode(&weights, Dtype::F32)?)?;
    let eps = 1e-3f32;
    let (a, b) = (x.map(device, &desc.meta.params()[0])?, y.map(device, &desc.meta.params()[2])?);
    let params = [
        Param::map(&a),
        Param::slice::<f32>(&weights),
        Param::map(&b),
        Param::value(panels(rows)),
        Param::value(cols as u32),
        Param::value(eps),
    ];
    launch(device, desc, 2, &params)?;
    let scale = |i: usize| {
        let squares: f64 = (0..cols).map(|j| f64::from(x.at(i, j)).powi(2)).sum();
        (squares / cols as f64 + f64::from(eps)).sqrt().recip()
    };
    let scales: Vec<f64> = (0..rows).map(scale).collect();
    // Half a unit of bf16's last place, and a margin for the order of the f32 sums.
    let want =
        |i: usize, j: usize| (f64::from(x.at(i, j)) * scales[i] * f64::from(weight(j))) as f32;
    y.expect(1.01 / 256.0, want)
}

fn exchange(device: &Device, rows: usize, data: usize) -> Result<(), Failure> {
    let (cols, desc) = (200, &<cluster_exchange as Kernel>::DESC);
    let x =
        Matrix::new(
            device,
            (rows, cols),
            |i, j| if i % 7 == 3 { 0.0 } else { small(9 + data, i, j) },
        )?;
    let y = Matrix::blank(device, (rows, cols))?;
    let [a, b] = [x.map(device, &desc.meta.params()[0])?, y.map(device, &desc.meta.params()[1])?];
    launch(device, desc, 4, &[Param::map(&a), Param::map(&b), Param::value(panels(rows))])?;
    let sums: Vec<f32> = (0..rows).map(|i| (0..cols).map(|j| x.at(i, j).abs()).sum()).collect();
    // The sum is exact. The bound is half a unit of bf16's last place plus the division's rounding.
    y.expect(1.001 / 256.0, |i, j| if sums[i] > 0.0 { x.at(i, j) / sums[i] } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_right_under_two_schedules() {
        for case in cases(None).unwrap() {
            for seed in [0, 1] {
                let config = SimConfig { seed, ..SimConfig::default() };
                case.run(&config).unwrap_or_else(|e| panic!("{}: {e}", case.name()));
            }
        }
        assert!(cases(Some("none")).is_err());
    }
}
