//! Instructions by kind, of SASS and of PTX.

use serde::Serialize;
use std::collections::BTreeMap;

/// Instructions of one kind.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Class {
    /// What they do.
    pub what: &'static str,
    /// Number of instructions.
    pub count: usize,
    /// The opcodes with their numbers, the most frequent first.
    pub opcodes: Vec<(String, usize)>,
}

/// What instructions do, and their opcodes without modifiers. The order is that of the page.
const SASS: [(&str, &[&str]); 17] = [
    (
        "matrix multiply",
        &["HGMMA", "QGMMA", "IGMMA", "BGMMA", "HMMA", "QMMA", "IMMA", "DMMA", "BMMA"],
    ),
    ("wgmma fences and waits", &["WARPGROUP", "WARPGROUPSET"]),
    (
        "TMA",
        &[
            "UTMALDG",
            "UTMASTG",
            "UTMAREDG",
            "UTMAPF",
            "UTMACCTL",
            "UTMACMDFLUSH",
            "UBLKCP",
            "UBLKRED",
            "UBLKPF",
        ],
    ),
    ("mbarriers", &["SYNCS", "ARRIVES"]),
    ("CTA and cluster barriers", &["BAR", "B2R", "UCGABAR_ARV", "UCGABAR_WAIT"]),
    ("fences", &["MEMBAR", "FENCE", "ERRBAR", "CGAERRBAR", "CCTL"]),
    ("matrix moves", &["LDSM", "STSM", "MOVM"]),
    ("shared memory", &["LDS", "STS", "STAS", "ATOMS", "REDS", "LDGSTS", "LDGDEPBAR", "ULDS"]),
    ("global memory", &["LD", "ST", "LDG", "STG", "ATOM", "ATOMG", "RED", "REDG", "REDUX_G"]),
    ("local memory: spills, stack", &["LDL", "STL"]),
    ("constants and parameters", &["LDC", "ULDC", "LDCU"]),
    ("asynchronous groups", &["DEPBAR", "ACQBULK", "PREEXIT"]),
    ("registers of a role", &["USETMAXREG", "SETMAXREG"]),
    ("conversions", &["F2F", "F2FP", "F2I", "I2F", "I2FP", "HADD2", "PRMT", "UPRMT"]),
    ("special functions", &["MUFU"]),
    (
        "warp",
        &[
            "SHFL", "VOTE", "VOTEU", "ELECT", "MATCH", "REDUX", "WARPSYNC", "R2UR", "S2R", "S2UR",
            "CS2R",
        ],
    ),
    (
        "control",
        &[
            "BRA",
            "BRX",
            "JMP",
            "JMX",
            "CALL",
            "RET",
            "EXIT",
            "KILL",
            "BSSY",
            "BSYNC",
            "BREAK",
            "YIELD",
            "NANOSLEEP",
            "NOP",
            "BPT",
            "PLOP3",
            "P2R",
            "R2P",
        ],
    ),
];
/// Floating-point and integer arithmetic begin like this.
const FLOAT: [&str; 12] = [
    "FADD", "FMUL", "FFMA", "FSEL", "FSETP", "FMNMX", "FCHK", "DADD", "DMUL", "DFMA", "HMUL2",
    "HFMA2",
];

/// Whether an instruction moves or computes data, so that a loop around it is worth showing.
pub(crate) fn is_payload(base: &str) -> bool {
    const KINDS: [&str; 5] =
        ["matrix multiply", "matrix moves", "shared memory", "global memory", "special functions"];
    matches!(base, "UTMALDG" | "UTMASTG" | "UTMAREDG" | "UBLKCP" | "UBLKRED")
        || FLOAT.contains(&base)
        || SASS.iter().any(|(what, opcodes)| KINDS.contains(what) && opcodes.contains(&base))
}

/// Counts SASS opcodes by kind.
pub(crate) fn of_sass<'a>(opcodes: impl Iterator<Item = &'a str>) -> Vec<Class> {
    let order =
        SASS.map(|(what, _)| what).into_iter().chain(["float arithmetic", "integers, moves"]);
    let kind = |base: &str| match SASS.iter().find(|(_, opcodes)| opcodes.contains(&base)) {
        Some((what, _)) => what,
        None if FLOAT.contains(&base) => "float arithmetic",
        None => "integers, moves",
    };
    classes(
        order,
        opcodes.map(|opcode| {
            let base = opcode.split('.').next().unwrap_or_default();
            (kind(base), base.to_owned())
        }),
    )
}

/// What PTX instructions do, and what their opcodes begin with. Arithmetic and moves are left out: ptxas decides
/// what becomes of them.
const PTX: [(&str, &[&str]); 10] = [
    ("matrix multiply", &["wgmma.mma_async", "mma.sync"]),
    ("wgmma fences and waits", &["wgmma.fence", "wgmma.commit_group", "wgmma.wait_group"]),
    (
        "TMA and bulk copies",
        &[
            "cp.async.bulk.prefetch.tensor",
            "cp.async.bulk.tensor",
            "cp.reduce.async.bulk",
            "cp.async.bulk",
            "prefetch.tensormap",
            "tensormap",
        ],
    ),
    ("cp.async", &["cp.async"]),
    (
        "mbarriers",
        &[
            "mbarrier.init",
            "mbarrier.arrive",
            "mbarrier.try_wait",
            "mbarrier.test_wait",
            "mbarrier",
        ],
    ),
    (
        "CTA and cluster barriers",
        &["barrier.cluster", "barrier.cta", "barrier", "bar.sync", "bar.arrive"],
    ),
    ("fences", &["fence"]),
    ("matrix moves", &["ldmatrix", "stmatrix"]),
    (
        "memory",
        &[
            "ld.global",
            "st.global",
            "ld.shared",
            "st.shared",
            "ld.local",
            "st.local",
            "atom",
            "red",
        ],
    ),
    ("grid and registers", &["griddepcontrol", "setmaxnreg"]),
];

/// Counts the PTX instructions of a body that say what a kernel does.
pub(crate) fn of_ptx(body: &str) -> Vec<Class> {
    let statements = body
        .lines()
        .filter(|line| !line.trim_start().starts_with('.'))
        .flat_map(|line| line.split("//").next().unwrap_or_default().split([';', '{', '}']));
    let found = statements.filter_map(|statement| {
        let mut words = statement.split_whitespace();
        let first = words.next()?;
        let opcode = if first.starts_with('@') { words.next()? } else { first };
        PTX.iter().find_map(|(what, opcodes)| {
            let begins = |begin: &&&str| {
                opcode.strip_prefix(**begin).is_some_and(|r| r.is_empty() || r.starts_with('.'))
            };
            opcodes.iter().find(begins).map(|begin| (*what, (*begin).to_owned()))
        })
    });
    classes(PTX.map(|(what, _)| what).into_iter(), found)
}

fn classes(
    order: impl Iterator<Item = &'static str>,
    found: impl Iterator<Item = (&'static str, String)>,
) -> Vec<Class> {
    let mut counts: BTreeMap<&str, BTreeMap<String, usize>> = BTreeMap::new();
    for (what, opcode) in found {
        *counts.entry(what).or_default().entry(opcode).or_default() += 1;
    }
    order
        .filter_map(|what| {
            let mut opcodes: Vec<(String, usize)> = counts.remove(what)?.into_iter().collect();
            opcodes.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            Some(Class { what, count: opcodes.iter().map(|(_, count)| count).sum(), opcodes })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sass_opcodes_are_counted_by_kind() {
        let mix = of_sass(
            [
                "HGMMA.64x64x16.F32.BF16",
                "FMUL",
                "SYNCS.EXCH.64",
                "SYNCS.ARRIVE.TRANS64",
                "FADD",
                "FADD",
                "XYZZY",
            ]
            .into_iter(),
        );
        let said: Vec<_> = mix.iter().map(|c| (c.what, c.count)).collect();
        assert_eq!(
            said,
            [
                ("matrix multiply", 1),
                ("mbarriers", 2),
                ("float arithmetic", 3),
                ("integers, moves", 1)
            ]
        );
        assert_eq!(mix[2].opcodes, [("FADD".to_owned(), 2), ("FMUL".to_owned(), 1)]);
    }

    #[test]
    fn ptx_is_counted_inside_inline_assembly_too() {
        let mix = of_ptx(
            "\t.reg .pred %p<9>;\n\t{ .reg .pred p; setp.ne.b32 p, %r1, 0; wgmma.mma_async.sync.aligned.m64n128k16 {%r2}, p; }\n\
             \t@%p1 bra $L__BB0_4;\n\tcp.async.bulk.tensor.2d.x [a];\n\tcp.async.bulk.commit_group;\n\tcp.async.cg.shared;\n\
             // mbarrier.init\n\t@%p3 mbarrier.try_wait.parity p;\n\tbarrier.cta.sync 0;\n\tredux.sync;\n",
        );
        let said: Vec<_> = mix.iter().map(|c| (c.what, c.count)).collect();
        assert_eq!(
            said,
            [
                ("matrix multiply", 1),
                ("TMA and bulk copies", 2),
                ("cp.async", 1),
                ("mbarriers", 1),
                ("CTA and cluster barriers", 1)
            ]
        );
        assert_eq!(mix[1].opcodes[1].0, "cp.async.bulk.tensor");
    }

    #[test]
    fn no_opcode_has_two_kinds() {
        let mut all: Vec<&str> = SASS.iter().flat_map(|(_, opcodes)| *opcodes).copied().collect();
        all.extend(FLOAT);
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
