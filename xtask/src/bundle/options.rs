//! The options of `cargo xtask bundle`.

use super::{Error, root};
use std::path::PathBuf;

/// The known options, for the error about an unknown one.
pub const KNOWN: &str = "--release, --out DIR, --only WORD and --features LIST";

/// Options of `cargo xtask bundle`.
#[derive(Debug)]
pub struct Options {
    pub release: bool,
    pub out: PathBuf,
    /// The bundle has only the programs whose name contains one of these words; all if there are none.
    pub only: Vec<String>,
    /// Lists of features in cargo's syntax.
    pub features: Vec<String>,
}

impl Options {
    /// Parses the arguments after `bundle`.
    pub fn parse(mut words: &[&str]) -> Result<Self, Error> {
        let out = root().join("bundle");
        let mut options = Self { release: false, out, only: Vec::new(), features: Vec::new() };
        loop {
            words = match words {
                [] => return Ok(options),
                ["--release", rest @ ..] => {
                    options.release = true;
                    rest
                }
                ["--out", folder, rest @ ..] => {
                    options.out = folder.into();
                    rest
                }
                ["--only", word, rest @ ..] if !word.is_empty() => {
                    options.only.push((*word).to_owned());
                    rest
                }
                ["--features", list, rest @ ..] => {
                    options.features.push((*list).to_owned());
                    rest
                }
                [option @ ("--out" | "--only" | "--features"), ..] => {
                    return Err(Error::NoValue((*option).to_owned()));
                }
                [other, ..] => return Err(Error::Option((*other).to_owned())),
            }
        }
    }

    /// Whether `--only` names the program.
    pub fn names(&self, program: &str) -> bool {
        self.only.iter().any(|word| program.contains(word.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_in_any_order_and_number() {
        let words = ["--only", "gpu_", "--features", "trace", "--release", "--only", "conformance"];
        let options = Options::parse(&words).unwrap();
        assert!(options.release && options.out == root().join("bundle"));
        assert_eq!(
            (options.only, options.features),
            (["gpu_", "conformance"].map(str::to_owned).to_vec(), vec!["trace".to_owned()])
        );
        let options = Options::parse(&["--out", "x"]).unwrap();
        assert!(!options.release && options.only.is_empty() && options.out.ends_with("x"));
    }

    #[test]
    fn what_is_not_known_is_told_what_is() {
        let said = |words: &[&str]| Options::parse(words).unwrap_err().to_string();
        let unknown = said(&["--release", "--debug"]);
        assert_eq!(unknown.lines().count(), 1);
        for word in ["--debug", "--release", "--out DIR", "--only WORD", "--features LIST"] {
            assert!(unknown.contains(word), "{unknown}");
        }
        assert_eq!(said(&["--only"]), "--only needs a value");
        assert_eq!(said(&["--only", ""]), "--only needs a value");
        assert_eq!(said(&["--release", "--out"]), "--out needs a value");
    }

    #[test]
    fn a_word_is_any_part_of_a_name() {
        let options = Options::parse(&["--only", "gpu_", "--only", "conformance"]).unwrap();
        assert!(
            options.names("warpipe.gpu_zero_cost")
                && options.names("warpipe-conformance.integration")
        );
        assert!(!options.names("warpipe-cli.integration"));
        assert!(!Options::parse(&[]).unwrap().names("warpipe.gpu_zero_cost"));
    }
}
