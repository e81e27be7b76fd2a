//! The grid throttle, on the model of the SM.
#![allow(missing_docs)]

use isa::kernel::KernelArg;
use isa::slice::SliceAbi;
use pipeline::barrier::LoadOrderBarrier;
use pipeline::grid::Throttle;
use pipeline::prelude::*;
use sim::{Config, GlobalMemory, Grid};

names! { Order = "order" }
roles! { Load = 1 x 40 registers, Other = 1 x 40 registers }

type Alone = Cluster<1, 1>;
type Plan = SmemPlan<(LoadOrderBarrier<Order>,)>;

/// What the CTAs share: the counter, and a log of the steps that each CTA has begun.
#[derive(Clone)]
struct World {
    memory: GlobalMemory,
    counter: u64,
    log: u64,
    /// The counter's value at each entry of the log.
    arrivals: u64,
    /// A CTA that does nothing.
    absent: Option<u32>,
}

/// Steps of the CTAs that have most of them, in epochs of one step.
const STEPS: u32 = 4;

impl World {
    fn new(counter: u32) -> Self {
        let memory = GlobalMemory::new();
        let (at, log) = (memory.alloc(Throttle::BYTES), memory.alloc(4 + 4 * 1024));
        memory.write(at, &counter.to_le_bytes()).expect("just allocated");
        memory.write(log, &[0; 4 + 4 * 1024]).expect("just allocated");
        let arrivals = memory.alloc(4 * 1024);
        Self { memory, counter: at, log, arrivals, absent: None }
    }

    fn word(&self, addr: u64) -> u32 {
        let mut bytes = [0; 4];
        self.memory.read(addr, &mut bytes).expect("allocated");
        u32::from_le_bytes(bytes)
    }

    /// The log's entries, in the order in which they were made: (step, CTA).
    fn log(&self) -> Vec<(u32, u32)> {
        (0..self.word(self.log))
            .map(|i| self.word(self.log + 4 + 4 * u64::from(i)))
            .map(|w| (w >> 16, w & 0xffff))
            .collect()
    }

    /// The counter's value when entry `i` of the log was made.
    fn arrivals(&self, i: usize) -> u32 {
        self.word(self.arrivals + 4 * i as u64)
    }

    /// Logs each step. The CTAs from `short` on have one step less than the others.
    fn kernel(&self, cta: Cta<(Load, Other), Alone, Plan>, elements: u64, short: u32) {
        let abi = SliceAbi { address: self.counter, elements };
        // SAFETY: the memory outlives the run, and nobody else has it as an argument.
        let throttle = unsafe { Throttle::from_abi(abi) };
        let (cta, _ends) = cta.init();
        cta.specialize(
            |load| {
                load.elect(|one| {
                    let id = one.coord().cluster_id();
                    if self.absent == Some(id) {
                        return;
                    }
                    let mut throttle = throttle.by(&one, STEPS, 1);
                    for step in 0..STEPS - u32::from(id >= short) {
                        throttle.step();
                        // SAFETY: a word that all CTAs access with atomics only, and an entry of this thread alone.
                        unsafe {
                            let i = isa::global::atomic_add_u32(self.log as *mut u32, 1);
                            let entry = (self.log as *mut u32).wrapping_add(1 + i as usize);
                            isa::global::st(entry, step << 16 | id);
                            let counter = isa::global::atomic_add_u32(self.counter as *mut u32, 0);
                            isa::global::st(
                                (self.arrivals as *mut u32).wrapping_add(i as usize),
                                counter,
                            );
                        }
                    }
                    throttle.tail();
                });
            },
            |_| {},
        );
    }

    /// Runs the kernel, and gives the number of instructions.
    fn run(&self, ctas: u32, sms: u32, seed: u64, elements: u64, short: u32) -> u64 {
        type Token = Cta<(Load, Other), Alone, Plan>;
        let config = Config { seed, sms, workers: Some(1), ..Config::default() };
        let grid = Grid {
            grid: [ctas, 1, 1],
            block: [Token::THREADS, 1, 1],
            cluster: [1; 3],
            min_ctas: Token::PER_SM,
            smem_bytes: Plan::BYTES,
            name: "throttle",
        };
        // SAFETY: the first thing that each thread does, in a launch of the token's shape.
        let entry = || self.kernel(unsafe { Token::enter() }, elements, short);
        sim::launch(&config, &self.memory, &grid, &entry)
            .unwrap_or_else(|report| panic!("{ctas} CTAs, seed {seed}:\n{report}"))
            .steps
    }
}

/// The steps of one CTA, in the order in which it began them.
fn steps(log: &[(u32, u32)], cta: u32) -> Vec<u32> {
    log.iter().filter(|(_, c)| *c == cta).map(|(step, _)| *step).collect()
}

// A wait is bounded, so a CTA may go on alone. The tests check that every CTA does all its steps, and that the counter is
// afterwards where the next launch can go on.

#[test]
fn every_cta_does_all_its_steps() {
    for (seed, (ctas, sms)) in
        [(1, 16), (2, 16), (2, 1), (5, 16), (5, 2), (8, 16)].iter().enumerate()
    {
        let world = World::new(0);
        world.run(*ctas, *sms, seed as u64, 1, u32::MAX);
        for cta in 0..*ctas {
            assert_eq!(steps(&world.log(), cta), [0, 1, 2, 3], "{ctas} CTAs on {sms} SMs");
        }
        assert_eq!(world.word(world.counter), STEPS * Throttle::EPOCH);
    }
}

/// A CTA has arrived at each epoch before it begins a step of the next one. (The others may have gone on, if waits were in vain.)
#[test]
fn a_cta_arrives_at_each_epoch() {
    for ctas in [1, 5] {
        let world = World::new(0);
        world.run(ctas, 16, 0, 1, u32::MAX);
        let mine = |(i, entry): (usize, &(u32, u32))| (entry.1 == 0).then(|| world.arrivals(i));
        let seen: Vec<u32> = world.log().iter().enumerate().filter_map(mine).collect();
        // What the others add is small beside the share of the first CTA.
        let of_first = seen.iter().map(|counter| counter / (Throttle::EPOCH - (ctas - 1)));
        assert!(of_first.eq(0..STEPS), "{ctas} CTAs: {seen:?}");
    }
}

/// One of two CTAs has arrived at all its epochs, after waits in vain, before the other one begins. The last one must not
/// wait for epochs that can't be complete without it.
#[test]
fn the_last_one_waits_for_nobody() {
    // The first CTA adds what the other one leaves of an epoch.
    for (absent, share) in [(0, Throttle::EPOCH - 1), (1, 1)] {
        let world = World { absent: Some(absent), ..World::new(STEPS * share) };
        let alone = World::new(0).run(1, 16, 0, 1, u32::MAX);
        let instructions = world.run(2, 16, 0, 1, u32::MAX);
        assert_eq!(steps(&world.log(), 1 - absent), [0, 1, 2, 3]);
        assert_eq!(world.word(world.counter), STEPS * Throttle::EPOCH);
        assert!(
            instructions < 2 * alone + 100,
            "a wait in vain has 256 polls: {instructions} instructions, and {alone} of one CTA alone"
        );
    }
}

/// The other CTA never comes. The first wait takes all polls, and each later one looks once.
#[test]
fn a_wait_in_vain_is_bounded() {
    let world = World { absent: Some(1), ..World::new(0) };
    let alone = World::new(0).run(1, 16, 0, 1, u32::MAX);
    let instructions = world.run(2, 16, 0, 1, u32::MAX);
    assert_eq!(steps(&world.log(), 0), [0, 1, 2, 3]);
    // The absent CTA has some instructions less than one that works.
    let [least, most] = [2 * alone + 256 - 60, 2 * alone + 256 + 60];
    assert!((least..most).contains(&instructions), "{instructions} instructions, {alone} alone");
}

#[test]
fn the_counter_wraps_and_is_left_where_the_next_launch_can_go_on() {
    let world = World::new(0u32.wrapping_sub(4 * Throttle::EPOCH));
    for (launch, ctas) in [5, 3, 8].into_iter().enumerate() {
        // All but three CTAs have no last step.
        world.run(ctas, 16, launch as u64, 1, 3);
        let want = Throttle::EPOCH.wrapping_mul(STEPS * launch as u32);
        assert_eq!(world.word(world.counter), want);
    }
    assert_eq!(world.log().len(), 3 * 3 * 4 + (2 + 5) * 3);
}

#[test]
fn the_epochs_are_a_power_of_two() {
    let epochs = |steps| Throttle::epochs(steps, 64);
    assert_eq!([0, 63, 64, 191, 192, 300].map(epochs), [0, 0, 1, 2, 4, 4]);
    assert_eq!(epochs(u32::MAX), 1 << 14);
}

#[test]
fn without_a_counter_no_cta_counts() {
    let world = World::new(7);
    world.run(4, 16, 0, 0, u32::MAX);
    assert_eq!((world.word(world.counter), world.log().len()), (7, 16));
}
