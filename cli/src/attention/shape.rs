//! The options that state an attention problem: sizes, lengths, mask, factors and layout.

use super::lengths;
use crate::args::finite;
use crate::error::Error;
use host::attention::{AttentionProblem, Heads, Mask, Sequences};
use isa::kernel::Dtype;
use std::path::PathBuf;
use std::str::FromStr;

const SIZES: &str = "Sizes of generated operands";
const WHAT: &str = "Attention";

/// Order of the dimensions of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Layout {
    /// [batch, seq, heads, dim]; packed [total, heads, dim]
    Bshd,
    /// [batch, heads, seq, dim]; packed [heads, total, dim]
    Bhsd,
}

/// `L,R`: keys before and behind the diagonal; -1 is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    left: Option<u32>,
    right: Option<u32>,
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let side = |text: &str| match text.trim() {
            "-1" => Ok(None),
            text => text.parse().map(Some).map_err(|_| ()),
        };
        match text.split_once(',').map(|(left, right)| (side(left), side(right))) {
            Some((Ok(left), Ok(right))) => Ok(Self { left, right }),
            _ => Err("expected L,R: keys before and behind the diagonal, -1 for no limit".into()),
        }
    }
}

/// The options whose names the GEMM has too, so that `check` declares them once for both.
#[derive(clap::Args, Debug, Clone, Copy, Default)]
pub struct BatchArgs {
    /// Number of sequences [default: 1]
    #[arg(help_heading = SIZES, long, value_name = "B")]
    pub batch: Option<u32>,
    /// Order of the dimensions in memory [default: bshd]
    #[arg(help_heading = WHAT, long, value_enum)]
    pub layout: Option<Layout>,
}

/// Sizes, mask and factors.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct ShapeArgs {
    #[arg(skip)]
    pub order: BatchArgs,
    /// Heads of Q and O
    #[arg(help_heading = SIZES, long, value_name = "H")]
    pub heads: Option<u32>,
    /// Heads of K and V, of which --heads is a multiple [default: --heads]
    #[arg(help_heading = SIZES, long, value_name = "H", requires = "heads")]
    pub kv_heads: Option<u32>,
    /// Keys of a sequence, and queries without --seq-q; with --cache-seqlens, the room for a sequence's keys [default: the
    /// most keys]
    #[arg(help_heading = SIZES, long, value_name = "S")]
    pub seq: Option<u32>,
    /// Queries of a sequence [default: --seq, or 1 with --cache-seqlens]
    #[arg(help_heading = SIZES, long, value_name = "S")]
    pub seq_q: Option<u32>,
    /// Elements of a head, a multiple of 8 up to 256
    #[arg(help_heading = SIZES, long, value_name = "D")]
    pub head_dim: Option<u32>,
    /// Packed sequences of these lengths: a line for each with the number of queries and the number of keys, or one
    /// number for both; or the same as a JSON array
    #[arg(help_heading = WHAT, long, value_name = "FILE", conflicts_with_all = ["batch", "seq", "seq_q"])]
    pub varlen: Option<PathBuf>,
    /// Queries with a cache of keys: the keys of each sequence, a line for each, or the same as a JSON array
    #[arg(help_heading = WHAT, long, value_name = "FILE", conflicts_with_all = ["batch", "varlen"])]
    pub cache_seqlens: Option<PathBuf>,
    /// The cache is in pages of so many rows, a multiple of 64
    #[arg(help_heading = SIZES, long, value_name = "ROWS", requires_all = ["cache_seqlens", "heads"])]
    pub page_size: Option<u32>,
    /// A query sees the keys up to its diagonal. The last query and the last key are on the diagonal
    #[arg(help_heading = WHAT, long)]
    pub causal: bool,
    /// A query sees L keys before its diagonal and R behind it; -1 is no limit
    #[arg(help_heading = WHAT, long, value_name = "L,R", allow_hyphen_values = true)]
    pub window: Option<Window>,
    /// Factor of the scores [default: 1 / sqrt(head dim)]
    #[arg(help_heading = WHAT, long, value_parser = finite, value_name = "X")]
    pub scale: Option<f32>,
    /// A score s, after the scale, becomes X * tanh(s / X)
    #[arg(help_heading = WHAT, long, value_parser = finite, value_name = "X")]
    pub softcap: Option<f32>,
    /// Also compute the logarithm of each row's sum of exponentials (LSE)
    #[arg(help_heading = WHAT, long)]
    pub lse: bool,
}

impl ShapeArgs {
    /// These options with a batch and a layout.
    pub fn in_order(&self, order: BatchArgs) -> Self {
        Self { order, ..self.clone() }
    }

    /// Whether some option is given.
    pub fn any(&self) -> bool {
        let Self {
            order: BatchArgs { batch, layout },
            heads,
            seq,
            head_dim,
            varlen,
            causal,
            window,
            ..
        } = self;
        let sizes = batch.is_some() || heads.is_some() || seq.is_some() || head_dim.is_some();
        let factors = self.scale.is_some() || self.softcap.is_some();
        let lists = varlen.is_some() || self.cache_seqlens.is_some();
        let rest = layout.is_some() || self.lse || lists;
        sizes || factors || rest || *causal || window.is_some()
    }

    /// Whether the sizes are stated by options.
    pub fn sized(&self) -> bool {
        self.heads.is_some()
            && self.head_dim.is_some()
            && (self.seq.is_some() || self.varlen.is_some() || self.cache_seqlens.is_some())
    }

    /// The sequences of the file of lengths, or those of the options.
    pub fn sequences(&self) -> Result<Option<Sequences>, Error> {
        if let Some(file) = &self.varlen {
            return Ok(Some(Sequences::packed(lengths::both(file)?)));
        }
        if let Some(keys) = self.cache_keys()? {
            return Ok(Some(self.cache(keys)));
        }
        let equal = |kv| Sequences::Equal {
            batch: self.order.batch.unwrap_or(1),
            q: self.seq_q.unwrap_or(kv),
            kv,
        };
        Ok(self.seq.map(equal))
    }

    /// The keys of each sequence of a cache.
    pub fn cache_keys(&self) -> Result<Option<Vec<u32>>, Error> {
        self.cache_seqlens.as_deref().map(lengths::keys).transpose()
    }

    /// A cache with the sizes of the options. It has as many pages as all sequences may need.
    fn cache(&self, keys: Vec<u32>) -> Sequences {
        let longest = keys.iter().copied().max().unwrap_or(0);
        let (q, capacity) = (self.seq_q.unwrap_or(1), self.seq.unwrap_or(longest.max(1)));
        let Some(page_rows) = self.page_size else {
            return Sequences::Cache { q, keys, capacity };
        };
        let sequence_pages = capacity.div_ceil(page_rows.max(1));
        let pages = sequence_pages.saturating_mul(keys.len() as u32);
        Sequences::Paged { q, keys, pages, page_rows, sequence_pages }
    }

    /// The problem with tensors of these sizes.
    pub fn problem(
        &self,
        dtype: Dtype,
        heads: Heads,
        sequences: Sequences,
    ) -> Result<AttentionProblem, Error> {
        let plain = match self.layout() {
            Layout::Bshd => AttentionProblem::bshd(dtype, heads, sequences),
            Layout::Bhsd => AttentionProblem::bhsd(dtype, heads, sequences),
        };
        let (scale, softcap, lse) = (self.scale, self.softcap, self.lse);
        let problem = AttentionProblem { mask: self.mask()?, scale, softcap, lse, ..plain };
        problem.check().map_err(host::Error::from)?;
        Ok(problem)
    }

    /// The problem with the sizes of the options.
    pub fn generated(&self, dtype: Dtype) -> Result<AttentionProblem, Error> {
        let (Some(q), Some(dim), Some(sequences)) = (self.heads, self.head_dim, self.sequences()?)
        else {
            let usage = "no operands: give --q, --k and --v FILE:TENSOR, or --heads, --head-dim and --seq (or \
                         --varlen or --cache-seqlens) for generated data";
            return Err(Error::Usage(usage.to_owned()));
        };
        self.problem(dtype, Heads { q, kv: self.kv_heads.unwrap_or(q), dim }, sequences)
    }

    /// The order of the dimensions.
    pub fn layout(&self) -> Layout {
        self.order.layout.unwrap_or(Layout::Bshd)
    }

    fn mask(&self) -> Result<Mask, Error> {
        match (self.causal, self.window) {
            (false, None) => Ok(Mask::FULL),
            (true, None) => Ok(Mask::CAUSAL),
            (false, Some(Window { left, right })) => Ok(Mask { left, right }),
            (true, Some(Window { left, right: None | Some(0) })) => {
                Ok(Mask { left, right: Some(0) })
            }
            (true, Some(Window { right: Some(right), .. })) => {
                let usage =
                    format!("--causal with {right} keys behind the diagonal: omit one of them");
                Err(Error::Usage(usage))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct TestLine {
        #[command(flatten)]
        order: BatchArgs,
        #[command(flatten)]
        shape: ShapeArgs,
    }

    fn args(options: &[&str]) -> ShapeArgs {
        let line = <TestLine as clap::Parser>::parse_from(["test"].iter().chain(options));
        line.shape.in_order(line.order)
    }

    fn mask(options: &[&str]) -> Mask {
        args(options).mask().unwrap()
    }

    #[test]
    fn masks() {
        assert_eq!(mask(&[]), Mask::FULL);
        assert_eq!(mask(&["--causal"]), Mask::CAUSAL);
        assert_eq!(mask(&["--causal", "--window", "64,-1"]), Mask::CAUSAL.window(64));
        assert_eq!(mask(&["--window", "64,0"]), Mask::CAUSAL.window(64));
        assert_eq!(mask(&["--window", "-1,3"]), Mask { left: None, right: Some(3) });
        assert!(args(&["--causal", "--window", "1,2"]).mask().is_err());
        for bad in ["3", "a,b", "1,-2", "1,2,3", ""] {
            assert!(bad.parse::<Window>().is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes() {
        let shape = ["--heads", "8", "--head-dim", "64", "--seq", "100"];
        let problem = args(&shape).generated(Dtype::Bf16).unwrap();
        assert_eq!((problem.heads.kv, problem.sequences.rows()), (8, [100, 100]));
        let more = [&shape[..], &["--kv-heads", "2", "--seq-q", "7", "--batch", "3"]].concat();
        let problem = args(&more).generated(Dtype::F16).unwrap();
        assert_eq!((problem.heads.kv, problem.sequences.rows()), (2, [7, 100]));
        assert_eq!(problem.sequences.batch(), 3);
        assert!(args(&shape[..4]).generated(Dtype::Bf16).is_err());
        assert!(!args(&[]).any() && args(&["--lse"]).any());
    }
}
