//! The attention reference against sums written out, what its bounds let pass, and the errors that it must see.

use half::{bf16, f16};
use host::Dtype;
use host::attention::{AttentionProblem, Heads, Mask, Operand, Sequences, Strides};
use host::data::{normal, rounded};
use host::reference::{Attention, AttentionCheck};
use proptest::prelude::*;

/// Q, K and V of a problem.
struct Values {
    problem: AttentionProblem,
    tensors: [Vec<f32>; 3],
}

impl Values {
    /// Normal values in the problem's type; those of Q times `peak`.
    fn new(problem: AttentionProblem, peak: f32, seed: u64) -> Self {
        let tensor = |i: u64, operand| {
            let span = problem.span(operand).unwrap() as usize;
            let peak = if operand == Operand::Q { peak } else { 1.0 };
            let values: Vec<f32> = normal(3 * seed + i, span).iter().map(|x| peak * x).collect();
            rounded(&values, problem.dtype).unwrap()
        };
        let tensors = [tensor(0, Operand::Q), tensor(1, Operand::K), tensor(2, Operand::V)];
        Self { problem, tensors }
    }

    fn reference(&self) -> Attention<'_> {
        let [q, k, v] = &self.tensors;
        Attention { problem: &self.problem, q, k, v }
    }

    /// Calls `f` with each row of Q: where it begins in the tensors, its index in its sequence, and the sequence.
    fn rows(&self, mut f: impl FnMut(u32, u32, u32)) {
        for b in 0..self.problem.sequences.batch() {
            for h in 0..self.problem.heads.q {
                (0..self.problem.sequences.lengths(b)[0]).for_each(|i| f(b, h, i));
            }
        }
    }

    fn at(&self, operand: Operand, b: u32, h: u32, i: u32) -> usize {
        let (batch, [q, kv]) = self.problem.sequences.first_rows(b);
        let first = if matches!(operand, Operand::K | Operand::V) { kv } else { q };
        let Strides { batch: sb, head, seq } = self.problem.strides(operand);
        (u64::from(batch) * sb + u64::from(h) * head + u64::from(first + i) * seq) as usize
    }

    /// The scores of a row, `None` where a key is not seen.
    fn scores(&self, b: u32, h: u32, i: u32) -> Vec<Option<f64>> {
        let (p, dim) = (&self.problem, self.problem.heads.dim as usize);
        let [queries, keys] = p.sequences.lengths(b).map(i64::from);
        let (q, head) = (self.at(Operand::Q, b, h, i), h / (p.heads.q / p.heads.kv));
        let score = |j: i64| {
            let diagonal = i64::from(i) + keys - queries;
            if p.mask.left.is_some_and(|left| j < diagonal - i64::from(left))
                || p.mask.right.is_some_and(|right| j > diagonal + i64::from(right))
            {
                return None;
            }
            let k = self.at(Operand::K, b, head, j as u32);
            let pairs = self.tensors[0][q..][..dim].iter().zip(&self.tensors[1][k..][..dim]);
            let dot: f64 = pairs.map(|(&x, &y)| f64::from(x) * f64::from(y)).sum();
            let s = f64::from(p.scale()) * dot;
            Some(p.softcap.map_or(s, |cap| f64::from(cap) * (s / f64::from(cap)).tanh()))
        };
        (0..keys).map(score).collect()
    }

    /// O and LSE from sums written out.
    fn naive(&self) -> (Vec<f64>, Vec<f64>) {
        let span = |operand| vec![0.0; self.problem.span(operand).unwrap() as usize];
        let (mut o, mut lse) = (span(Operand::O), span(Operand::Lse));
        let readers = self.problem.heads.q / self.problem.heads.kv;
        self.rows(|b, h, i| {
            let scores = self.scores(b, h, i);
            let sum: f64 = scores.iter().flatten().map(|s| s.exp()).sum();
            lse[self.at(Operand::Lse, b, h, i)] = sum.ln();
            for (j, s) in scores.iter().enumerate().filter_map(|(j, s)| Some((j, (*s)?))) {
                let v = self.at(Operand::V, b, h / readers, j as u32);
                for d in 0..self.problem.heads.dim as usize {
                    let row = self.at(Operand::O, b, h, i);
                    o[row + d] += s.exp() / sum * f64::from(self.tensors[2][v + d]);
                }
            }
        });
        (o, lse)
    }

    /// O and LSE as a kernel computes them: blocks of 32 keys, f32 sums, a running maximum, P in the 16-bit type.
    /// `skip` is a pair of a row and a key that is forgotten.
    fn kernel(&self, skip: Option<(u32, usize)>) -> (Vec<f32>, Vec<f32>) {
        let round = |x: f32| match self.problem.dtype {
            Dtype::F16 => f16::from_f32(x).to_f32(),
            _ => bf16::from_f32(x).to_f32(),
        };
        let span = |operand| vec![f32::NAN; self.problem.span(operand).unwrap() as usize];
        let (mut o, mut lse) = (span(Operand::O), span(Operand::Lse));
        let dim = self.problem.heads.dim as usize;
        let readers = self.problem.heads.q / self.problem.heads.kv;
        self.rows(|b, h, i| {
            let mut scores = self.scores(b, h, i);
            if let Some((_, key)) = skip.filter(|(row, _)| *row == i) {
                scores[key] = None;
            }
            let (mut max, mut sum, mut acc) = (f32::NEG_INFINITY, 0.0f32, vec![0.0f32; dim]);
            for (block, scores) in scores.chunks(32).enumerate() {
                let scores: Vec<Option<f32>> = scores.iter().map(|s| s.map(|s| s as f32)).collect();
                let now = scores.iter().flatten().copied().fold(max, f32::max);
                if now == f32::NEG_INFINITY {
                    continue;
                }
                let by = (max - now).exp();
                (max, sum) = (now, sum * by);
                for x in &mut acc {
                    *x *= by;
                }
                for (j, s) in scores.iter().enumerate().filter_map(|(j, s)| Some((j, (*s)?))) {
                    let p = (s - max).exp();
                    sum += p;
                    let v = self.at(Operand::V, b, h / readers, (32 * block + j) as u32);
                    let values = &self.tensors[2][v..][..dim];
                    acc.iter_mut().zip(values).for_each(|(x, v)| *x += round(p) * v);
                }
            }
            let row = self.at(Operand::O, b, h, i);
            for (d, x) in acc.iter().enumerate() {
                o[row + d] = if sum > 0.0 { round(x / sum) } else { 0.0 };
            }
            lse[self.at(Operand::Lse, b, h, i)] = max + sum.ln();
        });
        (o, lse)
    }

    fn judge(&self, (o, lse): &(Vec<f32>, Vec<f32>)) -> AttentionCheck {
        self.reference().check(o, Some(lse)).unwrap()
    }
}

/// Any problem with a few queries and keys.
fn problems() -> impl Strategy<Value = AttentionProblem> {
    let heads = (1u32..4, 1u32..4, 1u32..5).prop_map(|(kv, readers, eights)| Heads {
        q: kv * readers,
        kv,
        dim: 8 * eights,
    });
    let lengths = proptest::collection::vec([0u32..30, 0u32..50], 1..4);
    let sequences = prop_oneof![
        (1u32..3, 1u32..40, 1u32..70).prop_map(|(batch, q, kv)| Sequences::Equal { batch, q, kv }),
        lengths.prop_map(|mut lengths| {
            lengths.push([3, 2]);
            Sequences::packed(lengths)
        }),
    ];
    let window = proptest::option::of(0u32..40);
    let options = (window.clone(), window, proptest::option::of(0.5f32..4.0), any::<[bool; 3]>());
    (heads, sequences, options).prop_map(|(heads, sequences, (left, right, softcap, bits))| {
        let layout = if bits[0] { AttentionProblem::bshd } else { AttentionProblem::bhsd };
        let dtype = if bits[1] { Dtype::Bf16 } else { Dtype::F16 };
        let problem = layout(dtype, heads, sequences);
        // Gaps between the rows of Q.
        let q =
            Strides { seq: problem.q.seq + 8 * problem.q.batch.max(problem.q.head), ..problem.q };
        let q = if bits[2] { q } else { problem.q };
        AttentionProblem { mask: Mask { left, right }, softcap, q, ..problem }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn it_is_the_softmax_written_out(problem in problems(), seed in 0u64..1000) {
        let values = Values::new(problem, 1.0, seed);
        let (o, lse) = values.reference().compute().unwrap();
        let (want, want_lse) = values.naive();
        for (have, want) in o.iter().zip(&want).chain(lse.iter().zip(&want_lse)) {
            let near = (have - want).abs() <= 1e-10 * (1.0 + want.abs());
            // Both are -inf where no key is seen.
            prop_assert!(near || have.total_cmp(want).is_eq(), "{have} {want}");
        }
        prop_assert_eq!((o.len(), lse.len()), (want.len(), want_lse.len()));
    }

    #[test]
    fn what_a_kernel_rounds_passes(problem in problems(), seed in 0u64..1000, peak in 0.1f32..30.0) {
        let values = Values::new(problem, peak, seed);
        let check = values.judge(&values.kernel(None));
        prop_assert!(check.passed, "{check}");
        prop_assert!(!check.o.sampled && check.o.compared == check.o.elements, "{check}");
    }
}

/// 3 x 160 queries of 2 heads, of which two share a head of K and V.
fn typical(dtype: Dtype, mask: Mask) -> Values {
    let heads = Heads { q: 2, kv: 1, dim: 64 };
    let sequences = Sequences::Equal { batch: 3, q: 160, kv: 200 };
    let problem = AttentionProblem { mask, ..AttentionProblem::bshd(dtype, heads, sequences) };
    Values::new(problem, 1.0, 7)
}

#[test]
fn the_bound_is_near_what_rounding_gives() {
    for dtype in [Dtype::Bf16, Dtype::F16] {
        for mask in [Mask::FULL, Mask::CAUSAL, Mask::CAUSAL.window(20)] {
            let values = typical(dtype, mask);
            let check = values.judge(&values.kernel(None));
            let part = check.o.relative_error / check.bound;
            assert!(check.passed && (0.2..0.7).contains(&part), "{check}");
            assert!(check.worst > 0.02 && check.worst_lse.is_some(), "{check}");
        }
    }
}

#[test]
fn a_forgotten_key_shows() {
    let values = typical(Dtype::Bf16, Mask::CAUSAL);
    // Of each sequence and head, one of 160 rows lacks one of its 101 keys.
    let check = values.judge(&values.kernel(Some((60, 30))));
    assert!(!check.passed && check.worst_lse.unwrap() > 1.0, "{check}");
    // O alone shows it where a row has fewer keys.
    let values = typical(Dtype::Bf16, Mask::CAUSAL.window(10));
    let (o, _) = values.kernel(Some((60, 95)));
    let check = values.reference().check(&o, None).unwrap();
    assert!(!check.passed && check.worst > 1.0, "{check}");
}

#[test]
fn other_masks_heads_and_factors_show() {
    let values = typical(Dtype::Bf16, Mask::CAUSAL);
    let p = &values.problem;
    let wrong = [
        AttentionProblem { mask: Mask { left: None, right: Some(1) }, ..p.clone() },
        AttentionProblem { mask: Mask::CAUSAL.window(150), ..p.clone() },
        AttentionProblem { scale: Some(0.126), ..p.clone() },
        AttentionProblem { softcap: Some(5.0), ..p.clone() },
        AttentionProblem { q: Strides { head: 0, ..p.q }, ..p.clone() },
    ];
    for problem in wrong {
        let other = Values { problem, tensors: values.tensors.clone() };
        let check = values.judge(&other.kernel(None));
        assert!(!check.passed, "{:?}: {check}", other.problem);
    }
}

#[test]
fn what_is_not_written_shows() {
    let values = typical(Dtype::F16, Mask { left: None, right: Some(0) });
    let good = values.kernel(None);
    for wrong in [f32::NAN, f32::INFINITY, 9.0] {
        let (mut o, mut lse) = good.clone();
        o[12_345] = wrong;
        let check = values.judge(&(o, lse.clone()));
        assert!(!check.passed, "{check}");
        lse[77] = wrong;
        let check = values.judge(&(good.0.clone(), lse));
        assert!(!check.passed && check.o.relative_error < check.bound, "{check}");
    }
}

#[test]
fn a_row_without_keys_is_zero_and_minus_infinity() {
    let heads = Heads { q: 1, kv: 1, dim: 8 };
    let sequences = Sequences::Equal { batch: 1, q: 4, kv: 2 };
    let plain = AttentionProblem::bhsd(Dtype::Bf16, heads, sequences);
    let values = Values::new(AttentionProblem { mask: Mask::CAUSAL, ..plain }, 1.0, 0);
    let (o, lse) = values.reference().compute().unwrap();
    assert!(o[..16].iter().all(|&x| x == 0.0) && o[16..].iter().any(|&x| x != 0.0));
    assert_eq!(lse[..2], [f64::NEG_INFINITY; 2]);
    let good = values.kernel(None);
    assert!(values.judge(&good).passed);
    let (mut o, mut lse) = good.clone();
    o[0] = f32::MIN_POSITIVE;
    assert!(!values.judge(&(o, lse.clone())).passed);
    lse[1] = 0.0;
    assert!(!values.judge(&(good.0, lse)).passed);
}

#[test]
fn a_sample_has_the_ends_and_rows_of_every_head() {
    let values = typical(Dtype::Bf16, Mask::CAUSAL);
    let good = values.kernel(None);
    let judge = |o: &[f32]| values.reference().check_up_to(o, Some(&good.1), 0).unwrap();
    let check = judge(&good.0);
    assert!(check.passed && check.o.sampled, "{check}");
    assert_eq!((check.o.compared, check.o.elements), (64 * 64, 960 * 64));
    // The first row of the first head, the last of the last, and all rows of one head of one sequence.
    let of_a_head = |b, h| (0..160).map(move |i| (b, h, i));
    let mut wrong: Vec<Vec<(u32, u32, u32)>> = vec![vec![(0, 0, 0)], vec![(2, 1, 159)]];
    wrong.extend((0..3).flat_map(|b| (0..2).map(move |h| of_a_head(b, h).collect())));
    for rows in wrong {
        let mut o = good.0.clone();
        for &(b, h, i) in &rows {
            o[values.at(Operand::O, b, h, i)] += 100.0;
        }
        assert!(!judge(&o).passed, "{:?}", rows[0]);
    }
}

#[test]
fn slices_that_are_too_short_are_named() {
    let values = typical(Dtype::Bf16, Mask::FULL);
    let [q, k, v] = &values.tensors;
    let short = Attention { problem: &values.problem, q, k: &k[1..], v };
    let text = short.compute().unwrap_err().to_string();
    assert_eq!(text, "attention operand K: 38400 elements are needed; there are 38399");
    let text = values.reference().check(&q[1..], None).unwrap_err().to_string();
    assert!(text.contains("operand O: 61440 elements are needed"), "{text}");
}
