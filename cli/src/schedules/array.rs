//! Pointer arrays as cases: products of sizes of their own, in one launch.

use super::{Args, Case, Failure, Good};
use crate::array::Operands;
use crate::error::Error;
use crate::instance::named;
use host::gemm::Gemm;
use host::sim::Stats;
use host::{Device, SimConfig};
use std::path::Path;
use std::sync::Arc;

struct ArrayCase {
    kernel: &'static str,
    row: usize,
    operands: Arc<Operands>,
    good: Good,
}

/// The cases that the options name, of the problems in `file`.
pub fn cases(args: &Args, file: &Path) -> Result<Vec<Box<dyn Case>>, Error> {
    let operands = Arc::new(Operands::generate(file, 0, 1.0)?);
    let [problems, empty] = operands.counts();
    if problems == empty {
        let file = file.display();
        return Err(Error::Usage(format!(
            "{file}: every D is empty, and there is nothing to check"
        )));
    }
    let gemm = Gemm::grouped_array(&Device::sim(SimConfig::default()), &warpipe::GEMM_IMAGE)?;
    let rows: Vec<_> = gemm.instances().iter().map(|instance| instance.gemm).collect();
    let chosen = match &args.instance {
        _ if args.all_instances => (0..rows.len()).collect(),
        Some(name) => vec![named(&rows, name, |_| true)?],
        None => vec![operands.pick(&gemm)?],
    };
    let case = |row: usize| -> Box<dyn Case> {
        let (kernel, operands) = (rows[row].desc.meta.name(), Arc::clone(&operands));
        Box::new(ArrayCase { kernel, row, operands, good: Good::default() })
    };
    Ok(chosen.into_iter().map(case).collect())
}

impl Case for ArrayCase {
    fn name(&self) -> String {
        let [problems, empty] = self.operands.counts();
        format!("{} {problems} problems, {empty} empty", self.kernel)
    }

    fn run(&self, config: &SimConfig) -> Result<Stats, Failure> {
        let device = Device::sim(config.clone());
        let gemm = Gemm::grouped_array(&device, &warpipe::GEMM_IMAGE)?;
        let d = self.operands.multiply(&device, &gemm, self.row)?.d;
        self.good.accept(&self.name(), d, |d| self.operands.judge(d))?;
        Ok(device.model_stats().unwrap_or_default())
    }
}
