//! `ldmatrix`, `stmatrix` and `setmaxnreg`: what a warp does when its lanes have met.
//!
//! PTX manual, *ldmatrix*: lane `8 i + r` gives the address of row `r` of matrix `i`; register `i`
//! of lane `l` holds elements `2 (l % 4)` and `+ 1` of row `l / 4`. With `.trans` the matrix is
//! transposed: they are rows `2 (l % 4)` and `+ 1` of column `l / 4`.

use crate::Rule;
use crate::cluster::Cluster;
use crate::fault::Fault;

impl Cluster {
    fn row_address(&self, t: u32, w: usize, lane: usize) -> Result<u32, Fault> {
        let addr = self.warps[w].gather.operand[lane];
        let (_, addr) = self.own(t, addr)?;
        if addr.is_multiple_of(16) {
            return Ok(addr);
        }
        let message = format!("row address {addr:#x} of lane {lane} is not a multiple of 16");
        Err(Fault::new(Rule::Misaligned, message))
    }

    /// The thread of a lane of `t`'s warp: a matrix's row counts as accessed by the lane that gives
    /// its address.
    fn lane(&self, t: u32, lane: usize) -> u32 {
        t - self.threads[t as usize].lane() + lane as u32
    }

    pub fn load_matrices(&mut self, t: u32, w: usize, n: u8, trans: bool) -> Result<(), Fault> {
        let cta = self.threads[t as usize].cta;
        for i in 0..n as usize {
            let mut matrix = [[0u16; 8]; 8];
            for (r, row) in matrix.iter_mut().enumerate() {
                let addr = self.row_address(t, w, 8 * i + r)?;
                if let Some(guide) = &mut self.guide {
                    guide.touch(cta as u64, u64::from(addr), 16, false);
                }
                let bytes =
                    self.ctas[cta].smem.read(addr, 16).map_err(|c| self.conflict(cta, c))?;
                for (e, b) in row.iter_mut().zip(bytes.chunks_exact(2)) {
                    *e = u16::from_le_bytes([b[0], b[1]]);
                }
                self.race_load(self.lane(t, 8 * i + r), (cta, addr, 16))?;
            }
            let result = &mut self.warps[w].gather.result;
            for (l, lane) in result.iter_mut().enumerate() {
                let (r, c) = (l / 4, 2 * (l % 4));
                let (lo, hi) = if trans {
                    (matrix[c][r], matrix[c + 1][r])
                } else {
                    (matrix[r][c], matrix[r][c + 1])
                };
                lane[i] = u32::from(lo) | u32::from(hi) << 16;
            }
        }
        Ok(())
    }

    pub fn store_matrices(&mut self, t: u32, w: usize, n: u8, trans: bool) -> Result<(), Fault> {
        let cta = self.threads[t as usize].cta;
        for i in 0..n as usize {
            let mut matrix = [[0u16; 8]; 8];
            for (l, lane) in self.warps[w].gather.given.iter().enumerate() {
                let (r, c) = (l / 4, 2 * (l % 4));
                for (k, half) in [lane[i] as u16, (lane[i] >> 16) as u16].into_iter().enumerate() {
                    let (r, c) = if trans { (c + k, r) } else { (r, c + k) };
                    matrix[r][c] = half;
                }
            }
            for (r, row) in matrix.iter().enumerate() {
                let addr = self.row_address(t, w, 8 * i + r)?;
                if let Some(guide) = &mut self.guide {
                    guide.touch(cta as u64, u64::from(addr), 16, true);
                }
                match self.ctas[cta].smem.write(addr, 16) {
                    Ok(out) => {
                        for (b, e) in out.chunks_exact_mut(2).zip(row) {
                            b.copy_from_slice(&e.to_le_bytes());
                        }
                    }
                    Err(c) => return Err(self.conflict(cta, c)),
                }
                self.race_store(self.lane(t, 8 * i + r), (cta, addr, 16), false)?;
            }
        }
        Ok(())
    }

    /// `setmaxnreg` of a whole warp: true when it has its registers.
    ///
    /// PTX manual, *setmaxnreg*: `.inc` blocks until the CTA's pool has enough; `.dec` gives back.
    pub fn registers(&mut self, t: u32, w: usize, n: u32, more: bool) -> Result<bool, Fault> {
        let have = self.warps[w].registers;
        if !n.is_multiple_of(8) || !(24..=256).contains(&n) {
            let message = format!("setmaxnreg {n}: a multiple of 8 from 24 to 256");
            return Err(Fault::new(Rule::Registers, message));
        }
        if (more && n < have) || (!more && n > have) {
            let way = if more { "inc" } else { "dec" };
            let message = format!("setmaxnreg.{way} to {n} registers from {have}");
            return Err(Fault::new(Rule::Registers, message));
        }
        let cta = self.threads[t as usize].cta;
        if !more {
            self.warps[w].registers = n;
            self.ctas[cta].free_registers += (have - n) * 32;
            self.grant_registers(cta);
            return Ok(true);
        }
        let want = (n - have) * 32;
        if self.ctas[cta].register_queue.is_empty() && self.ctas[cta].free_registers >= want {
            self.ctas[cta].free_registers -= want;
            self.warps[w].registers = n;
            return Ok(true);
        }
        self.warps[w].gather.operand[0] = n;
        self.ctas[cta].register_queue.push(w);
        Ok(false)
    }

    /// Hands free registers to the warps that wait for them, first come first served.
    fn grant_registers(&mut self, cta: usize) {
        while let Some(&w) = self.ctas[cta].register_queue.first() {
            let n = self.warps[w].gather.operand[0];
            let want = (n - self.warps[w].registers) * 32;
            if self.ctas[cta].free_registers < want {
                return;
            }
            self.ctas[cta].register_queue.remove(0);
            self.ctas[cta].free_registers -= want;
            self.warps[w].registers = n;
            let warps_per_cta = self.warps.len() / self.ctas.len();
            let in_cta = (w - cta * warps_per_cta) as u32;
            let first = cta as u32 * self.block_threads() + in_cta * 32;
            self.wake_warp(w, first, None);
        }
    }
}
