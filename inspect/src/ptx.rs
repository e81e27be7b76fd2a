//! A kernel in PTX text: its head, with parameters and launch directives, and its body.

use crate::Error;

/// A kernel's entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header<'a> {
    /// Byte offset of `.entry` in the text.
    pub at: usize,
    /// The parameter declarations between the parentheses.
    params: &'a str,
    /// The directives between the parameters and the body.
    directives: &'a str,
    /// The text between the braces of the body.
    pub body: &'a str,
    /// The `.target`.
    pub target: &'a str,
}

/// The names of the kernels in a PTX text, in its order.
pub(crate) fn kernels(ptx: &str) -> Vec<&str> {
    entries(ptx).map(|(name, _)| name).collect()
}

/// The names and offsets of the entries. A comment can't look like one, because it begins with `//`.
fn entries(ptx: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut at = 0;
    ptx.split_inclusive('\n').filter_map(move |line| {
        let start = at;
        at += line.len();
        let line = line.split("//").next().unwrap_or_default();
        let (before, rest) = line.split_once(".entry ")?;
        let name = rest.trim_start().split(['(', ' ', '\t', '\n', '\r']).next()?;
        (!name.is_empty()).then_some((name, start + before.len()))
    })
}

impl<'a> Header<'a> {
    /// Finds the entry of `kernel`.
    pub fn find(ptx: &'a str, kernel: &str) -> Result<Self, Error> {
        let missing = || Error::NoKernel {
            kernel: kernel.to_owned(),
            have: kernels(ptx).into_iter().map(str::to_owned).collect(),
        };
        let (_, at) = entries(ptx).find(|(name, _)| *name == kernel).ok_or_else(missing)?;
        let (head, rest) = ptx[at..].split_once('{').ok_or_else(missing)?;
        let (params, directives) = match head.split_once('(') {
            Some((_, rest)) => rest.rsplit_once(')').unwrap_or((rest, "")),
            // An entry without parameters may have no parentheses.
            None => ("", head.split_once(kernel).map_or("", |(_, rest)| rest)),
        };
        let body = &rest[..body_end(rest)];
        let target = ptx[..at]
            .lines()
            .find_map(|line| line.trim().strip_prefix(".target "))
            .map_or("", |rest| rest.split([',', ' ']).next().unwrap_or_default());
        Ok(Self { at, params, directives, body, target })
    }

    /// The numbers of a directive, such as `.maxntid 384, 1, 1`.
    pub fn numbers(&self, directive: &str) -> Option<Vec<u32>> {
        let line = self.directives.lines().find_map(|line| {
            let rest = line.split("//").next()?.trim().strip_prefix(directive)?;
            rest.starts_with([' ', '\t']).then_some(rest)
        })?;
        line.split(',').map(|word| word.trim().parse().ok()).collect()
    }

    /// Size and alignment of each parameter, in bytes.
    pub fn params(&self) -> Vec<(u32, u32)> {
        let lines = self.params.lines().map(|line| line.split("//").next().unwrap_or_default());
        let text = lines.collect::<String>();
        // Commas stand between parameters only.
        text.split(',').map(str::trim).filter(|one| one.starts_with(".param")).map(param).collect()
    }

    /// Bytes of shared memory that the kernel's body declares.
    pub fn static_smem(&self) -> u32 {
        let shared = self.body.lines().filter_map(|line| line.trim().strip_prefix(".shared"));
        shared.map(array_bytes).sum()
    }
}

/// Offset of the brace that closes the body.
fn body_end(text: &str) -> usize {
    let mut depth = 1;
    for line in lines_with_offsets(text) {
        let code = line.1.split("//").next().unwrap_or_default();
        for (i, byte) in code.bytes().enumerate() {
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return line.0 + i;
            }
        }
    }
    text.len()
}

fn lines_with_offsets(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        (start, line)
    })
}

/// `.param .align 64 .b8 name[128]` or `.param .u32 name`.
fn param(text: &str) -> (u32, u32) {
    let bytes = array_bytes(text);
    let align =
        text.split_once(".align ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    (bytes, align.unwrap_or(bytes))
}

/// Bytes of a declaration with a type like `.b8` or `.u32` and an optional length in brackets.
fn array_bytes(text: &str) -> u32 {
    let bits = text.split_whitespace().find_map(|word| {
        let word = word.strip_prefix('.')?;
        let digits = word.trim_start_matches(['b', 'u', 's', 'f']);
        (digits.len() + 1 == word.len()).then(|| digits.parse::<u32>().ok()).flatten()
    });
    let length = text.split_once('[').and_then(|(_, rest)| rest.split(']').next()?.parse().ok());
    bits.unwrap_or(0) / 8 * length.unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "\
.version 8.3
.target sm_90a, debug
.address_size 64
// .entry fake(
.visible .entry first(
	.param .align 64 .b8 first_param_0[128],
	.param .u32 first_param_1,   // a comment, with a comma
	.param .u64 first_param_2
)
.maxntid 384, 1, 1
.minnctapersm 2                         // @first
.reqnctapercluster 2, 1, 1
{
	.shared .align 4 .b8 words[64];
	{ .reg .pred p; }
	// a brace in a comment: }
	ret;
}
.entry second
{
	ret;
}
";

    #[test]
    fn a_head_is_read() {
        assert_eq!(kernels(PTX), ["first", "second"]);
        let first = Header::find(PTX, "first").unwrap();
        assert_eq!(first.target, "sm_90a");
        assert_eq!(first.params(), [(128, 64), (4, 4), (8, 8)]);
        assert_eq!(first.numbers(".maxntid"), Some(vec![384, 1, 1]));
        assert_eq!(first.numbers(".minnctapersm"), Some(vec![2]));
        assert_eq!(first.numbers(".maxnreg"), None);
        assert_eq!(first.static_smem(), 64);
        assert!(first.body.trim_end().ends_with("ret;"));
    }

    #[test]
    fn an_entry_without_parameters_is_one() {
        let second = Header::find(PTX, "second").unwrap();
        assert!(second.params().is_empty());
        assert_eq!(second.body.trim(), "ret;");
        assert_eq!(second.static_smem(), 0);
    }

    #[test]
    fn a_missing_kernel_is_one_line() {
        let line = Header::find(PTX, "third").unwrap_err().to_string();
        assert_eq!(line, "no kernel third; there are: first, second");
    }

    #[test]
    fn text_that_ends_early_does_not_panic() {
        for end in 0..PTX.len() {
            if let Ok(header) = Header::find(&PTX[..end], "first") {
                header.params();
                header.static_smem();
            }
        }
    }
}
