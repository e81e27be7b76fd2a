//! The values of constants: their bytes, and their references to other constants.

use super::module::Module;
use super::token::{self, Kind};
use crate::Error;
use std::collections::HashMap;

/// Bytes of a pointer.
pub(crate) const POINTER: usize = 8;

/// A constant's value.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Constant {
    /// The bytes. Those of a reference are zeros.
    pub bytes: Vec<u8>,
    /// The references, by their offsets: the name of the other constant, and an offset in it.
    pub references: HashMap<usize, (String, usize)>,
}

/// The constants of a module, by their names. Each is read when it is asked for.
pub(crate) struct Constants<'a> {
    module: &'a Module<'a>,
    /// The tokens of each definition.
    lines: HashMap<&'a str, (usize, usize)>,
}

impl<'a> Constants<'a> {
    pub(super) fn of(module: &'a Module<'a>, lines: HashMap<&'a str, (usize, usize)>) -> Self {
        Self { module, lines }
    }

    /// The value of a constant.
    pub fn read(&self, name: &str) -> Result<Constant, Error> {
        let Some(&(at, end)) = self.lines.get(name) else {
            return Err(self.module.error(0, format!("{name} is referred to and not defined")));
        };
        Constant::read(self.module, at, end)
    }
}

impl Constant {
    /// Reads the constant that the tokens `at..end` define: `@x = constant [436 x i8] c"…"`, or a structure of such strings,
    /// zeros, padding and references.
    pub(super) fn read(module: &Module, at: usize, end: usize) -> Result<Self, Error> {
        let mut constant = Self::default();
        // Types stand before values, and those of a structure also at its head. So only values count. What has no value of
        // its own, as zeros, is as long as the type before it says.
        let mut next = at;
        while next < end {
            let i = next;
            next += 1;
            match (module.kind(i), module.text(i)) {
                (Some(Kind::Str), text) if module.text(i - 1) == "c" => {
                    constant.bytes.extend(unescape(&text[1..text.len() - 1]));
                }
                (Some(Kind::Word), "zeroinitializer" | "undef" | "poison") => {
                    let open = (at..i).rev().find(|&i| module.is(i, b'['));
                    let count = open.and_then(|open| module.text(open + 1).parse::<usize>().ok());
                    let count = count.ok_or_else(|| {
                        module.error(i, "a metadata constant is not made of arrays of bytes")
                    })?;
                    constant.bytes.resize(constant.bytes.len() + count, 0);
                }
                (Some(Kind::Word), "ptr") => next = constant.pointer(module, i + 1)?,
                _ => {}
            }
        }
        if constant.bytes.is_empty() {
            return Err(module.error(at, "a metadata constant holds no bytes"));
        }
        Ok(constant)
    }

    /// Reads the value of a pointer, if there is one at token `at`, and returns the token behind it.
    fn pointer(&mut self, module: &Module, at: usize) -> Result<usize, Error> {
        let mut next = at + 1;
        let reference = match (module.kind(at), module.text(at)) {
            (Some(Kind::Global), name) => Some((name.to_owned(), 0)),
            // That of an empty slice has the address of nothing.
            (Some(Kind::Word), "null" | "inttoptr") => None,
            (Some(Kind::Word), "getelementptr") => {
                let (close, element) = element(module, at)?;
                next = close + 1;
                Some(element)
            }
            // A type.
            _ => return Ok(at),
        };
        self.references.extend(reference.map(|to| (self.bytes.len(), to)));
        self.bytes.resize(self.bytes.len() + POINTER, 0);
        Ok(next)
    }
}

/// Constant and offset of `getelementptr inbounds (i8, ptr @x, i64 16)`, behind its last token.
fn element(module: &Module, at: usize) -> Result<(usize, (String, usize)), Error> {
    let unknown = || module.error(at, "a reference of unknown form in a metadata constant");
    let open = (at..).take(4).find(|&i| module.is(i, b'(')).ok_or_else(unknown)?;
    let close = token::matching(module.tokens, open).ok_or_else(unknown)?;
    let name = (open..close).find(|&i| module.kind(i) == Some(Kind::Global)).ok_or_else(unknown)?;
    let offset = module.text(close - 1).parse().map_err(|_| unknown())?;
    if module.text(open + 1) != "i8" || close != name + 4 {
        return Err(unknown());
    }
    Ok((close, (module.text(name).to_owned(), offset)))
}

/// Undoes LLVM's `\XX` escapes.
fn unescape(text: &str) -> Vec<u8> {
    let raw = text.as_bytes();
    let hex = |b: u8| (b as char).to_digit(16);
    let (mut bytes, mut at) = (Vec::with_capacity(raw.len()), 0);
    while at < raw.len() {
        if raw[at] == b'\\'
            && at + 2 < raw.len()
            && let (Some(high), Some(low)) = (hex(raw[at + 1]), hex(raw[at + 2]))
        {
            bytes.push((high * 16 + low) as u8);
            at += 3;
            continue;
        }
        if raw[at] == b'\\' && raw.get(at + 1) == Some(&b'\\') {
            at += 1;
        }
        bytes.push(raw[at]);
        at += 1;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The constants of a module, each on a line of its own.
    fn constant(text: &str) -> Result<Constant, Error> {
        let tokens = token::tokenize(text);
        Constant::read(&Module { source: text, tokens: &tokens }, 0, tokens.len())
    }

    #[test]
    fn bytes_zeros_padding_and_references() {
        let constant = constant(
            "@k = constant <{ [2 x i8], ptr, [3 x i8], ptr, [1 x i8], ptr, ptr }> <{ [2 x i8] c\"a\\22\", ptr @alloc_1, \
             [3 x i8] zeroinitializer, ptr inttoptr (i64 8 to ptr), [1 x i8] undef, ptr getelementptr inbounds nuw (i8, ptr @b, \
             i64 16), ptr null }>, align 8",
        )
        .unwrap();
        assert_eq!(&constant.bytes[..2], b"a\"");
        assert_eq!(constant.bytes.len(), 2 + 8 + 3 + 8 + 1 + 8 + 8);
        assert!(constant.bytes[2..].iter().all(|byte| *byte == 0));
        let references = [(2, ("@alloc_1".to_owned(), 0)), (22, ("@b".to_owned(), 16))];
        assert_eq!(constant.references, HashMap::from(references));
    }

    #[test]
    fn an_array_alone() {
        let constant = constant("@k = private unnamed_addr constant [3 x i8] c\"a\\00c\", align 1");
        assert_eq!(constant.unwrap().bytes, b"a\0c");
    }

    #[test]
    fn other_forms_are_refused() {
        for text in [
            "@k = constant i32 7",
            "@k = constant <{ ptr }> <{ ptr getelementptr (i32, ptr @b, i64 4) }>",
            "@k = constant i64 zeroinitializer",
        ] {
            assert!(constant(text).is_err(), "{text}");
        }
    }
}
