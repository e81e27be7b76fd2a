//! A hash of few words, for keys that nobody chooses to collide.

use std::hash::{BuildHasherDefault, Hasher};

/// Makes hashes for a table.
pub(crate) type ByMix = BuildHasherDefault<Mix>;

/// The hash of the words so far.
#[derive(Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        // Tables take the lowest bits, and the product's are good from the middle on.
        self.0.rotate_left(26)
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(u64::from(b));
        }
    }
    fn write_u32(&mut self, v: u32) {
        self.write_u64(u64::from(v));
    }
    fn write_u64(&mut self, v: u64) {
        self.0 = (self.0.rotate_left(5) ^ v).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
    fn write_usize(&mut self, v: usize) {
        self.write_u64(v as u64);
    }
}
