//! Files go from Python's `safetensors` package through `warpipe gemm` and back.
//!
//! Needs a Python with `safetensors` and `numpy`. `WARPIPE_PYTHON` names it; without the variable,
//! `python3` is tried, and the test is skipped, with a line that says so, if it lacks them.

use crate::common::{Folder, outcome, warpipe};
use std::io::Write;
use std::process::{Command, Output};

const PRELUDE: &str = r"
import sys, numpy as np
import safetensors
from safetensors import serialize_file, deserialize
from safetensors.numpy import save_file, load_file
folder = sys.argv[1]
m, n, k = 37, 50, 88

def to_bf16(x):  # exact for the small whole numbers used here
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)

def from_bf16(data):
    return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)

r = np.random.default_rng(7)
a = r.integers(-3, 4, (m, k)).astype(np.float32)
b = r.integers(-3, 4, (n, k)).astype(np.float32)
c = r.integers(-3, 4, (m, n)).astype(np.float32)
want = a @ b.T + 2 * c
";

const WRITE: &str = r#"
save_file({"layer.weight": b.astype(np.float16), "acts": a.astype(np.float16), "c": c},
          f"{folder}/f16.safetensors", metadata={"format": "np"})
def entry(x):
    bits = to_bf16(x)
    alive.append(bits)  # TensorSpec has its address only
    if hasattr(safetensors, "TensorSpec"):  # since 0.8
        return safetensors.TensorSpec(dtype="bfloat16", shape=list(x.shape),
                                      data_ptr=bits.ctypes.data, data_len=bits.nbytes)
    return {"dtype": "bfloat16", "shape": list(x.shape), "data": bits.tobytes()}
alive = []
serialize_file({"layer.weight": entry(b), "acts": entry(a), "c": entry(c)},
               f"{folder}/bf16.safetensors", None)
"#;

const READ: &str = r#"
got = load_file(f"{folder}/from_f16.safetensors")
assert list(got) == ["y"] and got["y"].dtype == np.float32, got
assert np.array_equal(got["y"], want), np.abs(got["y"] - want).max()
(name, info), = deserialize(open(f"{folder}/from_bf16.safetensors", "rb").read())
assert name == "d" and list(info["shape"]) == [m, n], (name, info["shape"])
got = from_bf16(bytes(info["data"])).reshape(m, n)
# The result is rounded to 8 bits.
assert np.all(np.abs(got - want) <= np.abs(want) / 256), np.abs(got - want).max()
print("read", info["dtype"])
"#;

fn python(script: &str, folder: &Folder) -> Output {
    let program = std::env::var_os("WARPIPE_PYTHON").unwrap_or_else(|| "python3".into());
    Command::new(&program)
        .args(["-c", script, &folder.arg("")])
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}", program.display()))
}

/// Whether there is a Python with both packages. A named one must have them.
fn has_packages(folder: &Folder) -> bool {
    if std::env::var_os("WARPIPE_PYTHON").is_some() {
        return true;
    }
    let there = Command::new("python3").arg("--version").output().is_ok()
        && python("import numpy, safetensors", folder).status.success();
    if !there {
        // Past the test harness, which keeps what a passing test prints.
        let line =
            "skipped: python3 with numpy and safetensors is not there; WARPIPE_PYTHON names one\n";
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    there
}

fn succeeds(output: &Output) {
    let (code, stdout, stderr) = outcome(output);
    assert_eq!(code, 0, "{stdout}{stderr}");
}

#[test]
fn python_writes_and_reads() {
    let folder = Folder::new();
    if !has_packages(&folder) {
        return;
    }
    succeeds(&python(&[PRELUDE, WRITE].concat(), &folder));
    for (file, more) in [
        ("f16", &["--out", &folder.arg("from_f16.safetensors:y"), "--out-dtype", "f32"][..]),
        ("bf16", &["--out", &folder.arg("from_bf16.safetensors")]),
    ] {
        let of = |tensor: &str| folder.arg(&format!("{file}.safetensors:{tensor}"));
        let (a, b, c) = (of("acts"), of("layer.weight"), of("c"));
        let arguments =
            ["gemm", "--a", &a, "--b", &b, "--c", &c, "--beta", "2", "--device", "sim", "--check"];
        succeeds(&warpipe(arguments.iter().chain(more)));
    }
    succeeds(&python(&[PRELUDE, READ].concat(), &folder));
}
