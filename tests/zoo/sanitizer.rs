//! What compute-sanitizer says of the kernels that are compiled for a GPU as well.

/// What a GPU and the tools say of one kernel with its bug.
#[derive(Clone, Copy)]
pub struct Tried {
    /// On the GPU without a tool.
    pub alone: &'static str,
    pub racecheck: &'static str,
    pub synccheck: &'static str,
    pub memcheck: &'static str,
}

/// The machine, the versions and the day of the values.
pub const SETUP: &str = "NVIDIA H200, driver 580.159.04, compute-sanitizer 2025.3.1, 2026-11-22, `zoo_gpu sanitize \
     --seconds 6`: a kernel that has not ended after six seconds counts as hanging.";

/// One line per kernel, as `zoo_gpu sanitize` prints them.
#[rustfmt::skip]
const TRIED: &[(&str, [&str; 4])] = &[
    ("arrivals_that_overtake_a_sync", ["ends", "silent", "hangs", "silent"]),
    ("a_barrier_that_counts_one_load_warp", ["hangs", "hangs", "hangs", "hangs"]),
    ("sync_threads_in_one_role", ["ends", "silent", "silent", "silent"]),
    ("a_spectator_that_nobody_awaits", ["ends", "silent", "silent", "silent"]),
    ("a_wait_by_lanes_that_issue_nothing", ["ends", "silent", "silent", "silent"]),
    ("a_phase_flipped_for_an_empty_tile", ["ends", "found", "silent", "silent"]),
    ("a_counter_reset_under_a_spinning_peer", ["ends", "silent", "silent", "silent"]),
    ("registers_for_one_producer_group_of_two", ["hangs", "hangs", "hangs", "hangs"]),
    ("a_slot_freed_before_it_is_read", ["ends", "silent", "silent", "silent"]),
    ("a_store_wait_one_group_short", ["ends", "silent", "silent", "silent"]),
    ("a_store_awaited_by_its_issuer_alone", ["ends", "silent", "silent", "silent"]),
    ("an_elected_arrival_for_a_whole_warp", ["ends", "silent", "silent", "silent"]),
    ("a_wait_on_the_first_stages_barrier", ["ends", "silent", "silent", "silent"]),
    ("a_parity_of_the_loop", ["ends", "hangs", "hangs", "silent"]),
    ("a_phase_that_restarts_with_each_tile", ["ends", "silent", "found", "silent"]),
    ("a_wgmma_wait_for_one_group_of_two", ["ends", "silent", "silent", "silent"]),
    ("a_release_without_a_wgmma_wait", ["ends", "silent", "silent", "silent"]),
    ("a_scratch_of_the_previous_round", ["ends", "found", "silent", "silent"]),
    ("a_barrier_left_out_for_48_threads", ["ends", "found", "silent", "silent"]),
    ("a_table_searched_while_it_is_written", ["ends", "found", "silent", "silent"]),
    ("warps_that_sync_at_different_lines", ["ends", "found", "found", "silent"]),
    ("a_barrier_that_not_all_have_seen_made", ["ends", "found", "silent", "silent"]),
    ("a_sum_announced_without_release", ["ends", "silent", "silent", "silent"]),
    ("a_peer_that_skips_the_multicast", ["hangs", "hangs", "hangs", "hangs"]),
    ("a_barrier_that_ends_at_the_cta", ["ends", "silent", "silent", "silent"]),
    ("a_multicast_over_a_peers_epilogue", ["ends", "silent", "silent", "silent"]),
    ("a_read_from_a_peer_that_has_left", ["fails", "found", "silent", "found"]),
    ("a_kernel_without_the_wait", ["ends", "silent", "silent", "silent"]),
    ("a_load_warp_without_the_wait", ["ends", "silent", "silent", "silent"]),
    ("a_scheduler_made_before_the_wait", ["ends", "silent", "silent", "silent"]),
];

/// The values of a kernel.
pub fn tried(name: &str) -> Tried {
    let values = TRIED.iter().find(|(n, _)| *n == name).map(|(_, values)| *values);
    let [alone, racecheck, synccheck, memcheck] = values.unwrap_or(["not tried"; 4]);
    Tried { alone, racecheck, synccheck, memcheck }
}

#[test]
fn every_line_is_of_a_kernel() {
    let kernels = || zoo_shipped::FAMILIES.iter().flat_map(|f| f.entries);
    for (name, _) in TRIED {
        assert!(kernels().any(|e| e.name == *name), "{name} is no kernel of tests/zoo/shipped");
    }
}
