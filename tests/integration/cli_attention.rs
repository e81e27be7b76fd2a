//! `warpipe attention` and `warpipe check attention` on the SM model: generated operands, files in and out, bad input.

use crate::common::{Folder, outcome, refused, same_bytes, warpipe};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::Value;

/// Runs `attention --device sim --json` and gives its exit code and report.
fn attention(arguments: &[&str]) -> (i32, Value) {
    let (code, stdout, stderr) =
        outcome(&warpipe(["attention", "--device", "sim", "--json"].iter().chain(arguments)));
    let report = serde_json::from_str(&stdout);
    (code, report.unwrap_or_else(|e| panic!("{arguments:?}: {e}: {stdout}{stderr}")))
}

/// Generated attention must pass its check. Returns the report.
fn passes(arguments: &str) -> Value {
    let arguments: Vec<&str> = ["--check"].into_iter().chain(arguments.split(' ')).collect();
    let (code, report) = attention(&arguments);
    let check = &report["check"];
    assert_eq!((code, &check["passed"]), (0, &Value::Bool(true)), "{report}");
    assert!(check["worst"].as_f64().unwrap() <= 1.0, "{report}");
    assert_eq!((&report["simulated"], &check["sampled"]), (&true.into(), &false.into()));
    report
}

#[test]
fn generated_operands() {
    passes("--heads 1 --seq 1 --head-dim 8");
    let report = passes("--heads 4 --kv-heads 2 --seq 150 --head-dim 64 --causal --batch 2 --lse");
    assert!(report["check"]["worst_lse"].as_f64().unwrap() <= 1.0, "{report}");
    assert_eq!(report["check"]["elements"], 2 * 4 * 150 * 64);
    assert_eq!(
        (&report["plan"]["mask"], &report["plan"]["heads_kv"]),
        (&"causal".into(), &2.into())
    );
    passes("--heads 1 --seq 200 --seq-q 70 --head-dim 128 --window 30,5 --dtype f16");
    passes("--heads 2 --seq 130 --head-dim 80 --softcap 4 --scale 0.3 --layout bhsd --seed 3");
    // The first queries see no key.
    passes("--heads 1 --seq 20 --seq-q 150 --head-dim 64 --causal --lse");
}

/// Caches, and caches in pages, of generated operands and of files.
#[test]
fn queries_with_a_cache() {
    let folder = Folder::new();
    folder.bytes("keys.txt", b"100\n0\n65\n");
    let keys = folder.arg("keys.txt");
    let shape = format!("--heads 4 --kv-heads 1 --head-dim 64 --lse --cache-seqlens {keys}");
    let report = passes(&shape);
    let plan = &report["plan"];
    assert!(plan["kernel"].as_str().unwrap().contains("_decode"), "{plan}");
    assert_eq!(
        (&plan["cached_keys"], &plan["seq_kv"], &plan["seq_q"]),
        (&165.into(), &100.into(), &1.into())
    );
    assert_eq!(report["kv_bytes"], 2 * 165 * 64 * 2);
    passes(&format!("{shape} --seq 200 --seq-q 3 --causal --layout bhsd"));
    let report = passes(&format!("{shape} --seq 200 --page-size 64 --seed 5"));
    assert_eq!(report["plan"]["seq_kv"], 256);

    // Two pages of 64 rows in use, of three.
    let (q, kv) = ([2, 1, 4, 16], [3, 64, 2, 16]);
    write(&folder, "in.safetensors", &[("q", &q), ("ke", &kv), ("val", &kv)]);
    let table: Vec<u8> = [2i32, -1, 0, 1].iter().flat_map(|page| page.to_le_bytes()).collect();
    let view = TensorView::new(Dtype::I32, vec![2, 2], &table).unwrap();
    folder.bytes("table.safetensors", &safetensors::serialize([("pages", view)], None).unwrap());
    folder.bytes("keys.txt", b"[60, 100]");
    let [q, k, v] = ["q", "ke", "val"].map(|name| folder.arg(&format!("in.safetensors:{name}")));
    let (table, out) = (folder.arg("table.safetensors:pages"), folder.arg("out.safetensors"));
    let files = ["--q", &q, "--k", &k, "--v", &v, "--cache-seqlens", &keys];
    let paged = [&files[..], &["--block-table", &table, "--check", "--out", &out]].concat();
    assert_eq!(attention(&paged).0, 0);
    assert_eq!(read(&folder, "out.safetensors", "o").1, [2, 1, 4, 16]);

    let refuses = |more: &[&str], words: &str| {
        let run = ["attention", "--device", "sim", "--check"];
        refused(&[&run[..], &files[..], more].concat(), &[words]);
    };
    // Without the block table, K has three sequences.
    refuses(&[], "K = ");
    refuses(&["--block-table", &k], "i32 or u32");
    for (lengths, words) in [
        ("60 100", "60 and 100; one number"),
        ("60 60 60", "3 numbers"),
        ("60", "1 sequences"),
        ("60\n129", "sequence 1 has 129 keys"),
    ] {
        folder.bytes("keys.txt", lengths.as_bytes());
        refuses(&["--block-table", &table], words);
    }
}

#[test]
fn the_seed_decides() {
    let error = |seed| {
        let report = passes(&format!("--heads 1 --seq 9 --head-dim 16 --seed {seed}"));
        report["check"]["relative_error"].as_f64().unwrap().to_bits()
    };
    assert_eq!(error(1), error(1));
    assert_ne!(error(1), error(2));
}

#[test]
fn the_text_says_what_was_computed() {
    let arguments = ["attention", "--heads", "2", "--seq", "40", "--head-dim", "64", "--check"];
    let (code, stdout, stderr) = outcome(&warpipe([&arguments[..], &["--device", "sim"]].concat()));
    assert_eq!(code, 0, "{stderr}");
    for words in ["2 query and 2 key heads of 64", "40 queries", "full on", "check   passed"] {
        assert!(stdout.contains(words), "{words}: {stdout}");
    }
}

/// Rows of small whole numbers in bf16.
fn numbers(count: usize, salt: usize) -> Vec<u8> {
    let number = |i: usize| ((i * 7 + i / 5 + salt) % 9) as f32 - 4.0;
    (0..count).flat_map(|i| ((number(i).to_bits() >> 16) as u16).to_le_bytes()).collect()
}

/// Writes tensors of [`numbers`] as bf16.
fn write(folder: &Folder, file: &str, tensors: &[(&str, &[usize])]) {
    let data: Vec<_> =
        tensors.iter().map(|(name, shape)| numbers(shape.iter().product(), name.len())).collect();
    let views = tensors.iter().zip(&data).map(|((name, shape), data)| {
        (*name, TensorView::new(Dtype::BF16, shape.to_vec(), data).unwrap())
    });
    folder.bytes(file, &safetensors::serialize(views, None).unwrap());
}

/// Dtype and shape of a tensor, and its bytes.
fn read(folder: &Folder, file: &str, tensor: &str) -> (Dtype, Vec<usize>, Vec<u8>) {
    let bytes = std::fs::read(folder.path(file)).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let view = file.tensor(tensor).unwrap();
    (view.dtype(), view.shape().to_vec(), view.data().to_vec())
}

#[test]
fn files_in_and_out() {
    let folder = Folder::new();
    let (q, kv) = ([1, 30, 4, 16], [1, 50, 2, 16]);
    write(&folder, "in.safetensors", &[("q", &q), ("ke", &kv), ("val", &kv)]);
    let [q, k, v] = ["q", "ke", "val"].map(|name| folder.arg(&format!("in.safetensors:{name}")));
    let out = folder.arg("out.safetensors");
    let files = ["--q", &q, "--k", &k, "--v", &v, "--check", "--out", &out];
    let (code, report) = attention(&[&files[..], &["--causal", "--lse"]].concat());
    assert_eq!(code, 0, "{report}");
    assert!(report["out"].as_str().unwrap().ends_with("out.safetensors:o"), "{report}");
    let (dtype, shape, _) = read(&folder, "out.safetensors", "o");
    assert_eq!((dtype, shape), (Dtype::BF16, vec![1, 30, 4, 16]));
    let (dtype, shape, lse) = read(&folder, "out.safetensors", "lse");
    assert_eq!((dtype, shape, lse.len()), (Dtype::F32, vec![1, 4, 30], 4 * 4 * 30));
    // The same numbers as [batch, heads, seq, dim] are another problem, and have another shape.
    let (qt, kt) = ([1, 4, 30, 16], [1, 2, 50, 16]);
    write(&folder, "in.safetensors", &[("q", &qt), ("ke", &kt), ("val", &kt)]);
    let out = folder.arg("out.safetensors:x");
    let files = ["--q", &q, "--k", &k, "--v", &v, "--check", "--out", &out, "--layout", "bhsd"];
    assert_eq!(attention(&files).0, 0);
    assert_eq!(read(&folder, "out.safetensors", "x").1, [1, 4, 30, 16]);
    assert_eq!(folder.list(), ["in.safetensors", "out.safetensors"]);
}

#[test]
fn a_failed_check_exits_with_1_and_writes_nothing() {
    let folder = Folder::new();
    let nan = 0x7fc0_u16.to_le_bytes().repeat(16 * 16);
    let view = TensorView::new(Dtype::BF16, vec![1, 16, 1, 16], &nan).unwrap();
    folder.bytes("nan.safetensors", &safetensors::serialize([("x", view)], None).unwrap());
    let (x, out) = (folder.arg("nan.safetensors"), folder.arg("new.safetensors"));
    let arguments = ["attention", "--q", &x, "--k", &x, "--v", &x, "--check", "--out", &out];
    let (code, stdout, stderr) = outcome(&warpipe([&arguments[..], &["--device", "sim"]].concat()));
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.starts_with("error: check failed") && stderr.lines().count() == 1, "{stderr}");
    assert!(stdout.contains("FAILED"), "{stdout}");
    assert_eq!(folder.list(), ["nan.safetensors"]);
}

/// Options that are refused, each with words of the message.
#[test]
fn bad_options() {
    let shape = "--heads 4 --seq 16 --head-dim 64";
    for (options, words) in [
        ("--heads 4 --seq 16", "no operands"),
        ("--heads 0 --seq 16 --head-dim 64", "0 query heads"),
        ("--heads 4 --kv-heads 3 --seq 16 --head-dim 64", "4 query heads and 3 key heads"),
        ("--heads 4 --seq 0 --head-dim 64", "seq_q = 0"),
        ("--heads 4 --seq 16 --head-dim 100", "head dim 100"),
        ("--heads 4 --seq 16 --head-dim 512", "8 to 256"),
        ("--heads 4 --seq 4294967296 --head-dim 64", "4294967296"),
        ("--heads 65536 --batch 60000 --seq 500000000 --head-dim 256", "tiles of 64 queries"),
        ("{} --window 3", "L,R"),
        ("{} --causal --window 3,4", "4 keys behind the diagonal"),
        ("{} --scale 0", "scale of 0"),
        ("{} --scale inf", "finite"),
        ("{} --softcap -1", "unexpected argument '-1'"),
        ("{} --dtype f32", "bf16 or f16"),
        ("{} --layout hsbd", "bshd"),
        ("{} --bench", "needs a GPU"),
        ("{} --varlen lengths.txt", "cannot be used with"),
        ("--heads 4 --head-dim 64 --varlen none.txt", "none.txt: not a list of lengths"),
        ("{} --q x.safetensors", "cannot be used with"),
        ("--q x.safetensors --k x.safetensors", "--v"),
    ] {
        let options = options.replace("{}", shape);
        let all = format!("attention --device sim {options}");
        refused(&all.split(' ').collect::<Vec<_>>(), &[words]);
    }
}

#[test]
fn tensors_that_do_not_match() {
    let folder = Folder::new();
    folder.bytes("out.safetensors", b"an earlier result");
    folder.zeros(
        "in.safetensors",
        &[
            ("q", Dtype::BF16, &[2, 8, 4, 64]),
            ("kv", Dtype::BF16, &[2, 8, 2, 64]),
            ("short", Dtype::BF16, &[2, 7, 2, 64]),
            ("one", Dtype::BF16, &[1, 8, 2, 64]),
            ("three", Dtype::BF16, &[2, 8, 3, 64]),
            ("half", Dtype::F16, &[2, 8, 2, 64]),
            ("single", Dtype::F32, &[2, 8, 2, 64]),
            ("flat", Dtype::BF16, &[16, 128]),
        ],
    );
    let out = folder.arg("out.safetensors");
    for (q, k, v, words) in [
        ("flat", "kv", "kv", "Q = "),
        ("flat", "kv", "kv", "expected [batch, seq, heads, dim]"),
        ("q", "kv", "short", ":short has shape [2, 7, 2, 64]; expected the shape of K"),
        ("q", "one", "one", "expected the batch and the head dim of Q"),
        ("q", "three", "three", "4 query heads and 3 key heads"),
        ("q", "half", "kv", "Q is bf16"),
        ("q", "kv", "single", "V = "),
        ("single", "kv", "kv", "bf16 or f16"),
        ("none", "kv", "kv", "no tensor none"),
    ] {
        let [q, k, v] = [q, k, v].map(|name| folder.arg(&format!("in.safetensors:{name}")));
        let files =
            ["attention", "--device", "sim", "--q", &q, "--k", &k, "--v", &v, "--out", &out];
        refused(&files, &[words]);
    }
    let q = folder.arg("in.safetensors:q");
    refused(&["attention", "--q", &q, "--k", &q, "--v", &q], &["the result is not used"]);
    let over = folder.arg("in.safetensors");
    let files = ["attention", "--q", &q, "--k", &q, "--v", &q, "--out", &over];
    refused(&files, &["it is an input"]);
    let out = folder.arg("out.safetensors:lse");
    let files = ["attention", "--q", &q, "--k", &q, "--v", &q, "--lse", "--out", &out];
    refused(&files, &["give O another name"]);
    assert!(same_bytes(&folder.path("out.safetensors"), b"an earlier result"));
    assert_eq!(folder.list(), ["in.safetensors", "out.safetensors"]);
}

#[test]
fn lengths_in_files() {
    let folder = Folder::new();
    for (text, words) in [
        ("", "no lengths"),
        ("3 4\n5 x", "line 2: \"x\" is no number"),
        ("1 2 3", "line 1: 3 numbers"),
        ("[[1, 2], 3", "not a list of lengths"),
        ("0 4\n0 5", "cu_seqlens_q ends with 0"),
    ] {
        folder.bytes("lengths", text.as_bytes());
        let file = folder.arg("lengths");
        let options = ["--heads", "2", "--head-dim", "64", "--varlen", &file];
        refused(&[&["attention", "--device", "sim"][..], &options].concat(), &[words]);
    }
    for (text, sequences) in [("3 4\n\n150\n", 2), ("[[3, 4], 5, [0, 6]]", 3)] {
        folder.bytes("lengths", text.as_bytes());
        let file = folder.arg("lengths");
        let report = passes(&format!("--heads 2 --head-dim 64 --causal --lse --varlen {file}"));
        let plan = &report["plan"];
        assert_eq!(
            (&plan["batch"], &plan["packed"]),
            (&sequences.into(), &true.into()),
            "{report}"
        );
    }
}

#[test]
fn schedules_of_attention() {
    let (code, stdout, stderr) = outcome(&warpipe(
        "check attention --heads 2 --kv-heads 1 --seq 140 --head-dim 64 --causal --seeds 3"
            .split(' '),
    ));
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    let line = "attention_bf16_d64_192x128 1 x 2/1 heads of 64, 140 x 140, causal: 3 schedules, no finding";
    assert!(stdout.contains(line), "{stdout}");
    let named = "check attention --instance attention_f16_d64_128x128_cap --seeds 2 --pct 3";
    let (code, stdout, stderr) = outcome(&warpipe(named.split(' ')));
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert!(
        stdout.starts_with("attention_f16_d64_128x128_cap 1 x 2/1 heads of 64, 300 x 200"),
        "{stdout}"
    );
    for (options, words) in [
        ("attention --m 3 --n 3 --k 3", "attention has no --m"),
        ("attention --instance d999", "attention_bf16_d128_128x128_cap"),
        ("attention name", "only an example has a name"),
        ("gemm --causal", "options of `check attention`"),
        ("example --heads 3", "options of `check attention`"),
    ] {
        let all = format!("check {options}");
        refused(&all.split(' ').collect::<Vec<_>>(), &[words]);
    }
}
