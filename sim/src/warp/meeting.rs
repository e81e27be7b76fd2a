//! The meeting of a warp's lanes: each gives a value and an operand, and gets a result.

use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::types::loc::Loc;
use crate::types::scope::Scope;

/// What the lanes of a warp do together when all have come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meet {
    Sync,
    Elect,
    ShflIdx,
    ShflXor,
    ShflUp,
    ShflDown,
    Ballot,
    /// `redux.sync.max.u32`
    Max,
    LdMatrix {
        n: u8,
        trans: bool,
    },
    StMatrix {
        n: u8,
        trans: bool,
    },
    Registers {
        n: u32,
        more: bool,
    },
    /// `tensormap.cp_fenceproxy`
    MapCopy {
        scope: Scope,
    },
    /// `tcgen05.alloc`: so many columns; the operand is where their address is written.
    TensorAlloc {
        columns: u32,
        pair: bool,
    },
    /// `tcgen05.dealloc`
    TensorFree {
        address: u32,
        columns: u32,
        pair: bool,
    },
    /// `tcgen05.relinquish_alloc_permit`
    TensorPermit {
        pair: bool,
    },
}

/// The lanes that wait for the rest of their warp, and what the last meeting gave.
pub(crate) struct Meeting {
    come: u32,
    meet: Option<(Meet, Loc)>,
    pub given: [[u32; 4]; 32],
    pub operand: [u32; 32],
    pub result: [[u32; 4]; 32],
    /// `bar.warp.sync` with part of the warp: the mask, and who has come.
    partial: Vec<(u32, u32)>,
}

impl Meeting {
    pub fn new() -> Self {
        Self {
            come: 0,
            meet: None,
            given: [[0; 4]; 32],
            operand: [0; 32],
            result: [[0; 4]; 32],
            partial: Vec::new(),
        }
    }

    /// A lane comes; whether it is the last of `lanes`, after which the next meeting begins.
    pub fn come(
        &mut self,
        lane: usize,
        (meet, loc): (Meet, Loc),
        (value, operand): ([u32; 4], u32),
        lanes: u32,
    ) -> Result<bool, Fault> {
        // The line and the name agree, by the log; what the instruction does must agree as well.
        match self.meet {
            Some((other, at)) if other != meet => {
                let message = format!("lanes of a warp execute {meet:?} and {other:?}");
                return Err(Fault::new(Rule::Diverged, message).against("the other", at));
            }
            Some(_) => {}
            None => self.meet = Some((meet, loc)),
        }
        self.given[lane] = value;
        self.operand[lane] = operand;
        self.come |= 1 << lane;
        let all = self.come == lanes;
        if all {
            self.come = 0;
            self.meet = None;
        }
        Ok(all)
    }

    /// Tells a lane that it is elected, and the others that they are not.
    pub fn elect(&mut self, leader: u32) {
        for (lane, result) in (0..).zip(&mut self.result) {
            result[0] = u32::from(lane == leader);
        }
    }

    /// Computes the results of a meeting that exchanges values.
    pub fn exchange(&mut self, meet: Meet, lanes: u32) {
        exchange(meet, lanes, self);
    }

    /// The protocol state: who has come.
    pub fn protocol(&self, f: &mut impl FnMut(u64)) {
        f(u64::from(self.come));
        let mut partial = self.partial.clone();
        partial.sort_unstable();
        for (mask, come) in partial {
            f(u64::from(mask) << 32 | u64::from(come));
        }
    }

    /// A lane comes to `bar.warp.sync` with a mask that it is in; whether it is the last.
    pub fn come_partly(&mut self, lane: u32, mask: u32) -> bool {
        let i = self.partial.iter().position(|p| p.0 == mask).unwrap_or_else(|| {
            self.partial.push((mask, 0));
            self.partial.len() - 1
        });
        self.partial[i].1 |= 1 << lane;
        let all = self.partial[i].1 == mask;
        if all {
            self.partial.swap_remove(i);
        }
        all
    }
}

/// What the lanes get from each other.
fn exchange(meet: Meet, lanes: u32, g: &mut Meeting) {
    let ballot =
        (0..32).filter(|&l| lanes >> l & 1 == 1 && g.given[l][0] != 0).fold(0, |b, l| b | 1 << l);
    let max = (0..32).filter(|&l| lanes >> l & 1 == 1).map(|l| g.given[l][0]).max().unwrap_or(0);
    for lane in 0..32usize {
        let own = g.given[lane][0];
        let arg = g.operand[lane] as usize;
        // PTX manual, shfl.sync: outside the segment a lane gets its own value.
        let from = |l: Option<usize>| match l {
            Some(l) if l < 32 && lanes >> l & 1 == 1 => g.given[l][0],
            _ => own,
        };
        g.result[lane][0] = match meet {
            Meet::ShflIdx => from(Some(arg & 31)),
            Meet::ShflXor => from(Some(lane ^ arg & 31)),
            Meet::ShflUp => from(lane.checked_sub(arg & 31)),
            Meet::ShflDown => from(Some(lane + (arg & 31))),
            Meet::Ballot => ballot,
            Meet::Max => max,
            _ => 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::Location;

    fn all(meet: Meet, lanes: u32, operand: impl Fn(usize) -> u32) -> Meeting {
        let mut m = Meeting::new();
        let here = Location::caller();
        let mut last = false;
        for l in (0..32).filter(|l| lanes >> l & 1 == 1) {
            last = m.come(l, (meet, here), ([l as u32 + 100, 0, 0, 0], operand(l)), lanes).unwrap();
        }
        assert!(last);
        m.exchange(meet, lanes);
        m
    }

    #[test]
    fn lanes_get_each_others_values() {
        let m = all(Meet::ShflXor, u32::MAX, |_| 1);
        assert_eq!([m.result[0][0], m.result[1][0]], [101, 100]);
        let m = all(Meet::ShflUp, u32::MAX, |_| 4);
        assert_eq!([m.result[3][0], m.result[4][0]], [103, 100], "the own value at the edge");
        let m = all(Meet::Max, 0b1100, |_| 0);
        assert_eq!([m.result[2][0], m.result[3][0]], [103, 103]);
        let mut m = all(Meet::Elect, 0b1100, |_| 0);
        m.elect(3);
        assert_eq!([m.result[2][0], m.result[3][0]], [0, 1]);
    }

    #[test]
    fn a_meeting_does_one_thing() {
        let mut m = Meeting::new();
        let here = Location::caller();
        assert!(!m.come(0, (Meet::Ballot, here), ([0; 4], 0), 3).unwrap());
        let other = m.come(1, (Meet::Elect, here), ([0; 4], 0), 3);
        assert_eq!(other.unwrap_err().rule, Rule::Diverged);
        assert!(!m.come_partly(4, 0b11_0000) && m.come_partly(5, 0b11_0000));
    }
}
