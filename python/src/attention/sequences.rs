//! Packed sequences and caches: what a call says of them, and what is refused.

use super::Size;
use crate::layout::{Element, Place, View};
use crate::refusal::Refusal;

/// Numbers of block tables.
const INT32: Element = Element { code: 0, bits: 32, lanes: 1 };
const UINT32: Element = Element { code: 1, bits: 32, lanes: 1 };

/// What the sequences of a call are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Form {
    /// Of equal lengths.
    Equal,
    /// One behind the other in one tensor.
    Packed,
    /// Queries with a cache that has room for equally many keys of each sequence.
    Cache,
    /// Queries with a cache in pages.
    Paged {
        /// Pages of K and V.
        pages: u32,
        /// Pages of a sequence in the block table.
        sequence_pages: u32,
    },
}

/// What a call says of its sequences beside the shapes of its tensors.
#[derive(Clone, Debug)]
pub enum Sequences {
    /// They have equal lengths.
    Equal,
    /// They are packed.
    Packed {
        /// `cu_seqlens_q`.
        q: Vec<i64>,
        /// `cu_seqlens_k`.
        k: Vec<i64>,
    },
    /// Their keys are in a cache.
    Cache {
        /// `cache_seqlens`.
        keys: Vec<i64>,
        /// The `CacheSeqlens` that has them.
        owner: Option<u64>,
        /// `block_table`, for a cache in pages.
        block_table: Option<View>,
    },
}

impl Sequences {
    /// The block table.
    pub fn block_table(&self) -> Option<View> {
        match self {
            Self::Cache { block_table, .. } => *block_table,
            Self::Equal | Self::Packed { .. } => None,
        }
    }

    /// The `CacheSeqlens` that has the lengths.
    pub fn owner(&self) -> Option<u64> {
        match self {
            Self::Cache { owner, .. } => *owner,
            Self::Equal | Self::Packed { .. } => None,
        }
    }

    /// What they are, for tensors of the right dimensions.
    pub(super) fn form(&self, q: &View, k: &View) -> Result<Form, Refusal> {
        let table = match self {
            Self::Equal => return Ok(Form::Equal),
            Self::Packed { .. } => return Ok(Form::Packed),
            Self::Cache { block_table: None, .. } => return Ok(Form::Cache),
            Self::Cache { block_table: Some(table), .. } => table,
        };
        let name = "block_table";
        if ![INT32, UINT32].contains(&table.element) {
            return Err(Refusal::Element { name, have: table.element, need: "int32".into() });
        }
        let (batch, pages) = (q.shape.as_slice()[0], k.shape.as_slice()[0]);
        let &[rows, columns] = table.shape.as_slice() else {
            let have = table.shape.as_slice().len();
            return Err(Refusal::Dimensions { name, have, need: "exactly 2" });
        };
        let shape = |what| Refusal::Shape { name, shape: table.shape.to_string(), what };
        if rows != batch {
            let what = format!(
                "q has {batch} sequences, so block_table must be [{batch}, pages of a sequence]"
            );
            return Err(shape(what));
        }
        if table.place != q.place {
            return Err(Refusal::Place { name, have: table.place, first: "q", need: q.place });
        }
        let gaps =
            |i: usize, step| table.shape.as_slice()[i] > 1 && table.strides.as_slice()[i] != step;
        let gpu = matches!(table.place, Place::Cuda(_));
        if gpu && rows > 0 && columns > 0 && (gaps(1, 1) || gaps(0, columns)) {
            return Err(table.refuse(name, "its numbers must be adjacent; pass it contiguous"));
        }
        table.check_signs(name)?;
        if pages == 0 {
            let (name, what) = ("k_cache", "a cache in pages has at least one".to_owned());
            return Err(Refusal::Shape { name, shape: k.shape.to_string(), what });
        }
        let short = |size: i64| {
            u32::try_from(size).map_err(|_| shape(format!("{size} is more than 2^32-1")))
        };
        Ok(Form::Paged { pages: short(pages)?, sequence_pages: short(columns)? })
    }

    /// The lengths of [`Attended`](super::Attended).
    pub(super) fn lengths(&self, size: &Size, q: &View) -> Result<Vec<u32>, Refusal> {
        match self {
            Self::Equal => Ok(Vec::new()),
            Self::Packed { q, k } => {
                let mut all = starts("cu_seqlens_q", q, ("q", size.seq_q))?;
                all.extend(starts("cu_seqlens_k", k, ("k", size.seq_kv))?);
                if q.len() != k.len() {
                    let what = format!("has {} numbers, and cu_seqlens_q {}", k.len(), q.len());
                    return Err(refuse("cu_seqlens_k", what + "; both must have equally many"));
                }
                Ok(all)
            }
            Self::Cache { keys, .. } => {
                let name = "cache_seqlens";
                if keys.len() != size.batch as usize {
                    let what =
                        format!("has {} numbers; q {} has {}", keys.len(), q.shape, size.batch);
                    return Err(refuse(name, what + " sequences"));
                }
                let (room, rows) = match size.form {
                    Form::Paged { sequence_pages, .. } => {
                        let room = u64::from(sequence_pages) * u64::from(size.seq_kv);
                        (room, format!("{sequence_pages} pages of {}", size.seq_kv))
                    }
                    _ => (size.seq_kv.into(), "the rows of a sequence's cache".to_owned()),
                };
                let short = |(i, &keys): (usize, &i64)| {
                    let short = u32::try_from(keys).ok().filter(|&keys| u64::from(keys) <= room);
                    let what = || format!("is {keys}; it must be 0 to {room}, {rows}");
                    short.ok_or_else(|| refuse(&format!("{name}[{i}]"), what()))
                };
                keys.iter().enumerate().map(short).collect()
            }
        }
    }
}

fn refuse(name: &str, what: String) -> Refusal {
    Refusal::Lengths { name: name.to_owned(), what }
}

/// The starts of packed sequences with the number of all rows behind them.
fn starts(name: &str, list: &[i64], (tensor, rows): (&str, u32)) -> Result<Vec<u32>, Refusal> {
    let [first, .., last] = *list else {
        let what = format!(
            "has {} numbers; the first row of each sequence and the number of all rows are right",
            list.len()
        );
        return Err(refuse(name, what));
    };
    if first != 0 {
        return Err(refuse(name, format!("begins with {first}; it must begin with 0")));
    }
    if let Some(at) = list.windows(2).position(|pair| pair[1] < pair[0]) {
        let what =
            format!("is {}; it must be at least {}, the number before it", list[at + 1], list[at]);
        return Err(refuse(&format!("{name}[{}]", at + 1), what));
    }
    if last != i64::from(rows) {
        return Err(refuse(name, format!("ends with {last}; {tensor} has {rows} rows")));
    }
    // They grow from 0 to `rows`.
    Ok(list.iter().map(|&start| start as u32).collect())
}
