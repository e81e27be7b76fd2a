//! Attention in f64, and what rounding may change.

/// Q, K and V of one head: [tokens, columns] each.
#[derive(Clone, Copy)]
pub struct Head<'a> {
    /// Q, K and V.
    pub qkv: [&'a [f32]; 3],
    /// Columns of the head.
    pub columns: usize,
}

impl Head<'_> {
    /// Returns the largest error of `o` in units of what rounding may change: a correct result has at most 1.
    ///
    /// `score` turns a product q·k, the query and the key into a score; −∞ hides the key. The weights and O are
    /// rounded to bf16, each by at most 2⁻⁹ of its size, and the unit is twice the sum of both.
    pub fn error(&self, o: &[f32], score: impl Fn(f64, usize, usize) -> f64) -> f64 {
        self.weighted(o, score, |scores| {
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|x| (x - max).exp()).collect();
            let total = weights.iter().sum();
            (weights, total)
        })
    }

    /// [`Head::error`] of sigmoid attention: a weight is the sigmoid of its score, and O is not divided by anything.
    pub fn sigmoid_error(&self, o: &[f32], score: impl Fn(f64, usize, usize) -> f64) -> f64 {
        let sigmoid = |x: &f64| 1.0 / (1.0 + (-x).exp());
        self.weighted(o, score, |scores| (scores.iter().map(sigmoid).collect(), 1.0))
    }

    /// The error for weights of the scores of a query, and what their sum with the values is divided by.
    fn weighted(
        &self,
        o: &[f32],
        score: impl Fn(f64, usize, usize) -> f64,
        weigh: impl Fn(&[f64]) -> (Vec<f64>, f64),
    ) -> f64 {
        let (columns, [q, k, v]) = (self.columns, self.qkv);
        let row = |x: &'_ [f32], i: usize| -> Vec<f64> {
            x[i * columns..][..columns].iter().map(|&x| f64::from(x)).collect()
        };
        let keys: Vec<_> = (0..k.len() / columns).map(|j| (row(k, j), row(v, j))).collect();
        let mut worst: f64 = 0.0;
        for i in 0..q.len() / columns {
            let query = row(q, i);
            let dot = |key: &[f64]| query.iter().zip(key).map(|(a, b)| a * b).sum::<f64>();
            let scores: Vec<f64> =
                keys.iter().enumerate().map(|(j, (key, _))| score(dot(key), i, j)).collect();
            let (weights, total) = weigh(&scores);
            for (column, have) in row(o, i).into_iter().enumerate() {
                let terms = weights.iter().zip(&keys).map(|(w, (_, value))| w * value[column]);
                let (want, size) =
                    terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
                let unit = 2.0 * (size + want.abs()) / total / 512.0;
                let error = (have - want / total).abs() / unit;
                // A NaN is an error, too.
                worst = worst.max(if error.is_nan() { f64::INFINITY } else { error });
            }
        }
        worst
    }
}
