//! The lines that accesses come from: a number for each thread at each line.

use crate::cluster::thread::Thread;
use crate::types::loc::Loc;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Who did it, with what instruction, at which line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub thread: u32,
    pub what: &'static str,
    pub loc: Loc,
    /// An atomic operation, which does not race with its like.
    pub strong: bool,
}

/// The numbers of the lines.
#[derive(Default)]
pub(crate) struct Sites {
    all: Vec<Site>,
    index: HashMap<(usize, u32, bool), u32, BuildHasherDefault<Mix>>,
    last: Option<((usize, u32, bool), u32)>,
}

impl Sites {
    /// The number of the line of the instruction that a thread executes.
    pub fn at(&mut self, thread: &Thread, strong: bool) -> u32 {
        self.of(Site { thread: thread.id, what: thread.op, loc: thread.line(), strong })
    }

    fn of(&mut self, site: Site) -> u32 {
        let key = (std::ptr::from_ref(site.loc) as usize, site.thread, site.strong);
        if let Some((last, i)) = self.last
            && last == key
        {
            return i;
        }
        let i = *self.index.entry(key).or_insert_with(|| {
            self.all.push(site);
            self.all.len() as u32 - 1
        });
        self.last = Some((key, i));
        i
    }

    pub fn get(&self, i: u32) -> Site {
        self.all[i as usize]
    }
}

/// A hash of few words, for keys that nobody chooses to collide.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(u64::from(b));
        }
    }
    fn write_u32(&mut self, v: u32) {
        self.write_u64(u64::from(v));
    }
    fn write_u64(&mut self, v: u64) {
        self.0 = (self.0.rotate_left(5) ^ v).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
    fn write_usize(&mut self, v: usize) {
        self.write_u64(v as u64);
    }
}
