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
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
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

/// How a process ended.
enum End {
    Exit { success: bool, said: String },
    Late,
}

/// Runs a program with its output in a file, and kills it with its children when the time is over.
fn within(time: Duration, command: &mut Command, log: &Path) -> Result<End, String> {
    let fail = |e: std::io::Error| format!("{}: {e}", log.display());
    let file = File::create(log).map_err(fail)?;
    let both = file.try_clone().map_err(fail)?;
    let mut child = command
        .process_group(0)
        .stdout(Stdio::from(file))
        .stderr(Stdio::from(both))
        .spawn()
        .map_err(|e| format!("{}: {e}", command.get_program().display()))?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            let said = std::fs::read(log).map_err(fail)?;
            let said = String::from_utf8_lossy(&said).into_owned();
            return Ok(End::Exit { success: status.success(), said });
        }
        if start.elapsed() > time {
            let group = format!("-{}", child.id());
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            child.wait().map_err(|e| e.to_string())?;
            return Ok(End::Late);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Whether a tool's summary counts errors or hazards; `None` without a summary.
fn found(said: &str) -> Option<bool> {
    let summary = said.lines().find(|line| line.contains("SUMMARY:"))?;
    let (_, counts) = summary.split_once("SUMMARY:")?;
    let count = counts.split_whitespace().next()?;
    Some(count != "0")
}

/// One kernel under one tool, or under none, in a word.
fn verdict(tool: Option<&str>, end: &End) -> &'static str {
    match (tool, end) {
        (_, End::Late) => "hangs",
        (None, End::Exit { success: true, .. }) => "ends",
        (None, _) => "fails",
        (Some(_), End::Exit { said, .. }) => match found(said) {
            Some(true) => "found",
            Some(false) => "silent",
            None => "fails",
        },
    }
}

struct Sanitize {
    program: String,
    time: Duration,
    only: String,
    log: String,
}

impl Sanitize {
    fn of(options: &[String]) -> Result<Self, String> {
        let value = |name: &str, default: &str| {
            let at = options.iter().position(|o| o == name);
            at.map_or(Some(default), |at| options.get(at + 1).map(String::as_str))
                .map(str::to_owned)
                .ok_or(format!("{name} needs a value"))
        };
        let seconds = value("--seconds", "60")?;
        let seconds = seconds.parse().map_err(|_| format!("{seconds}: not a number of seconds"))?;
        Ok(Self {
            program: value("--tool", "compute-sanitizer")?,
            time: Duration::from_secs(seconds),
            only: value("--only", "")?,
            log: value("--log", "zoo_gpu_log")?,
        })
    }

    fn one(&self, name: &str, tool: Option<&str>, bug: bool) -> Result<&'static str, String> {
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut command = match tool {
            None => Command::new(&own),
            Some(tool) => {
                let mut command = Command::new(&self.program);
                command.args(["--tool", tool]).arg(&own);
                command
            }
        };
        command.args(["run", name]);
        if bug {
            command.arg("--bug");
        }
        let kind = if bug { "bug" } else { "twin" };
        let log = format!("{name}.{}.{kind}.txt", tool.unwrap_or("alone"));
        let log = Path::new(&self.log).join(log);
        let end = within(self.time, &mut command, &log)?;
        Ok(verdict(tool, &end))
    }

    fn all(&self) -> Result<(), String> {
        Device::cuda(0).map_err(|e| e.to_string())?;
        std::fs::create_dir_all(&self.log).map_err(|e| format!("{}: {e}", self.log))?;
        for entry in entries().filter(|e| e.name.contains(&self.only)) {
            let mut words = Vec::new();
            for tool in [None, Some("racecheck"), Some("synccheck"), Some("memcheck")] {
                let (bug, twin) =
                    (self.one(entry.name, tool, true)?, self.one(entry.name, tool, false)?);
                let good = if tool.is_none() { "ends" } else { "silent" };
                let note = match twin {
                    _ if twin == good => String::new(),
                    _ if twin == bug => ", also the twin".to_owned(),
                    _ => format!(", the twin {twin}"),
                };
                words.push(format!("\"{bug}{note}\""));
            }
            println!("    (\"{}\", [{}]),", entry.name, words.join(", "));
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["list"] => {
            list();
            Ok(())
        }
        ["run", name, ..] => run(name, &words[2..]),
        ["sanitize", ..] => Sanitize::of(&words[1..]).and_then(|s| s.all()),
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
