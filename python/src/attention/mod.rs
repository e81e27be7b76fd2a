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
pub mod model;
#[cfg(feature = "module")]
pub mod python;
#[cfg(test)]
mod tests;

/// TMA takes strides that are multiples of this many elements of two bytes.
const UNIT: i64 = 8;
/// TMA takes strides below this many elements of two bytes.
const FARTHEST: i64 = 1 << 39;

/// Elements of a head that some kernel computes, if they are a multiple of 8.
const HEAD_DIMS: std::ops::RangeInclusive<i64> = 8..=256;

/// Order of a tensor's dimensions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Axes {
    /// `[batch, seq, heads, dim]`, as flash-attention has it.
    Bshd,
    /// `[batch, heads, seq, dim]`, as torch's `scaled_dot_product_attention` has it.
    Bhsd,
}

impl Axes {
    /// The order of this name.
    ///
    /// # Errors
    /// A [`Refusal`] for another name.
    pub fn named(name: &str) -> Result<Self, Refusal> {
        match name {
            "bshd" => Ok(Self::Bshd),
            "bhsd" => Ok(Self::Bhsd),
            other => Err(Refusal::Option {
                name: "layout",
                have: format!("{other:?}"),
                need: "\"bshd\" or \"bhsd\"",
            }),
        }
    }

    /// Values of the four dimensions as batch, heads, seq, dim; and the reverse.
    fn turn(self, [a, b, c, d]: [i64; 4]) -> [i64; 4] {
        if self == Self::Bhsd { [a, b, c, d] } else { [a, c, b, d] }
    }
}

/// Sizes, element type and options of a call: what a plan is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Size {
    /// Sequences.
    pub batch: u32,
    /// Heads of Q and O.
    pub heads_q: u32,
    /// Heads of K and V.
    pub heads_kv: u32,
    /// Queries of a sequence.
    pub seq_q: u32,
    /// Keys of a sequence.
    pub seq_kv: u32,
    /// Elements of a head.
    pub dim: u32,
    /// Element type.
    pub element: Element,
    /// The options.
    pub options: Options,
}

/// Options of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Options {
    /// Order of the tensors' dimensions.
    pub axes: Axes,
    /// Keys that a query sees before its diagonal; `None` for all.
    pub left: Option<u32>,
    /// Keys that a query sees behind its diagonal; `None` for all.
    pub right: Option<u32>,
    /// Bits of the scores' factor; `None` for the usual one.
    scale: Option<u32>,
    /// Bits of the soft-cap.
    softcap: Option<u32>,
    /// Whether LSE is asked for.
    pub lse: bool,
}

impl Options {
    /// Options as Python states them. In a window, `None` and -1 are no limit. A causal mask ends at the diagonal.
    ///
    /// # Errors
    /// A [`Refusal`] for a window that is none.
    pub fn new(
        axes: Axes,
        causal: bool,
        window: Option<&[Option<i64>]>,
        [scale, softcap]: [Option<f32>; 2],
        lse: bool,
    ) -> Result<Self, Refusal> {
        let refuse = |have: &[Option<i64>]| {
            let numbers: Vec<String> = have
                .iter()
                .map(|keys| keys.map_or_else(|| "None".to_owned(), |keys| keys.to_string()))
                .collect();
            let need = "(left, right) with numbers of keys, and None or -1 for no limit,";
            Refusal::Option { name: "window", have: format!("({})", numbers.join(", ")), need }
        };
        let limit = |keys: Option<i64>| match keys {
            None | Some(-1) => Ok(None),
            // A window wider than any sequence has no limit.
            Some(keys @ 0..) => Ok(u32::try_from(keys).ok()),
            Some(_) => Err(()),
        };
        let [left, right] = match window {
            None => [None, None],
            Some(&[left, right]) => match (limit(left), limit(right)) {
                (Ok(left), Ok(right)) => [left, right],
                _ => return Err(refuse(&[left, right])),
            },
            Some(other) => return Err(refuse(other)),
        };
        let right = if causal { Some(0) } else { right };
        let bits = |factor: Option<f32>| factor.map(f32::to_bits);
        Ok(Self { axes, left, right, scale: bits(scale), softcap: bits(softcap), lse })
    }

    /// Factor of the scores; `None` for `1 / sqrt(dim)`.
    pub fn scale(&self) -> Option<f32> {
        self.scale.map(f32::from_bits)
    }

    /// The soft-cap.
    pub fn softcap(&self) -> Option<f32> {
        self.softcap.map(f32::from_bits)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch, heads_q, heads_kv, seq_q, seq_kv, dim, element, options } = self;
        let layout = if options.axes == Axes::Bshd { "bshd" } else { "bhsd" };
        write!(
            f,
            "{element} {layout} with B = {batch}, H = {heads_q} and {heads_kv}, S = {seq_q} and {seq_kv}, D = {dim}"
        )
    }
}

/// Elements from one batch, head and row of a tensor to the next; 0 for a dimension of size 1.
pub type Strides = [u64; 3];

/// The tensors of a call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Options.
    pub options: Options,
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
#[derive(Clone, Copy, Debug)]
pub struct Attended {
    /// Sizes and options.
    pub size: Size,
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
    /// Shape of LSE, f32: batch, heads, queries.
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
        let Self { options, q, k, v, out } = *self;
        let size = self.size()?;
        self.check_elements()?;
        let place = q.place;
        if let Place::Other(_) = place {
            return Err(Refusal::Device { name: "q", place });
        }
        let mut copies = [false; 3];
        let mut strides = [[0; 3]; 4];
        for (i, (name, tensor)) in [("q", q), ("k", k), ("v", v)].into_iter().enumerate() {
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
        let [batch, heads, rows, dim] = options.axes.turn(four("q", &q)?);
        // Q's rows lie between its heads, or its heads between its rows. What has no order has that of the shape.
        let [_, by_head, by_row, _] = options.axes.turn(strides_of(&q));
        let heads_inside =
            if heads > 1 && rows > 1 { by_head < by_row } else { options.axes == Axes::Bshd };
        let [head, row] = if heads_inside {
            [dim, dim.saturating_mul(heads)]
        } else {
            [dim.saturating_mul(rows), dim]
        };
        let sequence = dim.saturating_mul(heads).saturating_mul(rows);
        let short = |list: &[i64]| Dims::new(list).unwrap_or(Dims::EMPTY);
        let out_strides = short(&options.axes.turn([sequence, head, row, 1]));
        let all = View { strides: out_strides, ..q };
        strides[3] = match out {
            Some(out) => self.check_out(&out)?,
            None => in_place(&all, options.axes).unwrap_or([0; 3]),
        };
        Ok(Attended {
            size,
            place,
            strides,
            copies,
            out_shape: q.shape,
            out_strides,
            lse_shape: short(&[batch, heads, rows]),
        })
    }

    fn size(&self) -> Result<Size, Refusal> {
        let axes = self.options.axes;
        let [batch, heads_q, seq_q, dim] = axes.turn(four("q", &self.q)?);
        let [batch_kv, heads_kv, seq_kv, dim_kv] = axes.turn(four("k", &self.k)?);
        four("v", &self.v)?;
        let refuse = |name, view: &View, what| {
            Err(Refusal::Shape { name, shape: view.shape.to_string(), what })
        };
        if !HEAD_DIMS.contains(&dim) || dim % UNIT != 0 {
            let (least, most) = (HEAD_DIMS.start(), HEAD_DIMS.end());
            let what =
                format!("D is {dim}; it must be a multiple of {UNIT}, from {least} to {most}");
            return refuse("q", &self.q, what);
        }
        if (batch, dim) != (batch_kv, dim_kv) {
            let (q, dims) =
                (self.q.shape, if axes == Axes::Bshd { "[B, S, H, D]" } else { "[B, H, S, D]" });
            let what = format!("q is {q}, so k {dims} must have B = {batch} and D = {dim}");
            return refuse("k", &self.k, what);
        }
        if heads_kv == 0 || heads_q % heads_kv != 0 {
            let what = format!("q has {heads_q} heads, which is no multiple of k's {heads_kv}");
            return refuse("k", &self.k, what);
        }
        if self.v.shape != self.k.shape {
            return refuse("v", &self.v, format!("k is {}, and v must be, too", self.k.shape));
        }
        if let Some(out) = self.out.filter(|out| out.shape != self.q.shape) {
            return refuse("out", &out, format!("the result is {}", self.q.shape));
        }
        let short = |name: &'static str, view: &View, size: i64| {
            u32::try_from(size).map_err(|_| Refusal::Shape {
                name,
                shape: view.shape.to_string(),
                what: format!("{size} is more than 2^32-1"),
            })
        };
        Ok(Size {
            batch: short("q", &self.q, batch)?,
            heads_q: short("q", &self.q, heads_q)?,
            heads_kv: short("k", &self.k, heads_kv)?,
            seq_q: short("q", &self.q, seq_q)?,
            seq_kv: short("k", &self.k, seq_kv)?,
            dim: short("q", &self.q, dim)?,
            element: self.q.element,
            options: self.options,
        })
    }

    fn check_elements(&self) -> Result<(), Refusal> {
        let have = self.q.element;
        if ![Element::F16, Element::BF16].contains(&have) {
            let need = "float16 or bfloat16".into();
            return Err(Refusal::Element { name: "q", have, need });
        }
        for (name, tensor) in [("k", Some(self.k)), ("v", Some(self.v)), ("out", self.out)] {
            if let Some(other) = tensor.map(|t| t.element).filter(|&other| other != have) {
                let need = format!("{have}, the type of q,");
                return Err(Refusal::Element { name, have: other, need });
            }
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
        for (name, input) in [("q", self.q), ("k", self.k), ("v", self.v)] {
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

/// The four sizes of a tensor.
fn four(name: &'static str, view: &View) -> Result<[i64; 4], Refusal> {
    let have = view.shape.as_slice();
    have.try_into().map_err(|_| Refusal::Dimensions { name, have: have.len(), need: "4" })
}

fn strides_of(view: &View) -> [i64; 4] {
    view.strides.as_slice().try_into().unwrap_or([0; 4])
}

/// Strides of a tensor that TMA reads, or writes, as it lies. The host's tensors are copied in any case.
fn in_place(view: &View, axes: Axes) -> Option<Strides> {
    let sizes = axes.turn(view.shape.as_slice().try_into().ok()?);
    let strides = axes.turn(strides_of(view));
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
    let sizes = axes.turn(shape.as_slice().try_into().unwrap_or([0; 4]));
    let strides = axes.turn(shape.contiguous().as_slice().try_into().unwrap_or([0; 4]));
    let of = |i: usize| if sizes[i] > 1 { strides[i] as u64 } else { 0 };
    [of(0), of(1), of(2)]
}
