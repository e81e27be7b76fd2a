//! Operands that threads write with ordinary stores, and wgmma multiplies: both tiles of a slot, by one
//! warp group and by two, with tiles of more and of fewer rows than the groups write together.
#![allow(missing_docs)]

use crate::common::{Image, run};
use half::bf16;
use isa::kernel::KernelArg;
use isa::slice::{DeviceSlice, DeviceSliceMut, SliceAbi};
use pipeline::prelude::*;
use sim::{GlobalMemory, Rule};

names! { Operands = "operands" }
roles! {
    Scale = 1 x 160 registers,
    Scale2 = 2 x 80 registers,
    Math = 1 x 160 registers,
    Math2 = 2 x 120 registers,
}

type Alone = Cluster<1, 1>;
/// k tiles of 64.
const STEPS: u32 = 5;
const K: usize = 64 * STEPS as usize;
/// What the writers multiply A by, on its way into shared memory.
const SCALE: f32 = 0.25;

/// A CTA in which `$write` fills slots of A (`$m` rows) and B (`$n` rows), and `$math` multiplies.
/// `$blocks` is the number of blocks of 64 rows of A that a writing group has, and of B.
macro_rules! product {
    ($kernel:ident: $write:ident, $math:ident, $m:literal x $n:literal, $stages:literal stages, blocks $blocks:expr) => {
        fn $kernel(
            cta: Cta<
                ($write, $math),
                Alone,
                SmemPlan<(
                    Ring<
                        $stages,
                        (Tile<bf16, $m, 64>, Tile<bf16, $n, 64>),
                        Writes<$write>,
                        Mma<$math>,
                        Operands,
                        Alone,
                    >,
                )>,
            >,
            a: &DeviceSlice<'_, bf16>,
            b: &DeviceSlice<'_, bf16>,
            d: &DeviceSliceMut<'_, f32>,
        ) {
            let (cta, (ring,)) = cta.init();
            cta.specialize(
                |group| {
                    let mut slots = ring.producer.by(&group);
                    let groups = <$write as pipeline::cta::Role>::GROUPS as u32;
                    let fragment =
                        |from: &DeviceSlice<'_, bf16>, step: u32, f: usize, scale: f32| {
                            core::array::from_fn(|i| {
                                let (row, column) = group.place(i);
                                let row = 64 * (f as u32 / 4 * groups + group.index()) + row;
                                let column = 64 * step + 16 * (f as u32 % 4) + column;
                                let x = from.get(row as usize * K + column as usize);
                                scale * x.map_or(f32::NAN, bf16::to_f32)
                            })
                        };
                    for step in 0..STEPS {
                        let mut slot = slots.acquire();
                        let [of_a, of_b]: [usize; 2] = $blocks;
                        for f in 0..4 * of_a {
                            slot.put_to::<0>(f, fragment(a, step, f, SCALE));
                        }
                        for f in 0..4 * of_b {
                            slot.put_to::<1>(f, fragment(b, step, f, 1.0));
                        }
                        slot.commit();
                    }
                    slots.tail();
                },
                |group| {
                    let mut operands = ring.consumer.by(&group);
                    let (mut sum, slot) =
                        Accumulator::<$n>::start(&group, operands.wait()).finish();
                    slot.release();
                    for _ in 1..STEPS {
                        let (next, slot) = sum.add(&group, operands.wait()).finish();
                        slot.release();
                        sum = next;
                    }
                    for f in 0..$n / 16 {
                        let values = sum.fragment(f);
                        for i in 0..8 {
                            let (row, column) = group.place(i);
                            let row = 64 * group.index() + row;
                            d.set(row as usize * $n + 16 * f + column as usize, values[i]);
                        }
                    }
                },
            );
        }
    };
}

product!(one_each: Scale, Math, 64 x 64, 2 stages, blocks [1, 1]);
product!(tall_b: Scale, Math, 64 x 192, 3 stages, blocks [1, 3]);
product!(two_write: Scale2, Math, 64 x 192, 2 stages, blocks [1, 2]);
product!(two_each: Scale2, Math2, 128 x 48, 1 stages, blocks [1, 1]);
product!(one_for_two: Scale, Math2, 128 x 16, 2 stages, blocks [2, 1]);

/// A and B in global memory, and the address of D.
struct Matrices {
    a: Image,
    b: Image,
    d: u64,
    elements: usize,
}

impl Matrices {
    /// The result as a kernel's argument.
    fn to(&self) -> DeviceSliceMut<'_, f32> {
        let abi = SliceAbi { address: self.d, elements: self.elements as u64 };
        // SAFETY: the memory outlives the run, and only the threads of one kernel have it.
        unsafe { DeviceSliceMut::from_abi(abi) }
    }
}

/// What running a kernel gives.
type Ran = Result<sim::Stats, Box<sim::Report>>;

/// Runs `kernel` under many schedules; D is A · Bᵀ, scaled.
fn multiplies((m, n): (usize, usize), kernel: impl Fn(u64, &GlobalMemory, &Matrices) -> Ran) {
    let memory = GlobalMemory::new();
    let a = Image::new(&memory, m, K, |i| ((i * 37 + i / 11) % 101) as f32 / 16.0 - 3.0);
    let b = Image::new(&memory, n, K, |i| ((i * 53 + i / 7) % 97) as f32 / 32.0 - 1.5);
    let (a_values, b_values) = (a.read(), b.read());
    let mut of = Matrices { a, b, d: 0, elements: m * n };
    for seed in 0..20 {
        of.d = memory.alloc(4 * m * n);
        kernel(seed, &memory, &of).unwrap_or_else(|report| panic!("{report}"));
        let mut bytes = vec![0; 4 * m * n];
        memory.read(of.d, &mut bytes).expect("allocated");
        for (i, d) in bytes.chunks_exact(4).enumerate() {
            let have = f64::from(f32::from_le_bytes(d.try_into().expect("four bytes")));
            let (row, column) = (i / n, i % n);
            // The scale is a power of two, so a scaled bf16 is one.
            let terms = (0..K).map(|k| {
                f64::from(SCALE * a_values[row * K + k]) * f64::from(b_values[column * K + k])
            });
            let (want, size) = terms.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
            assert!((have - want).abs() <= 1e-6 * size, "({row}, {column}): {have}, not {want}");
        }
    }
}

/// Runs a kernel of the macro.
macro_rules! ran {
    ($kernel:ident) => {
        |seed, memory, of| {
            run(seed, memory, |cta| $kernel(cta, &of.a.slice(), &of.b.slice(), &of.to()))
        }
    };
}

#[test]
fn one_group_writes_both_operands() {
    multiplies((64, 64), ran!(one_each));
}

#[test]
fn one_group_writes_several_blocks_of_rows() {
    multiplies((64, 192), ran!(tall_b));
    multiplies((128, 16), ran!(one_for_two));
}

#[test]
fn two_groups_write_the_blocks_in_rotation() {
    multiplies((64, 192), ran!(two_write));
    multiplies((128, 48), ran!(two_each));
}

#[test]
fn a_fragment_beyond_the_tile_is_reported() {
    type Slots =
        SmemPlan<(Ring<2, (Tile<bf16, 64, 64>,), Writes<Scale>, Reads<Math>, Operands, Alone>,)>;
    let write = |cta: Cta<(Scale, Math), Alone, Slots>| {
        let (cta, (ring,)) = cta.init();
        cta.specialize(
            |group| {
                let mut slots = ring.producer.by(&group);
                let mut slot = slots.acquire();
                slot.put(4, [0.0; 8]);
                slot.commit();
            },
            |_| {},
        );
    };
    let report = run(1, &GlobalMemory::new(), write).expect_err("the tile has four fragments");
    assert_eq!(report.rule, Rule::Panic, "{report}");
    let text = report.to_string();
    assert!(text.contains("fewer fragments") && text.contains("written.rs:"), "{text}");
}
