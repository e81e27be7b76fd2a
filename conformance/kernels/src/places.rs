//! Special registers: a thread's indices in its CTA, cluster and grid.

use isa::slice::DeviceSliceMut;
use isa::{cluster, kernel, shared, sreg, thread, warp};

/// Words that each CTA writes.
pub const WORDS: u32 = 30;
/// Bytes of shared memory of the kernels. The size is not a round number, so that rounding would show.
pub const SMEM: u32 = 1040;

/// The words of one CTA, by its last thread.
#[inline(always)]
fn write(out: &DeviceSliceMut<'_, u32>) {
    // SAFETY: all lanes are here.
    let warp = unsafe { warp::warp_id() };
    if thread::thread_idx_x() != thread::block_dim_x() - 1 {
        return;
    }
    let (cx, cy) = (thread::block_idx_x(), thread::block_idx_y());
    let (gx, gy) = (thread::grid_dim_x(), thread::grid_dim_y());
    let cta = cx + gx * (cy + gy * thread::block_idx_z());
    let (clock, timer) = (sreg::clock64(), sreg::globaltimer());
    let base = shared::dynamic_base();
    let words: [u32; WORDS as usize] = [
        thread::thread_idx_x(),
        thread::thread_idx_y(),
        thread::thread_idx_z(),
        cx,
        cy,
        thread::block_idx_z(),
        thread::block_dim_x(),
        thread::block_dim_y(),
        thread::block_dim_z(),
        gx,
        gy,
        thread::grid_dim_z(),
        cluster::cta_rank(),
        cluster::num_ctas(),
        cluster::ctaid_x(),
        cluster::ctaid_y(),
        cluster::ctaid_z(),
        cluster::nctaid_x(),
        cluster::nctaid_y(),
        cluster::nctaid_z(),
        cluster::clusterid_x(),
        cluster::clusterid_y(),
        cluster::clusterid_z(),
        cluster::nclusterid_x(),
        cluster::nclusterid_y(),
        cluster::nclusterid_z(),
        warp::lane_id() + 100 * warp,
        sreg::dynamic_smem_size(),
        u32::from(sreg::smid() < sreg::nsmid()),
        u32::from(base.is_multiple_of(1024))
            + 2 * u32::from(sreg::clock64() > clock)
            + 4 * u32::from(sreg::globaltimer() >= timer),
    ];
    let at = (cta * WORDS) as usize;
    for (i, word) in words.into_iter().enumerate() {
        out.set(at + i, word);
    }
}

/// A grid without clusters.
#[kernel(threads = 96, smem = SMEM)]
pub fn places_alone(out: DeviceSliceMut<'_, u32>) {
    write(&out);
}

/// Clusters of 2 x 1 x 1.
#[kernel(threads = 64, cluster = (2, 1, 1), smem = SMEM)]
pub fn places_2x1x1(out: DeviceSliceMut<'_, u32>) {
    write(&out);
}

/// Clusters of 2 x 2 x 1.
#[kernel(threads = 32, cluster = (2, 2, 1), smem = SMEM)]
pub fn places_2x2x1(out: DeviceSliceMut<'_, u32>) {
    write(&out);
}

/// Clusters of 1 x 2 x 4.
#[kernel(threads = 32, cluster = (1, 2, 4), smem = SMEM)]
pub fn places_1x2x4(out: DeviceSliceMut<'_, u32>) {
    write(&out);
}
