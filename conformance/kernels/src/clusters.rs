//! The cluster barrier with separate arrive and wait, and ordinary accesses to a peer's shared memory.

use isa::slice::DeviceSliceMut;
use isa::{cluster, fence, kernel, shared, thread};

/// Rounds.
pub const ROUNDS: u32 = 8;

/// Each CTA writes its word, arrives, works on its own, waits, reads the words of all peers; then the
/// next round. `out[cta * 64 + round * 8 + 0..]`: the sum of the words read, and the CTA's own work.
#[inline(always)]
fn rounds(out: &DeviceSliceMut<'_, u32>) {
    let me = thread::thread_idx_x();
    let s = shared::dynamic_base();
    let (rank, size) = (cluster::cta_rank(), cluster::num_ctas());
    let cta = thread::block_idx_x();
    // SAFETY: all threads of the cluster arrive and wait in turn. A CTA's word is written between two
    // rounds, which a second barrier keeps apart, and read within one; nobody exits before the last
    // barrier, behind which no peer reads.
    unsafe {
        for round in 0..ROUNDS {
            if me == 0 {
                shared::st(s, 100 * round + rank);
            }
            // Half of the rounds with the aligned forms.
            if round % 2 == 0 {
                cluster::arrive_release();
            } else {
                cluster::arrive_release_unaligned();
            }
            shared::st(s + 16 + 4 * me, round + me);
            if round % 2 == 0 {
                cluster::wait_acquire();
            } else {
                cluster::wait_acquire_unaligned();
            }
            if me == 0 {
                let mut sum = 0;
                for peer in 0..size {
                    sum += shared::ld_cluster::<u32>(cluster::mapa(s, peer));
                }
                let at = ((cta * ROUNDS + round) * 2) as usize;
                out.set(at, sum);
                out.set(at + 1, shared::ld(s + 16));
            }
            cluster::arrive_release();
            cluster::wait_acquire();
        }
    }
}

/// Each CTA writes to its right neighbour with `st.shared::cluster`, and reads what the left one wrote,
/// ordered by a fence and a relaxed arrival.
#[inline(always)]
fn pass_on(out: &DeviceSliceMut<'_, u32>) {
    let me = thread::thread_idx_x();
    let s = shared::dynamic_base();
    let (rank, size) = (cluster::cta_rank(), cluster::num_ctas());
    let cta = thread::block_idx_x();
    // SAFETY: the peers have started behind the first barrier; a word is written before the second
    // and read after it; nobody exits before the third.
    unsafe {
        cluster::arrive_relaxed();
        cluster::wait_acquire();
        let right = (rank + 1) % size;
        shared::st_cluster(cluster::mapa(s + 4 * me, right), 1000 * rank + me);
        fence::acq_rel_cluster();
        cluster::arrive_relaxed();
        cluster::wait_acquire();
        let seen: u32 = shared::ld(s + 4 * me);
        out.set((cta * 32 + me) as usize, seen);
        cluster::arrive_release();
        cluster::wait_acquire();
    }
}

macro_rules! sizes {
    ($($rounds:ident, $pass_on:ident: $size:literal;)*) => {$(
        /// `rounds` in clusters of one size.
        #[kernel(threads = 32, cluster = ($size, 1, 1), smem = 256)]
        pub fn $rounds(out: DeviceSliceMut<'_, u32>) {
            rounds(&out);
        }
        /// `pass_on` in clusters of one size.
        #[kernel(threads = 32, cluster = ($size, 1, 1), smem = 256)]
        pub fn $pass_on(out: DeviceSliceMut<'_, u32>) {
            pass_on(&out);
        }
    )*};
}
sizes! {
    cluster_rounds_2, cluster_pass_on_2: 2;
    cluster_rounds_4, cluster_pass_on_4: 4;
    cluster_rounds_8, cluster_pass_on_8: 8;
}
