//! `warpipe bench --record`: writes the times of many kernels and schedules of each shape, for the picker's
//! predictions.

use super::measure::{operands, rival, rivals};
use super::types::Types;
use super::{Args, Item};
use crate::error::Error;
use crate::output::Place;
use crate::progress::Progress;
use crate::say;
use host::gemm::{Gemm, GemmProblem, ScaledGemm};
use host::timing::SearchConfig;
use host::{Device, dtype_name};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use warpipe_bench::cublaslt::CublasLt;
use warpipe_bench::machine::Machine;
use warpipe_bench::record::{FORMAT, Header, Record, plans};
use warpipe_bench::{Launch, ScaleOf};

/// How the plans of a shape are timed: the brief times take up to three seconds, the finalists' one.
const SEARCH: SearchConfig = SearchConfig {
    limit: Duration::from_secs(4),
    near: 1.3,
    finalists: 24,
    rounds: 5,
    sample_us: 200.0,
};

/// Measures `items` and writes the record to `place` after each of them, until the time is over.
pub fn record(args: &Args, device: &Device, items: &[Item], place: &Place) -> Result<(), Error> {
    let (types, image) = (args.types()?, &warpipe::GEMM_IMAGE);
    match types.scales {
        None => recorded(args, types, &Gemm::new(device, image)?, device, items, place),
        Some(ScaleOf::Block) => {
            recorded(args, types, &Gemm::block_scaled(device, image)?, device, items, place)
        }
        Some(_) => {
            let gemm = ScaledGemm::scaled(device, image, types.fast_accum)?;
            recorded(args, types, &gemm, device, items, place)
        }
    }
}

/// [`record`] with kernels that compute the products.
fn recorded<E: Launch>(
    args: &Args,
    types: Types,
    gemm: &Gemm<E>,
    device: &Device,
    items: &[Item],
    place: &Place,
) -> Result<(), Error> {
    let start = Instant::now();
    let limit = Duration::from_secs(args.record_limit);
    let progress = Progress::new(items.len() as u64 + 1);
    let problems: Vec<GemmProblem> = items.iter().map(|(_, problem)| *problem).collect();
    let bench = progress.step("making operands", || operands(args, types, device, &problems))?;
    let (lt, absent) = rival(args, device)?;
    if let Some(why) = absent {
        say(&why)?;
    }
    let mut text = serde_json::json!(header(types, device, lt.as_ref())?).to_string();
    text.push('\n');
    say(&heading())?;
    let mut records: Vec<Record> = Vec::with_capacity(items.len());
    for (_, problem) in items {
        if start.elapsed() > limit {
            let (done, all) = (records.len(), items.len());
            say(&format!("{done} of {all} shapes after {} s", limit.as_secs()))?;
            break;
        }
        let name = format!("timing {}x{}x{}", problem.m, problem.n, problem.k);
        let record = progress.step(&name, || {
            let plans = plans(gemm, problem, args.record_plans as usize)?;
            let rivals = rivals(&bench, lt.as_ref(), problem, types, say)?;
            let search = bench.search(&plans, &rivals, &SEARCH)?;
            let bound = types.bound(problem);
            if !search.check.below(bound) {
                let (error, dtype) = (search.check.error(), dtype_name(problem.out));
                return Err(Error::Check { error, bound, dtype, k: problem.k });
            }
            Ok(Record::new(&plans, &search))
        })?;
        let Some(record) = record else { continue };
        say(&row(&record))?;
        text.push_str(&serde_json::json!(record).to_string());
        text.push('\n');
        // Written now, so that a measurement that is interrupted leaves what it has.
        place.write(text.as_bytes())?;
        records.push(record);
    }
    drop(progress);
    for line in summary(&records) {
        say(&line)?;
    }
    Ok(())
}

fn header(types: Types, device: &Device, lt: Option<&CublasLt>) -> Result<Header, Error> {
    let info = device.info().ok_or(host::Error::NotOnModel { what: "a benchmark" })?;
    Ok(Header {
        format: FORMAT.to_owned(),
        gpu: info.name.clone(),
        sms: info.sms,
        driver: Machine::of(info).driver,
        cublaslt: lt.map(CublasLt::version),
        command: std::env::args().skip(1).collect::<Vec<_>>().join(" "),
        unix_time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        ab: dtype_name(types.ab).to_owned(),
        out: dtype_name(types.out).to_owned(),
        scales: types.scales,
        fast_accum: types.fast_accum,
    })
}

fn heading() -> String {
    format!(
        "{:<20} {:>5} {:<24} {:>9} {:<24} {:>9} {:>6} {:>9} {:>8}",
        "M x N x K", "timed", "picked", "us", "fastest", "us", "picked", "cuBLASLt", "ratio"
    )
}

/// A shape: the picker's choice, the fastest pair, their ratio, cuBLASLt's fastest kernel and its ratio to ours.
fn row(record: &Record) -> String {
    let pair = |i: usize| {
        let (kernel, clusters, streamed, us, _) = &record.runs[i];
        format!("{:<24} {us:>9.2}", format!("{kernel} {clusters}/{streamed}"))
    };
    let theirs = record
        .fastest_us
        .map_or_else(String::new, |us| format!(" {us:>9.2} {:>8.3}", us / record.best_us()));
    format!(
        "{:<20} {:>5} {} {} {:>6.3}{theirs}",
        record.shape.to_string(),
        record.runs.len(),
        pair(record.picked),
        pair(0),
        record.picked_ratio(),
    )
}

/// The geometric mean and the least of the ratios of all shapes.
fn summary(records: &[Record]) -> Vec<String> {
    let of = |what: &str, ratios: Vec<(f64, &Record)>| {
        let least = ratios.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let mean = ratios.iter().map(|(ratio, _)| ratio.ln()).sum::<f64>() / ratios.len() as f64;
        let (count, mean) = (ratios.len(), mean.exp());
        Some(format!(
            "{what}: {count} shapes, geometric mean {mean:.3}, least {:.3} ({})",
            least.0, least.1.shape
        ))
    };
    let picked = records.iter().map(|r| (r.picked_ratio(), r)).collect();
    let rival = |r: &Record| Some(r.fastest_us? / r.best_us());
    let theirs = records.iter().filter_map(|r| Some((rival(r)?, r))).collect();
    [of("the picker's choice in our fastest", picked), of("our fastest in cuBLASLt's", theirs)]
        .into_iter()
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_columns_of_the_heading() {
        let timed = |name: &str, us| (name.to_owned(), 66, 22, us, true);
        let record = Record {
            shape: "1x128x256".parse().unwrap(),
            cublaslt_us: Some(5.0),
            fastest_us: Some(3.0),
            picked: 1,
            runs: vec![timed("128x256_2x1", 2.0), timed("64x64_1x1", 2.5)],
        };
        let words = |text: String| text.split_whitespace().count();
        // "M x N x K" are five words; a kernel and its schedule are two.
        assert_eq!(words(heading()) - 4 + 2, words(row(&record)));
        let lines = summary(&[record.clone(), record]);
        assert!(lines[0].contains("2 shapes, geometric mean 0.800, least 0.800 (1x128x256)"));
        assert!(lines[1].contains("geometric mean 1.500"), "{lines:?}");
        assert!(summary(&[]).is_empty());
    }
}
