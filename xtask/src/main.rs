//! Chores of this repository: `cargo xtask <chore>`.

mod bundle;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask bundle [--release] [--out DIR]
    Builds the command, the tests and the benchmarks, and puts them, stripped, into DIR (bundle/
    by default): a folder that runs on any Linux machine of this architecture without a toolchain.
    DIR/run-tests runs all tests. An existing bundle in DIR is replaced.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["bundle", ref options @ ..] => {
            bundle::Options::parse(options).and_then(|options| bundle::run(&options))
        }
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
