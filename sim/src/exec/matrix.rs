//! `ldmatrix` and `stmatrix`, when the lanes of a warp have met.

use crate::engine::cluster::Engine;
use crate::finding::fault::Fault;
use crate::warp::matrices::{self, Matrix};

/// The address of a row, and the thread that gives it, which counts as the one that accesses it.
fn row(e: &Engine, t: u32, w: usize, lane: usize) -> Result<(u32, u32), Fault> {
    let (_, addr) = e.hw.own(t, e.hw.warps[w].meeting.operand[lane], 16)?;
    matrices::row(addr, lane)?;
    Ok((addr, t - e.hw.thread(t).lane() + lane as u32))
}

/// `ldmatrix` of `n` matrices.
pub(crate) fn load(e: &mut Engine, t: u32, w: usize, n: u8, trans: bool) -> Result<(), Fault> {
    let cta = e.hw.thread(t).cta;
    for i in 0..n as usize {
        let mut matrix = Matrix::default();
        for (r, into) in matrix.iter_mut().enumerate() {
            let (addr, by) = row(e, t, w, 8 * i + r)?;
            e.guided(|guide| guide.touch(cta as u64, u64::from(addr), 16, false));
            let bytes = e.hw.smem[cta].read(addr, 16).map_err(|c| e.hw.conflict(cta, c))?;
            *into = matrices::from_bytes(bytes);
            e.checked(by, |race, thread| race.load(thread, (cta, addr, 16)))?;
        }
        matrices::spread(&matrix, trans, i, &mut e.hw.warps[w].meeting.result);
    }
    Ok(())
}

/// `stmatrix` of `n` matrices.
pub(crate) fn store(e: &mut Engine, t: u32, w: usize, n: u8, trans: bool) -> Result<(), Fault> {
    let cta = e.hw.thread(t).cta;
    e.progress();
    for i in 0..n as usize {
        let matrix = matrices::collect(&e.hw.warps[w].meeting.given, trans, i);
        for (r, from) in matrix.iter().enumerate() {
            let (addr, by) = row(e, t, w, 8 * i + r)?;
            e.guided(|guide| guide.touch(cta as u64, u64::from(addr), 16, true));
            match e.hw.smem[cta].write(addr, 16) {
                Ok(out) => matrices::to_bytes(from, out),
                Err(c) => return Err(e.hw.conflict(cta, c)),
            }
            e.checked(by, |race, thread| race.store(thread, (cta, addr, 16), false))?;
        }
    }
    Ok(())
}
