//! Records of what the warps of a cluster did, for kernels built with the feature `trace`.
//!
//! With the feature, the instructions that wait, arrive, copy and multiply also write a record: the time,
//! the event, and the barrier or address. Without it, the PTX has no trace of the records. The records go
//! to a variable of the kernel's module, with one list for each thread. A register holds the address of
//! the thread's next record, so that a record does not wait for memory. It costs a store and a dozen other
//! instructions, and the pattern of waits stays the same.
//!
//! This module is not a part of the instruction layer. The host uses its constants to read the variable.

/// Name of the variable.
pub const VARIABLE: &str = "WARPIPE_TRACE";
/// Number of CTAs of a cluster that are recorded, from rank 0.
pub const CTAS: usize = 4;
/// Number of warps of a CTA that are recorded, from warp 0.
pub const WARPS: usize = 16;
/// Lanes of a warp. Nearly all records belong to the first lane. Elected lanes, and lanes that arrive at
/// other CTAs, have some too.
pub const LANES: usize = 32;
/// Most records of a thread. A power of two.
pub const RECORDS: usize = 2048;
/// After each multiple of this many records, a thread adds an [`Event::Time`]. Reading `%globaltimer` takes
/// far longer than reading `%clock`; this interval suffices to convert cycles to nanoseconds. A power of
/// two.
pub const TIMED: usize = 64;
/// Bytes of a record: two 32-bit words with the event, then `%clock` at its begin and at its end. The
/// event's highest byte is its [`Event`]; below it are three fields ([`FIELD`]). A record of zeros marks
/// the end of a list.
pub const RECORD_BYTES: usize = 16;
/// Bytes of the header before the records: the index of the recorded cluster (`u32`) and the number at
/// [`PAD`].
pub const HEADER_BYTES: usize = 16;
/// Offset in the header of the number of bytes (`u32`) between the header and the records. It is less than
/// [`TIMED`] records; the kernel chooses it so that a record's address tells whether a time follows.
pub const PAD: usize = 4;
/// Bytes of the whole variable. The lists are in the order of CTAs, warps, lanes.
pub const BYTES: usize = HEADER_BYTES + RECORD_BYTES * (TIMED + RECORDS * LANES * WARPS * CTAS);

/// Bits of each of the event's lower two fields; the third one has 16. An address is an offset in the
/// CTA's dynamic shared memory.
pub const FIELD: u32 = 20;

const _: () = assert!(227 * 1024 < 1 << FIELD, "a field holds an offset in shared memory");
const _: () = assert!(8 + 16 + 2 * FIELD == 64, "an event and its fields fill a number");
const _: () = assert!(HEADER_BYTES.is_multiple_of(16), "records are aligned");
const _: () = assert!(RECORDS.is_multiple_of(TIMED) && RECORDS.is_power_of_two());

/// The event of a record. Each variant lists its fields: first and second (of [`FIELD`] bits), third.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Event {
    /// A wait on an mbarrier: its address, the parity.
    Wait = 1,
    /// An arrival at an mbarrier: its address, 0, and for a remote arrival the CTA's rank plus one.
    Arrive,
    /// A copy to shared memory: the mbarrier, the destination, and the mask of CTAs (0 for this CTA).
    Load,
    /// A copy from shared memory: the source.
    Store,
    /// A wait for bulk groups: how many may be pending, and 1 if it waits only for their reads.
    StoreWait,
    /// A wait at a named barrier: its number.
    Sync,
    /// `wgmma.fence` before the issue of wgmmas.
    Mma,
    /// A wait for groups of wgmmas: how many may be pending.
    MmaWait,
    /// A wait at the cluster's barrier.
    ClusterWait,
    /// The time. Instead of fields, it has the lower 56 bits of `%globaltimer`; instead of the two clocks,
    /// `%clock64`.
    Time,
}

impl Event {
    /// All events, in the order of their numbers from 1.
    pub const ALL: [Self; 10] = [
        Self::Wait,
        Self::Arrive,
        Self::Load,
        Self::Store,
        Self::StoreWait,
        Self::Sync,
        Self::Mma,
        Self::MmaWait,
        Self::ClusterWait,
        Self::Time,
    ];
}

#[cfg(all(feature = "trace", target_arch = "nvptx64"))]
#[expect(named_asm_labels, reason = "braces bound a PTX label; PTX has no numbered ones")]
mod device {
    use super::{
        BYTES, CTAS, Event, FIELD, HEADER_BYTES, LANES, PAD, RECORD_BYTES, RECORDS, TIMED, WARPS,
    };
    use crate::{cluster, shared};
    use core::cell::UnsafeCell;

    #[repr(C, align(16))]
    pub struct Log(UnsafeCell<[u8; BYTES]>);

    // SAFETY: only this module accesses it, and each thread only its own part.
    unsafe impl Sync for Log {}

    #[used]
    #[unsafe(no_mangle)]
    pub static WARPIPE_TRACE: Log = Log(UnsafeCell::new([0; BYTES]));

    /// Instructions that write an [`Event::Time`] where the predicate `p` holds.
    macro_rules! time {
        () => {
            "mov.u64 n, %globaltimer; \
             and.b64 n, n, 0xffffffffffffff; \
             or.b64 n, n, {time}; \
             mov.u64 c, %clock64; \
             @p st.global.v2.b64 [warpipe_to], {{n, c}}; \
             @p add.u64 warpipe_to, warpipe_to, {bytes};"
        };
    }

    const TIME: u64 = (Event::Time as u64) << 56;
    const LIST: usize = RECORD_BYTES * RECORDS;
    const BLOCK: usize = RECORD_BYTES * TIMED;

    /// Declares two registers that a thread keeps while the kernel runs: the address of its next record,
    /// and a mask. (A Rust value would have to be passed to every function.) The mask is `%lanemask_lt`, so
    /// that a lane is the first active one if no active lane is in its mask. In a thread that is not
    /// recorded, the mask is all ones. A PTX name that is declared outside of braces is visible in the rest
    /// of the entry, into which everything is inlined.
    #[inline(always)]
    pub fn begin() {
        ptx!(".reg .b64 warpipe_to; .reg .b32 warpipe_mask;");
        ptx!(
            concat!(
                "{{ .reg .pred p; .reg .b32 i, k, m, r; .reg .b64 n, c; \
                 mov.u32 r, %cluster_ctarank; \
                 setp.lt.u32 p, r, {ctas}; \
                 mov.u32 m, %tid.x; \
                 setp.lt.and.u32 p, m, {threads}, p; \
                 mad.lo.u32 r, r, {threads}, m; \
                 ld.global.u32 i, [WARPIPE_TRACE]; \
                 mov.u32 k, %clusterid.x; \
                 setp.eq.and.u32 p, i, k, p; \
                 mov.u64 warpipe_to, WARPIPE_TRACE + {header}; \
                 cvt.u32.u64 k, warpipe_to; \
                 neg.s32 k, k; \
                 and.b32 k, k, {block}; \
                 @p st.global.u32 [WARPIPE_TRACE + {pad}], k; \
                 mad.lo.u32 k, r, {list}, k; \
                 cvt.u64.u32 n, k; \
                 add.u64 warpipe_to, warpipe_to, n; \
                 mov.u32 k, %lanemask_lt; \
                 selp.b32 warpipe_mask, k, 0xffffffff, p; \
                 activemask.b32 m; \
                 and.b32 m, m, warpipe_mask; \
                 setp.eq.u32 p, m, 0; ",
                time!(),
                " }}"
            ),
            ctas = const CTAS,
            threads = const WARPS * LANES,
            list = const LIST,
            header = const HEADER_BYTES,
            pad = const PAD,
            block = const BLOCK - 1,
            time = const TIME,
            bytes = const RECORD_BYTES
        );
    }

    /// Records the time at the end of a thread.
    #[inline(always)]
    pub fn end() {
        ptx!(
            concat!(
                "{{ .reg .pred p; .reg .b32 m; .reg .b64 n, c; \
                 activemask.b32 m; \
                 and.b32 m, m, warpipe_mask; \
                 setp.eq.u32 p, m, 0; ",
                time!(),
                " }}"
            ),
            time = const TIME,
            bytes = const RECORD_BYTES
        );
    }

    /// An address of this CTA as a field.
    #[inline(always)]
    pub fn own(addr: u32) -> u32 {
        addr - shared::dynamic_base()
    }

    /// A shared::cluster address as a field, and the rank of its CTA plus one.
    #[inline(always)]
    pub fn remote(addr: u32) -> (u32, u32) {
        let rank: u32;
        ptx_pure!(
            "getctarank.shared::cluster.u32 {}, {};",
            out(reg32) rank, in(reg32) addr
        );
        (addr - cluster::mapa(shared::dynamic_base(), rank), rank + 1)
    }

    /// The begin of an event: the lower half of `%clock64`.
    #[inline(always)]
    pub fn now() -> u32 {
        let clock: u32;
        ptx!("mov.u32 {}, %clock;", out(reg32) clock);
        clock
    }

    /// An event and its fields.
    #[inline(always)]
    fn word(event: Event, first: u32, second: u32, third: u32) -> u64 {
        (event as u64) << 56
            | u64::from(third & 0xffff) << (2 * FIELD)
            | u64::from(second & ((1 << FIELD) - 1)) << FIELD
            | u64::from(first & ((1 << FIELD) - 1))
    }

    /// Writes a record of an event that began at `$since`, in the lanes where `$who` sets the predicate `p`.
    ///
    /// It uses predicates instead of branches, so that the warp stays converged. The only branch is for the
    /// time: with a predicate, ptxas would read the slow timer for every record.
    macro_rules! put {
        ($who:expr, $since:literal, $($operands:tt)*) => {
            ptx!(
                concat!(
                    "{{ .reg .pred p; .reg .b32 l, h, m, t; .reg .b64 n, c; \
                     mov.u32 t, %clock; \
                     mov.b64 {{l, h}}, {word}; ",
                    $who,
                    " @p st.global.v4.b32 [warpipe_to], {{l, h, ",
                    $since,
                    ", t}}; \
                     @p add.u64 warpipe_to, warpipe_to, {bytes}; \
                     cvt.u32.u64 m, warpipe_to; \
                     and.b32 m, m, {block}; \
                     setp.eq.and.u32 p, m, 0, p; \
                     @!p bra untimed; \
                     mov.u64 n, WARPIPE_TRACE + {header} + {block}; \
                     cvt.u32.u64 l, n; \
                     cvt.u32.u64 m, warpipe_to; \
                     sub.u32 m, m, l; \
                     add.u32 m, m, {block}; \
                     and.b32 m, m, {list}; \
                     setp.gt.u32 p, m, {block}; \
                     @!p mov.u32 warpipe_mask, 0xffffffff; ",
                    time!(),
                    " untimed: }}"
                ),
                $($operands)*,
                header = const HEADER_BYTES,
                bytes = const RECORD_BYTES,
                block = const BLOCK - 1,
                list = const LIST - 1,
                time = const TIME
            )
        };
    }
    macro_rules! first {
        () => {
            "activemask.b32 m; and.b32 m, m, warpipe_mask; setp.eq.u32 p, m, 0;"
        };
    }

    /// Records an event that is about to happen, in the first active lane.
    #[inline(always)]
    pub fn record(event: Event, first: u32, second: u32, third: u32) {
        put!(first!(), "t", word = in(reg64) word(event, first, second, third));
    }

    /// Records an event that began at `since` and has ended, in the first active lane.
    #[inline(always)]
    pub fn record_since(since: u32, event: Event, first: u32, second: u32, third: u32) {
        put!(
            first!(), "{since}",
            word = in(reg64) word(event, first, second, third),
            since = in(reg32) since
        );
    }

    /// Records an arrival at another CTA's barrier, in each active lane: the lanes arrive at different
    /// CTAs.
    #[inline(always)]
    pub fn record_each(event: Event, first: u32, second: u32, third: u32) {
        put!(
            "setp.ne.u32 p, warpipe_mask, 0xffffffff;", "t",
            word = in(reg64) word(event, first, second, third)
        );
    }
}

#[cfg(all(feature = "trace", target_arch = "nvptx64"))]
#[doc(hidden)]
pub use device::{begin, end};
#[cfg(all(feature = "trace", target_arch = "nvptx64"))]
pub(crate) use device::{now, own, record, record_each, record_since, remote};

/// Begin and end of an entry without the feature `trace`: they do nothing.
#[cfg(all(not(feature = "trace"), target_arch = "nvptx64"))]
#[doc(hidden)]
mod nothing {
    #[inline(always)]
    pub fn begin() {}
    #[inline(always)]
    pub fn end() {}
}
#[cfg(all(not(feature = "trace"), target_arch = "nvptx64"))]
#[doc(hidden)]
pub use nothing::{begin, end};

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
