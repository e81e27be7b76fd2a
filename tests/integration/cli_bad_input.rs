//! Bad input to the commands: exit code 2, one line that names file, tensor and numbers, no
//! output left behind, an existing one untouched.

use crate::common::{Folder, outcome, refused, same_bytes, warpipe};
use safetensors::tensor::Dtype::{BF16, F16, F32, I64};

/// What stands in the output file before each test.
const PRECIOUS: &[u8] = b"an earlier result";

/// A folder with good operands and an existing output.
struct Fixture {
    folder: Folder,
}

impl Fixture {
    fn new() -> Self {
        let folder = Folder::new();
        folder.zeros(
            "good.safetensors",
            &[
                ("a", BF16, &[4, 16]),
                ("b", BF16, &[8, 16]),
                ("c", BF16, &[4, 8]),
                ("c32", F32, &[4, 8]),
                ("half", F16, &[8, 16]),
                ("wide", BF16, &[8, 24]),
                ("vector", BF16, &[16]),
                ("cube", BF16, &[2, 2, 16]),
                ("single", F32, &[4, 16]),
                ("ids", I64, &[4, 16]),
            ],
        );
        folder.bytes("out.safetensors", PRECIOUS);
        Self { folder }
    }

    /// `gemm` with `a` and `b`, once to a new file and once over an existing one.
    fn refuses(&self, a: &str, b: &str, more: &[&str], words: &[&str]) {
        let before = self.folder.list();
        for out in ["new.safetensors", "out.safetensors"] {
            let (a, b, out) = (self.folder.arg(a), self.folder.arg(b), self.folder.arg(out));
            let mut arguments =
                vec!["gemm", "--a", &a, "--b", &b, "--out", &out, "--device", "sim"];
            arguments.extend(more);
            refused(&arguments, words);
            assert_eq!(self.folder.list(), before);
            assert!(same_bytes(&self.folder.path("out.safetensors"), PRECIOUS));
        }
    }

    /// A bad file as A.
    fn refuses_file(&self, name: &str, words: &[&str]) {
        let words = [&[name], words].concat();
        self.refuses(&format!("{name}:a"), "good.safetensors:b", &[], &words);
    }
}

const A: &str = "good.safetensors:a";
const B: &str = "good.safetensors:b";

#[test]
fn no_such_file_and_no_file() {
    let f = Fixture::new();
    f.refuses_file("none.safetensors", &["No such file"]);
    std::fs::create_dir(f.folder.path("folder.safetensors")).unwrap();
    f.refuses_file("folder.safetensors", &["not a regular file"]);
}

#[test]
fn truncated_and_corrupt_headers() {
    let f = Fixture::new();
    f.folder.bytes("empty.safetensors", b"");
    f.refuses_file("empty.safetensors", &["0 bytes are too short"]);
    f.folder.bytes("short.safetensors", &[9, 0, 0]);
    f.refuses_file("short.safetensors", &["3 bytes are too short"]);
    f.folder.bytes("beyond.safetensors", &[&1000_u64.to_le_bytes()[..], b"{}"].concat());
    f.refuses_file("beyond.safetensors", &["header of 1000 bytes", "the file's 10"]);
    f.folder.bytes("huge.safetensors", &[&u64::MAX.to_le_bytes()[..], b"{}"].concat());
    f.refuses_file("huge.safetensors", &["18446744073709551615", "the file's 10"]);
    f.folder.header("json.safetensors", "{\"a\": {\"dtype\": \"BF16\"", 0);
    f.refuses_file("json.safetensors", &["not safetensors JSON"]);
    f.folder.bytes("utf8.safetensors", &[&2_u64.to_le_bytes()[..], &[0xff, 0xfe]].concat());
    f.refuses_file("utf8.safetensors", &["not safetensors JSON"]);
    f.folder.header(
        "type.safetensors",
        r#"{"a":{"dtype":"BF17","shape":[1,1],"data_offsets":[0,2]}}"#,
        2,
    );
    f.refuses_file("type.safetensors", &["BF17"]);
    f.folder.header(
        "negative.safetensors",
        r#"{"a":{"dtype":"BF16","shape":[-1,1],"data_offsets":[0,2]}}"#,
        2,
    );
    f.refuses_file("negative.safetensors", &["-1"]);
}

#[test]
fn offsets() {
    let f = Fixture::new();
    let file = |name: &str, a: [u64; 2], z: [u64; 2], data: usize| {
        let json = format!(
            r#"{{"a":{{"dtype":"BF16","shape":[4,16],"data_offsets":{a:?}}},"z":{{"dtype":"BF16","shape":[4,16],"data_offsets":{z:?}}}}}"#
        );
        f.folder.header(name, &json, data);
    };
    file("overlap.safetensors", [0, 128], [64, 192], 192);
    f.refuses_file("overlap.safetensors", &["z starts at byte 64", "a ends at 128", "overlap"]);
    file("hole.safetensors", [0, 128], [136, 264], 264);
    f.refuses_file("hole.safetensors", &["z starts at byte 136", "a ends at 128", "hole"]);
    file("range.safetensors", [0, 128], [128, 256], 200);
    f.refuses_file("range.safetensors", &["tensor z: bytes 128 to 256", "200 bytes of data"]);
    file("wide.safetensors", [0, 128], [128, u64::MAX], 256);
    f.refuses_file("wide.safetensors", &["18446744073709551615", "256 bytes of data"]);
    file("back.safetensors", [0, 128], [128, 0], 128);
    f.refuses_file("back.safetensors", &["tensor z", "backwards, from 128 to 0"]);
    file("size.safetensors", [0, 126], [126, 254], 254);
    f.refuses_file("size.safetensors", &["tensor a: BF16 [4, 16] takes 128 bytes", "give 126"]);
    file("more.safetensors", [0, 128], [128, 256], 300);
    f.refuses_file("more.safetensors", &["cover 256 bytes, the file holds 300"]);
}

#[test]
fn shapes_that_overflow_in_the_header() {
    let f = Fixture::new();
    for (name, shape) in [
        ("a.safetensors", "[4294967296,4294967296]"),
        ("b.safetensors", "[9223372036854775807,1]"),
        ("c.safetensors", "[4611686018427387904,4,2]"),
    ] {
        let json = format!(r#"{{"a":{{"dtype":"BF16","shape":{shape},"data_offsets":[0,0]}}}}"#);
        f.folder.header(name, &json, 0);
        f.refuses_file(name, &["tensor a", "overflows"]);
    }
}

#[test]
fn no_such_tensor() {
    let f = Fixture::new();
    let listed = ["good.safetensors", "no tensor bb", "it has: b, a, c,", "wide"];
    f.refuses(A, "good.safetensors:bb", &[], &listed);
    f.refuses(
        A,
        "good.safetensors",
        &[],
        &["which tensor?", "good.safetensors:NAME", "it has: a, b"],
    );
    let many: Vec<String> = (0..300).map(|i| format!("layers.{i:03}.weight")).collect();
    let tensors: Vec<(&str, _, &[usize])> =
        many.iter().map(|name| (name.as_str(), BF16, &[1, 1][..])).collect();
    f.folder.zeros("many.safetensors", &tensors);
    let nearest = ["no tensor layers.150", "it has: layers.150.weight,", "and 284 more"];
    f.refuses(A, "many.safetensors:layers.150", &[], &nearest);
}

#[test]
fn ranks_and_types() {
    let f = Fixture::new();
    f.refuses(A, "good.safetensors:vector", &[], &["B = ", ":vector has rank 1 [16]", "rank 2"]);
    f.refuses("good.safetensors:cube", B, &[], &["A = ", ":cube has rank 3 [2, 2, 16]"]);
    f.refuses(
        "good.safetensors:single",
        B,
        &[],
        &["A = ", ":single is f32", "bf16, f16, e4m3, e5m2 or i8"],
    );
    f.refuses(
        "good.safetensors:ids",
        B,
        &[],
        &["A = ", ":ids is I64", "bf16, f16, e4m3, e5m2 or i8"],
    );
    f.refuses(A, "good.safetensors:half", &[], &[":a is bf16", ":half is f16"]);
}

#[test]
fn shapes_that_disagree() {
    let f = Fixture::new();
    f.refuses(A, "good.safetensors:wide", &[], &["K differs", ":a is [4, 16]", ":wide is [8, 24]"]);
    let c = |name: &str| f.folder.arg(&format!("good.safetensors:{name}"));
    f.refuses(A, B, &["--c", &c("b")], &["C = ", ":b is [8, 16]", "[M, N] = [4, 8]"]);
    f.refuses(A, B, &["--c", &c("c32")], &["C = ", ":c32 is f32", "--out-dtype f32"]);
    f.refuses(A, B, &["--c", &c("c"), "--out-dtype", "f32"], &[":c is bf16", "the result is f32"]);
}

#[test]
fn options_that_disagree() {
    let f = Fixture::new();
    f.refuses(A, B, &["--beta", "1"], &["--beta", "--c"]);
    f.refuses(A, B, &["--alpha", "nan"], &["--alpha"]);
    f.refuses(A, B, &["--m", "4", "--n", "4", "--k", "4"], &["--a", "--m"]);
    f.refuses(A, B, &["--out-dtype", "i8"], &["i8", "bf16, f16, f32, e4m3 or int32"]);
    let unknown = f.folder.arg(A);
    refused(&["gemm", "--a", &unknown], &["--b"]);
    refused(&["gemm", "--a", &unknown, "--b", &unknown], &["--out", "--check"]);
    refused(&["gemm"], &["--a and --b", "--m, --n and --k"]);
    refused(&["gemm", "--m", "4", "--n", "4"], &["--k"]);
    refused(&["gemm", "--m", "4", "--n", "4", "--k", "-4"], &["-4"]);
    refused(
        &["gemm", "--m", "4", "--n", "4", "--k", "4", "--dtype", "f32"],
        &["f32", "bf16, f16, tf32, int8"],
    );
    refused(&["gemm", "--m", "4", "--n", "4", "--k", "4", "--device", "cuda:x"], &["cuda:N"]);
    refused(&["multiply"], &["multiply"]);
}

#[test]
fn sizes_that_overflow() {
    let sizes = |m: &'static str, n: &'static str, k: &'static str| {
        ["gemm", "--m", m, "--n", n, "--k", k, "--device", "sim"]
    };
    refused(&sizes("4294967296", "1", "1"), &["M = 4294967296", "2147483647"]);
    refused(&sizes("1", "1", "18446744073709551615"), &["K = 18446744073709551615"]);
    refused(&sizes("1", "18446744073709551616", "1"), &["18446744073709551616"]);
    let most = "2147483647";
    refused(&sizes(most, most, most), &["D of 2147483647 x 2147483647 bf16", "overflows 64 bits"]);
    refused(
        &sizes("2000000", "2000000", "1"),
        &["M = 2000000, N = 2000000", "8000008000000 bytes"],
    );
}

#[test]
fn a_device_that_is_not_there() {
    refused(&["gemm", "--m", "1", "--n", "1", "--k", "1", "--device", "cuda:9999"], &[]);
}

#[test]
fn unwritable_output() {
    let f = Fixture::new();
    let (a, b) = (f.folder.arg(A), f.folder.arg(B));
    let to = |out: &str, words: &[&str]| {
        let before = f.folder.list();
        refused(&["gemm", "--a", &a, "--b", &b, "--device", "sim", "--out", out], words);
        assert_eq!(f.folder.list(), before);
    };
    to(&f.folder.arg("no/such/folder/out.safetensors"), &["cannot write", "no/such/folder"]);
    std::fs::create_dir(f.folder.path("d.safetensors")).unwrap();
    to(&f.folder.arg("d.safetensors"), &["cannot write", "d.safetensors", "not a regular file"]);
    to("/proc/out.safetensors", &["cannot write /proc/out.safetensors"]);
    to(&f.folder.arg("out.safetensors:__metadata__"), &["__metadata__"]);
    to(&f.folder.arg("out.safetensors:"), &["no tensor after the colon"]);

    let only_read = f.folder.path("locked.safetensors");
    std::fs::write(&only_read, PRECIOUS).unwrap();
    let mut mode = std::fs::metadata(&only_read).unwrap().permissions();
    mode.set_readonly(true);
    std::fs::set_permissions(&only_read, mode).unwrap();
    to(&f.folder.arg("locked.safetensors"), &["locked.safetensors", "read-only"]);
    assert!(same_bytes(&only_read, PRECIOUS));
}

#[test]
fn an_input_is_not_replaced() {
    let f = Fixture::new();
    let before = std::fs::read(f.folder.path("good.safetensors")).unwrap();
    let (a, b) = (f.folder.arg(A), f.folder.arg(B));
    // The same file by another path.
    let out = f.folder.arg("./good.safetensors:d");
    refused(&["gemm", "--a", &a, "--b", &b, "--out", &out, "--device", "sim"], &["it is an input"]);
    assert!(same_bytes(&f.folder.path("good.safetensors"), &before));
}

#[test]
fn help_is_no_error() {
    let commands = ["doctor", "gemm", "plan", "bench"].map(|command| [command, "--help"]);
    for arguments in commands.iter().map(|c| &c[..]).chain([&["--help"][..], &["--version"]]) {
        let (code, stdout, stderr) = outcome(&warpipe(arguments));
        assert_eq!((code, stderr.as_str()), (0, ""), "{arguments:?}");
        assert!(stdout.contains("warpipe"), "{stdout}");
    }
}

#[test]
fn plans() {
    fn of<'a>(more: &[&'a str]) -> Vec<&'a str> {
        [&["plan", "--m", "64", "--n", "64"][..], more].concat()
    }
    refused(&of(&[]), &["--k"]);
    refused(&of(&["--k", "0"]), &["--k", "0"]);
    refused(&of(&["--k", "64", "--sms", "0"]), &["--sms", "0"]);
    refused(&of(&["--k", "64", "--dtype", "f32"]), &["f32", "bf16, f16, tf32, int8"]);
    refused(&of(&["--k", "64", "--out-dtype", "i8"]), &["i8", "bf16, f16, f32, e4m3 or int32"]);
    refused(&of(&["--k", "4294967296"]), &["K = 4294967296", "2^31-1"]);
}

#[test]
fn tune_caches() {
    let f = Fixture::new();
    let before = f.folder.list();
    let out = f.folder.arg("out.safetensors");
    let sizes = ["--m", "8", "--n", "8", "--k", "8", "--device", "sim"];
    for command in [&["gemm"][..], &["gemm", "--tune"], &["bench", "--tune"]] {
        let of = |file| [command, &sizes[..], &["--tune-cache", file]].concat();
        refused(&of(&out), &["out.safetensors", "not a tune cache", "unchanged"]);
        assert!(same_bytes(&f.folder.path("out.safetensors"), PRECIOUS));
        assert_eq!(f.folder.list(), before);
    }
    let none = f.folder.arg("none.json");
    refused(&[&["gemm"], &sizes[..], &["--tune-cache", &none]].concat(), &["none.json", "No such"]);
    refused(&[&["gemm"], &sizes[..], &["--tune"]].concat(), &["--tune-cache"]);
    let tune = ["--tune", "--tune-cache", &none];
    refused(&[&["gemm"], &sizes[..], &tune].concat(), &["needs a GPU"]);
    // Nor has another family times on the model, and these can't be tuned anywhere.
    let wide = ["gemm", "--m", "8", "--n", "16", "--k", "16", "--device", "sim"];
    for (more, words) in [
        ("--dtype e4m3 --scales block", ["needs a GPU", "SM model"]),
        ("--epilogue bias+gelu", ["needs a GPU", "SM model"]),
        ("--beta 1", ["needs a GPU", "SM model"]),
        ("--layout nn", ["--layout", "no --tune or --tune-cache"]),
    ] {
        let more: Vec<&str> = more.split(' ').collect();
        refused(&[&wide[..], &more, &tune].concat(), &words);
    }
    let groups = f.folder.arg("groups.txt");
    let grouped = ["gemm", "--groups", &groups, "--n", "8", "--k", "8"];
    refused(&[&grouped[..], &tune].concat(), &["a tune cache has no products with --groups"]);
    let unwritable = f.folder.arg("no/such/folder/cache.json");
    let tune = ["--tune", "--tune-cache", &unwritable];
    refused(&[&["gemm"], &sizes[..], &tune].concat(), &["cannot write", "no/such/folder"]);
    let both = ["bench", "--shape", "8x8x8", "--all-instances", "--tune-cache", &none];
    refused(&both, &["--all-instances", "--tune-cache"]);
    assert_eq!(f.folder.list(), before);
}

#[test]
fn benchmarks() {
    refused(&["bench"], &["--suite NAME", "--shape MxNxK"]);
    refused(&["bench", "--suite", "vision"], &["vision", "square, llm, decode, ragged, all"]);
    refused(&["bench", "--shape", "4096x4096"], &["4096x4096", "MxNxK"]);
    refused(&["bench", "--m", "1", "--n", "1"], &["--k"]);
    refused(
        &["bench", "--suite", "llm", "--only", "x1x"],
        &["--only x1x", "none of the 24 shapes"],
    );
    refused(&["bench", "--suite", "llm", "--vs", "mkl"], &["mkl", "cublaslt"]);
    refused(
        &["bench", "--suite", "llm", "--instance", "x", "--all-instances"],
        &["--instance", "--all-instances"],
    );
    refused(&["bench", "--suite", "llm", "--schedule", "66/0"], &["--instance"]);
    for bad in ["66", "66/", "-1/2"] {
        let asked = format!("--schedule={bad}");
        let options = ["bench", "--suite", "llm", "--instance", "128x192_2x1", &asked];
        refused(&options, &[bad, "CLUSTERS/STREAMED"]);
    }
    refused(&["bench", "--suite", "llm", "--peak-gbs", "4000"], &["--svg"]);
    refused(&["bench", "--suite", "llm", "--rounds", "0"], &["--rounds"]);
    refused(&["bench", "--shape", "4294967296x1x1"], &["M = 4294967296", "2147483647"]);
    refused(&["bench", "--shape", "64x64x64", "--device", "sim"], &["needs a GPU", "SM model"]);
    refused(&["bench", "--shape", "64x64x64", "--device", "cuda:9999"], &[]);

    // A place that can't be written is refused before anything runs, and what is there stays.
    let f = Fixture::new();
    let before = f.folder.list();
    for option in ["--json", "--svg"] {
        let out = f.folder.arg("no/such/folder/out");
        refused(&["bench", "--suite", "all", option, &out], &["cannot write", "no/such/folder"]);
    }
    let out = f.folder.arg("out.safetensors");
    refused(&["bench", "--from", &out], &["out.safetensors", "not a benchmark"]);
    refused(&["bench", "--from", &f.folder.arg("none")], &["none", "No such file"]);
    refused(&["bench", "--from", &out, "--svg", &out], &["it is an input"]);
    refused(&["bench", "--from", &out, "--suite", "llm"], &["--from", "--suite"]);
    refused(&["bench", "--suite", "llm", "--json", &out, "--device", "sim"], &["needs a GPU"]);
    assert!(same_bytes(&f.folder.path("out.safetensors"), PRECIOUS));
    assert_eq!(f.folder.list(), before);
}

#[test]
fn check_refuses_what_it_cannot_run() {
    refused(&["check", "example", "none_such"], &["none_such", "ordered_loads"]);
    refused(&["check", "gemm", "stream_copy"], &["--instance"]);
    refused(
        &["check", "example", "ping_pong", "--m", "1", "--n", "1", "--k", "1"],
        &["own shapes"],
    );
    refused(
        &["check", "gemm", "--instance", "gemm_x"],
        &["gemm_x", "names the nearest are: gemm_"],
    );
    refused(&["check", "gemm", "--m", "0", "--n", "8", "--k", "8"], &["0 x 8 x 8"]);
    refused(&["check", "gemm", "--m", "4"], &["--n"]);
    refused(&["check", "gemm", "--schedule", "18"], &["18", "CLUSTERS/STREAMED"]);
    refused(&["check", "gemm", "--schedule", "1/999"], &["999"]);
    refused(&["check", "example", "--schedule", "1/0"], &["own shapes"]);
    refused(&["check", "gemm", "--seed", "pct:x"], &["pct:x", "SEED"]);
    refused(&["check", "--seeds", "0"], &["0"]);
    refused(&["check", "--pct", "2", "--exhaustive"], &["--exhaustive"]);
}

#[test]
fn a_bias_that_does_not_fit() {
    let f = Fixture::new();
    let refuses = |epilogue: &str, more: &[&str], words: &[&str]| {
        f.refuses(A, B, &[&["--epilogue", epilogue], more].concat(), words);
    };
    let [vector, single, c] =
        ["vector", "single", "c"].map(|t| f.folder.arg(&format!("good.safetensors:{t}")));
    refuses("bias+gelu", &["--bias", &vector], &["bias", "vector", "[16]", "N = 8"]);
    refuses("bias", &["--bias", &single], &["bias", "single", "F32", "bf16"]);
    refuses("bias+relu", &[], &["--bias FILE:TENSOR"]);
    refuses("relu", &["--bias", &vector], &["without bias"]);
    refuses("gelu+residual", &[], &["--c FILE:TENSOR"]);
    refuses("swiglu", &[], &["N = 8", "16"]);
    refuses("swiglu", &["--c", &c], &["gated", "--c"]);
    refuses("gelu", &["--out-dtype", "f32"], &["gelu", "f32", "both bf16"]);
    refuses("gelu+bias", &[], &["gelu+bias", "in this order"]);
}
