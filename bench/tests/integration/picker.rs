//! What the picker picks, against what was measured: docs/data/records has the times of many kernels and schedules for
//! shapes that were drawn at random, on one H200 and on one H100.

use super::recorded::{
    BENCHED, PICKS, Product, Ratios, SUITES, is_fresh, is_of_suites, read, read_e4m3, read_file,
    table,
};
use gpu_kernels::gemm::{
    BLOCK_SCALED_INSTANCES, FAST_ACCUM_INSTANCES, INSTANCES, Instance, SCALED_INSTANCES,
};
use host::gemm::{Calibration, Candidate, HardwareInfo, candidates, pick};
use std::collections::BTreeSet;
use std::time::Instant;

/// Time of the fastest measured pair divided by that of the first measured one in the picker's order, and whether that
/// is the picker's choice itself.
fn picked(product: &Product, hardware: HardwareInfo) -> (f64, bool) {
    first_measured(product, candidates(&INSTANCES, &product.problem, false, hardware))
}

/// The same ratio for the terms alone, without the comparison of the candidates near the shortest time.
fn picked_by_terms(product: &Product, hardware: HardwareInfo) -> f64 {
    let mut all = candidates(&INSTANCES, &product.problem, false, hardware);
    for Candidate { prediction, .. } in &mut all {
        prediction.predicted_us /= prediction.correction;
    }
    first_measured(product, all).0
}

fn first_measured(product: &Product, mut all: Vec<Candidate<'_>>) -> (f64, bool) {
    all.sort_by(Candidate::order);
    let measured = |candidate: &Candidate<'_>| {
        let name = candidate.instance.desc.meta.name();
        let is = |run: &&(&gpu_kernels::gemm::Instance, _, f64)| {
            run.0.desc.meta.name() == name && run.1 == candidate.prediction.schedule
        };
        product.runs.iter().find(is).map(|run| run.2)
    };
    let (place, us) = all
        .iter()
        .enumerate()
        .find_map(|(place, candidate)| measured(candidate).map(|us| (place, us)))
        .expect("each record has kernels of the table");
    (product.best_us / us, place == 0)
}

/// A pick passes over kernels whose bound says that they can't be the fastest. So it must find what a look at all of them finds,
/// in the tables of all operands.
#[test]
fn a_pick_is_the_best_of_all_candidates() {
    for hardware in [HardwareInfo::h200(132), HardwareInfo::h100(132)] {
        let mut records = read(hardware.calibration).unwrap();
        records.extend(read_e4m3(hardware.calibration).unwrap());
        for recorded in &records {
            let (product, table) = (Product::new(recorded), table(&recorded.header));
            let all = candidates(table, &product.problem, false, hardware);
            let best = all.iter().min_by(|a, b| a.order(b)).expect("an instance");
            let picked = pick(table, &product.problem, false, hardware).expect("an instance");
            assert_eq!(
                (picked.index, picked.schedule, picked.predicted_us),
                (best.index, best.prediction.schedule, best.prediction.predicted_us),
                "{} {}",
                hardware.calibration.gpu,
                product.shape
            );
        }
    }
}

/// The comparison gains on shapes that neither the fit nor the training has seen.
#[test]
fn the_comparison_gains_on_shapes_that_it_has_not_seen() {
    for hardware in [HardwareInfo::h200(132), HardwareInfo::h100(132)] {
        let gpu = hardware.calibration.gpu;
        let records = read(hardware.calibration).unwrap();
        let products = records.iter().map(Product::new).filter(|p| !p.runs.is_empty());
        let products: Vec<Product> = products.collect();
        let kind_of = |p: &Product| match p {
            p if p.file == BENCHED => "in turn",
            p if is_of_suites(&p.file) => "suites",
            p if is_fresh(&p.file) => "fresh",
            p if p.held_out => "held out",
            _ => "fitted",
        };
        for kind in products.iter().map(kind_of).collect::<BTreeSet<_>>() {
            let of = || products.iter().filter(|p| kind_of(p) == kind);
            let terms = Ratios::of(of().map(|p| (picked_by_terms(p, hardware), ())));
            let with = Ratios::of(of().map(|p| (picked(p, hardware).0, ())));
            println!(
                "{gpu}, {kind}: {} shapes, {:.4} and {} below 0.88 by the terms, {:.4} and {} with the comparison",
                with.count, terms.mean, terms.low, with.mean, with.low
            );
            let unseen = kind == "held out" || kind == "fresh";
            assert!(with.mean > terms.mean + if unseen { 0.003 } else { 0.0 }, "{gpu}, {kind}");
        }
    }
}

/// The same records' picks for an H100, and what the constants of the other GPU would pick.
#[test]
fn what_is_picked_for_an_h100_is_near_the_fastest() {
    let records = read(&Calibration::H100).unwrap();
    assert!(records.len() > 1000 && records.iter().all(|r| r.header.gpu.contains("H100")));
    let products: Vec<Product> = records.iter().map(Product::new).collect();
    let of = |name: &str, hardware: HardwareInfo, chosen: &dyn Fn(&Product) -> bool| {
        let chosen = products.iter().filter(|p| chosen(p));
        let picks: Vec<_> = chosen.map(|p| (picked(p, hardware), p.shape)).collect();
        let Ratios { count, mean, low, .. } = Ratios::of(picks.iter().map(|p| (p.0.0, ())));
        // Of the choices that were measured.
        let measured = picks.iter().filter(|((_, first), _)| *first);
        let Ratios { least, .. } = Ratios::of(measured.map(|p| (p.0.0, p.1)));
        println!(
            "{name}: {count} shapes, {mean:.4} of the fastest, least {least:.3?}, {low} below 0.88"
        );
        mean
    };
    let h100 = HardwareInfo::h100(132);
    let old = |p: &Product| p.held_out && !is_fresh(&p.file);
    let held_out = of("held out", h100, &old);
    let fresh = of("fresh", h100, &|p| is_fresh(&p.file));
    let seen = of("fitted", h100, &|p| !p.held_out && !is_of_suites(&p.file));
    let suites = of("suites", h100, &|p| is_of_suites(&p.file));
    let held = products.iter().filter(|p| p.held_out);
    for file in held.map(|p| p.file.as_str()).collect::<BTreeSet<_>>() {
        of(&format!("held out of {file}"), h100, &|p| p.held_out && p.file == file);
    }
    // The newest records have up to 320 pairs a shape, and among so many the fastest is more often one whose time came out short.
    // With eight pairs compared instead of twelve, held-out shapes have 0.9859 and fresh ones 0.9856.
    assert!(held_out > 0.9865 && seen > 0.987 && suites > 0.991, "{held_out} {seen} {suites}");
    assert!(fresh > 0.987, "{fresh}");
    // The constants of another GPU pick worse. The difference was 0.01 when CTAs still ran apart, on an H100 more than on an H200.
    let other = of("held out, as on an H200", HardwareInfo::h200(132), &old);
    assert!(other < held_out - 0.006, "{other} {held_out}");
}

#[test]
fn what_is_picked_is_near_the_fastest() {
    // A shape whose timed kernels have all left the table says nothing of the picker.
    let products: Vec<Product> = read(&Calibration::H200)
        .unwrap()
        .iter()
        .map(Product::new)
        .filter(|product| !product.runs.is_empty())
        .collect();
    assert!(products.len() > 400, "{} shapes", products.len());
    let timed: BTreeSet<(&str, &str)> = products
        .iter()
        .flat_map(|p| p.runs.iter().map(|run| (p.file.as_str(), run.0.desc.meta.name())))
        .collect();
    let mut ratios = Vec::new();
    let (mut measured, mut new) = (0, 0);
    for product in &products {
        let (ratio, first) = picked(product, HardwareInfo::h200(132));
        let choice = pick(&INSTANCES, &product.problem, false, HardwareInfo::h200(132));
        let choice = &INSTANCES[choice.expect("an instance").index];
        measured += usize::from(first);
        new += usize::from(!timed.contains(&(product.file.as_str(), choice.desc.meta.name())));
        if ratio < 0.88 {
            println!("{} {}: {ratio:.3}", product.file, product.shape);
        }
        ratios.push((ratio, first, product));
    }
    let picks = || {
        let start = Instant::now();
        for product in &products {
            pick(&INSTANCES, &product.problem, false, HardwareInfo::h200(132))
                .expect("an instance");
        }
        start.elapsed() / products.len() as u32
    };
    let least = (0..9).map(|_| picks()).min();
    println!("a pick takes {:.1?}, the least of nine means", least.expect("nine"));
    // Kernels that joined the table later are in no record of a file. The other choices were not worth timing then.
    println!("{measured} of {} choices were measured, {new} are of new kernels", products.len());
    assert!(measured * 100 >= (products.len() - new) * MEASURED);
    assert!(new * 100 <= products.len() * NEW, "{new}");

    let of = |name: &str, chosen: &dyn Fn(&Product) -> bool| {
        let chosen = || ratios.iter().filter(|(.., p)| chosen(p));
        let Ratios { count, mean, low, .. } = Ratios::of(chosen().map(|r| (r.0, ())));
        // Where the choice itself was not measured, the ratio is that of a later one, which no user gets: a record is older
        // than some kernels. It counts in the mean and among those below 0.88.
        let Ratios { least, .. } = Ratios::of(chosen().filter(|r| r.1).map(|r| (r.0, r.2.shape)));
        println!(
            "{name}: {count} shapes, {mean:.4} of the fastest, least {least:.3?}, {low} below 0.88"
        );
        (mean, least.0)
    };
    let fresh = of("fresh", &|p| is_fresh(&p.file));
    let held_out = of("held out", &|p| p.held_out && !is_fresh(&p.file));
    let seen = of("fitted", &|p| !p.held_out && !is_of_suites(&p.file));
    let suites = of("suites", &|p| p.file == SUITES);
    for file in products.iter().map(|p| p.file.as_str()).collect::<BTreeSet<_>>() {
        of(file, &|p| p.file == file);
    }
    // With fewer kernels the bars of the least were 0.88 and 0.84; then more slow picks had no time and were left out. 21 x 4000 x
    // 2376 and 907 x 9384 x 11360 were timed again and are still slow. In exchange, at most 0.2 % of all shapes may be below 0.88,
    // not 0.3 %.
    assert!(fresh.0 > 0.988 && fresh.1 > 0.81, "{fresh:?}");
    assert!(held_out.0 > 0.99 && held_out.1 > 0.82, "{held_out:?}");
    // Among these are all shapes that were recorded because the pick of a day was slow. The least is 9611 x 13928 x 152.
    assert!(seen.0 > 0.992 && seen.1 > 0.86, "{seen:?}");
    let low = ratios.iter().filter(|r| r.0 < 0.88).count();
    assert!(low * 1000 < 2 * ratios.len(), "{low} of {} below 0.88", ratios.len());
    assert!(suites.0 > 0.995 && suites.1 > 0.96, "{suites:?}");
    let benched = of("suites in turn with cuBLASLt", &|p| p.file == BENCHED);
    assert!(benched.0 > 0.996 && benched.1 > 0.95, "{benched:?}");
}

/// Held-out shapes beside the first of cuBLASLt's candidates, of the same records. Where even the fastest pair of the table is
/// slow, a better pick would not help. Records of shapes that were chosen because they are slow say nothing of others.
#[test]
fn few_picks_are_behind_cublaslt() {
    let products: Vec<Product> =
        read(&Calibration::H200).unwrap().iter().map(Product::new).collect();
    let mut all = Vec::new();
    let (mut table, mut pick, mut far) = (0, 0, 0);
    for product in products.iter().filter(|p| p.held_out) {
        let Some(cublaslt_us) = product.cublaslt_us else { continue };
        let fastest = cublaslt_us / product.best_us;
        let ratio = fastest * picked(product, HardwareInfo::h200(132)).0;
        all.push((ratio, product.shape));
        if ratio < 0.97 {
            println!("{}: {ratio:.3}; the fastest pair {fastest:.3}", product.shape);
        }
        table += usize::from(fastest < 0.97);
        pick += usize::from(ratio < 0.97 && fastest >= 0.97);
        far += usize::from(ratio < 0.90);
    }
    let Ratios { count, mean, least, .. } = Ratios::of(all);
    println!(
        "{count} held-out shapes: {mean:.3} of cuBLASLt's first candidate, least {least:.3?}; below 0.97: {table} that no pair \
         of the table reaches, and {pick} by the pick; {far} below 0.90"
    );
    let percent = |shapes: usize| 100.0 * shapes as f64 / count as f64;
    let (pick, far) = (percent(pick), percent(far));
    assert!(mean > FIRST_MEAN && pick < FIRST_BY_PICK && far < FIRST_FAR, "{mean} {pick} {far}");
}

/// Shapes that were drawn after the fit, with the pair that was picked then. A pair is picked where the model takes its time
/// for short, so the mean is below 1.
#[test]
fn times_of_fresh_picks_are_as_predicted() {
    let mut products: Vec<Product> = read_file(PICKS).unwrap().iter().map(Product::new).collect();
    assert_eq!(products.len(), 200);
    // Some of the picked kernels have left the table, and some schedules are not tried any more.
    products.retain(|p| !p.runs.is_empty());
    assert!(products.len() > 180, "{} shapes", products.len());
    let of = |p: &Product| {
        let (predicted, us) = p.predicted(&Calibration::H200).next().expect("one pair");
        (predicted / us, p.shape)
    };
    let error = |ratio: f64| ratio.ln().abs();
    let errors: Vec<_> = products.iter().map(|p| error(of(p).0)).collect();
    let error = errors.iter().sum::<f64>() / errors.len() as f64;
    let far = errors.iter().filter(|&&error| error > 0.2).count();
    let Ratios { mean, least, .. } = Ratios::of(products.iter().map(of));
    println!(
        "predicted {mean:.3} of the measured time, least {least:.3?}; off by {:.1} % in the mean, {far} by more than 20 %",
        error * 100.0
    );
    assert!(mean > 0.96 && least.0 > 0.7 && error < 0.06, "{mean}, {least:?}, {error}");
}

/// Bars of the picks beside cuBLASLt: the geometric mean, most shapes that only the pick puts behind, and most shapes far behind,
/// in percent.
const FIRST_MEAN: f64 = 1.19;
const FIRST_BY_PICK: f64 = 2.0;
const FIRST_FAR: f64 = 1.0;

/// Least percentage of shapes whose first choice was measured, among those whose choice is a kernel of the records; and the
/// highest percentage of those where it is another kernel.
const MEASURED: usize = 95;
const NEW: usize = 5;

/// A kernel's own constants name it by its tile, cluster, kind and sums. Each names one kernel of the table for operands of
/// bf16, or of e4m3, and none is missing.
#[test]
fn each_kernel_has_times_of_its_own() {
    Calibration::ALL.into_iter().for_each(has_times_of_its_own);
}

fn has_times_of_its_own(Calibration { kernels, e4m3_kernels, .. }: &Calibration) {
    let e4m3: Vec<&Instance> =
        [SCALED_INSTANCES.rows, FAST_ACCUM_INSTANCES.rows, BLOCK_SCALED_INSTANCES.rows]
            .into_iter()
            .flatten()
            .collect();
    let with_c = |name: &str| name.ends_with("_c");
    for instance in INSTANCES.iter().chain(e4m3.iter().copied()) {
        let name = instance.desc.meta.name();
        let all = kernels.iter().chain(e4m3_kernels);
        let rows = all.filter(|times| times.are_of(instance)).count();
        let measured = ["gemm_bf16_bf16_", "gemm_e4m3_bf16_"].iter().any(|p| name.starts_with(p));
        assert!(!measured || rows == 1 || with_c(name), "{name}: {rows} rows");
    }
    for times in kernels.iter().chain(e4m3_kernels) {
        let mut all = INSTANCES.iter().chain(e4m3.iter().copied());
        let Some(instance) = all.find(|i| times.are_of(i)) else {
            panic!("{times:?} is of no kernel");
        };
        // Two CTAs on an SM share its path.
        let most = if instance.two_fit() { 2.0 } else { 1.4 };
        assert!((0.7..most).contains(&times.step) && times.fixed_us.abs() < 0.7, "{times:?}");
    }
}

/// Each record of e4m3 has kernels of the table that its header says.
#[test]
fn records_of_e4m3_have_kernels_of_their_tables() {
    for calibration in Calibration::ALL {
        for recorded in read_e4m3(calibration).unwrap() {
            let product = Product::new(&recorded);
            assert!(!product.runs.is_empty(), "{} {}", product.file, product.shape);
        }
    }
}
