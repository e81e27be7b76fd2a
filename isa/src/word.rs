//! The values that one load or store moves.

/// A value that one load or store instruction moves: `u8`, `u16`, `u32`, `u64`, `f32`, `[u32; 2]` and
/// `[u32; 4]` (one vector access, aligned to its 8 or 16 bytes).
#[diagnostic::on_unimplemented(
    message = "no instruction loads or stores a `{Self}`",
    label = "not a word",
    note = "words are u8, u16, u32, u64, f32, [u32; 2] and [u32; 4]"
)]
pub trait Word: access::Access {}

#[cfg(target_arch = "nvptx64")]
pub(crate) mod access {
    /// The seven instructions on a word. The trait is sealed, because PTX has no other words.
    ///
    /// Safety of all functions: the address is aligned to the word's size, and the caller may read or
    /// write the bytes.
    #[allow(missing_docs, clippy::missing_safety_doc)]
    pub trait Access: Copy {
        unsafe fn ld_shared(addr: u32) -> Self;
        unsafe fn st_shared(addr: u32, v: Self);
        unsafe fn ld_cluster(addr: u32) -> Self;
        unsafe fn st_cluster(addr: u32, v: Self);
        unsafe fn ld_global(p: *const Self) -> Self;
        unsafe fn ld_global_if(p: *const Self, when: u32, or: Self) -> Self;
        unsafe fn st_global(p: *mut Self, v: Self);
    }
}

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) mod access {
    pub use sim::ops::Word as Access;
}

/// Scalars: one register.
macro_rules! scalar {
    ($t:ty, $class:ident, $ptx:literal) => {
        impl Word for $t {}
        #[cfg(target_arch = "nvptx64")]
        impl access::Access for $t {
            scalar!(@ld ld_shared, u32, reg32, $t, $class, concat!("ld.shared.", $ptx, " {}, [{}];"));
            scalar!(@st st_shared, u32, reg32, $t, $class, concat!("st.shared.", $ptx, " [{}], {};"));
            scalar!(@ld ld_cluster, u32, reg32, $t, $class,
                concat!("ld.shared::cluster.", $ptx, " {}, [{}];"));
            scalar!(@st st_cluster, u32, reg32, $t, $class,
                concat!("st.shared::cluster.", $ptx, " [{}], {};"));
            scalar!(@ld ld_global, *const $t, reg64, $t, $class,
                concat!("ld.global.", $ptx, " {}, [{}];"));
            #[inline(always)]
            unsafe fn ld_global_if(p: *const $t, when: u32, or: $t) -> $t {
                let mut out = or;
                ptx!(
                    concat!("{{ .reg .pred p; setp.ne.u32 p, {}, 0; @p ld.global.", $ptx, " {}, [{}]; }}"),
                    in(reg32) when, inout($class) out, in(reg64) p
                );
                out
            }
            scalar!(@st st_global, *mut $t, reg64, $t, $class,
                concat!("st.global.", $ptx, " [{}], {};"));
        }
    };
    (@ld $name:ident, $at:ty, $addr:ident, $t:ty, $class:ident, $template:expr) => {
        #[inline(always)]
        unsafe fn $name(addr: $at) -> $t {
            let out: $t;
            ptx!($template, out($class) out, in($addr) addr);
            out
        }
    };
    (@st $name:ident, $at:ty, $addr:ident, $t:ty, $class:ident, $template:expr) => {
        #[inline(always)]
        unsafe fn $name(addr: $at, v: $t) {
            ptx!($template, in($addr) addr, in($class) v)
        }
    };
}

scalar!(u8, reg16, "u8");
scalar!(u16, reg16, "u16");
scalar!(u32, reg32, "u32");
scalar!(u64, reg64, "u64");
scalar!(f32, reg32, "f32");

/// Vectors: one access, a register per element.
macro_rules! vector {
    ($n:literal, $list:literal, $($r:ident)*) => {
        impl Word for [u32; $n] {}
        #[cfg(target_arch = "nvptx64")]
        impl access::Access for [u32; $n] {
            vector!(@ld ld_shared, u32, reg32, $n, concat!("ld.shared.v", $n, ".u32 ", $list, ", [{addr}];"), $($r)*);
            vector!(@st st_shared, u32, reg32, $n, concat!("st.shared.v", $n, ".u32 [{addr}], ", $list, ";"), $($r)*);
            vector!(@ld ld_cluster, u32, reg32, $n,
                concat!("ld.shared::cluster.v", $n, ".u32 ", $list, ", [{addr}];"), $($r)*);
            vector!(@st st_cluster, u32, reg32, $n,
                concat!("st.shared::cluster.v", $n, ".u32 [{addr}], ", $list, ";"), $($r)*);
            vector!(@ld ld_global, *const [u32; $n], reg64, $n,
                concat!("ld.global.v", $n, ".u32 ", $list, ", [{addr}];"), $($r)*);
            #[inline(always)]
            unsafe fn ld_global_if(p: *const [u32; $n], when: u32, or: [u32; $n]) -> [u32; $n] {
                let [$(mut $r),*] = or;
                ptx!(
                    concat!("{{ .reg .pred p; setp.ne.u32 p, {when}, 0; @p ld.global.v", $n, ".u32 ", $list, ", [{addr}]; }}"),
                    when = in(reg32) when, $($r = inout(reg32) $r,)* addr = in(reg64) p
                );
                [$($r),*]
            }
            vector!(@st st_global, *mut [u32; $n], reg64, $n,
                concat!("st.global.v", $n, ".u32 [{addr}], ", $list, ";"), $($r)*);
        }
    };
    (@ld $name:ident, $at:ty, $addr:ident, $n:literal, $template:expr, $($r:ident)*) => {
        #[inline(always)]
        unsafe fn $name(addr: $at) -> [u32; $n] {
            $(let $r: u32;)*
            ptx!($template, $($r = out(reg32) $r,)* addr = in($addr) addr);
            [$($r),*]
        }
    };
    (@st $name:ident, $at:ty, $addr:ident, $n:literal, $template:expr, $($r:ident)*) => {
        #[inline(always)]
        unsafe fn $name(addr: $at, v: [u32; $n]) {
            let [$($r),*] = v;
            ptx!($template, $($r = in(reg32) $r,)* addr = in($addr) addr)
        }
    };
}

vector!(2, "{{{a}, {b}}}", a b);
vector!(4, "{{{a}, {b}, {c}, {d}}}", a b c d);
