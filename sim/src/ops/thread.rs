//! A thread's place, and the CTA's barrier.

use crate::drive::current::peek;

macro_rules! places {
    ($($(#[$doc:meta])* $name:ident = |$hw:ident, $t:ident| $v:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name() -> u32 {
            peek(|e, t| {
                let ($hw, $t) = (&e.hw, e.hw.thread(t));
                let _ = ($hw, $t);
                $v
            })
        }
    )*};
}

places! {
    /// `%tid.x`
    thread_idx_x = |hw, t| t.index % hw.shape.block[0];
    /// `%tid.y`
    thread_idx_y = |hw, t| t.index / hw.shape.block[0] % hw.shape.block[1];
    /// `%tid.z`
    thread_idx_z = |hw, t| t.index / (hw.shape.block[0] * hw.shape.block[1]);
    /// `%ctaid.x`
    block_idx_x = |hw, t| hw.ctas.get(t.cta).block[0];
    /// `%ctaid.y`
    block_idx_y = |hw, t| hw.ctas.get(t.cta).block[1];
    /// `%ctaid.z`
    block_idx_z = |hw, t| hw.ctas.get(t.cta).block[2];
    /// `%ntid.x`
    block_dim_x = |hw, t| hw.shape.block[0];
    /// `%ntid.y`
    block_dim_y = |hw, t| hw.shape.block[1];
    /// `%ntid.z`
    block_dim_z = |hw, t| hw.shape.block[2];
    /// `%nctaid.x`
    grid_dim_x = |hw, t| hw.shape.grid[0];
    /// `%nctaid.y`
    grid_dim_y = |hw, t| hw.shape.grid[1];
    /// `%nctaid.z`
    grid_dim_z = |hw, t| hw.shape.grid[2];
}

/// `barrier.cta.sync.aligned 0`: all threads of the CTA
#[track_caller]
pub fn sync_threads() {
    let threads = peek(|e, _| e.hw.shape.block_threads());
    super::barrier::sync(0, threads);
}
