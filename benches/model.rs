//! The SM model's speed: how many schedules of a kernel can be tried, and how long a product takes.
//!
//! `cargo bench --bench model`. At the end it compares with what the model is meant to do on two
//! cores, by processor time, which a busy machine stretches less, and fails if that is missed.

use criterion::{Criterion, Throughput, criterion_group};
use std::fs;
use std::time::Instant;
use warpipe::GEMM_IMAGE;
use warpipe::gpu_kernels::examples::stream_copy::stream_copy;
use warpipe::host::gemm::{Gemm, GemmPlan, GemmProblem};
use warpipe::host::sim::ops::{cp_async_bulk, fence, mbarrier, shared, thread};
use warpipe::host::sim::tensor_map::{DataType, Swizzle, TensorMapDesc, encode};
use warpipe::host::sim::{GlobalMemory, Grid, Report, Stats, Strategy, explore, launch};
use warpipe::host::{Buffer, Device, Dtype, Error, Param, SimConfig, TensorSpec, data};
use warpipe::isa::kernel::Kernel;
use warpipe::pipeline::tile::TensorMap;
use warpipe::pipeline::tile::Tile;

/// The rings' stages, their steps, and a step's bytes: 64 rows of 64 bf16.
const STAGES: u32 = 4;
const STEPS: u32 = 16;
const STEP: u32 = 64 * 64 * 2;

/// What two cores do within a second, or these seconds; and GiB.
const SCHEDULES_PER_SECOND: f64 = 200.0;
const SECONDS_WITH_RULES: f64 = 20.0;
const SECONDS_WITHOUT: f64 = 5.0;
const PEAK_GIB: f64 = 2.0;

/// A tensor map as a kernel's parameter.
#[repr(align(64))]
struct Map([u64; 16]);

/// A warp that loads and a warp that reads, by instructions alone.
fn two_warps(config: &SimConfig) -> Result<Stats, Box<Report>> {
    let memory = GlobalMemory::new();
    let map = encode(&TensorMapDesc {
        dtype: DataType::Bf16,
        rank: 2,
        addr: memory.alloc((STEPS * STEP) as usize),
        dims: [64, u64::from(64 * STEPS), 1, 1, 1],
        strides: [128, 0, 0, 0],
        box_dims: [64, 64, 1, 1, 1],
        swizzle: Swizzle::B128,
    });
    let map = Map(map.expect("a valid tensor"));
    let one = [1; 3];
    let smem_bytes = STAGES * STEP + 1024;
    let grid =
        Grid { grid: one, block: [64, 1, 1], cluster: one, min_ctas: 1, smem_bytes, name: "ring" };
    launch(config, &memory, &grid, &|| {
        let (base, thread) = (shared::dynamic_base(), thread::thread_idx_x());
        let bar = |i: u32| base + STAGES * STEP + 8 * i;
        if thread == 0 {
            for stage in 0..STAGES {
                mbarrier::init(bar(stage), 1);
                mbarrier::init(bar(STAGES + stage), 32);
            }
            fence::mbarrier_init_release_cluster();
        }
        thread::sync_threads();
        for step in 0..STEPS {
            let (stage, phase) = (step % STAGES, (step / STAGES) & 1);
            let (full, empty, slot) = (bar(stage), bar(STAGES + stage), base + STEP * stage);
            if thread == 0 {
                mbarrier::wait_parity(empty, phase ^ 1);
                mbarrier::arrive_expect_tx(full, STEP);
                let at = [0, 64 * step as i32];
                cp_async_bulk::tensor_load(slot, &raw const map.0, at, full);
            } else if thread >= 32 {
                mbarrier::wait_parity(full, phase);
                for line in 0..STEP / 512 {
                    shared::ld::<[u32; 4]>(slot + 512 * line + 16 * (thread - 32));
                }
                mbarrier::arrive(empty);
            }
        }
    })
}

/// The same typed, with warp groups, and stores: 256 threads.
fn warp_groups(config: &SimConfig) -> Result<Stats, Error> {
    let device = Device::sim(config.clone());
    let bytes = vec![1; (STEPS * STEP) as usize];
    let from = device.upload(&bytes)?;
    let to = device.alloc(bytes.len())?;
    let spec = |buffer| TensorSpec {
        buffer,
        offset: 0,
        dtype: Dtype::Bf16,
        rows: u64::from(64 * STEPS),
        cols: 64,
        pitch_bytes: 128,
    };
    let source = device.tensor_map_for::<&TensorMap<Tile<half::bf16, 64, 64>>>(&spec(&from))?;
    let target = device.tensor_map_for::<&TensorMap<Tile<half::bf16, 64, 64>>>(&spec(&to))?;
    let params = [Param::map(&source), Param::map(&target), Param::value(STEPS)];
    device.launch_on_model(&<stream_copy as Kernel>::DESC, [1, 1, 1], &params)?;
    assert!(to.to_vec()? == bytes);
    Ok(device.model_stats().unwrap_or_default())
}

/// Tries seeds.
fn try_seeds<E: std::fmt::Display + Send>(
    strategy: &Strategy,
    run: impl Fn(&SimConfig) -> Result<Stats, E> + Sync,
) {
    explore(&SimConfig::default(), strategy, run).unwrap_or_else(|found| panic!("{found}"));
}

fn schedules(c: &mut Criterion) {
    const SEEDS: u64 = 100;
    let mut group = c.benchmark_group("ring of 4 stages, 16 steps");
    group.sample_size(10).throughput(Throughput::Elements(SEEDS));
    let strategies = [
        ("random", Strategy::Random { seeds: 0..SEEDS }),
        ("pct 3", Strategy::Pct { seeds: 0..SEEDS, depth: 3 }),
    ];
    for (name, strategy) in strategies {
        group.bench_function(format!("two warps, {name}"), |b| {
            b.iter(|| try_seeds(&strategy, two_warps));
        });
        group.bench_function(format!("two warp groups, {name}"), |b| {
            b.iter(|| try_seeds(&strategy, warp_groups));
        });
    }
    group.finish();
}

/// A product of 1024 cubed, with all rules or without the dear ones.
struct Product {
    device: Device,
    plan: GemmPlan,
    a: Buffer,
    b: Buffer,
    d: Buffer,
}

impl Product {
    fn new(rules: bool) -> Self {
        let config = SimConfig { races: rules, check_uninitialised: rules, ..SimConfig::default() };
        let device = Device::sim(config);
        let gemm = Gemm::new(&device, &GEMM_IMAGE).expect("the embedded image");
        let (ab, out) = (Dtype::Bf16, Dtype::Bf16);
        let problem = GemmProblem { m: 1024, n: 1024, k: 1024, ab, out, beta_c: false };
        let plan = gemm.plan(&problem).expect("a plan");
        let bytes = data::encode(&data::normal(1, 1024 * 1024), Dtype::Bf16).expect("bf16");
        let (a, b) = (device.upload(&bytes).expect("A"), device.upload(&bytes).expect("B"));
        let d = device.alloc(problem.bytes('D') as usize).expect("D");
        Self { device, plan, a, b, d }
    }

    fn run(&mut self) {
        let Self { device, plan, a, b, d } = self;
        plan.run(a, b, None, d, 1.0, 0.0).expect("a run");
        // Or the next run would repeat this one, beside which it may start.
        device.synchronize().expect("it is over");
    }
}

fn products(c: &mut Criterion) {
    let mut group = c.benchmark_group("1024 cubed, bf16");
    group.sample_size(10);
    for (name, rules) in [("all rules", true), ("no races, no uninitialised reads", false)] {
        let mut product = Product::new(rules);
        group.bench_function(name, |b| b.iter(|| product.run()));
    }
    group.finish();
}

/// Seconds of processor time that this process has used, in all its threads.
fn processor_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name, which may have blanks: the state is the third field, the times 14 and 15, in
    // the hundredths of a second that Linux gives on every machine.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i - 3)?.parse::<f64>().ok();
    Some((ticks(14)? + ticks(15)?) / 100.0)
}

/// The most memory that this process has had, in GiB.
fn peak_gib() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / f64::from(1 << 20))
}

/// Seconds of two cores, by processor time where the system says it; printed beside the clock's.
fn two_cores(what: &str, run: impl FnOnce()) -> f64 {
    let (clock, before) = (Instant::now(), processor_seconds());
    run();
    let clock = clock.elapsed().as_secs_f64();
    let used =
        processor_seconds().zip(before).map_or(clock, |(after, before)| (after - before) / 2.0);
    println!("{what}: {used:.2} s of two cores, {clock:.2} s by the clock");
    used
}

/// Whether the model does what it is meant to.
fn hold() -> bool {
    const SEEDS: u64 = 1000;
    let strategy = Strategy::Random { seeds: 0..SEEDS };
    let used = two_cores("1000 schedules of the ring of two warps", || {
        try_seeds(&strategy, two_warps);
    });
    let rate = SEEDS as f64 / used;
    let with = two_cores("1024 cubed, all rules", || Product::new(true).run());
    let without = two_cores("1024 cubed, without", || Product::new(false).run());
    let peak = peak_gib().unwrap_or(0.0);
    println!("{rate:.0} schedules per second (at least {SCHEDULES_PER_SECOND})");
    println!("{with:.2} s with all rules (at most {SECONDS_WITH_RULES})");
    println!("{without:.2} s without (at most {SECONDS_WITHOUT})");
    println!("{peak:.2} GiB at most (below {PEAK_GIB})");
    rate >= SCHEDULES_PER_SECOND
        && with <= SECONDS_WITH_RULES
        && without <= SECONDS_WITHOUT
        && peak < PEAK_GIB
}

criterion_group!(benches, schedules, products);

fn main() {
    // `cargo bench --bench model -- bars` leaves the statistics out.
    if std::env::args().all(|argument| argument != "bars") {
        benches();
        Criterion::default().configure_from_args().final_summary();
    }
    assert!(hold(), "the model is slower, or takes more memory, than it is meant to");
}
