//! `Mailbox`: messages from the threads of one CTA to the next CTA of the cluster, through distributed shared
//! memory.
//!
//! Invariant: the sender writes to an inbox only while it is empty, and the receiver reads it only while it is
//! full. Every CTA has one inbox, which the previous CTA fills (in rank order, around the cluster). A thread's
//! message goes to the thread with the same index in the next CTA.
//!
//! ```text
//!           CTA r                                  CTA r + 1
//!   send    wait "empty" of r                      receive   wait "full" of r + 1
//!           st.shared::cluster ───────────────►    inbox of r + 1
//!           arrive.release.cluster ───────────►    "full"
//!           "empty" ◄──────────────────────────    ld.shared, arrive.release.cluster
//! ```
//!
//! A thread can arrive on a remote mbarrier but can't wait on it, so each side waits on a barrier of its own CTA:
//! the "empty" barrier of the next CTA's inbox lies in the sender's CTA. The messages are ordinary stores to
//! another CTA. Arrivals therefore release and waits acquire at *cluster* scope, which the release of a ring's
//! wgmma operands does not need.
//!
//! A CTA may exit only when the next CTA has read its last message, because that CTA then arrives on the "empty"
//! barrier in its shared memory. [`Outbox::tail`] waits for it.

use crate::cta::ClusterShape;
use crate::cta::{Place, Region};
use crate::cta::{Role, WARPGROUP_THREADS, Warpgroup};
use crate::ring::{Name, name_of};
use core::marker::PhantomData;
use isa::device;
use isa::kernel::{Part, RegionFacts};

/// An inbox with one message of `WORDS` f32 for each thread of role `Ro`, from the previous CTA of the cluster
/// `Cl`; `N` is its name.
///
/// (PTX `mbarrier.init`.)
///
/// ```
/// use warpipe_pipeline::{barrier::Mailbox, prelude::*};
///
/// names! { Mail = "mail" }
/// roles! { Load = 1 x 40 registers, Talk = 1 x 232 registers }
/// type Pair = Cluster<2, 1>;
/// type Plan = SmemPlan<(Mailbox<2, Talk, Mail, Pair>,)>;
///
/// /// Each thread exchanges two values with the thread of the same index in the other CTA.
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
    /// Each warp of the role arrives once when it sends a message and once when it has received one.
    const ARRIVALS: u32 = 4 * Ro::GROUPS as u32;
    const DATA: u32 = 4 * WORDS as u32 * Self::THREADS;
    const FULL: u32 = Self::DATA;
    const EMPTY: u32 = Self::DATA + 8;

    /// The address of words 2·`pair` and 2·`pair` + 1 of thread `thread`. Neighbouring threads are adjacent, so
    /// that a warp's access has no bank conflict.
    #[isa::forceinline]
    fn at(base: u32, thread: u32, pair: usize) -> u32 {
        base + 8 * (pair as u32 * Self::THREADS + thread)
    }
}

// SAFETY: the messages and two mbarriers lie inside BYTES. Each barrier expects one arrival per warp, which `send`
// and `receive` make.
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
    const NAME: &'static str = name_of::<N>();
    const FACTS: RegionFacts = RegionFacts::of(
        "Mailbox",
        &[
            Part::Bytes { what: "messages", offset: 0, bytes: Self::DATA },
            Part::Mbarriers {
                what: "full",
                offset: Self::FULL,
                count: 1,
                arrivals: Self::ARRIVALS,
                by: "each warp of the CTA before, when it has sent",
            },
            Part::Mbarriers {
                what: "empty",
                offset: Self::EMPTY,
                count: 1,
                arrivals: Self::ARRIVALS,
                by: "each warp of the next CTA, when it has received",
            },
        ],
    );
    type Ends = MailEnds<WORDS, Ro, N, Cl>;
    #[isa::forceinline]
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
    #[isa::forceinline]
    unsafe fn ends(place: Place) -> Self::Ends {
        MailEnds {
            outbox: OutboxEnd { base: place.base, mail: PhantomData },
            inbox: InboxEnd { base: place.base, mail: PhantomData },
        }
    }
}

/// The two ends of a [`Mailbox`], which the role takes with `by`.
///
/// ```
/// # use warpipe_pipeline::{barrier::*, prelude::*};
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
    /// The end that sends to the next CTA.
    pub outbox: OutboxEnd<WORDS, Ro, N, Cl>,
    /// The end that receives from the previous CTA.
    pub inbox: InboxEnd<WORDS, Ro, N, Cl>,
}

/// The sending end before the role has taken it.
///
/// ```
/// # use warpipe_pipeline::{barrier::*, prelude::*};
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
/// ```
/// # use warpipe_pipeline::{barrier::*, prelude::*};
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

/// This thread's index among the threads of its role.
#[isa::forceinline]
fn thread_of_role<Ro: Role, Cl: ClusterShape>(group: &Warpgroup<Ro, Cl>) -> u32 {
    group.index() * WARPGROUP_THREADS + group.thread()
}

impl<const WORDS: usize, Ro: Role, N: Name, Cl: ClusterShape> OutboxEnd<WORDS, Ro, N, Cl> {
    /// Gives the end to a warp group of the role. Every warp group of the role must take its end.
    ///
    /// (PTX `mapa.shared::cluster`.) See the example of [`OutboxEnd`].
    #[isa::forceinline]
    pub fn by(self, group: &Warpgroup<Ro, Cl>) -> Outbox<'_, WORDS, Ro, N, Cl> {
        let size = Cl::SIZE as u32;
        let next = if group.coord().rank() + 1 == size { 0 } else { group.coord().rank() + 1 };
        Outbox {
            remote: isa::cluster::mapa(self.base, next),
            empty: self.base + Mailbox::<WORDS, Ro, N, Cl>::EMPTY,
            thread: thread_of_role(group),
            // The inbox is empty at first, so the first wait passes, as for a producer on a fresh ring.
            phase: 1,
            group: PhantomData,
        }
    }
}

impl<const WORDS: usize, Ro: Role, N: Name, Cl: ClusterShape> InboxEnd<WORDS, Ro, N, Cl> {
    /// Gives the end to a warp group of the role. Every warp group of the role must take its end.
    ///
    /// (PTX `mapa.shared::cluster`.) See the example of [`InboxEnd`].
    #[isa::forceinline]
    pub fn by(self, group: &Warpgroup<Ro, Cl>) -> Inbox<'_, WORDS, Ro, N, Cl> {
        let (rank, size) = (group.coord().rank(), Cl::SIZE as u32);
        let before = if rank == 0 { size - 1 } else { rank - 1 };
        Inbox {
            base: self.base,
            empty: isa::cluster::mapa(self.base + Mailbox::<WORDS, Ro, N, Cl>::EMPTY, before),
            thread: thread_of_role(group),
            phase: 0,
            group: PhantomData,
        }
    }
}

/// The sending end.
///
/// (PTX `st.shared::cluster.v2`, `mbarrier.arrive.release.cluster.shared::cluster`.)
///
/// ```
/// # use warpipe_pipeline::{barrier::*, prelude::*};
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
        // SAFETY: the plan initialised the barrier, and the phase changes with each message.
        unsafe { isa::mbarrier::wait_parity_cluster(self.empty, self.phase) };
        self.phase ^= 1;
    }

    /// Writes a message into the next CTA's inbox and signals it.
    ///
    /// Waits until the next CTA has read the previous message. Signals the next CTA's "full" barrier, with one
    /// arrival per warp after the warp has reconverged. (PTX `mbarrier.try_wait.parity.acquire.cluster`,
    /// `st.shared::cluster.v2`, `mbarrier.arrive.release.cluster.shared::cluster`.) See the example of
    /// [`Outbox`].
    #[device]
    pub fn send(&mut self, message: [f32; WORDS]) {
        self.wait_empty();
        for pair in 0..WORDS / 2 {
            let words = [message[2 * pair].to_bits(), message[2 * pair + 1].to_bits()];
            let to = Mailbox::<WORDS, Ro, N, Cl>::at(self.remote, self.thread, pair);
            // SAFETY: the peer has the same plan and its inbox is empty. Its CTA does not exit before it has
            // received all messages that were sent.
            unsafe { isa::shared::st_cluster(to, words) };
        }
        let full = self.remote + Mailbox::<WORDS, Ro, N, Cl>::FULL;
        // SAFETY: a converged warp group took the end, and its warps stay converged through the pipeline's calls.
        // The stores of every lane come before `sync_warp`.
        unsafe {
            isa::warp::sync_warp(u32::MAX);
            if isa::warp::lane_id() == 0 {
                isa::mbarrier::arrive_remote_release_cluster(full);
            }
            // The warp reconverges, because an `.aligned` instruction may follow.
            isa::warp::sync_warp(u32::MAX);
        }
    }

    /// Waits until the next CTA has read the last message, so that this CTA may exit.
    ///
    /// (PTX `mbarrier.try_wait.parity.acquire.cluster`.) See the example of [`Outbox`].
    #[device]
    pub fn tail(mut self) {
        self.wait_empty();
    }
}

/// The receiving end.
///
/// (PTX `mbarrier.try_wait.parity.acquire.cluster`,
/// `mbarrier.arrive.release.cluster.shared::cluster`.)
///
/// ```
/// # use warpipe_pipeline::{barrier::*, prelude::*};
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
    /// The "empty" barrier of this inbox, in the sender's CTA.
    empty: u32,
    thread: u32,
    phase: u32,
    group: PhantomData<(&'g Warpgroup<Ro, Cl>, N)>,
}

impl<const WORDS: usize, Ro: Role, N: Name, Cl: ClusterShape> Inbox<'_, WORDS, Ro, N, Cl> {
    /// Reads the next message into registers and lets the previous CTA send another.
    ///
    /// Waits for the message. Signals the previous CTA's "empty" barrier, with one arrival per warp. (PTX
    /// `mbarrier.try_wait.parity.acquire.cluster`, `ld.shared.v2`,
    /// `mbarrier.arrive.release.cluster.shared::cluster`.) See the example of [`Inbox`].
    #[device]
    pub fn receive(&mut self) -> [f32; WORDS] {
        let full = self.base + Mailbox::<WORDS, Ro, N, Cl>::FULL;
        // SAFETY: the plan initialised the barrier, and the phase changes with each message.
        unsafe { isa::mbarrier::wait_parity_cluster(full, self.phase) };
        self.phase ^= 1;
        let mut message = [0.0; WORDS];
        for pair in 0..WORDS / 2 {
            let from = Mailbox::<WORDS, Ro, N, Cl>::at(self.base, self.thread, pair);
            // SAFETY: the message has arrived, and the sender waits for this warp before it sends another.
            let [x, y]: [u32; 2] = unsafe { isa::shared::ld(from) };
            message[2 * pair] = f32::from_bits(x);
            message[2 * pair + 1] = f32::from_bits(y);
        }
        // SAFETY: as in `send`. Every lane has read, and the previous CTA waits for this arrival before it exits.
        unsafe {
            isa::warp::sync_warp(u32::MAX);
            if isa::warp::lane_id() == 0 {
                isa::mbarrier::arrive_remote_release_cluster(self.empty);
            }
            // The warp reconverges, because an `.aligned` instruction may follow.
            isa::warp::sync_warp(u32::MAX);
        }
        message
    }
}
