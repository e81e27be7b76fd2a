//! The values that instructions move and return.

/// What an inert instruction returns: waits pass, values are zero.
pub trait Inert {
    /// That value.
    fn inert() -> Self;
}

macro_rules! inert {
    ($($t:ty = $v:expr;)*) => {$(impl Inert for $t { fn inert() -> Self { $v } })*};
}
inert! { () = (); bool = true; u8 = 0; u16 = 0; u32 = 0; u64 = 0; f32 = 0.0; }

impl<const N: usize> Inert for [u32; N] {
    fn inert() -> Self {
        [0; N]
    }
}

/// A value that one load or store instruction moves.
pub trait Word: Copy + Inert + 'static {
    /// Bytes that it has, and is aligned to.
    const BYTES: usize;
    /// From its little-endian bytes, of which there are [`Self::BYTES`].
    fn from_bytes(bytes: &[u8]) -> Self;
    /// To as many.
    fn to_bytes(self, out: &mut [u8]);
    /// A register of it of which something holds: of those that have 32 bits.
    fn find(self, of: impl Fn(u32) -> bool) -> Option<u32> {
        let _ = of;
        None
    }
}

macro_rules! words {
    ($($t:ty $(= |$v:ident| $bits:expr)?;)*) => {$(impl Word for $t {
        $(fn find(self, of: impl Fn(u32) -> bool) -> Option<u32> {
            let $v = self;
            Some($bits).filter(|&bits| of(bits))
        })?
        const BYTES: usize = size_of::<$t>();
        fn from_bytes(bytes: &[u8]) -> Self {
            Self::from_le_bytes(bytes.try_into().expect("as many bytes as the word has"))
        }
        fn to_bytes(self, out: &mut [u8]) {
            out.copy_from_slice(&self.to_le_bytes());
        }
    })*};
}
words! { u8; u16; u32 = |v| v; u64; f32 = |v| v.to_bits(); }

macro_rules! vectors {
    ($($n:literal),*) => {$(impl Word for [u32; $n] {
        const BYTES: usize = 4 * $n;
        fn from_bytes(bytes: &[u8]) -> Self {
            std::array::from_fn(|i| u32::from_bytes(&bytes[4 * i..4 * i + 4]))
        }
        fn find(self, of: impl Fn(u32) -> bool) -> Option<u32> {
            self.into_iter().find(|&bits| of(bits))
        }
        fn to_bytes(self, out: &mut [u8]) {
            for (v, out) in self.into_iter().zip(out.chunks_exact_mut(4)) {
                v.to_bytes(out);
            }
        }
    })*};
}
vectors!(2, 4);
