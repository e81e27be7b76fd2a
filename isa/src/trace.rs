//! What the warps of a cluster did and when, written down by a kernel that was built to be traced.
//!
//! With the feature `trace`, the instructions that wait, arrive, copy and multiply also write a
//! record: the time, what it was, and which barrier or address. Without it they are what they are:
//! there is no trace of it in the PTX. Records go to a variable of the kernel's module, one list per
//! thread. Where a thread's next record goes is in a register, so that a record waits for no memory:
//! it is a store and a dozen other instructions, and the pattern of who waits on whom stays.
//!
//! `record` is no instruction of the PTX manual, and this module is no part of the instruction
//! layer: the host reads here how the variable is laid out.

/// Name of the variable.
pub const VARIABLE: &str = "WARPIPE_TRACE";
/// CTAs of a cluster that are recorded: the first ones.
pub const CTAS: usize = 4;
/// Warps of a CTA that are recorded: the first ones.
pub const WARPS: usize = 16;
/// Lanes of a warp. Nearly all records are the first one's; elected lanes, and those that arrive at
/// other CTAs, have some too.
pub const LANES: usize = 32;
/// Records of a thread: the first ones. A power of two.
pub const RECORDS: usize = 2048;
/// A thread that has written a multiple of so many records adds an [`Event::Time`]. `%globaltimer` takes far
/// longer to read than `%clock`: this is often enough to tell what the clock's cycles are in
/// nanoseconds. A power of two.
pub const TIMED: usize = 64;
/// A record is four 32-bit numbers: the event, in two, then `%clock` when it began, and when it was
/// over. The event has its [`Event`] in the highest byte, and below it three fields: see the fields'
/// constants. Zeros are no record.
pub const RECORD_BYTES: usize = 16;
/// Before the records: the cluster that is recorded (`u32`), and at [`PAD`] a second number.
pub const HEADER_BYTES: usize = 16;
/// Where the header says how many bytes lie between it and the records (`u32`), fewer than those of
/// [`TIMED`] records: a kernel begins them at an address that tells which of the records are timed.
pub const PAD: usize = 4;
/// The whole variable: lists in the order of CTAs, warps, lanes.
pub const BYTES: usize = HEADER_BYTES + RECORD_BYTES * (TIMED + RECORDS * LANES * WARPS * CTAS);

/// Bits of the event's lower two fields; the third has 16. An address is an offset in the CTA's
/// dynamic shared memory.
pub const FIELD: u32 = 20;

const _: () = assert!(227 * 1024 < 1 << FIELD, "a field holds an offset in shared memory");
const _: () = assert!(8 + 16 + 2 * FIELD == 64, "an event and its fields fill a number");
const _: () = assert!(HEADER_BYTES.is_multiple_of(16), "records are aligned");
const _: () = assert!(RECORDS.is_multiple_of(TIMED) && RECORDS.is_power_of_two());

/// What a record is about, and what its fields are: first, second (of [`FIELD`] bits), third.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Event {
    /// A wait on an mbarrier: its address, the parity.
    Wait = 1,
    /// An arrival at an mbarrier: its address, 0, and the CTA's rank plus one if it may be another's.
    Arrive,
    /// A copy to shared memory: the mbarrier, the destination, the mask of CTAs or 0 for the own.
    Load,
    /// A copy from shared memory: the source.
    Store,
    /// A wait for bulk groups: how many may be left, and whether it is for their reads.
    StoreWait,
    /// A wait at a named barrier: its number.
    Sync,
    /// wgmmas will be issued.
    Mma,
    /// A wait for groups of wgmmas: how many may be left.
    MmaWait,
    /// A wait at the cluster's barrier.
    ClusterWait,
    /// What time it is: in place of fields `%globaltimer`, its lower 56 bits; in place of the two clocks
    /// `%clock64`.
    Time,
}

impl Event {
    /// All, by their numbers from 1.
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

    // SAFETY: only this module touches it, and each thread only its own part.
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

    /// Declares the two registers that stay with a thread as long as the kernel runs, and which no
    /// value of Rust could be without being handed to every function: where its next record goes,
    /// and a mask. The mask is `%lanemask_lt`, so that a lane whose active lanes it has none of is the
    /// first; or it is all ones, in a thread that is not recorded. A name that is declared outside braces
    /// holds for the rest of the entry, into which all is inlined.
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

    /// Writes down what time it is when a thread is done.
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

    /// The time at which something begins: the lower half of `%clock64`.
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

    /// A record by the lanes for which `$who` sets the predicate `p`, of what began at `$since`.
    ///
    /// Predicates, not branches: the warp stays together. The one branch is for the time: under a
    /// predicate ptxas has every record read the slow timer, and selects among what it has read.
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

    /// Writes a record of something that is about to happen, by the first lane of those that are
    /// here.
    #[inline(always)]
    pub fn record(event: Event, first: u32, second: u32, third: u32) {
        put!(first!(), "t", word = in(reg64) word(event, first, second, third));
    }

    /// Writes a record of something that began at `since` and is over, by the first lane likewise.
    #[inline(always)]
    pub fn record_since(since: u32, event: Event, first: u32, second: u32, third: u32) {
        put!(
            first!(), "{since}",
            word = in(reg64) word(event, first, second, third),
            since = in(reg32) since
        );
    }

    /// Writes a record of an arrival at another CTA's barrier, by each lane that is here: they
    /// arrive at different CTAs.
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

/// What an entry begins and ends with; nothing in a kernel that is not built to be traced.
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
