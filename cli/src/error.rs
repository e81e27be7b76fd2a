//! The command's errors, one line each, and their exit codes.

use host::gemm::{Layout, Major};
use std::path::PathBuf;

/// An error of the command. The message says what was found and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    // Files that are read.
    #[error("{}: {source}", file.display())]
    Open { file: PathBuf, source: std::io::Error },
    #[error("{}: not a regular file; expected a .safetensors file", file.display())]
    NotAFile { file: PathBuf },
    #[error("{}: {len} bytes are too short for safetensors, whose header length takes 8", file.display())]
    TooShort { file: PathBuf, len: u64 },
    #[error("{}: header of {header} bytes exceeds the file's {len}; not safetensors, or truncated", file.display())]
    HeaderBeyondFile { file: PathBuf, header: u64, len: u64 },
    #[error("{}: header of {header} bytes; safetensors allows at most {limit}", file.display())]
    HeaderTooLarge { file: PathBuf, header: u64, limit: u64 },
    #[error("{}: the header of {header} bytes is not safetensors JSON: {reason}", file.display())]
    HeaderJson { file: PathBuf, header: u64, reason: String },
    #[error(
        "{}: tensor {tensor}: bytes {start} to {end} exceed the file's {data} bytes of data",
        file.display()
    )]
    OffsetsBeyondFile { file: PathBuf, tensor: String, start: usize, end: usize, data: u64 },
    #[error("{}: tensor {tensor}: data offsets run backwards, from {start} to {end}", file.display())]
    OffsetsBackwards { file: PathBuf, tensor: String, start: usize, end: usize },
    #[error(
        "{}: tensor {tensor} starts at byte {start}, but {before} ends at {end}: {}",
        file.display(),
        if start < end { "they overlap" } else { "there is a hole between them" }
    )]
    OffsetsDisjoint { file: PathBuf, tensor: String, start: usize, before: String, end: usize },
    #[error(
        "{}: tensor {tensor}: {dtype} {shape:?} takes {need} bytes, its offsets give {have}",
        file.display()
    )]
    OffsetsSize {
        file: PathBuf,
        tensor: String,
        dtype: String,
        shape: Vec<usize>,
        need: usize,
        have: usize,
    },
    #[error("{}: tensor {tensor}: the size of {dtype} {shape:?} overflows", file.display())]
    ShapeOverflow { file: PathBuf, tensor: String, dtype: String, shape: Vec<usize> },
    #[error("{}: the tensors cover {covered} bytes, the file holds {data}", file.display())]
    DataSize { file: PathBuf, covered: usize, data: u64 },
    #[error("{}: {reason}", file.display())]
    Header { file: PathBuf, reason: String },
    #[error("{}: no tensor {tensor}; it has: {have}", file.display())]
    NoSuchTensor { file: PathBuf, tensor: String, have: String },
    #[error("{}: which tensor? Write {}:NAME; it has: {have}", file.display(), file.display())]
    TensorNotNamed { file: PathBuf, have: String },

    // Layers of a checkpoint.
    #[error("{}: no layer {layer}: it has no tensor {layer}.weight; {have}", file.display())]
    NoSuchLayer { file: PathBuf, layer: String, have: String },
    #[error("{}: layer {layer}: {reason}", file.display())]
    Layer { file: PathBuf, layer: String, reason: String },
    #[error("{}: not an index of a checkpoint: {reason}", file.display())]
    NotAnIndex { file: PathBuf, reason: String },
    #[error("{name} is {dtype} {shape:?}; {right}")]
    Tensor { name: String, dtype: String, shape: Vec<usize>, right: String },
    #[error("{name}: value {index} is {value}; finite numbers are right")]
    NotFinite { name: String, index: usize, value: f32 },

    // Tensors that do not match.
    #[error(
        "{operand} = {name} has rank {} {shape:?}; expected a matrix of rank 2{}",
        shape.len(),
        if *operand == 'C' { "" } else { ", or a batch of rank 3 with --layout" }
    )]
    Rank { operand: char, name: String, shape: Vec<usize> },
    #[error("{operand} = {name} is {dtype}; {right}")]
    Dtype { operand: char, name: String, dtype: String, right: String },
    #[error(
        "A = {a} is {a_dtype}, B = {b} is {b_dtype}; both must have one type, or be e4m3 or e5m2 each"
    )]
    UnequalDtypes { a: String, a_dtype: &'static str, b: String, b_dtype: &'static str },
    #[error(
        "K differs: A = {a} is [{m}, {a_k}], B = {b} is [{n}, {b_k}]; A is [M, K] and B is [N, K]"
    )]
    InnerSizes { a: String, m: u64, a_k: u64, b: String, n: u64, b_k: u64 },
    #[error(
        "K differs: {a_k} of A = {a}, {b_k} of B = {b}; with --layout {layout}, A is {} and B is {}",
        if layout.a == Major::K { "[M, K]" } else { "[K, M]" },
        if layout.b == Major::K { "[N, K]" } else { "[K, N]" }
    )]
    InnerSizesOfLayout { a: String, a_k: u64, b: String, b_k: u64, layout: Layout },
    #[error(
        "{operand} = {name} has the shape {shape:?}; [rows, columns] or [batch, rows, columns] is right"
    )]
    RankOfBatch { operand: char, name: String, shape: Vec<usize> },
    #[error(
        "A = {a} has {a_count} matrices, B = {b} has {b_count}; as many, or one B for all of them, is right"
    )]
    Batches { a: String, a_count: u64, b: String, b_count: u64 },
    #[error("the check failed: the maximum of the result is {value}, and {reference} is right")]
    Amax { value: f32, reference: f64 },
    #[error(
        "scales of {operand} = {name} are {shape:?}; 1 value for the whole tensor or {rows}, one for each row, is right"
    )]
    Scales { operand: char, name: String, shape: Vec<usize>, rows: u64 },
    #[error(
        "block scales of {operand} = {name} are {shape:?}; {right:?} is right, with blocks of {} x 128",
        if *operand == 'A' { 1 } else { 128 }
    )]
    BlockScales { operand: char, name: String, shape: Vec<usize>, right: [usize; 2] },
    #[error("bias = {name} is {have}; it must have the operands' type, {dtype}")]
    BiasType { name: String, have: String, dtype: &'static str },
    #[error("bias = {name} is {shape:?}; N = {n} values, one for each row of B, are right")]
    Bias { name: String, shape: Vec<usize>, n: u64 },
    #[error("scales of {operand} = {name}: value {index} is {value}; finite numbers are right")]
    ScaleValue { operand: char, name: String, index: usize, value: f32 },
    #[error("C = {c} is [{rows}, {cols}]; it must be [M, N] = [{m}, {n}] like the result")]
    ShapeOfC { c: String, rows: u64, cols: u64, m: u64, n: u64 },
    #[error("{what} = {value}; the limit is {limit}")]
    Dimension { what: char, value: u64, limit: u64 },
    #[error("{operand} of {rows} x {cols} {dtype}: the number of bytes overflows 64 bits")]
    SizeOverflow { operand: char, rows: u64, cols: u64, dtype: &'static str },
    #[error(
        "the matrices of M = {m}, N = {n}, K = {k} take {need} bytes; {have} bytes of memory are free"
    )]
    Memory { m: u64, n: u64, k: u64, need: u64, have: u64 },

    #[error("{operand} = {name} has shape {shape:?}; expected {want}")]
    Shape { operand: char, name: String, shape: Vec<usize>, want: String },
    #[error("the block table = {name} is {dtype} {shape:?}; {want} is right")]
    BlockTable { name: String, dtype: String, shape: Vec<usize>, want: String },
    #[error("{}: not a list of lengths: {reason}", file.display())]
    Lengths { file: PathBuf, reason: String },
    #[error("Q, K, V and O take {need} bytes; {have} bytes of memory are free")]
    AttentionMemory { need: u64, have: u64 },

    #[error("{}: not a benchmark report of `warpipe bench --json`: {reason}", file.display())]
    NotAReport { file: PathBuf, reason: String },

    #[error("{}: {source}: give --tune", file.display())]
    TuneStale { file: PathBuf, source: host::gemm::TuneError },

    #[error(transparent)]
    Inspect(#[from] warpipe_inspect::Error),

    // Options that contradict each other.
    #[error("{0}")]
    Usage(String),

    // Output.
    #[error("cannot write {}: {reason}", file.display())]
    Output { file: PathBuf, reason: String },
    #[error("cannot write to stdout: {0}")]
    Stdout(std::io::Error),

    // Devices and runs.
    #[error(transparent)]
    Host(#[from] host::Error),
    #[error(transparent)]
    Bench(warpipe_bench::Error),
    #[error(
        "check failed: relative Frobenius error {error:.3e} is not below {bound:.0e} ({dtype} result, K = {k})"
    )]
    Check { error: f64, bound: f64, dtype: &'static str, k: u64 },
    #[error("check failed: {0}")]
    AttentionCheck(String),
    #[error(
        "{instance} gave different bits in two runs of {shape}; runs of one plan must give the same bits"
    )]
    Bits { shape: String, instance: String },
    #[error("{0}")]
    Wrong(String),
    #[error("{case}: {reason}")]
    NoCertificate { case: String, reason: String },
    #[error("{case}: finding after {after} schedules; --seed '{schedule}' repeats it")]
    Finding { case: String, after: u64, schedule: String },
}

/// An error of the host stays the same, whether the bench crate or the command called it.
impl From<warpipe_bench::Error> for Error {
    fn from(error: warpipe_bench::Error) -> Self {
        match error {
            warpipe_bench::Error::Host(error) => Self::Host(error),
            error => Self::Bench(error),
        }
    }
}

impl Error {
    /// 2 if the request cannot be met; 1 if it was carried out and the outcome is bad.
    pub fn exit_code(&self) -> u8 {
        use host::Error as Host;
        use warpipe_bench::Error as Bench;
        match self {
            Self::Check { .. }
            | Self::AttentionCheck(_)
            | Self::Bits { .. }
            | Self::Finding { .. }
            | Self::Wrong(_)
            | Self::Host(
                Host::Model(_)
                | Host::ModelMemory(_)
                | Host::Driver { .. }
                | Host::Image(_)
                | Host::ImageAssembly { .. }
                | Host::ImageMismatch { .. },
            )
            | Self::Bench(Bench::CublasLt { .. }) => 1,
            _ => 2,
        }
    }
}
