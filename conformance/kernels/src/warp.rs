//! Warp-wide operations and conversions: shuffles, votes, election.

use isa::slice::{DeviceSlice, DeviceSliceMut};
use isa::{cvt, kernel, math, thread, warp};

/// Amounts that the shuffles are tried with.
pub const AMOUNTS: u32 = 36;
/// Words that [`warp_shuffles`](fn@warp_shuffles) writes per lane and amount.
pub const SHUFFLES: u32 = 4;
/// Words that [`warp_votes`](fn@warp_votes) writes per lane and pattern.
pub const VOTES: u32 = 4;

/// Every shuffle by every amount from 0 to 35: word `(4 amount + kind) * 32 + lane`.
#[kernel(threads = 32)]
pub fn warp_shuffles(out: DeviceSliceMut<'_, u32>) {
    let lane = warp::lane_id();
    let mine = 1000 + lane;
    for amount in 0..AMOUNTS {
        // SAFETY: all lanes are here; the amount is the same in all of them.
        let got = unsafe {
            [
                warp::shfl_idx(mine, amount),
                warp::shfl_xor(mine, amount),
                warp::shfl_up(mine, amount),
                warp::shfl_down(mine, amount),
            ]
        };
        let at = amount * SHUFFLES * 32 + lane;
        out.set(at as usize, got[0]);
        out.set(at as usize + 32, got[1]);
        out.set(at as usize + 64, got[2]);
        out.set(at as usize + 96, got[3]);
    }
}

/// Votes on the bit of each lane in each pattern: any, all, ballot, and whether the lane was elected.
#[kernel(threads = 32)]
pub fn warp_votes(out: DeviceSliceMut<'_, u32>, patterns: DeviceSlice<'_, u32>) {
    let lane = warp::lane_id();
    for i in 0..patterns.len() {
        let Some(pattern) = patterns.get(i) else { return };
        let p = pattern >> lane & 1 != 0;
        // SAFETY: all lanes are here.
        let got = unsafe {
            [
                u32::from(warp::vote_any(p)),
                u32::from(warp::vote_all(p)),
                warp::ballot(p),
                u32::from(warp::elect_one()),
            ]
        };
        let at = i * (VOTES * 32) as usize + lane as usize;
        out.set(at, got[0]);
        out.set(at + 32, got[1]);
        out.set(at + 64, got[2]);
        out.set(at + 96, got[3]);
    }
}

/// Conversions of the floats whose bits `from` holds: word `8 i` and on of element i are its bf16
/// pair with 1.0, f16 pair with 1.0, both halves of its bits as bf16, as f16, and its square root.
#[kernel(threads = 32)]
pub fn conversions(out: DeviceSliceMut<'_, u32>, from: DeviceSlice<'_, u32>) {
    let mut i = thread::thread_idx_x() as usize;
    while let Some(bits) = from.get(i) {
        let x = f32::from_bits(bits);
        let [b0, b1] = cvt::bf16x2_to_f32(bits);
        let [h0, h1] = cvt::f16x2_to_f32(bits);
        let at = 8 * i;
        out.set(at, cvt::bf16x2(x, 1.0));
        out.set(at + 1, cvt::bf16x2(1.0, x));
        out.set(at + 2, cvt::f16x2(x, 1.0));
        out.set(at + 3, b0.to_bits());
        out.set(at + 4, b1.to_bits());
        out.set(at + 5, h0.to_bits());
        out.set(at + 6, h1.to_bits());
        out.set(at + 7, math::sqrt(x).to_bits());
        i += 32;
    }
}
