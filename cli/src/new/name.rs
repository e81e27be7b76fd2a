//! Which names a new project can have.

/// Rust's keywords, which can't be names of crates.
const KEYWORDS: &str = "abstract as async await become box break const continue crate do dyn else enum extern \
    false final fn for gen if impl in let loop macro match mod move mut override priv pub ref return self static \
    struct super trait true try type typeof union unsafe unsized use virtual where while yield";

/// Names that cargo or rustc have given away.
const TAKEN: &str = "alloc build core deps examples incremental proc-macro proc_macro std test";

/// Longest name: that of the kernel crate, with `-kernels`, has at most the 64 bytes of a registry.
const LONGEST: usize = 64 - "-kernels".len();

/// Checks that `name` can be the name of a package with a library and a program.
///
/// # Errors
/// One line that says what is wrong.
pub fn check(name: &str) -> Result<(), String> {
    let is_one_of = |words: &str| words.split_whitespace().any(|word| word == name);
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    let wrong = if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(allowed)
    {
        "expected lower-case letters, digits, - and _, with a letter first, for example my-kernels"
            .to_owned()
    } else if name.len() > LONGEST {
        format!("{} characters; expected at most {LONGEST}", name.len())
    } else if is_one_of(KEYWORDS) {
        "a keyword of Rust; expected another name, for example my-kernels".to_owned()
    } else if is_one_of(TAKEN) {
        "cargo or Rust use this name; expected another one, for example my-kernels".to_owned()
    } else if name == "kernels" {
        "the project's kernel crate has this name; expected another one, for example my-kernels"
            .to_owned()
    } else if name == "warpipe" || name.starts_with("warpipe-") || name.starts_with("warpipe_") {
        "warpipe's own packages have such names; expected another one, for example my-kernels"
            .to_owned()
    } else {
        return Ok(());
    };
    Err(format!("{name:?} can't be the name of a project: {wrong}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["my-kernels", "a", "x_1", "softmax2", "test-kernels"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let long = "a".repeat(57);
        for (bad, why) in [
            ("", "a letter first"),
            ("2x", "a letter first"),
            ("-x", "a letter first"),
            ("My-kernels", "lower-case"),
            ("my kernels", "lower-case"),
            ("kérnels", "lower-case"),
            ("a\nb", "\"a\\nb\" can't be"),
            ("match", "a keyword"),
            ("test", "cargo or Rust"),
            ("deps", "cargo or Rust"),
            ("kernels", "kernel crate"),
            ("warpipe", "own packages"),
            ("warpipe-isa", "own packages"),
            (&long, "57 characters; expected at most 56"),
        ] {
            let line = check(bad).unwrap_err();
            assert!(line.contains(why), "{line}");
            assert!(!line.contains('\n'), "{line}");
        }
    }
}
