//! `Mailbox`: what the threads of one CTA send to the next CTA of the cluster, through distributed
//! shared memory.
//!
//! Every CTA has an inbox that the CTA before it (in rank order, around the cluster) fills. A thread's
//! message goes to the thread with the same place in the next CTA.
//!
//! ```text
//!           CTA r                                  CTA r + 1
//!   send    wait "empty" of r                      receive   wait "full" of r + 1
//!           st.shared::cluster ───────────────►    inbox of r + 1
//!           arrive.release.cluster ───────────►    "full"
//!           "empty" ◄──────────────────────────    ld.shared, arrive.release.cluster
//! ```
//!
//! A remote mbarrier can be arrived at but never waited on, so each side waits at home: the sender's
//! CTA holds the barrier that says its neighbour's inbox is free. The data are ordinary stores across
//! CTAs, so arrivals release and waits acquire at *cluster* scope: the qualifier that a ring's
//! release of wgmma operands does without is needed here.
//!
//! A CTA may exit only when its neighbour has taken its last message, because the neighbour's thanks
//! arrive in its shared memory: [`Outbox::tail`].

use crate::cta::ClusterShape;
use crate::cta::{Place, Region};
use crate::cta::{Role, WARPGROUP_THREADS, Warpgroup};
use crate::ring::Name;
use core::marker::PhantomData;
use isa::device;

/// One message of `WORDS` f32 from each thread of role `Ro` to the next CTA of the cluster `K`;
/// `N` is its name.
///
/// (PTX `mbarrier.init`.)
///
/// ```
/// use pipeline::{barrier::Mailbox, prelude::*};
///
/// names! { Mail = "mail" }
/// roles! { Load = 1 x 40 registers, Talk = 1 x 232 registers }
/// type Pair = Cluster<2, 1>;
/// type Plan = SmemPlan<(Mailbox<2, Talk, Mail, Pair>,)>;
///
/// /// Each thread learns what the thread in its place in the other CTA has.
/// fn kernel(cta: Cta<(Load, Talk), Pair, Plan>) {
///     let (cta, (mail,)) = cta.init();
///     let rank = cta.coord().rank() as f32;
///     cta.specialize(
///         |_| {},
///         |group| {
///             let mut outbox = mail.outbox.by(&group);
///             let mut inbox = mail.inbox.by(&group);
///             outbox.send([rank, group.thread() as f32]);
///             let other = inbox.receive();
///             assert_eq!(other, [1.0 - rank, group.thread() as f32]);
///             outbox.tail();
///         },
///     );
/// }
/// # mod model { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/model.rs")); }
/// # model::run(1, &sim::GlobalMemory::new(), kernel).unwrap();
/// ```
pub struct Mailbox<const WORDS: usize, Ro, N, Cl>(PhantomData<(Ro, N, Cl)>);

impl<const WORDS: usize, Ro: Role, N: Name, Cl: ClusterShape> Mailbox<WORDS, Ro, N, Cl> {
    const THREADS: u32 = WARPGROUP_THREADS * Ro::GROUPS as u32;
    /// Each warp of the role arrives once, for a message as for its receipt.
    const ARRIVALS: u32 = 4 * Ro::GROUPS as u32;
    const DATA: u32 = 4 * WORDS as u32 * Self::THREADS;
    const FULL: u32 = Self::DATA;
    const EMPTY: u32 = Self::DATA + 8;

    /// Where words 2·`pair` and 2·`pair` + 1 of thread `thread` lie: neighbouring threads side by
    /// side, so that a warp's access meets no bank twice.
    #[inline(always)]
    fn at(base: u32, thread: u32, pair: usize) -> u32 {
        base + 8 * (pair as u32 * Self::THREADS + thread)
    }
}

// SAFETY: the messages and two mbarriers lie inside BYTES; each barrier expects the one arrival per
// warp that `send` and `receive` make.
unsafe impl<const WORDS: usize, Ro: Role, N: Name, Cl: ClusterShape> Region
    for Mailbox<WORDS, Ro, N, Cl>
{
    const BYTES: usize = {
        assert!(
            WORDS >= 2 && WORDS.is_multiple_of(2),
            "a message has an even number of words, at least 2"
        );
        assert!(Cl::SIZE >= 2, "a mailbox needs a cluster of at least two CTAs");
        Self::DATA as usize + 16
    };
    const ALIGN: usize = 16;
    const NAME: &'static str = N::NAME;
    type Ends = MailEnds<WORDS, Ro, N, Cl>;
    #[inline(always)]
    unsafe fn init(place: Place) {
        let (full, empty) = (place.base + Self::FULL, place.base + Self::EMPTY);
        // SAFETY: the region's own memory, initialised once.
        unsafe {
            isa::mbarrier::init(full, Self::ARRIVALS);
            isa::mbarrier::init(empty, Self::ARRIVALS);
        }
        isa::debug::label_barrier(full, N::FULL, 0);
        isa::debug::label_barrier(empty, N::EMPTY, 0);
    }
    #[inline(always)]
    unsafe fn ends(place: Place) -> Self::Ends {
        MailEnds {
            outbox: OutboxEnd { base: place.base, mail: PhantomData },
            inbox: InboxEnd { base: place.base, mail: PhantomData },
        }
    }
}

/// The two ends of a [`Mailbox`], inert until the role takes them with `by`.
///
/// ```
/// # use pipeline::{barrier::*, prelude::*};
/// # names! { Mail = "mail" } roles! { Talk = 1 x 232 registers }
/// # type Pair = Cluster<2, 1>;
///
/// # type Two = [f32; 2];
/// fn swap(mail: MailEnds<2, Talk, Mail, Pair>, group: &Warpgroup<Talk, Pair>, x: Two) -> Two {
///     let (mut outbox, mut inbox) = (mail.outbox.by(group), mail.inbox.by(group));
///     outbox.send(x);
///     let theirs = inbox.receive();
///     outbox.tail();
///     theirs
/// }
/// ```
pub struct MailEnds<const WORDS: usize, Ro, N, Cl> {
    /// To the next CTA.
    pub outbox: OutboxEnd<WORDS, Ro, N, Cl>,
    /// From the CTA before.
    pub inbox: InboxEnd<WORDS, Ro, N, Cl>,
}

/// The sending end before the role has taken it.
///
/// (PTX none, until `mapa`.)
///
/// ```
/// # use pipeline::{barrier::*, prelude::*};
/// # names! { Mail = "mail" } roles! { Talk = 1 x 232 registers }
/// # type Pair = Cluster<2, 1>;
///
/// fn take(end: OutboxEnd<2, Talk, Mail, Pair>, group: &Warpgroup<Talk, Pair>) {
///     end.by(group).tail();
/// }
/// ```
#[must_use]
pub struct OutboxEnd<const WORDS: usize, Ro, N, Cl> {
    base: u32,
    mail: PhantomData<(Ro, N, Cl, *const ())>,
}
/// The receiving end before the role has taken it.
///
/// (PTX none, until `mapa`.)
///
/// ```
/// # use pipeline::{barrier::*, prelude::*};
/// # names! { Mail = "mail" } roles! { Talk = 1 x 232 registers }
/// # type Pair = Cluster<2, 1>;
///
/// fn take(end: InboxEnd<2, Talk, Mail, Pair>, group: &Warpgroup<Talk, Pair>) -> [f32; 2] {
///     end.by(group).receive()
/// }
/// ```
#[must_use]
pub struct InboxEnd<const WORDS: usize, Ro, N, Cl> {
    base: u32,
    mail: PhantomData<(Ro, N, Cl, *const ())>,
}

/// This thread's place among those of its role.
#[inline(always)]
fn thread_of_role<Ro: Role, Cl: ClusterShape>(group: &Warpgroup<Ro, Cl>) -> u32 {
    group.index() * WARPGROUP_THREADS + group.thread()
}

impl<const WORDS: usize, Ro: Role, N: Name, Cl: ClusterShape> OutboxEnd<WORDS, Ro, N, Cl> {
    /// Gives the end to a warp group of the role; all of its groups must take theirs.
    ///
    /// (PTX `mapa.shared::cluster`.) See the example of [`OutboxEnd`].
    #[inline(always)]
    pub fn by(self, group: &Warpgroup<Ro, Cl>) -> Outbox<'_, WORDS, Ro, N, Cl> {
        let size = Cl::SIZE as u32;
        let next = if group.coord().rank() + 1 == size { 0 } else { group.coord().rank() + 1 };
        Outbox {
            remote: isa::cluster::mapa(self.base, next),
            empty: self.base + Mailbox::<WORDS, Ro, N, Cl>::EMPTY,
            thread: thread_of_role(group),
            // The inbox is free at first: as a producer on a fresh ring.
            phase: 1,
            group: PhantomData,
        }
    }
}

impl<const WORDS: usize, Ro: Role, N: Name, Cl: ClusterShape> InboxEnd<WORDS, Ro, N, Cl> {
    /// Gives the end to a warp group of the role; all of its groups must take theirs.
    ///
    /// (PTX `mapa.shared::cluster`.) See the example of [`InboxEnd`].
    #[inline(always)]
    pub fn by(self, group: &Warpgroup<Ro, Cl>) -> Inbox<'_, WORDS, Ro, N, Cl> {
        let (rank, size) = (group.coord().rank(), Cl::SIZE as u32);
        let before = if rank == 0 { size - 1 } else { rank - 1 };
        Inbox {
            base: self.base,
            thanks: isa::cluster::mapa(self.base + Mailbox::<WORDS, Ro, N, Cl>::EMPTY, before),
            thread: thread_of_role(group),
            phase: 0,
            group: PhantomData,
        }
    }
}

/// The sending end.
///
/// Waits for the next CTA to take its messages. Signals the next CTA. (PTX `st.shared::cluster.v2`,
/// `mbarrier.arrive.release.cluster.shared::cluster`.)
///
/// ```
/// # use pipeline::{barrier::*, prelude::*};
/// # names! { Mail = "mail" } roles! { Talk = 1 x 232 registers }
/// # type Pair = Cluster<2, 1>;
///
/// fn tell(mut outbox: Outbox<'_, 2, Talk, Mail, Pair>, x: [f32; 2]) {
///     outbox.send(x);
///     outbox.tail();
/// }
/// ```
#[must_use]
pub struct Outbox<'g, const WORDS: usize, Ro, N, Cl> {
    remote: u32,
    empty: u32,
    thread: u32,
    phase: u32,
    group: PhantomData<(&'g Warpgroup<Ro, Cl>, N)>,
}

impl<const WORDS: usize, Ro: Role, N: Name, Cl: ClusterShape> Outbox<'_, WORDS, Ro, N, Cl> {
    #[device]
    fn wait_empty(&mut self) {
        // SAFETY: initialised by the plan; the phase changes with each message.
        unsafe { isa::mbarrier::wait_parity_cluster(self.empty, self.phase) };
        self.phase ^= 1;
    }

    /// Writes a message into the next CTA's inbox and says so: the warp meets, and one lane arrives
    /// there.
    ///
    /// Waits for the next CTA to take the message before. Signals one arrival of each warp on the next CTA's
    /// "full". (PTX `mbarrier.try_wait.parity.acquire.cluster`, `st.shared::cluster.v2`,
    /// `mbarrier.arrive.release.cluster.shared::cluster`.) See the example of [`Outbox`].
    #[device]
    pub fn send(&mut self, message: [f32; WORDS]) {
        self.wait_empty();
        for pair in 0..WORDS / 2 {
            let words = [message[2 * pair].to_bits(), message[2 * pair + 1].to_bits()];
            let to = Mailbox::<WORDS, Ro, N, Cl>::at(self.remote, self.thread, pair);
            // SAFETY: the inbox of a peer with the same plan is free, and its CTA stays until it has
            // received as many messages as were sent.
            unsafe { isa::shared::st_cluster(to, words) };
        }
        let full = self.remote + Mailbox::<WORDS, Ro, N, Cl>::FULL;
        // SAFETY: the end was taken by a converged warp group, whose warps stay converged through
        // the pipeline's calls; the stores of every lane are before the warp's meeting.
        unsafe {
            isa::warp::sync_warp(u32::MAX);
            if isa::warp::lane_id() == 0 {
                isa::mbarrier::arrive_remote_release_cluster(full);
            }
            // The lanes go on together: what follows may be an `.aligned` instruction.
            isa::warp::sync_warp(u32::MAX);
        }
    }

    /// Lets the CTA exit: nothing of it is used from outside any more.
    ///
    /// Waits for the next CTA to take the last message. (PTX `mbarrier.try_wait.parity.acquire.cluster`.) See
    /// the example of [`Outbox`].
    #[device]
    pub fn tail(mut self) {
        self.wait_empty();
    }
}

/// The receiving end.
///
/// Waits for messages of the CTA before. Signals that CTA. (PTX `mbarrier.try_wait.parity.acquire.cluster`,
/// `mbarrier.arrive.release.cluster.shared::cluster`.)
///
/// ```
/// # use pipeline::{barrier::*, prelude::*};
/// # names! { Mail = "mail" } roles! { Talk = 1 x 232 registers }
/// # type Pair = Cluster<2, 1>;
///
/// fn hear(inbox: &mut Inbox<'_, 2, Talk, Mail, Pair>) -> [f32; 2] {
///     inbox.receive()
/// }
/// ```
#[must_use]
pub struct Inbox<'g, const WORDS: usize, Ro, N, Cl> {
    base: u32,
    thanks: u32,
    thread: u32,
    phase: u32,
    group: PhantomData<(&'g Warpgroup<Ro, Cl>, N)>,
}

impl<const WORDS: usize, Ro: Role, N: Name, Cl: ClusterShape> Inbox<'_, WORDS, Ro, N, Cl> {
    /// Takes the next message into registers, and lets the CTA before send another.
    ///
    /// Waits for the message. Signals one arrival of each warp on the CTA before's "empty". (PTX
    /// `mbarrier.try_wait.parity.acquire.cluster`, `ld.shared.v2`,
    /// `mbarrier.arrive.release.cluster.shared::cluster`.) See the example of [`Inbox`].
    #[device]
    pub fn receive(&mut self) -> [f32; WORDS] {
        let full = self.base + Mailbox::<WORDS, Ro, N, Cl>::FULL;
        // SAFETY: initialised by the plan; the phase changes with each message.
        unsafe { isa::mbarrier::wait_parity_cluster(full, self.phase) };
        self.phase ^= 1;
        let mut message = [0.0; WORDS];
        for pair in 0..WORDS / 2 {
            let from = Mailbox::<WORDS, Ro, N, Cl>::at(self.base, self.thread, pair);
            // SAFETY: the message has arrived, and the sender waits for this thread's warp.
            let [x, y]: [u32; 2] = unsafe { isa::shared::ld(from) };
            message[2 * pair] = f32::from_bits(x);
            message[2 * pair + 1] = f32::from_bits(y);
        }
        // SAFETY: as in `send`: every lane has read; the CTA before waits for this in its tail.
        unsafe {
            isa::warp::sync_warp(u32::MAX);
            if isa::warp::lane_id() == 0 {
                isa::mbarrier::arrive_remote_release_cluster(self.thanks);
            }
            // The lanes go on together: what follows may be an `.aligned` instruction.
            isa::warp::sync_warp(u32::MAX);
        }
        message
    }
}
