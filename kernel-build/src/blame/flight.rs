//! Instructions that use registers of a wgmma in flight.
//!
//! llc gives a variable one register for as long as it can, so whatever uses a wgmma's registers uses their names. The
//! search follows the text, and each loop once more. It is a guess at what ptxas means, and is asked only where ptxas
//! names no line.

use super::places;
use crate::ptx::without_comment;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The lines of a kernel's PTX.
pub(super) struct Code<'a> {
    lines: Vec<&'a str>,
    /// The number of the place of each line.
    numbers: Vec<Option<u32>>,
}

/// The registers of wgmmas: sums, and fragments of A.
#[derive(Clone, Default)]
struct Registers<'a> {
    sums: BTreeSet<&'a str>,
    fragments: BTreeSet<&'a str>,
}

/// What is in flight: the groups, oldest first, and wgmmas that are in no group yet.
#[derive(Clone, Default)]
struct Flight<'a> {
    groups: VecDeque<Registers<'a>>,
    open: Registers<'a>,
}

impl<'a> Code<'a> {
    pub fn of(ptx: &'a str) -> Self {
        let lines = ptx.lines().map(without_comment).collect();
        Self { lines, numbers: places::numbers(ptx) }
    }

    /// The places of lines, which are counted from 1.
    pub fn places(&self, lines: &[usize]) -> Vec<Option<u32>> {
        let number = |line: &usize| self.numbers.get(line.checked_sub(1)?).copied().flatten();
        lines.iter().map(number).collect()
    }

    /// The lines with wgmmas.
    pub fn wgmmas(&self) -> Vec<usize> {
        self.with(&["wgmma.mma_async"])
    }

    /// The lines that touch local memory, or call a function, which may.
    pub fn local_memory(&self) -> Vec<usize> {
        let lines = self.with(&["ld.local", "st.local", "%SP"]);
        let uses = |line: &usize| {
            let text = self.lines[line - 1];
            !text.contains("mov.") && !text.contains("cvta") && !text.contains(".reg")
        };
        let lines: Vec<usize> = lines.into_iter().filter(uses).collect();
        if lines.is_empty() { self.with(&["call"]) } else { lines }
    }

    fn with(&self, words: &[&str]) -> Vec<usize> {
        let has = |text: &str| words.iter().any(|word| text.contains(word));
        (1..=self.lines.len()).filter(|line| has(self.lines[line - 1])).collect()
    }

    /// The lines that read or change the sums of a wgmma in flight, or change its A fragment, without being wgmmas.
    pub fn intruders(&self) -> Vec<usize> {
        let labels: BTreeMap<&str, usize> = (self.lines.iter().enumerate())
            .filter_map(|(at, line)| Some((line.trim().strip_suffix(':')?, at)))
            .collect();
        let mut found = BTreeSet::new();
        let mut flight = Flight::default();
        for (at, line) in self.lines.iter().enumerate() {
            if flight.step(line) {
                found.insert(at + 1);
            }
            // What is in flight at the end of a loop's body still is at its begin.
            let target = line.split_once("bra").and_then(|(_, rest)| rest.split('$').nth(1));
            let target = target.map(|name| format!("${}", name.trim_end_matches([';', ' '])));
            let begin = target.and_then(|name| labels.get(name.as_str()).copied());
            if let Some(begin) = begin.filter(|begin| *begin < at && !flight.is_empty()) {
                let mut again = flight.clone();
                let body = begin..at;
                found.extend(body.filter(|at| again.step(self.lines[*at])).map(|at| at + 1));
            }
        }
        found.into_iter().collect()
    }
}

impl<'a> Flight<'a> {
    fn is_empty(&self) -> bool {
        let is_empty = |of: &Registers| of.sums.is_empty() && of.fragments.is_empty();
        self.groups.iter().all(is_empty) && is_empty(&self.open)
    }

    /// Executes a line. Returns whether it uses registers that it must not.
    fn step(&mut self, line: &'a str) -> bool {
        if let Some((_, operands)) = line.split_once("wgmma.mma_async") {
            let mut lists = operands.split('{').skip(1);
            let list = |text: &'a str| registers(text.split('}').next().unwrap_or_default());
            self.open.sums.extend(lists.next().into_iter().flat_map(list));
            self.open.fragments.extend(lists.next().into_iter().flat_map(list));
        } else if line.contains("wgmma.commit_group") {
            self.groups.push_back(std::mem::take(&mut self.open));
        } else if let Some((_, rest)) = line.split_once("wgmma.wait_group.sync.aligned") {
            let digits = rest.trim_start().trim_end_matches([';', ' ', '}']);
            let pending = digits.parse().unwrap_or(0);
            let retired = self.groups.len().saturating_sub(pending);
            self.groups.drain(..retired);
        } else {
            let Access { written, read } = Access::of(line);
            return self.groups.iter().chain([&self.open]).any(|of| {
                written.is_some_and(|one| of.sums.contains(one) || of.fragments.contains(one))
                    || read.iter().any(|one| of.sums.contains(one))
            });
        }
        false
    }
}

/// The registers that a line uses.
#[derive(Default)]
pub(super) struct Access<'a> {
    pub written: Option<&'a str>,
    pub read: Vec<&'a str>,
}

impl<'a> Access<'a> {
    /// Reads an instruction. Of one with several results, all but the first count as read.
    pub fn of(line: &'a str) -> Self {
        let text = line.trim();
        if text.starts_with('.') || text.ends_with(':') {
            return Self::default();
        }
        let (guard, text) = match text.strip_prefix('@') {
            Some(rest) => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
            None => ("", text),
        };
        let mut read: Vec<&str> = registers(guard).collect();
        let first = text.split(',').next().unwrap_or_default();
        // A result comes first and is no address.
        let has_none = ["st.", "red.", "bar", "bra", "mbarrier", "cp.", "setmaxnreg"];
        let has_none = has_none.iter().any(|op| text.starts_with(op)) || first.contains('[');
        let result = if has_none { None } else { registers(first).next() };
        let mut rest = registers(text);
        if result.is_some() {
            rest.next();
        }
        read.extend(rest);
        Self { written: result, read }
    }
}

/// The virtual registers in a text: `%r12`, `%rd3`.
pub(super) fn registers(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('%').filter_map(|(at, _)| {
        let name = &text[at + 1..];
        let letters = name.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(name.len());
        let digits = &name[letters..];
        let digits = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        (letters > 0 && digits > 0).then(|| &text[at..=at + letters + digits])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intruders(body: &str) -> Vec<usize> {
        Code::of(body).intruders()
    }

    const MMA: &str = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r1, %r2}, {%r7, %r8}, %rd5, 1, 1, 1, 0;\n\
                       wgmma.commit_group.sync.aligned;\n";
    const WAIT: &str = "wgmma.wait_group.sync.aligned 0;\n";

    #[test]
    fn registers_in_flight_are_watched() {
        assert_eq!(intruders(&format!("{MMA}st.global.b32 [%rd1], %r2;\n{WAIT}")), [3]);
        assert_eq!(intruders(&format!("{MMA}add.s32 %r8, %r20, 1;\n{WAIT}")), [3]);
        assert_eq!(intruders(&format!("{MMA}mul.rn.f32 %r1, %r1, 0f3F000000;\n{WAIT}")), [3]);
        // An A fragment may be read; other registers, comments and what follows the wait are no matter.
        let fine =
            format!("{MMA}add.s32 %r9, %r8, 1;\n// %r1 %r2\n{WAIT}st.global.b32 [%rd1], %r2;\n");
        assert!(intruders(&fine).is_empty());
    }

    #[test]
    fn groups_retire_in_order() {
        let second = MMA.replace("%r1,", "%r11,").replace("%r2}", "%r12}");
        let text = format!(
            "{MMA}{second}wgmma.wait_group.sync.aligned 1;\nadd.f32 %r3, %r1, %r2;\nadd.f32 %r3, %r11, %r12;\n"
        );
        assert_eq!(intruders(&text), [7]);
    }

    #[test]
    fn a_loop_is_followed_once_more() {
        let text =
            format!("$L__BB0_2:\nadd.f32 %r3, %r1, %r3;\n{MMA}@%p2 bra \t$L__BB0_2;\n{WAIT}");
        assert_eq!(intruders(&text), [2]);
        let text = format!("$L__BB0_2:\nadd.f32 %r3, %r1, %r3;\n{MMA}{WAIT}bra.uni \t$L__BB0_2;\n");
        assert!(intruders(&text).is_empty());
    }

    #[test]
    fn local_memory_is_where_it_is_used() {
        let text = ".local .align 4 .b8 __local_depot0[256];\n.reg .b64 %SP;\nmov.b64 %SPL, __local_depot0;\n\
                    add.u64 %rd1, %SPL, 0;\nst.local.b32 [%rd1], %r1;\n";
        assert_eq!(Code::of(text).local_memory(), [4, 5]);
        assert_eq!(Code::of("call.uni (retval0), f, ();\n").local_memory(), [1]);
    }
}
