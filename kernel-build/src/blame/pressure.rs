//! Where a kernel has the most values alive.
//!
//! ptxas does not say at which instruction the registers ran out. An estimate does: the lifetime of each virtual
//! register is from its first line to its last one, and to the end of each loop that it is alive in. It counts the
//! registers of a thread, where ptxas may do better by computing in another order.

use super::flight::registers;
use crate::ptx::without_comment;
use std::collections::BTreeMap;

/// The line with the most values.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Peak {
    /// From 1.
    pub line: usize,
    /// 32-bit registers.
    pub registers: usize,
}

pub(super) fn peak(ptx: &str) -> Peak {
    let lines: Vec<&str> = ptx.lines().map(without_comment).collect();
    let mut lives: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    let mut labels = BTreeMap::new();
    let mut loops = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(label) = line.trim().strip_suffix(':') {
            labels.insert(label, at);
        } else if let Some(begin) =
            line.find('$').and_then(|from| labels.get(line[from..].trim_end_matches([';', ' '])))
            && line.contains("bra")
        {
            loops.push([*begin, at]);
        }
        if !line.trim_start().starts_with('.') {
            for register in registers(line) {
                lives.entry(register).or_insert([at, at])[1] = at;
            }
        }
    }
    // Inner loops end first, so one pass carries a value through all loops around it.
    for [begin, end] in loops {
        for [first, last] in lives.values_mut() {
            if *first < begin && *last >= begin {
                *last = end.max(*last);
            }
        }
    }
    let mut changes = vec![0_isize; lines.len() + 1];
    for (register, [first, last]) in &lives {
        let words = words(register);
        changes[*first] += words;
        changes[*last] -= words;
    }
    let mut peak = (0, 0);
    let mut alive = 0;
    for (at, change) in changes.iter().enumerate() {
        alive += change;
        if alive > peak.1 {
            peak = (at, alive);
        }
    }
    let (at, count) = peak;
    Peak { line: at + 1, registers: count.try_into().unwrap_or(0) }
}

/// The 32-bit registers of a virtual one; predicates have their own.
fn words(register: &str) -> isize {
    match register.trim_start_matches('%').trim_end_matches(|c: char| c.is_ascii_digit()) {
        "rd" | "fd" => 2,
        "rq" => 4,
        "p" => 0,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_where_most_are_alive() {
        let text = "ld.b32 %r1, [a];\nld.b32 %r2, [a];\nld.b64 %rd3, [a];\nadd.s32 %r4, %r1, %r2;\nst [%rd3], %r4;\n";
        assert_eq!(peak(text), Peak { line: 3, registers: 4 });
        assert_eq!(peak(""), Peak { line: 1, registers: 0 });
    }

    #[test]
    fn a_value_lives_through_the_loop_that_reads_it() {
        let body = "ld.b32 %r1, [a];\nld.b32 %r9, [a];\n$L1:\nadd.s32 %r2, %r1, 1;\nld.b32 %r3, [%r2];\nadd.s32 %r5, %r3, \
                    %r9;\n";
        // Without the loop, %r1 ends at its only use.
        assert_eq!(peak(body), Peak { line: 2, registers: 2 });
        assert_eq!(peak(&format!("{body}@%p1 bra $L1;\n")), Peak { line: 4, registers: 3 });
    }
}
