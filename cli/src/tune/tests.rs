use super::*;
use crate::gemm::Args;
use crate::instance::Which;
use crate::product::Product;
use clap::Parser;
use host::gemm::{
    FusedGemm, GatedGemm, Int8Gemm, QuantisedGemm, ScaledCGemm, ScaledGemm, Schedule,
};
use host::{Device, Dtype, SimConfig};
use std::fs;
use warpipe::half::{bf16, f16};

const NAME: &str = "gemm_bf16_bf16_64x64_1x1";

fn problem(m: u64) -> GemmProblem {
    GemmProblem { m, n: 64, k: 64, ab: Dtype::Bf16, out: Dtype::Bf16, beta_c: false }
}

fn model() -> (Device, Gemm) {
    let device = Device::sim(SimConfig::default());
    let gemm = Gemm::new(&device, &warpipe::GEMM_IMAGE).unwrap();
    (device, gemm)
}

fn tuner(file: &Path, tune: bool) -> Result<Tuner, Error> {
    let tune_limit = Duration::from_secs(2);
    let args = TuneArgs { tune, tune_cache: Some(file.to_owned()), tune_limit };
    Tuner::new(&args).map(|tuner| tuner.expect("a file was named"))
}

#[test]
fn a_plan_looks_into_the_cache_first() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cache.json");
    let (_, gemm) = model();
    let mut cache = TuneCache::new();
    for (m, instance, clusters) in [(512, NAME, 3), (9, "gemm_of_last_year", 1), (10, NAME, 5000)] {
        let (key, instance) = (gemm.tune_key(&problem(m)), instance.to_owned());
        let schedule = Schedule { clusters, streamed: 0 };
        cache.insert(TuneEntry { key, instance, schedule, us: 3.5 });
    }
    cache.save(&file).unwrap();
    let mut tuner = tuner(&file, false).unwrap();
    let mut planned = |m, k| {
        let problem = GemmProblem { k, ..problem(m) };
        let plan = tuner.plan(&gemm, &problem, |bound, stream| bound.run(1.0, 0.0, stream))?;
        Ok::<_, Error>(plan.describe().kernel.clone().unwrap())
    };
    let kernel = planned(512, 64).unwrap();
    assert_eq!((kernel.name.as_str(), kernel.tiles), (NAME, 8));
    assert_eq!(kernel.schedule().to_string(), "3/0");
    // Another K is another product: the picker's.
    assert!(planned(512, 72).unwrap().why.contains("predicted"));
    let stale = planned(9, 64).unwrap_err().to_string();
    assert!(stale.contains("cache.json: ") && stale.contains("give --tune"), "{stale}");
    assert!(stale.contains("gemm_of_last_year 1/0 for 9x64x64"), "{stale}");
    let stale = planned(10, 64).unwrap_err().to_string();
    assert!(stale.contains("holds 1 to 132 clusters"), "{stale}");
}

/// A product of each family, all of one size, and a cache with an entry for each.
struct Families {
    device: Device,
    cache: TuneCache,
    /// With the time in the entry, which no other has.
    products: Vec<(f64, Product)>,
}

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

impl Families {
    /// Adds the product of these options, which these kernels compute. Its entry is the last pair that is worth trying.
    fn add<E: Epilogue>(&mut self, options: &str, gemm: Result<Gemm<E>, host::Error>) {
        let line = format!("gemm --m 24 --n 32 --k 144 {options}");
        let product = Line::parse_from(line.split_whitespace()).args.product().unwrap();
        let (gemm, problem) = (gemm.unwrap(), &product.operands.problem);
        let us = 1.0 + self.products.len() as f64;
        let plans = gemm.plan_every(problem).unwrap();
        let kernel = plans.last().and_then(|plan| plan.describe().kernel.as_ref()).unwrap();
        let (key, schedule) = (gemm.tune_key(problem), kernel.schedule());
        self.cache.insert(TuneEntry { key, instance: kernel.name.clone(), schedule, us });
        self.products.push((us, product));
    }

    fn all() -> Self {
        let (device, plain) = model();
        let (d, image) = (&device.clone(), &warpipe::GEMM_IMAGE);
        let mut all = Self { device, cache: TuneCache::new(), products: Vec::new() };
        all.add("", Ok(plain));
        all.add("--beta 2", Gemm::new(d, image));
        all.add("--dtype tf32", Gemm::new(d, image));
        all.add("--dtype e4m3", ScaledGemm::scaled(d, image, false));
        all.add("--dtype e4m3 --scales row --fast-accum", ScaledGemm::scaled(d, image, true));
        all.add("--dtype e4m3 --scales block", Gemm::block_scaled(d, image));
        all.add("--dtype e4m3 --beta 2", ScaledCGemm::scaled_c(d, image));
        let e4m3 = "--dtype e4m3 --out-dtype e4m3 --d-scale 2 --amax";
        all.add(e4m3, QuantisedGemm::quantised(d, image, false));
        all.add(&format!("{e4m3} --fast-accum"), QuantisedGemm::quantised(d, image, true));
        for (types, name) in [
            ([Dtype::E5m2, Dtype::E4m3], "e5m2xe4m3"),
            ([Dtype::E4m3, Dtype::E5m2], "e4m3xe5m2"),
            ([Dtype::E5m2, Dtype::E5m2], "e5m2"),
        ] {
            for (fast, option) in [(false, ""), (true, "--fast-accum")] {
                let options = format!("--dtype {name} {option}");
                all.add(&options, ScaledGemm::scaled_mix(d, image, types, fast));
            }
        }
        all.add("--dtype int8", Int8Gemm::int8(d, image));
        all.add("--dtype int8 --out-dtype bf16", ScaledGemm::int8_scaled(d, image));
        all.add("--epilogue bias+gelu", FusedGemm::<bf16>::fused(d, image));
        all.add("--epilogue residual --beta 2", FusedGemm::<bf16>::fused(d, image));
        all.add("--epilogue swiglu", GatedGemm::<bf16>::gated(d, image));
        all.add("--epilogue bias --dtype f16", FusedGemm::<f16>::fused(d, image));
        all
    }
}

#[test]
fn each_family_has_an_entry_of_its_own_and_is_planned_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cache.json");
    let Families { device, cache, products } = Families::all();
    assert_eq!(cache.entries().len(), products.len());
    cache.save(&file).unwrap();
    let mut known = tuner(&file, false).unwrap();
    for (us, product) in &products {
        let run = product.run(&device, Which::Tuned(&mut known)).unwrap();
        let kernel = run.plan.kernel.unwrap();
        let why = format!("the tune cache has it, with {us:.2} us");
        assert_eq!(kernel.why, why, "{}", kernel.name);
        let judged = product.judge(&run.d).unwrap();
        assert!(judged.passed, "{}: {judged:?}", kernel.name);
        // An entry is not a find.
        assert!(!known.found() && known.keep().unwrap().is_none());
    }
    // The model has no times, so nothing is found and nothing is written.
    let file = folder.path().join("none.json");
    let mut unknown = tuner(&file, true).unwrap();
    for (_, product) in &products {
        let refused = product.run(&device, Which::Tuned(&mut unknown));
        let said = refused.err().expect("must be refused");
        assert_eq!(said.to_string(), "tuning needs a GPU; this is the SM model");
        assert_eq!(said.exit_code(), 2);
        assert!(!unknown.found() && unknown.keep().unwrap().is_none() && !file.exists());
    }
}

#[test]
fn what_was_found_is_written_when_it_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cache.json");
    let (_, gemm) = model();
    let mut tuner = tuner(&file, true).unwrap();
    let (key, schedule) = (gemm.tune_key(&problem(8)), Schedule { clusters: 1, streamed: 0 });
    let entry = TuneEntry { key, instance: NAME.to_owned(), schedule, us: 3.5 };
    tuner.found = Some((entry.clone(), "in words".to_owned()));
    assert!(tuner.found() && !file.exists());
    assert_eq!(tuner.keep().unwrap().as_deref(), Some("in words"));
    assert_eq!(TuneCache::load(&file).unwrap().entries(), [entry]);
    assert!(!tuner.found() && tuner.keep().unwrap().is_none());
    // Of a find whose result was wrong, the next plan knows nothing.
    tuner.found = Some((tuner.cache.entries()[0].clone(), String::new()));
    let queue = |bound: &BoundGemm<'_>, stream: &Stream| bound.run(1.0, 0.0, stream);
    assert!(tuner.plan(&gemm, &problem(9), queue).is_err() && !tuner.found());
}

#[test]
fn what_is_no_cache_is_refused_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cache.json");
    let old = r#"{"format": "warpipe tune cache 1", "entries": []}"#;
    for (contents, word) in [("", "EOF"), ("[1, 2]", "invalid"), (old, "name another file")] {
        for tune in [false, true] {
            fs::write(&file, contents).unwrap();
            let said = tuner(&file, tune).err().expect("must be refused").to_string();
            assert!(said.contains("not a tune cache") && said.contains(word), "{said}");
            assert!(!said.contains('\n'), "{said}");
            assert_eq!(fs::read_to_string(&file).unwrap(), contents);
        }
    }
    fs::remove_file(&file).unwrap();
    let said = tuner(&file, false).err().expect("must be refused").to_string();
    assert!(said.contains("cache.json: "), "{said}");
    // Nothing was found yet, so nothing is written.
    assert!(tuner(&file, true).is_ok() && !file.exists());
}

#[test]
fn a_limit_is_a_number_of_seconds() {
    assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
    assert!(["0", "-1", "nan", "inf", "1e9", "x"].iter().all(|text| seconds(text).is_err()));
}
