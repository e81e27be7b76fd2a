//! What ptxas says of wgmmas, in fewer words.

use std::fmt;

/// A loss of speed that ptxas reports.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Loss<'a> {
    /// `C7510`, say; some messages have none.
    code: Option<&'a str>,
    kind: Kind,
    /// Why, in ptxas's words.
    why: &'a str,
    /// The line of the PTX, if ptxas names one.
    pub line: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Serialised,
    /// `warpgroup.arrive` is a `wgmma.fence` that the program lacks.
    Fence,
    Wait,
    Other,
}

impl<'a> Loss<'a> {
    /// Reads a message. What is not known is repeated as it is.
    pub fn parse(message: &'a str) -> Self {
        let text = message.strip_prefix("ptxas info").unwrap_or(message);
        let text = text.trim_start_matches([' ', ':']);
        let (code, text) = match text.strip_prefix('(').and_then(|rest| rest.split_once(") ")) {
            Some((code, rest)) => (Some(code), rest),
            None => (None, text),
        };
        let text = text.strip_prefix("Potential Performance Loss: ").unwrap_or(text);
        // The kernel is known: each is assembled by itself.
        let text = [" in the function '", " for the function '", " in function '"]
            .iter()
            .find_map(|tail| text.split_once(tail))
            .map_or(text, |(text, _)| text);
        if let Some((_, why)) = text.split_once("instructions are serialized due to ") {
            return Self { code, kind: Kind::Serialised, why, line: None };
        }
        if let Some((what, rest)) = text.split_once(" is injected in around line ") {
            let kind = if what.contains("wait") { Kind::Wait } else { Kind::Fence };
            let (line, why) = rest.split_once(" by compiler ").unwrap_or((rest, ""));
            return Self { code, kind, why, line: line.trim().parse().ok() };
        }
        Self { code, kind: Kind::Other, why: text, line: None }
    }
}

impl fmt::Display for Loss<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.code.map_or(String::new(), |code| format!(" ({code})"));
        let why = self.why;
        match self.kind {
            Kind::Serialised => write!(f, "wgmmas are serialised{code}: {why}"),
            Kind::Fence => write!(f, "a wgmma.fence is missing, so ptxas adds one{code} {why}"),
            Kind::Wait => write!(f, "ptxas adds a wait for wgmmas{code} {why}"),
            Kind::Other => write!(f, "performance loss{code}: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read() {
        let serialised = "ptxas info    : (C7513) Potential Performance Loss: wgmma.mma_async instructions are serialized \
             due to non wgmma instructions defining input registers of a wgmma between start and end of \
             the pipeline stage in the function 'changes_an_input'";
        let loss = Loss::parse(serialised);
        assert_eq!(
            loss.to_string(),
            "wgmmas are serialised (C7513): non wgmma instructions defining input registers of a wgmma between \
             start and end of the pipeline stage"
        );
        assert_eq!(loss.line, None);
        let scarce = "ptxas info : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized due to \
                      insufficient register resources for the function 'k'";
        assert_eq!(
            Loss::parse(scarce).to_string(),
            "wgmmas are serialised (C7512): insufficient register resources"
        );
        let fence = "ptxas info    : (C7519) warpgroup.arrive is injected in around line 41 by compiler to allow use of \
             registers in GMMA in function 'lacks_a_fence'";
        let loss = Loss::parse(fence);
        assert_eq!(
            (loss.to_string().as_str(), loss.line),
            (
                "a wgmma.fence is missing, so ptxas adds one (C7519) to allow use of registers in GMMA",
                Some(41)
            )
        );
        let wait = "ptxas info    : (C7517) warpgroup.wait is injected in around line 47 by compiler to allow use of \
             registers defined by GMMA in function 'changes_a_sum'";
        let loss = Loss::parse(wait);
        assert_eq!(
            (loss.to_string().as_str(), loss.line),
            (
                "ptxas adds a wait for wgmmas (C7517) to allow use of registers defined by GMMA",
                Some(47)
            )
        );
        let other = "ptxas info    : Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count \
                     at entry.";
        let loss = Loss::parse(other).to_string();
        assert!(loss.starts_with("performance loss: 'setmaxnreg' ignored; unable to"), "{loss}");
    }
}
