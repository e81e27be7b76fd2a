//! What the warps of a cluster did and when, written down by a kernel that was built to be traced.
//!
//! With the feature `trace`, the instructions that wait, arrive, copy and multiply also write a
//! record: the time, what it was, and which barrier or address. Without it they are what they are:
//! there is no trace of it in the PTX. Records go to a variable of the kernel's module, one list per
//! warp; nothing but the warp's own cursor is read, so a record costs some tens of cycles, and the
//! pattern of who waits on whom stays.
//!
//! `record` is no instruction of the PTX manual, and this module is no part of the instruction
//! layer: the host reads here how the variable is laid out.

/// Name of the variable.
pub const VARIABLE: &str = "WARPIPE_TRACE";
/// CTAs of a cluster that are recorded: the first ones.
pub const CTAS: usize = 4;
/// Warps of a CTA that are recorded: the first ones.
pub const WARPS: usize = 16;
/// Records of a warp: the first ones.
pub const RECORDS: usize = 4096;
/// One record in so many has `%globaltimer`, which takes far longer to read than `%clock64`: enough to
/// tell what the clocks' cycles are in nanoseconds. A power of two.
pub const TIMED: usize = 16;
/// A record is four 64-bit numbers: `%globaltimer` or 0, `%clock64`, the event, and one that is unused.
/// The event has its [`Event`] in the highest byte, and below it three fields: see the fields'
/// constants.
pub const RECORD_BYTES: usize = 32;
/// Before the records: the cluster that is recorded (`u32`), twelve unused bytes, and for each CTA
/// and warp how many records it wanted to write (`u32`).
pub const HEADER_BYTES: usize = 16 + 4 * CTAS * WARPS;
/// The whole variable.
pub const BYTES: usize = HEADER_BYTES + RECORD_BYTES * RECORDS * CTAS * WARPS;

/// Bits of the event's lower two fields; the third has 16. An address is an offset in the CTA's
/// dynamic shared memory.
pub const FIELD: u32 = 20;

const _: () = assert!(227 * 1024 < 1 << FIELD, "a field holds an offset in shared memory");
const _: () = assert!(8 + 16 + 2 * FIELD == 64, "an event and its fields fill a number");
const _: () = assert!(HEADER_BYTES.is_multiple_of(16), "records are aligned");

/// What a record is about, and what its fields are: first, second (of [`FIELD`] bits), third.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Event {
    /// A wait on an mbarrier begins: its address, the parity.
    Wait = 1,
    /// It is over.
    WaitEnd,
    /// An arrival at an mbarrier: its address, 0, and the CTA's rank plus one if it may be another's.
    Arrive,
    /// A copy to shared memory: the mbarrier, the destination, the mask of CTAs or 0 for the own.
    Load,
    /// A copy from shared memory: the source.
    Store,
    /// A wait for bulk groups begins: how many may be left, and whether it is for their reads.
    StoreWait,
    /// It is over.
    StoreWaitEnd,
    /// A wait at a named barrier begins: its number.
    Sync,
    /// It is over.
    SyncEnd,
    /// wgmmas will be issued.
    Mma,
    /// A wait for groups of wgmmas begins: how many may be left.
    MmaWait,
    /// It is over.
    MmaWaitEnd,
    /// A wait at the cluster's barrier begins.
    ClusterWait,
    /// It is over.
    ClusterWaitEnd,
}

impl Event {
    /// All, by their numbers from 1.
    pub const ALL: [Self; 14] = [
        Self::Wait,
        Self::WaitEnd,
        Self::Arrive,
        Self::Load,
        Self::Store,
        Self::StoreWait,
        Self::StoreWaitEnd,
        Self::Sync,
        Self::SyncEnd,
        Self::Mma,
        Self::MmaWait,
        Self::MmaWaitEnd,
        Self::ClusterWait,
        Self::ClusterWaitEnd,
    ];
}

#[cfg(all(feature = "trace", target_arch = "nvptx64"))]
mod device {
    use super::{BYTES, CTAS, Event, FIELD, HEADER_BYTES, RECORD_BYTES, RECORDS, TIMED, WARPS};
    use crate::{cluster, shared};
    use core::cell::UnsafeCell;

    #[repr(C, align(16))]
    pub struct Log(UnsafeCell<[u8; BYTES]>);

    // SAFETY: only `record` touches it, and each warp only its own part.
    unsafe impl Sync for Log {}

    #[used]
    #[unsafe(no_mangle)]
    pub static WARPIPE_TRACE: Log = Log(UnsafeCell::new([0; BYTES]));

    /// An own address as a field.
    #[inline(always)]
    pub fn own(addr: u32) -> u32 {
        addr - shared::dynamic_base()
    }

    /// A cluster address as a field, and the rank of its CTA plus one.
    #[inline(always)]
    pub fn remote(addr: u32) -> (u32, u32) {
        let rank: u32;
        ptx_pure!(
            "getctarank.shared::cluster.u32 {}, {};",
            out(reg32) rank, in(reg32) addr
        );
        (addr - cluster::mapa(shared::dynamic_base(), rank), rank + 1)
    }

    /// Writes a record, by the first lane of those that are here.
    #[inline(always)]
    pub fn record(event: Event, first: u32, second: u32, third: u32) {
        let word = (event as u64) << 56
            | u64::from(third & 0xffff) << (2 * FIELD)
            | u64::from(second & ((1 << FIELD) - 1)) << FIELD
            | u64::from(first & ((1 << FIELD) - 1));
        // Predicates, not branches: the warp stays together. And no operands but the event, for what
        // is kept in registers from one record to the next, a warp with few of them can't spare.
        ptx!(
            "{{ .reg .pred p, q; .reg .b32 i, k, m; .reg .b64 a, b; \
             activemask.b32 m; \
             mov.u32 k, %lanemask_lt; \
             and.b32 k, k, m; \
             setp.eq.u32 p, k, 0; \
             mov.u32 m, %cluster_ctarank; \
             setp.lt.and.u32 p, m, {ctas}, p; \
             mov.u32 k, %tid.x; \
             shr.u32 k, k, 5; \
             setp.lt.and.u32 p, k, {warps}, p; \
             mad.lo.u32 m, m, {warps}, k; \
             ld.global.u32 i, [WARPIPE_TRACE]; \
             mov.u32 k, %clusterid.x; \
             setp.eq.and.u32 p, i, k, p; \
             mov.u64 a, WARPIPE_TRACE; \
             mad.wide.u32 b, m, 4, a; \
             mov.u32 i, 0; \
             @p ld.global.u32 i, [b + 16]; \
             add.u32 k, i, 1; \
             @p st.global.u32 [b + 16], k; \
             setp.lt.and.u32 p, i, {most}, p; \
             mad.lo.u32 i, m, {most}, i; \
             mad.wide.u32 a, i, {bytes}, a; \
             and.b32 k, i, {timed}; \
             setp.eq.and.u32 q, k, 0, p; \
             @q mov.u64 b, %globaltimer; \
             @q st.global.u64 [a + {header}], b; \
             mov.u64 b, %clock64; \
             @p st.global.u64 [a + {header} + 8], b; \
             @p st.global.u64 [a + {header} + 16], {word}; }}",
            word = in(reg64) word,
            ctas = const CTAS,
            warps = const WARPS,
            most = const RECORDS,
            bytes = const RECORD_BYTES,
            header = const HEADER_BYTES,
            timed = const TIMED - 1
        )
    }
}

#[cfg(all(feature = "trace", target_arch = "nvptx64"))]
pub(crate) use device::{own, record, remote};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_in_the_list() {
        for (i, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, i + 1);
        }
    }
}
