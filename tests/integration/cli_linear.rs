//! `warpipe linear` on the SM model: layers with scales of blocks, rows and tensors, as checkpoints store them.
//!
//! The numbers of x are chosen so that quantising them is exact: the largest of what has a scale is 448 times a power of 2. So
//! the right result is that of the numbers in the files, and the test computes it without anything of warpipe's.

use crate::common::{Folder, outcome, refused, same_bytes, warpipe};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::Value;

/// The numbers of a tensor, and how they are stored.
#[derive(Clone)]
struct Tensor {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    values: Vec<f64>,
}

impl Tensor {
    fn new(name: &str, dtype: Dtype, shape: &[usize], value: impl Fn(usize) -> f64) -> Self {
        let values = (0..shape.iter().product()).map(value).collect();
        Self { name: name.to_owned(), dtype, shape: shape.to_vec(), values }
    }

    fn bytes(&self) -> Vec<u8> {
        let bytes = |&x: &f64| match self.dtype {
            Dtype::F32 => (x as f32).to_le_bytes().to_vec(),
            Dtype::BF16 => half::bf16::from_f64(x).to_le_bytes().to_vec(),
            Dtype::F16 => half::f16::from_f64(x).to_le_bytes().to_vec(),
            _ => {
                vec![(0..=255).find(|&byte| e4m3(byte).to_bits() == x.to_bits()).expect("an e4m3")]
            }
        };
        self.values.iter().flat_map(bytes).collect()
    }
}

/// The number of an e4m3: 4 bits of exponent with bias 7, 3 bits of fraction, no infinities.
fn e4m3(byte: u8) -> f64 {
    let (exponent, fraction) = (i32::from(byte >> 3 & 15), f64::from(byte & 7));
    let magnitude = match (exponent, byte & 7) {
        (15, 7) => f64::NAN,
        (0, _) => fraction / 8.0 * 2f64.powi(-6),
        _ => (1.0 + fraction / 8.0) * 2f64.powi(exponent - 7),
    };
    if byte < 128 { magnitude } else { -magnitude }
}

fn save(folder: &Folder, file: &str, tensors: &[Tensor]) {
    let data: Vec<Vec<u8>> = tensors.iter().map(Tensor::bytes).collect();
    let views = tensors.iter().zip(&data).map(|(tensor, data)| {
        (tensor.name.clone(), TensorView::new(tensor.dtype, tensor.shape.clone(), data).unwrap())
    });
    folder.bytes(file, &safetensors::serialize(views, None).unwrap());
}

/// Some e4m3 of 0.25 to 1.875, by number.
fn small(i: usize) -> f64 {
    let hash = (i as u32).wrapping_mul(2_654_435_761) >> 16;
    e4m3((hash & 0x80) as u8 | (40 + (hash % 24) as u8))
}

const NAME: &str = "model.layers.3.mlp.up_proj";
const M: usize = 5;
const N: usize = 200;
const K: usize = 272;

/// The scale of x's block: a power of 2.
fn of_x(row: usize, block: usize) -> f64 {
    2f64.powi(row as i32 - 3 - 2 * block as i32)
}

/// x [1, M, K] whose scales are powers of 2: of each row and 128 of K, or of each row.
fn x(dtype: Dtype, blocks: bool) -> Tensor {
    Tensor::new("x", dtype, &[1, M, K], |i| {
        let (row, col) = (i / K, i % K);
        let (block, largest) = if blocks { (col / 128, col % 128 == 9) } else { (0, col == 9) };
        of_x(row, block) * if largest { -448.0 } else { 64.0 * small(i) }
    })
}

fn weight() -> Tensor {
    Tensor::new(&format!("{NAME}.weight"), Dtype::F8_E4M3, &[N, K], |i| small(i + 77))
}

fn scale(name: &str, dtype: Dtype, shape: &[usize]) -> Tensor {
    Tensor::new(&format!("{NAME}.{name}"), dtype, shape, |i| 0.25 + (i % 13) as f64 / 4.0)
}

fn bias(dtype: Dtype) -> Tensor {
    Tensor::new(&format!("{NAME}.bias"), dtype, &[N], |i| small(i + 5) * 64.0)
}

/// Runs the command, checks the report, and compares y with x · (scale · W)ᵀ + bias. `of` is the scale of row and column.
fn computes(
    folder: &Folder,
    more: &[&str],
    x: &Tensor,
    of: impl Fn(usize, usize) -> f64,
    bias: Option<&Tensor>,
) -> Value {
    let (input, weights, out) =
        (folder.arg("x.safetensors"), folder.arg("model.safetensors"), folder.arg("y.safetensors"));
    let always = ["linear", "--device", "sim", "--json", "--check", "--layer", NAME];
    let files = ["--input", &*input, "--out", &*out];
    let weights = if more.contains(&"--weights") { vec![] } else { vec!["--weights", &*weights] };
    let (code, stdout, stderr) = outcome(&warpipe([&always[..], &files, &weights, more].concat()));
    assert_eq!(code, 0, "{stdout}{stderr}");
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["check"]["passed"], true, "{report}");
    let file = std::fs::read(folder.path("y.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&file).unwrap();
    let y = file.tensor("y").unwrap();
    let rows = &x.shape[..x.shape.len() - 1];
    assert_eq!((y.dtype(), y.shape()), (Dtype::BF16, &*[rows, &[N]].concat()));
    let weight = weight();
    for (i, y) in y.data().chunks(2).enumerate() {
        let y = half::bf16::from_le_bytes([y[0], y[1]]).to_f64();
        let (row, col) = (i / N, i % N);
        let product = |k: usize| x.values[row * K + k] * weight.values[col * K + k] * of(col, k);
        let (sum, sizes) = (0..K).map(product).fold((0.0, 0.0), |(s, a), x| (s + x, a + x.abs()));
        let right = sum + bias.map_or(0.0, |bias| bias.values[col]);
        // Half a unit of bf16, and the short sums of 128 products in the tensor cores.
        let bound = right.abs() / 256.0 + sizes / 4096.0;
        assert!((y - right).abs() <= bound, "[{row}, {col}]: {y}, and {right} is right");
    }
    report
}

#[test]
fn a_layer_with_block_scales_and_bias() {
    let folder = Folder::new();
    let (x, bias) = (x(Dtype::BF16, true), bias(Dtype::BF16));
    let scales = scale("weight_scale_inv", Dtype::F32, &[2, 3]);
    save(&folder, "x.safetensors", std::slice::from_ref(&x));
    save(&folder, "model.safetensors", &[weight(), scales.clone(), bias.clone()]);
    let of = |row: usize, k: usize| scales.values[row / 128 * 3 + k / 128];
    let report = computes(&folder, &[], &x, of, Some(&bias));
    assert_eq!(
        report["input"].as_str().unwrap().split_once("] ").unwrap().1,
        "bf16, quantised with a scale for each 1 x 128"
    );
    assert_eq!((&report["bias"], &report["plan"]["out"]), (&true.into(), &"f32".into()));

    // The same without bias; the shards of an index; and compressed-tensors' name for the same scales.
    save(&folder, "model.safetensors", &[weight(), scales.clone()]);
    computes(&folder, &[], &x, of, None);
    save(&folder, "1.safetensors", &[weight()]);
    save(&folder, "2.safetensors", std::slice::from_ref(&scales));
    let index = format!(
        r#"{{"weight_map": {{"{NAME}.weight": "1.safetensors", "{NAME}.weight_scale_inv": "2.safetensors"}}}}"#
    );
    folder.bytes("model.safetensors.index.json", index.as_bytes());
    computes(&folder, &["--weights", &folder.arg("")], &x, of, None);
    let scales = scale("weight_scale", Dtype::BF16, &[2, 3]);
    save(&folder, "model.safetensors", &[weight(), scales]);
    computes(&folder, &["--weights", &folder.arg("model.safetensors")], &x, of, None);
}

#[test]
fn a_layer_with_scales_of_rows_and_of_tensors() {
    let folder = Folder::new();
    let x = x(Dtype::F32, false);
    save(&folder, "x.safetensors", std::slice::from_ref(&x));
    let bias = bias(Dtype::F32);
    for (dtype, shape) in [(Dtype::F32, &[N, 1][..]), (Dtype::BF16, &[N])] {
        let scales = scale("weight_scale", dtype, shape);
        save(&folder, "model.safetensors", &[weight(), scales.clone(), bias.clone()]);
        let report = computes(&folder, &[], &x, |row, _| scales.values[row], Some(&bias));
        assert!(report["input"].as_str().unwrap().ends_with("a scale for each row"), "{report}");
    }
    for shape in [&[][..], &[1], &[1, 1]] {
        let scales = scale("weight_scale", Dtype::F32, shape);
        save(&folder, "model.safetensors", &[weight(), scales]);
        let report = computes(&folder, &[], &x, |_, _| 0.25, None);
        assert!(report["scales"].as_str().unwrap().ends_with("one scale (weight_scale)"));
    }
}

/// With a scale of x in the checkpoint nothing is measured, and what is beyond its 448 becomes 448.
#[test]
fn a_layer_with_a_scale_of_its_input() {
    let folder = Folder::new();
    let mut x = Tensor::new("x", Dtype::F16, &[M, K], |i| small(i) * 8.0);
    let tensors = [
        weight(),
        scale("weight_scale", Dtype::F32, &[]),
        Tensor::new(&format!("{NAME}.input_scale"), Dtype::F32, &[1], |_| 0.125),
    ];
    save(&folder, "model.safetensors", &tensors);
    x.values[0] = 100.0;
    save(&folder, "x.safetensors", std::slice::from_ref(&x));
    x.values[0] = 448.0 * 0.125;
    computes(&folder, &[], &x, |_, _| 0.25, None);
    // The same numbers as e4m3: without an option they have that scale as well.
    let e4m3 = Tensor::new("x", Dtype::F8_E4M3, &[M, K], |i| x.values[i] * 8.0);
    save(&folder, "x.safetensors", std::slice::from_ref(&e4m3));
    computes(&folder, &[], &x, |_, _| 0.25, None);
    computes(&folder, &["--input-scale", "2"], &e4m3, |_, _| 0.5, None);
}

#[test]
fn an_input_of_e4m3_with_its_scales() {
    let folder = Folder::new();
    let scales = scale("weight_scale_inv", Dtype::F32, &[2, 3]);
    let x = Tensor::new("x", Dtype::F8_E4M3, &[M, K], small);
    let s = |shape| Tensor::new("s", Dtype::F32, shape, |i| 0.5 + i as f64);
    let of = |row: usize, k: usize| scales.values[row / 128 * 3 + k / 128];
    save(&folder, "model.safetensors", &[weight(), scales.clone()]);
    for (shape, columns) in [(&[M, 3][..], 3), (&[M, 1], 1), (&[M], 1)] {
        save(&folder, "x.safetensors", &[x.clone(), s(shape)]);
        let mut scaled = x.clone();
        for (i, x) in scaled.values.iter_mut().enumerate() {
            *x *= 0.5 + (i / K * columns + i % K / 128 % columns) as f64;
        }
        let (input, scale) = (folder.arg("x.safetensors:x"), folder.arg("x.safetensors:s"));
        let (weights, out) = (folder.arg("model.safetensors"), folder.arg("y.safetensors"));
        let arguments =
            ["linear", "--device", "sim", "--layer", NAME, "--input", &input, "--weights"];
        let rest = [&*weights, "--input-scale", &scale, "--out", &out, "--check"];
        let (code, stdout, stderr) = outcome(&warpipe([&arguments[..], &rest].concat()));
        assert_eq!(code, 0, "{stdout}{stderr}");
        assert!(stdout.contains("e4m3 with the scales of --input-scale"), "{stdout}");
        assert!(stdout.contains("a scale for each 128 x 128 (weight_scale_inv)"), "{stdout}");
        let file = std::fs::read(folder.path("y.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&file).unwrap();
        let y = file.tensor("y").unwrap();
        let right: f64 = (0..K).map(|k| scaled.values[k] * weight().values[k] * of(0, k)).sum();
        let have = half::bf16::from_le_bytes([y.data()[0], y.data()[1]]).to_f64();
        assert!((have - right).abs() <= right.abs() / 256.0 + 1e-3, "{have}, {right} is right");
    }
}

/// Rows that TMA can't read in place, one row, and no rows.
#[test]
fn odd_sizes() {
    let folder = Folder::new();
    let out = folder.arg("y.safetensors");
    for (m, n, k) in [(1, 1_usize, 1_usize), (3, 130, 129), (0, 8, 16), (2, 7, 200)] {
        let blocks = [n.div_ceil(128), k.div_ceil(128)];
        let weight = Tensor::new("l.weight", Dtype::F8_E4M3, &[n, k], small);
        let x = Tensor::new("x", Dtype::F16, &[m, k], |i| small(i) / 3.0);
        save(&folder, "x.safetensors", &[x]);
        for (name, shape) in [("weight_scale_inv", &blocks[..]), ("weight_scale", &[n])] {
            let scale = Tensor::new(&format!("l.{name}"), Dtype::F32, shape, |i| 0.5 + i as f64);
            let bias = Tensor::new("l.bias", Dtype::F16, &[n], small);
            for tensors in [vec![weight.clone(), scale.clone()], vec![weight.clone(), scale, bias]]
            {
                save(&folder, "model.safetensors", &tensors);
                let (weights, input) =
                    (folder.arg("model.safetensors"), folder.arg("x.safetensors"));
                let (code, stdout, stderr) = outcome(&warpipe([
                    "linear",
                    "--device",
                    "sim",
                    "--weights",
                    &weights,
                    "--layer",
                    "l.weight",
                    "--input",
                    &input,
                    "--out",
                    &out,
                    "--check",
                ]));
                assert_eq!(code, 0, "{m} x {n} x {k}, {name}: {stdout}{stderr}");
                let file = std::fs::read(folder.path("y.safetensors")).unwrap();
                let file = SafeTensors::deserialize(&file).unwrap();
                assert_eq!(file.tensor("y").unwrap().shape(), [m, n]);
            }
        }
    }
}

/// Each is refused with one line and exit code 2, and nothing is written.
#[test]
fn what_is_wrong_with_a_layer_is_said() {
    let folder = Folder::new();
    let blocks = || scale("weight_scale_inv", Dtype::F32, &[2, 3]);
    let good = x(Dtype::BF16, true);
    let named = |name: &str, tensor: Tensor| Tensor { name: format!("{NAME}.{name}"), ..tensor };
    let with = |mut tensor: Tensor, i: usize, value: f64| {
        tensor.values[i] = value;
        tensor
    };
    let (out, weights) = (folder.arg("y.safetensors"), folder.arg("model.safetensors"));
    let input = folder.arg("x.safetensors");
    let rest = ["--input", &*input, "--weights", &*weights, "--out", &*out];
    let always = [&["linear", "--device", "sim"][..], &rest].concat();
    let check = |layer: &str, tensors: &[Tensor], x: &Tensor, more: &[&str], words: &[&str]| {
        save(&folder, "model.safetensors", tensors);
        save(&folder, "x.safetensors", std::slice::from_ref(x));
        folder.bytes("y.safetensors", b"precious");
        refused(&[&always[..], &["--layer", layer], more].concat(), words);
        assert!(same_bytes(&folder.path("y.safetensors"), b"precious"));
    };
    let layer = |tensors: &[Tensor], words: &[&str]| check(NAME, tensors, &good, &[], words);
    check(
        "model.layers.3.mlp.upproj",
        &[weight(), blocks()],
        &good,
        &[],
        &["no layer", "it has: model.layers.3.mlp.up_proj"],
    );
    layer(&[blocks()], &["no layer", "no tensor that ends in .weight"]);
    layer(&[weight()], &["has no scale", "weight_scale_inv"]);
    layer(&[weight(), blocks(), scale("weight_scale", Dtype::F32, &[1])], &["one is right"]);
    layer(
        &[weight(), scale("weight_scale_inv", Dtype::F32, &[3, 2])],
        &["[3, 2]", "[2, 3] is right"],
    );
    layer(&[weight(), scale("weight_scale_inv", Dtype::F32, &[N])], &["[200]", "[2, 3] is right"]);
    layer(&[weight(), scale("weight_scale", Dtype::F32, &[K])], &["[272]", "[200, 1] or [2, 3]"]);
    layer(&[weight(), with(blocks(), 4, f64::NAN)], &["value 4 is NaN"]);
    layer(&[weight(), with(blocks(), 0, f64::INFINITY)], &["value 0 is inf"]);
    let e4m3 = Tensor { dtype: Dtype::F8_E4M3, ..scale("weight_scale_inv", Dtype::F32, &[2, 3]) };
    layer(&[weight(), Tensor { values: vec![1.0; 6], ..e4m3 }], &["F8_E4M3 [2, 3]", "f32"]);
    layer(&[Tensor { dtype: Dtype::BF16, ..weight() }, blocks()], &["BF16", "warpipe gemm"]);
    let cube = Tensor { shape: vec![1, N, K], ..weight() };
    layer(&[cube, blocks()], &["[1, 200, 272]", "[N, K] is right"]);
    let empty = named("weight", Tensor::new("", Dtype::F8_E4M3, &[0, K], small));
    layer(&[empty, blocks()], &["[0, 272]", "at least 1"]);
    layer(
        &[weight(), blocks(), named("bias", scale("", Dtype::F32, &[K]))],
        &["[272]", "[200] is right"],
    );
    layer(&[weight(), blocks(), with(bias(Dtype::F32), 3, f64::NAN)], &["value 3 is NaN"]);
    for bad in [0.0, -1.0, f64::NAN] {
        let s = named("input_scale", Tensor::new("", Dtype::F32, &[], |_| bad));
        layer(&[weight(), blocks(), s], &["input_scale"]);
    }
    layer(&[weight(), blocks(), scale("input_scale", Dtype::F32, &[2])], &["[2]", "one f32"]);

    let layer = [weight(), blocks()];
    let wrong = |x: &Tensor, more: &[&str], words: &[&str]| check(NAME, &layer, x, more, words);
    wrong(
        &Tensor::new("x", Dtype::BF16, &[4, 256], small),
        &[],
        &["[4, 256]", "[..., 272] is right"],
    );
    wrong(&Tensor::new("x", Dtype::F32, &[], small), &[], &["[]", "[..., 272] is right"]);
    wrong(&with(x(Dtype::F32, true), 700, f64::NAN), &[], &["value 700 is NaN"]);
    wrong(&good, &["--input-scale", "2"], &["omit it"]);
    let e4m3 = Tensor::new("x", Dtype::F8_E4M3, &[M, K], small);
    wrong(&e4m3, &[], &["give its --input-scale"]);
    wrong(&e4m3, &["--input-scale", "0"], &["--input-scale is 0"]);
    wrong(&e4m3, &["--input-scale", "nan"], &["not a finite"]);
    wrong(&e4m3, &["--input-scale", &folder.arg("x.safetensors:x")], &["[5, 1] or [5, 3]"]);
    wrong(&Tensor { dtype: Dtype::F8_E5M2, values: vec![0.0; M * K], ..e4m3 }, &[], &["F8_E5M2"]);
    // The result may not replace what is read.
    save(&folder, "model.safetensors", &layer);
    let arguments = ["linear", "--layer", NAME, "--input", &*input, "--weights", &*weights];
    refused(&[&arguments[..], &["--out", &weights]].concat(), &["it is an input"]);
    refused(&arguments, &["give --out FILE[:TENSOR], --check or both"]);
    refused(&[&arguments[..5], &["--weights", "nowhere", "--check"]].concat(), &["nowhere"]);
}
