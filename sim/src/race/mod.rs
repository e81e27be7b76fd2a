//! Data races, by happens-before.
//!
//! The model runs the threads of a cluster one at a time, so their accesses come in *some* order, and a
//! missing barrier may do no harm under most seeds. This part does not look at the order of a run. It
//! reports two accesses to a byte, of which one is a write, if neither happens before the other.
//!
//! - **Clocks** ([`clock`]). Each thread has a vector clock. Arrivals release it, and waits acquire what
//!   was released ([`sync`]): by phase on an mbarrier, and at named barriers, the cluster's barrier and
//!   `bar.warp.sync`. So do fences with atomics, `st.release` and `ld.acquire` ([`fences`]). Shuffles,
//!   votes, `elect`, `ldmatrix`, `stmatrix` and `wgmma.fence` order no memory.
//! - **Asynchronous work** has [`agents`] of its own. Only its way of completion makes it known. A TMA
//!   load's write is work of its mbarrier: those know it who have waited for the phase in which its
//!   bytes were counted. A bulk store's read and write are work of the issuer's bulk groups: the issuer
//!   knows them after `wait_group.read` and `wait_group`. A wgmma's reads are work of the warp group: a
//!   thread knows them that executes `wgmma.wait_group`. A `cp.async`'s write is the issuer's, known
//!   after `cp.async.wait_group` or through the barrier of `.noinc`. Such work is
//!   ordered after what its issuer knew at the issue; a wgmma, after what all 128 threads knew.
//! - **Proxies.** A write through the generic proxy (stores, `cp.async`) is visible to the asynchronous
//!   one (wgmma's operands, TMA in either direction) if a `fence.proxy.async` lies after the write and
//!   before the issue. The fence may be in the writer, as CUTLASS has it, or in a thread that acquired
//!   from the writer, which the manual's causality order allows as well. The way back needs no fence.
//!   Neither does a TMA load over bytes that were *read* through the generic proxy: the manual's letter
//!   wants one there, but CUTLASS's pipelines have none. In global memory, an asynchronous write also needs
//!   the fence before asynchronous work of another CTA.
//! - **Tensor maps** ([`maps`]). A change of a map in global memory needs a release and an acquire fence of
//!   the tensormap proxy before a TMA instruction uses the map. A use lasts until the instruction is over.
//! - **Scope.** An edge between CTAs counts if both ends say `.cluster` or wider. What asynchronous work
//!   overwrites is excepted: `mbarrier.arrive.shared::cluster`, of `.cta` scope, releases a slot, for it
//!   says that the reads are over. So a second lane of each clock follows the course of events without
//!   regard for scope. What only that lane knows breaks [`crate::Rule::Scope`].
//! - **Laps** ([`waiters`]). A third lane of that kind follows, besides, the instructions that involve a
//!   whole warp or warp group. By it a wait must have ended before an arrival of the phase after it.
//! - **Named barriers** ([`named`]). By the same lane, a warp knows of the use before when it comes.
//! - **Polls** ([`polls`]). By the same lane, a thread that polls for a phase knows that it is over, or may find it in
//!   progress.
//! - **Ends** ([`ends`]). The end of each wait comes before the barrier's `inval`, and the loads into a
//!   CTA's shared memory and the accesses of its peers before the CTA's exit, by the same lane.
//! - **Shadow** ([`shadow`]). It keeps the last write and the reads since, per 16 bytes, and per byte
//!   where parts of them were accessed.
//! - **Global memory** ([`global`]) has one shadow for all clusters of a launch. A cluster knows of
//!   another what an acquire of a flag told it. A load by TMA reads until the phase that counts its bytes
//!   is over.

pub(crate) mod accesses;
pub(crate) mod agents;
mod cells;
mod clock;
mod ended;
pub(crate) mod ends;
pub(crate) mod explain;
mod fences;
mod foreign;
pub(crate) mod global;
mod judge;
mod map_uses;
mod maps;
pub(crate) mod named;
pub(crate) mod polls;
pub(crate) mod release;
mod shadow;
mod sites;
pub(crate) mod state;
mod sync;
pub(crate) mod tensor;
pub(crate) mod times;
mod waiters;
mod wgmma;
