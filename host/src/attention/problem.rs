//! The attention that a plan is made for: sizes, element type, mask, layouts, and what is refused of them.

use super::error::AttentionError;
use super::mask::Mask;
use super::sequences::Sequences;
use super::strides::{Operand, Strides};
use isa::kernel::Dtype;

/// Largest head dim that a kernel computes.
pub const MAX_HEAD_DIM: u32 = 256;
/// Most heads, and most sequences: a work list has 16 bits for each.
const MAX_COUNT: u32 = 1 << 16;
/// Most tiles that a work list is made of. It has 32 bytes for each.
const MAX_TILES: u64 = 1 << 24;
/// Fewest queries of a tile.
const SMALLEST_TILE: u32 = 64;

/// Heads of Q and O, heads of K and V, and elements of a head.
///
/// Query head `h` reads head `h / (q / kv)` of K and V: one head for each (`q == kv`, MHA), one for several (GQA), or
/// one for all (`kv == 1`, MQA).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Heads {
    /// Heads of Q and O.
    pub q: u32,
    /// Heads of K and V; `q` is a multiple of it.
    pub kv: u32,
    /// Elements of a head: a multiple of 8, at most 256.
    pub dim: u32,
}

impl Heads {
    /// The head of K and V that query head `head` reads; its own one if there are no groups of heads.
    pub const fn kv_of(&self, head: u32) -> u32 {
        match self.q.checked_div(self.kv) {
            None | Some(0) => head,
            Some(of_group) => head / of_group,
        }
    }
}

/// Attention forward: `O = softmax(mask(cap(scale * Q K^T))) V`.
///
/// A query that sees no key gets a row of zeros in O, and -inf in LSE.
///
/// ```
/// use warpipe_host::Dtype;
/// use warpipe_host::attention::{AttentionProblem, Heads, Mask, Sequences};
///
/// let heads = Heads { q: 16, kv: 4, dim: 128 };
/// let sequences = Sequences::Equal { batch: 2, q: 1024, kv: 4096 };
/// let problem = AttentionProblem {
///     mask: Mask::CAUSAL,
///     ..AttentionProblem::bshd(Dtype::Bf16, heads, sequences)
/// };
/// problem.check()?;
/// # Ok::<(), warpipe_host::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct AttentionProblem {
    /// Element type of Q, K, V and O: bf16 or f16.
    pub dtype: Dtype,
    /// Heads.
    pub heads: Heads,
    /// Number and lengths of the sequences.
    pub sequences: Sequences,
    /// Which keys a query sees.
    pub mask: Mask,
    /// Factor of the scores; `None` is `1 / sqrt(heads.dim)`.
    pub scale: Option<f32>,
    /// A score `s`, after the scale, becomes `softcap * tanh(s / softcap)`.
    pub softcap: Option<f32>,
    /// Whether the logarithm of each row's sum of exponentials (LSE) is written: f32, packed, `[batch, heads, seq_q]`
    /// for sequences of equal lengths and `[heads, total_q]` for packed ones.
    pub lse: bool,
    /// Layout of Q.
    pub q: Strides,
    /// Layout of K.
    pub k: Strides,
    /// Layout of V.
    pub v: Strides,
    /// Layout of O.
    pub o: Strides,
}

impl AttentionProblem {
    /// Full attention with tensors `[batch, seq, heads, dim]` without gaps. For packed sequences they are
    /// `[total, heads, dim]`.
    pub fn bshd(dtype: Dtype, heads: Heads, sequences: Sequences) -> Self {
        let [q, kv] = sequences.rows();
        let q = Strides::bshd(heads.q, q, heads.dim);
        let kv = Strides::bshd(heads.kv, kv, heads.dim);
        Self::of(dtype, heads, sequences, q, kv)
    }

    /// Full attention with tensors `[batch, heads, seq, dim]` without gaps. For packed sequences they are
    /// `[heads, total, dim]`.
    pub fn bhsd(dtype: Dtype, heads: Heads, sequences: Sequences) -> Self {
        let [q, kv] = sequences.rows();
        let q = Strides::bhsd(heads.q, q, heads.dim);
        let kv = Strides::bhsd(heads.kv, kv, heads.dim);
        Self::of(dtype, heads, sequences, q, kv)
    }

    fn of(dtype: Dtype, heads: Heads, sequences: Sequences, q: Strides, kv: Strides) -> Self {
        Self {
            dtype,
            heads,
            sequences,
            mask: Mask::FULL,
            scale: None,
            softcap: None,
            lse: false,
            q,
            k: kv,
            v: kv,
            o: q,
        }
    }

    /// The factor of the scores.
    pub fn scale(&self) -> f32 {
        self.scale.unwrap_or_else(|| (1.0 / f64::from(self.heads.dim).sqrt()) as f32)
    }

    /// Floating-point operations of both products over the pairs of a query and a key that it sees: four for each
    /// pair and element of a head.
    pub fn flops(&self) -> f64 {
        let pairs: u64 = (0..self.sequences.batch())
            .map(|b| {
                let [q, kv] = self.sequences.lengths(b);
                self.mask.pairs(q, kv)
            })
            .sum();
        4.0 * f64::from(self.heads.q) * f64::from(self.heads.dim) * pairs as f64
    }

    /// Layout of an operand; those of LSE and of the block table have no gaps.
    pub fn strides(&self, operand: Operand) -> Strides {
        match operand {
            Operand::Q => self.q,
            Operand::K => self.k,
            Operand::V => self.v,
            Operand::O => self.o,
            Operand::Lse => Strides::bhsd(self.heads.q, self.sequences.rows()[0], 1),
            Operand::BlockTable => Strides::bhsd(1, self.sequences.sequence_pages(), 1),
        }
    }

    /// Sizes of an operand, `[batch, heads, rows, dim]`. Packed sequences are one batch; the batches of a paged cache are
    /// its pages.
    pub fn sizes(&self, operand: Operand) -> [u64; 4] {
        let ([q, kv], [batch, kv_batch]) = (self.sequences.rows(), self.sequences.batches());
        let (heads, rows, batch) = match operand {
            Operand::K | Operand::V => (self.heads.kv, kv, kv_batch),
            Operand::Q | Operand::O | Operand::Lse => (self.heads.q, q, batch),
            Operand::BlockTable => (1, self.sequences.sequence_pages(), batch),
        };
        let numbers = matches!(operand, Operand::Lse | Operand::BlockTable);
        let dim = if numbers { 1 } else { self.heads.dim };
        [batch.into(), heads.into(), rows.into(), dim.into()]
    }

    /// Element type of an operand.
    pub fn dtype(&self, operand: Operand) -> Dtype {
        match operand {
            Operand::Lse => Dtype::F32,
            Operand::BlockTable => Dtype::U32,
            _ => self.dtype,
        }
    }

    /// Elements from the first to the last one of an operand.
    pub fn span(&self, operand: Operand) -> Option<u64> {
        self.strides(operand).span(self.sizes(operand))
    }

    /// Bytes from the first to the last element of an operand, gaps included.
    ///
    /// # Errors
    /// [`AttentionError::Bytes`] for more than a GPU can address.
    pub fn bytes(&self, operand: Operand) -> Result<u64, AttentionError> {
        let size = self.dtype(operand).size() as u64;
        let bytes = self.span(operand).and_then(|span| span.checked_mul(size));
        bytes
            .filter(|&bytes| bytes < 1 << 47)
            .ok_or_else(|| AttentionError::Bytes { operand, sizes: self.sizes(operand) })
    }

    /// Checks types, sizes, options and layouts.
    ///
    /// # Errors
    /// [`AttentionError`], one line for each kind of mistake.
    pub fn check(&self) -> Result<(), AttentionError> {
        let Heads { q, kv, dim } = self.heads;
        if !matches!(self.dtype, Dtype::Bf16 | Dtype::F16) {
            return Err(AttentionError::Dtype { dtype: self.dtype.name() });
        }
        if !dim.is_multiple_of(8) || !(8..=MAX_HEAD_DIM).contains(&dim) {
            return Err(AttentionError::HeadDim { dim, most: MAX_HEAD_DIM });
        }
        if q == 0 || kv == 0 || q > MAX_COUNT || !q.is_multiple_of(kv) {
            return Err(AttentionError::Heads { q, kv, most: MAX_COUNT });
        }
        self.sequences.check(MAX_COUNT)?;
        for (what, value) in [("scale", self.scale), ("softcap", self.softcap)] {
            if let Some(value) = value.filter(|x| !(x.is_finite() && *x > 0.0)) {
                return Err(AttentionError::Factor { what, value });
            }
        }
        let tiles = (0..self.sequences.batch())
            .map(|b| u64::from(self.sequences.lengths(b)[0].div_ceil(SMALLEST_TILE)) * u64::from(q))
            .sum();
        if tiles > MAX_TILES {
            return Err(AttentionError::Tiles { tiles, rows: SMALLEST_TILE, most: MAX_TILES });
        }
        for operand in [Operand::Q, Operand::K, Operand::V, Operand::O] {
            self.strides(operand).check(operand, self.sizes(operand), self.dtype.size() as u64)?;
        }
        for operand in Operand::ALL {
            self.bytes(operand)?;
        }
        if self.sequences.cached() {
            self.page_step(Operand::K)?;
            self.page_step(Operand::V)?;
        }
        Ok(())
    }

    /// Rows from one batch of K or V to the next, as the decode kernels count them.
    pub(super) fn page_step(&self, operand: Operand) -> Result<u32, AttentionError> {
        let Strides { batch, seq, .. } = self.strides(operand);
        let [batches, _, rows, _] = self.sizes(operand);
        let step = if batches == 1 {
            Some(0)
        } else if rows == 1 {
            // A row is as long as a batch.
            Some(1)
        } else {
            (seq > 0 && batch.is_multiple_of(seq)).then(|| batch / seq)
        };
        let end = |step: u64| (batches - 1).checked_mul(step)?.checked_add(rows);
        step.filter(|&step| end(step).is_some_and(|end| end < 1 << 31))
            .map(|step| step as u32)
            .ok_or(AttentionError::PageStride { operand, batch, seq, batches })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADS: Heads = Heads { q: 4, kv: 2, dim: 64 };

    fn equal(batch: u32, q: u32, kv: u32) -> AttentionProblem {
        AttentionProblem::bshd(Dtype::Bf16, HEADS, Sequences::Equal { batch, q, kv })
    }

    fn refusal(problem: &AttentionProblem) -> String {
        let text = problem.check().expect_err("a refusal").to_string();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    }

    #[test]
    fn a_plain_problem_passes() {
        for layout in [AttentionProblem::bshd, AttentionProblem::bhsd] {
            for dim in [8, 64, 80, 256] {
                let heads = Heads { dim, ..HEADS };
                let packed = Sequences::packed([[3, 5], [0, 7], [9, 0]]);
                for sequences in [Sequences::Equal { batch: 3, q: 1, kv: 7 }, packed] {
                    let problem = layout(Dtype::F16, heads, sequences);
                    problem.check().unwrap();
                    let full = problem.sizes(Operand::Q).iter().product();
                    assert_eq!(problem.span(Operand::Q), Some(full), "no gaps");
                }
            }
        }
    }

    #[test]
    fn sizes_and_types() {
        let p = equal(1, 16, 16);
        let with = |heads| AttentionProblem { heads, ..p.clone() };
        let cases = [
            (AttentionProblem { dtype: Dtype::F32, ..p.clone() }, "f32; bf16 or f16"),
            (with(Heads { dim: 0, ..HEADS }), "head dim 0; "),
            (with(Heads { dim: 100, ..HEADS }), "head dim 100; it must be a multiple of 8"),
            (with(Heads { dim: 264, ..HEADS }), "8 to 256"),
            (with(Heads { kv: 3, ..HEADS }), "4 query heads and 3 key heads"),
            (with(Heads { kv: 0, ..HEADS }), "4 query heads and 0 key heads"),
            (with(Heads { q: 0, ..HEADS }), "0 query heads"),
            (with(Heads { q: 131072, ..HEADS }), "131072 query heads"),
            (AttentionProblem { scale: Some(0.0), ..p.clone() }, "scale of 0; "),
            (AttentionProblem { scale: Some(f32::NAN), ..p.clone() }, "scale of NaN"),
            (AttentionProblem { softcap: Some(-2.0), ..p.clone() }, "softcap of -2; "),
            (equal(0, 16, 16), "0 sequences"),
            (equal(1 << 17, 16, 16), "131072 sequences"),
            (equal(1, 0, 16), "seq_q = 0"),
            (equal(1, 16, 0), "seq_kv = 0"),
            (equal(1, 16, (1 << 29) + 1), "seq_kv = 536870913"),
            (equal(60000, 1, 1 << 29), "operand K of 60000 x 2 x 536870912 x 64"),
            (equal(60000, 1 << 20, 1), "3932160000 tiles of 64 queries"),
        ];
        for (problem, words) in cases {
            let text = refusal(&problem);
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn packed_lengths() {
        let packed = |q: &[u32], kv: &[u32]| {
            let sequences = Sequences::Packed { q: q.to_vec(), kv: kv.to_vec() };
            refusal(&AttentionProblem::bshd(Dtype::Bf16, HEADS, sequences))
        };
        assert!(packed(&[], &[]).contains("cu_seqlens_q has 0 numbers"));
        assert!(packed(&[0], &[0]).contains("cu_seqlens_q has 1 number"));
        assert!(packed(&[0, 4], &[0, 4, 5]).contains("2 and 3 numbers"));
        assert!(packed(&[1, 4], &[0, 4]).contains("cu_seqlens_q begins with 1"));
        assert!(packed(&[0, 4, 3], &[0, 4, 5]).contains("cu_seqlens_q[2] = 3"));
        assert!(packed(&[0, 4], &[0, 0]).contains("cu_seqlens_kv ends with 0"));
        assert!(packed(&[0, 1 << 31], &[0, 1]).contains("cu_seqlens_q ends with 2147483648"));
        let huge = Sequences::packed([[u32::MAX, 1], [u32::MAX, 1]]);
        let problem = AttentionProblem::bshd(Dtype::Bf16, HEADS, huge);
        assert!(refusal(&problem).contains("4294967295"));
    }

    #[test]
    fn a_cache_without_pages() {
        let (keys, sequence_pages) = (vec![0], 1);
        let paged = Sequences::Paged { q: 1, keys, pages: 0, page_rows: 64, sequence_pages };
        let text = refusal(&AttentionProblem::bshd(Dtype::Bf16, HEADS, paged));
        assert!(text.contains("pages = 0; it must be 1"), "{text}");
    }

    #[test]
    fn layouts() {
        let p = equal(2, 16, 16);
        let with = |q: Strides| AttentionProblem { q, ..p.clone() };
        let odd = with(Strides { seq: 252, ..p.q });
        assert!(refusal(&odd).contains("Q: the seq stride of 252 elements"), "{}", refusal(&odd));
        let far = with(Strides { batch: 1 << 40, ..p.q });
        assert!(refusal(&far).contains("2^40 bytes"), "{}", refusal(&far));
        // Q may be read through any strides, also where elements repeat; O may not.
        let repeated = Strides { head: 0, ..p.q };
        with(repeated).check().unwrap();
        let twice = AttentionProblem { o: repeated, ..p.clone() };
        assert!(refusal(&twice).contains("O: the head stride of 0 elements"));
        let overlap = AttentionProblem { o: Strides { batch: 4096 - 256, ..p.o }, ..p.clone() };
        assert!(refusal(&overlap).contains("O: the batch stride of 3840 elements"));
        // The stride of a dimension of size 1 is of no account.
        let one = equal(1, 16, 16);
        AttentionProblem { o: Strides { batch: 3, ..one.o }, ..one }.check().unwrap();
    }

    #[test]
    fn flops_count_what_is_seen() {
        let full = equal(2, 4, 8);
        assert!((full.flops() - f64::from(4 * 4 * 64 * 2 * 32)).abs() < 0.5);
        let causal = AttentionProblem { mask: Mask::CAUSAL, ..equal(1, 4, 4) };
        assert!((causal.flops() - f64::from(4 * 4 * 64 * 10)).abs() < 0.5);
    }

    proptest! {
        /// No input makes the check panic, whatever it says.
        #[test]
        fn any_numbers(
            numbers: [u32; 6], strides: [u64; 3], mask: (Option<u32>, Option<u32>), factor: f32,
            cu in (proptest::collection::vec(any::<u32>(), 0..5), proptest::collection::vec(any::<u32>(), 0..5)),
        ) {
            let [q, kv, dim, batch, rows, keys] = numbers;
            let strides = Strides { batch: strides[0], head: strides[1], seq: strides[2] };
            for sequences in [Sequences::Equal { batch, q: rows, kv: keys }, Sequences::Packed { q: cu.0, kv: cu.1 }] {
                let plain = AttentionProblem::bshd(Dtype::Bf16, Heads { q, kv, dim }, sequences);
                let problem = AttentionProblem {
                    mask: Mask { left: mask.0, right: mask.1 }, scale: Some(factor), o: strides, ..plain
                };
                if let Err(error) = problem.check() {
                    prop_assert_eq!(error.to_string().lines().count(), 1);
                }
            }
        }
    }
}
