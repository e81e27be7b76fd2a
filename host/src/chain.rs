//! Launches of the model that the next one may overlap.
//!
//! A launch is complete when its call returns, so that its finding comes from the call. But a dependent
//! launch may begin before the one ahead has ended. Therefore the model runs a dependent launch together
//! with the launches ahead, which it repeats from the memory that they found. Launches between which the
//! host has waited for the device do not overlap.

use isa::kernel::KernelDesc;
use std::mem::MaybeUninit;

/// Launches that run together: a dependent launch, the one ahead, and the one ahead of that. If the one
/// ahead does not wait, the dependent launch may overlap both.
const TOGETHER: usize = 3;

/// The launches since the host last waited for the device: the latest of them.
#[derive(Default)]
pub(crate) struct Chain(Vec<Past>);

/// A launch, and what it found.
pub(crate) struct Past {
    pub desc: KernelDesc,
    pub grid: [u32; 3],
    params: Vec<Box<[Line]>>,
    /// Memory before it.
    pub memory: sim::GlobalMemory,
    /// Counts of the launches before it.
    pub stats: sim::Stats,
}

/// As much as a tensor map must be aligned to.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(
    #[expect(dead_code, reason = "kernels read it through pointers")] [MaybeUninit<u8>; 64],
);

impl Past {
    /// Copies the parameters of a launch.
    ///
    /// # Safety
    /// Pointer `i` points to as many bytes as `desc.meta` says of parameter `i`.
    pub unsafe fn new(
        desc: &KernelDesc,
        grid: [u32; 3],
        params: &[*const u8],
        memory: sim::GlobalMemory,
        stats: sim::Stats,
    ) -> Self {
        let copy = |(&from, meta): (&*const u8, &isa::kernel::ParamMeta)| {
            let bytes = meta.size as usize;
            let mut lines = vec![Line([MaybeUninit::uninit(); 64]); bytes.div_ceil(64)];
            // SAFETY: the caller's contract; the lines are at least as long.
            unsafe {
                let to = lines.as_mut_ptr().cast::<MaybeUninit<u8>>();
                from.cast::<MaybeUninit<u8>>().copy_to_nonoverlapping(to, bytes);
            }
            lines.into_boxed_slice()
        };
        let params = params.iter().zip(desc.meta.params()).map(copy).collect();
        Self { desc: *desc, grid, params, memory, stats }
    }

    /// A pointer to each parameter, aligned for any.
    pub fn pointers(&self) -> Vec<*const u8> {
        self.params.iter().map(|lines| lines.as_ptr().cast()).collect()
    }
}

impl Chain {
    /// The host waits for the device.
    pub fn end(&mut self) {
        self.0.clear();
    }

    /// Adds a launch, and gives those that run together now. The first of them is not dependent, or what
    /// is ahead of it has ended.
    pub fn push(&mut self, launch: Past) -> &[Past] {
        if launch.desc.meta.dependent == 0 {
            self.end();
        }
        self.0.push(launch);
        let old = self.0.len().saturating_sub(TOGETHER);
        self.0.drain(..old);
        &self.0
    }
}
