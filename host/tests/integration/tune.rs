//! Plans from a tune cache, and what can't be tuned. The searches themselves are tested in `src/timing/search.rs` and, on a
//! GPU, here.

use crate::common::{IMAGE, TABLE, table};
use host::gemm::{Gemm, GemmProblem, Schedule, TuneCache, TuneEntry};
use host::timing::SearchConfig;
use host::{Device, Dtype, Error, SimConfig};

fn gemm_on(sms: u32) -> Gemm {
    let device = Device::sim(SimConfig { sms, ..SimConfig::default() });
    Gemm::with_instances(&device, &IMAGE, table(&TABLE)).unwrap()
}

fn problem(m: u64) -> GemmProblem {
    GemmProblem { m, n: 64, k: 64, ab: Dtype::Bf16, out: Dtype::Bf16, beta_c: false }
}

fn entry(gemm: &Gemm, m: u64, instance: &str, clusters: u32) -> TuneEntry {
    let (key, schedule) = (gemm.tune_key(&problem(m)), Schedule { clusters, streamed: 0 });
    TuneEntry { key, instance: instance.to_owned(), schedule, us: 3.5 }
}

fn line<T>(result: Result<T, Error>) -> String {
    let line = result.err().expect("must be refused").to_string();
    assert!(!line.is_empty() && !line.contains('\n'), "one line, got: {line}");
    line
}

#[test]
fn a_plan_looks_into_the_cache_first() {
    let gemm = gemm_on(132);
    let mut cache = TuneCache::new();
    cache.insert(entry(&gemm, 512, "small", 3));
    cache.insert(entry(&gemm, 9, "gemm_of_last_year", 1));
    cache.insert(entry(&gemm, 10, "small", 5000));
    // A kernel of the table that computes something else.
    cache.insert(entry(&gemm, 11, "mid_c", 1));
    let plan = gemm.plan_tuned(&problem(512), &cache).unwrap();
    let kernel = plan.describe().kernel.clone().unwrap();
    let why = "the tune cache has it, with 3.50 us";
    assert_eq!((kernel.name.as_str(), kernel.why.as_str()), ("small", why));
    // The picker never tries eight tiles on three CTAs.
    assert_eq!((kernel.tiles, kernel.schedule().to_string().as_str()), (8, "3/0"));
    // Another K, a C and another type are other products: the picker's.
    for other in [
        GemmProblem { k: 72, ..problem(512) },
        GemmProblem { beta_c: true, ..problem(512) },
        GemmProblem { out: Dtype::F32, ..problem(512) },
    ] {
        let plan = gemm.plan_tuned(&other, &cache).unwrap();
        assert!(plan.describe().kernel.as_ref().unwrap().why.contains("predicted"));
        assert_eq!(gemm.tuned(&other, &cache).unwrap(), None);
    }
    let stale = line(gemm.plan_tuned(&problem(9), &cache));
    assert!(
        stale.contains("gemm_of_last_year 1/0 for 9x64x64, but this program has no"),
        "{stale}"
    );
    let stale = line(gemm.plan_tuned(&problem(10), &cache));
    assert!(stale.contains("5000/0 for 10x64x64") && stale.contains("1 to 132"), "{stale}");
    assert!(line(gemm.plan_tuned(&problem(11), &cache)).contains("mid_c 1/0 for 11x64x64"));
    // In memory of the caller's, too.
    let device = Device::sim(SimConfig::default());
    let gemm = Gemm::with_instances(&device, &IMAGE, table(&TABLE)).unwrap();
    let plan = gemm.plan_tuned_in(&problem(512), &cache, |bytes| device.alloc_zeroed(bytes));
    assert_eq!(plan.unwrap().describe().kernel.as_ref().unwrap().why, why);
}

#[test]
fn another_gpu_or_type_is_another_product() {
    let key = gemm_on(132).tune_key(&problem(8));
    assert_ne!(key, gemm_on(7).tune_key(&problem(8)));
    let single = GemmProblem { out: Dtype::F32, ..problem(8) };
    assert_ne!(key, gemm_on(132).tune_key(&single));
    assert_eq!(key, gemm_on(132).tune_key(&problem(8)));
}

#[test]
fn tuning_needs_a_gpu() {
    let tuned = gemm_on(132).tune(&problem(8), &SearchConfig::default());
    assert_eq!(line(tuned), "tuning needs a GPU; this is the SM model");
}
