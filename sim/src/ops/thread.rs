//! A thread's place, and the CTA's barrier.

use crate::current::peek;

macro_rules! places {
    ($($(#[$doc:meta])* $name:ident = |$c:ident, $t:ident| $v:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name() -> u32 {
            peek(|$c, $t| {
                let $t = &$c.threads[$t as usize];
                let _ = $t;
                $v
            })
        }
    )*};
}

places! {
    /// `%tid.x`
    thread_idx_x = |c, t| t.index % c.block[0];
    /// `%tid.y`
    thread_idx_y = |c, t| t.index / c.block[0] % c.block[1];
    /// `%tid.z`
    thread_idx_z = |c, t| t.index / (c.block[0] * c.block[1]);
    /// `%ctaid.x`
    block_idx_x = |c, t| c.ctas[t.cta].block[0];
    /// `%ctaid.y`
    block_idx_y = |c, t| c.ctas[t.cta].block[1];
    /// `%ctaid.z`
    block_idx_z = |c, t| c.ctas[t.cta].block[2];
    /// `%ntid.x`
    block_dim_x = |c, t| c.block[0];
    /// `%ntid.y`
    block_dim_y = |c, t| c.block[1];
    /// `%ntid.z`
    block_dim_z = |c, t| c.block[2];
    /// `%nctaid.x`
    grid_dim_x = |c, t| c.grid[0];
    /// `%nctaid.y`
    grid_dim_y = |c, t| c.grid[1];
    /// `%nctaid.z`
    grid_dim_z = |c, t| c.grid[2];
}

/// `barrier.cta.sync.aligned 0`: all threads of the CTA
#[track_caller]
pub fn sync_threads() {
    let threads = peek(|c, _| c.block_threads());
    super::barrier::sync(0, threads);
}
