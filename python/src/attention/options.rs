//! Options of a call, and the order of its tensors' dimensions.

use crate::layout::Dims;
use crate::refusal::Refusal;

/// Order of a tensor's dimensions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Axes {
    /// `[batch, seq, heads, dim]`, as flash-attention has it.
    Bshd,
    /// `[batch, heads, seq, dim]`, as torch's `scaled_dot_product_attention` has it.
    Bhsd,
    /// `[total, heads, dim]`: packed sequences, as `flash_attn_varlen_func` has them.
    Packed,
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

    /// Values of a tensor's dimensions as batch, heads, rows, dim; `None` if there are too few or too many. `one` is the
    /// value of the batch that packed sequences do not have.
    pub fn spread(self, values: &[i64], one: i64) -> Option<[i64; 4]> {
        match (self, values) {
            (Self::Bshd, &[b, s, h, d]) | (Self::Bhsd, &[b, h, s, d]) => Some([b, h, s, d]),
            (Self::Packed, &[s, h, d]) => Some([one, h, s, d]),
            _ => None,
        }
    }

    /// The reverse.
    pub fn gather(self, [b, h, s, d]: [i64; 4]) -> Dims {
        let list: &[i64] = match self {
            Self::Bshd => &[b, s, h, d],
            Self::Bhsd => &[b, h, s, d],
            Self::Packed => &[s, h, d],
        };
        Dims::new(list).unwrap_or(Dims::EMPTY)
    }

    /// The dimensions of a tensor, in words.
    pub fn dimensions(self) -> &'static str {
        match self {
            Self::Bshd => "[B, S, H, D]",
            Self::Bhsd => "[B, H, S, D]",
            Self::Packed => "[total, H, D]",
        }
    }

    /// How many dimensions a tensor has.
    pub fn count(self) -> &'static str {
        if self == Self::Packed { "3" } else { "4" }
    }
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
