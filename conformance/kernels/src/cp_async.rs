//! `cp.async`: zero fill, groups, arrival at an mbarrier.

use isa::slice::{DeviceSlice, DeviceSliceMut};
use isa::{cp_async, fence, kernel, mbarrier, shared, thread};

use crate::record::passes;

/// 17 copies of 16 bytes of which 0 to 16 are read, in one group, and a plain one in another. Word
/// `4 i` and on: the 16 bytes of copy i.
#[kernel(threads = 32, smem = 512)]
pub fn copies_fill(out: DeviceSliceMut<'_, u32>, from: DeviceSlice<'_, u32>) {
    if thread::thread_idx_x() != 0 {
        return;
    }
    let s = shared::dynamic_base();
    let src = from.as_ptr().cast::<u8>();
    // SAFETY: the thread's own memory, read after the copies were waited for; the host lends 288
    // bytes at `src`.
    unsafe {
        for i in 0..4 * 18 {
            shared::st(s + 4 * i, u32::MAX);
        }
        for i in 0..17 {
            cp_async::copy_16_zfill(s + 16 * i, src.wrapping_add(16 * i as usize), i);
        }
        cp_async::commit_group();
        cp_async::copy_16(s + 16 * 17, src.wrapping_add(16 * 17));
        cp_async::commit_group();
        cp_async::wait_group::<1>();
        for i in 0..4 * 17 {
            out.set(i as usize, shared::ld(s + 4 * i));
        }
        cp_async::wait_group::<0>();
        for i in 4 * 17..4 * 18 {
            out.set(i as usize, shared::ld(s + 4 * i));
        }
    }
}

/// 64 threads copy 32 bytes each and let their copies arrive; then thread i reads what thread
/// `63 - i` copied. `out[i]` is the sum of those words, `out[64 + i]` whether the wait passed.
#[kernel(threads = 64, smem = 2112)]
pub fn copies_arrive(out: DeviceSliceMut<'_, u32>, from: DeviceSlice<'_, u32>) {
    let me = thread::thread_idx_x();
    let s = shared::dynamic_base();
    let bar = s + 2048;
    let src = from.as_ptr().cast::<u8>();
    // SAFETY: the barrier is initialised before all threads meet, and counts one arrival of each;
    // the copies' bytes are read after its phase. The host lends 2048 bytes at `src`.
    unsafe {
        if me == 0 {
            mbarrier::init(bar, 64);
            fence::mbarrier_init_release_cluster();
        }
        thread::sync_threads();
        for i in [2 * me, 2 * me + 1] {
            cp_async::copy_16(s + 16 * i, src.wrapping_add(16 * i as usize));
        }
        mbarrier::cp_async_arrive_noinc(bar);
        let passed = passes(bar, 0);
        let other = 63 - me;
        let mut sum = 0;
        for i in 0..8 {
            sum += shared::ld::<u32>(s + 32 * other + 4 * i);
        }
        out.set(me as usize, sum);
        out.set(64 + me as usize, passed);
        cp_async::commit_group();
        cp_async::wait_group::<0>();
    }
}
