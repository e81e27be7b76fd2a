//! What is known of a kernel beyond its code, as a comment in the PTX.
//!
//! PTX says how many threads a kernel has, but not what its parameters are called, how much dynamic shared
//! memory it takes and what lies there. The metadata of `#[kernel]` does. The build writes it before each
//! entry as a comment of one line, [`PREFIX`] and a JSON object, so that a PTX text describes its kernels
//! (`warpipe inspect`) wherever it is taken. Assemblers ignore the comment.

use crate::meta::{KIND_STRUCT, KIND_TENSOR_MAP, KernelMeta, ParamMeta};
use serde_json::{Value, json};

/// What the comment's line begins with; a JSON object follows.
pub const PREFIX: &str = "// warpipe: ";

/// The PTX text with a comment before each entry that has metadata.
pub(crate) fn annotate(ptx: &str, kernels: &[KernelMeta]) -> String {
    let mut text = String::with_capacity(ptx.len() + 2048 * kernels.len());
    for line in ptx.split_inclusive('\n') {
        let entry = line.split_once(".entry ").and_then(|(before, rest)| {
            let name = rest.split(['(', '\n', ' ']).next()?;
            (before.trim_start().is_empty() || before.trim() == ".visible").then_some(name)
        });
        if let Some(kernel) = entry.and_then(|name| kernels.iter().find(|k| k.name == name)) {
            text += PREFIX;
            text += &describe(kernel).to_string();
            text.push('\n');
        }
        text += line;
    }
    text
}

/// The JSON object of a kernel.
fn describe(kernel: &KernelMeta) -> Value {
    let known: Value = serde_json::from_str(&kernel.facts).unwrap_or_default();
    let params: Vec<_> = kernel
        .params
        .iter()
        .enumerate()
        .map(|(i, param)| describe_param(known["params"][i].as_str().unwrap_or_default(), param))
        .collect();
    json!({
        "kernel": kernel.name,
        "threads": kernel.threads,
        "min_ctas": kernel.min_ctas,
        "cluster": kernel.cluster,
        "smem_bytes": kernel.smem_bytes,
        "dependent": kernel.dependent,
        "params": params,
        "cta": known["cta"],
    })
}

/// The names of `isa::kernel::Dtype`, from 1.
const DTYPES: [&str; 10] = ["bf16", "f16", "f32", "u8", "u32", "e4m3", "e5m2", "i8", "i32", "tf32"];

fn describe_param(name: &str, param: &ParamMeta) -> Value {
    let &ParamMeta { kind, size, align, dtype, box_rows, box_cols, swizzle_bytes, rank } = param;
    let dtype = DTYPES.get((dtype as usize).wrapping_sub(1)).copied();
    let mut value = json!({ "name": name, "bytes": size, "align": align });
    let kind = match kind {
        1 => "value",
        2 => "slice",
        KIND_TENSOR_MAP => "tensor map",
        KIND_STRUCT => "struct",
        _ => "unknown",
    };
    value["kind"] = kind.into();
    if kind == "tensor map" {
        value["box"] = json!([box_rows, box_cols]);
        value["swizzle"] = swizzle_bytes.into();
        if rank > 2 {
            value["rank"] = rank.into();
        }
    }
    if kind == "slice" {
        value["mutable"] = (box_rows == 1).into();
    }
    if let Some(dtype) = dtype.filter(|_| kind == "slice" || kind == "tensor map") {
        value["dtype"] = dtype.into();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = ".version 8.3\n\t// .globl\tgemm\n.visible .entry gemm(\n\t.param .u32 p\n)\n{\n}\n\
                       .visible .entry bare()\n{\n}\n// .entry gemm(\n";

    fn gemm() -> KernelMeta {
        let map = ParamMeta {
            kind: 3,
            size: 128,
            align: 64,
            dtype: 1,
            box_rows: 64,
            box_cols: 32,
            swizzle_bytes: 128,
            rank: 2,
        };
        let slice = ParamMeta { kind: 2, size: 16, align: 8, box_rows: 1, ..map };
        KernelMeta {
            name: "gemm".into(),
            threads: 384,
            min_ctas: 1,
            cluster: [2, 1, 1],
            smem_bytes: 4096,
            dependent: true,
            params: vec![map, slice],
            facts: r#"{"params":["a","out"],"cta":{"roles":[]}}"#.into(),
        }
    }

    #[test]
    fn a_comment_stands_before_its_entry_alone() {
        let text = annotate(PTX, &[gemm()]);
        let comments: Vec<_> = text.lines().filter(|line| line.starts_with(PREFIX)).collect();
        assert_eq!(comments.len(), 1);
        assert!(text.contains(&format!("{}\n.visible .entry gemm(", comments[0])));
        // Without the comment it is the text that it was.
        assert_eq!(text.replace(&format!("{}\n", comments[0]), ""), PTX);
        let value: Value = serde_json::from_str(&comments[0][PREFIX.len()..]).unwrap();
        assert_eq!((&value["threads"], &value["dependent"]), (&json!(384), &json!(true)));
        assert_eq!(value["params"][0]["name"], "a");
        assert_eq!(value["params"][0]["box"], json!([64, 32]));
        assert_eq!(value["params"][1]["mutable"], json!(true));
        assert_eq!(value["params"][1]["dtype"], "bf16");
        assert_eq!(value["cta"], json!({ "roles": [] }));
    }

    #[test]
    fn a_kernel_of_an_older_isa_has_no_cta() {
        let kernel = KernelMeta { facts: String::new(), ..gemm() };
        assert_eq!(describe(&kernel)["cta"], Value::Null);
        assert_eq!(describe(&kernel)["params"][0]["name"], "");
    }

    #[test]
    fn the_names_are_those_of_isa() {
        use isa::kernel::Dtype;
        assert_eq!(Dtype::ALL.map(Dtype::name), DTYPES);
        assert_eq!(Dtype::ALL.map(|dtype| dtype as usize), core::array::from_fn(|i| i + 1));
    }
}
