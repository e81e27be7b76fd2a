//! `warpipe gemm` on the SM model: generated operands of awkward shapes, files in and out.

use crate::common::{Folder, outcome, same_bytes, warpipe};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::Value;

/// Runs `gemm --device sim --json` and gives its exit code and report.
fn gemm(arguments: &[&str]) -> (i32, Value) {
    let (code, stdout, stderr) =
        outcome(&warpipe(["gemm", "--device", "sim", "--json"].iter().chain(arguments)));
    let report = serde_json::from_str(&stdout);
    (code, report.unwrap_or_else(|e| panic!("{arguments:?}: {e}: {stdout}{stderr}")))
}

/// A generated product must pass its check with an error below `bound`.
fn passes(size: [&str; 3], more: &[&str], bound: f64) {
    let [m, n, k] = size;
    let arguments = [&["--check", "--m", m, "--n", n, "--k", k], more].concat();
    let (code, report) = gemm(&arguments);
    let check = &report["check"];
    assert_eq!((code, &check["passed"]), (0, &Value::Bool(true)), "{report}");
    assert!(check["relative_error"].as_f64().unwrap() < bound, "{report}");
    let elements = m.parse::<u64>().unwrap() * n.parse::<u64>().unwrap();
    assert_eq!(check["compared"], elements, "{report}");
    assert_eq!(report["simulated"], true);
}

#[test]
fn one_element() {
    passes(["1", "1", "1"], &[], 4e-3);
    passes(["1", "1", "1"], &["--out-dtype", "f32"], 1e-6);
}

#[test]
fn epilogues() {
    for epilogue in ["bias", "bias+gelu", "silu", "bias+relu+residual"] {
        passes(["33", "96", "40"], &["--epilogue", epilogue], 4e-3);
    }
    for epilogue in ["bias+swiglu", "geglu"] {
        let size = ["--m", "33", "--n", "96", "--k", "40"];
        let (code, report) = gemm(&[&size[..], &["--check", "--epilogue", epilogue]].concat());
        assert_eq!((code, &report["check"]["compared"]), (0, &Value::from(33 * 48)), "{report}");
        assert!(report["check"]["relative_error"].as_f64().unwrap() < 4e-3, "{report}");
    }
    passes(["5", "72", "40"], &["--epilogue", "bias+gelu-tanh", "--dtype", "f16"], 5e-4);
    passes(["40", "72", "40"], &["--epilogue", "bias+relu", "--beta", "-0.5"], 4e-3);
    let e4m3 = ["--dtype", "e4m3", "--epilogue", "bias+gelu", "--scales", "row"];
    passes(["33", "75", "140"], &e4m3, 4e-3);
    passes(["33", "75", "140"], &[&e4m3[..], &["--fast-accum"]].concat(), 1e-2);
}

#[test]
fn layouts_and_batches() {
    let size = ["--m", "137", "--n", "72", "--k", "75", "--check"];
    for layout in ["tn", "tt", "nn", "nt"] {
        for more in [&["--batch", "2"][..], &["--batch", "3", "--broadcast-b", "--dtype", "f16"]] {
            let (code, report) = gemm(&[&size[..], &["--layout", layout], more].concat());
            let count = 137 * 72 * more[1].parse::<u64>().unwrap();
            assert_eq!((code, &report["check"]["compared"]), (0, &Value::from(count)), "{report}");
            assert_eq!(report["plan"]["layout"], layout, "{report}");
        }
    }
    // Lines of D that TMA can't write, and C.
    let odd =
        ["--m", "37", "--n", "71", "--k", "75", "--check", "--layout", "nt", "--beta", "-0.5"];
    let (code, report) = gemm(&[&odd[..], &["--batch", "2"]].concat());
    assert_eq!((code, &report["check"]["passed"]), (0, &Value::Bool(true)), "{report}");
    let copied: Vec<_> =
        report["plan"]["staging"].as_array().unwrap().iter().map(|copy| &copy["operand"]).collect();
    assert_eq!(copied, ["A", "B", "C", "D"], "{report}");
    let turned = ["--m", "72", "--n", "137", "--k", "75", "--check", "--column-major"];
    let (code, report) = gemm(&turned);
    assert_eq!((code, &report["check"]["passed"]), (0, &Value::Bool(true)), "{report}");
}

/// The same product from files in each layout, alone and in batches, with a result for files of Python's.
#[test]
fn layouts_of_files() {
    let (m, n, k) = (40, 24, 48);
    let folder = Folder::new();
    let turned = |rows: usize, cols: usize, salt: usize| -> Vec<u8> {
        (0..cols)
            .flat_map(|col| (0..rows).flat_map(move |row| bf16(number(row, col, salt))))
            .collect()
    };
    let straight = |rows: usize, cols: usize, salt: usize| -> Vec<u8> {
        (0..rows)
            .flat_map(|row| (0..cols).flat_map(move |col| bf16(number(row, col, salt))))
            .collect()
    };
    let twice = |one: &[u8]| [one, one].concat();
    let (a, at) = (straight(m, k, 0), turned(m, k, 0));
    let (b, bt) = (straight(n, k, 1), turned(n, k, 1));
    let (aa, bb) = (twice(&at), twice(&bt));
    let tensors: [(&str, Vec<usize>, &[u8]); 6] = [
        ("a", vec![m, k], &a),
        ("at", vec![k, m], &at),
        ("b", vec![n, k], &b),
        ("bt", vec![k, n], &bt),
        ("ats", vec![2, k, m], &aa),
        ("bts", vec![2, k, n], &bb),
    ];
    let views = tensors
        .map(|(name, shape, data)| (name, TensorView::new(Dtype::BF16, shape, data).unwrap()));
    folder.bytes("in.safetensors", &safetensors::serialize(views, None).unwrap());
    let tensor = |name: &str| folder.arg(&format!("in.safetensors:{name}"));
    let run = |a: &str, b: &str, more: &[&str]| {
        let (a, b, out) = (tensor(a), tensor(b), folder.arg("y.safetensors"));
        let (code, report) =
            gemm(&[&["--a", &a, "--b", &b, "--out", &out, "--check"], more].concat());
        assert_eq!(code, 0, "{report}");
        let (_, shape, values) = read(&folder, "y.safetensors", "d");
        (shape, values)
    };
    let right = expected(m, n, k, 1.0, 0.0);
    let close = |values: &[f32], right: &[f32]| {
        values.len() == right.len()
            && values.iter().zip(right).all(|(v, r)| (v - r).abs() <= 0.01 * r.abs().max(1.0))
    };
    for (layout, a, b) in
        [("tn", "a", "b"), ("tt", "a", "bt"), ("nn", "at", "b"), ("nt", "at", "bt")]
    {
        let (shape, values) = run(a, b, &["--layout", layout]);
        assert!(shape == [m, n] && close(&values, &right), "{layout}: {shape:?}");
    }
    let batches = [&right[..], &right].concat();
    for b in ["bts", "bt"] {
        let (shape, values) = run("ats", b, &["--layout", "nt"]);
        assert!(shape == [2, m, n] && close(&values, &batches), "{b}: {shape:?}");
    }
    let columns: Vec<f32> = (0..n)
        .flat_map(|col| (0..m).map(move |row| (row, col)))
        .map(|(row, col)| right[row * n + col])
        .collect();
    let (shape, values) = run("a", "b", &["--column-major"]);
    assert!(shape == [n, m] && close(&values, &columns), "{shape:?}");

    let before = folder.list();
    for (a, b, more, right) in [
        ("at", "b", "--layout nt", "K differs: 48 of A"),
        ("at", "bts", "--layout nt", "has 1 matrices"),
        ("a", "b", "--layout tn --batch 2", "omit --batch"),
        ("a", "b", "--layout tn --out-dtype f32", "have no --out-dtype"),
    ] {
        let (a, b, out) = (tensor(a), tensor(b), folder.arg("none.safetensors"));
        let files = ["gemm", "--a", &a, "--b", &b, "--out", &out, "--device", "sim"];
        let (code, _, stderr) = outcome(&warpipe(files.into_iter().chain(more.split(' '))));
        assert!(code == 2 && stderr.contains(right), "{more}: {code} {stderr}");
    }
    assert_eq!(folder.list(), before);
}

#[test]
fn residues_in_all_dimensions() {
    passes(["129", "257", "65"], &[], 4e-3);
    passes(["129", "257", "65"], &["--out-dtype", "f32", "--dtype", "f16"], 1e-6);
    passes(["300", "520", "72"], &["--dtype", "f16"], 5e-4);
    passes(["300", "520", "72"], &["--out-dtype", "f32"], 1e-6);
}

#[test]
fn rows_that_tma_cannot_read() {
    passes(["7", "1000", "333"], &[], 4e-3);
    passes(["7", "1000", "333"], &["--out-dtype", "f32", "--beta", "-1.5", "--seed", "9"], 1e-6);
}

#[test]
fn factors_and_c() {
    for out in ["bf16", "f16", "f32"] {
        let more = ["--alpha", "-0.75", "--beta", "2", "--out-dtype", out, "--seed", "5"];
        passes(["130", "72", "200"], &more, 4e-3);
    }
}

#[test]
fn empty_dimensions() {
    let (code, report) = gemm(&["--m", "0", "--n", "8", "--k", "8", "--check"]);
    assert_eq!((code, &report["check"]["compared"]), (0, &Value::from(0)), "{report}");
    // beta * C, whatever alpha is.
    passes(["5", "40", "0"], &["--beta", "2"], 1e-9);
    passes(["5", "40", "0"], &[], 1e-9);
}

#[test]
fn the_seed_decides() {
    let error = |seed| {
        let (_, report) = gemm(&["--m", "8", "--n", "8", "--k", "64", "--check", "--seed", seed]);
        report["check"]["relative_error"].as_f64().unwrap()
    };
    assert_eq!(error("1").to_bits(), error("1").to_bits());
    assert_ne!(error("1").to_bits(), error("2").to_bits());
}

/// Small whole numbers: exact in every type, and so is their product here.
fn number(row: usize, col: usize, salt: usize) -> f32 {
    ((row * 7 + col * 3 + salt) % 5) as f32 - 2.0
}

fn bf16(value: f32) -> [u8; 2] {
    assert_eq!(value.to_bits() << 16, 0, "{value} is no bf16");
    ((value.to_bits() >> 16) as u16).to_le_bytes()
}

/// Writes matrices of [`number`]s as bf16, `(name, rows, cols, salt)`.
fn write(folder: &Folder, file: &str, matrices: &[(&str, usize, usize, usize)]) {
    let data: Vec<Vec<u8>> = matrices
        .iter()
        .map(|&(_, rows, cols, salt)| {
            (0..rows * cols).flat_map(|i| bf16(number(i / cols, i % cols, salt))).collect()
        })
        .collect();
    let views = matrices.iter().zip(&data).map(|(&(name, rows, cols, _), data)| {
        (name, TensorView::new(Dtype::BF16, vec![rows, cols], data).unwrap())
    });
    folder.bytes(file, &safetensors::serialize(views, None).unwrap());
}

/// `number`s multiplied: alpha * A * B^T + beta * C.
fn expected(m: usize, n: usize, k: usize, alpha: f32, beta: f32) -> Vec<f32> {
    let element = |i: usize, j: usize| {
        let sum: f32 = (0..k).map(|l| number(i, l, 0) * number(j, l, 1)).sum();
        alpha * sum + beta * number(i, j, 2)
    };
    (0..m * n).map(|i| element(i / n, i % n)).collect()
}

fn read(folder: &Folder, file: &str, tensor: &str) -> (Dtype, Vec<usize>, Vec<f32>) {
    let bytes = std::fs::read(folder.path(file)).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let view = file.tensor(tensor).unwrap();
    let values = match view.dtype() {
        Dtype::F32 => {
            view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
        }
        _ => view
            .data()
            .chunks_exact(2)
            .map(|b| f32::from_bits(u32::from(u16::from_le_bytes(b.try_into().unwrap())) << 16))
            .collect(),
    };
    (view.dtype(), view.shape().to_vec(), values)
}

#[test]
fn files_in_and_out() {
    let folder = Folder::new();
    let (m, n, k) = (19, 33, 40);
    write(&folder, "x.safetensors", &[("x", m, k, 0)]);
    write(&folder, "w.safetensors", &[("w.weight", n, k, 1), ("c", m, n, 2), ("other", 3, 3, 3)]);
    let (x, w) = (folder.arg("x.safetensors"), folder.arg("w.safetensors:w.weight"));
    let (c, out) = (folder.arg("w.safetensors:c"), folder.arg("y.safetensors"));

    // A file with one tensor needs no name; the result is called d.
    let (code, report) = gemm(&["--a", &x, "--b", &w, "--out", &out, "--out-dtype", "f32"]);
    assert_eq!(code, 0);
    assert!(report["out"].as_str().unwrap().ends_with("y.safetensors:d"), "{report}");
    let (dtype, shape, values) = read(&folder, "y.safetensors", "d");
    assert_eq!((dtype, shape), (Dtype::F32, vec![m, n]));
    assert_eq!(values, expected(m, n, k, 1.0, 0.0));

    // Over the file of before, with C and factors; beta is 1 where C is given.
    let out = folder.arg("y.safetensors:layer.out");
    let (code, _) =
        gemm(&["--a", &x, "--b", &w, "--c", &c, "--alpha", "0.5", "--out", &out, "--check"]);
    assert_eq!(code, 0);
    let (dtype, shape, values) = read(&folder, "y.safetensors", "layer.out");
    assert_eq!((dtype, shape), (Dtype::BF16, vec![m, n]));
    assert_eq!(values, expected(m, n, k, 0.5, 1.0));
    assert_eq!(folder.list(), ["w.safetensors", "x.safetensors", "y.safetensors"]);
}

#[test]
fn an_empty_batch_gives_an_empty_file() {
    let folder = Folder::new();
    write(&folder, "in.safetensors", &[("x", 0, 16, 0), ("w", 8, 16, 1)]);
    let (x, w) = (folder.arg("in.safetensors:x"), folder.arg("in.safetensors:w"));
    let (code, _) = gemm(&["--a", &x, "--b", &w, "--out", &folder.arg("y.safetensors")]);
    assert_eq!(code, 0);
    let (_, shape, values) = read(&folder, "y.safetensors", "d");
    assert_eq!((shape, values), (vec![0, 8], Vec::new()));
}

#[test]
fn a_failed_check_exits_with_1_and_writes_nothing() {
    let folder = Folder::new();
    let nan = 0x7fc0_u16.to_le_bytes().repeat(16 * 16);
    let view = TensorView::new(Dtype::BF16, vec![16, 16], &nan).unwrap();
    folder.bytes("nan.safetensors", &safetensors::serialize([("x", view)], None).unwrap());
    folder.bytes("old.safetensors", b"an earlier result");
    let x = folder.arg("nan.safetensors");
    for out in ["new.safetensors", "old.safetensors"] {
        let out = folder.arg(out);
        let (code, stdout, stderr) = outcome(&warpipe([
            "gemm", "--a", &x, "--b", &x, "--check", "--out", &out, "--device", "sim",
        ]));
        assert_eq!(code, 1, "{stderr}");
        assert!(
            stderr.starts_with("error: check failed") && stderr.lines().count() == 1,
            "{stderr}"
        );
        assert!(stdout.contains("FAILED"), "{stdout}");
    }
    assert_eq!(folder.list(), ["nan.safetensors", "old.safetensors"]);
    assert!(same_bytes(&folder.path("old.safetensors"), b"an earlier result"));
}

#[test]
fn auto_says_what_it_takes() {
    let (code, stdout, stderr) =
        outcome(&warpipe(["gemm", "--m", "16", "--n", "16", "--k", "16", "--check"]));
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("SM model") || stdout.contains("sm_90"), "{stdout}");
}
