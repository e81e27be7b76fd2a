//! Bugs that shipped: CTAs of a cluster that disagree, or leave.

use crate::world::{BOX, World, init_cluster, meet, rounds, smem, tid};
use isa::{cluster, cp_async, cp_async_bulk as bulk, fence, global, mbarrier, shared, thread};

shipped! { "clusters.rs":
    a_peer_that_skips_the_multicast: 32 threads, 2 ctas in clusters of 2;
        "DeepGEMM #415",
        "The CTAs of a cluster decide separately whether a tile is multicast: one waits for a tile that nobody sends";
    a_barrier_that_ends_at_the_cta: 32 threads, 2 ctas in clusters of 2;
        "CUTLASS #3324",
        "A CTA fills its tile with `cp.async`, and tells the CTA that reads it with an arrival and a wait of CTA scope";
    a_multicast_over_a_peers_epilogue: 32 threads, 2 ctas in clusters of 2;
        "humming #54, #56",
        "The leader waits for its own epilogue, and multicasts over the staging buffer that the peer still reads";
    a_read_from_a_peer_that_has_left: 32 threads, 4 ctas in clusters of 4;
        "Triton #11730, #11731",
        "Peers read a result in the first CTA's shared memory, and no cluster barrier keeps that CTA until then";
}

/// Each CTA expects a tile. Rank 0 sends it to both, or each loads its own.
#[inline(always)]
pub fn a_peer_that_skips_the_multicast(w: &World, bug: bool) {
    let [full] = init_cluster([1]);
    let rank = cluster::cta_rank();
    let multicast = !bug || rank == 1;
    // SAFETY: both CTAs live until `meet`. That they decide differently is the bug.
    unsafe {
        if tid() == 0 {
            mbarrier::arrive_expect_tx(full, BOX); //~ WP002
            if !multicast {
                bulk::tensor_load(smem(128), w.map(), [0, 0], full);
            } else if rank == 0 {
                bulk::tensor_load_multicast(smem(128), w.map(), [0, 0], full, 3);
            }
        }
        mbarrier::wait_parity(full, 0); //~ WP002 WP001
        shared::ld::<u32>(smem(128 + 4 * tid()));
    }
    meet();
}

/// Rank 1 copies a tile, rank 0 reads it.
#[inline(always)]
pub fn a_barrier_that_ends_at_the_cta(w: &World, bug: bool) {
    let [full] = init_cluster([32]);
    let mine = smem(128 + 16 * tid());
    // SAFETY: the peer lives until `meet`; the scope is the bug.
    unsafe {
        if cluster::cta_rank() == 1 {
            cp_async::copy_16(mine, w.word(4 * tid()).cast()); //~ WP037
            cp_async::commit_group();
            cp_async::wait_group::<0>();
            let leader = cluster::mapa(full, 0);
            if bug {
                mbarrier::arrive_remote(leader);
            } else {
                mbarrier::arrive_remote_release_cluster(leader);
            }
        } else {
            if bug {
                mbarrier::wait_parity(full, 0);
            } else {
                mbarrier::wait_parity_cluster(full, 0);
            }
            shared::ld_cluster::<u32>(cluster::mapa(mine, 1)); //~ WP037
        }
    }
    meet();
}

/// The staging buffer of the epilogue lies where the next tile's operand comes.
#[inline(always)]
pub fn a_multicast_over_a_peers_epilogue(w: &World, bug: bool) {
    let [full, stored] = init_cluster([1, if bug { 32 } else { 64 }]);
    let rank = cluster::cta_rank();
    // SAFETY: both CTAs live until `meet`. The reader that is not awaited is the bug.
    unsafe {
        shared::st(smem(128 + 8 * tid()), [tid(); 2]); //~ WP017 WP034
        fence::proxy_async_shared_cta();
        thread::sync_threads();
        let row: u32 = shared::ld(smem(128 + 8 * (31 - tid()))); //~ WP017 WP034
        global::st(w.out(32 * rank + tid()), row);
        mbarrier::arrive_remote_release_cluster(cluster::mapa(stored, if bug { rank } else { 0 }));
        if tid() == 0 {
            mbarrier::arrive_expect_tx(full, BOX);
            if rank == 0 {
                mbarrier::wait_parity_cluster(stored, 0);
                bulk::tensor_load_multicast(smem(128), w.map(), [0, 0], full, 3); //~ WP017 WP034
            }
        }
        mbarrier::wait_parity(full, 0);
        shared::ld::<u32>(smem(128 + 8 * tid()));
    }
    meet();
}

/// Rank 0 executes an atomic, and the other CTAs read its result for each of their tiles.
#[inline(always)]
pub fn a_read_from_a_peer_that_has_left(w: &World, bug: bool) {
    let rank = cluster::cta_rank();
    // SAFETY: rank 0 lives until the last `meet`, which the bug leaves out.
    unsafe {
        if rank == 0 && tid() == 0 {
            shared::st(smem(0), global::atomic_add_u32(w.out(0), 1));
        }
        meet();
        if rank > 0 {
            for tile in 0..rounds(32, 2) {
                let old: u32 = shared::ld_cluster(cluster::mapa(smem(0), 0)); //~ WP027
                global::st(w.out(32 * rank + tid()), old + tile);
                thread::sync_threads();
            }
        }
    }
    if !bug {
        meet();
    }
}
