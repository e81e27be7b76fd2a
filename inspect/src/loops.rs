//! The main loops of a kernel: natural loops of its control flow.
//!
//! ptxas moves the retries of a wait behind the kernel, so a loop's instructions are not one range, and a branch
//! backwards is not always a loop. A loop is therefore found as compilers find it: an edge to a block that
//! dominates its source, and every block from which the source is reached without passing that block.

use crate::chains::Chains;
use crate::mix::is_payload;
use crate::sass::Code;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Loops that a page shows.
const SHOWN: usize = 4;

/// A main loop.
#[derive(Clone, Debug, Serialize)]
pub struct Loop {
    /// Why it is shown: the opcode that matters most, and how often it occurs.
    pub opcode: String,
    /// Its occurrences.
    pub count: usize,
    /// The instructions, by address. The retries of waits are among them.
    pub instructions: Vec<Instruction>,
}

/// A SASS instruction.
#[derive(Clone, Debug, Serialize)]
pub struct Instruction {
    /// Address in the kernel.
    pub address: u32,
    /// Guard, opcode and operands.
    pub text: String,
    /// The Rust file that it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The text of that line, if the file is here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// What a loop is for, the most telling first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Multiplies,
    Loads,
    Moves,
}

impl Kind {
    fn of(base: &str) -> Option<Self> {
        if base.ends_with("MMA") {
            Some(Self::Multiplies)
        } else if matches!(base, "UTMALDG" | "UBLKCP") {
            Some(Self::Loads)
        } else {
            is_payload(base).then_some(Self::Moves)
        }
    }
}

/// The innermost loops that multiply matrices or load tiles; in a kernel that multiplies none, also those that move or
/// compute data.
pub(crate) fn main_loops(code: &Code, chains: &Chains) -> Vec<Loop> {
    let graph = Graph::of(code);
    let loops = graph.natural_loops();
    let all: Vec<_> =
        loops.iter().filter_map(|body| Some((main_opcode(code, &graph, body)?, body))).collect();
    let innermost = all.iter().filter(|((kind, ..), body)| {
        !all.iter().any(|((other, ..), inner)| {
            other == kind && inner.len() < body.len() && inner.is_subset(body)
        })
    });
    let mut found: Vec<_> = innermost.collect();
    let multiplied = found.iter().any(|((kind, ..), _)| *kind == Kind::Multiplies);
    found.retain(|((kind, ..), _)| !multiplied || *kind != Kind::Moves);
    // The most important ones, in the order of the code.
    found.sort_by_key(|((kind, count, _), body)| (*kind, Reverse(*count), body.first().copied()));
    found.truncate(SHOWN);
    found.sort_by_key(|(_, body)| body.first().copied());
    found
        .into_iter()
        .map(|((_, count, opcode), body)| Loop {
            opcode: (*opcode).to_owned(),
            count: *count,
            instructions: graph
                .instructions(body)
                .map(|i| code.lines[i].instruction(code, chains))
                .collect(),
        })
        .collect()
}

/// The opcode that tells most of a loop, and how often it occurs; none if nothing but waits is in it.
fn main_opcode<'a>(
    code: &'a Code,
    graph: &Graph,
    body: &BTreeSet<usize>,
) -> Option<(Kind, usize, &'a str)> {
    let mut opcodes: BTreeMap<(Kind, &str), usize> = BTreeMap::new();
    for base in graph.instructions(body).map(|i| code.lines[i].base()) {
        if let Some(kind) = Kind::of(base) {
            *opcodes.entry((kind, base)).or_default() += 1;
        }
    }
    let found = opcodes.into_iter().min_by_key(|((kind, _), count)| (*kind, Reverse(*count)))?;
    let ((kind, opcode), count) = found;
    Some((kind, count, opcode))
}

/// Basic blocks, each a range of instructions, and their successors.
struct Graph {
    starts: Vec<usize>,
    end: usize,
    next: Vec<Vec<usize>>,
}

impl Graph {
    fn of(code: &Code) -> Self {
        let end = code.lines.len();
        let mut starts: BTreeSet<usize> = code.labels.iter().map(|(_, i)| *i).collect();
        starts.insert(0);
        starts.extend((0..end).filter(|&i| ends_block(code.lines[i].base())).map(|i| i + 1));
        let starts: Vec<usize> = starts.into_iter().filter(|&i| i < end).collect();
        let block = |instruction: usize| starts.partition_point(|&start| start <= instruction) - 1;
        let next = (0..starts.len())
            .map(|i| {
                let last = starts.get(i + 1).copied().unwrap_or(end) - 1;
                let line = &code.lines[last];
                let mut next = Vec::new();
                if jumps(line.base())
                    && let Some(to) = line.target().and_then(|label| code.label(label))
                {
                    next.push(block(to));
                }
                if falls_through(line) && last + 1 < end {
                    next.push(block(last + 1));
                }
                next
            })
            .collect();
        Self { starts, end, next }
    }

    /// The instructions of some blocks, by address.
    fn instructions(&self, blocks: &BTreeSet<usize>) -> impl Iterator<Item = usize> {
        blocks
            .iter()
            .flat_map(|&i| self.starts[i]..self.starts.get(i + 1).copied().unwrap_or(self.end))
    }

    /// For each block that is reached from the first one, the blocks that dominate it.
    fn dominators(&self) -> Vec<Option<BTreeSet<usize>>> {
        let mut dominators: Vec<Option<BTreeSet<usize>>> = vec![None; self.next.len()];
        let Some(first) = dominators.first_mut() else { return dominators };
        *first = Some(BTreeSet::from([0]));
        let mut open = vec![0];
        while let Some(from) = open.pop() {
            let Some(above) = dominators[from].clone() else { continue };
            for &to in &self.next[from] {
                let mut new = match &dominators[to] {
                    Some(old) => old.intersection(&above).copied().collect(),
                    None => above.clone(),
                };
                new.insert(to);
                if dominators[to].as_ref() != Some(&new) {
                    dominators[to] = Some(new);
                    open.push(to);
                }
            }
        }
        dominators
    }

    /// The natural loops; those with one head are one loop.
    fn natural_loops(&self) -> Vec<BTreeSet<usize>> {
        let dominators = self.dominators();
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); self.next.len()];
        for (from, next) in self.next.iter().enumerate() {
            for &to in next {
                before[to].push(from);
            }
        }
        let mut loops: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (from, next) in self.next.iter().enumerate() {
            let Some(above) = &dominators[from] else { continue };
            for &head in next.iter().filter(|head| above.contains(head)) {
                let body = loops.entry(head).or_insert_with(|| BTreeSet::from([head]));
                let mut open = vec![from];
                while let Some(block) = open.pop() {
                    if dominators[block].is_some() && body.insert(block) {
                        open.extend(&before[block]);
                    }
                }
            }
        }
        loops.into_values().collect()
    }
}

/// Whether the next instruction begins a block.
fn ends_block(base: &str) -> bool {
    jumps(base) || matches!(base, "EXIT" | "RET" | "KILL")
}

/// Whether an instruction goes to the label that it names.
fn jumps(base: &str) -> bool {
    matches!(base, "BRA" | "JMP" | "BRX" | "JMX")
}

/// Whether the instruction behind it is executed by some thread.
fn falls_through(line: &crate::sass::Line) -> bool {
    if !ends_block(line.base()) {
        return true;
    }
    // A branch can also have its condition as an operand: `BRA P1, …`, `BRA.U UP0, …`.
    let operands = line.text.split_once(line.opcode()).map_or("", |(_, rest)| rest);
    line.guard().is_some_and(|guard| guard != "PT") || operands.contains(',')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    fn code(text: &str) -> Code {
        Code::parse(text, "spin")
    }

    #[test]
    fn the_retry_behind_the_kernel_belongs_to_the_loop() {
        let code = code(include_str!("../tests/recorded/loop.sass"));
        let loops = main_loops(&code, &Chains::default());
        assert_eq!(loops.len(), 1);
        assert_eq!((loops[0].opcode.as_str(), loops[0].count), ("HGMMA", 1));
        let addresses: Vec<u32> = loops[0].instructions.iter().map(|i| i.address).collect();
        // Neither the head of the kernel, nor the EXIT, nor the endless loop behind it.
        assert_eq!(addresses, [0x20, 0x30, 0x40, 0x50, 0x70, 0x80, 0x90]);
    }

    /// One instruction per line; a line that ends in a colon is a label.
    fn assembled(lines: &str) -> Code {
        let mut text = ".section .text.spin,\"ax\"\n".to_owned();
        let mut address = 0;
        for line in lines.lines() {
            if line.ends_with(':') {
                writeln!(text, "{line}").unwrap();
            } else {
                writeln!(text, "/*{address:04x}*/ {line} ;").unwrap();
                address += 16;
            }
        }
        code(&text)
    }

    #[test]
    fn without_matrices_the_innermost_loop_that_moves_data() {
        let code = assembled(
            ".L_outer:\nMOV R0, R1\n.L_wait:\nSYNCS P0\n@!P0 BRA `(.L_wait)\n.L_copy:\nLDS R2, [R3]\n\
             STG.E [R4], R2\n@P1 BRA `(.L_copy)\n@P2 BRA `(.L_outer)\nEXIT",
        );
        let loops = main_loops(&code, &Chains::default());
        assert_eq!(loops.len(), 1);
        assert_eq!(loops[0].instructions.len(), 3);
        assert_eq!(loops[0].instructions[0].text, "LDS R2, [R3]");
    }

    #[test]
    fn a_branch_backwards_is_not_always_a_loop() {
        let code =
            assembled("@P0 BRA `(.L_late)\n.L_back:\nHGMMA R0\nEXIT\n.L_late:\nBRA `(.L_back)");
        assert!(main_loops(&code, &Chains::default()).is_empty());
    }

    #[test]
    fn damaged_code_has_no_loops_and_no_panic() {
        assert!(main_loops(&Code::default(), &Chains::default()).is_empty());
        assert!(main_loops(&assembled("BRA `(.L_absent)\n.L_end:"), &Chains::default()).is_empty());
        let endless = assembled(".L_a:\nHGMMA R0\nBRA `(.L_a)");
        assert_eq!(main_loops(&endless, &Chains::default())[0].instructions.len(), 2);
    }
}
