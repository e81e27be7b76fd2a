//! Records the protocol of a cluster while it runs.
//!
//! An event is an instruction that synchronises, or starts or awaits asynchronous work. Ordinary loads,
//! stores and fences are no events of their own: what a thread does between two events is part of the
//! second one's number. Neither are values part of it, nor global addresses.

use super::record::{Knowledge, Mark, Place, Record, Recorder, Tag};
use crate::types::loc::Loc;
use std::cell::Cell;
use std::sync::Arc;

/// Instructions that are part of the next event of their thread.
const FOLDED: [&str; 9] = [
    "ld.",
    "st.shared",
    "st.global",
    "ldmatrix",
    "stmatrix",
    "fence",
    "prefetch",
    "tma pre",
    "shfl",
];
/// Instructions with which clusters can wait for each other, or take each other's work.
const SHARED: [&str; 5] = [
    "ld.acquire.gpu",
    "st.release.gpu",
    "red.release.gpu",
    "atom.global",
    "clusterlaunchcontrol.try_cancel",
];

/// The watcher of a cluster.
pub(crate) struct Watcher {
    recorder: Arc<Recorder>,
    place: Place,
    record: Record,
    /// By thread: what it did since its last event.
    folded: Vec<u64>,
    /// The event, or else the thread, that operands belong to.
    open: Result<usize, u32>,
    /// A mark is to be made between this step and the next.
    pub due: bool,
}

/// Mixes a value into a hash.
pub(crate) fn mix(hash: u64, value: u64) -> u64 {
    let x = (hash.rotate_left(23) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// A text as a number.
fn hash(text: &str) -> u64 {
    text.bytes().fold(text.len() as u64, |hash, b| mix(hash, u64::from(b)))
}

/// Numbers of names and of lines, by their addresses and lengths.
type Known = [Cell<(usize, usize, u64)>; 256];

thread_local! {
    static KNOWN: Known = const { [const { Cell::new((0, 0, 0)) }; 256] };
}

/// The number of something at an address, from where it was asked for last or from its text.
fn known(at: usize, len: usize, compute: impl FnOnce() -> u64) -> u64 {
    KNOWN.with(|known| {
        let place = &known[(at >> 3 ^ at >> 11 ^ len) % known.len()];
        let (same_at, same_len, number) = place.get();
        if (same_at, same_len) == (at, len) {
            return number;
        }
        let number = compute();
        place.set((at, len, number));
        number
    })
}

/// A name as a number, the same throughout the process.
pub(crate) fn number(name: &'static str) -> u64 {
    known(name.as_ptr() as usize, name.len(), || hash(name))
}

/// A line as a number, the same throughout the process.
pub(crate) fn line(loc: Loc) -> u64 {
    // No name is as long.
    known(std::ptr::from_ref(loc) as usize, usize::MAX, || {
        mix(hash(loc.file()), u64::from(loc.line()) << 32 | u64::from(loc.column()))
    })
}

impl Watcher {
    pub fn new(recorder: Arc<Recorder>, place: Place, threads: u32) -> Self {
        let record = Record { threads, ..Record::default() };
        let folded = vec![0; threads as usize];
        Self { recorder, place, record, folded, open: Ok(0), due: true }
    }

    fn probes(&self) -> Option<&Vec<usize>> {
        self.recorder.probes.get(&self.place)
    }

    /// A thread executes an instruction. `arg` is a shared address, or a small number.
    pub fn executes(&mut self, t: u32, name: &'static str, arg: u32, loc: Loc) {
        let hash = [u64::from(arg), line(loc), u64::from(t)].into_iter().fold(number(name), mix);
        let folded = &mut self.folded[t as usize];
        if name == "cp.async" || name != "ld.acquire.gpu" && starts(&FOLDED, name) {
            *folded = mix(*folded, hash);
            self.open = Err(t);
            return;
        }
        let hash = mix(hash, std::mem::take(folded));
        if starts(&SHARED, name) && self.record.shares.is_none() {
            self.record.shares = Some((name, format!("{}:{}", loc.file(), loc.line())));
        }
        self.push(hash, Tag { thread: Some(t), name });
    }

    /// A copy of a thread lands.
    pub fn lands(&mut self, issuer: u32, loc: Loc) {
        self.push(mix(line(loc), u64::from(issuer)), Tag { thread: None, name: "(lands)" });
    }

    /// A thread returns.
    pub fn exits(&mut self, t: u32) {
        let folded = std::mem::take(&mut self.folded[t as usize]);
        self.push(
            mix(mix(number("exit"), u64::from(t)), folded),
            Tag { thread: Some(t), name: "exit" },
        );
    }

    fn push(&mut self, hash: u64, tag: Tag) {
        self.open = Ok(self.record.word.len());
        self.record.word.push(hash);
        if self.probes().is_some() {
            self.record.tags.push(tag);
        }
    }

    /// An operand of the instruction in progress, or of the copy that lands.
    pub fn operand(&mut self, value: u64) {
        let hash = match self.open {
            Ok(event) => self.record.word.get_mut(event),
            Err(t) => self.folded.get_mut(t as usize),
        };
        if let Some(hash) = hash {
            *hash = mix(*hash, value);
        }
    }

    /// What threads did since their last events.
    pub fn folded(&self) -> &[u64] {
        &self.folded
    }

    /// Makes the mark that is due. `knowledge` gives the clocks, if they are wanted here.
    pub fn mark(&mut self, state: Vec<u64>, knowledge: impl FnOnce() -> Knowledge) {
        self.due = false;
        let at = self.record.word.len();
        if self.probes().is_some_and(|probes| probes.contains(&at)) {
            self.record.known.insert(at, knowledge());
        }
        if self.record.marks.last().is_none_or(|mark| mark.at != at) {
            self.record.marks.push(Mark { at, state });
        }
    }

    /// The cluster has ended well.
    pub fn hand_over<'a>(
        &mut self,
        kernel: &str,
        barriers: impl Iterator<Item = Option<(&'a str, u32)>>,
    ) {
        let mut record = std::mem::take(&mut self.record);
        kernel.clone_into(&mut record.kernel);
        for barrier in barriers {
            let (name, stage) = barrier.unwrap_or(("an unnamed barrier", 0));
            let stages = record.barriers.entry(name.to_owned()).or_default();
            *stages = (*stages).max(stage + 1);
        }
        self.recorder.put(self.place, record);
    }
}

fn starts(names: &[&str], name: &str) -> bool {
    names.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::Location;

    /// The word of a thread that executes these instructions, with an operand behind each.
    fn word(instructions: &[(&'static str, u32, u64)]) -> Vec<u64> {
        let recorder = Arc::new(Recorder::default());
        let mut watcher = Watcher::new(Arc::clone(&recorder), (0, 0), 2);
        let here = Location::caller();
        for &(name, arg, operand) in instructions {
            watcher.executes(1, name, arg, here);
            watcher.operand(operand);
        }
        watcher.hand_over("test", std::iter::empty());
        recorder.take().remove(&(0, 0)).unwrap().word
    }

    #[test]
    fn an_event_knows_its_operands_and_what_came_before_it() {
        let wait = ("mbarrier wait", 1024, 1);
        assert_eq!(word(&[wait, wait]).len(), 2);
        assert_ne!(word(&[wait]), word(&[("mbarrier wait", 1024, 0)]), "the parity");
        assert_ne!(word(&[wait]), word(&[("mbarrier wait", 1032, 1)]), "the barrier");
        // A load is part of the event behind it, by its address.
        let [a, b] = [1u32, 2].map(|addr| word(&[("ld.shared", addr, 0), wait]));
        assert!(a.len() == 1 && a != b && a != word(&[wait]), "{a:?} {b:?}");
    }
}
