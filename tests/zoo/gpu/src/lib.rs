//! Launches of the bug zoo's kernels that are compiled for a GPU, on a GPU or on the SM model.

pub mod sanitize;

use host::{Device, Dtype, Error, Module, Param, TensorNd};
use zoo_shipped::world::{Memory, OUT, SIDE};
use zoo_shipped::{Entry, FAMILIES};

/// The kernels, compiled to PTX for sm_90a.
pub static IMAGE: isa::kernel::Image = isa::kernel_image!("zoo_shipped");

/// All entries, in the order of docs/zoo.md.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    FAMILIES.iter().flat_map(|family| family.entries)
}

/// Launches a kernel once, with its bug or without, behind the kernel ahead if it is a dependent launch, and
/// waits for its end. A kernel that hangs on a GPU hangs
/// here, too.
///
/// # Errors
/// The driver's error; on the model, its report.
pub fn launch(device: &Device, module: &Module, entry: &Entry, bug: bool) -> Result<(), Error> {
    let words = device.alloc_zeroed((4 * SIDE * SIDE) as usize)?;
    let out = device.alloc_zeroed(OUT as usize)?;
    let map = device.tensor_map_nd(&TensorNd {
        buffer: &words,
        dtype: Dtype::U32,
        dims: &[SIDE.into(), SIDE.into()],
        strides: &[4 * u64::from(SIDE)],
        box_dims: &[8, 8],
        swizzle_bytes: 0,
    })?;
    let memory = Memory { words: words.addr(), out: out.addr() };
    let params = [Param::map(&map), Param::value(memory), Param::value(u32::from(bug))];
    for desc in entry.ahead.iter().chain([&entry.desc]) {
        device.launch(module, desc, [entry.ctas, 1, 1], &params, &device.stream())?;
    }
    device.synchronize()
}
