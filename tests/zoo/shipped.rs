//! Bugs that shipped elsewhere: their kernels, which are shared with a GPU, as entries of the zoo.

use crate::{Bug, Family, Shape, World, bug};
use zoo_shipped::Entry;

/// Makes a family of a module of `zoo_shipped`, with a test for each of its kernels.
macro_rules! family {
    ($file:literal, $module:ident, $family:ident: $($entry:ident)*) => {
        pub(crate) const $family: Family = Family {
            name: $file,
            source: zoo_shipped::$module::FAMILY.source,
            bugs: &[$((stringify!($entry), || {
                let body = |w: &World, bug: bool| zoo_shipped::$module::$entry(&w.shared(), bug);
                entry(zoo_shipped::$module::FAMILY.entries, stringify!($entry), body)
            })),*],
        };
        mod $module {
            $(#[test]
            fn $entry() {
                crate::check::entry(&super::$family, stringify!($entry));
            })*

            #[test]
            fn the_family_is_complete() {
                let have: Vec<_> = zoo_shipped::$module::FAMILY.entries.iter().map(|e| e.name).collect();
                assert_eq!(have, [$(stringify!($entry)),*]);
            }
        }
    };
}

family! { "shipped/src/hangs.rs", hangs, HANGS:
    arrivals_that_overtake_a_sync
    a_barrier_that_counts_one_load_warp
    sync_threads_in_one_role
    a_spectator_that_nobody_awaits
    a_wait_by_lanes_that_issue_nothing
    a_phase_flipped_for_an_empty_tile
    a_counter_reset_under_a_spinning_peer
    registers_for_one_producer_group_of_two
}

family! { "shipped/src/rings.rs", rings, RINGS:
    a_slot_freed_before_it_is_read
    a_store_wait_one_group_short
    a_store_awaited_by_its_issuer_alone
    an_elected_arrival_for_a_whole_warp
    a_wait_on_the_first_stages_barrier
    a_parity_of_the_loop
    a_phase_that_restarts_with_each_tile
    a_wgmma_wait_for_one_group_of_two
    a_release_without_a_wgmma_wait
}

family! { "shipped/src/races.rs", races, RACES:
    a_scratch_of_the_previous_round
    a_barrier_left_out_for_48_threads
    a_table_searched_while_it_is_written
    warps_that_sync_at_different_lines
    a_barrier_that_not_all_have_seen_made
    a_sum_announced_without_release
}

family! { "shipped/src/clusters.rs", clusters, CLUSTERS:
    a_peer_that_skips_the_multicast
    a_barrier_that_ends_at_the_cta
    a_multicast_over_a_peers_epilogue
    a_read_from_a_peer_that_has_left
}

family! { "shipped/src/dependents.rs", dependents, DEPENDENTS:
    a_kernel_without_the_wait
    a_load_warp_without_the_wait
    a_scheduler_made_before_the_wait
}

/// An entry of the zoo, launched as the kernel is on a GPU.
fn entry(entries: &[Entry], name: &str, kernel: fn(&World, bool)) -> Bug {
    let entry = entries.iter().find(|e| e.name == name).expect("the family is complete");
    let meta = entry.desc.meta;
    let shape = Shape {
        threads: meta.threads,
        ctas: entry.ctas,
        cluster: meta.cluster[0],
        smem: meta.smem_bytes,
        steps: 100_000,
    };
    if entry.ahead.is_none() {
        return bug(entry.wrong, entry.from, shape, kernel);
    }
    let ahead = |w: &World, _: bool| zoo_shipped::dependents::writes_a_row(&w.shared());
    bug(entry.wrong, entry.from, shape, ahead).then(&[("dependent", kernel)])
}

/// Each of the dependent launches is found under every seed: how early a grid starts does not matter.
#[test]
fn every_seed_finds_the_dependent_launches() {
    let seeds = std::env::var("WARPIPE_SEEDS").map_or(5, |n| n.parse().expect("a number"));
    for (name, entry) in DEPENDENTS.bugs {
        for seed in 0..seeds {
            let report = crate::world::run(&entry(), true, seed).expect_err(name);
            assert_eq!(report.rule.code(), "WP045", "{name}, seed {seed}\n{report}");
        }
    }
}
