//! SASS: the text of `nvdisasm`, and what is made of it.

use crate::chains::{Chains, FILE};
use crate::loops::{Instruction, Loop, main_loops};
use crate::mix::{Class, of_sass};
use kernel_build::ptxas::Report;
use serde::Serialize;
use std::collections::HashMap;
use std::fs;

/// What ptxas and nvdisasm say of a kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Sass {
    /// Version of the ptxas.
    pub ptxas: String,
    /// Registers per thread at entry.
    pub registers: u32,
    /// Bytes of local memory for arrays and calls.
    pub stack: u32,
    /// Bytes of spill stores.
    pub spill_stores: u32,
    /// Bytes of spill loads.
    pub spill_loads: u32,
    /// What ptxas says of serialised wgmmas and the like.
    pub losses: Vec<String>,
    /// Number of instructions.
    pub instructions: usize,
    /// Instructions by kind.
    pub mix: Vec<Class>,
    /// The main loops.
    pub loops: Vec<Loop>,
    /// Whether instructions have Rust lines.
    pub has_lines: bool,
}

impl Sass {
    pub(crate) fn new(
        version: &str,
        report: &Report,
        kernel: &str,
        code: &Code,
        chains: &Chains,
    ) -> Self {
        let mut loops = main_loops(code, chains);
        add_source(&mut loops);
        let usage = report.kernels.iter().find(|u| u.kernel == kernel).cloned().unwrap_or_default();
        Self {
            ptxas: version.to_owned(),
            registers: usage.registers,
            stack: usage.stack,
            spill_stores: usage.spill_stores,
            spill_loads: usage.spill_loads,
            losses: report.losses.clone(),
            instructions: code.lines.len(),
            mix: of_sass(code.lines.iter().map(Line::opcode)),
            loops,
            has_lines: !chains.is_empty(),
        }
    }
}

/// Adds the text of the Rust lines, as far as their files can be read.
fn add_source(loops: &mut [Loop]) {
    let mut files: HashMap<String, Vec<String>> = HashMap::new();
    for instruction in loops.iter_mut().flat_map(|one| &mut one.instructions) {
        let (Some(file), Some(line)) = (&instruction.file, instruction.line) else { continue };
        let lines = files.entry(file.clone()).or_insert_with(|| {
            let text = fs::read_to_string(file).unwrap_or_default();
            text.lines().map(|line| line.trim().to_owned()).collect()
        });
        instruction.source = lines.get((line as usize).wrapping_sub(1)).cloned();
    }
}

/// The code of a kernel as the disassembler prints it.
#[derive(Debug, Default)]
pub(crate) struct Code {
    /// The instructions.
    pub lines: Vec<Line>,
    /// Labels: a name, and the index of the instruction behind it.
    pub labels: Vec<(String, usize)>,
}

/// An instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Line {
    /// Address in the kernel.
    pub address: u32,
    /// Guard, opcode and operands.
    pub text: String,
    /// Line of [`FILE`], or 0.
    pub chain: usize,
}

impl Line {
    /// The guard, without its `@`.
    pub fn guard(&self) -> Option<&str> {
        self.text.strip_prefix('@')?.split(' ').next()
    }
    /// The opcode with its modifiers.
    pub fn opcode(&self) -> &str {
        let mut words = self.text.split_whitespace();
        let first = words.next().unwrap_or_default();
        if first.starts_with('@') { words.next().unwrap_or_default() } else { first }
    }
    /// The opcode without its modifiers.
    pub fn base(&self) -> &str {
        self.opcode().split('.').next().unwrap_or_default()
    }
    /// The label that it names.
    pub fn target(&self) -> Option<&str> {
        self.text.split_once("`(")?.1.split(')').next()
    }
    /// The instruction as the page prints it: with an address in the place of a label.
    pub fn instruction(&self, code: &Code, chains: &Chains) -> Instruction {
        let target = self.target().and_then(|label| Some((label, code.label(label)?)));
        let text = match target {
            Some((label, at)) => {
                let address = format!("{:05x}", code.lines[at].address);
                self.text.replace(&format!("`({label})"), &address)
            }
            None => self.text.clone(),
        };
        let frame = chains.line(self.chain);
        Instruction {
            address: self.address,
            text,
            file: frame.map(|f| f.file.clone()),
            line: frame.map(|f| f.line),
            source: None,
        }
    }
}

impl Code {
    /// Reads the section of `kernel` in the output of `nvdisasm -c -g`.
    pub fn parse(text: &str, kernel: &str) -> Self {
        let section = format!(".text.{kernel},");
        let mut code = Self::default();
        let (mut inside, mut chain) = (false, 0);
        for line in text.lines() {
            let line = line.trim();
            if let Some(rest) = line.strip_prefix(".section") {
                inside = rest.trim_start().starts_with(&section);
                chain = 0;
            } else if !inside {
            } else if let Some(rest) = line.strip_prefix("//##") {
                chain = source_line(rest).unwrap_or(0);
            } else if let Some(label) = line.strip_suffix(':').filter(|l| l.starts_with(".L")) {
                code.labels.push((label.to_owned(), code.lines.len()));
            } else if let Some((address, rest)) =
                line.strip_prefix("/*").and_then(|rest| rest.split_once("*/"))
                && let Ok(address) = u32::from_str_radix(address, 16)
            {
                let text = rest.trim().trim_end_matches(';').trim_end().to_owned();
                code.lines.push(Line { address, text, chain });
            }
        }
        // Padding behind the last instruction.
        while code.lines.last().is_some_and(|line| line.text == "NOP") {
            code.lines.pop();
        }
        code
    }

    /// Index of the instruction behind a label.
    pub fn label(&self, name: &str) -> Option<usize> {
        let found = self.labels.iter().find(|(label, _)| label == name)?;
        (found.1 < self.lines.len()).then_some(found.1)
    }
}

/// ` File "warpipe-chains", line 12`.
fn source_line(text: &str) -> Option<usize> {
    let (file, rest) = text.split_once("File \"")?.1.split_once('"')?;
    let digits = rest.split_once("line ")?.1;
    let number = digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    file.ends_with(FILE).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_section_is_read() {
        let code = Code::parse(include_str!("../tests/recorded/loop.sass"), "spin");
        assert_eq!(code.lines.len(), 11);
        assert_eq!(code.lines[0].text, "LDC R1, c[0x0][0x28]");
        assert_eq!(code.lines[3].guard(), Some("!P0"));
        assert_eq!((code.lines[3].opcode(), code.lines[3].target()), ("BRA", Some(".L_x_2")));
        assert_eq!(code.lines[2].base(), "SYNCS");
        assert_eq!(
            code.lines.iter().map(|l| l.chain).collect::<Vec<_>>(),
            [0, 0, 7, 7, 9, 9, 9, 9, 9, 9, 9]
        );
        assert_eq!(code.label(".L_x_1"), Some(2));
        // The end of the section is a label without an instruction behind it.
        assert_eq!(code.label(".L_x_9"), None);
        assert!(
            Code::parse(include_str!("../tests/recorded/loop.sass"), "absent").lines.is_empty()
        );
    }
}
