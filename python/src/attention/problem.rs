//! The host crate's description of a checked call.

use super::{Axes, Form, Size, Strides};
use crate::model::dtype;
use warpipe::host::attention::Strides as HostStrides;
use warpipe::host::attention::{AttentionProblem, Heads, Mask, Sequences};

/// Attention of tensors without gaps.
pub fn without_gaps(size: &Size, lengths: &[u32]) -> AttentionProblem {
    let heads = Heads { q: size.heads_q, kv: size.heads_kv, dim: size.dim };
    let sequences = sequences(size, lengths);
    let plain = match size.options.axes {
        Axes::Bshd | Axes::Packed => AttentionProblem::bshd(dtype(size.element), heads, sequences),
        Axes::Bhsd => AttentionProblem::bhsd(dtype(size.element), heads, sequences),
    };
    let options = &size.options;
    AttentionProblem {
        mask: Mask { left: options.left, right: options.right },
        scale: options.scale(),
        softcap: options.softcap(),
        lse: options.lse,
        ..plain
    }
}

/// Attention of tensors with these strides.
pub fn strided(size: &Size, lengths: &[u32], strides: &[Strides; 4]) -> AttentionProblem {
    let [q, k, v, o] = strides.map(|[batch, head, seq]| HostStrides { batch, head, seq });
    AttentionProblem { q, k, v, o, ..without_gaps(size, lengths) }
}

fn sequences(size: &Size, lengths: &[u32]) -> Sequences {
    let Size { batch, seq_q, seq_kv, .. } = *size;
    match size.form {
        Form::Equal => Sequences::Equal { batch, q: seq_q, kv: seq_kv },
        Form::Packed => {
            let (q, kv) = lengths.split_at(lengths.len() / 2);
            Sequences::Packed { q: q.to_vec(), kv: kv.to_vec() }
        }
        Form::Cache => Sequences::Cache { q: seq_q, keys: lengths.to_vec(), capacity: seq_kv },
        Form::Paged { pages, sequence_pages } => Sequences::Paged {
            q: seq_q,
            keys: lengths.to_vec(),
            pages,
            page_rows: seq_kv,
            sequence_pages,
        },
    }
}
