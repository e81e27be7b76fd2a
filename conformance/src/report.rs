//! Running every litmus on two devices, and the table of docs/conformance.md.

use crate::{Bench, Comparison, Litmus, Log, Refusal, broken, compare};
use host::{Device, Error, SimConfig};
use std::fmt::Write;

/// What the model does with a litmus.
pub enum OnModel {
    /// It ran.
    Ran(Log),
    /// It was refused, as it should be.
    Refused(Refusal),
}

/// Runs a litmus on the model and judges it by the manual.
///
/// # Errors
/// A line: the model's report, or the values that the manual does not allow.
pub fn on_model(litmus: &Litmus, seed: u64) -> Result<OnModel, String> {
    let device = Device::sim(SimConfig { seed, ..SimConfig::default() });
    let name = litmus.name;
    on_bench(litmus, seed, &Bench::new(device).map_err(|e| format!("{name}: {e}"))?)
}

/// The same of a litmus for Blackwell. The model has few SMs, so that some CTAs do not start at once.
///
/// # Errors
/// As [`on_model`].
pub fn blackwell_on_model(litmus: &Litmus, seed: u64) -> Result<OnModel, String> {
    let device = Device::sim(SimConfig { seed, sms: 4, ..SimConfig::default() });
    let name = litmus.name;
    on_bench(litmus, seed, &Bench::blackwell(device).map_err(|e| format!("{name}: {e}"))?)
}

fn on_bench(litmus: &Litmus, seed: u64, bench: &Bench) -> Result<OnModel, String> {
    let name = litmus.name;
    let mut log = Log::default();
    match ((litmus.run)(bench, &mut log), litmus.refused) {
        (Err(Error::Model(report)), Some(refusal)) if report.rule.code() == refusal.code => {
            Ok(OnModel::Refused(refusal))
        }
        (Err(e), _) => Err(format!("{name}, seed {seed}: {e}")),
        (Ok(()), Some(Refusal { code, .. })) => {
            Err(format!("{name}, seed {seed}: ran, where the model should report {code}"))
        }
        (Ok(()), None) => match broken(&log) {
            (0, _) => Ok(OnModel::Ran(log)),
            (count, named) => Err(format!(
                "{name}, seed {seed}: {count} values differ from the manual:\n  {}",
                named.join("\n  ")
            )),
        },
    }
}

/// A row of the table.
pub struct Row {
    /// The litmus.
    pub name: &'static str,
    /// Why the model does not run it.
    pub refused: Option<Refusal>,
    /// Values that the chip gave, compared with the model's and the manual's.
    pub comparison: Comparison,
}

impl Row {
    /// One line for the terminal.
    pub fn line(&self) -> String {
        let c = &self.comparison;
        let mut line =
            format!("{}: {} values, {} disagreements", self.name, c.compared, c.disagreements);
        if c.both_allowed > 0 {
            let _ = write!(line, ", {} differ as allowed", c.both_allowed);
        }
        if let (Some(largest), Some(part)) = (c.largest, c.of_bound) {
            let _ = write!(line, ", largest difference {largest:e}, {part:.4} of the bound");
        }
        match self.refused {
            None => {}
            Some(Refusal { code, error: None }) => {
                let _ = write!(line, " (the model reports {code})");
            }
            Some(Refusal { code, error: Some(error) }) => {
                let _ = write!(line, " (the model reports {code}, the chip {error})");
            }
        }
        for named in &c.named {
            let _ = write!(line, "\n  {named}");
        }
        line
    }
}

/// Runs a litmus that the model refuses and that ends the chip's context: the one value to compare is
/// the chip's error.
///
/// # Errors
/// A line: what the model says, or that the chip ran it.
pub fn ends_on_chip(litmus: &Litmus, chip: &Bench, error: &str) -> Result<Row, String> {
    let OnModel::Refused(refusal) = on_model(litmus, 0)? else {
        return Err(format!("{}: ran on the model", litmus.name));
    };
    match (litmus.run)(chip, &mut Log::default()) {
        Err(e) if e.to_string().contains(error) => {
            let comparison = Comparison { compared: 1, ..Comparison::default() };
            Ok(Row { name: litmus.name, refused: Some(refusal), comparison })
        }
        Err(e) => Err(format!("{}, on the chip: {e}; it should be {error}", litmus.name)),
        Ok(()) => Err(format!("{}, on the chip: ran; it should end with {error}", litmus.name)),
    }
}

/// Runs a litmus on a chip and compares with the model.
///
/// # Errors
/// A line: what the model or the driver says.
pub fn on_chip(litmus: &Litmus, chip: &Bench) -> Result<Row, String> {
    let model = on_model(litmus, 0)?;
    let mut log = Log::default();
    (litmus.run)(chip, &mut log).map_err(|e| {
        let part = log.parts.last().map_or("its start", |part| part);
        format!("{}, on the chip, at {part}: {e}", litmus.name)
    })?;
    let (refused, comparison) = match model {
        OnModel::Ran(model) => (None, compare(&model, &log)),
        // What the chip does beyond the rules has the manual as its only judge.
        OnModel::Refused(refusal) => (Some(refusal), compare(&log, &log)),
    };
    Ok(Row { name: litmus.name, refused, comparison })
}

/// Runs a litmus on a Blackwell GPU, with the manual as its only judge: how many values are compared depends on the device.
///
/// # Errors
/// A line: what the driver says.
pub fn blackwell_on_chip(litmus: &Litmus, chip: &Bench) -> Result<Row, String> {
    let mut log = Log::default();
    (litmus.run)(chip, &mut log).map_err(|e| {
        let part = log.parts.last().map_or("its start", |part| part);
        format!("{}, on the chip, at {part}: {e}", litmus.name)
    })?;
    Ok(Row { name: litmus.name, refused: None, comparison: compare(&log, &log) })
}

/// The values of a log that the model refused to give, in words: what the chip did.
///
/// # Errors
/// What the driver says.
pub fn beyond(litmus: &Litmus, chip: &Bench) -> Result<Vec<String>, Error> {
    let mut log = Log::default();
    (litmus.run)(chip, &mut log)?;
    Ok(log.seen.iter().map(|s| format!("{}: {}", log.parts[s.part], s.have)).collect())
}

/// The table, as Markdown.
pub fn table(rows: &[Row]) -> String {
    let mut out = String::from(
        "| litmus | values compared | disagreements | differ, both allowed |\n|---|---:|---:|---:|\n",
    );
    for row in rows {
        let c = &row.comparison;
        let name = match row.refused {
            Some(Refusal { code, error: None }) => format!("{} ({code} on the model)", row.name),
            Some(Refusal { code, error: Some(error) }) => {
                format!("{} ({code} on the model, `{error}` on the chip)", row.name)
            }
            None => row.name.to_owned(),
        };
        let _ =
            writeln!(out, "| {name} | {} | {} | {} |", c.compared, c.disagreements, c.both_allowed);
    }
    let sum = |f: fn(&Comparison) -> usize| rows.iter().map(|r| f(&r.comparison)).sum::<usize>();
    let _ = writeln!(
        out,
        "| **all {} litmuses** | **{}** | **{}** | **{}** |",
        rows.len(),
        sum(|c| c.compared),
        sum(|c| c.disagreements),
        sum(|c| c.both_allowed)
    );
    out
}
