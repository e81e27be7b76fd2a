//! The grouped GEMM kernel: persistent, warp-specialised, D = epilogue(A·Bᵀ) with a B for each group of rows.
//!
//! ```text
//! warp 0   TMA  A, B  ──► ring "main loop" ──► wgmma, consumer warp groups ──► epilogue ──► store buffers ─► TMA D
//! ```
//! It differs from [`gemm`](crate::gemm::kernel::gemm) in what it knows before it waits for the primary grid: nothing
//! of the groups, so it prefetches nothing. It reads no C.
#![forbid(unsafe_code)]

use crate::gemm::config::*;
use crate::gemm::epilogue::Epilogue;
use crate::gemm::output::{Orientation, Output, RaggedMap, STORE_STAGES};
use crate::gemm::rank::Rank2;
use crate::gemm::scales::ScaleConfig;
use crate::gemm::scheduler::{Grouped, GroupedArgs, TileScheduler};
use pipeline::cta::{Condition, Is};
use pipeline::prelude::*;
use pipeline::tile::TileShape;

/// The shared memory of a CTA.
pub type GroupedPlan<G> = SmemPlan<(
    StoreBuffers<Out<G>, STORE_STAGES, <G as Config>::Math>,
    <G as Config>::Operands,
    <<G as Config>::Mainloop as Mainloop<G>>::Turns,
)>;

/// The CTA of a grouped GEMM.
pub type GroupedCta<G> = Cta<(Load, <G as Config>::Math), <G as Config>::Cluster, GroupedPlan<G>>;

/// Runs one CTA of the grouped GEMM that `G` describes. `STAGES` is the number of stages of `G::Operands`.
///
/// Each role waits for the primary grid (`griddepcontrol.wait`) before it reads the ends of the groups, A or B. The CTA
/// lets the dependent grid start (`griddepcontrol.launch_dependents`) at once.
#[isa::forceinline]
pub fn grouped<G, const STAGES: usize, const SWAP_AB: bool>(
    cta: GroupedCta<G>,
    a: &MapA<G>,
    b: &MapB<G>,
    d: &MapD<G>,
    scales: ScaleArgs<'_, G>,
    epilogue: G::Epilogue,
    groups: GroupedArgs<'static>,
) where
    G: Config<
            Operands = OperandRing<G, STAGES>,
            Rank = Rank2,
            Scheduler = Grouped<<G as Config>::Cluster, SWAP_AB>,
            ReadsC = Is<false>,
        >,
    G::Output: Orientation<Map<Rank2> = RaggedMap<<G::Output as Orientation>::EpilogueTile>>,
{
    let (bm, bn) = (<G::A as TileShape>::ROWS, <G::B as TileShape>::ROWS);
    let bk = <G::A as TileShape>::COLS as u32;
    const {
        assert!(
            SWAP_AB == <G::Output as Orientation>::SWAP_AB,
            "the scheduler knows the orientation"
        );
        assert!(!G::Epilogue::GATED && !G::ReadsC::HOLDS, "a grouped kernel is not gated");
    }

    cta.launch_dependents();
    a.prefetch(&cta);
    b.prefetch(&cta);
    d.prefetch(&cta);
    let (early, (stores, operands, turns)) = cta.prologue();

    early.specialize(
        |load| {
            load.elect(|early| {
                let one = early.wait();
                let at = one.coord();
                let mut ring = operands.producer.by(&one);
                let mut works = Grouped::<G::Cluster, SWAP_AB>::by(at, &one, &groups);
                while let Some(work) = works.next() {
                    let tile = works.origin(&work, bm, bn);
                    let of_group = works.row_of_b(&work);
                    // With swap_ab the kernel's A is the product's B.
                    let (row, col) = if SWAP_AB {
                        (of_group + tile.row, tile.col)
                    } else {
                        (tile.row, of_group + tile.col)
                    };
                    let mut scales = G::Scales::begin(scales, &one, tile, 0);
                    for k in 0..work.k_tiles {
                        let a = a.tile(row, k * bk, at.sharing_a());
                        let b = b.tile(col, k * bk, at.sharing_b());
                        G::Scales::load(&mut scales, ring.acquire(), a, b);
                    }
                }
                works.write_status(&one);
                ring.tail();
            });
        },
        |math| {
            let group = math.wait();
            let epilogue = epilogue.prepared(&group);
            let mut out =
                Output { group: &group, source: None, stores: stores.by(&group), d, epilogue };
            let work = Grouped::by(group.coord(), &group, &groups);
            G::Mainloop::run(work, operands.consumer.by(&group), (turns, None), &mut out);
            out.tail();
        },
    );
}
