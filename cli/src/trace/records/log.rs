//! Reads the records from memory and converts their clocks to times.

use crate::error::Error;
use isa::trace::{
    Event as Code, FIELD, HEADER_BYTES, LANES, PAD, RECORD_BYTES, RECORDS, TIMED, WARPS,
};

/// A record, with times of `%clock64`.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub lane: usize,
    pub from: u64,
    pub until: u64,
    pub code: Code,
    pub fields: [u32; 3],
}

/// The records of a CTA.
#[derive(Default)]
pub struct Log {
    /// For each warp, its records in the order of time.
    pub warps: Vec<Vec<Record>>,
    /// Pairs of `%clock64` and `%globaltimer`.
    pub times: Vec<(u64, u64)>,
}

/// Number of low bits of `%globaltimer` in a record.
const NS: u64 = (1 << 56) - 1;

fn number(bytes: &[u8], at: usize) -> u64 {
    let part = bytes.get(at..at + 8).and_then(|b| b.try_into().ok());
    part.map_or(0, u64::from_le_bytes)
}

/// A thread's records: for each one, a word with the event and a word with the clocks.
fn list(bytes: &[u8], place: usize) -> impl Iterator<Item = (u64, u64)> {
    // A kernel chooses the offset of the first record, below this limit.
    let pad = number(bytes, PAD) as u32 as usize % (RECORD_BYTES * TIMED);
    let first = HEADER_BYTES + pad + RECORD_BYTES * RECORDS * place;
    let record = move |i| {
        let at = first + RECORD_BYTES * i;
        (number(bytes, at), number(bytes, at + 8))
    };
    (0..RECORDS).map(record).take_while(|(word, _)| *word != 0)
}

fn code(word: u64) -> Option<Code> {
    Code::ALL.get(((word >> 56) as usize).checked_sub(1)?).copied()
}

impl Log {
    /// Reads the records of the first `warps` warps. Fails if a list is full.
    pub fn read(bytes: &[u8], cta: usize, warps: usize) -> Result<Self, Error> {
        let place = |warp: usize, lane: usize| (cta * WARPS + warp) * LANES + lane;
        let mut log = Self::default();
        for warp in 0..warps {
            for lane in 0..LANES {
                let (mut count, mut times) = (0, Vec::new());
                for (word, clocks) in list(bytes, place(warp, lane)) {
                    count += 1;
                    times.extend((code(word) == Some(Code::Time)).then_some((clocks, word & NS)));
                }
                log.times.extend(times);
                if count == RECORDS {
                    return Err(Error::Usage(format!(
                        "warp {warp} of CTA {cta} of the cluster filled its {RECORDS} records; give a \
                         smaller shape"
                    )));
                }
            }
        }
        // A record has only the low half of the other clocks, which are within 2^31 cycles of this one.
        let near = log.times.first().map_or(0, |time| time.0);
        let whole = |clock: u64| {
            near.wrapping_add_signed((clock as u32).wrapping_sub(near as u32) as i32 as i64)
        };
        for warp in 0..warps {
            let mut records: Vec<Record> = (0..LANES)
                .flat_map(|lane| list(bytes, place(warp, lane)).map(move |r| (lane, r)))
                .filter_map(|(lane, (word, clocks))| {
                    let code = code(word).filter(|code| *code != Code::Time)?;
                    let mask = (1 << FIELD) - 1;
                    let fields = [word & mask, word >> FIELD & mask, word >> (2 * FIELD) & 0xffff];
                    let fields = fields.map(|f| f as u32);
                    let (from, until) = (whole(clocks), whole(clocks >> 32));
                    Some(Record { lane, from, until, code, fields })
                })
                .collect();
            records.sort_by_key(|r| r.until);
            log.warps.push(records);
        }
        Ok(log)
    }
}

/// Converts a CTA's clock to nanoseconds: a straight line through all pairs of `%clock64`, which counts
/// cycles, and `%globaltimer`, which counts nanoseconds at a low resolution.
pub struct Line {
    clock: f64,
    ns: f64,
    slope: f64,
}

impl Line {
    pub fn through(pairs: &[(u64, u64)], origin: u64) -> Self {
        let n = pairs.len().max(1) as f64;
        let first = pairs.first().map_or(0, |p| p.0);
        let of = |&(clock, ns): &(u64, u64)| {
            (clock.wrapping_sub(first) as i64 as f64, ns.wrapping_sub(origin) as i64 as f64)
        };
        let mean = |f: fn((f64, f64)) -> f64| pairs.iter().map(|p| f(of(p))).sum::<f64>() / n;
        let (clock, ns) = (mean(|p| p.0), mean(|p| p.1));
        let (mut both, mut square) = (0.0, 0.0);
        for p in pairs {
            let (x, y) = of(p);
            both += (x - clock) * (y - ns);
            square += (x - clock).powi(2);
        }
        // The run is too short to measure the clock; use about an H100's.
        let slope = if square > 0.0 && both > 0.0 { both / square } else { 1.0 / 1.75 };
        Self { clock: clock + first as f64, ns, slope }
    }

    pub fn at(&self, clock: u64) -> f64 {
        self.ns + (clock as f64 - self.clock) * self.slope
    }
}
