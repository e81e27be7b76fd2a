//! `warpipe check --certify`: a certificate for any number of steps, of each kernel that the options name.

use super::family::Family;
use super::{Args, Failure, What, attention, examples, gemm, sm100, write_json};
use crate::error::Error;
use crate::progress::Progress;
use crate::say;
use host::SimConfig;
use host::sim::{Limits, Refusal, Trial, certify};
use serde_json::{Value, json};
use std::time::Instant;

/// Runs the command. It goes on behind a kernel that gets no certificate, unless it is wrong.
pub fn run(args: &Args) -> Result<(), Error> {
    let families: Vec<Box<dyn Family>> = match args.what {
        What::Gemm if sm100::is(args.instance.as_deref()) => sm100::families(args)?,
        What::Gemm => gemm::families(args)?,
        What::Attention => attention::families(args)?,
        What::Example => examples::families(args.name.as_deref())?,
    };
    let limits = Limits { steps: args.max_steps, ..Limits::default() };
    let mut results = Vec::new();
    let mut verdict = Ok(());
    for family in &families {
        let (json, outcome) = one(family.as_ref(), &limits)?;
        results.push(json);
        let found = matches!(outcome, Err(Error::Finding { .. }));
        if verdict.is_ok() || found {
            verdict = outcome;
        }
        if found {
            break;
        }
    }
    write_json(args, results)?;
    verdict
}

/// Certifies one kernel. Returns its JSON and the verdict.
fn one(family: &dyn Family, limits: &Limits) -> Result<(Value, Result<(), Error>), Error> {
    let start = Instant::now();
    let name = family.name();
    let progress = Progress::new(u64::from(limits.steps));
    let run = |config: &SimConfig, trial: Trial| progress.step(&name, || family.run(config, trial));
    let result = certify(&SimConfig::default(), limits, run);
    drop(progress);
    let seconds = start.elapsed().as_secs_f64();
    Ok(match result {
        Ok(certificate) => {
            say(&format!("{name}: certified ({seconds:.1} s)\n{certificate}"))?;
            let json = json!({
                "case": name, "seconds": seconds, "certificate": certificate,
                "assumptions": host::sim::Certificate::assumptions(), "refusal": null, "finding": null,
            });
            (json, Ok(()))
        }
        Err(Refusal::Finding { steps, finding }) => {
            say(&finding.error.to_string())?;
            let report = match &finding.error {
                Failure::Report(report) => json!(report),
                Failure::Other(text) => json!({ "message": text }),
            };
            let json = json!({
                "case": name, "seconds": seconds, "certificate": null, "steps": steps,
                "schedule": finding.schedule, "finding": report,
                "refusal": format!("a run of {steps} steps fails"),
            });
            let case = format!("{name}, {steps} steps");
            let (after, schedule) = (finding.after, finding.schedule);
            (json, Err(Error::Finding { case, after, schedule }))
        }
        Err(refusal) => {
            let reason = refusal.to_string();
            let json = json!({
                "case": name, "seconds": seconds, "certificate": null, "refusal": reason,
                "finding": null,
            });
            (json, Err(Error::NoCertificate { case: name, reason }))
        }
    })
}
