//! Runs kernels of the bug zoo on a GPU, alone or under compute-sanitizer.
//!
//! ```text
//! zoo_gpu list                                    the kernels, with where their bugs shipped
//! zoo_gpu run NAME [--bug] [--model]              one kernel; a hanging one hangs
//! zoo_gpu sanitize [--tool PROGRAM] [--seconds N] [--only WORD] [--log FOLDER]
//!                                                 all kernels under all tools: the lines of tests/zoo/sanitizer.rs
//! ```
//! To try another tool: `compute-sanitizer --tool racecheck zoo_gpu run NAME --bug`. `sanitize` runs each kernel
//! in processes of its own, and kills those that take too long.

use host::{Device, SimConfig};
use std::process::ExitCode;
use std::time::Duration;
use zoo_gpu::sanitize::Tools;
use zoo_gpu::{IMAGE, entries, launch};

const USAGE: &str = "zoo_gpu list | run NAME [--bug] [--model] | sanitize [--tool PROGRAM] [--seconds N] [--only WORD] [--log FOLDER]";

fn list() {
    for entry in entries() {
        println!("{}: {}. {}", entry.name, entry.from, entry.wrong);
    }
}

fn run(name: &str, options: &[String]) -> Result<(), String> {
    let entry =
        entries().find(|e| e.name == name).ok_or(format!("no kernel {name}; see `list`"))?;
    let has = |word: &str| options.iter().any(|o| o == word);
    let device = if has("--model") {
        Device::sim(SimConfig::default())
    } else {
        match Device::cuda(0) {
            Ok(device) => device,
            Err(why) => {
                println!("{name}: skipped, {why}");
                return Ok(());
            }
        }
    };
    let module = device.load(&IMAGE).map_err(|e| e.to_string())?;
    launch(&device, &module, entry, has("--bug")).map_err(|e| e.to_string())?;
    println!("{name}: ran to its end");
    Ok(())
}

/// All kernels whose name contains a word, under all tools.
fn sanitize(options: &[String]) -> Result<(), String> {
    let value = |name: &str, default: &str| {
        let at = options.iter().position(|o| o == name);
        at.map_or(Some(default), |at| options.get(at + 1).map(String::as_str))
            .map(str::to_owned)
            .ok_or(format!("{name} needs a value"))
    };
    let seconds = value("--seconds", "60")?;
    let seconds = seconds.parse().map_err(|_| format!("{seconds}: not a number of seconds"))?;
    let tools = Tools {
        sanitizer: value("--tool", "compute-sanitizer")?.into(),
        runner: std::env::current_exe().map_err(|e| e.to_string())?,
        time: Duration::from_secs(seconds),
        log: value("--log", "zoo_gpu_log")?.into(),
    };
    let only = value("--only", "")?;
    Device::cuda(0).map_err(|e| e.to_string())?;
    std::fs::create_dir_all(&tools.log).map_err(|e| format!("{}: {e}", tools.log.display()))?;
    for entry in entries().filter(|e| e.name.contains(&only)) {
        println!("{}", tools.line(entry.name)?);
    }
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["list"] => {
            list();
            Ok(())
        }
        ["run", name, ..] => run(name, &words[2..]),
        ["sanitize", ..] => sanitize(&words[1..]),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(line) => {
            eprintln!("zoo_gpu: {line}");
            ExitCode::FAILURE
        }
    }
}
