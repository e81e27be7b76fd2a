//! The lines that accesses come from: a number for each thread at each line.

use crate::cluster::thread::Thread;
use crate::types::hash::ByMix;
use crate::types::loc::Loc;
use std::collections::HashMap;

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
    index: HashMap<(usize, u32, bool), u32, ByMix>,
    last: Option<((usize, u32, bool), u32)>,
}

impl Sites {
    /// The number of the line of the instruction that a thread executes.
    #[inline]
    pub fn at(&mut self, thread: &Thread, strong: bool) -> u32 {
        self.of(Site { thread: thread.id, what: thread.op, loc: thread.line(), strong })
    }

    #[inline]
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
