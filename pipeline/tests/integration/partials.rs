//! Partial sums, on the SM model: one CTA of two gives what it has summed to the other, whole or in halves,
//! twice in the same memory, under many schedules; and in memory that is too small.
#![allow(missing_docs)]

use crate::common::{Image, run_with};
use half::bf16;
use isa::kernel::KernelArg;
use isa::slice::SliceAbi;
use pipeline::cta::{AlongM, AlongN};
use pipeline::grid::{Part, Partials, PeerCtas};
use pipeline::mma::{SplitAccumulator, one_by_one};
use pipeline::prelude::*;
use sim::{Config, GlobalMemory, Report, Rule, Stats, Strategy, explore};

names! { Main = "main loop" }
roles! {
    Load = 1 x 40 registers,
    Math = 1 x 232 registers,
}

type Pair = Cluster<2, 1>;
type Square = Tile<bf16, 64, 64>;
type Plan = SmemPlan<(Ring<1, (Square, Square), Tma, Mma<Math>, Main, Pair>,)>;

/// Columns of the sums, and of a half.
const COLUMNS: usize = 64;
const HALF: usize = COLUMNS / 2;

/// All elements of a thread.
fn elements<const N: usize>(sum: &Accumulator<N>) -> Vec<[f32; 8]>
where
    isa::wgmma::M64<N>: isa::wgmma::Shape,
{
    (0..N / 16).map(|fragment| sum.fragment(fragment)).collect()
}

/// Gives `sum` to CTA 0, or takes what CTA 1 has given, which is the same once more.
fn fix_up<const N: usize>(
    all: &Partials<'_>,
    group: &Warpgroup<Math, Pair>,
    part: Part<N>,
    mut sum: Accumulator<N>,
) where
    isa::wgmma::M64<N>: isa::wgmma::Shape,
{
    if group.coord().rank() == 1 {
        return all.store_part(group, 1, part, sum);
    }
    let twice: Vec<_> = elements(&sum).into_iter().map(|x| x.map(|x| 2.0 * x)).collect();
    all.reduce_part(group, PeerCtas::one(1), part, &mut sum);
    assert_eq!(elements(&sum), twice, "columns from {} on", part.first());
}

fn sums(
    config: &Config,
    memory: &GlobalMemory,
    partials: SliceAbi,
    halves: bool,
) -> Result<Stats, Box<Report>> {
    let image = |f: fn(usize) -> f32| Image::new(memory, 64, 64, f);
    // Sums that are different in all rows and columns, and in bf16 what they are.
    let (a, b) = (image(|i| (i / 64 % 16 + 1) as f32), image(|i| (i / 64 + i % 2) as f32));
    let (a, b) = (a.map::<Square, AlongN<1>>(), b.map::<Square, AlongM<2>>());
    run_with(config, memory, |cta: Cta<(Load, Math), Pair, Plan>| {
        // SAFETY: the memory outlives the run, and nobody else has it as an argument.
        let all = &unsafe { Partials::from_abi(partials) };
        let (cta, (ring,)) = cta.init();
        cta.specialize(
            |load| {
                load.elect(|one| {
                    let at = one.coord();
                    let mut loads = ring.producer.by(&one);
                    loads
                        .acquire()
                        .load((a.tile(0, 0, at.sharing_a()), b.tile(0, 0, at.sharing_b())));
                    loads.tail();
                });
            },
            |group| {
                let mut full = ring.consumer.by(&group);
                if halves {
                    let sum = SplitAccumulator::<HALF, HALF>::start(&group, full.wait());
                    let (left, rest) = sum.start_right().finish_left();
                    let (right, last) = rest.finish();
                    last.release();
                    one_by_one(left, right, |part, half| fix_up(all, &group, part, half));
                } else {
                    let (sum, last) = Accumulator::<COLUMNS>::start(&group, full.wait()).finish();
                    last.release();
                    fix_up(all, &group, Part::whole(), sum);
                }
            },
        );
    })
}

/// Memory of that many bytes, all of them 0.
fn zeros(memory: &GlobalMemory, bytes: usize) -> SliceAbi {
    let address = memory.alloc(bytes);
    memory.write(address, &vec![0; bytes]).expect("just allocated");
    SliceAbi { address, elements: bytes as u64 / 16 }
}

#[test]
fn what_one_gives_the_other_takes_again_and_again() {
    // By priorities, one CTA may be done before the other begins.
    for strategy in [Strategy::Random { seeds: 0..10 }, Strategy::Pct { seeds: 0..30, depth: 3 }] {
        for halves in [false, true] {
            explore(&Config::default(), &strategy, |config| {
                let memory = GlobalMemory::new();
                let partials = zeros(&memory, Partials::bytes(2, 1, COLUMNS as u64) as usize);
                sums(config, &memory, partials, halves)?;
                sums(config, &memory, partials, halves)
            })
            .unwrap_or_else(|finding| panic!("halves: {halves}, {strategy:?}\n{finding}"));
        }
    }
}

#[test]
fn memory_that_is_too_small_ends_the_grid() {
    let all = Partials::bytes(2, 1, COLUMNS as u64) as usize;
    // Behind the sums lie three flags, of 128 bytes each.
    for (bytes, halves) in [(0, false), (16, true), (all / 2, true), (all - 3 * 128, false)] {
        let memory = GlobalMemory::new();
        let partials = zeros(&memory, bytes);
        let report = sums(&Config::default(), &memory, partials, halves);
        let report = report.expect_err("no room for CTA 1's");
        assert_eq!(report.rule, Rule::GlobalBounds, "{bytes} bytes:\n{report}");
    }
}
