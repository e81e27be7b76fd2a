//! Data races, by happens-before.
//!
//! The model runs the threads of a cluster one at a time, so that what they read and write comes out
//! in *some* order, and a missing barrier may go unnoticed for as long as the seeds happen to be
//! kind. This part does not look at the order in which things came out but at whether anything
//! makes them come out so: two accesses to a byte, one of them a write, of which neither happens
//! before the other, are reported whichever came first.
//!
//! - **Clocks** ([`clock`]). Each thread has a vector clock. Arrivals release it, waits acquire what
//!   was released ([`sync`]): mbarriers by phase, named barriers, the cluster's barrier, `bar.warp.sync`,
//!   fences with atomics, `st.release` and `ld.acquire` ([`fences`]). Shuffles, votes, `elect`,
//!   `ldmatrix`, `stmatrix` and `wgmma.fence` order no memory.
//! - **Asynchronous work** has agents of its own, which only their way of completion makes known: a
//!   TMA load's write is work of its mbarrier, known to those who have waited for the phase in which
//!   its bytes were counted; a bulk store's read and write are work of the issuer's bulk groups,
//!   known to the issuer after `wait_group.read` and `wait_group`; a wgmma's reads are work of the
//!   warp group, known to a thread that executes `wgmma.wait_group`; a `cp.async`'s write is the
//!   issuer's, known after `cp.async.wait_group` or through the barrier of `.noinc`. What such work
//!   may follow is what its issuer knew at the issue; of a wgmma, what all 128 threads knew.
//! - **Proxies.** A write through the generic proxy (stores, `cp.async`) is visible to the
//!   asynchronous one (wgmma's operands, TMA in either direction) if a `fence.proxy.async` lies on
//!   the way, after the write and before the issue: in the writer, as CUTLASS has it, or in a thread
//!   that acquired from the writer, which the manual's causality order allows as well. The way back
//!   needs no fence, and neither does a TMA load over bytes that were *read* through the generic
//!   proxy: the manual's letter wants one, CUTLASS's pipelines have none.
//! - **Scope.** An edge between CTAs counts if both ends say `.cluster` (or wider). What asynchronous
//!   work overwrites is excepted: the release of a slot by `mbarrier.arrive.shared::cluster`, of
//!   `.cta` scope, says that the reads are over, and that is enough. So a second lane of each clock
//!   follows the course of events without regard for scope; what only it knows is [`crate::Rule::Scope`].
//! - **Shadow** ([`shadow`]). Last write and the reads since, per 16 bytes, and per byte where it
//!   matters.
//! - **Global memory** ([`global`]). The same, shared by all clusters of a launch. Clusters know of
//!   each other what an acquire of a flag tells them. A load by TMA reads until the phase that counts
//!   its bytes is over.

pub(crate) mod accesses;
pub(crate) mod agents;
mod clock;
pub(crate) mod explain;
mod fences;
mod foreign;
pub(crate) mod global;
mod judge;
pub(crate) mod release;
mod shadow;
mod sites;
pub(crate) mod state;
mod sync;
pub(crate) mod times;
mod wgmma;
