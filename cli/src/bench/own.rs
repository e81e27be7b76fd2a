//! Suites with lines of their own: what they share.

use super::{Args, STDOUT, epilogue};
use crate::error::Error;
use crate::gemm::open;
use crate::output::Place;
use crate::say;
use host::{Device, SimConfig};
use serde::Serialize;

/// A suite that is timed alone, with the places that its lines go to.
pub struct Suite<'a> {
    name: &'static str,
    args: &'a Args,
    to_stdout: bool,
    file: Option<Place>,
}

impl<'a> Suite<'a> {
    /// Checks that the options fit the suite, and prepares the file.
    pub fn new(args: &'a Args, name: &'static str) -> Result<Self, Error> {
        if args.suite.len() > 1 || !args.shape.is_empty() && name != epilogue::SUITE {
            let text = "has lines of its own: time it without other suites and shapes";
            return Err(Error::Usage(format!("the suite {name} {text}")));
        }
        let others = [
            ("--instance", args.instance.is_some()),
            ("--all-instances", args.all_instances && name != epilogue::SUITE),
            ("--record", args.record.is_some()),
            ("--isolated", args.isolated),
            ("--tune-cache", args.tuning.any()),
            ("--svg", args.svg.is_some()),
        ];
        if let Some((option, _)) = others.iter().find(|(_, given)| *given) {
            return Err(Error::Usage(format!("the suite {name} has no {option}: omit it")));
        }
        let to_stdout = args.json.as_ref().is_some_and(|file| file.as_os_str() == STDOUT);
        let file = args.json.as_ref().filter(|_| !to_stdout);
        let file = file.map(|file| Place::prepare(file, &[])).transpose()?;
        Ok(Self { name, args, to_stdout, file })
    }

    /// The GPU.
    pub fn device(&self) -> Result<Device, Error> {
        let device = open(self.args.device, SimConfig::default())?;
        if device.is_sim() {
            let usage = format!("a benchmark needs a GPU; this is the {}", device.describe());
            return Err(Error::Usage(usage));
        }
        Ok(device)
    }

    /// Those of `all` whose "SUITE NAME" has the text of `--only`.
    pub fn chosen<T: Copy + ToString>(&self, all: &[T]) -> Result<Vec<T>, Error> {
        let Some(only) = &self.args.only else { return Ok(all.to_vec()) };
        let name = |one: &&T| format!("{} {}", self.name, one.to_string()).contains(only.as_str());
        let chosen: Vec<T> = all.iter().filter(name).copied().collect();
        if chosen.is_empty() {
            let of = all.len();
            let usage = format!("--only {only}: none of the {of} products contains this text");
            return Err(Error::Usage(usage));
        }
        Ok(chosen)
    }

    /// Prints text, unless stdout gets the JSON.
    pub fn tell(&self, text: &str) -> Result<(), Error> {
        if self.to_stdout { Ok(()) } else { say(text) }
    }

    /// Writes the JSON object with the lines.
    pub fn write(self, lines: &[impl Serialize]) -> Result<(), Error> {
        let text = serde_json::json!({ "suite": self.name, "lines": lines }).to_string();
        if self.to_stdout {
            say(&text)?;
        }
        self.file.map_or(Ok(()), |place| place.write(text.as_bytes()))
    }
}
