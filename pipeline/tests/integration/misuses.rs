//! Mistakes that compile, planted in kernels on the pipeline: the SM model must name the rule, and
//! the barrier or the role that its user knows.

use crate::common::{Image, run};
use crate::support::*;
use pipeline::cta::Regions;
use sim::{GlobalMemory, Report, Rule};

/// Runs a kernel with a mistake under several schedules: the findings.
fn findings<P: Regions>(
    kernel: impl Fn(ThisCta<SmemPlan<P>>, &TensorMap<Panel>, &TensorMap<Panel>) + Sync,
) -> Vec<Report> {
    (0..12)
        .filter_map(|seed| {
            let memory = GlobalMemory::new();
            let rows = 64 * PANELS as usize;
            let from = Image::new(&memory, rows, 64, |i| (i % 251) as f32);
            let to = Image::new(&memory, rows, 64, |_| f32::NAN);
            let (source, target) = (from.map(), to.map());
            run(seed, &memory, |cta| kernel(cta, &source, &target)).err().map(|report| *report)
        })
        .collect()
}

/// Every schedule ends in a report of `rule` that contains `words`.
fn always(reports: &[Report], rule: Rule, words: &str) {
    assert_eq!(reports.len(), 12, "some schedules find nothing");
    for report in reports {
        assert_eq!(report.rule, rule, "{report}");
        assert!(report.to_string().contains(words), "no {words:?} in:\n{report}");
    }
}

#[test]
fn an_arriver_that_laps() {
    type MeetPlan = SmemPlan<(PanelRing, NamedBarrier<Load, Work, Meet>)>;
    let reports = findings(|cta: ThisCta<MeetPlan>, _from, _to| {
        let (cta, (_ring, meet)) = cta.init();
        cta.specialize(
            |load| (0..3).for_each(|_| meet.arriver.arrive(&load)),
            |work| (0..3).for_each(|_| meet.waiter.sync(&work)),
        );
    });
    assert!(!reports.is_empty());
    for report in &reports {
        assert_eq!(report.rule, Rule::NamedBarrier, "{report}");
    }
}

#[test]
fn a_role_that_returns_early() {
    let reports = findings(|cta: ThisCta, from, _to| {
        let (cta, (ring, _stores)) = cta.init();
        cta.specialize(
            |load| one_thread(load, |one| load_panels(ring.producer, &one, from)),
            |_work| {},
        );
    });
    always(&reports, Rule::Deadlock, "main loop.empty");
}

#[test]
fn one_step_too_many() {
    let reports = findings(|cta: ThisCta, from, to| {
        let (cta, (ring, stores)) = cta.init();
        cta.specialize(
            |load| {
                one_thread(load, |one| {
                    let mut loads = ring.producer.by(&one);
                    for panel in 0..PANELS - 1 {
                        loads.acquire().load((from.tile(64 * panel, 0, Peers::ALONE),));
                    }
                    loads.tail();
                });
            },
            |work| store_panels(ring.consumer, stores, &work, to),
        );
    });
    always(&reports, Rule::Deadlock, "main loop.full");
}

#[test]
fn rings_in_opposite_orders() {
    type TwoRings = SmemPlan<(PanelRing<Main, 1>, PanelRing<Other, 1>)>;
    let reports = findings(|cta: ThisCta<TwoRings>, from, _to| {
        let (cta, (first, second)) = cta.init();
        cta.specialize(
            |load| {
                one_thread(load, |one| {
                    let (mut first, mut second) =
                        (first.producer.by(&one), second.producer.by(&one));
                    for _ in 0..2 {
                        first.acquire().load((from.tile(0, 0, Peers::ALONE),));
                    }
                    second.acquire().load((from.tile(0, 0, Peers::ALONE),));
                });
            },
            |work| {
                let (mut first, mut second) = (first.consumer.by(&work), second.consumer.by(&work));
                second.wait().release();
                for _ in 0..2 {
                    first.wait().release();
                }
            },
        );
    });
    always(&reports, Rule::Deadlock, "main loop.empty");
}

#[test]
fn a_slot_kept_for_good() {
    let reports = findings(|cta: ThisCta, from, _to| {
        let (cta, (ring, _stores)) = cta.init();
        cta.specialize(
            |load| one_thread(load, |one| load_panels(ring.producer, &one, from)),
            |work| {
                let mut arrived = ring.consumer.by(&work);
                for panel in 0..PANELS {
                    let slot = arrived.wait();
                    if panel < PANELS - 1 {
                        slot.release();
                    }
                }
            },
        );
    });
    always(&reports, Rule::Deadlock, "main loop.empty");
    always(&reports, Rule::Deadlock, "by Work was never released");
}

#[test]
fn a_batch_forgotten_under_a_later_wait() {
    let reports = unfinished(|group, slot| {
        std::mem::forget(Accumulator::<64>::start(group, slot));
        // SAFETY: a whole group comes.
        unsafe { isa::wgmma::wait_group::<0>() };
    });
    always(&reports, Rule::LostToken, "the slot of ring `main loop`, stage 0");
}

#[test]
fn a_buffer_that_is_never_stored() {
    let reports = findings(|cta: ThisCta, _from, to| {
        let (cta, (_ring, stores)) = cta.init();
        cta.specialize(
            |_load| {},
            |work| {
                let mut stores = stores.by(&work);
                // Nothing is in it yet.
                drop(stores.acquire());
                let mut free = stores.acquire();
                (0..4).for_each(|fragment| free.put(fragment, [1.0; 8]));
                free.publish().store(to, 0, 0);
                let mut free = stores.acquire();
                (0..4).for_each(|fragment| free.put(fragment, [2.0; 8]));
                let _published = free.publish();
                stores.tail();
            },
        );
    });
    always(&reports, Rule::LostToken, "the store buffer at base + ");
}

#[test]
fn a_fragment_beyond_the_tile() {
    type WriteRing = Ring<2, (Panel,), Writes<Work>, Reads<Load>, Main, Alone>;
    let reports = findings(|cta: ThisCta<SmemPlan<(WriteRing,)>>, _from, _to| {
        let (cta, (ring,)) = cta.init();
        cta.specialize(
            |_load| {},
            |work| {
                let mut slot = ring.producer.by(&work).acquire();
                // A panel has four fragments; the fifth lies in the next slot.
                slot.put(4, [1.0; 8]);
                slot.commit();
            },
        );
    });
    always(&reports, Rule::Panic, "fewer fragments");
}

#[test]
fn a_fragment_beyond_the_store_buffers() {
    // A buffer has four fragments, and both together have eight. On the device the number wraps around.
    for (all, fragment) in [(false, 4), (true, 8)] {
        let reports = findings(|cta: ThisCta, _from, _to| {
            let (cta, (_ring, stores)) = cta.init();
            cta.specialize(
                |_load| {},
                |work| {
                    let mut stores = stores.by(&work);
                    if all {
                        let mut free = stores.acquire_all();
                        free.put(fragment - 1, [1.0; 8]);
                        free.put(fragment, [1.0; 8]);
                    } else {
                        let mut free = stores.acquire();
                        free.put(fragment - 1, [1.0; 8]);
                        free.put(fragment, [1.0; 8]);
                    }
                },
            );
        });
        always(&reports, Rule::Panic, "fewer fragments");
    }
}

/// One batch that is issued and never finished; the slot with it.
fn unfinished(lose: impl Fn(&Group, MmaSlot) + Sync) -> Vec<Report> {
    type MmaPlan = SmemPlan<(MmaRing,)>;
    findings(|cta: ThisCta<MmaPlan>, from, _to| {
        let (cta, (ring,)) = cta.init();
        cta.specialize(
            |load| {
                one_thread(load, |one| {
                    let mut loads = ring.producer.by(&one);
                    let tile = || from.tile(0, 0, Peers::ALONE);
                    loads.acquire().load((tile(), tile()));
                });
            },
            |work| {
                let mut operands = ring.consumer.by(&work);
                lose(&work, operands.wait());
            },
        );
    })
}

#[test]
fn a_dropped_batch_is_waited_for() {
    let start = Accumulator::<64>::start;
    // The batch is over, and so its slot is all that is lost.
    let dropped = unfinished(|group, slot| drop(start(group, slot)));
    always(&dropped, Rule::LostToken, "was never released");
    let forgotten = unfinished(|group, slot| std::mem::forget(start(group, slot)));
    always(&forgotten, Rule::InFlightAtExit, "wgmma");
}

#[test]
fn dropped_halves_are_waited_for() {
    let start = SplitAccumulator::<32, 32>::start;
    let dropped = [
        unfinished(|group, slot| drop(start(group, slot))),
        unfinished(|group, slot| drop(start(group, slot).start_right())),
        unfinished(|group, slot| drop(start(group, slot).start_right().finish_left().1)),
    ];
    for reports in dropped {
        always(&reports, Rule::LostToken, "was never released");
    }
    let forgotten = unfinished(|group, slot| {
        std::mem::forget(start(group, slot).start_right().finish_left().1);
    });
    always(&forgotten, Rule::InFlightAtExit, "wgmma");
}
