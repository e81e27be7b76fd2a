//! Chores of this repository: `cargo xtask <chore>`.

mod api;
mod book;
mod bundle;
mod count;
mod imports;
mod mutate;
mod package;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask book [--write | --build]
    Checks the documentation: each block of code equals the source that the comment above it names, each
    link leads somewhere, each page is a chapter of docs/SUMMARY.md. With --write, copies the sources into
    the blocks first. With --build, makes the book in target/book/html, with mdBook from MDBOOK,
    target/ci/mdbook or PATH.
cargo xtask bundle [--release] [--features LIST] [--only WORD ...] [--out DIR]
    Builds the command, the tests and the benchmarks, and puts the stripped programs into DIR
    (bundle/ by default). The folder runs on any Linux machine of this architecture without a
    toolchain. Programs that cannot use a GPU are left out. With --only WORD, the bundle has the
    command and only the programs whose name contains a WORD. --features is passed to cargo:
    --features sm100,bounded-waits --only gpu_blackwell is the test of the kernels for Blackwell.
    DIR/run-tests runs all tests. An existing bundle in DIR is replaced.
cargo xtask api [--bless]
    Compares the public API of the published libraries with docs/api, or writes the files there.
cargo xtask count [DIR]
    Prints counts of the source code of this repository, or of another checkout of it in DIR: lines,
    generic parameters, public types, `unsafe`, and the largest circle of imports of each crate.
cargo xtask mutate [CASE ...]
    Mutation test of the compile-fail cases: removes one check of pipeline at a time, in a copy
    under target/mutate, and runs the check's compile-fail case, which must then fail. Then puts
    one fault at a time into the SM model, and runs its tests, which must fail. Runs all cases
    and faults, or those whose name contains a CASE. Takes minutes.
cargo xtask package [--try]
    Compiles the GEMM kernels and makes the .crate files of the packages that are published, in
    target/package. With --try, also builds and runs the projects of tests/packaged with them.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result: Result<(), Box<dyn std::error::Error>> = match words[..] {
        ["book"] => book::run(&bundle::root(), false).map_err(Into::into),
        ["book", "--write"] => book::run(&bundle::root(), true).map_err(Into::into),
        ["book", "--build"] => book::build(&bundle::root()).map_err(Into::into),
        ["bundle", ref options @ ..] => bundle::Options::parse(options)
            .and_then(|options| bundle::run(&options))
            .map_err(Into::into),
        ["count"] => count::run(&bundle::root()).map_err(Into::into),
        ["count", tree] => count::run(tree.as_ref()).map_err(Into::into),
        ["api", ref options @ ..] => api::run(options).map_err(Into::into),
        ["package", ref options @ ..] => package::run(options).map_err(Into::into),
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
