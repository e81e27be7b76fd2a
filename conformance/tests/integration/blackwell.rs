//! The litmus kernels for Blackwell: on the model, against the manual; and before NVIDIA's assembler. No chip has ever run
//! them.

use conformance_blackwell as kernels;
use kernel_build::{Arch, KernelBuilder};
use sim::{Config, GlobalMemory, Grid};
use std::path::{Path, PathBuf};

/// Schedules of the model.
const SEEDS: u64 = 20;

/// What a kernel observed under a seed: `words` words, which are 0 where it wrote none.
fn observe(
    name: &str,
    seed: u64,
    (ctas, cluster, threads): (u32, u32, u32),
    words: usize,
    entry: impl Fn(u64) + Sync,
) -> Vec<u32> {
    let memory = GlobalMemory::new();
    let out = memory.alloc(4 * words);
    memory.write(out, &vec![0; 4 * words]).expect("just allocated");
    let grid = Grid {
        grid: [ctas, 1, 1],
        block: [threads, 1, 1],
        cluster: [cluster, 1, 1],
        min_ctas: 1,
        smem_bytes: 8192,
        name,
    };
    // Room for few CTAs, so that there is something to claim.
    let config = Config { seed, sms: 4, workers: Some(1), ..Config::default() };
    if let Err(report) = sim::launch(&config, &memory, &grid, &|| entry(out)) {
        panic!("{name}, seed {seed}:\n{report}");
    }
    let mut bytes = vec![0; 4 * words];
    memory.read(out, &mut bytes).expect("allocated");
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().expect("four"))).collect()
}

fn float(x: u32) -> u32 {
    (x as f32).to_bits()
}

#[test]
fn tensor_memory_lies_in_registers_as_the_manual_says() {
    for seed in 0..SEEDS {
        let have = observe("layouts", seed, (1, 1, 160), 128 * 32, kernels::layouts);
        for t in 0..128 {
            let (warp, lane) = (t / 32, t % 32);
            let got = &have[32 * t..][..32];
            // PTX manual, *Matrix fragments for shape .32x32b*, and .16x256b.
            let rows = (0..16).map(|i| (t, i));
            let fragment = |half: usize| {
                move |i: usize| {
                    let row = 32 * warp + 16 * half + lane / 4 + 8 * (i / 2 % 2);
                    (row, 8 * (i / 4) + 2 * (lane % 4) + i % 2)
                }
            };
            let all = rows.chain((0..8).map(fragment(0))).chain((0..8).map(fragment(1)));
            let want: Vec<_> = all.map(|(row, col)| float((row + 128 * col) as u32)).collect();
            assert_eq!(got, want, "thread {t}, seed {seed}");
        }
    }
}

#[test]
fn stores_come_back_and_commits_arrive_once() {
    for seed in 0..SEEDS {
        let kernel = kernels::stores_and_commits;
        let have = observe("stores_and_commits", seed, (1, 1, 160), 514, kernel);
        for t in 0..128_u32 {
            let want: Vec<_> = (0..4).map(|i| 100 * t + i).collect();
            assert_eq!(have[4 * t as usize..][..4], want, "thread {t}");
        }
        assert_eq!(have[512..], [0, 1], "seed {seed}: a commit is one arrival, also of nothing");
    }
}

#[test]
fn a_pair_has_the_rows_of_one_cta_each_and_the_columns_of_both() {
    for seed in 0..SEEDS {
        let have = observe("pair", seed, (2, 2, 160), 256 * 32, kernels::pair);
        for (i, &got) in (0..).zip(&have) {
            let (row, col) = (i / 32, i % 32);
            assert_eq!(got, float(row + 256 * col), "D({row}, {col}), seed {seed}");
        }
    }
}

#[test]
fn block_scales_are_those_of_their_rows() {
    for seed in 0..SEEDS {
        let have = observe("factors", seed, (1, 1, 160), 128 * 16, kernels::factors);
        for (i, &got) in (0..).zip(&have) {
            let (a, b) = kernels::exponents(i / 16, i % 16);
            let want = 32.0 * 2.0_f32.powi(a + b);
            assert_eq!(got, want.to_bits(), "D({}, {}), seed {seed}", i / 16, i % 16);
        }
    }
}

#[test]
fn each_sixteen_elements_have_the_factors_of_their_byte() {
    for seed in 0..SEEDS {
        let kernel = kernels::factors_of_sixteen;
        let have = observe("factors_of_sixteen", seed, (1, 1, 160), 128 * 16, kernel);
        for (i, &got) in (0..).zip(&have) {
            let factor = |operand, row, k| kernels::sixteenths(operand, row, k).0;
            let want: f32 =
                (0..4).map(|k| 16.0 * factor(0, i / 16, k) * factor(1, i % 16, k)).sum();
            assert_eq!(got, want.to_bits(), "D({}, {}), seed {seed}", i / 16, i % 16);
        }
    }
}

#[test]
fn a_row_of_a_is_a_lane_of_tensor_memory() {
    for seed in 0..SEEDS {
        let kernel = kernels::a_in_tensor_memory;
        let have = observe("a_in_tensor_memory", seed, (1, 1, 160), 128 * 16, kernel);
        for (i, &got) in (0..).zip(&have) {
            let (row, column) = (i / 16, i % 16);
            assert_eq!(got, float(row + 128 * column), "D({row}, {column}), seed {seed}");
        }
    }
}

#[test]
fn launch_control_gives_each_cta_to_one() {
    let n = kernels::CLAIMED as usize;
    let mut started = 0;
    for seed in 0..SEEDS {
        let have = observe("claims", seed, (kernels::CLAIMED, 1, 32), 2 * n, kernels::claims);
        assert_eq!(have[..n], vec![1; n], "seed {seed}: how often each was done");
        assert_eq!(have[n..].iter().sum::<u32>(), kernels::CLAIMED, "seed {seed}");
        started += have[n..].iter().filter(|&&done| done > 0).count();
    }
    assert!(started < n * SEEDS as usize, "nobody claimed anything");
}

#[test]
fn the_kernels_assemble() {
    for arch in [Arch::Sm100a, Arch::Sm103a] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("blackwell");
        let out =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("litmus-{}", arch.name()));
        let image = KernelBuilder::new(folder).out_dir(&out).arch(arch).build();
        let image = image.unwrap_or_else(|e| panic!("{}: {e}", arch.name()));
        match &image.ptxas {
            Some((_, report)) => assert_eq!(report.kernels.len(), 7),
            None => println!("no ptxas: only the PTX is built"),
        }
    }
}
