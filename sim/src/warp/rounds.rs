//! The `setmaxnreg`s of warp groups: all warps of a group execute the same ones, and meet in between.
//!
//! PTX manual, *setmaxnreg*: the same instruction is executed by all warps of a warp group, and these
//! synchronise before they execute the next one. A group of which the CTA has fewer than four warps
//! is taken to consist of these; the manual does not mention it.

use crate::cluster::shape::Shape;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::types::loc::Loc;

/// What the warps of a group execute together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    /// Registers per thread.
    pub n: u32,
    /// `inc`, or `dec`.
    pub more: bool,
}

impl Request {
    fn words(self) -> String {
        format!("setmaxnreg.{} {}", if self.more { "inc" } else { "dec" }, self.n)
    }
}

/// A warp of a group.
#[derive(Clone, Default)]
struct Member {
    /// How many it has executed.
    executed: u32,
    exited: bool,
    /// When its lanes executed the last one, as the race detector counts.
    times: Vec<u32>,
}

/// A warp group.
#[derive(Clone, Default)]
struct Group {
    /// The warps of it that the CTA has.
    members: Vec<Member>,
    /// How many some warp has executed, and the last.
    round: u32,
    last: Option<(Request, Loc)>,
}

/// The warp groups of a cluster.
pub(crate) struct Rounds {
    per_cta: u32,
    /// By CTA.
    groups: Vec<Vec<Group>>,
}

impl Rounds {
    pub fn new(shape: &Shape) -> Self {
        let warps = shape.warps_per_cta();
        let group = |g: u32| Group {
            members: vec![Member::default(); (warps - 4 * g).min(4) as usize],
            ..Group::default()
        };
        let cta: Vec<Group> = (0..warps.div_ceil(4)).map(group).collect();
        Self { per_cta: warps, groups: vec![cta; shape.ctas() as usize] }
    }

    /// The group of a warp of the cluster, and the warp's place there.
    fn of(&mut self, warp: usize) -> (&mut Group, usize) {
        let (warp, per_cta) = (warp as u32, self.per_cta);
        let (cta, index) = (warp / per_cta, warp % per_cta);
        (&mut self.groups[cta as usize][(index / 4) as usize], (index % 4) as usize)
    }

    /// A warp executes a `setmaxnreg`. `times` says when, for each of its lanes; `knows`, whether it
    /// knows what lane `l` of warp `i` of its group did at a time.
    pub fn execute(
        &mut self,
        warp: usize,
        (request, loc): (Request, Loc),
        times: Vec<u32>,
        knows: impl Fn(usize, usize, u32) -> bool,
    ) -> Result<(), Fault> {
        let (group, me) = self.of(warp);
        let wrong = |message: String| Err(Fault::new(Rule::Registers, message));
        let name = request.words();
        let mine = group.members[me].executed;
        if let Some(gone) = group.members.iter().position(|m| m.exited && m.executed <= mine) {
            return wrong(format!(
                "warp {me} of its group executes {name}, and warp {gone} of the group has returned \
                 without it: all warps of a warp group execute the same setmaxnreg"
            ));
        }
        if mine < group.round {
            // Others have executed it already.
            if let Some((other, at)) = group.last
                && other != request
            {
                return wrong(format!(
                    "warp {me} of its group executes {name} where others executed {}: all warps of \
                     a warp group execute the same setmaxnreg",
                    other.words()
                ))
                .map_err(|fault: Fault| fault.against("the other setmaxnreg", at));
            }
        } else if let Some((_, at)) = group.last {
            let round = group.round;
            let behind = group.members.iter().position(|m| m.executed < round);
            let apart = group.members.iter().enumerate().position(|(i, m)| {
                i != me
                    && !m.times.is_empty()
                    && !(0..m.times.len()).any(|l| knows(i, l, m.times[l]))
            });
            if let Some(other) = behind.or(apart) {
                return wrong(format!(
                    "warp {me} of its group executes {name}, its next setmaxnreg, and nothing made \
                     it wait for warp {other} of the group to execute the one before: the warps of \
                     a group synchronise between two setmaxnregs"
                ))
                .map_err(|fault: Fault| fault.against("the setmaxnreg before", at));
            }
        }
        let member = &mut group.members[me];
        member.executed += 1;
        member.times = times;
        if member.executed > group.round {
            group.round = member.executed;
            group.last = Some((request, loc));
        }
        Ok(())
    }

    /// The protocol state: which warps have yet to execute the last one, and what it was.
    pub fn protocol(&self, f: &mut impl FnMut(u64)) {
        for group in self.groups.iter().flatten() {
            let Some((request, loc)) = group.last else { continue };
            f(u64::from(loc.line()) << 32 | u64::from(request.n) << 1 | u64::from(request.more));
            for m in &group.members {
                let behind = u64::from(group.round - m.executed);
                f(behind << 2 | u64::from(m.exited) << 1 | u64::from(m.times.is_empty()));
            }
        }
    }

    /// All warps of a group come to a wgmma: each has executed the same `setmaxnreg`s, or will never.
    pub fn together(&mut self, warp: usize) -> Result<(), Fault> {
        let (group, _) = self.of(warp);
        let round = group.round;
        let behind = group.members.iter().position(|m| m.executed < round);
        behind.map_or(Ok(()), |w| group.left_out(w, "executes wgmma"))
    }

    /// A warp has returned.
    pub fn exit(&mut self, warp: usize) -> Result<(), Fault> {
        let (group, me) = self.of(warp);
        group.members[me].exited = true;
        if group.members[me].executed < group.round {
            return group.left_out(me, "returns");
        }
        Ok(())
    }

    /// All threads of the cluster have met, without telling each other of their memory accesses.
    pub fn all_met(&mut self) {
        for member in self.groups.iter_mut().flatten().flat_map(|g| &mut g.members) {
            member.times.clear();
        }
    }
}

impl Group {
    fn left_out(&self, w: usize, does: &str) -> Result<(), Fault> {
        let Some((request, at)) = self.last else { return Ok(()) };
        let came = self.members.iter().filter(|m| m.executed == self.round).count();
        let (name, all) = (request.words(), self.members.len());
        Err(Fault::new(
            Rule::Registers,
            format!(
                "warp {w} of its group {does} without {name}, which {came} of the group's {all} warps \
                 executed: all warps of a warp group execute the same setmaxnreg"
            ),
        )
        .against("their setmaxnreg", at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::grid::Grid;
    use std::panic::Location;

    fn rounds(threads: u32) -> Rounds {
        let grid = Grid {
            grid: [1; 3],
            block: [threads, 1, 1],
            cluster: [1; 3],
            min_ctas: 1,
            smem_bytes: 0,
            name: "",
        };
        Rounds::new(&Shape::new(&grid, 0, 1))
    }

    const LESS: Request = Request { n: 40, more: false };
    const MORE: Request = Request { n: 232, more: true };

    #[test]
    fn warps_that_know_of_each_other_may_go_on() {
        let here = Location::caller();
        let mut r = rounds(160);
        for w in 0..4 {
            r.execute(w, (LESS, here), vec![1; 32], |_, _, _| true).unwrap();
        }
        r.together(0).unwrap();
        r.execute(4, (LESS, here), vec![1; 32], |_, _, _| true).unwrap();
        let unknown = r.execute(0, (MORE, here), vec![2; 32], |i, _, _| i != 2).unwrap_err();
        assert!(unknown.rule == Rule::Registers && unknown.message.contains("wait for warp 2"));
        r.execute(0, (MORE, here), vec![2; 32], |_, l, time| l == 5 && time == 1).unwrap();
        assert!(r.together(1).is_err(), "warp 1 has not come");
        r.execute(1, (MORE, here), vec![2; 32], |_, _, _| false).unwrap();
        r.execute(2, (LESS, here), vec![2; 32], |_, _, _| true).unwrap_err();
        r.exit(3).unwrap_err();
        r.exit(4).unwrap();
    }

    #[test]
    fn a_cluster_barrier_is_enough() {
        let here = Location::caller();
        let mut r = rounds(128);
        for w in 0..4 {
            r.execute(w, (LESS, here), vec![1; 32], |_, _, _| false).unwrap();
        }
        r.all_met();
        r.execute(3, (MORE, here), vec![1; 32], |_, _, _| false).unwrap();
    }
}
