//! Q, K and V, read from files or generated.

use super::shape::{Layout, ShapeArgs};
use crate::args::TensorRef;
use crate::error::Error;
use crate::operands::free_memory;
use crate::tensor_file::{self, Tensor};
use host::attention::{AttentionProblem, Heads, Operand, Sequences};
use isa::kernel::Dtype;
use safetensors::tensor::Dtype as FileDtype;

/// A problem with its operands, as bytes in the problem's layouts.
#[derive(Debug)]
pub struct Operands {
    pub problem: AttentionProblem,
    /// Q, K and V.
    pub data: [Vec<u8>; 3],
    /// The numbers of the pages, for a cache in pages.
    pub block_table: Option<Vec<u32>>,
}

impl Operands {
    /// Makes operands of normal values. The same seed gives the same values on every machine.
    pub fn generate(problem: AttentionProblem, seed: u64) -> Result<Self, Error> {
        check_memory(&problem)?;
        // Each seed yields three seeds, so that no two tensors of any two seeds are equal.
        let make = |which: u64, operand| {
            let count = problem.span(operand).unwrap_or(0) as usize;
            let values = host::data::normal(seed.wrapping_mul(3).wrapping_add(which), count);
            host::data::encode(&values, problem.dtype)
        };
        let data = [make(0, Operand::Q)?, make(1, Operand::K)?, make(2, Operand::V)?];
        let block_table = match problem.sequences {
            Sequences::Paged { pages, .. } => Some(shuffled(pages, seed)),
            _ => None,
        };
        Ok(Self { problem, data, block_table })
    }

    /// Reads Q, K, V and the block table, whose shapes state the problem's sizes.
    pub fn read(
        tensors: [&TensorRef; 3],
        block_table: Option<&TensorRef>,
        shape: &ShapeArgs,
    ) -> Result<Self, Error> {
        let [q, k, v] = tensors.map(tensor_file::read);
        let (q, k, v) = (q?, k?, v?);
        let dtype = dtype('Q', &q)?;
        for (operand, tensor) in [('K', &k), ('V', &v)] {
            if self::dtype(operand, tensor)? != dtype {
                let right = format!("Q is {}, and all three must be the same", dtype.name());
                let (name, dtype) = (tensor.name.clone(), tensor.dtype.to_string());
                return Err(Error::Dtype { operand, name, dtype, right });
            }
        }
        let keys = shape.cache_keys()?;
        let packed = if keys.is_none() { shape.sequences()? } else { None };
        let of = |operand, tensor| Sizes::of(operand, tensor, shape.layout(), packed.is_some());
        let (of_q, of_k, of_v) = (of('Q', &q)?, of('K', &k)?, of('V', &v)?);
        if of_v != of_k {
            let want = format!("the shape of K, {:?}", k.shape);
            return Err(Error::Shape { operand: 'V', name: v.name, shape: v.shape, want });
        }
        let batch = if block_table.is_some() { of_k.batch } else { of_q.batch };
        if (of_k.batch, of_k.dim) != (batch, of_q.dim) {
            let want = format!("the batch and the head dim of Q, {:?}", q.shape);
            return Err(Error::Shape { operand: 'K', name: k.name, shape: k.shape, want });
        }
        if let Some(keys) = keys.as_ref().filter(|keys| keys.len() != of_q.batch as usize) {
            let want = format!("{} sequences, as --cache-seqlens has", keys.len());
            return Err(Error::Shape { operand: 'Q', name: q.name, shape: q.shape, want });
        }
        let table = block_table.map(|table| BlockTable::read(table, of_q.batch)).transpose()?;
        let sequences = match (packed, keys, &table) {
            (None, Some(keys), Some(table)) => Sequences::Paged {
                q: of_q.rows,
                keys,
                pages: of_k.batch,
                page_rows: of_k.rows,
                sequence_pages: table.columns,
            },
            (None, Some(keys), None) => {
                Sequences::Cache { q: of_q.rows, keys, capacity: of_k.rows }
            }
            (None, None, _) => Sequences::Equal { batch: of_q.batch, q: of_q.rows, kv: of_k.rows },
            (Some(packed), ..) => {
                for (operand, tensor, have, want) in
                    [('Q', &q, of_q.rows, packed.rows()[0]), ('K', &k, of_k.rows, packed.rows()[1])]
                {
                    if have != want {
                        let (name, shape) = (tensor.name.clone(), tensor.shape.clone());
                        let want = format!("{want} rows, the sum of the lengths of --varlen");
                        return Err(Error::Shape { operand, name, shape, want });
                    }
                }
                packed
            }
        };
        let heads = Heads { q: of_q.heads, kv: of_k.heads, dim: of_q.dim };
        let problem = shape.problem(dtype, heads, sequences)?;
        check_memory(&problem)?;
        let block_table = table.map(|table| table.pages);
        Ok(Self { problem, data: [q.data, k.data, v.data], block_table })
    }
}

/// All numbers below `pages`, in an order that the seed decides.
fn shuffled(pages: u32, seed: u64) -> Vec<u32> {
    let keys = host::data::normal(seed, pages as usize);
    let mut order: Vec<u32> = (0..pages).collect();
    order.sort_by(|&a, &b| keys[a as usize].total_cmp(&keys[b as usize]));
    order
}

/// A block table of a file.
struct BlockTable {
    pages: Vec<u32>,
    /// Pages of a sequence.
    columns: u32,
}

impl BlockTable {
    /// Reads [batch, pages of a sequence]. A negative number, and one that no page has, is a page of zeros.
    fn read(reference: &TensorRef, batch: u32) -> Result<Self, Error> {
        let table = tensor_file::read(reference)?;
        let refused = |want: String| Error::BlockTable {
            name: table.name.clone(),
            dtype: table.dtype.to_string(),
            shape: table.shape.clone(),
            want,
        };
        if !matches!(table.dtype, FileDtype::I32 | FileDtype::U32) {
            return Err(refused("i32 or u32".to_owned()));
        }
        let columns = match table.shape[..] {
            [rows, columns] if rows == batch as usize => u32::try_from(columns).ok(),
            _ => None,
        };
        let want = || format!("[{batch}, pages of a sequence], as Q has {batch} sequences");
        let columns = columns.ok_or_else(|| refused(want()))?;
        let pages = table.data.as_chunks().0.iter().map(|&bytes| u32::from_le_bytes(bytes));
        Ok(Self { pages: pages.collect(), columns })
    }
}

/// Sizes of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sizes {
    batch: u32,
    rows: u32,
    heads: u32,
    dim: u32,
}

impl Sizes {
    fn of(operand: char, tensor: &Tensor, layout: Layout, packed: bool) -> Result<Self, Error> {
        let sizes: Vec<u32> = tensor.shape.iter().filter_map(|&n| u32::try_from(n).ok()).collect();
        let small = sizes.len() == tensor.shape.len();
        let sizes = match (&sizes[..], packed) {
            (&[batch, a, b, dim], false) if small => Some((batch, a, b, dim)),
            (&[a, b, dim], true) if small => Some((1, a, b, dim)),
            _ => None,
        };
        let Some((batch, a, b, dim)) = sizes else {
            let want = match (layout, packed) {
                (Layout::Bshd, false) => "[batch, seq, heads, dim]",
                (Layout::Bhsd, false) => "[batch, heads, seq, dim]",
                (Layout::Bshd, true) => "[total, heads, dim], since --varlen is given",
                (Layout::Bhsd, true) => "[heads, total, dim], since --varlen is given",
            };
            let (name, shape, want) = (tensor.name.clone(), tensor.shape.clone(), want.to_owned());
            return Err(Error::Shape { operand, name, shape, want });
        };
        let (rows, heads) = if layout == Layout::Bshd { (a, b) } else { (b, a) };
        Ok(Self { batch, rows, heads, dim })
    }
}

fn dtype(operand: char, tensor: &Tensor) -> Result<Dtype, Error> {
    match tensor.dtype {
        FileDtype::BF16 => Ok(Dtype::Bf16),
        FileDtype::F16 => Ok(Dtype::F16),
        other => Err(Error::Dtype {
            operand,
            name: tensor.name.clone(),
            dtype: other.to_string(),
            right: "Q, K and V must be bf16 or f16".to_owned(),
        }),
    }
}

/// Checks that the host has memory for all tensors.
fn check_memory(problem: &AttentionProblem) -> Result<(), Error> {
    let bytes = [Operand::Q, Operand::K, Operand::V, Operand::O]
        .map(|operand| problem.bytes(operand).unwrap_or(u64::MAX));
    let need = bytes.into_iter().fold(0, u64::saturating_add);
    match free_memory() {
        Some(have) if need > have => Err(Error::AttentionMemory { need, have }),
        _ => Ok(()),
    }
}
