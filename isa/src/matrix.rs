//! Moves 8x8 matrices of 16-bit elements between shared memory and the registers of a warp.
//!
//! PTX manual: *Warp Level Matrix Instructions*, `ldmatrix` (PTX 6.5, sm_75) and `stmatrix` (PTX
//! 7.8, sm_90). Lane `8 i + r` passes the address of row `r` (16 bytes) of matrix `i`. Register `i` of
//! lane `l` holds elements `2 (l % 4)` and `2 (l % 4) + 1` of row `l / 4` of matrix `i`. `_trans`
//! transposes each matrix.

macro_rules! ld {
    ($($(#[$meta:meta])* $name:ident -> $n:literal: $template:literal, $($r:ident)*;)*) => {
        ops! { matrix;
            $($(#[$meta])*
            ///
            /// # Safety
            /// All 32 lanes execute it, convergent. The rows' addresses are 16-byte aligned, in the
            /// CTA's shared memory.
            pub unsafe fn $name(addr: u32) -> [u32; $n] {
                $(let $r: u32;)*
                ptx!($template, $($r = out(reg32) $r,)* addr = in(reg32) addr);
                [$($r),*]
            })*
        }
    };
}

macro_rules! st {
    ($($(#[$meta:meta])* $name:ident($n:literal): $template:literal, $($r:ident)*;)*) => {
        ops! { matrix;
            $($(#[$meta])*
            ///
            /// # Safety
            /// All 32 lanes execute it, convergent. The rows' addresses are 16-byte aligned, in the
            /// CTA's shared memory, and no other thread or copy uses those bytes.
            pub unsafe fn $name(addr: u32, v: [u32; $n]) {
                let [$($r),*] = v;
                ptx!($template, $($r = in(reg32) $r,)* addr = in(reg32) addr)
            })*
        }
    };
}

ld! {
    /// `ldmatrix.sync.aligned.m8n8.x1.shared::cta.b16`
    ldmatrix_x1 -> 1: "ldmatrix.sync.aligned.m8n8.x1.shared::cta.b16 {{{a}}}, [{addr}];", a;
    /// `ldmatrix.sync.aligned.m8n8.x2.shared::cta.b16`
    ldmatrix_x2 -> 2: "ldmatrix.sync.aligned.m8n8.x2.shared::cta.b16 {{{a}, {b}}}, [{addr}];", a b;
    /// `ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16`
    ldmatrix_x4 -> 4:
        "ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16 {{{a}, {b}, {c}, {d}}}, [{addr}];", a b c d;
    /// `ldmatrix.sync.aligned.m8n8.x1.trans.shared::cta.b16`
    ldmatrix_x1_trans -> 1: "ldmatrix.sync.aligned.m8n8.x1.trans.shared::cta.b16 {{{a}}}, [{addr}];", a;
    /// `ldmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16`
    ldmatrix_x2_trans -> 2:
        "ldmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 {{{a}, {b}}}, [{addr}];", a b;
    /// `ldmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16`
    ldmatrix_x4_trans -> 4:
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 {{{a}, {b}, {c}, {d}}}, [{addr}];", a b c d;
}

st! {
    /// `stmatrix.sync.aligned.m8n8.x1.shared::cta.b16`
    stmatrix_x1(1): "stmatrix.sync.aligned.m8n8.x1.shared::cta.b16 [{addr}], {{{a}}};", a;
    /// `stmatrix.sync.aligned.m8n8.x2.shared::cta.b16`
    stmatrix_x2(2): "stmatrix.sync.aligned.m8n8.x2.shared::cta.b16 [{addr}], {{{a}, {b}}};", a b;
    /// `stmatrix.sync.aligned.m8n8.x4.shared::cta.b16`
    stmatrix_x4(4):
        "stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [{addr}], {{{a}, {b}, {c}, {d}}};", a b c d;
    /// `stmatrix.sync.aligned.m8n8.x1.trans.shared::cta.b16`
    stmatrix_x1_trans(1): "stmatrix.sync.aligned.m8n8.x1.trans.shared::cta.b16 [{addr}], {{{a}}};", a;
    /// `stmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16`
    stmatrix_x2_trans(2):
        "stmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 [{addr}], {{{a}, {b}}};", a b;
    /// `stmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16`
    stmatrix_x4_trans(4):
        "stmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 [{addr}], {{{a}, {b}, {c}, {d}}};", a b c d;
}
