//! A tokenizer for LLVM's textual IR.
//!
//! It knows just enough of the language to find statements, names, strings and balanced brackets;
//! the pass edits the text at token borders and leaves everything else as rustc wrote it.

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A keyword, type, number or bare name.
    Word,
    /// `@name` or `@"name"`.
    Global,
    /// `%name` or `%"name"`.
    Local,
    /// `!name` or `!12`; a `!` before a brace or string is a [`Kind::Punct`].
    Metadata,
    /// `#12`, a reference to an attribute group.
    AttributeGroup,
    /// `"…"`, also the string of a `c"…"`.
    Str,
    /// `name:`, the head of a basic block (the colon is part of it).
    Label,
    /// One character of punctuation.
    Punct(u8),
    /// The end of a line: IR statements start on one.
    Newline,
}

/// A token: its kind and the bytes it spans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
}

impl Token {
    pub(crate) fn text<'a>(&self, source: &'a str) -> &'a str {
        &source[self.start..self.end]
    }
    pub(crate) fn is(&self, punct: u8) -> bool {
        self.kind == Kind::Punct(punct)
    }
}

/// Characters of bare names, keywords and numbers. `-` and `+` occur in numbers (`-1`, `1.0e+00`).
const fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'$' | b'-' | b'+')
}

/// Splits a module into tokens. Comments and blanks are dropped.
pub(crate) fn tokenize(source: &str) -> Vec<Token> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::with_capacity(source.len() / 4);
    let mut at = 0;
    // One past the closing quote of the string whose opening quote is at `open`. LLVM writes a
    // quote inside a string as \22, so the next quote always closes it.
    let string_end = |open: usize| {
        bytes[open + 1..].iter().position(|&b| b == b'"').map_or(bytes.len(), |n| open + n + 2)
    };
    let word_end = |from: usize| {
        bytes[from..].iter().position(|&b| !is_word(b)).map_or(bytes.len(), |n| from + n)
    };
    while at < bytes.len() {
        let start = at;
        let next = bytes.get(at + 1).copied().unwrap_or(0);
        let kind = match bytes[at] {
            b'\n' => {
                at += 1;
                Kind::Newline
            }
            b' ' | b'\t' | b'\r' => {
                at += 1;
                continue;
            }
            b';' => {
                at = bytes[at..].iter().position(|&b| b == b'\n').map_or(bytes.len(), |n| at + n);
                continue;
            }
            b'"' => {
                at = string_end(at);
                if bytes.get(at) == Some(&b':') {
                    at += 1;
                    Kind::Label
                } else {
                    Kind::Str
                }
            }
            sigil @ (b'@' | b'%') if next == b'"' || is_word(next) => {
                at = if next == b'"' { string_end(at + 1) } else { word_end(at + 1) };
                if sigil == b'@' { Kind::Global } else { Kind::Local }
            }
            b'!' if is_word(next) => {
                at = word_end(at + 1);
                Kind::Metadata
            }
            b'#' if next.is_ascii_digit() => {
                at = word_end(at + 1);
                Kind::AttributeGroup
            }
            // The c of a c"string" belongs to the string's type, not to its bytes.
            b'c' if next == b'"' => {
                at += 1;
                Kind::Word
            }
            b if is_word(b) => {
                at = word_end(at);
                if bytes.get(at) == Some(&b':') {
                    at += 1;
                    Kind::Label
                } else {
                    Kind::Word
                }
            }
            b => {
                at += 1;
                Kind::Punct(b)
            }
        };
        tokens.push(Token { kind, start, end: at });
    }
    tokens
}

/// Index of the token that closes the bracket at `open`.
pub(crate) fn matching(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match token.kind {
            Kind::Punct(b'(' | b'[' | b'{' | b'<') => depth += 1,
            Kind::Punct(b')' | b']' | b'}' | b'>') => {
                depth -= 1;
                if depth == 0 {
                    return Some(i);
                }
            }
            _ => {}
        }
    }
    None
}

/// Splits the tokens between the brackets at `open` and `close` at their top-level commas.
pub(crate) fn arguments(tokens: &[Token], open: usize, close: usize) -> Vec<&[Token]> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0usize, open + 1);
    for i in open + 1..close {
        match tokens[i].kind {
            Kind::Punct(b'(' | b'[' | b'{' | b'<') => depth += 1,
            Kind::Punct(b')' | b']' | b'}' | b'>') => depth -= 1,
            Kind::Punct(b',') if depth == 0 => {
                parts.push(&tokens[from..i]);
                from = i + 1;
            }
            _ => {}
        }
    }
    if from < close {
        parts.push(&tokens[from..close]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<(Kind, &str)> {
        tokenize(source).iter().map(|t| (t.kind, t.text(source))).collect()
    }

    #[test]
    fn names_strings_and_comments() {
        let source = "@\"a b(\" = c\"x;(\\22\" ; ( \"\n%0:#3 !dbg !{!\"s\"}";
        assert_eq!(
            texts(source),
            [
                (Kind::Global, "@\"a b(\""),
                (Kind::Punct(b'='), "="),
                (Kind::Word, "c"),
                (Kind::Str, "\"x;(\\22\""),
                (Kind::Newline, "\n"),
                (Kind::Local, "%0"),
                (Kind::Punct(b':'), ":"),
                (Kind::AttributeGroup, "#3"),
                (Kind::Metadata, "!dbg"),
                (Kind::Punct(b'!'), "!"),
                (Kind::Punct(b'{'), "{"),
                (Kind::Punct(b'!'), "!"),
                (Kind::Str, "\"s\""),
                (Kind::Punct(b'}'), "}"),
            ]
        );
    }

    #[test]
    fn labels_differ_from_words() {
        assert_eq!(
            texts("call:\n\"a b\":\n call"),
            [
                (Kind::Label, "call:"),
                (Kind::Newline, "\n"),
                (Kind::Label, "\"a b\":"),
                (Kind::Newline, "\n"),
                (Kind::Word, "call"),
            ]
        );
    }

    #[test]
    fn brackets_nest() {
        let source = "(ptr byval([8 x i8]) %a, <{ i8, i8 }> %b, i32 range(i32 0, 2) %c)";
        let tokens = tokenize(source);
        let close = matching(&tokens, 0).unwrap();
        assert_eq!(close, tokens.len() - 1);
        let parts: Vec<_> = arguments(&tokens, 0, close)
            .iter()
            .map(|part| part.last().unwrap().text(source))
            .collect();
        assert_eq!(parts, ["%a", "%b", "%c"]);
        assert_eq!(matching(&tokenize("((a)"), 0), None);
        assert!(arguments(&tokenize("()"), 0, 1).is_empty());
    }
}
