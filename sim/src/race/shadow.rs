//! Who accessed each byte last.
//!
//! The shadow works in chunks of 16 bytes, as every asynchronous copy and wgmma does. A chunk that is
//! written and read as a whole has one record of the write and two of reads. A chunk of which parts were
//! accessed, or that many threads read, has a list instead, with a mask of bytes per entry. So two threads
//! that write neighbouring halves of a word do not clash. Chunks that were accessed together, like those of
//! a box's row, share one list.

use crate::finding::rule::Rule;
use crate::memory::shared::CHUNK;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// An access: what an agent did at a time of its clock. None while the time is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Access {
    pub agent: u32,
    pub time: u32,
    /// Which line did it: an index into the table of sites.
    pub site: u32,
}

impl Access {
    fn is(self) -> bool {
        self.time != 0
    }
}

/// Says whether an access may follow an older one.
pub(crate) trait Judge {
    /// The older one is a write.
    fn after_write(&self, old: Access) -> bool;
    /// The older one is a read, and this is a write.
    fn after_read(&self, old: Access) -> bool;
    /// This read makes the older one superfluous: what follows this one follows that one.
    fn replaces(&self, old: Access) -> bool;
    /// This access is strong: it need not follow other strong ones.
    fn is_strong(&self) -> bool {
        false
    }
    /// The older access is strong.
    fn was_strong(&self, _old: Access) -> bool {
        false
    }
    /// The older access is strong too, and this strong one follows it: what follows this one follows that one.
    fn hides(&self, _old: Access) -> bool {
        true
    }
}

/// Most accesses that are kept for a chunk beside a strong write: adds of many threads to one word.
const STRONG_WRITES: usize = 64;

/// Two accesses that nothing orders: the older one, whether it was a write, and the first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Clash {
    pub old: Access,
    pub write: bool,
    pub at: u32,
    /// Which rule that breaks; whoever judged fills it in.
    pub rule: Rule,
}

impl Clash {
    fn new(old: Access, write: bool, at: u32) -> Self {
        Self { old, write, at, rule: Rule::SharedRace }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Chunk {
    write: Access,
    reads: [Access; 2],
    /// Index + 1 of its list, which then replaces the others.
    list: u32,
}

impl Chunk {
    fn of_list(list: u32) -> Self {
        Self { list, ..Self::default() }
    }
}

#[derive(Clone, Copy)]
struct Entry {
    mask: u16,
    write: bool,
    access: Access,
}

/// What several chunks keep.
struct List {
    entries: Vec<Entry>,
    chunks: u32,
}

/// The last list that an access made anew: another chunk like `from` gets the same.
#[derive(Clone, Copy)]
struct Made {
    from: Chunk,
    mask: u16,
    new: Access,
    list: u32,
}

/// Room of a new list: a tile of a matrix is read by as many CTAs, or more.
const LIST: usize = 8;

/// The shadow of a range of memory, from offset 0.
pub(crate) struct Shadow {
    chunks: Vec<Chunk>,
    lists: Vec<List>,
    free: Vec<u32>,
    made: Option<Made>,
    /// Readers of a chunk that are remembered; the oldest are forgotten.
    readers: usize,
}

/// The chunks that a range of bytes touches, each with the mask of its bytes.
fn parts(range: &Range<u32>) -> impl Iterator<Item = (usize, u16)> + use<> {
    let range = range.clone();
    (range.start / CHUNK..range.end.div_ceil(CHUNK)).map(move |c| {
        let first = c * CHUNK;
        let from = range.start.max(first) - first;
        let to = range.end.min(first + CHUNK) - first;
        (c as usize, (((1u32 << (to - from)) - 1) << from) as u16)
    })
}

/// Chunks of shadows that are gone: memory that is asked for anew costs a page fault every 100 chunks.
static POOL: Mutex<Pool> = Mutex::new(Pool { spare: Vec::new(), chunks: 0 });

struct Pool {
    spare: Vec<Vec<Chunk>>,
    /// The room of all.
    chunks: usize,
}

/// The room that the pool has for chunks: 40 MiB.
const KEPT: usize = 1 << 20;

impl Pool {
    fn with<R>(f: impl FnOnce(&mut Self) -> R) -> R {
        f(&mut POOL.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// So many chunks that nobody has accessed.
    fn take(n: usize) -> Vec<Chunk> {
        let spare = Self::with(|pool| {
            // The last ones are those of the same kind, mostly.
            let at = pool.spare.iter().rposition(|s| s.capacity() >= n && s.capacity() <= 2 * n)?;
            let spare = pool.spare.swap_remove(at);
            pool.chunks -= spare.capacity();
            Some(spare)
        });
        let mut chunks = spare.unwrap_or_default();
        chunks.clear();
        chunks.resize(n, Chunk::default());
        chunks
    }

    fn give(chunks: Vec<Chunk>) {
        Self::with(|pool| {
            if pool.chunks + chunks.capacity() <= KEPT {
                pool.chunks += chunks.capacity();
                pool.spare.push(chunks);
            }
        });
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        Pool::give(std::mem::take(&mut self.chunks));
    }
}

impl Shadow {
    pub fn new(bytes: u32) -> Self {
        let chunks = Pool::take(bytes.div_ceil(CHUNK) as usize);
        Self { chunks, lists: Vec::new(), free: Vec::new(), made: None, readers: usize::MAX }
    }

    /// The same, which remembers no more than so many readers per chunk.
    pub fn with_readers(bytes: u32, readers: usize) -> Self {
        let mut shadow = Self::new(bytes);
        shadow.readers = readers;
        shadow
    }

    /// Reads a range: after its writes.
    pub fn read(
        &mut self,
        range: Range<u32>,
        new: Access,
        judge: &impl Judge,
    ) -> Result<(), Clash> {
        let mut good = Access::default();
        if range.start.is_multiple_of(CHUNK) && range.end == range.start + CHUNK {
            return self.read_chunk((range.start / CHUNK) as usize, new, judge, &mut good);
        }
        for (c, mask) in parts(&range) {
            if mask == u16::MAX {
                self.read_chunk(c, new, judge, &mut good)?;
            } else {
                self.read_part(c, mask, new, judge)?;
            }
        }
        Ok(())
    }

    /// Reads a whole chunk; `good` is a write that the reader is known to follow.
    #[inline]
    pub fn read_chunk(
        &mut self,
        c: usize,
        new: Access,
        judge: &impl Judge,
        good: &mut Access,
    ) -> Result<(), Clash> {
        let chunk = &mut self.chunks[c];
        if chunk.list != 0 {
            return self.read_part(c, u16::MAX, new, judge);
        }
        let w = chunk.write;
        if w != *good && w.is() {
            if !judge.after_write(w) {
                return Err(Clash::new(w, true, c as u32 * CHUNK));
            }
            *good = w;
        }
        let [a, b] = &mut chunk.reads;
        if a.agent == new.agent || !a.is() || (b.is() && judge.replaces(*a)) {
            *a = new;
        } else if b.agent == new.agent || !b.is() {
            *b = new;
        } else {
            return self.read_part(c, u16::MAX, new, judge);
        }
        Ok(())
    }

    /// Looks at a range as a reader that leaves no trace.
    pub fn look(&mut self, range: Range<u32>, judge: &impl Judge) -> Result<(), Clash> {
        for (c, mask) in parts(&range) {
            let chunk = self.chunks[c];
            let uniform = Entry { mask: u16::MAX, write: true, access: chunk.write };
            let entries = match chunk.list {
                0 => std::slice::from_ref(&uniform),
                i => &self.lists[i as usize - 1].entries,
            };
            for e in entries.iter().filter(|e| e.write && e.access.is()) {
                check(e, c, mask, judge)?;
            }
        }
        Ok(())
    }

    /// Writes a range: after its reads and writes.
    pub fn write(
        &mut self,
        range: Range<u32>,
        new: Access,
        judge: &impl Judge,
    ) -> Result<(), Clash> {
        self.ready(range.clone(), judge)?;
        if judge.is_strong() {
            // A later strong access need not follow this one. So older accesses stay that a weak access, or a strong one, still
            // has to follow.
            for (c, mask) in parts(&range) {
                let list = self.own_list(c);
                let list = &mut self.lists[list as usize - 1].entries;
                for e in list.iter_mut().filter(|e| judge.hides(e.access)) {
                    e.mask &= !mask;
                }
                list.retain(|e| e.mask != 0);
                if list.len() >= STRONG_WRITES {
                    list.remove(0);
                }
                put(list, Entry { mask, write: true, access: new });
            }
            return Ok(());
        }
        self.set(range, new);
        Ok(())
    }

    /// Whether a range may be written: after its reads and writes.
    pub fn ready(&mut self, range: Range<u32>, judge: &impl Judge) -> Result<(), Clash> {
        let mut good = [Access::default(); 3];
        let mut like = None;
        for (c, mask) in parts(&range) {
            let chunk = self.chunks[c];
            // Neighbours were mostly written and read together.
            if like.replace((chunk, mask)) == Some((chunk, mask)) {
                continue;
            }
            if chunk.list != 0 {
                for e in &self.lists[chunk.list as usize - 1].entries {
                    check(e, c, mask, judge)?;
                }
                continue;
            }
            let all = [chunk.write, chunk.reads[0], chunk.reads[1]];
            for (i, (&old, good)) in all.iter().zip(&mut good).enumerate() {
                if old == *good || !old.is() {
                    continue;
                }
                let fine = if i == 0 { judge.after_write(old) } else { judge.after_read(old) };
                if !fine {
                    let at = c as u32 * CHUNK + mask.trailing_zeros();
                    return Err(Clash::new(old, i == 0, at));
                }
                *good = old;
            }
        }
        Ok(())
    }

    /// Notes a write that is known to be in order.
    pub fn set(&mut self, range: Range<u32>, new: Access) {
        for (c, mask) in parts(&range) {
            if mask == u16::MAX {
                let whole = Chunk { write: new, ..Chunk::default() };
                let before = std::mem::replace(&mut self.chunks[c], whole);
                self.leave(before.list);
                continue;
            }
            let list = self.own_list(c);
            let list = &mut self.lists[list as usize - 1].entries;
            for e in list.iter_mut() {
                e.mask &= !mask;
            }
            list.retain(|e| e.mask != 0);
            put(list, Entry { mask, write: true, access: new });
        }
    }

    fn read_part(
        &mut self,
        c: usize,
        mask: u16,
        new: Access,
        judge: &impl Judge,
    ) -> Result<(), Clash> {
        let from = self.chunks[c];
        if let Some(made) = self.made
            && (made.from, made.mask, made.new) == (from, mask, new)
        {
            self.lists[made.list as usize - 1].chunks += 1;
            self.chunks[c] = Chunk::of_list(made.list);
            self.leave(from.list);
            return Ok(());
        }
        let readers = self.readers;
        let own = self.own_list(c);
        let list = &mut self.lists[own as usize - 1].entries;
        let replaced = |e: &Entry| {
            !e.write
                && e.mask & !mask == 0
                && (e.access.agent == new.agent || judge.replaces(e.access))
                && (!judge.is_strong() || judge.was_strong(e.access))
        };
        list.iter().filter(|e| e.write).try_for_each(|e| check(e, c, mask, judge))?;
        list.retain(|e| !replaced(e));
        if list.len() >= readers
            && let Some(oldest) = list.iter().position(|e| !e.write)
        {
            list.remove(oldest);
        }
        let entry = Entry { mask, write: false, access: new };
        if mask == u16::MAX {
            // The same access's, if there was one, has been replaced.
            list.push(entry);
        } else {
            put(list, entry);
        }
        if own != from.list {
            self.made = Some(Made { from, mask, new, list: own });
        }
        Ok(())
    }

    /// A list that this chunk alone has, with what it keeps.
    fn own_list(&mut self, c: usize) -> u32 {
        let chunk = self.chunks[c];
        if chunk.list != 0 && self.lists[chunk.list as usize - 1].chunks == 1 {
            self.forget(chunk.list);
            return chunk.list;
        }
        let own = self.free.pop().unwrap_or_else(|| {
            self.lists.push(List { entries: Vec::with_capacity(LIST), chunks: 0 });
            self.lists.len() as u32
        });
        let mut entries = std::mem::take(&mut self.lists[own as usize - 1].entries);
        if chunk.list == 0 {
            let accesses = [chunk.write, chunk.reads[0], chunk.reads[1]].into_iter().enumerate();
            let known = accesses.filter(|(_, access)| access.is());
            entries.extend(known.map(|(i, access)| Entry {
                mask: u16::MAX,
                write: i == 0,
                access,
            }));
        } else {
            entries.extend_from_slice(&self.lists[chunk.list as usize - 1].entries);
            self.leave(chunk.list);
        }
        self.lists[own as usize - 1] = List { entries, chunks: 1 };
        self.chunks[c] = Chunk::of_list(own);
        own
    }

    /// A chunk has another list from here on, or none.
    fn leave(&mut self, list: u32) {
        if list == 0 {
            return;
        }
        let left = &mut self.lists[list as usize - 1];
        left.chunks -= 1;
        if left.chunks == 0 {
            left.entries.clear();
            self.free.push(list);
            self.forget(list);
        }
    }

    /// A list changes: no other chunk gets it.
    fn forget(&mut self, list: u32) {
        self.made = self.made.filter(|made| made.list != list && made.from.list != list);
    }
}

/// Adds to an entry of the same access, or a new one.
fn put(list: &mut Vec<Entry>, new: Entry) {
    match list.iter_mut().find(|e| e.access == new.access && e.write == new.write) {
        Some(e) => e.mask |= new.mask,
        None => list.push(new),
    }
}

fn check(e: &Entry, chunk: usize, mask: u16, judge: &impl Judge) -> Result<(), Clash> {
    let both = e.mask & mask;
    if both == 0 {
        return Ok(());
    }
    let fine = if e.write { judge.after_write(e.access) } else { judge.after_read(e.access) };
    if fine {
        return Ok(());
    }
    let at = chunk as u32 * CHUNK + both.trailing_zeros();
    Err(Clash::new(e.access, e.write, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows whatever the same agent did, and nothing else.
    struct Same(u32);
    impl Judge for Same {
        fn after_write(&self, old: Access) -> bool {
            old.agent == self.0
        }
        fn after_read(&self, old: Access) -> bool {
            old.agent == self.0
        }
        fn replaces(&self, old: Access) -> bool {
            old.agent == self.0
        }
    }

    fn by(agent: u32) -> Access {
        Access { agent, time: 1, site: 0 }
    }

    #[test]
    fn bytes_are_told_apart() {
        let mut s = Shadow::new(64);
        s.write(2..4, by(1), &Same(1)).unwrap();
        s.write(4..6, by(2), &Same(2)).unwrap();
        s.read(2..4, by(1), &Same(1)).unwrap();
        assert_eq!(s.read(2..5, by(1), &Same(1)).unwrap_err(), Clash::new(by(2), true, 4));
        s.write(0..2, by(3), &Same(3)).unwrap();
        assert_eq!(s.write(3..4, by(3), &Same(3)).unwrap_err().at, 3);
    }

    #[test]
    fn whole_chunks_and_parts_of_them() {
        let mut s = Shadow::new(64);
        s.write(0..48, by(1), &Same(1)).unwrap();
        assert_eq!(s.read(20..24, by(2), &Same(2)).unwrap_err().at, 20);
        s.write(20..24, by(1), &Same(1)).unwrap();
        s.set(0..64, by(2));
        s.read(16..32, by(2), &Same(2)).unwrap();
        assert_eq!(s.ready(0..64, &Same(1)).unwrap_err().at, 0);
    }

    #[test]
    fn many_readers_are_all_remembered() {
        let mut s = Shadow::new(16);
        for agent in 1..6 {
            s.read(0..16, by(agent), &Same(agent)).unwrap();
            s.read(0..16, by(agent), &Same(agent)).unwrap();
        }
        for agent in 1..6 {
            let clash = s.ready(0..16, &Same(agent)).unwrap_err();
            assert!(!clash.write && clash.old.agent != agent);
        }
        assert_eq!(s.lists[0].entries.len(), 5, "one entry per reader");
    }

    /// Chunks that share a list go on as if each had its own.
    #[test]
    fn chunks_that_were_read_together_share_a_list() {
        let mut s = Shadow::new(64);
        for agent in 1..5 {
            s.read(0..64, by(agent), &Same(agent)).unwrap();
        }
        assert_eq!(s.lists.iter().filter(|l| l.chunks > 0).count(), 1);
        s.read(16..32, by(9), &Same(9)).unwrap();
        s.read(4..8, by(8), &Same(8)).unwrap();
        s.set(32..48, by(7));
        let readers = |s: &Shadow, c: usize| {
            let list = s.chunks[c].list as usize;
            let entries = s.lists[list - 1].entries.iter().filter(|e| !e.write);
            entries.map(|e| e.access.agent).collect::<Vec<_>>()
        };
        assert_eq!(readers(&s, 0), [1, 2, 3, 4, 8]);
        assert_eq!(readers(&s, 1), [1, 2, 3, 4, 9]);
        assert_eq!(s.chunks[2], Chunk { write: by(7), ..Chunk::default() });
        assert_eq!(readers(&s, 3), [1, 2, 3, 4]);
        s.set(0..64, by(7));
        assert!(s.lists.iter().all(|l| l.chunks == 0 && l.entries.is_empty()));
        assert_eq!(s.free.len(), s.lists.len());
    }
}
