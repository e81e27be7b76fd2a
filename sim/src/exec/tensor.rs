//! Tensor memory: allocation, commits, loads and stores, and the order that its uses need.

use super::{bulk, mbarrier};
use crate::cluster::ctas::ranked;
use crate::copy::check;
use crate::copy::flight::Kind;
use crate::engine::cluster::Engine;
use crate::exec::given::given;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::race::tensor::{Lack, TensorClash, Uses};
use crate::tensor::memory::{COLUMNS, LANES, split};
use crate::types::loc::Loc;
use crate::walk::guide::{self, GLOBAL};
use std::ops::Range;

/// Checks an `.aligned` instruction against the rest of the warp.
fn aligned(e: &mut Engine, t: u32, name: &'static str) -> Result<(), Fault> {
    let (lane, line) = (e.hw.thread(t).lane(), e.hw.line(t));
    e.hw.warp_mut(t).execute(lane, name, line)
}

/// `tcgen05.alloc` by a whole warp: writes the address to shared memory.
pub(crate) fn alloc(e: &mut Engine, t: u32, to: u32, columns: u32) -> Result<(), Fault> {
    let line = e.hw.line(t);
    e.hw.pairs.group(false, "tcgen05.alloc", line)?;
    alloc_at(e, t, (to, columns), line)?;
    e.progress();
    Ok(())
}

/// The allocation in one CTA, by a warp that a thread stands for; gives the address.
pub(crate) fn alloc_at(
    e: &mut Engine,
    t: u32,
    (to, columns): (u32, u32),
    line: Loc,
) -> Result<u32, Fault> {
    let (cta, to) = e.hw.own(t, to, 4)?;
    // The order of allocations decides their addresses.
    e.guided(|guide| guide.touch(GLOBAL, guide::columns(cta), 1, true));
    let address = e.hw.tensor[cta].alloc(columns, line)?;
    e.edge(|race| race.tensor_fresh(cta, &(address..address + columns)));
    match e.hw.smem[cta].write(to, 4) {
        Ok(bytes) => bytes.copy_from_slice(&address.to_le_bytes()),
        Err(c) => return Err(e.hw.conflict(cta, c)),
    }
    e.checked(t, |race, thread| race.store(thread, (cta, to, 4), false))?;
    Ok(address)
}

/// `tcgen05.dealloc` by a whole warp.
pub(crate) fn free(e: &mut Engine, t: u32, address: u32, columns: u32) -> Result<(), Fault> {
    let cta = e.hw.thread(t).cta;
    let line = e.hw.line(t);
    e.hw.pairs.group(false, "tcgen05.dealloc", line)?;
    e.guided(|guide| guide.touch(GLOBAL, guide::columns(cta), 1, true));
    let columns = e.hw.tensor[cta].free(address, columns, line)?;
    e.progress();
    ordered(e, (t, cta), 0..LANES, columns, Uses::Free, 0)
}

/// Asks the race detector about an access of a thread to a CTA's tensor memory.
pub(crate) fn ordered(
    e: &mut Engine,
    (t, cta): (u32, usize),
    lanes: Range<u32>,
    columns: Range<u32>,
    uses: Uses,
    commit: u64,
) -> Result<(), Fault> {
    let mut found = Ok(());
    e.told(t, |race, thread| found = race.tensor((thread, cta), (lanes, columns), uses, commit));
    found.map_err(|clash| explain(e, (t, cta), uses, &clash))
}

/// The fault of two accesses that nothing orders.
fn explain(e: &Engine, (t, cta): (u32, usize), uses: Uses, clash: &TensorClash) -> Fault {
    let who = e.hw.thread(t).place();
    let op = e.hw.thread(t).op;
    let whose = if cta == e.hw.thread(t).cta { String::new() } else { format!(" of CTA {cta}") };
    let at = format!("lane {}, column {} of tensor memory{whose}", clash.lane, clash.column);
    let Some(old) = clash.old else {
        let message = format!("{who} reads ({op}) {at}, which nothing has written");
        return Fault::new(Rule::TensorUnwritten, message);
    };
    let does = match uses {
        Uses::Load => "reads",
        Uses::Free => "frees",
        _ => "writes",
    };
    let did = if clash.old_writes { "wrote" } else { "read" };
    let other = e.hw.thread(old.thread).place();
    let (rule, why) = match (clash.lack, clash.old_multiplies) {
        (Lack::After, _) => (
            Rule::TensorFence,
            format!(
                "the two are ordered, but no tcgen05.fence::after_thread_sync of {who} stands between its \
                 synchronisation and this"
            ),
        ),
        (Lack::Before, _) => (
            Rule::TensorFence,
            format!(
                "the two are ordered, but no tcgen05.fence::before_thread_sync of {other}, after its tcgen05.wait, \
                 stands between that and its synchronisation"
            ),
        ),
        (_, true) => (
            Rule::TensorRace,
            format!(
                "{who} has neither waited for the mbarrier of a tcgen05.commit that covers it, nor synchronised with a \
                 thread that has"
            ),
        ),
        _ => (Rule::TensorRace, format!("{who} has not synchronised with {other} since")),
    };
    let message = format!("{who} {does} ({op}) what {other} {did} ({}) at {at}; {why}", old.what);
    Fault::new(rule, message).against(format!("{} by {other}", old.what), old.loc)
}

/// A thread's own load or store that it has not waited for.
pub(crate) fn own(e: &Engine, t: u32, columns: &Range<u32>, stores: bool) -> Result<(), Fault> {
    let Some(loc) = e.hw.umma.own(t, columns, stores) else { return Ok(()) };
    let (what, wait) = if stores { ("tcgen05.st", "wait::st") } else { ("tcgen05.ld", "wait::ld") };
    let (first, last) = (columns.start, columns.end - 1);
    let message = format!(
        "{} accesses ({}) columns {first} to {last} of tensor memory, of which its own {what} is not over: no \
         tcgen05.{wait} stands between",
        e.hw.thread(t).place(),
        e.hw.thread(t).op
    );
    Err(Fault::new(Rule::TensorRace, message).against(format!("the {what}"), loc))
}

/// `tcgen05.commit`, in each CTA of `mask` for a multicast: its arrivals come later.
pub(crate) fn commit(
    e: &mut Engine,
    t: u32,
    bar: u32,
    (mask, pair): (Option<u16>, bool),
) -> Result<(), Fault> {
    let line = e.hw.line(t);
    e.hw.pairs.group(pair, "tcgen05.commit", line)?;
    let (cta, at) = e.hw.own(t, bar, 8)?;
    let ctas = e.hw.ctas.len();
    if let Some(mask) = mask {
        check::multicast(mask, ctas)?;
        e.operands(|| [u64::from(mask)]);
    }
    let to = mask.unwrap_or(1 << cta);
    let mut bars = Vec::new();
    for rank in (0..ctas).filter(|rank| to >> rank & 1 == 1) {
        let bar = if mask.is_some() {
            // The same offset in each destination; each must be there.
            e.guided(|guide| guide.visit(rank));
            e.hw.remote_bar(t, ranked(at, rank as u32))?
        } else {
            e.hw.own_bar(t, bar)?
        };
        e.checked(t, |race, _| {
            race.uses(t, bar, true)?;
            race.will_complete(t, bar);
            race.umma_commits(t, bar);
            Ok(())
        })?;
        bars.push((rank, bar));
    }
    let commit = e.hw.umma.commit(t);
    for (cta, bar) in bars {
        bulk::start(e, t, Kind::Commit { cta, bar, commit });
    }
    Ok(())
}

/// The multiplications up to a commit have completed: its arrival.
pub(crate) fn completes(
    e: &mut Engine,
    (t, cta): (u32, usize),
    (bar, commit): (usize, u64),
    loc: Loc,
) -> Result<(), Fault> {
    if !e.hw.ctas.lives(cta) {
        let message = format!("a tcgen05.commit arrives in CTA {cta}, which has exited");
        return Err(Fault::new(Rule::PeerGone, message));
    }
    let (umma, smem) = (&mut e.hw.umma, &mut e.hw.smem);
    umma.retire(t, commit, |cta, addr| smem[cta].end_read(addr, 16));
    e.edge(|race| race.umma_completes(t, bar, commit));
    mbarrier::arrive_for(e, t, bar, loc)
}

/// The lanes of a warp's access: `rows` from the address's lane on must lie in the 32 that the warp owns.
fn lanes(e: &Engine, t: u32, lane: u32, rows: u32) -> Result<(), Fault> {
    let warp = e.hw.thread(t).index / 32;
    let own = 32 * (warp % 4);
    let fits = lane >= own && lane + rows <= own + 32 && lane.is_multiple_of(16);
    if fits && (rows == 16 || lane == own) {
        return Ok(());
    }
    let message = format!(
        "warp {warp} accesses lanes {lane} to {}: it owns lanes {own} to {}, those from 32 * (warp % 4) on",
        lane + rows - 1,
        own + 31
    );
    Err(Fault::new(Rule::TensorLanes, message))
}

/// The words of a thread in a load or store: lane and column of each register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// `.32x32b`: the registers are columns of the thread's lane.
    Lanes,
    /// `.16x64b`: in two columns, a register of all threads.
    Quarters,
    /// `.16x128b`: in four columns, two registers, of the rows 0 to 7 and 8 to 15.
    Rows,
    /// `.16x256b`: in eight columns, four registers: fragments.
    Fragments,
    /// `.16x32bx2`: the registers are columns of a lane; those of the warp's second half begin at a column of their own.
    Halves(u32),
}

impl Form {
    fn word(self, lane: u32, i: u32) -> (u32, u32) {
        match self {
            Self::Lanes => (lane, i),
            Self::Quarters => (lane / 4 + 8 * (lane % 2), 2 * i + lane / 2 % 2),
            Self::Rows => (lane / 4 + 8 * (i % 2), 4 * (i / 2) + lane % 4),
            Self::Fragments => (lane / 4 + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * (lane % 4) + i % 2),
            Self::Halves(second) => (lane % 16, i + lane / 16 * second),
        }
    }
    fn rows(self) -> u32 {
        if self == Self::Lanes { 32 } else { 16 }
    }
    /// Columns that `registers` registers of each thread take, with those between them.
    fn columns(self, registers: u32) -> u32 {
        match self {
            Self::Lanes => registers,
            Self::Halves(second) => registers.saturating_add(second),
            _ => 2 * registers,
        }
    }
}

/// Checks a load or store of `registers` registers; gives its first lane and its columns.
fn place(
    e: &mut Engine,
    t: u32,
    name: &'static str,
    address: u32,
    (form, registers): (Form, u32),
) -> Result<(u32, Range<u32>), Fault> {
    aligned(e, t, name)?;
    e.operands(|| [u64::from(address)]);
    let (lane, first) = split(address);
    lanes(e, t, lane, form.rows())?;
    let columns = first..first.saturating_add(form.columns(registers)).min(COLUMNS + 1);
    e.hw.tensor[e.hw.thread(t).cta].check(&columns)?;
    Ok((lane, columns))
}

/// `tcgen05.ld`: fills registers with patterns.
pub(crate) fn load(
    e: &mut Engine,
    t: u32,
    address: u32,
    form: Form,
    regs: &mut [u32],
) -> Result<(), Fault> {
    let (lane, columns) = place(e, t, "tcgen05.ld", address, (form, regs.len() as u32))?;
    own(e, t, &columns, true)?;
    let (cta, in_warp) = (e.hw.thread(t).cta, e.hw.thread(t).lane());
    let mut values = Vec::with_capacity(regs.len());
    for i in 0..regs.len() as u32 {
        let (row, column) = form.word(in_warp, i);
        let (row, column) = (lane + row, columns.start + column);
        ordered(e, (t, cta), row..row + 1, column..column + 1, Uses::Load, 0)?;
        values.push(*e.hw.tensor[cta].word(row, column));
    }
    let line = e.hw.line(t);
    regs.copy_from_slice(&e.hw.umma.load(t, values, columns, line));
    Ok(())
}

/// `tcgen05.st`
pub(crate) fn store(
    e: &mut Engine,
    t: u32,
    address: u32,
    form: Form,
    regs: &[u32],
) -> Result<(), Fault> {
    let (lane, columns) = place(e, t, "tcgen05.st", address, (form, regs.len() as u32))?;
    own(e, t, &columns, false)?;
    let (cta, in_warp) = (e.hw.thread(t).cta, e.hw.thread(t).lane());
    for (i, &value) in (0..).zip(regs) {
        given(e, t, value)?;
        let (row, column) = form.word(in_warp, i);
        let (row, column) = (lane + row, columns.start + column);
        ordered(e, (t, cta), row..row + 1, column..column + 1, Uses::Store, 0)?;
        *e.hw.tensor[cta].word(row, column) = value;
    }
    let line = e.hw.line(t);
    e.hw.umma.store(t, columns, line);
    Ok(())
}

/// `tcgen05.wait::ld`, or `wait::st`
pub(crate) fn wait(e: &mut Engine, t: u32, stores: bool) -> Result<(), Fault> {
    aligned(e, t, if stores { "tcgen05.wait::st" } else { "tcgen05.wait::ld" })?;
    if stores {
        e.hw.umma.wait_st(t);
    } else {
        e.hw.umma.wait_ld(t);
    }
    Ok(())
}

/// `tcgen05.fence::before_thread_sync`
pub(crate) fn before(e: &mut Engine, t: u32) {
    let settled = e.hw.umma.settled(t);
    e.edge(|race| race.tensor_before(t, settled));
}

/// `tcgen05.fence::after_thread_sync`
pub(crate) fn after(e: &mut Engine, t: u32) {
    e.edge(|race| race.tensor_after(t));
}
