//! A report as a page of text.

use super::report::{Report, StepLine, ThreadGroup};
use std::fmt;

impl std::error::Error for Report {}

/// The page: `main` and `unwrap` print an error with `Debug`.
impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = self.rule;
        writeln!(f, "{}: {} ({})", rule.code(), rule.title(), rule.chapter())?;
        writeln!(f, "  {}", self.message)?;
        write!(f, "  kernel {}, cluster {}, ", self.kernel, self.cluster)?;
        match self.schedule.strip_prefix("seed:") {
            Some(seed) => writeln!(f, "seed {seed}")?,
            None => writeln!(f, "schedule {}", self.schedule)?,
        }
        if let Some(at) = self.at {
            write!(f, "  at {at}")?;
            self.culprit.map_or(Ok(()), |c| write!(f, ", {c}"))?;
            writeln!(f)?;
        }
        if let Some((what, at)) = &self.other {
            writeln!(f, "  against: {what} at {at}")?;
        }
        for n in self.notes.iter().take(8) {
            writeln!(f, "note: {n}")?;
        }
        // A single wait is told by the message already.
        let waits = self.waits.as_slice();
        let waits = if *waits == [self.message.as_str()] { &[] } else { waits };
        if !waits.is_empty() {
            writeln!(f, "who waits for whom:")?;
        }
        for w in waits {
            writeln!(f, "  {w}")?;
        }
        if !self.barriers.is_empty() {
            writeln!(f, "barriers:")?;
        }
        for b in self.barriers.iter().take(10) {
            writeln!(
                f,
                "  {} of CTA {}: phase {} (parity {}), {} of {} arrivals pending, tx {} bytes",
                b.name,
                b.cta,
                b.phase,
                b.phase & 1,
                b.pending,
                b.expected,
                b.tx
            )?;
            for a in b.arrivals.iter().take(3) {
                writeln!(f, "      {a}")?;
            }
        }
        if !self.threads.is_empty() {
            writeln!(f, "threads:")?;
        }
        for t in self.threads.iter().take(14) {
            writeln!(f, "  {t}")?;
        }
        if self.threads.len() > 14 {
            writeln!(f, "  and {} more groups", self.threads.len() - 14)?;
        }
        if !self.steps.is_empty() {
            writeln!(f, "last steps:")?;
        }
        let width = |of: fn(&StepLine) -> usize| self.steps.iter().map(of).max().unwrap_or(0);
        let (who, what) = (width(|s| s.who.to_string().len()), width(|s| s.what.len()));
        for s in &self.steps {
            write!(f, "  {:who$}  {:what$}", s.who.to_string(), s.what)?;
            s.at.map_or(Ok(()), |at| write!(f, "  {at}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for ThreadGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.warps.len() == 1 { "" } else { "s" };
        write!(f, "CTA {}, warp{s} {}", self.cta, ranges(&self.warps))?;
        self.role.map_or(Ok(()), |r| write!(f, " ({r})"))?;
        let s = if self.count == 1 { "" } else { "s" };
        write!(f, ", {} thread{s}: {}", self.count, self.doing)?;
        self.at.map_or(Ok(()), |at| write!(f, " at {at}"))
    }
}

/// `[0, 1, 2, 5]` as `0-2,5`.
pub(crate) fn ranges(sorted: &[u32]) -> String {
    let mut out = String::new();
    let mut i = 0;
    while i < sorted.len() {
        let start = sorted[i];
        let mut end = start;
        while i + 1 < sorted.len() && sorted[i + 1] == end + 1 {
            i += 1;
            end = sorted[i];
        }
        i += 1;
        if !out.is_empty() {
            out.push(',');
        }
        out += &start.to_string();
        if start != end {
            out += "-";
            out += &end.to_string();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warps_are_listed_as_ranges() {
        assert_eq!(ranges(&[0]), "0");
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }
}
