//! The command `warpipe`: its options and exit codes.

mod args;
mod array;
mod attention;
mod bench;
mod ceilings;
mod check;
mod doctor;
mod error;
mod family;
mod gemm;
mod grouped;
mod inspect;
mod instance;
mod kernels;
mod layer;
mod linear;
mod new;
mod operands;
mod output;
mod plan;
mod product;
mod progress;
mod scaled;
mod scaled_plan;
mod schedules;
mod strided;
mod table;
mod tensor_file;
mod trace;
mod tune;

use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind};
use error::Error;
use std::io::Write;
use std::process::ExitCode;

/// GEMM on Hopper GPUs, written in Rust; without a GPU, on a model of the SM.
///
/// Start with `warpipe doctor`, which reports what this machine has, and
/// `warpipe gemm --m 512 --n 512 --k 512 --check`, which multiplies two random matrices and
/// compares the result with an f64 product.
#[derive(Parser, Debug)]
#[command(name = "warpipe", version, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 success; 1 a check failed or a kernel did not complete; 2 the request cannot be met \
(bad input, no such device, unwritable output). Errors are one line on stderr.";

const GEMM_ABOUT: &str = "\
Multiply two matrices, from .safetensors files or generated

Computes D = alpha * A * B^T + beta * C with A [M, K], B [N, K], C and D [M, N], all row-major. B \
has the layout of a Linear layer's weight in a checkpoint. A and B are bf16, f16, f32 rounded to tf32, \
8-bit floats or 8-bit integers, the accumulators are f32 or int32, C and D are bf16, f16 or f32, and D also \
e4m3 or int32. FILE:TENSOR names a tensor of a .safetensors file; a file \
with one tensor needs no name.";

const GEMM_EXAMPLES: &str = "\
Examples:
  warpipe gemm --m 512 --n 512 --k 512 --check
  warpipe gemm --m 512 --n 512 --k 512 --layout tt --batch 4 --check
  warpipe gemm --a acts.safetensors:x --b model.safetensors:layers.0.up.weight --out y.safetensors
  warpipe gemm --a x.safetensors --b w.safetensors --c r.safetensors --beta 1 --out y.safetensors:y";

const LINEAR_ABOUT: &str = "\
Compute a Linear layer of a checkpoint with weights of e4m3

Computes y = x * W^T + bias. W is NAME.weight, F8_E4M3 [N, K], with NAME.weight_scale_inv of blocks of 128 x 128 (DeepSeek), or \
with NAME.weight_scale: one value, one for each row, or one for each block (compressed-tensors, vLLM). x is quantised with a scale \
for each 1 x 128 if W has blocks, otherwise for each row, or with NAME.input_scale. y is bf16.";

const LINEAR_EXAMPLES: &str = "\
Examples:
  warpipe linear --weights model.safetensors --layer model.layers.3.mlp.up_proj --input x.safetensors --out y.safetensors
  warpipe linear --weights DeepSeek-V3/ --layer model.layers.0.self_attn.o_proj --input acts.safetensors:x --check";

const ATTENTION_ABOUT: &str = "\
Compute attention, with operands from .safetensors files or generated

Computes O = softmax(mask(cap(scale * Q K^T))) V for each head of each sequence. Q, K, V and O are bf16 or f16; \
sums and the softmax are f32. Several heads of Q may share a head of K and V (GQA, MQA). A row that sees no key is 0.";

const ATTENTION_EXAMPLES: &str = "\
Examples:
  warpipe attention --heads 16 --kv-heads 4 --seq 4096 --head-dim 128 --causal --check
  warpipe attention --heads 2 --seq 300 --head-dim 64 --window 128,0 --lse --check --device sim
  warpipe attention --q qkv.safetensors:q --k qkv.safetensors:k --v qkv.safetensors:v --causal --out o.safetensors";

const CHECK_EXAMPLES: &str = "\
Examples:
  warpipe check gemm --m 300 --n 520 --k 200 --seeds 1000
  warpipe check gemm --all-instances --seeds 20
  warpipe check gemm --dtype e4m3 --scales block --all-instances --seeds 5
  warpipe check gemm --layout tt --batch 3
  warpipe check gemm --epilogue bias+gelu --instance 64x64_1x1 --certify
  warpipe check attention --heads 2 --seq 300 --head-dim 64 --causal --seeds 1000
  warpipe check example ordered_loads --pct 3
  warpipe check example stream_copy --exhaustive --json found.json
  warpipe check example two_rings --certify
  warpipe check gemm --instance 128x256_2x1 --certify --steps k
  warpipe check gemm --seed 7";

const PLAN_EXAMPLES: &str = "\
Examples:
  warpipe plan --m 4096 --n 4096 --k 4096
  warpipe plan --m 64 --n 7168 --k 2048 --dtype e4m3 --scales block --all
  warpipe plan --m 512 --n 512 --k 128 --layout tt --batch 96
  warpipe plan --groups rows.txt --n 4096 --k 7168";

const TRACE_EXAMPLES: &str = "\
Examples:
  warpipe trace gemm --svg gemm.svg
  warpipe trace gemm --m 512 --n 512 --k 1024 --sms 4 --perfetto gemm.json
  warpipe trace attention --heads 2 --seq 512 --head-dim 64 --sms 1 --svg attention.svg
  warpipe trace example stream_copy --svg copy.svg
  warpipe trace example two_rings --cta all --seed 7 --svg rings.svg";

const NEW_ABOUT: &str = "\
Write a project of your own: kernels, host program, tests on the SM model, benchmark, CI

The project builds with rustup alone: its build.rs compiles the kernels for the GPU, and its tests run them on the \
SM model.";

const NEW_EXAMPLES: &str = "\
Examples:
  warpipe new my-kernels
  warpipe new my-layer --template gemm-epilogue
  warpipe new my-kernels --path ../warpipe
  warpipe new --list";

const BENCH_EXAMPLES: &str = "\
Examples:
  warpipe bench --m 8192 --n 8192 --k 8192 --vs cublaslt
  warpipe bench --suite all --vs cublaslt --json all.json --svg roofline.svg
  warpipe bench --suite decode --only 4096x4096 --all-instances --json decode.json
  warpipe bench --from all.json --svg roofline.svg";

const INSPECT_EXAMPLES: &str = "\
Examples:
  warpipe inspect
  warpipe inspect gemm_bf16_bf16_128x256_2x1
  warpipe inspect scale --image target/debug/build/mine-0123456789abcdef/out/kernels.rs
  warpipe inspect scale --build kernels --json

Registers, spills and SASS need ptxas and nvdisasm (the Python wheels nvidia-cuda-nvcc and \
nvidia-cuda-nvdisasm, or a CUDA installation); the rest needs nothing.";

#[derive(Subcommand, Debug)]
enum Command {
    /// Report what this machine has, and what does not work without the rest
    Doctor(doctor::Args),
    /// Write a project of your own: kernels, host program, tests on the SM model, benchmark, CI
    #[command(long_about = NEW_ABOUT, after_help = NEW_EXAMPLES)]
    New(new::Args),
    /// Multiply two matrices, from .safetensors files or generated
    #[command(long_about = GEMM_ABOUT, after_help = GEMM_EXAMPLES)]
    Gemm(Box<gemm::Args>),
    /// Compute a Linear layer of a checkpoint with weights of e4m3
    #[command(long_about = LINEAR_ABOUT, after_help = LINEAR_EXAMPLES)]
    Linear(linear::Args),
    /// Compute attention, with operands from .safetensors files or generated
    #[command(long_about = ATTENTION_ABOUT, after_help = ATTENTION_EXAMPLES)]
    Attention(Box<attention::Args>),
    /// List the predicted time of every kernel and schedule for a product; needs no GPU
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(Box<plan::Args>),
    /// Run a kernel on the SM model under many schedules, and compare every result
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Box<schedules::Args>),
    /// Draw one run of a kernel on the SM model or a GPU: loads, waits, and the ring's slots
    #[command(after_help = TRACE_EXAMPLES)]
    Trace(Box<trace::Args>),
    /// Describe a kernel: launch, shared memory, barriers, registers, and its main loops as SASS
    #[command(after_help = INSPECT_EXAMPLES)]
    Inspect(inspect::Args),
    /// Time products on a GPU, optionally in turn with cuBLASLt
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(Box<bench::Args>),
    /// Measure the rates of wgmma alone and of TMA loads alone, and what the GEMM reaches of them
    Ceilings(ceilings::Args),
}

/// Runs the command that the process was started with.
fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => return usage(&e),
    };
    let result = match &cli.command {
        Command::Doctor(args) => doctor::run(args),
        Command::New(args) => new::run(args),
        Command::Gemm(args) => gemm::run(args),
        Command::Linear(args) => linear::run(args),
        Command::Attention(args) => attention::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Check(args) => schedules::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Ceilings(args) => ceilings::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(e.exit_code())
        }
    }
}

/// Prints a result. A closed pipe, for example to `head`, is not an error.
fn say(text: &str) -> Result<(), Error> {
    match writeln!(std::io::stdout(), "{}", text.trim_end()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::Stdout(e)),
        _ => Ok(()),
    }
}

/// Prints the help text, or one line that says what is wrong with the options.
fn usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = say(&error.render().to_string());
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            eprint!("{}", error.render());
            ExitCode::from(2)
        }
        _ => {
            let text = error.render().to_string();
            // The rest of the text is the usage of the whole command.
            let end =
                text.find("\n\nUsage:").or_else(|| text.find("\n\nFor more")).unwrap_or(text.len());
            let command = Cli::command().get_name().to_owned();
            eprintln!("{} (see {command} --help)", tensor_file::one_line(&text[..end]));
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_are_consistent() {
        Cli::command().debug_assert();
    }
}
