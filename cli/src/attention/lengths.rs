//! Files with the lengths of sequences.

use crate::error::Error;
use crate::tensor_file::one_line;
use serde::Deserialize;
use std::path::Path;

/// One sequence in a file of lengths.
#[derive(Deserialize)]
#[serde(untagged)]
enum Length {
    Both(u32),
    Each([u32; 2]),
}

/// Reads the keys of each sequence.
pub fn keys(file: &Path) -> Result<Vec<u32>, Error> {
    let both = both(file)?;
    match both.iter().position(|[a, b]| a != b) {
        None => Ok(both.into_iter().map(|[keys, _]| keys).collect()),
        Some(sequence) => {
            let [a, b] = both[sequence];
            let reason = format!(
                "sequence {sequence} has the numbers {a} and {b}; one number, its keys, is right"
            );
            Err(Error::Lengths { file: file.into(), reason })
        }
    }
}

/// Reads `[queries, keys]` of each sequence.
pub fn both(file: &Path) -> Result<Vec<[u32; 2]>, Error> {
    let refuse = |reason: String| Error::Lengths { file: file.into(), reason };
    let text = std::fs::read_to_string(file).map_err(|e| refuse(one_line(&e.to_string())))?;
    let lengths = if text.trim_start().starts_with('[') {
        json(&text).map_err(refuse)?
    } else {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        lines
            .map(|(i, line)| self::line(line).map_err(|e| refuse(format!("line {}: {e}", i + 1))))
            .collect::<Result<_, _>>()?
    };
    if lengths.is_empty() {
        return Err(refuse("no lengths".to_owned()));
    }
    Ok(lengths)
}

fn json(text: &str) -> Result<Vec<[u32; 2]>, String> {
    let each = |length| match length {
        Length::Both(length) => [length; 2],
        Length::Each(lengths) => lengths,
    };
    let lengths: Vec<Length> = serde_json::from_str(text).map_err(|e| one_line(&e.to_string()))?;
    Ok(lengths.into_iter().map(each).collect())
}

fn line(text: &str) -> Result<[u32; 2], String> {
    let words = text.split([' ', '\t', ',']).filter(|word| !word.is_empty());
    let numbers = words
        .map(|word| word.parse().map_err(|_| format!("{word:?} is no number of tokens")))
        .collect::<Result<Vec<u32>, _>>()?;
    match numbers[..] {
        [both] => Ok([both; 2]),
        [q, kv] => Ok([q, kv]),
        _ => Err(format!("{} numbers; expected queries and keys, or one number", numbers.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_as_lines_and_as_json() {
        assert_eq!(line("3 5"), Ok([3, 5]));
        assert_eq!(line("7,"), Ok([7, 7]));
        for bad in ["x", "1 2 3", "-1", "99999999999"] {
            assert!(line(bad).is_err(), "{bad}");
        }
        assert_eq!(json("[3, [4, 5]]"), Ok(vec![[3, 3], [4, 5]]));
        assert!(json("[[1, 2, 3]]").is_err() && json("[").is_err());
    }
}
