//! Enough of `nvdisasm -c`'s output to find a kernel's main loop and count what is in it.

use std::collections::{BTreeMap, HashMap};

/// A wgmma of 16-bit elements, and one of 8-bit floats.
const WGMMA: [&str; 3] = ["HGMMA", "QGMMA", "IGMMA"];

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Everything between the address and the semicolon, the predicate included.
    pub text: String,
    /// As in `HGMMA.64x256x16.F32.BF16`.
    pub opcode: String,
    /// Where it branches to, if it names a label.
    target: Option<String>,
}

impl Instruction {
    /// The opcode without its modifiers: `HGMMA`.
    pub fn base(&self) -> &str {
        self.opcode.split('.').next().unwrap_or_default()
    }

    fn parse(text: &str) -> Self {
        let mut words = text.split_whitespace();
        let first = words.next().unwrap_or_default();
        let opcode = if first.starts_with('@') { words.next().unwrap_or_default() } else { first };
        let target = text.rsplit_once(".L_").map(|(_, rest)| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            format!(".L_{}", &rest[..end.unwrap_or(rest.len())])
        });
        Self { text: text.to_owned(), opcode: opcode.to_owned(), target }
    }
}

/// A kernel's instructions in the order of their addresses.
#[derive(Debug, Default)]
pub struct Function {
    /// All of them.
    pub code: Vec<Instruction>,
    labels: HashMap<String, usize>,
}

/// The kernels of a disassembly by name.
pub fn parse(text: &str) -> BTreeMap<String, Function> {
    let mut functions = BTreeMap::new();
    let mut current: Option<(String, Function)> = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix(".text.").and_then(|rest| rest.strip_suffix(':')) {
            functions.extend(current.replace((name.to_owned(), Function::default())));
        } else if line.starts_with(".section") {
            functions.extend(current.take());
        } else if let Some((_, function)) = &mut current {
            if let Some(label) = line.strip_suffix(':').filter(|label| label.starts_with(".L_")) {
                function.labels.insert(label.to_owned(), function.code.len());
            } else if let Some((_, rest)) = line.strip_prefix("/*").and_then(|l| l.split_once("*/"))
                && let Some((text, _)) = rest.split_once(';')
            {
                function.code.push(Instruction::parse(text.trim()));
            }
        }
    }
    functions.extend(current);
    functions
}

impl Function {
    /// The innermost loop that multiplies.
    pub fn main_loop(&self) -> Option<&[Instruction]> {
        self.innermost(&WGMMA)
    }

    /// The innermost loop that issues TMA loads: that of A and B. (C's has more to do, and is longer.)
    pub fn loading_loop(&self) -> Option<&[Instruction]> {
        self.innermost(&["UTMALDG"])
    }

    /// Of all branches back over one of `bases`, the shortest.
    ///
    /// ptxas puts the slow path of a wait behind the kernel's end, from where it jumps back into
    /// the loop: also backward, but over all that lies between.
    fn innermost(&self, bases: &[&str]) -> Option<&[Instruction]> {
        let loops = self.code.iter().enumerate().filter_map(|(end, instruction)| {
            let start = *self.labels.get(instruction.target.as_ref()?)?;
            let body = self.code.get(start..=end).filter(|_| start <= end)?;
            body.iter().any(|i| bases.contains(&i.base())).then_some(body)
        });
        loops.min_by_key(|body| body.len())
    }

    /// What stands before the first TMA load.
    pub fn start(&self) -> Option<&[Instruction]> {
        let load = self.code.iter().position(|i| i.base() == "UTMALDG")?;
        Some(&self.code[..load])
    }

    /// Instructions whose opcode, without modifiers, is one of `bases`.
    pub fn with(&self, bases: &[&str]) -> Vec<&str> {
        with(&self.code, bases)
    }
}

/// Instructions of `code` whose opcode, without modifiers, is one of `bases`.
pub fn with<'a>(code: &'a [Instruction], bases: &[&str]) -> Vec<&'a str> {
    code.iter().filter(|i| bases.contains(&i.base())).map(|i| i.text.as_str()).collect()
}

/// How many wgmmas.
pub fn wgmmas(code: &[Instruction]) -> usize {
    with(code, &WGMMA).len()
}

/// Columns of the first wgmma: `QGMMA.64x96x32.F32.E4M3.E4M3` has 96.
pub fn wgmma_columns(code: &[Instruction]) -> Option<u32> {
    let first = with(code, &WGMMA).into_iter().next()?;
    first.split('.').nth(1)?.split('x').nth(1)?.parse().ok()
}

/// From the first wgmma to the last.
pub fn between_wgmmas(body: &[Instruction]) -> &[Instruction] {
    let at = |i: &Instruction| WGMMA.contains(&i.base());
    match (body.iter().position(at), body.iter().rposition(at)) {
        (Some(first), Some(last)) => &body[first..=last],
        _ => &[],
    }
}

/// How often each opcode occurs, modifiers included.
pub fn histogram(code: &[Instruction]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for instruction in code {
        *counts.entry(instruction.opcode.as_str()).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
\t.section\t.text.k,\"ax\",@progbits
.text.k:
        /*0000*/                   HGMMA.64x8x16.F32 R24, gdesc[UR16], RZ, !UPT ;
.L_x_1:
        /*0010*/                   UMOV UR4, 0x1 ;
.L_x_7:
        /*0020*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR17], R4 ;
        /*0030*/              @!P0 BRA `(.L_x_2) ;
.L_x_3:
        /*0040*/                   HGMMA.64x8x16.F32 R24, gdesc[UR16], R24 ;
        /*0050*/                   UIADD3 UR4, UR4, 0x1, URZ ;
        /*0060*/                   HGMMA.64x8x16.F32 R24, gdesc[UR16], R24, gsb0 ;
        /*0070*/               @P1 BRA `(.L_x_1) ;
        /*0080*/                   EXIT ;
.L_x_2:
        /*0090*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR17], R4 ;
        /*00a0*/              @!P0 BRA `(.L_x_2) ;
        /*00b0*/                   BRA `(.L_x_3) ;
\t.section\t.text.other,\"ax\",@progbits
.text.other:
        /*0000*/                   EXIT ;
";

    #[test]
    fn the_main_loop_is_the_shortest_way_back_over_an_hgmma() {
        let functions = parse(TEXT);
        assert_eq!(functions.keys().collect::<Vec<_>>(), ["k", "other"]);
        let k = &functions["k"];
        assert_eq!((k.code.len(), wgmmas(&k.code)), (12, 3));
        let body = k.main_loop().expect("a loop");
        assert_eq!((body.len(), wgmmas(body)), (7, 2));
        assert_eq!(body[0].opcode, "UMOV");
        assert_eq!((body[2].base(), body[6].text.as_str()), ("BRA", "@P1 BRA `(.L_x_1)"));
        let opcodes: Vec<_> = between_wgmmas(body).iter().map(Instruction::base).collect();
        assert_eq!(opcodes, ["HGMMA", "UIADD3", "HGMMA"]);
        assert_eq!(histogram(body)["HGMMA.64x8x16.F32"], 2);
        assert!(functions["other"].main_loop().is_none());
    }
}
