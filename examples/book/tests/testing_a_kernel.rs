//! The example of docs/testing-a-kernel.md.
// Small integers in bf16, doubled: exact.
#![allow(missing_docs, clippy::float_cmp)]

// example: kernel
use warpipe::host::testing::{CaseResult, certify, check};
use warpipe::host::{Device, Dtype, Param, TensorSpec, data};
use warpipe::isa::kernel::Kernel;
use warpipe::kernel;
use warpipe::pipeline::prelude::*;

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
// end

// example: case
/// Doubles a matrix of `panels` panels on the model and compares every value.
fn double_on(model: &Device, panels: u32, first: u64) -> CaseResult {
    let count = u64::from(panels) * 64 * 64;
    let values: Vec<f32> = (0..count).map(|i| ((first + i) % 128) as f32).collect();
    let from = model.upload(&data::encode(&values, Dtype::Bf16)?)?;
    let to = model.alloc(from.len())?;
    let spec = |buffer| TensorSpec {
        buffer,
        offset: 0,
        dtype: Dtype::Bf16,
        rows: u64::from(panels) * 64,
        cols: 64,
        pitch_bytes: 128,
    };
    let source = model.tensor_map_for::<&TensorMap<Panel>>(&spec(&from))?;
    let target = model.tensor_map_for::<&TensorMap<Panel>>(&spec(&to))?;
    let params = [Param::map(&source), Param::map(&target), Param::value(panels)];
    model.launch_on_model(&double::DESC, [1, 1, 1], &params)?;
    let doubled = data::decode(&to.to_vec()?, Dtype::Bf16)?;
    assert!(doubled.iter().zip(&values).all(|(d, v)| *d == 2.0 * v));
    Ok(())
}

#[test]
fn double_doubles_under_every_schedule() {
    check(20, |model| double_on(model, 3, 0));
}
// end

// example: certify
#[test]
fn double_is_certified_for_any_number_of_panels() {
    let certificate = certify(|model, trial| double_on(model, trial.steps, trial.data));
    assert_eq!(certificate.period, 4);
}
// end
