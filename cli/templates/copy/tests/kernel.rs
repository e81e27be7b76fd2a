//! The kernel on the SM model, under many schedules of its threads and copies; and on a GPU, if there is one.

use warpipe::host::testing::check;
use warpipe::host::{Device, Error, SimConfig, data};

use {{crate}}::{Scale, reference};

/// Whole panels; an edge in both directions; a matrix smaller than a panel.
const SHAPES: [[u32; 2]; 3] = [[128, 192], [200, 136], [3, 8]];

fn is_right(device: &Device, shape: [u32; 2]) -> Result<(), Error> {
    let x = data::normal(1, (shape[0] * shape[1]) as usize);
    let y = Scale::new(device)?.run(&x, shape, 1.5)?;
    assert_eq!(y, reference(&x, 1.5)?, "{shape:?}");
    Ok(())
}

#[test]
fn right_under_every_schedule() {
    for shape in SHAPES {
        check(20, |model| Ok(is_right(model, shape)?));
    }
}

#[test]
fn right_on_a_gpu() {
    match Device::cuda(0) {
        Ok(gpu) => {
            for shape in SHAPES {
                is_right(&gpu, shape).unwrap();
            }
        }
        Err(why) => println!("skipped: {why}"),
    }
}

#[test]
fn rows_that_tma_cannot_read_are_refused() {
    let model = Device::sim(SimConfig::default());
    let error = is_right(&model, [2, 3]).unwrap_err();
    assert!(error.to_string().contains("multiple of 16"), "{error}");
}
