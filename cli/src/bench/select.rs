//! The shapes that the options select.

use super::Args;
use super::types::FP8;
use crate::error::Error;
use std::ops::RangeInclusive;
use warpipe_bench::line::Shape;
use warpipe_bench::suites::{RANDOM, Random, SUITES};

/// Suite name of shapes from `--shape` and `--m`, `--n`, `--k`.
const GIVEN: &str = "given";

/// Shapes with their suites, in the order of the options.
pub fn select(args: &Args) -> Result<Vec<(&'static str, Shape)>, Error> {
    let mut items = Vec::new();
    let asked = |suite: &str, name: &str| match name {
        "all" => true,
        FP8 => ["llm", "decode"].contains(&suite),
        _ => name == suite,
    };
    for suite in SUITES {
        if args.suite.iter().any(|name| asked(suite.name, name)) {
            items.extend(suite.shapes.iter().map(|shape| (suite.name, *shape)));
        }
    }
    if args.suite.iter().any(|name| name == RANDOM) {
        let random = Random {
            shapes: args.random_shapes as usize,
            seed: args.random_seed,
            m: args.random_m.clone(),
            n: args.random_n.clone(),
            k: args.random_k.clone(),
            // TMA reads rows of 16 bytes in place.
            step: if args.types()?.scales.is_some() { 16 } else { Random::default().step },
        };
        items.extend(random.draw().into_iter().map(|shape| (RANDOM, shape)));
    }
    items.extend(args.shape.iter().map(|shape| (GIVEN, *shape)));
    if let (Some(m), Some(n), Some(k)) = (args.m, args.n, args.k) {
        items.push((GIVEN, Shape { m, n, k }));
    }
    if items.is_empty() {
        let usage = "no shapes: give --suite NAME, --shape MxNxK, or --m, --n and --k";
        return Err(Error::Usage(usage.to_owned()));
    }
    if let Some(only) = &args.only {
        let all = items.len();
        items.retain(|(suite, shape)| format!("{suite} {shape}").contains(only.as_str()));
        if items.is_empty() {
            let usage = format!("--only {only}: none of the {all} shapes contains this text");
            return Err(Error::Usage(usage));
        }
    }
    Ok(items)
}

/// A range of sizes, `LEAST..MOST`. Both ends are in it.
pub fn range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let ends = text.split_once("..").map(|(least, most)| (least.parse(), most.parse()));
    match ends {
        Some((Ok(least), Ok(most))) if 1 <= least && least <= most => Ok(least..=most),
        _ => {
            Err("a range is LEAST..MOST, for example 1..16384, and begins at 1 or above".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn selected(options: &str) -> Result<Vec<String>, String> {
        let words = std::iter::once("bench").chain(options.split_whitespace());
        let cli = Cli::try_parse_from(words).map_err(|e| e.to_string())?;
        let items = select(&cli.args).map_err(|e| e.to_string())?;
        Ok(items.iter().map(|(suite, shape)| format!("{suite} {shape}")).collect())
    }

    #[test]
    fn suites_shapes_and_parts_of_them() {
        assert_eq!(selected("--suite all").unwrap().len(), 68);
        assert_eq!(selected("--suite square,ragged").unwrap().len(), 16);
        assert_eq!(selected("--shape 1x2x3,4x5x6 --only x5x").unwrap(), ["given 4x5x6"],);
        assert_eq!(selected("--m 7 --n 8 --k 9").unwrap(), ["given 7x8x9"]);
        assert_eq!(
            selected("--suite square --shape 1x2x3 --only 1024").unwrap(),
            ["square 1024x1024x1024"]
        );
        assert_eq!(selected("--suite all --only decode").unwrap().len(), 28);
        assert_eq!(selected("--suite fp8").unwrap(), selected("--suite llm,decode").unwrap());
        let e4m3 = selected("--suite random --dtype e4m3 --random-shapes 50").unwrap();
        let aligned = |shape: &String| {
            let shape: Shape = shape.trim_start_matches("random ").parse().unwrap();
            shape.n.is_multiple_of(16) && shape.k.is_multiple_of(16)
        };
        assert!(e4m3.len() == 50 && e4m3.iter().all(aligned), "{e4m3:?}");
        let random = "--suite random --random-shapes 7 --random-seed 3 --random-k 64..64";
        let shapes = selected(random).unwrap();
        assert_eq!(shapes.len(), 7);
        assert!(shapes.iter().all(|s| s.starts_with("random ") && s.ends_with("x64")));
        assert_ne!(selected(&random.replace("seed 3", "seed 4")).unwrap(), shapes);
    }

    #[test]
    fn what_selects_nothing_is_refused() {
        assert!(selected("").unwrap_err().contains("--suite NAME"));
        assert!(selected("--suite llm --only 77777").unwrap_err().contains("none of the 24"));
        for bad in ["4", "8..4", "0..4", "a..4", "4..", "4...8", "-1..4"] {
            assert!(selected(&format!("--suite random --random-m={bad}")).is_err(), "{bad}");
        }
        for bad in ["--suite vision", "--shape 1x2", "--m 1 --n 2", "--m 1 --n 1 --k 1 --suite all"]
        {
            assert!(selected(bad).is_err(), "{bad}");
        }
    }
}
