//! A thread's index in its CTA and grid, with the names of `cuda_std`, and the CTA-wide barrier.
//!
//! PTX manual: *Special Registers* `%tid`, `%ntid`, `%ctaid`, `%nctaid`. The functions use LLVM's
//! intrinsics instead of `asm!`, because the intrinsics carry the registers' ranges and tell the optimiser
//! which values differ between the threads of a warp.

macro_rules! place {
    ($($(#[$meta:meta])* $name:ident = $intrinsic:ident;)*) => {
        ops! { thread;
            $($(#[$meta])*
            pub fn $name() -> u32 {
                // SAFETY: reads a special register.
                unsafe { core::arch::nvptx::$intrinsic() as u32 }
            })*
        }
    };
}

place! {
    /// `%tid.x`: the thread's index in its CTA.
    thread_idx_x = _thread_idx_x;
    /// `%tid.y`.
    thread_idx_y = _thread_idx_y;
    /// `%tid.z`.
    thread_idx_z = _thread_idx_z;
    /// `%ctaid.x`: the CTA's index in the grid.
    block_idx_x = _block_idx_x;
    /// `%ctaid.y`.
    block_idx_y = _block_idx_y;
    /// `%ctaid.z`.
    block_idx_z = _block_idx_z;
    /// `%ntid.x`: threads of a CTA.
    block_dim_x = _block_dim_x;
    /// `%ntid.y`.
    block_dim_y = _block_dim_y;
    /// `%ntid.z`.
    block_dim_z = _block_dim_z;
    /// `%nctaid.x`: CTAs of the grid.
    grid_dim_x = _grid_dim_x;
    /// `%nctaid.y`.
    grid_dim_y = _grid_dim_y;
    /// `%nctaid.z`.
    grid_dim_z = _grid_dim_z;
}

ops! { thread;
    /// `barrier.cta.sync.aligned 0;` (`__syncthreads`): waits until all threads of the CTA have arrived,
    /// and orders their memory accesses. PTX 7.8.
    ///
    /// # Safety
    /// All threads of the CTA that have not exited must execute it, each warp convergent.
    pub unsafe fn sync_threads() {
        ptx!("barrier.cta.sync.aligned 0;")
    }
}
