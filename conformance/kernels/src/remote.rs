//! mbarriers of other CTAs: remote arrivals, remote bytes, copies between CTAs, multicast.

use isa::slice::DeviceSliceMut;
use isa::{cluster, cp_async_bulk, fence, kernel, mbarrier, shared, thread};

use crate::record::{Notes, look, passes, passes_cluster};
use crate::tensor::Map;

/// Words that each CTA writes in `arrivals`.
pub const ARRIVAL_WORDS: u32 = 8;
/// Words that each CTA writes in `bytes`.
pub const BYTES_WORDS: u32 = 8;
/// Bytes that each CTA copies to its neighbour.
pub const COPY: u32 = 1024;
/// Bytes of the box that is multicast.
pub const BOX: u32 = 2048;
/// Words that each CTA writes in a multicast.
pub const MULTICAST_WORDS: u32 = 4 + BOX / 4;

/// Synchronises all threads of the cluster.
///
/// # Safety
/// All threads of the cluster execute it.
#[inline(always)]
unsafe fn meet() {
    // SAFETY: the caller's contract.
    unsafe {
        cluster::arrive_release_unaligned();
        cluster::wait_acquire_unaligned();
    }
}

/// Rank 0's barrier counts one arrival of each CTA, and one more that it keeps back; every CTA's second
/// barrier counts an arrival of its left neighbour, which has written to it before.
#[inline(always)]
fn arrivals(out: &DeviceSliceMut<'_, u32>) {
    let me = thread::thread_idx_x();
    let s = shared::dynamic_base();
    let (first, second, word) = (s, s + 8, s + 16);
    let (rank, size) = (cluster::cta_rank(), cluster::num_ctas());
    let mut notes = Notes::at(out, (thread::block_idx_x() * ARRIVAL_WORDS) as usize);
    // SAFETY: the barriers are initialised and the peers have started behind the first meeting;
    // arrivals are as many as the barriers count; nobody exits before the last meeting.
    unsafe {
        if me == 0 {
            mbarrier::init(first, 2 * size + 1);
            mbarrier::init(second, 1);
            fence::mbarrier_init_release_cluster();
        }
        meet();
        if me == 0 {
            mbarrier::arrive_remote(cluster::mapa(first, 0));
        }
        meet();
        if me == 0 {
            notes.put(look(first, 0));
            if rank != 0 {
                mbarrier::arrive_remote_count(cluster::mapa(first, 0), 1);
            } else {
                mbarrier::arrive_remote(cluster::mapa(first, 0));
            }
        }
        meet();
        if me == 0 {
            notes.put(look(first, 0));
            if rank == 0 {
                notes.put(mbarrier::pending_count(mbarrier::arrive(first)));
            } else {
                notes.put(0);
            }
            notes.put(look(first, 0));
            let right = (rank + 1) % size;
            shared::st_cluster(cluster::mapa(word, right), 500 + rank);
            mbarrier::arrive_remote_release_cluster(cluster::mapa(second, right));
            notes.put(passes_cluster(second, 0));
            notes.put(shared::ld(word));
        }
        meet();
        if me == 0 {
            notes.put(look(second, 0));
            notes.put(look(second, 1));
        }
        meet();
    }
}

/// Each CTA expects bytes on its right neighbour's barrier, completes them there by hand, and copies
/// to it in bulk.
#[inline(always)]
fn bytes(out: &DeviceSliceMut<'_, u32>) {
    let me = thread::thread_idx_x();
    let s = shared::dynamic_base();
    let (from, to, bar) = (s, s + COPY, s + 2 * COPY);
    let (rank, size) = (cluster::cta_rank(), cluster::num_ctas());
    let cta = thread::block_idx_x();
    let mut notes = Notes::at(out, (cta * BYTES_WORDS) as usize);
    let data = (thread::grid_dim_x() * BYTES_WORDS + cta * (COPY / 4)) as usize;
    // SAFETY: as in `arrivals`; the bytes of each phase add up; the source of the copy is published
    // before it, and the target read after the phase that counts it.
    unsafe {
        let right = (rank + 1) % size;
        let there = |addr| cluster::mapa(addr, right);
        let mut i = me;
        while i < COPY / 4 {
            shared::st(from + 4 * i, 10_000 * rank + i);
            i += 32;
        }
        fence::proxy_async_shared_cta();
        if me == 0 {
            mbarrier::init(bar, 1);
            fence::mbarrier_init_release_cluster();
            fence::proxy_async();
        }
        meet();
        // Phase 0: the left neighbour expects and arrives, and completes later.
        if me == 0 {
            mbarrier::arrive_expect_tx_remote(there(bar), 64);
        }
        meet();
        if me == 0 {
            notes.put(look(bar, 0));
        }
        meet();
        if me == 0 {
            mbarrier::complete_tx_remote(there(bar), 64);
            notes.put(passes(bar, 0));
        }
        meet();
        // Phase 1: expected remotely, arrived at here, completed by a copy.
        if me == 0 {
            mbarrier::expect_tx_remote(there(bar), COPY);
        }
        meet();
        if me == 0 {
            notes.put(look(bar, 1));
            mbarrier::arrive(bar);
            notes.put(look(bar, 1));
        }
        meet();
        if me == 0 {
            cp_async_bulk::copy_to_cta(there(to), from, COPY, there(bar));
            notes.put(passes(bar, 1));
        }
        meet();
        if me == 0 {
            notes.put(look(bar, 0));
            notes.put(look(bar, 1));
            notes.put(rank);
        }
        let mut i = me;
        while i < COPY / 4 {
            out.set(data + i as usize, shared::ld(to + 4 * i));
            i += 32;
        }
        meet();
    }
}

/// Rank `from` loads one box for the CTAs of `mask`; each of these expects its own bytes. The others
/// see nothing on their barriers.
#[inline(always)]
fn multicast(out: &DeviceSliceMut<'_, u32>, map: &Map, from: u32, mask: u32) {
    let me = thread::thread_idx_x();
    let to = shared::dynamic_base();
    let bar = to + BOX;
    let rank = cluster::cta_rank();
    let at = thread::block_idx_x() * MULTICAST_WORDS;
    let mut notes = Notes::at(out, at as usize);
    // SAFETY: as in `bytes`; each CTA of the mask expects the box, and nobody exits before it landed.
    unsafe {
        let mine = mask >> rank & 1 != 0;
        let mut i = me;
        while i < BOX / 4 {
            shared::st(to + 4 * i, 0xeeee_eeee_u32);
            i += 32;
        }
        fence::proxy_async_shared_cta();
        if me == 0 {
            mbarrier::init(bar, 1);
            fence::mbarrier_init_release_cluster();
            fence::proxy_async();
            if mine {
                mbarrier::arrive_expect_tx(bar, BOX);
            }
        }
        meet();
        if me == 0 {
            notes.put(look(bar, 0));
        }
        meet();
        if me == 0 && rank == from {
            cp_async_bulk::tensor_load_multicast(to, map.at(), [0, 0], bar, mask as u16);
        }
        if me == 0 {
            notes.put(if mine { passes(bar, 0) } else { 0 });
        }
        meet();
        if me == 0 {
            notes.put(look(bar, 0));
            notes.put(rank);
        }
        let mut i = me;
        while i < BOX / 4 {
            out.set((at + 4 + i) as usize, shared::ld(to + 4 * i));
            i += 32;
        }
        meet();
    }
}

macro_rules! sizes {
    ($($arrivals:ident, $bytes:ident, $multicast:ident: $size:literal;)*) => {$(
        /// `arrivals` in clusters of one size.
        #[kernel(threads = 32, cluster = ($size, 1, 1), smem = 64)]
        pub fn $arrivals(out: DeviceSliceMut<'_, u32>) {
            arrivals(&out);
        }
        /// `bytes` in clusters of one size.
        #[kernel(threads = 32, cluster = ($size, 1, 1), smem = 2 * COPY + 16)]
        pub fn $bytes(out: DeviceSliceMut<'_, u32>) {
            bytes(&out);
        }
        /// `multicast` in clusters of one size.
        #[kernel(threads = 32, cluster = ($size, 1, 1), smem = BOX + 16)]
        pub fn $multicast(out: DeviceSliceMut<'_, u32>, map: &Map, from: u32, mask: u32) {
            multicast(&out, map, from, mask);
        }
    )*};
}
sizes! {
    remote_arrivals_2, remote_bytes_2, remote_multicast_2: 2;
    remote_arrivals_4, remote_bytes_4, remote_multicast_4: 4;
}
