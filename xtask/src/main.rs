//! Chores of this repository: `cargo xtask <chore>`.

mod bundle;
mod count;
mod imports;
mod mutate;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask bundle [--release] [--features LIST] [--only WORD ...] [--out DIR]
    Builds the command, the tests and the benchmarks, and puts them, stripped, into DIR (bundle/
    by default): a folder that runs on any Linux machine of this architecture without a toolchain.
    Programs that can't reach a GPU are left out. Each --only WORD takes, besides the command,
    the programs whose name contains the word, and no others; --features goes to cargo.
    DIR/run-tests runs all tests. An existing bundle in DIR is replaced.
cargo xtask count [DIR]
    Prints counts of the source code of this repository, or of another checkout of it in DIR: lines,
    generic parameters, public types, `unsafe`, and the largest circle of imports of each crate.
cargo xtask mutate [CASE ...]
    Loosens the types of pipeline, one stop at a time, in a copy under target/mutate, and runs the
    stop's compile-fail case, which must notice. All cases, or those whose name contains CASE.
    Takes minutes.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result: Result<(), Box<dyn std::error::Error>> = match words[..] {
        ["bundle", ref options @ ..] => bundle::Options::parse(options)
            .and_then(|options| bundle::run(&options))
            .map_err(Into::into),
        ["count"] => count::run(&bundle::root()).map_err(Into::into),
        ["count", tree] => count::run(tree.as_ref()).map_err(Into::into),
        ["mutate", ref cases @ ..] => mutate::run(cases).map_err(Into::into),
        ["--help" | "-h" | "help"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}
