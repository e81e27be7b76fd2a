//! The kernels on the SM model, under several schedules of their threads and copies; and on a GPU, if there is one.

use warpipe::host::testing::check;
use warpipe::host::{Device, Error, SimConfig, data};

use {{crate}}::{Linear, error};

/// An edge in every direction; a product smaller than a tile.
const SHAPES: [[usize; 3]; 2] = [[136, 264, 136], [1, 8, 8]];

fn is_right(device: &Device, shape: [usize; 3], kernel: Option<usize>) -> Result<(), Error> {
    let [m, n, k] = shape;
    let (a, b, bias) = (
        data::normal(1, m * k),
        data::normal(2, n * k),
        data::normal(3, n),
    );
    let linear = Linear::new(device)?;
    let d = linear.run(&linear.plan(shape, kernel)?, &a, &b, &bias)?;
    let error = error(shape, &a, &b, &bias, &d)?;
    assert!(error < 5e-3, "{shape:?}, kernel {kernel:?}: {error:e}");
    Ok(())
}

/// The kernel of the plan (`None`), and each of the table.
fn each_kernel(device: &Device, shape: [usize; 3]) -> Result<(), Error> {
    let kernels = 0..Linear::new(device)?.kernels();
    kernels
        .map(Some)
        .chain([None])
        .try_for_each(|kernel| is_right(device, shape, kernel))
}

#[test]
fn right_under_every_schedule() {
    for shape in SHAPES {
        check(4, |model| Ok(each_kernel(model, shape)?));
    }
}

#[test]
fn right_on_a_gpu() {
    match Device::cuda(0) {
        Ok(gpu) => {
            for shape in SHAPES {
                each_kernel(&gpu, shape).unwrap();
            }
        }
        Err(why) => println!("skipped: {why}"),
    }
}

#[test]
fn operands_of_another_size_are_refused() {
    let model = Device::sim(SimConfig::default());
    let linear = Linear::new(&model).unwrap();
    let plan = linear.plan([64, 64, 64], None).unwrap();
    let error = linear
        .run(&plan, &[0.0; 64], &[0.0; 64 * 64], &[0.0; 64])
        .unwrap_err();
    assert!(error.to_string().contains("8192 bytes"), "{error}");
}
