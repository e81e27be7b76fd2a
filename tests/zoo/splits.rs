//! Tiles whose parts several CTAs compute, and which the CTA that comes last finishes.

use crate::world::{World, smem, tid};
use crate::{Bug, Shape, bug, family, threads};
use isa::{fence, global, shared, thread};

family! { "splits.rs":
    a_part_counted_before_its_threads_have_stored
    a_part_counted_without_a_fence
    parts_read_without_a_fence
    a_last_cta_that_one_thread_knows_of
    a_tile_read_one_part_too_early
    parts_of_two_tiles_in_one_slot
}

/// CTAs, each with one part.
const PARTS: u32 = 3;
const SHAPE: Shape = Shape { ctas: PARTS, ..threads(64) };

/// The word of a thread in the slot of a part.
fn word(w: &World, part: u32) -> *mut u32 {
    w.out(64 * (1 + part) + tid())
}

/// Stores the words of this CTA's part.
///
/// # Safety
/// Nobody else accesses them meanwhile.
#[track_caller]
unsafe fn store(w: &World, part: u32) {
    // SAFETY: the caller's contract.
    unsafe { global::st(word(w, part), tid()) }
}

/// Adds the words of all parts.
///
/// # Safety
/// Nobody writes them meanwhile.
#[track_caller]
unsafe fn add(w: &World) {
    // SAFETY: the caller's contract; the words of the result are those of the last CTA.
    unsafe {
        let sum = (0..PARTS).map(|part| global::ld::<u32>(word(w, part))).sum();
        global::st(word(w, PARTS), sum);
    }
}

/// Tells all threads what thread 0 says.
///
/// # Safety
/// All threads call it.
unsafe fn told(last: bool) -> bool {
    // SAFETY: the word is read behind `sync_threads`.
    unsafe {
        if tid() == 0 {
            shared::st(smem(0), u32::from(last));
        }
        thread::sync_threads();
        shared::ld::<u32>(smem(0)) == 1
    }
}

/// Counts this CTA's part, with fences on both sides. Returns whether it is the last one.
///
/// # Safety
/// All accesses to the counter are atomic.
unsafe fn count(w: &World) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        fence::acq_rel_gpu();
        let before = global::atomic_add_u32(w.out(0), 1);
        fence::acq_rel_gpu();
        before == PARTS - 1
    }
}

fn a_part_counted_before_its_threads_have_stored() -> Bug {
    bug(
        "Thread 0 counts the part when it has stored its own words, without waiting for the other threads",
        "split-K; CUDA sample threadFenceReduction",
        SHAPE,
        // SAFETY: all parts are stored before the last CTA reads them, but for the bug.
        |w, bug| unsafe {
            store(w, thread::block_idx_x()); //~ WP035
            if !bug {
                thread::sync_threads();
            }
            if told(tid() == 0 && count(w)) {
                add(w); //~ WP035
            }
        },
    )
}

fn a_part_counted_without_a_fence() -> Bug {
    bug(
        "The part is counted with a relaxed atomic, and no fence makes its words visible before",
        "split-K; CUDA sample threadFenceReduction",
        SHAPE,
        // SAFETY: the fence orders the stores before the count; the bug leaves it out.
        |w, bug| unsafe {
            store(w, thread::block_idx_x()); //~ WP035
            thread::sync_threads();
            let mut last = false;
            if tid() == 0 {
                if !bug {
                    fence::acq_rel_gpu();
                }
                last = global::atomic_add_u32(w.out(0), 1) == PARTS - 1;
                fence::acq_rel_gpu();
            }
            if told(last) {
                add(w); //~ WP035
            }
        },
    )
}

fn parts_read_without_a_fence() -> Bug {
    bug(
        "The CTA that counts last reads the parts of the others without a fence behind its count",
        "split-K; CUDA sample threadFenceReduction",
        SHAPE,
        // SAFETY: the fence orders the reads behind the count; the bug leaves it out.
        |w, bug| unsafe {
            store(w, thread::block_idx_x()); //~ WP035
            thread::sync_threads();
            let mut last = false;
            if tid() == 0 {
                fence::acq_rel_gpu();
                last = global::atomic_add_u32(w.out(0), 1) == PARTS - 1;
                if !bug {
                    fence::acq_rel_gpu();
                }
            }
            if told(last) {
                add(w); //~ WP035
            }
        },
    )
}

fn a_last_cta_that_one_thread_knows_of() -> Bug {
    bug(
        "Thread 0 writes to shared memory whether the CTA is the last one, and the others read it at once",
        "split-K",
        SHAPE,
        // SAFETY: the word is read behind `sync_threads`, but for the bug.
        |w, bug| unsafe {
            store(w, thread::block_idx_x());
            thread::sync_threads();
            if tid() == 0 {
                shared::st(smem(0), u32::from(count(w))); //~ WP034
            }
            if !bug {
                thread::sync_threads();
            }
            let last = shared::ld::<u32>(smem(0)); //~ WP034 WP016
            if last == 1 {
                add(w);
            }
        },
    )
}

fn a_tile_read_one_part_too_early() -> Bug {
    bug(
        "The CTA that counts last but one takes itself for the last",
        "split-K",
        SHAPE,
        // SAFETY: the CTA that counts last reads; one that reads before is the bug.
        |w, bug| unsafe {
            store(w, thread::block_idx_x()); //~ WP035
            thread::sync_threads();
            let mut last = false;
            if tid() == 0 {
                fence::acq_rel_gpu();
                let before = global::atomic_add_u32(w.out(0), 1);
                fence::acq_rel_gpu();
                last = before == if bug { PARTS - 2 } else { PARTS - 1 };
            }
            if told(last) {
                add(w); //~ WP035
            }
        },
    )
}

fn parts_of_two_tiles_in_one_slot() -> Bug {
    bug(
        "The slot is the number of the part in its tile, and two tiles are split at the same time",
        "found in this project's decode kernel by the model",
        Shape { ctas: 4, ..threads(64) },
        // SAFETY: each part has a slot of its own, but for the bug.
        |w, bug| unsafe {
            let (tile, part) = (thread::block_idx_x() / 2, thread::block_idx_x() % 2);
            store(w, if bug { part } else { 2 * tile + part }); //~ WP038
        },
    )
}
