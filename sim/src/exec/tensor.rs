//! Tensor memory: allocation, multiplications, commits, loads and stores.

use super::{bulk, mbarrier};
use crate::copy::check;
use crate::copy::flight::Kind;
use crate::engine::cluster::Engine;
use crate::exec::given::given;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::race::tensor::{Lack, TensorClash, Uses};
use crate::tensor::descriptor::{Kind as Mma, M, Shape};
use crate::tensor::memory::{COLUMNS, LANES, split};
use crate::tensor::umma::{A_COLUMNS, Operands, multiply};
use crate::tensor::{copy, pair, scaled};
use crate::types::loc::Loc;
use crate::types::word::Word;
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

/// Where A lies: a descriptor of shared memory, or an address of tensor memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum A {
    Shared(u64),
    Tensor(u32),
}

/// `tcgen05.mma` of a kind, by one thread, for its CTA or its pair.
pub(crate) fn mma(
    e: &mut Engine,
    t: u32,
    d: u32,
    (a, b): (A, u64),
    (kind, idesc, pair): (Mma, u32, bool),
    adds: bool,
) -> Result<(), Fault> {
    let ctas = issues(e, t, pair)?;
    let shape = Shape::new(idesc, kind, pair)?;
    let (descriptor, words) = match a {
        A::Shared(a) => (a, None),
        A::Tensor(a) => (u64::from(a), Some(rows_of_a(e, (t, ctas.start), a, &(d..d + shape.n))?)),
    };
    e.operands(|| [descriptor, b, u64::from(idesc) << 32 | u64::from(d)]);
    let operands = Operands::new(descriptor, words, b, shape)?;
    product(e, t, d, &operands, (ctas, shape, kind == Mma::I8), (adds, None))
}

/// `tcgen05.mma` of a kind with block scales, with factors at two addresses of tensor memory.
pub(crate) fn mma_scaled(
    e: &mut Engine,
    t: u32,
    d: u32,
    (a, b): (u64, u64),
    (kind, idesc, addresses): (Mma, u32, [u32; 2]),
    adds: bool,
) -> Result<(), Fault> {
    let ctas = issues(e, t, false)?;
    let (shape, factors) = scaled::shape(idesc, kind)?;
    e.operands(|| [a, b, u64::from(idesc) << 32 | u64::from(d)]);
    let (cta, rows) = (ctas.start, [M, shape.n]);
    let mut columns = [0; 2];
    for ((column, address), rows) in columns.iter_mut().zip(addresses).zip(rows) {
        let (lane, first) = split(address);
        if lane != 0 {
            let message = format!("factors at lane {lane}: they begin at lane 0");
            return Err(Fault::new(Rule::TensorLanes, message));
        }
        *column = first;
        let all = scaled::columns(first, rows);
        e.hw.tensor[cta].check(&all)?;
        let commit = e.hw.umma.open(t);
        ordered(e, (t, cta), 0..LANES, all, Uses::Operand, commit)?;
    }
    let operands = Operands::new(a, None, b, shape)?;
    product(e, t, d, &operands, (ctas, shape, false), (adds, Some((columns, factors))))
}

/// The rows of A in tensor memory, which a multiplication reads.
fn rows_of_a(
    e: &mut Engine,
    (t, cta): (u32, usize),
    a: u32,
    sums: &Range<u32>,
) -> Result<Vec<u32>, Fault> {
    let (lane, first) = split(a);
    if lane != 0 {
        let message = format!("an operand A at lane {lane}: {M} rows begin at lane 0");
        return Err(Fault::new(Rule::TensorLanes, message));
    }
    let columns = first..first + A_COLUMNS;
    e.hw.tensor[cta].check(&columns)?;
    if columns.start < sums.end && sums.start < columns.end {
        let message = format!(
            "{} multiplies ({}) an A in the columns {first} to {} of tensor memory into the columns {} to {}: it reads A while it \
             writes the sums",
            e.hw.thread(t).place(),
            e.hw.thread(t).op,
            columns.end - 1,
            sums.start,
            sums.end - 1
        );
        return Err(Fault::new(Rule::TensorRace, message));
    }
    own(e, t, &columns, true)?;
    let commit = e.hw.umma.open(t);
    ordered(e, (t, cta), 0..LANES, columns.clone(), Uses::Operand, commit)?;
    let memory = &mut e.hw.tensor[cta];
    let row = |lane| columns.clone().map(move |column| (lane, column));
    Ok((0..M).flat_map(row).map(|(lane, column)| *memory.word(lane, column)).collect())
}

/// `tcgen05.cp`
pub(crate) fn copy(
    e: &mut Engine,
    t: u32,
    to: u32,
    from: u64,
    shape: copy::Shape,
) -> Result<(), Fault> {
    let (cta, line) = (e.hw.thread(t).cta, e.hw.line(t));
    e.hw.pairs.group(false, "tcgen05.cp", line)?;
    let (lane, first) = split(to);
    let (lanes, step) = shape.lanes(lane)?;
    let columns = first..first + shape.columns();
    e.hw.tensor[cta].check(&columns)?;
    let chunks = shape.addresses(from)?;
    e.operands(|| [from, u64::from(to)]);
    let mut words = Vec::with_capacity(chunks.len());
    for &addr in &chunks {
        match e.hw.smem[cta].hold_chunk(addr) {
            Ok(bytes) => words.push(<[u32; 4]>::from_bytes(bytes)),
            Err(c) => return Err(e.hw.conflict(cta, c)),
        }
    }
    let commit = e.hw.umma.open(t);
    e.guided(|guide| {
        for &addr in &chunks {
            guide.touch(cta as u64, u64::from(addr), 16, false);
        }
    });
    e.checked(t, |race, thread| race.umma((thread, cta), &chunks, commit))?;
    if step == 1 {
        ordered(e, (t, cta), lanes.clone(), columns, Uses::Copy, commit)?;
    } else {
        for lane in lanes.clone().step_by(step) {
            ordered(e, (t, cta), lane..lane + 1, columns.clone(), Uses::Copy, commit)?;
        }
    }
    e.hw.umma.issue(t, cta, chunks, line);
    let memory = &mut e.hw.tensor[cta];
    for lane in lanes.step_by(step) {
        let row = shape.row(lane) * shape.chunks();
        let words = &words[row as usize..][..shape.chunks() as usize];
        for (column, word) in (first..).zip(words.as_flattened()) {
            *memory.word(lane, column) = *word;
        }
    }
    Ok(())
}

/// A multiplication: checks what it touches, and does it.
fn product(
    e: &mut Engine,
    t: u32,
    d: u32,
    operands: &Operands,
    (ctas, shape, integers): (Range<usize>, Shape, bool),
    (adds, factors): (bool, Option<([u32; 2], scaled::Factors)>),
) -> Result<(), Fault> {
    let (lane, first) = split(d);
    if lane != 0 {
        let message = format!("an accumulator at lane {lane}: {M} rows begin at lane 0");
        return Err(Fault::new(Rule::TensorLanes, message));
    }
    let columns = first..first + shape.n;
    for cta in ctas.clone() {
        e.hw.tensor[cta].check(&columns)?;
    }
    own(e, t, &columns, false)?;
    own(e, t, &columns, true)?;
    // Each part has factors of its own.
    let parts = factors.map_or(1, |(_, factors)| factors.count as usize);
    let products = multiply(&mut e.hw.smem, ctas.clone(), operands, (shape, parts));
    let products = products.map_err(|(cta, c)| e.hw.conflict(cta, c))?;
    let chunks = operands.chunks();
    let commit = e.hw.umma.open(t);
    let line = e.hw.line(t);
    for (cta, mut products) in ctas.zip(products) {
        e.guided(|guide| {
            guide.visit(cta);
            for &addr in &chunks {
                guide.touch(cta as u64, u64::from(addr), 16, false);
            }
        });
        e.checked(t, |race, thread| {
            race.reaches(thread, cta);
            race.umma((thread, cta), &chunks, commit)
        })?;
        ordered(e, (t, cta), 0..LANES, columns.clone(), Uses::Multiply { adds }, commit)?;
        e.hw.umma.issue(t, cta, chunks.clone(), line);
        let memory = &mut e.hw.tensor[cta];
        if let Some(([a, b], factors)) = factors {
            let a = scaled::factors(memory, a, M, factors, 0)?;
            let b = scaled::factors(memory, b, shape.n, factors, 1)?;
            for (i, product) in products.iter_mut().enumerate() {
                let (a, b) = (a.iter().skip(i).step_by(parts), b.iter().skip(i).step_by(parts));
                for (row, a) in product.chunks_exact_mut(shape.n as usize).zip(a) {
                    row.iter_mut().zip(b.clone()).for_each(|(sum, b)| *sum *= a * b);
                }
            }
        }
        let mut products = products.into_iter();
        let mut product = products.next().unwrap_or_default();
        for other in products {
            product.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
        }
        for (row, sums) in (0..).zip(product.chunks_exact(shape.n as usize)) {
            for (column, sum) in (first..).zip(sums) {
                let word = memory.word(row, column);
                let before = if adds { *word } else { 0 };
                *word = if integers {
                    // f32 holds the sum of 32 products of two bytes.
                    before.wrapping_add((*sum as i32).cast_unsigned())
                } else {
                    (f32::from_bits(before) + sum).to_bits()
                };
            }
        }
    }
    e.stats.wgmmas += 1;
    Ok(())
}

/// The CTAs that a multiplication of a thread works in.
fn issues(e: &mut Engine, t: u32, pair: bool) -> Result<Range<usize>, Fault> {
    let (cta, line) = (e.hw.thread(t).cta, e.hw.line(t));
    e.hw.pairs.group(pair, "tcgen05.mma", line)?;
    if !pair {
        return Ok(cta..cta + 1);
    }
    let peer = pair::peer(&e.hw.ctas, cta, "tcgen05.mma")?;
    if peer < cta {
        let message = format!(
            "tcgen05.mma with .cta_group::2 by {}, in CTA {cta}: a thread of CTA {peer} issues it, whose rank is even",
            e.hw.thread(t).place()
        );
        return Err(Fault::new(Rule::TensorPair, message));
    }
    Ok(cta..cta + 2)
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
            e.hw.remote_bar(t, (rank as u32 + 1) << 24 | at)?
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
