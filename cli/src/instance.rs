//! The kernels of a table: as rows, by name, and planned.

use crate::error::Error;
use crate::tune::Tuner;
use host::Stream;
use host::gemm::{BoundGemm, Gemm, GemmPlan, GemmProblem, Schedule};
use warpipe::gpu_kernels::gemm::{Epilogue, Instance};

/// The kernels of a table, whatever their epilogue.
pub trait Kernels: Send + Sync {
    /// The rows of the table.
    fn rows(&self) -> &'static [Instance];
    /// The schedules of a row that are worth trying, each with its predicted time.
    fn schedules(
        &self,
        problem: &GemmProblem,
        index: usize,
    ) -> Result<Vec<(f64, Schedule)>, host::Error>;
    /// Refuses a schedule that a row does not have.
    fn check_schedule(
        &self,
        problem: &GemmProblem,
        index: usize,
        schedule: Schedule,
    ) -> Result<(), host::Error>;
}

impl<E: Epilogue> Kernels for Gemm<E> {
    fn rows(&self) -> &'static [Instance] {
        self.instances()
    }

    fn schedules(
        &self,
        problem: &GemmProblem,
        index: usize,
    ) -> Result<Vec<(f64, Schedule)>, host::Error> {
        Gemm::schedules(self, problem, index)
    }

    fn check_schedule(
        &self,
        problem: &GemmProblem,
        index: usize,
        schedule: Schedule,
    ) -> Result<(), host::Error> {
        self.plan_scheduled(problem, index, schedule).map(drop)
    }
}

/// Which plan of a product is made.
pub enum Which<'t> {
    /// The picker's.
    Picked,
    /// That with a row of the table in a schedule.
    Row(usize, Schedule),
    /// That of a tune cache, or the fastest of a search.
    Tuned(&'t mut Tuner),
}

/// Makes a plan. A search queues its bound products with `queue`.
pub fn planned<E: Epilogue>(
    gemm: &Gemm<E>,
    problem: &GemmProblem,
    which: Which<'_>,
    queue: impl Fn(&BoundGemm<'_, E>, &Stream) -> Result<(), host::Error>,
) -> Result<GemmPlan<E>, Error> {
    match which {
        Which::Picked => Ok(gemm.plan(problem)?),
        Which::Row(index, schedule) => Ok(gemm.plan_scheduled(problem, index, schedule)?),
        Which::Tuned(tuner) => tuner.plan(gemm, problem, queue),
    }
}

/// The row of the first kernel that `fits` and whose name is `asked` or ends in `_` and `asked`. For
/// example, `128x256_2x1` names `gemm_bf16_bf16_128x256_2x1`.
pub fn named(
    rows: &[Instance],
    asked: &str,
    fits: impl Fn(&Instance) -> bool,
) -> Result<usize, Error> {
    let fitting = || rows.iter().enumerate().filter(|(_, i)| fits(i));
    let end = format!("_{asked}");
    let is = |name: &str| name == asked || name.ends_with(&end);
    let found = fitting().find(|(_, i)| is(i.desc.meta.name()));
    found.map(|(index, _)| index).ok_or_else(|| {
        let names: Vec<_> = fitting().map(|(_, i)| i.desc.meta.name()).collect();
        Error::Usage(format!("no instance {asked} for these types; {}", nearest(asked, names)))
    })
}

/// Most names in a message.
const MOST_NAMES: usize = 12;

/// Sorts names: those most like `asked` first. It may be the end of one.
pub fn most_like_first(asked: &str, names: &mut [&str]) {
    names.sort_by_cached_key(|name| {
        let end = name.get(name.len().saturating_sub(asked.len())..).unwrap_or(name);
        strsim::levenshtein(asked, name).min(strsim::levenshtein(asked, end))
    });
}

/// Says which names there are: all of them, or those most like `asked`.
pub fn nearest(asked: &str, mut names: Vec<&str>) -> String {
    let count = names.len();
    if count == 0 {
        return "there are none".to_owned();
    }
    if count <= MOST_NAMES {
        return format!("there are: {}", names.join(", "));
    }
    most_like_first(asked, &mut names);
    names.truncate(MOST_NAMES);
    format!("of {count} names the nearest are: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_gets_the_nearest_ones() {
        assert_eq!(nearest("a", vec![]), "there are none");
        assert_eq!(nearest("a", vec!["b", "c"]), "there are: b, c");
        let names: Vec<String> =
            (1..=40).map(|n| format!("gemm_bf16_bf16_64x{}_1x1", 8 * n)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for asked in ["64x129_1x1", "gemm_bf16_bf16_64x129_1x1"] {
            let said = nearest(asked, names.clone());
            assert!(said.starts_with("of 40 names the nearest are: gemm_bf16_bf16_64x1"), "{said}");
            assert!(
                said.contains("64x128_1x1") && said.matches(',').count() == MOST_NAMES - 1,
                "{said}"
            );
        }
    }
}
