//! Multiplications in flight, and registers that loads of tensor memory are writing.

use super::descriptor::{M, Shape, operand};
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use crate::memory::shared::{Conflict, Shared};
use crate::types::loc::Loc;
use crate::wgmma::operand::{Major, Operand, OperandType};
use crate::wgmma::product;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// A multiplication that may not have completed.
struct InFlight {
    cta: usize,
    /// The 16 bytes of shared memory that it reads, by their addresses.
    chunks: Vec<u32>,
    loc: Loc,
    /// The commit of its thread that covers it.
    commit: u64,
}

/// Registers that a load writes.
struct Load {
    /// What its patterns have in common.
    number: u32,
    values: Vec<u32>,
    columns: Range<u32>,
    waited: bool,
    loc: Loc,
}

/// What a thread has in flight.
#[derive(Default)]
struct Thread {
    mmas: VecDeque<InFlight>,
    commits: u64,
    loads: Vec<Load>,
    next: u32,
    /// Stores without a `wait::st`.
    stores: Vec<(Range<u32>, Loc)>,
}

/// By thread.
#[derive(Default)]
pub(crate) struct Umma(BTreeMap<u32, Thread>);

/// Patterns in the registers of a load: a signalling NaN with the load's number and the register's index. The same bits
/// make a value suspicious as those of a wgmma's accumulator.
const PATTERN: u32 = 0x7f80_0000 | 1 << 21;
const NUMBERS: u32 = 1 << 14;

fn pattern(number: u32, index: usize) -> u32 {
    PATTERN | number << 7 | index as u32
}

/// Columns of tensor memory that A takes, if it lies there: 32 bytes of each row.
pub(crate) const A_COLUMNS: u32 = 8;

/// The operands of an instruction in one of its CTAs.
pub(crate) struct Operands {
    /// Where A lies in shared memory, or for each CTA the words of tensor memory that have its rows.
    a: Result<Operand, Vec<Vec<u32>>>,
    b: Operand,
}

impl Operands {
    /// `words`: A's rows in the tensor memory of each CTA, [`A_COLUMNS`] each. Without them, `a` is its descriptor.
    pub fn new(a: u64, words: Option<Vec<Vec<u32>>>, b: u64, shape: Shape) -> Result<Self, Fault> {
        let a = match words {
            None => Ok(operand(a, shape.majors[0], M, shape.types[0])?),
            Some(_) if shape.majors[0] == Major::Mn => {
                let message = "an MN-major A in tensor memory: it is K-major there (bit 15 of the instruction descriptor is 0)";
                return Err(Fault::new(Rule::Descriptor, message));
            }
            Some(words) => Err(words),
        };
        Ok(Self { a, b: operand(b, shape.majors[1], shape.n / shape.ctas, shape.types[1])? })
    }

    /// The addresses of the 16 bytes of those in shared memory.
    pub fn chunks(&self) -> Vec<u32> {
        let mut all = Vec::new();
        for o in self.a.iter().chain([&self.b]) {
            o.for_each_chunk(|_, _, addr| all.push(addr));
        }
        all
    }
}

/// Reads an operand; `at` is where a row's and a column's elements go.
fn read(
    smem: &mut Shared,
    o: &Operand,
    dtype: OperandType,
    out: &mut [f32],
    [along_m_or_n, along_k]: [usize; 2],
) -> Result<(), Conflict> {
    let (decode, k) = (product::decoder(dtype), dtype.k() as usize);
    let step = if o.major() == Major::K { along_k } else { along_m_or_n };
    let mut conflict = None;
    o.for_each_chunk(|row, k_at, addr| match smem.hold_chunk(addr) {
        Ok(bytes) => {
            let at = row as usize * along_m_or_n + k_at as usize * along_k;
            product::spread(decode, bytes, &mut out[at..], step, k / 2);
        }
        Err(c) => conflict = conflict.or(Some(c)),
    });
    conflict.map_or(Ok(()), Err)
}

/// The rows of A in each of these CTAs times B, of which each has an equal part of the columns: for each CTA, row-major M
/// by N. With `parts`, the product of each of so many equal parts along K by itself. The operands count as being read until
/// [`Umma::retire`].
pub(crate) fn multiply(
    smem: &mut [Shared],
    ctas: Range<usize>,
    operands: &Operands,
    (shape, parts): (Shape, usize),
) -> Result<Vec<Vec<Vec<f32>>>, (usize, Conflict)> {
    let (n, k) = (shape.n as usize, shape.types[0].k() as usize);
    let part = n / ctas.len();
    let mut b = vec![0.0; k * n];
    let mut all_a = Vec::new();
    for (i, cta) in ctas.enumerate() {
        let smem = &mut smem[cta];
        let mut a = vec![0.0; M as usize * k];
        match &operands.a {
            Ok(o) => read(smem, o, shape.types[0], &mut a, [k, 1]).map_err(|c| (cta, c))?,
            Err(words) => {
                let bytes: Vec<u8> = words[i].iter().flat_map(|word| word.to_le_bytes()).collect();
                product::decoder(shape.types[0])(&bytes, &mut a);
            }
        }
        read(smem, &operands.b, shape.types[1], &mut b[i * part..], [1, n])
            .map_err(|c| (cta, c))?;
        all_a.push(a);
    }
    let half = M as usize / 2;
    let step = k / parts;
    let product = |a: &[f32], b: &[f32]| {
        let mut d = vec![0.0; M as usize * n];
        for (a, d) in a.chunks_exact(half * step).zip(d.chunks_exact_mut(half * n)) {
            product::product(a, b, n, d);
        }
        d
    };
    let products = |a: Vec<f32>| {
        let columns = |at: usize| a.chunks_exact(k).flat_map(move |row| &row[at..at + step]);
        (0..parts)
            .map(|i| i * step)
            .map(|at| {
                let a: Vec<f32> = columns(at).copied().collect();
                product(&a, &b[at * n..(at + step) * n])
            })
            .collect()
    };
    Ok(all_a.into_iter().map(products).collect())
}

impl Umma {
    fn of(&mut self, t: u32) -> &mut Thread {
        self.0.entry(t).or_default()
    }

    /// The number of a thread's next commit, from 1.
    pub fn open(&self, t: u32) -> u64 {
        self.0.get(&t).map_or(0, |thread| thread.commits) + 1
    }

    /// The protocol state: what each thread has in flight, with numbers that count from where they are now. Values, and the
    /// patterns in registers, are left out; so are loads that nobody asked for after their wait.
    pub fn protocol(&self, f: &mut impl FnMut(u64)) {
        for (t, thread) in &self.0 {
            f(u64::from(*t) << 32 | thread.mmas.len() as u64);
            for mma in &thread.mmas {
                f(thread.commits + 1 - mma.commit);
                // FNV-1a of what it reads.
                let hash =
                    |all: u64, &addr: &u32| (all ^ u64::from(addr)).wrapping_mul(0x100_0000_01b3);
                f(mma.chunks.iter().fold(mma.cta as u64, hash));
            }
            for load in thread.loads.iter().filter(|load| !load.waited) {
                f(u64::from(load.columns.start) << 32 | u64::from(load.columns.end));
            }
            f(thread.stores.len() as u64);
            for (columns, _) in &thread.stores {
                f(u64::from(columns.start) << 32 | u64::from(columns.end));
            }
        }
    }

    /// A multiplication, or a copy, is in flight.
    pub fn issue(&mut self, t: u32, cta: usize, chunks: Vec<u32>, loc: Loc) {
        let thread = self.of(t);
        let commit = thread.commits + 1;
        thread.mmas.push_back(InFlight { cta, chunks, loc, commit });
    }

    /// `tcgen05.commit`: gives its number.
    pub fn commit(&mut self, t: u32) -> u64 {
        let thread = self.of(t);
        thread.commits += 1;
        thread.commits
    }

    /// The multiplications of a thread up to a commit have completed: calls `over` for each 16 bytes that they no
    /// longer read.
    pub fn retire(&mut self, t: u32, commit: u64, mut over: impl FnMut(usize, u32)) {
        let mmas = &mut self.of(t).mmas;
        while mmas.front().is_some_and(|mma| mma.commit <= commit) {
            if let Some(mma) = mmas.pop_front() {
                mma.chunks.iter().for_each(|&addr| over(mma.cta, addr));
            }
        }
    }

    /// Where the multiplication was issued that reads an address of shared memory.
    pub fn reads(&self, cta: usize, addr: u32) -> Option<Loc> {
        let mut all = self.0.values().flat_map(|thread| &thread.mmas);
        let mma = all.find(|mma| mma.cta == cta && mma.chunks.contains(&(addr & !15)))?;
        Some(mma.loc)
    }

    /// Where a multiplication was issued that is in flight and reads the shared memory of a CTA.
    pub fn reads_of(&self, cta: usize) -> Option<Loc> {
        let mut all = self.0.values().flat_map(|thread| &thread.mmas);
        Some(all.find(|mma| mma.cta == cta)?.loc)
    }

    /// A multiplication of a thread that no commit covers.
    pub fn left_over(&self, t: u32) -> Option<Loc> {
        let thread = self.0.get(&t)?;
        thread.mmas.iter().find(|mma| mma.commit > thread.commits).map(|mma| mma.loc)
    }

    /// A load: gives what its registers hold for now.
    pub fn load(&mut self, t: u32, values: Vec<u32>, columns: Range<u32>, loc: Loc) -> Vec<u32> {
        let thread = self.of(t);
        let number = thread.next;
        thread.next = (number + 1) % (NUMBERS / 2);
        let patterns = (0..values.len()).map(|i| pattern(number, i)).collect();
        // Whoever never asked for a load's registers does not want them.
        if thread.loads.len() == 64 {
            thread.loads.remove(0);
        }
        thread.loads.push(Load { number, values, columns, waited: false, loc });
        patterns
    }

    /// `tcgen05.wait::ld`
    pub fn wait_ld(&mut self, t: u32) {
        self.of(t).loads.iter_mut().for_each(|load| load.waited = true);
    }

    /// A store without a wait.
    pub fn store(&mut self, t: u32, columns: Range<u32>, loc: Loc) {
        self.of(t).stores.push((columns, loc));
    }

    /// `tcgen05.wait::st`
    pub fn wait_st(&mut self, t: u32) {
        self.of(t).stores.clear();
    }

    /// Whether all of a thread's loads and stores have been waited for.
    pub fn settled(&self, t: u32) -> bool {
        self.0.get(&t).is_none_or(|thread| {
            thread.stores.is_empty() && thread.loads.iter().all(|load| load.waited)
        })
    }

    /// The thread's own load (or, for `stores`, store) of these columns that it has not waited for.
    pub fn own(&self, t: u32, columns: &Range<u32>, stores: bool) -> Option<Loc> {
        let thread = self.0.get(&t)?;
        let meets = |c: &Range<u32>| c.start < columns.end && columns.start < c.end;
        if stores {
            return thread.stores.iter().find(|s| meets(&s.0)).map(|s| s.1);
        }
        thread.loads.iter().find(|l| !l.waited && meets(&l.columns)).map(|l| l.loc)
    }

    /// The registers of a load are wanted: they get their values, if the thread has waited.
    pub fn ready(&mut self, t: u32, regs: &mut [u32]) -> Result<(), Fault> {
        let loads = &mut self.of(t).loads;
        let mine = |load: &Load| {
            load.values.len() == regs.len()
                && regs.iter().enumerate().all(|(i, r)| *r == pattern(load.number, i))
        };
        let Some(i) = loads.iter().rposition(mine) else { return Ok(()) };
        if !loads[i].waited {
            let message =
                "the registers of a tcgen05.ld are used, and no tcgen05.wait::ld stands between";
            return Err(
                Fault::new(Rule::TensorRegisters, message).against("the tcgen05.ld", loads[i].loc)
            );
        }
        regs.copy_from_slice(&loads.remove(i).values);
        Ok(())
    }

    /// A value is given to an instruction: it may be a pattern of a load.
    pub fn used(&self, t: u32, bits: u32) -> Result<(), Fault> {
        let Some(thread) = self.0.get(&t) else { return Ok(()) };
        // A NaN that was computed with is quiet.
        let bits = bits & !(1 << 22);
        let (number, index) = (bits >> 7 & (NUMBERS - 1), (bits & 0x7f) as usize);
        let mine = |load: &&Load| {
            load.number == number && index < load.values.len() && pattern(number, index) == bits
        };
        match thread.loads.iter().find(mine) {
            None => Ok(()),
            Some(load) => {
                let message = format!(
                    "register {index} of a tcgen05.ld is used before tcgen05.wait::ld and `ready`"
                );
                Err(Fault::new(Rule::TensorRegisters, message).against("the tcgen05.ld", load.loc))
            }
        }
    }
}
