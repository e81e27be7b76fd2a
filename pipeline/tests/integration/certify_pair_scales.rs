//! Certificates of a pair's rings with block scales. No chip has run them.
#![allow(missing_docs)]

use crate::common::run_with;
use isa::cp_async_bulk::TensorMapBytes;
use isa::kernel::Dtype;
use isa::tcgen05::Ue8m0;
use pipeline::cta::TwoSm;
use pipeline::prelude::*;
use pipeline::ring::{Tma2Sm, Umma};
use pipeline::tensor::{FACTOR_COLUMNS, TensorAccumulators};
use pipeline::tile::{Element, ScaleBlocks, TileShape};
use sim::tensor_map::{DataType, Swizzle, TensorMapDesc, encode};
use sim::{Certificate, Config, GlobalMemory, Limits, Refusal, Report, certify};

names! { Slots = "slots", Sums = "sums" }
roles! { Work = 1 x 40 registers, Store = 1 x 216 registers }

type Pair = Cluster<2, 1>;
type A = Tile<F8E4M3, 128, 128>;
/// A CTA's half of 128 columns.
type HalfOfB = Tile<F8E4M3, 64, 128>;
type Factors = ScaleBlocks<Ue8m0, 1>;
type Plan = SmemPlan<(
    Ring<2, (A, HalfOfB, Factors, Factors), Tma2Sm, Umma<Work, TwoSm>, Slots, Pair>,
    TensorAccumulators<2, 128, Store, Sums, TwoSm, FACTOR_COLUMNS>,
)>;

/// The tensor map of a matrix in tiles of `T`, whose bytes are those of `f`.
fn map<T: TileShape>(
    memory: &GlobalMemory,
    [rows, cols]: [usize; 2],
    f: impl Fn(usize) -> u8,
) -> TensorMap<T> {
    let pitch = cols * T::Element::SIZE;
    let addr = memory.alloc(rows * pitch);
    let bytes: Vec<u8> = (0..rows * pitch).map(f).collect();
    memory.write(addr, &bytes).expect("just allocated");
    let dtype = if T::Element::DTYPE == Dtype::I32 { DataType::I32 } else { DataType::U8 };
    let words = encode(&TensorMapDesc {
        dtype,
        rank: 2,
        addr,
        dims: [cols as u64, rows as u64, 1, 1, 1],
        strides: [pitch as u64, 0, 0, 0],
        box_dims: [T::COLS as u32, T::ROWS as u32, 1, 1, 1],
        swizzle: if T::SWIZZLE == 0 { Swizzle::None } else { Swizzle::B128 },
    })
    .expect("a valid tensor");
    // SAFETY: the box, the element and the swizzle are the tile's; the memory outlives the run.
    unsafe { TensorMap::from_bytes(TensorMapBytes(words)) }
}

/// A step is a k tile of one tile, or a tile of `k_tiles` k tiles.
fn pair(k_tiles: Option<u32>) -> Result<Certificate, Refusal<Box<Report>>> {
    certify(&Config::default(), &Limits::default(), |config, trial| {
        let (tiles, k_tiles) = k_tiles.map_or((1, trial.steps), |k| (trial.steps, k));
        let memory = GlobalMemory::new();
        let k = k_tiles as usize;
        // e4m3 from 0.5 on, and ue8m0 from 1/2 to 2.
        let element = |i: usize| 0x30 + ((i + 3 * trial.data as usize) % 7) as u8;
        let factor = |i: usize| 126 + ((i + trial.data as usize) % 3) as u8;
        let a = map::<A>(&memory, [256, 128 * k], element);
        let b = map::<HalfOfB>(&memory, [128, 128 * k], element);
        let sfa = map::<Factors>(&memory, [2 * k, 128], factor);
        let sfb = map::<Factors>(&memory, [k, 128], factor);
        run_with(config, &memory, |cta: Cta<(Work, Store), Pair, Plan>| {
            let (cta, (operands, sums)) = cta.init();
            cta.specialize(
                |work| {
                    let m = work.coord().m();
                    work.two_warps(
                        |warp| {
                            let Some(one) = warp.elect() else { return };
                            let mut ring = operands.producer.by(&one);
                            for _ in 0..tiles {
                                for k in 0..k_tiles {
                                    ring.acquire().load((
                                        a.tile(128 * m, 128 * k, Peers::ALONE),
                                        b.tile(64 * m, 128 * k, Peers::ALONE),
                                        sfa.tile(m * k_tiles + k, 0, Peers::ALONE),
                                        sfb.tile(k, 0, Peers::ALONE),
                                    ));
                                }
                            }
                            ring.tail();
                        },
                        |warp| {
                            sums.producer.by(warp, |leader, sums| {
                                let mut operands = operands.consumer.by_leader(leader);
                                for _ in 0..tiles {
                                    let mut sum = sums.acquire().start(operands.wait());
                                    for _ in 1..k_tiles {
                                        sum.add(operands.wait());
                                    }
                                    sum.commit();
                                }
                            });
                        },
                    );
                },
                |group| {
                    let mut sums = sums.reader.by(&group);
                    for _ in 0..tiles {
                        let full = sums.wait();
                        let _strip = full.strip(0);
                        full.release();
                    }
                },
            );
        })
    })
}

/// Two wraps of the ring are a period: the factors of the next slot are copied behind the multiplications of the last.
#[test]
fn slots_with_block_scales_that_a_pair_multiplies() {
    let certificate = pair(None).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(certificate.period, 4, "{certificate}");
}

/// Two wraps of both rings.
#[test]
fn accumulators_of_a_pair_with_block_scales() {
    let certificate = pair(Some(1)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(certificate.period, 4, "{certificate}");
}
