//! Moving registers between warp groups: the CTA starts with an equal share of the file per
//! thread, and its pool holds what `dec` gave back.

use crate::drive::current::block;
use crate::exec::warp;
use crate::warp::meeting::Meet;

/// `setmaxnreg.inc.sync.aligned.u32`
#[track_caller]
pub fn inc<const N: u32>() {
    let meet = Meet::Registers { n: N, more: true };
    block("setmaxnreg.inc", N, |e, t| warp::meet(e, t, ("setmaxnreg.inc", meet), [0; 4], 0));
}

/// `setmaxnreg.dec.sync.aligned.u32`
#[track_caller]
pub fn dec<const N: u32>() {
    let meet = Meet::Registers { n: N, more: false };
    block("setmaxnreg.dec", N, |e, t| warp::meet(e, t, ("setmaxnreg.dec", meet), [0; 4], 0));
}
