//! The kernel on the SM model, under several schedules of its threads and copies; and on a GPU, if there is one.

use warpipe::host::attention::Heads;
use warpipe::host::testing::check;
use warpipe::host::{Device, Error, SimConfig, data};

use {{crate}}::{AlibiAttention, Size, error, slopes};

/// Two blocks of keys with an edge, and two heads of Q that share one of K; fewer tokens than a tile, narrow heads.
const SIZES: [Size; 2] = [
    Size {
        batch: 1,
        tokens: 150,
        heads: Heads {
            q: 2,
            kv: 1,
            dim: 128,
        },
    },
    Size {
        batch: 2,
        tokens: 5,
        heads: Heads {
            q: 1,
            kv: 1,
            dim: 64,
        },
    },
];

fn is_right(device: &Device, size: Size) -> Result<(), Error> {
    let [queries, keys] = size.values();
    let (q, k, v) = (
        data::normal(1, queries),
        data::normal(2, keys),
        data::normal(3, keys),
    );
    let slopes = slopes(size.heads.q);
    let attention = AlibiAttention::new(device)?;
    let o = attention.run(&attention.plan(size)?, [&q, &k, &v], &slopes)?;
    let off = error(size, [&q, &k, &v], &slopes, &o)?;
    assert!(off <= 1.0, "{size:?}: {off}");
    // The check can see the slopes: others are far off.
    let others: Vec<f32> = slopes.iter().map(|slope| slope + 1.0).collect();
    assert!(error(size, [&q, &k, &v], &others, &o)? > 1.0, "{size:?}");
    Ok(())
}

#[test]
fn right_under_every_schedule() {
    for size in SIZES {
        check(4, |model| Ok(is_right(model, size)?));
    }
}

#[test]
fn right_on_a_gpu() {
    match Device::cuda(0) {
        Ok(gpu) => {
            for size in SIZES {
                is_right(&gpu, size).unwrap();
            }
        }
        Err(why) => println!("skipped: {why}"),
    }
}

#[test]
fn heads_that_are_too_wide_are_refused() {
    let attention = AlibiAttention::new(&Device::sim(SimConfig::default())).unwrap();
    let mut size = SIZES[0];
    size.heads.dim = 136;
    let error = attention.plan(size).err().expect("a refusal");
    assert!(error.to_string().contains("136"), "{error}");
}

#[test]
fn another_number_of_slopes_is_refused() {
    let attention = AlibiAttention::new(&Device::sim(SimConfig::default())).unwrap();
    let [queries, keys] = SIZES[0].values();
    let (q, k) = (vec![0.0; queries], vec![0.0; keys]);
    let plan = attention.plan(SIZES[0]).unwrap();
    let error = attention.run(&plan, [&q, &k, &k], &[0.5]).unwrap_err();
    assert!(error.to_string().contains("4 bytes"), "{error}");
}
