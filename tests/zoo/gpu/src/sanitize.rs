//! Kernels under the tools of compute-sanitizer: each in a process of its own, which is killed when it takes too
//! long. A kernel with its bug may hang, alone and under a tool.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The programs, and how long a kernel may take.
pub struct Tools {
    /// compute-sanitizer.
    pub sanitizer: PathBuf,
    /// A program that runs one kernel: `RUNNER run NAME [--bug]`.
    pub runner: PathBuf,
    /// Time for one kernel under one tool.
    pub time: Duration,
    /// A folder for what the programs print.
    pub log: PathBuf,
}

/// How a process ended.
enum End {
    Exit { success: bool, said: String },
    Late,
}

/// What a tool says of a kernel, in a word of docs/zoo.md.
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

/// Whether a tool's summary counts errors or hazards. `None` without a summary.
fn found(said: &str) -> Option<bool> {
    let counts = said.lines().find_map(|line| Some(line.split_once("SUMMARY:")?.1))?;
    Some(counts.split_whitespace().next()? != "0")
}

/// Runs a program with its output in a file, and kills it with its children when the time is over.
fn within(time: Duration, command: &mut Command, log: &Path) -> Result<End, String> {
    let fail = |e: std::io::Error| format!("{}: {e}", log.display());
    let file = File::create(log).map_err(fail)?;
    let both = file.try_clone().map_err(fail)?;
    // A process group of its own: the tool starts the kernel's process.
    let command = command.process_group(0).stdout(Stdio::from(file)).stderr(Stdio::from(both));
    let program = command.get_program().display().to_string();
    let mut child = command.spawn().map_err(|e| format!("{program}: {e}"))?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            let said = std::fs::read(log).map_err(fail)?;
            let said = String::from_utf8_lossy(&said).into_owned();
            return Ok(End::Exit { success: status.success(), said });
        }
        if start.elapsed() > time {
            let group = format!("-{}", child.id());
            let killed = Command::new("kill").args(["-KILL", "--", &group]).status();
            killed.map_err(|e| format!("kill: {e}"))?;
            child.wait().map_err(|e| e.to_string())?;
            return Ok(End::Late);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl Tools {
    /// Runs a kernel under a tool, or under none.
    fn one(&self, name: &str, tool: Option<&str>, bug: bool) -> Result<&'static str, String> {
        let mut command = match tool {
            None => Command::new(&self.runner),
            Some(tool) => {
                let mut command = Command::new(&self.sanitizer);
                command.args(["--tool", tool]).arg(&self.runner);
                command
            }
        };
        command.args(["run", name]);
        if bug {
            command.arg("--bug");
        }
        let kind = if bug { "bug" } else { "twin" };
        let log = format!("{name}.{}.{kind}.txt", tool.unwrap_or("alone"));
        Ok(verdict(tool, &within(self.time, &mut command, &self.log.join(log))?))
    }

    /// The line of a kernel in tests/zoo/sanitizer.rs.
    ///
    /// # Errors
    /// A line: a program could not be started, or a file not be written.
    pub fn line(&self, name: &str) -> Result<String, String> {
        let mut words = Vec::new();
        for tool in [None, Some("racecheck"), Some("synccheck"), Some("memcheck")] {
            let [bug, twin] = [self.one(name, tool, true)?, self.one(name, tool, false)?];
            let good = if tool.is_none() { "ends" } else { "silent" };
            let note = match twin {
                _ if twin == good => String::new(),
                _ if twin == bug => ", also the twin".to_owned(),
                _ => format!(", the twin {twin}"),
            };
            words.push(format!("\"{bug}{note}\""));
        }
        Ok(format!("    (\"{name}\", [{}]),", words.join(", ")))
    }
}
