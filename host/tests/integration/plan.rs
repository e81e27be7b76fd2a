//! Plans: which instance, which grid, what is staged; and what can't be planned.

use crate::common::{BIG, IMAGE, MID, SMALL, TABLE, instance, table};
use gpu_kernels::gemm::{INSTANCES, Instance, TileSchedulerParams};
use host::gemm::{
    Candidate, Gemm, GemmPlan, GemmProblem, HardwareInfo, KernelInfo, Prediction, Schedule,
    candidates, pick,
};
use host::{Device, Dtype, Error, SimConfig};
use isa::kernel::{Image, KernelArg, KernelDesc, KernelMeta};
use std::collections::BTreeSet;

fn problem(m: u64, n: u64, k: u64) -> GemmProblem {
    GemmProblem { m, n, k, ab: Dtype::Bf16, out: Dtype::Bf16, beta_c: false }
}

fn gemm() -> Gemm {
    Gemm::with_instances(&Device::sim(SimConfig::default()), &IMAGE, table(&TABLE)).unwrap()
}

fn line<T>(result: Result<T, Error>) -> String {
    let line = result.err().expect("must be refused").to_string();
    assert!(!line.is_empty() && !line.contains('\n'), "one line, got: {line}");
    line
}

fn picked(m: u64, n: u64, k: u64) -> (&'static str, String) {
    let pick = pick(&TABLE, &problem(m, n, k), false, HardwareInfo::h200(132)).unwrap();
    (TABLE[pick.index].desc.meta.name(), pick.why)
}

#[test]
fn the_tile_of_the_shortest_predicted_time_is_picked() {
    let (name, why) = picked(8192, 8192, 8192);
    assert_eq!(name, "big");
    assert!(why.starts_with("2048 tiles of 128x256 on 132 SMs"), "{why}");
    // One round of large tiles beats two of half the size; measured: 24.7 against 25.1 us.
    assert_eq!(picked(2048, 2048, 2048).0, "big");
    // 128 tiles of 128x128 in one round, or 64 of twice the size, whose K is too short to be split.
    assert_eq!(picked(1024, 2048, 1024).0, "mid");
    // Few tiles: the smallest keep the most SMs busy.
    assert_eq!(picked(64, 512, 4096).0, "small");
}

#[test]
fn predictions_are_the_sum_of_their_terms_and_the_first_is_picked() {
    for (m, n, k) in [(8192, 8192, 8192), (64, 512, 4096), (300, 520, 7200), (1, 1, 0)] {
        let p = problem(m, n, k);
        let mut all = candidates(&TABLE, &p, false, HardwareInfo::h200(132));
        all.sort_by(Candidate::order);
        assert_eq!(
            all[0].index,
            pick(&TABLE, &p, false, HardwareInfo::h200(132)).unwrap().index,
            "{p:?}"
        );
        assert!(all.iter().all(|c| c.instance.out == Dtype::Bf16 && !c.instance.has_c));
    }
    // 300 x 520 in clusters of 256 x 256: 2 x 3 of them, of which 3 x 3 tiles have elements. There is
    // room for four clusters, but two rounds need only three.
    let p = problem(300, 520, 7200);
    let of = |clusters, streamed| {
        let schedule = Schedule { clusters, streamed };
        let all = candidates(&TABLE, &p, false, HardwareInfo::h200(8));
        all.into_iter()
            .find(|c| c.index == 1 && c.prediction.schedule == schedule)
            .expect("worth trying")
    };
    let whole = of(3, 0);
    let Prediction { tiles, cluster_tiles, rounds, k_tiles, run, finished, .. } = whole.prediction;
    assert_eq!((tiles, cluster_tiles, rounds, k_tiles, run, finished), (9, 6, 2, 113, 0, 0));
    assert!((whole.prediction.filled() - 1.0).abs() < 1e-12);
    // Each cluster tile fetches 256 rows of A and 256 of B.
    assert_eq!(whole.fetched_bytes(), 6 * 512 * 113 * 64 * 2);
    let Prediction { launch_us, start_us, k_tile_us, epilogue_us, prefetched_us, .. } =
        whole.prediction;
    let Prediction { fixup_us, memory_us, power_us, .. } = whole.prediction;
    // The second tile's first stages are loaded behind the first tile's epilogue.
    let sum = start_us + 2.0 * (113.0 * k_tile_us + epilogue_us) - prefetched_us;
    assert!(prefetched_us > 0.0 && prefetched_us <= epilogue_us, "{prefetched_us}");
    assert!((whole.prediction.busiest_us() - sum).abs() < 1e-9 && sum > 100.0, "{sum}");
    // Neither memory nor power is what a product on 8 SMs waits for.
    assert!(memory_us < sum / 8.0 && power_us < sum / 8.0, "{memory_us} {power_us}");
    // The comparison with the other candidates is a factor beside the terms.
    let Prediction { predicted_us, correction, .. } = whole.prediction;
    assert!((predicted_us / correction - launch_us - sum).abs() < 1e-3, "{sum}");
    assert!(fixup_us.abs() < f64::EPSILON, "{fixup_us}");

    // Four clusters split two tiles of the second round: half a tile each, the longer half has 57 k tiles.
    let split = of(4, 2);
    let Prediction { rounds, run, finished, start_us, k_tile_us, prefetched_us, fixup_us, .. } =
        split.prediction;
    assert_eq!((rounds, run, finished), (1, 57, 1));
    let sum = start_us + 170.0 * k_tile_us + 2.0 * epilogue_us - prefetched_us + fixup_us;
    assert!((split.prediction.busiest_us() - sum).abs() < 1e-9 && fixup_us > 1.0, "{sum}");
    assert!((split.prediction.filled() - 6.0 * 113.0 / (4.0 * 170.0)).abs() < 1e-12);
    assert!(split.prediction.predicted_us < whole.prediction.predicted_us);
}

#[test]
fn a_plan_says_whose_times_it_uses() {
    let why = |gemm: Gemm| {
        let plan = gemm.plan(&problem(300, 520, 7200)).unwrap();
        plan.describe().kernel.as_ref().expect("a kernel").why.clone()
    };
    assert!(why(gemm()).contains("on an H200"));
    assert!(why(gemm().with_hardware(HardwareInfo::h100(8))).contains("on an H100"));
}

/// A plan takes the pick as it is: its kernel, schedule and time, which the comparison may have corrected.
#[test]
fn a_plan_takes_the_picked_schedule() {
    let gemm = gemm();
    let mut corrected = 0;
    for m in (1..40).map(|i| 97 * i) {
        let p = problem(m, 1544, 2064);
        let pick = pick(&TABLE, &p, false, HardwareInfo::h200(132)).unwrap();
        let plan = gemm.plan(&p).unwrap();
        let kernel = plan.describe().kernel.clone().expect("a kernel");
        assert_eq!((kernel.index, kernel.schedule()), (pick.index, pick.schedule), "{m}");
        assert!((kernel.predicted_us - pick.predicted_us).abs() < 1e-12, "{m}");
        let all = gemm.schedules(&p, pick.index).unwrap();
        let by_terms = all.iter().find(|(_, schedule)| *schedule == pick.schedule).expect("tried");
        corrected += u32::from((by_terms.0 - pick.predicted_us).abs() > 1e-9);
    }
    assert!(corrected > 0);
}

/// A pick for another number of SMs than the device has may have too many clusters for it.
#[test]
fn a_pick_for_a_larger_gpu_is_planned_on_a_smaller_one() {
    let small = Device::sim(SimConfig { sms: 8, ..SimConfig::default() });
    let gemm = Gemm::with_instances(&small, &IMAGE, table(&TABLE)).unwrap();
    let gemm = gemm.with_hardware(HardwareInfo::h100(132));
    for (m, n, k) in [(300, 520, 7200), (4096, 4096, 512), (64, 512, 4096), (1, 1, 8)] {
        let plan = gemm.plan(&problem(m, n, k)).unwrap();
        assert!(plan.describe().kernel.as_ref().is_some_and(|kernel| kernel.ctas <= 8), "{m}");
    }
}

/// The network compares a few candidates that the terms take for about equally fast, and changes little.
#[test]
fn only_candidates_near_the_shortest_time_are_compared() {
    let mut changed = 0;
    for (m, n, k) in [(8192, 8192, 8192), (16, 14336, 4096), (300, 520, 7200), (2049, 640, 264)] {
        let p = problem(m, n, k);
        let mut all = candidates(&INSTANCES, &p, false, HardwareInfo::h100(132));
        let terms = |c: &Candidate<'_>| c.prediction.predicted_us / c.prediction.correction;
        all.sort_by(|a, b| terms(a).total_cmp(&terms(b)));
        let same = |c: &Candidate<'_>| (c.prediction.correction - 1.0).abs() < f64::EPSILON;
        assert!(same(&all[0]) && all[12..].iter().all(same), "{p:?}");
        for candidate in all.iter().filter(|c| !same(c)) {
            assert!(terms(candidate) <= 1.12001 * terms(&all[0]), "{p:?}");
            assert!(candidate.prediction.correction.ln().abs() < 0.20001, "{p:?}");
            changed += 1;
        }
        // What the network has not learned: sums with C, and operands of 8 bits.
        let p = GemmProblem { beta_c: true, ..p };
        assert!(candidates(&INSTANCES, &p, true, HardwareInfo::h100(132)).iter().all(same));
    }
    assert!(changed > 4, "{changed}");
}

/// Decisions besides the schedule: which launches prefetch, and which grids are throttled.
#[test]
fn long_products_are_throttled_and_those_bound_by_memory_prefetch() {
    let best = |[m, n, k]: [u64; 3], among: &dyn Fn(&Candidate<'_>) -> bool| {
        let p = problem(m, n, k);
        let all = candidates(&INSTANCES, &p, false, HardwareInfo::h200(132));
        all.into_iter().filter(among).min_by(Candidate::order).unwrap().prediction
    };
    let picked = |m, n, k| {
        let best = best([m, n, k], &|_| true);
        (best.throttled(), best.prefetch(132))
    };
    // Operands of 1 GiB, tiles of 256 k tiles.
    assert!(picked(16384, 16384, 16384).0);
    // Operands that fit in L2 are read once anyway; and a single round needs no throttle.
    assert!(!picked(4096, 4096, 1024).0);
    assert!(!picked(128, 7168, 16384).0);
    // A batch of eight waits for the weights. A kernel whose SMs have room for a CTA of the next launch has the shortest time by the
    // terms.
    let decode = [8, 14336, 4096];
    let (throttled, prefetch) = picked(8, 14336, 4096);
    assert!(!throttled && prefetch > 0);
    let terms = |p: Prediction| p.predicted_us / p.correction;
    let with_room = best(decode, &|c| c.instance.two_fit());
    let without = best(decode, &|c| !c.instance.two_fit());
    assert!(with_room.prefetch(132) > 0 && terms(with_room) < terms(without));
    // Tensor cores decide, and all SMs are taken.
    assert_eq!(picked(4096, 4096, 4096).1, 0);
}

/// An activation makes an epilogue longer, so that a kernel is picked that multiplies meanwhile.
#[test]
fn an_activation_is_hidden_by_ping_pong() {
    let p = problem(4096, 4096, 4096);
    let picked = |activates| {
        let row = |name: &str| {
            let found = INSTANCES.iter().find(|i| i.desc.meta.name() == name).expect("a row");
            Instance { activates, ..*found }
        };
        let table = ["gemm_bf16_bf16_128x256_2x1", "gemm_bf16_bf16_128x176_2x1_pp"].map(row);
        let all = candidates(&table, &p, false, HardwareInfo::h100(132));
        let us = |c: &Candidate<'_>| c.prediction.predicted_us;
        let best = all.iter().min_by(|a, b| us(a).total_cmp(&us(b))).expect("a kernel");
        (best.instance.bn, best.prediction.epilogue_us)
    };
    let (plain, activated) = (picked(false), picked(true));
    assert_eq!((plain.0, activated.0), (256, 176));
    assert!(activated.1 > plain.1 + 1.0, "{plain:?} {activated:?}");
}

/// The tiles of a last round that does not fill the device are split only if there are few rounds.
#[test]
fn many_rounds_are_not_split() {
    let splits = |rows: u64| {
        let p = problem(rows, 256, 4096);
        candidates(&TABLE, &p, false, HardwareInfo::h200(132))
            .iter()
            .filter(|c| c.instance.desc.meta.name() == "big")
            .any(|c| c.prediction.schedule.streamed > 0)
    };
    // Cluster tiles of 256 rows: 66 of them are a round.
    assert!(splits(256 * (30 * 66 + 1)));
    assert!(!splits(256 * 30 * 66) && !splits(256 * (32 * 66 + 1)));
}

#[test]
fn a_cluster_that_has_no_room_is_no_candidate() {
    let p = problem(1024, 1024, 1024);
    let on = |sms| {
        let all = candidates(&INSTANCES, &p, false, HardwareInfo::h200(sms));
        all.into_iter().map(|c| c.instance)
    };
    let ctas = |i: &Instance| i.cluster_m * i.cluster_n;
    assert!(on(1).count() > 0 && on(1).all(|i| ctas(i) == 1));
    assert!(on(2).any(|i| ctas(i) == 2) && on(2).all(|i| ctas(i) <= 2));
    assert!(on(132).any(|i| ctas(i) == 4));
}

#[test]
fn schedules_are_two_numbers() {
    let schedule = Schedule { clusters: 66, streamed: 22 };
    assert_eq!((schedule.to_string().as_str(), "66/22".parse()), ("66/22", Ok(schedule)));
    for bad in ["", "66", "66/", "/22", "66/-1", "66/22/1", "66 /22", "66/4294967296"] {
        assert!(bad.parse::<Schedule>().unwrap_err().contains("CLUSTERS/STREAMED"), "{bad}");
    }
}

#[test]
fn grids_are_whole_clusters_within_the_device_and_the_tiles() {
    let gemm = gemm();
    let plan = gemm.plan(&problem(8192, 8192, 8192)).unwrap();
    let kernel = plan.describe().kernel.clone().unwrap();
    assert_eq!((kernel.name.as_str(), kernel.ctas, kernel.tiles), ("big", 132, 2048));
    // 66 clusters of 256 x 256: 8 rows and 8 columns of them are a square.
    assert_eq!(kernel.raster_swizzle, 8);

    // 3 x 1 tiles in clusters of 2 rows: two clusters, which run at the same time, so one raster group has both.
    let plan = gemm.plan_with(&problem(300, 200, 64), 1).unwrap();
    let kernel = plan.describe().kernel.clone().unwrap();
    assert_eq!((kernel.ctas, kernel.tiles, kernel.raster_swizzle), (4, 3, 2));
}

#[test]
fn every_plan_is_of_an_instance_and_schedule_of_its_own_and_the_picker_s_is_among_them() {
    let gemm = gemm();
    let p = problem(300, 520, 7200);
    let kernel = |plan: &GemmPlan| plan.describe().kernel.clone().unwrap();
    let all: Vec<_> = gemm.plan_every(&p).unwrap().iter().map(kernel).collect();
    let own: BTreeSet<_> =
        all.iter().map(|k| (k.index, k.schedule().clusters, k.schedule().streamed)).collect();
    assert_eq!(own.len(), all.len());
    // Rows 3 and 4 are not for this product.
    assert_eq!(own.iter().map(|o| o.0).collect::<BTreeSet<_>>(), BTreeSet::from([0, 1, 2]));
    let picked = kernel(&gemm.plan(&p).unwrap());
    let same = |k: &&KernelInfo| (k.index, k.schedule()) == (picked.index, picked.schedule());
    let among = all.iter().find(same).expect("the picker's");
    assert!((among.predicted_us - picked.predicted_us).abs() < 1e-12);
    assert!(all.iter().all(|k| k.predicted_us >= picked.predicted_us));
    assert!(picked.why.contains(&format!("{:.1} us", picked.predicted_us)), "{}", picked.why);
}

#[test]
fn rows_that_tma_cannot_read_are_staged_and_the_plan_says_so() {
    let gemm = gemm();
    let plan = gemm.plan(&problem(129, 257, 65)).unwrap();
    let staged: Vec<_> = plan
        .describe()
        .staging
        .iter()
        .map(|s| (s.operand, s.row_bytes, s.pitch, s.bytes))
        .collect();
    assert_eq!(
        staged,
        [('A', 130, 144, 129 * 144), ('B', 130, 144, 257 * 144), ('D', 514, 528, 129 * 528)]
    );
    let text = plan.describe().to_string();
    assert!(text.contains("A: rows of 130 bytes are padded to 144"), "{text}");

    let plan = gemm.plan(&problem(128, 256, 64)).unwrap();
    assert!(plan.describe().staging.is_empty());
    // One row has no pitch: nothing to pad. But D is written in runs of 16 bytes, and a buffer of
    // 2 has no room for one.
    let plan = gemm.plan(&problem(1, 1, 1)).unwrap();
    let staged: Vec<_> = plan.describe().staging.iter().map(|s| s.operand).collect();
    assert_eq!(staged, ['D']);
    let json = serde_json::to_value(plan.describe()).unwrap();
    assert_eq!(json["kernel"]["tile"], serde_json::json!([64, 64, 64]));
}

#[test]
fn empty_results_launch_nothing_and_empty_k_multiplies_zeros() {
    let device = Device::sim(SimConfig::default());
    let gemm = Gemm::with_instances(&device, &IMAGE, table(&TABLE)).unwrap();
    for p in [problem(0, 8, 8), problem(8, 0, 8), problem(0, 0, 0)] {
        let plan = gemm.plan(&p).unwrap();
        assert!(plan.describe().kernel.is_none());
        let [a, b] = ['A', 'B'].map(|x| device.alloc(p.bytes(x) as usize).unwrap());
        let mut d = device.alloc(0).unwrap();
        plan.run(&a, &b, None, &mut d, 1.0, 0.0).unwrap();
    }
    let plan = gemm.plan(&problem(8, 8, 0)).unwrap();
    assert_eq!(plan.describe().notes, ["K is 0: one k tile of zeros is multiplied"]);
}

#[test]
fn operands_are_checked_against_the_plan() {
    let device = Device::sim(SimConfig::default());
    let gemm = Gemm::with_instances(&device, &IMAGE, table(&TABLE)).unwrap();
    let plan = gemm.plan(&problem(4, 8, 16)).unwrap();
    let (a, b) = (device.alloc(128).unwrap(), device.alloc(254).unwrap());
    let mut d = device.alloc(64).unwrap();
    assert_eq!(
        line(plan.run(&a, &b, None, &mut d, 1.0, 0.0)),
        "GEMM operand B: 8 x 16 bf16 need 256 bytes; the buffer has 254"
    );
    assert_eq!(
        line(plan.run(&a, &b, Some((&a).into()), &mut d, 1.0, 1.0)),
        "the GEMM was planned without C and is run with C"
    );
    let theirs = Device::sim(SimConfig::default()).alloc(128).unwrap();
    assert!(line(plan.run(&theirs, &b, None, &mut d, 1.0, 0.0)).starts_with("operand A belongs"));
}

#[test]
fn products_that_cannot_be_are_refused() {
    let gemm = gemm();
    let p = problem(8, 8, 8);
    let said = line(gemm.plan(&GemmProblem { ab: Dtype::F32, ..p }));
    assert_eq!(said, "GEMM operands of type f32; bf16, f16, tf32, e4m3, e5m2 or i8 is supported");
    let said = line(gemm.plan(&GemmProblem { out: Dtype::U8, ..p }));
    assert_eq!(said, "GEMM result of type u8; bf16, f16, f32, e4m3 or i32 is supported");
    let said = line(gemm.plan(&GemmProblem { ab: Dtype::F16, out: Dtype::F16, ..p }));
    assert!(said.starts_with("no GEMM kernel for f16 operands, f16 result, without C; the table of 5 has: bf16 to bf16 with C, bf16 to bf16 without C, bf16 to f32"), "{said}");
    let said = line(gemm.plan(&problem(u64::MAX, 1, 1)));
    assert!(
        said.starts_with("M = 18446744073709551615 overflows: a dimension is at most"),
        "{said}"
    );
    let huge = (1 << 31) - 1;
    let said = line(gemm.plan(&problem(huge, huge, 1)));
    assert!(said.starts_with("bytes of D = 2147483647 x 2147483647 x 2 overflows"), "{said}");
    let said = line(gemm.plan(&problem(huge, 8192, 1)));
    assert!(said.starts_with("tiles of D = 134217728 x 512 overflows"), "{said}");
    let said = line(gemm.plan_with(&p, 3));
    assert_eq!(
        said,
        "GEMM instance 3 of 5 does not compute this product: it computes bf16 to bf16 with C"
    );
    assert!(line(gemm.plan_with(&p, 5)).ends_with("the table has no such row"));
}

#[test]
fn schedules_that_cannot_be_are_refused() {
    let device = Device::sim(SimConfig::default());
    let gemm = Gemm::with_instances(&device, &IMAGE, table(&TABLE)).unwrap();
    let sms = device.sms();
    let index = TABLE.iter().position(|i| i.desc.meta.name() == "small").unwrap();
    let refused = |p: &GemmProblem, index, clusters, streamed| {
        line(gemm.plan_scheduled(p, index, Schedule { clusters, streamed }))
    };
    let p = problem(300, 520, 7200);
    for clusters in [0, sms + 1] {
        let right = format!("this device holds 1 to {sms} clusters");
        let all = format!("a GEMM schedule of {clusters} clusters and 0 split tiles: {right}");
        assert_eq!(refused(&p, index, clusters, 0), all);
    }
    let said = refused(&p, index, 1, 1000);
    assert!(said.ends_with("1000 split tiles: there are 45 cluster tiles"), "{said}");
    static ALONE: KernelDesc = {
        let mut meta = SMALL.meta;
        meta.params[6] = <TileSchedulerParams as KernelArg>::META;
        KernelDesc { meta, ..SMALL }
    };
    static ALONE_IMAGE: Image = Image { kernels: &[ALONE.meta], ..IMAGE };
    static WHOLE: [Instance; 1] = [Instance { splits_k: false, desc: &ALONE, ..TABLE[0] }];
    let whole = Gemm::with_instances(&device, &ALONE_IMAGE, table(&WHOLE)).unwrap();
    let said = line(whole.plan_scheduled(&p, 0, Schedule { clusters: 1, streamed: 1 }));
    assert!(
        said.ends_with("1 split tiles: this kernel does not split tiles, so the number must be 0"),
        "{said}"
    );
    let long = problem(64, 64 * 32, (1 << 31) - 1);
    let said = refused(&long, index, 1, 32);
    let right = "they have 1073741824 k tiles, and the limit is 1073741823";
    assert!(said.ends_with(right), "{said}");
}

#[test]
fn tables_and_images_must_agree_with_their_kernels() {
    static WRONG: [Instance; 1] = [instance(&BIG, 128, 256, 1, Dtype::Bf16, false)];
    static TYPES: [Instance; 1] = [instance(&MID, 128, 128, 1, Dtype::F32, false)];
    static SHORT: [Instance; 1] = [Instance { desc: &FEWER, ..TABLE[0] }];
    static FEWER: KernelDesc =
        KernelDesc { meta: KernelMeta { param_count: 6, ..MID.meta }, ..MID };
    static EMPTY: Image = Image { kernels: &[], ..IMAGE_BASE };
    static OTHER: Image = Image { arch: "sm_100a", ..IMAGE_BASE };
    const IMAGE_BASE: Image =
        Image { name: "x", arch: "sm_90a", code: &[], kernels: &[], ptxas: None, others: &[] };
    let device = Device::sim(SimConfig::default());
    let new =
        |image, table| line(Gemm::with_instances(&device, image, crate::common::table(table)));
    assert_eq!(
        new(&IMAGE, &WRONG),
        "GEMM instance big: cluster 1x1 in the table, [2, 1, 1] in the kernel"
    );
    assert_eq!(
        new(&IMAGE, &SHORT),
        "GEMM instance mid: 4 tensor maps, then parameters of [32, 8] bytes; expected 4 tensor maps, then the block scales if it has any, LoadArgs, the epilogue and the scheduler's arguments of [32, 8, 112] bytes"
    );
    assert!(
        new(&IMAGE, &TYPES)
            .starts_with("GEMM instance mid: the table says operands bf16 and result f32")
    );
    assert_eq!(new(&EMPTY, &TABLE[..1]), "image x has no kernel small; it has: none");
    // The model runs the kernels of all architectures.
    static FAT: Image = Image { others: &[IMAGE], ..OTHER };
    assert_eq!(new(&OTHER, &TABLE[..1]), "image x has no kernel small; it has: none");
    assert!(Gemm::with_instances(&device, &FAT, table(&TABLE)).is_ok());
}

#[test]
fn an_image_of_other_source_is_named() {
    static CHANGED: [KernelMeta; 1] = [KernelMeta { smem_bytes: 1024, ..MID.meta }];
    static IMAGE: Image = Image {
        name: "old",
        arch: "sm_90a",
        code: &[],
        kernels: &CHANGED,
        ptxas: None,
        others: &[],
    };
    let device = Device::sim(SimConfig::default());
    let said = line(Gemm::with_instances(&device, &IMAGE, table(&TABLE[2..3])));
    assert_eq!(
        said,
        "kernel mid: the image has smem_bytes = 1024, this program has 204800; rebuild the image from the same source"
    );
}

#[test]
fn what_needs_a_gpu_says_so_on_the_model() {
    let device = Device::sim(SimConfig::default());
    let captured = device.stream().capture(|| Ok::<_, Error>(()));
    assert_eq!(line(captured), "a CUDA graph needs a GPU; this is the SM model");
    let current = device.make_current();
    assert_eq!(line(current), "a CUDA context needs a GPU; this is the SM model");
}

#[test]
fn a_plan_in_memory_of_the_callers_asks_for_all_of_it() {
    let device = Device::sim(SimConfig::default());
    let gemm = Gemm::with_instances(&device, &IMAGE, table(&TABLE)).unwrap();
    // Rows of 33 and 41 elements are copied to rows of 80 and 96 bytes.
    let odd = problem(7, 41, 33);
    let mut asked = Vec::new();
    let plan = gemm.plan_in(&odd, |bytes| {
        asked.push(bytes);
        // More than was asked for is as good.
        device.alloc_zeroed(bytes + 32)
    });
    let staged: u64 = plan.unwrap().describe().staging.iter().map(|copy| copy.bytes).sum();
    assert_eq!(staged, 7 * 80 + 41 * 80 + 7 * 96);
    assert_eq!(asked.iter().sum::<usize>() as u64, staged);

    let error = line(gemm.plan_in(&odd, |bytes| device.alloc(bytes / 2)));
    assert!(error.contains("560") && error.contains("280"), "{error}");
    let other = Device::sim(SimConfig::default());
    let error = line(gemm.plan_in(&odd, |bytes| other.alloc_zeroed(bytes)));
    assert!(error.contains("memory of a plan"), "{error}");
    let refused = || Error::OutOfMemory { bytes: 1, free: 2, total: 3 };
    assert!(line(gemm.plan_in(&odd, |_| Err(refused()))).contains("out of device memory"));
}
