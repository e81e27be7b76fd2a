//! Compile-time messages with numbers, for types that do not fit.
//!
//! A panic in a constant can't format numbers, but it can print a string that another constant has built.

/// Bytes that a sentence can have; what is beyond them is cut off.
const LIMIT: usize = 512;

/// A sentence.
pub(super) struct Text {
    bytes: [u8; LIMIT],
    len: usize,
}

impl Text {
    pub(super) const fn new(start: &str) -> Self {
        Self { bytes: [0; LIMIT], len: 0 }.text(start)
    }

    /// Appends a string.
    pub(super) const fn text(mut self, text: &str) -> Self {
        let mut i = 0;
        while i < text.len() {
            self = self.byte(text.as_bytes()[i]);
            i += 1;
        }
        self
    }

    /// Appends a number in digits.
    pub(super) const fn number(self, number: usize) -> Self {
        let more = if number >= 10 { self.number(number / 10) } else { self };
        more.byte(b'0' + (number % 10) as u8)
    }

    const fn byte(mut self, byte: u8) -> Self {
        if self.len < LIMIT {
            self.bytes[self.len] = byte;
            self.len += 1;
        }
        self
    }

    /// The sentence; without its end, if a character was cut in two.
    pub(super) const fn as_str(&self) -> &str {
        let bytes = self.bytes.split_at(self.len).0;
        match core::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => match core::str::from_utf8(bytes.split_at(error.valid_up_to()).0) {
                Ok(text) => text,
                Err(_) => "",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LIMIT, Text};

    #[test]
    fn strings_and_numbers_become_a_sentence() {
        const SAYS: Text = Text::new("takes ").number(232_448).text(" of ").number(0).text(".");
        assert_eq!(SAYS.as_str(), "takes 232448 of 0.");
    }

    #[test]
    fn a_long_sentence_ends_before_a_character_that_is_cut() {
        let long = "a".repeat(LIMIT - 1);
        assert_eq!(Text::new(&long).text("\u{e9}b").as_str(), long);
    }
}
