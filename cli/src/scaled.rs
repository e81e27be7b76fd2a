//! The scales of quantised operands, read or generated, and the run of their product.

use super::args::{OperandTypes, ScaleArg};
use super::error::Error;
use super::operands::{Generate, Matrix, Operands, check_size};
use super::tensor_file;
use host::data::{decode, encode, normal};
use host::dtype_name;
use isa::kernel::Dtype;
use safetensors::tensor::Dtype as FileDtype;

/// The largest e4m3.
pub const LARGEST_E4M3: f32 = 448.0;

/// The largest number of a type that has scales.
fn largest(dtype: Dtype) -> f32 {
    match dtype {
        Dtype::E5m2 => 57344.0,
        Dtype::I8 => 127.0,
        _ => LARGEST_E4M3,
    }
}

/// What has one scale.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum ScaleOf {
    /// The whole operand
    Tensor,
    /// Each row of A, and each row of B, which is a column of the result
    Row,
    /// Each 128 of K, of a row of A and of 128 rows of B
    Block,
}

impl ScaleOf {
    /// The rows and columns of an operand that share a scale; the operand has `shape`.
    pub fn block(self, operand: char, shape: [usize; 2]) -> [usize; 2] {
        match self {
            Self::Tensor => shape,
            Self::Row => [1, shape[1]],
            Self::Block => [if operand == 'A' { 1 } else { 128 }, 128],
        }
    }
}

/// The scales of an operand: a matrix with one value for each block.
#[derive(Clone, PartialEq, Debug)]
pub struct Scales {
    pub values: Vec<f32>,
    /// Rows and columns of a block.
    block: [usize; 2],
}

impl Scales {
    /// One scale for all of an operand.
    pub fn one(scale: f32) -> Self {
        Self { values: vec![scale], block: [usize::MAX; 2] }
    }

    /// `values`, one for each `block` of rows and columns.
    pub fn of_blocks(values: Vec<f32>, block: [usize; 2]) -> Self {
        Self { values, block }
    }

    /// Multiplies the values of a matrix of `cols` columns by their scales.
    pub fn apply(&self, values: &mut [f32], cols: usize) {
        if self.values == [1.0] {
            return;
        }
        let blocks = cols.div_ceil(self.block[1]);
        for (row, values) in values.chunks_mut(cols.max(1)).enumerate() {
            let first = row / self.block[0] * blocks;
            for (values, scale) in values.chunks_mut(self.block[1]).zip(&self.values[first..]) {
                for x in values {
                    *x *= scale;
                }
            }
        }
    }
}

/// The scales of A and B.
#[derive(Clone, PartialEq, Debug)]
pub struct ScalesOf {
    pub a: Scales,
    pub b: Scales,
    pub of: ScaleOf,
}

/// The scales that an option names for an operand of this shape; 1 if it names none. `of` is what the caller says has a
/// scale: without it the number of values decides between the tensor and its rows.
pub fn read(
    operand: char,
    arg: Option<&ScaleArg>,
    shape: [u64; 2],
    of: Option<ScaleOf>,
) -> Result<Scales, Error> {
    let option = if operand == 'A' { "--a-scale" } else { "--b-scale" };
    let tensor = match (arg, of) {
        (Some(ScaleArg::Tensor(tensor)), _) => tensor_file::read(tensor)?,
        (_, Some(ScaleOf::Block)) => {
            return Err(Error::Usage(format!("--scales block needs {option} FILE:TENSOR")));
        }
        (None, _) => return Ok(Scales::one(1.0)),
        (Some(ScaleArg::Number(scale)), _) => return Ok(Scales::one(*scale)),
    };
    let name = tensor.name.clone();
    if tensor.dtype != FileDtype::F32 {
        let (dtype, right) = (tensor.dtype.to_string(), "scales are f32".to_owned());
        return Err(Error::Dtype { operand, name, dtype, right });
    }
    let values = decode(&tensor.data, Dtype::F32)?;
    let sizes = shape.map(|x| x as usize);
    let of = match of {
        Some(ScaleOf::Block) => ScaleOf::Block,
        _ if values.len() == 1 => ScaleOf::Tensor,
        _ => ScaleOf::Row,
    };
    let block = of.block(operand, sizes);
    let right = [sizes[0].div_ceil(block[0].max(1)), sizes[1].div_ceil(block[1].max(1))];
    if of == ScaleOf::Block && tensor.shape != right {
        return Err(Error::BlockScales { operand, name, shape: tensor.shape, right });
    }
    if of == ScaleOf::Row && values.len() != sizes[0] {
        let (shape, rows) = (tensor.shape, shape[0]);
        return Err(Error::Scales { operand, name, shape, rows });
    }
    match values.iter().position(|x| !x.is_finite()) {
        Some(index) => Err(Error::ScaleValue { operand, name, index, value: values[index] }),
        None => Ok(Scales { values, block }),
    }
}

/// Quantises the values of a matrix: the largest of a block becomes the largest number of the type. Blocks of zeros have
/// the scale 1.
pub fn quantised(
    values: &[f32],
    dtype: Dtype,
    [rows, cols]: [usize; 2],
    [block_rows, block_cols]: [usize; 2],
) -> Result<(Vec<u8>, Scales), Error> {
    let block = [block_rows.max(1), block_cols.max(1)];
    if values.is_empty() {
        return Ok((Vec::new(), Scales::one(1.0)));
    }
    let blocks = cols.div_ceil(block[1]);
    let of = |i: usize| i / cols / block[0] * blocks + i % cols / block[1];
    let mut most = vec![0.0f32; rows.div_ceil(block[0]) * blocks];
    for (i, x) in values.iter().enumerate() {
        most[of(i)] = most[of(i)].max(x.abs());
    }
    // A scale below the normal numbers would have few digits, or be 0.
    let scale = |most: &f32| match *most {
        0.0 => 1.0,
        most => (most / largest(dtype)).max(f32::MIN_POSITIVE),
    };
    let scales: Vec<f32> = most.iter().map(scale).collect();
    let scaled: Vec<f32> = values.iter().enumerate().map(|(i, x)| x / scales[of(i)]).collect();
    Ok((encode(&scaled, dtype)?, Scales { values: scales, block }))
}

/// Makes quantised matrices of normal values. The values are those of the same seed in other types.
pub fn generate(
    generate: Generate,
    types: OperandTypes,
    of: ScaleOf,
) -> Result<(Operands, ScalesOf), Error> {
    let problem = generate.problem;
    check_size(&problem)?;
    let make = |operand: char, which: u64, rows: u64, dtype: Dtype| {
        let seed = generate.seed.wrapping_mul(3).wrapping_add(which);
        let cols = problem.k;
        let shape = [rows as usize, cols as usize];
        let values = normal(seed, (rows * cols) as usize);
        let (data, scales) = quantised(&values, dtype, shape, of.block(operand, shape))?;
        let name = "generated".to_owned();
        Ok::<_, Error>((Matrix { name, rows, cols, dtype, data }, scales))
    };
    let ((a, mut scale_a), (b, mut scale_b)) =
        (make('A', 0, problem.m, types.a)?, make('B', 1, problem.n, types.b)?);
    // Whole results are those of the quantised numbers.
    if problem.out == Dtype::I32 {
        (scale_a, scale_b) = (Scales::one(1.0), Scales::one(1.0));
    }
    let c = problem.beta_c.then(|| {
        let values =
            normal(generate.seed.wrapping_mul(3).wrapping_add(2), (problem.m * problem.n) as usize);
        let (rows, cols, dtype) = (problem.m, problem.n, problem.out);
        let data = encode(&values, dtype)?;
        Ok::<_, Error>(Matrix { name: "generated".to_owned(), rows, cols, dtype, data })
    });
    let (c, seed) = (c.transpose()?, Some(generate.seed));
    Ok((Operands { problem, a, b, c, seed }, ScalesOf { a: scale_a, b: scale_b, of }))
}

/// The scales of A's blocks, [M, K/128], as a kernel reads them: [K/128, M], whose rows are padded to a multiple of 4.
pub fn by_blocks_of_k(scales: &[f32], m: usize) -> Vec<f32> {
    let (pitch, blocks) = (m.next_multiple_of(4), scales.len() / m.max(1));
    let mut transposed = vec![0.0; blocks * pitch];
    for (row, scales) in scales.chunks(blocks.max(1)).enumerate() {
        for (block, scale) in scales.iter().enumerate() {
            transposed[block * pitch + row] = *scale;
        }
    }
    transposed
}

/// The bound of the relative error of a product of quantised operands.
///
/// Promoted sums are short within 128 of K only: the result's rounding decides, or for f32 those sums. With fast
/// accumulation they are short over all of K.
pub fn bound(out: Dtype, use_fast_accum: bool) -> f64 {
    match (use_fast_accum, out) {
        (false, Dtype::Bf16) => 4e-3,
        (false, Dtype::F16) => 1e-3,
        // Half of the last of four digits, and what is lost below the smallest normal number.
        (_, Dtype::E4m3) => 5e-2,
        // As f32 in the comparison.
        (_, Dtype::I32) => 1e-7,
        (true, _) => 1e-2,
        (false, _) => 3e-4,
    }
}

/// A usage error for options that need operands of 8 bits.
pub fn refuse_without_scales(dtype: Dtype, options: &[(&str, bool)]) -> Result<(), Error> {
    match options.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => Err(Error::Usage(format!(
            "{option} is for operands of e4m3, e5m2 and int8; these are {}",
            dtype_name(dtype)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_of_what_has_a_scale_becomes_448() {
        let values = [1.0, -2.0, 0.5, 0.0, 0.0, 0.0, 7.0, 3.5, -14.0];
        let quantised = |values: &[f32], shape, of: ScaleOf| {
            let (bytes, scales) =
                quantised(values, Dtype::E4m3, shape, of.block('A', shape)).unwrap();
            (decode(&bytes, Dtype::E4m3).unwrap(), scales.values)
        };
        let (back, scales) = quantised(&values, [3, 3], ScaleOf::Row);
        assert_eq!(scales, [2.0 / 448.0, 1.0, 14.0 / 448.0]);
        assert_eq!(back, [224.0, -448.0, 112.0, 0.0, 0.0, 0.0, 224.0, 112.0, -448.0]);
        assert_eq!(quantised(&values, [3, 3], ScaleOf::Tensor).1, [14.0 / 448.0]);
        assert_eq!(quantised(&[], [0, 0], ScaleOf::Row), (vec![], vec![1.0]));
        // 1e-40 / 448 is not a normal number.
        let (back, scales) = quantised(&[1e-40, -1e-40], [1, 2], ScaleOf::Row);
        assert_eq!((back, scales), (vec![0.0078125, -0.0078125], vec![f32::MIN_POSITIVE]));
    }

    /// 130 rows of 200 columns have two blocks along K, and those of B two along the rows.
    #[test]
    fn a_block_has_its_own_scale() {
        let shape @ [rows, cols] = [130, 200];
        let values: Vec<f32> = (0..rows * cols)
            .map(|i| {
                let (row, col) = (i / cols, i % cols);
                (1 << (row / 128 * 2 + col / 128)) as f32
            })
            .collect();
        let (bytes, scales) =
            quantised(&values, Dtype::E4m3, shape, ScaleOf::Block.block('B', shape)).unwrap();
        assert_eq!(scales.values, [1.0, 2.0, 4.0, 8.0].map(|x| x / 448.0));
        let mut back = decode(&bytes, Dtype::E4m3).unwrap();
        assert_eq!(back, vec![448.0; rows * cols]);
        scales.apply(&mut back, cols);
        assert_eq!(back, values);
        let (_, scales) =
            quantised(&values, Dtype::E4m3, shape, ScaleOf::Block.block('A', shape)).unwrap();
        assert_eq!(scales.values.len(), 2 * rows);
        let transposed = by_blocks_of_k(&scales.values, rows);
        assert_eq!(transposed.len(), 2 * 132);
        let picked: Vec<f32> = [0, 129, 132, 132 + 129].map(|i| transposed[i] * 448.0).into();
        assert_eq!(picked, [1.0, 4.0, 2.0, 8.0]);
    }
}
