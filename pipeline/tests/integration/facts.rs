//! What a plan says of itself (`warpipe inspect`).

use isa::kernel::{KernelArg, Part};
use pipeline::barrier::{
    LoadOrderBarrier, Mailbox, NamedBarrier, NamedSequence, Nobody, OrderedSequence,
};
use pipeline::cta::{Cluster, Is, When};
use pipeline::prelude::*;
use pipeline::ring::{BlockScaled, CpAsync, MmaReads, TmaParts};
use pipeline::tile::Vector;

names! {
    Main = "main", Off = "off", Side = "side", Copies = "copies", Order = "order", Turns = "turns",
    Mail = "mail", All = "all", Both = "both", Scales = "scales", Issue = "issue"
}
roles! { Load = 1 x 40 registers, Math = 2 x 232 registers }

/// The parts of each region fill it, with the counts that follow from its types.
#[test]
fn the_parts_of_a_plan_fill_it() {
    type Pair = Cluster<2, 1>;
    type Panel = Tile<half::bf16, 64, 64>;
    type Regions = (
        Ring<3, (Panel, Tile<f32, 128, 32>), Tma, Mma<Math>, Main, Pair>,
        When<Is<false>, Ring<9, (Panel,), Tma, Mma<Math>, Off, Pair>>,
        Ring<2, [Panel; 3], TmaParts, Reads<Math>, Side, Pair>,
        NamedBarrier<Nobody, Math, All>,
        Ring<2, (Panel,), CpAsync<Load>, Reads<Math>, Copies, Pair>,
        StoreBuffers<half::f16, 2, Math>,
        LoadOrderBarrier<Order, 2>,
        When<Is<true>, OrderedSequence<2, Math, Turns>>,
        Mailbox<2, Math, Mail, Pair>,
        NamedBarrier<Load, Math, Both>,
        Ring<2, Scaled, Tma, MmaReads<Math>, Scales, Pair>,
        NamedSequence<Math, Issue>,
    );
    type A = Tile<float8::F8E4M3, 64, 128>;
    type B = Tile<float8::F8E4M3, 32, 128>;
    type Scaled = BlockScaled<A, B, Vector<f32, 64>, 1, 32>;
    let facts = <Cta<(Load, Math), Pair, SmemPlan<Regions>> as KernelArg>::CTA.unwrap();
    assert_eq!((facts.cluster, facts.first_barrier), ([2, 1], 4));
    let mut arrivals = Vec::new();
    let mut named = Vec::new();
    let mut end = 0;
    for region in facts.regions {
        assert!(region.offset >= end);
        end = region.offset + region.bytes;
        let mut inside = 0;
        for part in region.parts {
            let (offset, bytes) = match *part {
                Part::Tiles { offset, count, tiles, .. } => {
                    (offset, count * tiles.iter().map(|tile| tile.bytes).sum::<u32>())
                }
                Part::Bytes { offset, bytes, .. } => (offset, bytes),
                Part::Mbarriers { offset, count, arrivals: each, .. } => {
                    arrivals.push((region.name, count, each));
                    (offset, 8 * count)
                }
                Part::Named { threads, .. } => {
                    named.push((region.name, region.first_barrier, threads));
                    continue;
                }
            };
            assert_eq!(offset, inside, "{region:?}");
            inside += bytes;
        }
        assert_eq!(inside, region.bytes, "{region:?}");
    }
    assert_eq!(end, SmemPlan::<Regions>::BYTES);
    assert_eq!(
        arrivals,
        [
            ("main", 3, 1),
            ("main", 3, 4),
            ("side", 2, 3),
            ("side", 2, 8),
            ("copies", 2, 128),
            ("copies", 2, 8),
            ("order", 1, 2),
            ("turns", 4, 4),
            ("mail", 1, 8),
            ("mail", 1, 8),
            ("scales", 2, 1),
            ("scales", 2, 16),
        ]
    );
    let issue = ("issue", 2, 256);
    assert_eq!(named, [("all", 0, 256), ("both", 1, 384), issue, issue]);
}
