//! The example of docs/testing-a-kernel.md, which stands there word for word.
// Small integers in bf16, doubled: exact.
#![allow(missing_docs, clippy::float_cmp)]

use half::bf16;
use host::testing::check;
use host::{Dtype, Param, TensorSpec, data};
use isa::kernel;
use isa::kernel::Kernel;
use pipeline::prelude::*;
use warpipe::{host, isa, pipeline};

names! { Rows = "rows" }
roles! { Load = 1 x 40 registers, Scale = 1 x 232 registers }

type Panel = Tile<bf16, 64, 64>;
type Alone = Cluster<1, 1>;
type Plan =
    SmemPlan<(Ring<2, (Panel,), Tma, Reads<Scale>, Rows, Alone>, StoreBuffers<bf16, 2, Scale>)>;
type ThisCta = Cta<(Load, Scale), Alone, Plan>;

/// `to = 2 * from`, in panels of 64 rows.
#[kernel]
fn double(cta: ThisCta, from: &TensorMap<Panel>, to: &TensorMap<Panel>, panels: u32) {
    let (cta, (ring, stores)) = cta.init();
    cta.specialize(
        |load| {
            load.elect(|one| {
                let mut loads = ring.producer.by(&one);
                for panel in 0..panels {
                    loads.acquire().load((from.tile(64 * panel, 0, Peers::ALONE),));
                }
                loads.tail();
            });
        },
        |group| {
            let (mut arrived, mut stores) = (ring.consumer.by(&group), stores.by(&group));
            for panel in 0..panels {
                let slot = arrived.wait();
                let mut out = stores.acquire();
                for fragment in 0..4 {
                    out.put(fragment, slot.fragment(&group, fragment).map(|x| 2.0 * x));
                }
                slot.release();
                out.publish().store(to, 64 * panel, 0);
            }
            stores.tail();
        },
    );
}

#[test]
fn double_doubles_under_every_schedule() {
    check(20, |model| {
        let (rows, cols) = (3 * 64, 64);
        let values: Vec<f32> = (0..rows * cols).map(|i| (i % 128) as f32).collect();
        let from = model.upload(&data::encode(&values, Dtype::Bf16)?)?;
        let to = model.alloc(from.len())?;
        let spec = |buffer| TensorSpec {
            buffer,
            offset: 0,
            dtype: Dtype::Bf16,
            rows: rows as u64,
            cols: cols as u64,
            pitch_bytes: 2 * cols as u64,
        };
        let source = model.tensor_map_for::<&TensorMap<Panel>>(&spec(&from))?;
        let target = model.tensor_map_for::<&TensorMap<Panel>>(&spec(&to))?;
        let params = [Param::map(&source), Param::map(&target), Param::value(3u32)];
        model.launch_on_model(&<double as Kernel>::DESC, [1, 1, 1], &params)?;
        let doubled = data::decode(&to.to_vec()?, Dtype::Bf16)?;
        assert!(doubled.iter().zip(&values).all(|(d, v)| *d == 2.0 * v));
        Ok(())
    });
}

#[test]
fn the_page_shows_this_file() {
    let page = include_str!("../../docs/testing-a-kernel.md");
    let code = page.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    let code = code.expect("a block of code");
    assert!(include_str!("testing_a_kernel.rs").contains(code), "the page's code is another");
}
