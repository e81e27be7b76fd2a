//! `ldmatrix` and `stmatrix`.

use crate::drive::current::block;
use crate::exec::warp;
use crate::warp::meeting::Meet;

macro_rules! matrices {
    ($($ld:ident $st:ident $n:literal $trans:literal $form:literal;)*) => {$(
        #[doc = concat!("`ldmatrix.sync.aligned.m8n8", $form, ".shared::cta.b16`")]
        #[track_caller]
        pub fn $ld(addr: u32) -> [u32; $n] {
            let meet = Meet::LdMatrix { n: $n, trans: $trans };
            let all = block("ldmatrix", addr, |e, t| warp::meet(e, t, ("ldmatrix", meet), [0; 4], addr));
            std::array::from_fn(|i| all[i])
        }

        #[doc = concat!("`stmatrix.sync.aligned.m8n8", $form, ".shared::cta.b16`")]
        #[track_caller]
        pub fn $st(addr: u32, v: [u32; $n]) {
            let meet = Meet::StMatrix { n: $n, trans: $trans };
            let all = std::array::from_fn(|i| v.get(i).copied().unwrap_or(0));
            block("stmatrix", addr, |e, t| warp::meet(e, t, ("stmatrix", meet), all, addr));
        }
    )*};
}

matrices! {
    ldmatrix_x1 stmatrix_x1 1 false ".x1";
    ldmatrix_x2 stmatrix_x2 2 false ".x2";
    ldmatrix_x4 stmatrix_x4 4 false ".x4";
    ldmatrix_x1_trans stmatrix_x1_trans 1 true ".x1.trans";
    ldmatrix_x2_trans stmatrix_x2_trans 2 true ".x2.trans";
    ldmatrix_x4_trans stmatrix_x4_trans 4 true ".x4.trans";
}
