//! Places, warps, barriers, fences.

use isa::cp_async_bulk::TensorMapBytes;
use isa::slice::DeviceSliceMut;
use isa::{
    barrier, cluster, debug, fence, griddepcontrol, kernel, mbarrier, misc, setmaxnreg, sreg,
    thread, warp,
};

use crate::keep;

macro_rules! keep_all {
    ($out:ident: $($value:expr,)*) => {
        let mut i = 0;
        $(
            // SAFETY: assembled, never run.
            #[allow(unused_unsafe)]
            keep(&$out, i, unsafe { $value });
            i += 1;
        )*
        let _ = i;
    };
}

#[kernel(threads = 32)]
fn thread_ops(out: DeviceSliceMut<u64>) {
    // SAFETY: assembled, never run.
    unsafe { thread::sync_threads() };
    keep_all! { out:
        thread::thread_idx_x(), thread::thread_idx_y(), thread::thread_idx_z(),
        thread::block_idx_x(), thread::block_idx_y(), thread::block_idx_z(),
        thread::block_dim_x(), thread::block_dim_y(), thread::block_dim_z(),
        thread::grid_dim_x(), thread::grid_dim_y(), thread::grid_dim_z(),
    }
}

#[kernel(threads = 32)]
fn warp_ops(out: DeviceSliceMut<u64>, v: u32, n: u32) {
    // SAFETY: assembled, never run.
    unsafe { warp::sync_warp(v) };
    keep_all! { out:
        warp::lane_id(), warp::warp_id(), warp::elect_one(),
        warp::shfl_idx(v, n), warp::shfl_xor(v, n), warp::shfl_up(v, n), warp::shfl_down(v, n),
        warp::vote_any(v > 1), warp::vote_all(v > 2), warp::ballot(v > 3),
        warp::redux_max_u32(v),
    }
}

#[kernel(threads = 32)]
fn sreg_ops(out: DeviceSliceMut<u64>) {
    keep_all! { out:
        sreg::smid(), sreg::nsmid(), sreg::clock64(), sreg::globaltimer(), sreg::dynamic_smem_size(),
    }
}

#[kernel(threads = 32, cluster = (2, 1, 1))]
fn cluster_ops(out: DeviceSliceMut<u64>, v: u32) {
    keep_all! { out:
        cluster::cta_rank(), cluster::num_ctas(),
        cluster::ctaid_x(), cluster::ctaid_y(), cluster::ctaid_z(),
        cluster::nctaid_x(), cluster::nctaid_y(), cluster::nctaid_z(),
        cluster::clusterid_x(), cluster::clusterid_y(), cluster::clusterid_z(),
        cluster::nclusterid_x(), cluster::nclusterid_y(), cluster::nclusterid_z(),
        cluster::mapa(v, v / 2),
    }
    // SAFETY: assembled, never run.
    unsafe {
        cluster::arrive_release();
        cluster::wait_acquire();
        cluster::arrive_relaxed();
        cluster::wait_acquire_unaligned();
        cluster::arrive_release_unaligned();
        cluster::wait_acquire();
        cluster::arrive_relaxed_unaligned();
        cluster::wait_acquire();
    }
}

#[kernel(threads = 128)]
fn barrier_ops(out: DeviceSliceMut<u64>, id: u32, n: u32) {
    // SAFETY: assembled, never run.
    unsafe {
        barrier::sync(1, 128);
        barrier::sync(id, n);
        barrier::arrive(id, n);
        barrier::sync_unaligned(id, n);
        barrier::arrive_unaligned(id, n);
    }
    keep_all! { out:
        barrier::red_popc(id, n, n > 1), barrier::red_and(id, n, n > 2), barrier::red_or(id, n, n > 3),
    }
}

#[kernel(threads = 32)]
fn mbarrier_ops(out: DeviceSliceMut<u64>, bar: u32, n: u32, token: u64) {
    // SAFETY: assembled, never run.
    unsafe {
        mbarrier::init(bar, n);
        mbarrier::expect_tx(bar, n);
        mbarrier::complete_tx(bar, n);
        mbarrier::arrive_remote(bar);
        mbarrier::arrive_remote_count(bar, n);
        mbarrier::arrive_remote_release_cluster(bar);
        mbarrier::arrive_expect_tx_remote(bar, n);
        mbarrier::expect_tx_remote(bar, n);
        mbarrier::complete_tx_remote(bar, n);
        mbarrier::wait_parity(bar, n);
        mbarrier::wait_parity_cluster(bar, n);
        mbarrier::cp_async_arrive_noinc(bar);
    }
    keep_all! { out:
        mbarrier::arrive(bar), mbarrier::arrive_count(bar, n), mbarrier::arrive_no_complete(bar, n),
        mbarrier::arrive_drop(bar), mbarrier::arrive_drop_count(bar, n),
        mbarrier::arrive_expect_tx(bar, n),
        mbarrier::test_wait(bar, token), mbarrier::test_wait_parity(bar, n),
        mbarrier::test_wait_parity_cluster(bar, n),
        mbarrier::try_wait(bar, token), mbarrier::try_wait_parity(bar, n),
        mbarrier::try_wait_parity_for(bar, n, 1000),
        mbarrier::pending_count(token),
    }
    // SAFETY: assembled, never run.
    unsafe { mbarrier::inval(bar) };
}

#[kernel(threads = 32)]
fn fence_ops(map: u64) {
    fence::proxy_async_shared_cta();
    fence::proxy_async_global();
    fence::proxy_async();
    fence::mbarrier_init_release_cluster();
    fence::acq_rel_cta();
    fence::acq_rel_cluster();
    fence::acq_rel_gpu();
    fence::acq_rel_sys();
    fence::sc_cta();
    fence::sc_cluster();
    fence::sc_gpu();
    fence::sc_sys();
    fence::proxy_tensormap_release_cta();
    fence::proxy_tensormap_release_cluster();
    fence::proxy_tensormap_release_gpu();
    fence::proxy_tensormap_release_sys();
    let map = map as *const TensorMapBytes;
    // SAFETY: assembled, never run.
    unsafe {
        fence::proxy_tensormap_acquire_cta(map);
        fence::proxy_tensormap_acquire_cluster(map);
        fence::proxy_tensormap_acquire_gpu(map);
        fence::proxy_tensormap_acquire_sys(map);
    }
}

#[kernel(threads = 256)]
fn control_ops(v: u32) {
    griddepcontrol::wait();
    griddepcontrol::launch_dependents();
    debug::label_barrier(v, "full", 0);
    debug::label_named_barrier(1, "turns");
    debug::label_role("producer");
    let at = debug::region("stage", v, 8);
    debug::hold(at, "slot of ring", "main", 0, "released");
    debug::waited_for(at, 0);
    debug::let_go(at);
    for i in 0..v {
        misc::nounroll();
        misc::nanosleep(misc::opaque(i));
    }
    // SAFETY: assembled, never run.
    unsafe {
        if thread::thread_idx_x() < 128 {
            setmaxnreg::dec::<40>();
            setmaxnreg::dec_to(32);
        } else {
            setmaxnreg::inc::<232>();
            setmaxnreg::inc_to(240);
        }
    }
    if v == 7 {
        misc::trap();
    }
}
