//! Attention of tensors: sizes, options and strides of a call, and what is refused of them.
//!
//! This module is plain Rust, which `cargo test --no-default-features` tests without Python. `fast`, `engine` and
//! `model` run what it has checked, and `python` is what Python sees.

use crate::layout::{Dims, Element, Place, View};
use crate::refusal::Refusal;
use std::fmt;

#[cfg(feature = "module")]
pub mod engine;
#[cfg(feature = "module")]
pub mod fast;
#[cfg(feature = "module")]
pub mod lengths;
#[cfg(feature = "module")]
pub mod model;
mod options;
#[cfg(feature = "module")]
mod problem;
#[cfg(feature = "module")]
pub mod python;
mod sequences;
#[cfg(test)]
mod tests;

pub use options::{Axes, Options};
pub use sequences::{Form, Sequences};

/// TMA takes strides that are multiples of this many elements of two bytes.
const UNIT: i64 = 8;
/// TMA takes strides below this many elements of two bytes.
const FARTHEST: i64 = 1 << 39;

/// Elements of a head that some kernel computes, if they are a multiple of 8.
const HEAD_DIMS: std::ops::RangeInclusive<i64> = 8..=256;

/// Sizes, element type and options of a call: what a plan is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Size {
    /// What the sequences are.
    pub form: Form,
    /// Sequences; 1 if they are packed.
    pub batch: u32,
    /// Heads of Q and O.
    pub heads_q: u32,
    /// Heads of K and V.
    pub heads_kv: u32,
    /// Queries of a sequence, or of all packed ones.
    pub seq_q: u32,
    /// Keys of a sequence, or of all packed ones; rows of a sequence's cache, or of a page.
    pub seq_kv: u32,
    /// Elements of a head.
    pub dim: u32,
    /// Element type.
    pub element: Element,
    /// The options.
    pub options: Options,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch, heads_q, heads_kv, seq_q, seq_kv, dim, element, options, .. } = self;
        let layout = match options.axes {
            Axes::Bshd => "bshd",
            Axes::Bhsd => "bhsd",
            Axes::Packed => "packed",
        };
        write!(
            f,
            "{element} {layout} with B = {batch}, H = {heads_q} and {heads_kv}, S = {seq_q} and {seq_kv}, D = {dim}"
        )
    }
}

/// Elements from one batch, head and row of a tensor to the next; 0 for a dimension of size 1.
pub type Strides = [u64; 3];

/// The tensors of a call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Options.
    pub options: Options,
    /// What the sequences are.
    pub sequences: Sequences,
    /// Queries.
    pub q: View,
    /// Keys.
    pub k: View,
    /// Values.
    pub v: View,
    /// Where the result goes; without it, the caller allocates it.
    pub out: Option<View>,
}

/// A call that was checked.
#[derive(Clone, Debug)]
pub struct Attended {
    /// Sizes and options.
    pub size: Size,
    /// The starts of packed sequences, those of queries before those of keys; or the keys of a cache's sequences.
    pub lengths: Vec<u32>,
    /// The block table of a cache in pages.
    pub block_table: Option<View>,
    /// Memory of all tensors.
    pub place: Place,
    /// Strides of Q, K, V and O. Those of a tensor that needs a copy are the copy's.
    pub strides: [Strides; 4],
    /// Whether Q, K and V need a copy, because TMA can't read them as they lie.
    pub copies: [bool; 3],
    /// Shape of the result.
    pub out_shape: Dims,
    /// Strides of a result that the caller allocates: the order of Q in memory, without gaps.
    pub out_strides: Dims,
    /// Shape of LSE, f32: batch, heads, queries; heads and queries of packed sequences.
    pub lse_shape: Dims,
}

impl Attended {
    /// Whether there is nothing to compute.
    pub fn is_empty(&self) -> bool {
        self.out_shape.as_slice().contains(&0)
    }
}

impl Call {
    /// Checks the tensors. Sizes that no kernel computes are the plan's to refuse.
    ///
    /// # Errors
    /// A [`Refusal`] for shapes, types, places and strides.
    pub fn check(&self) -> Result<Attended, Refusal> {
        let Self { options, q, out, .. } = *self;
        let size = self.size()?;
        self.check_elements()?;
        let place = q.place;
        if let Place::Other(_) = place {
            return Err(Refusal::Device { name: "q", place });
        }
        let (mut copies, mut strides) = ([false; 3], [[0; 3]; 4]);
        for (i, (name, tensor)) in self.inputs().into_iter().enumerate() {
            if tensor.place != place {
                return Err(Refusal::Place { name, have: tensor.place, first: "q", need: place });
            }
            tensor.check_signs(name)?;
            let lies = in_place(&tensor, options.axes);
            copies[i] = lies.is_none();
            if lies.is_some() {
                tensor.check_alignment(name)?;
            }
            strides[i] = lies.unwrap_or_else(|| packed(&tensor.shape, options.axes));
        }
        let lengths = self.sequences.lengths(&size, &q)?;
        let axes = options.axes;
        let sizes = self.sizes("q", &q)?;
        let out_strides = order_of(sizes, strides_of(&q, axes), axes);
        let all = View { strides: out_strides, ..q };
        strides[3] = match out {
            Some(out) => self.check_out(&out)?,
            None => in_place(&all, axes).unwrap_or([0; 3]),
        };
        let lse = [sizes[0], sizes[1], sizes[2]];
        let lse = if axes == Axes::Packed { &lse[1..] } else { &lse[..] };
        Ok(Attended {
            size,
            lengths,
            block_table: self.sequences.block_table(),
            place,
            strides,
            copies,
            out_shape: q.shape,
            out_strides,
            lse_shape: Dims::new(lse).unwrap_or(Dims::EMPTY),
        })
    }

    /// Q, K and V by their names in Python.
    pub fn inputs(&self) -> [(&'static str, View); 3] {
        let [k, v] = match self.sequences {
            Sequences::Cache { .. } => ["k_cache", "v_cache"],
            Sequences::Equal | Sequences::Packed { .. } => ["k", "v"],
        };
        [("q", self.q), (k, self.k), (v, self.v)]
    }

    /// The sizes of a tensor: batch, heads, rows, dim.
    fn sizes(&self, name: &'static str, view: &View) -> Result<[i64; 4], Refusal> {
        let (axes, have) = (self.options.axes, view.shape.as_slice());
        let refused = Refusal::Dimensions { name, have: have.len(), need: axes.count() };
        axes.spread(have, 1).ok_or(refused)
    }

    fn size(&self) -> Result<Size, Refusal> {
        let axes = self.options.axes;
        let [(_, q), (k_name, k), (v_name, v)] = self.inputs();
        let [batch, heads_q, seq_q, dim] = self.sizes("q", &q)?;
        let [batch_kv, heads_kv, seq_kv, dim_kv] = self.sizes(k_name, &k)?;
        self.sizes(v_name, &v)?;
        let refuse = |name, view: &View, what| {
            Err(Refusal::Shape { name, shape: view.shape.to_string(), what })
        };
        if !HEAD_DIMS.contains(&dim) || dim % UNIT != 0 {
            let (least, most) = (HEAD_DIMS.start(), HEAD_DIMS.end());
            let what =
                format!("D is {dim}; it must be a multiple of {UNIT}, from {least} to {most}");
            return refuse("q", &q, what);
        }
        let form = self.sequences.form(&q, &k)?;
        // The batches of K in pages are the pages.
        let paged = matches!(form, Form::Paged { .. });
        if dim != dim_kv || !paged && batch != batch_kv {
            let with = |with| if with { format!("B = {batch} and ") } else { String::new() };
            let (with, dims) = match form {
                Form::Paged { .. } => (with(false), "[pages, rows of a page, H, D]"),
                Form::Packed => (with(false), axes.dimensions()),
                Form::Cache => (with(true), "[B, capacity, H, D]"),
                Form::Equal => (with(true), axes.dimensions()),
            };
            let what = format!("q is {}, so {k_name} {dims} must have {with}D = {dim}", q.shape);
            return refuse(k_name, &k, what);
        }
        if heads_kv == 0 || heads_q % heads_kv != 0 {
            let what =
                format!("q has {heads_q} heads, which is no multiple of {k_name}'s {heads_kv}");
            return refuse(k_name, &k, what);
        }
        if v.shape != k.shape {
            return refuse(
                v_name,
                &v,
                format!("{k_name} is {}, and {v_name} must be, too", k.shape),
            );
        }
        if let Some(out) = self.out.filter(|out| out.shape != q.shape) {
            return refuse("out", &out, format!("the result is {}", q.shape));
        }
        let short = |name: &'static str, view: &View, size: i64| {
            u32::try_from(size).map_err(|_| Refusal::Shape {
                name,
                shape: view.shape.to_string(),
                what: format!("{size} is more than 2^32-1"),
            })
        };
        Ok(Size {
            form,
            batch: short("q", &q, batch)?,
            heads_q: short("q", &q, heads_q)?,
            heads_kv: short(k_name, &k, heads_kv)?,
            seq_q: short("q", &q, seq_q)?,
            seq_kv: short(k_name, &k, seq_kv)?,
            dim: short("q", &q, dim)?,
            element: q.element,
            options: self.options,
        })
    }

    fn check_elements(&self) -> Result<(), Refusal> {
        let have = self.q.element;
        if ![Element::F16, Element::BF16].contains(&have) {
            let need = "float16 or bfloat16".into();
            return Err(Refusal::Element { name: "q", have, need });
        }
        let others = self.inputs().into_iter().chain(self.out.map(|out| ("out", out)));
        if let Some((name, other)) = others.into_iter().find(|(_, t)| t.element != have) {
            let need = format!("{have}, the type of q,");
            return Err(Refusal::Element { name, have: other.element, need });
        }
        Ok(())
    }

    /// The strides of a result that is written in place. On a GPU, the plan compares its bytes with the operands'.
    fn check_out(&self, out: &View) -> Result<Strides, Refusal> {
        if out.place != self.q.place {
            let (have, need) = (out.place, self.q.place);
            return Err(Refusal::Place { name: "out", have, first: "q", need });
        }
        if out.readonly {
            return Err(Refusal::ReadOnly);
        }
        out.check_signs("out")?;
        if out.overlaps() {
            return Err(out.refuse("out", "its elements overlap; each must have memory of its own"));
        }
        let Some(strides) = in_place(out, self.options.axes) else {
            let what =
                "it is written in place: its last stride must be 1, and the others multiples of 8";
            return Err(out.refuse("out", what));
        };
        out.check_alignment("out")?;
        let (out_start, out_end) = out.range();
        for (name, input) in self.inputs() {
            let (start, end) = input.range();
            let empty = start == end || out_start == out_end;
            let host = self.q.place == Place::Host;
            if host && !empty && start < out_end && out_start < end {
                return Err(Refusal::Alias { name, start, end, out_start, out_end });
            }
        }
        Ok(strides)
    }
}

fn strides_of(view: &View, axes: Axes) -> [i64; 4] {
    axes.spread(view.strides.as_slice(), 0).unwrap_or([0; 4])
}

/// Strides of a new result without gaps: its rows lie between its heads, or its heads between its rows, as those of
/// `strides` do. What has no order has that of the shape.
fn order_of(sizes: [i64; 4], strides: [i64; 4], axes: Axes) -> Dims {
    let ([_, heads, rows, dim], [_, by_head, by_row, _]) = (sizes, strides);
    let heads_inside = if heads > 1 && rows > 1 { by_head < by_row } else { axes != Axes::Bhsd };
    let [head, row] = if heads_inside {
        [dim, dim.saturating_mul(heads)]
    } else {
        [dim.saturating_mul(rows), dim]
    };
    let sequence = dim.saturating_mul(heads).saturating_mul(rows);
    axes.gather([sequence, head, row, 1])
}

/// Strides of a tensor that TMA reads, or writes, as it lies. The host's tensors are copied in any case.
fn in_place(view: &View, axes: Axes) -> Option<Strides> {
    let sizes = axes.spread(view.shape.as_slice(), 1)?;
    let strides = strides_of(view, axes);
    let mut found = [0; 3];
    for (place, (size, stride)) in found.iter_mut().zip(sizes.into_iter().zip(strides)) {
        if size > 1 {
            *place = u64::try_from(stride).ok()?;
        }
    }
    let gpu = matches!(view.place, Place::Cuda(_));
    let odd = |&stride: &u64| stride % UNIT as u64 != 0 || stride >= FARTHEST as u64;
    let apart = sizes[3] > 1 && strides[3] != 1;
    (!gpu || !apart && !found.iter().any(odd)).then_some(found)
}

/// Strides of a tensor without gaps.
fn packed(shape: &Dims, axes: Axes) -> Strides {
    let sizes = axes.spread(shape.as_slice(), 1).unwrap_or([0; 4]);
    let strides = axes.spread(shape.contiguous().as_slice(), 0).unwrap_or([0; 4]);
    let of = |i: usize| if sizes[i] > 1 { strides[i] as u64 } else { 0 };
    [of(0), of(1), of(2)]
}
