//! wgmma with operands of either major and any swizzle, in tiles of several panels that TMA or ordinary
//! stores bring.

use half::{bf16, f16};
use isa::kernel::KernelArg;
use isa::slice::{DeviceSlice, DeviceSliceMut};
use isa::wgmma::{self, KMajor, M64, Major, MnMajor, MulBy, OperandMajor, Shape};
use isa::{cp_async_bulk, fence, kernel, mbarrier, shared, thread};

use crate::record::{passes, publish};
use crate::tensor::Map;
use crate::wgmma::swizzle;

/// Bytes for the two tiles: 32 KiB for A, and 64 KiB for B.
pub const SMEM: u32 = 96 * 1024;
/// Where B starts.
pub const B_START: u32 = 32 * 1024;

/// Where the tiles of A and B lie, and what wgmma reads of them. Addresses are relative to the start of
/// shared memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelArg)]
pub struct Tiles {
    /// Start of the first step.
    pub start: [u32; 2],
    /// Leading dimension byte offsets.
    pub lead: [u32; 2],
    /// Stride dimension byte offsets.
    pub stride: [u32; 2],
    /// Spans of the swizzles: 0, 32, 64 or 128 bytes.
    pub span: [u32; 2],
    /// Bytes from one step of 16 along K to the next.
    pub step: [u32; 2],
    /// Steps after which the next panel follows.
    pub steps_of_panel: [u32; 2],
    /// Bytes from one panel to the next.
    pub panel: [u32; 2],
    /// The first step and the number of steps.
    pub steps: [u32; 2],
    /// Index of the instruction: A and B K-major; B MN-major; A MN-major; both; A from registers with
    /// B K-major; with B MN-major.
    pub form: u32,
    /// Panels that TMA loads, one box each. None: the tile comes by stores.
    pub boxes: [u32; 2],
    /// Elements from one box to the next.
    pub box_elements: [u32; 2],
    /// Bytes of a box.
    pub box_bytes: [u32; 2],
}

impl Tiles {
    /// The descriptor of operand `i` at step `k`.
    #[inline(always)]
    fn descriptor(&self, i: usize, k: u32) -> u64 {
        let (panel, step) = (k / self.steps_of_panel[i], k % self.steps_of_panel[i]);
        let at = shared::dynamic_base() + self.start[i];
        let at = at + panel * self.panel[i] + step * self.step[i];
        wgmma::descriptor(at, self.lead[i], self.stride[i], swizzle(self.span[i]))
    }
}

/// Loads the boxes of both tiles. Returns whether the phase completed.
#[inline(always)]
fn load(maps: [&Map; 2], o: &Tiles) -> u32 {
    let s = shared::dynamic_base();
    let bar = s + SMEM;
    // SAFETY: tiles and barrier are the CTA's own memory; the barrier is published before its use.
    unsafe {
        if thread::thread_idx_x() == 0 {
            mbarrier::init(bar, 1);
            fence::mbarrier_init_release_cluster();
            fence::proxy_async();
        }
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            let bytes = o.boxes[0] * o.box_bytes[0] + o.boxes[1] * o.box_bytes[1];
            mbarrier::arrive_expect_tx(bar, bytes);
            for (i, map) in maps.into_iter().enumerate() {
                for panel in 0..o.boxes[i] {
                    let to = s + i as u32 * B_START + panel * o.panel[i];
                    let at = [(panel * o.box_elements[i]) as i32, 0];
                    cp_async_bulk::tensor_load(to, map.at(), at, bar);
                }
            }
        }
        passes(bar, 0)
    }
}

/// Both operands from shared memory.
#[inline(always)]
fn both<S, T, A, B>(d: &mut S::Regs, o: &Tiles)
where
    S: Shape,
    T: MulBy<T, Sum = f32> + OperandMajor<A> + OperandMajor<B>,
    A: Major,
    B: Major,
{
    for k in o.steps[0]..o.steps[0] + o.steps[1] {
        let (a, b) = (o.descriptor(0, k), o.descriptor(1, k));
        S::fence_operand(d);
        // SAFETY: all four warps are here; the operands are published, and not written again; the
        // accumulators are used after the wait.
        unsafe {
            wgmma::fence();
            S::mma::<T, T, A, B>(d, a, b, true);
            wgmma::commit_group();
            wgmma::wait_group::<0>();
        }
        S::fence_operand(d);
    }
}

/// A from registers: word `512 k + 4 tid + r` of `fragments` is register r of thread tid at step k.
#[inline(always)]
fn from_registers<S, T, B>(d: &mut S::Regs, fragments: &DeviceSlice<'_, u32>, o: &Tiles)
where
    S: Shape,
    T: MulBy<T, Sum = f32> + OperandMajor<B>,
    B: Major,
{
    for k in o.steps[0]..o.steps[0] + o.steps[1] {
        let first = (512 * k + 4 * thread::thread_idx_x()) as usize;
        let mut a = [0; 4];
        for (r, v) in a.iter_mut().enumerate() {
            *v = fragments.get(first + r).unwrap_or(0);
        }
        let b = o.descriptor(1, k);
        S::fence_operand(d);
        // SAFETY: as in `both`.
        unsafe {
            wgmma::fence();
            S::mma_rs::<T, T, B>(d, &mut a, b, true);
            wgmma::commit_group();
            wgmma::wait_group::<0>();
        }
        wgmma::fence_fragment(&mut a);
        S::fence_operand(d);
    }
}

/// `out[0]`: whether the loads completed; then register r of thread tid in word `tid * N/2 + r`.
#[inline(always)]
fn multiply<S: Shape, T: MulBy<T, Sum = f32> + OperandMajor<MnMajor>>(
    out: &DeviceSliceMut<'_, u32>,
    [bytes, fragments]: [&DeviceSlice<'_, u32>; 2],
    maps: [&Map; 2],
    o: &Tiles,
) {
    // SAFETY: the CTA's own memory, and all of its 128 threads.
    unsafe { publish(shared::dynamic_base(), bytes) };
    let passed = load(maps, o);
    if thread::thread_idx_x() == 0 {
        out.set(0, passed);
    }
    let mut d = S::ZERO;
    match o.form {
        0 => both::<S, T, KMajor, KMajor>(&mut d, o),
        1 => both::<S, T, KMajor, MnMajor>(&mut d, o),
        2 => both::<S, T, MnMajor, KMajor>(&mut d, o),
        3 => both::<S, T, MnMajor, MnMajor>(&mut d, o),
        4 => from_registers::<S, T, KMajor>(&mut d, fragments, o),
        _ => from_registers::<S, T, MnMajor>(&mut d, fragments, o),
    }
    let first = 1 + thread::thread_idx_x() as usize * (S::N / 2);
    for (r, v) in d.as_ref().iter().enumerate() {
        out.set(first + r, v.to_bits());
    }
}

macro_rules! kernels {
    ($($(#[$doc:meta])* $name:ident: $n:literal, $t:ty;)*) => {$(
        $(#[$doc])*
        #[kernel(threads = 128, smem = SMEM + 16)]
        pub fn $name(
            out: DeviceSliceMut<'_, u32>,
            bytes: DeviceSlice<'_, u32>,
            fragments: DeviceSlice<'_, u32>,
            a: &Map,
            b: &Map,
            o: Tiles,
        ) {
            multiply::<M64<$n>, $t>(&out, [&bytes, &fragments], [a, b], &o);
        }
    )*};
}
kernels! {
    /// 8 columns of f16.
    majors_n8_f16: 8, f16;
    /// 64 columns of bf16.
    majors_n64_bf16: 64, bf16;
    /// 64 columns of f16.
    majors_n64_f16: 64, f16;
    /// 136 columns of bf16.
    majors_n136_bf16: 136, bf16;
    /// 256 columns of bf16.
    majors_n256_bf16: 256, bf16;
}
