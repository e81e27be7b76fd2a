//! The registers of a CTA's warps, and the pool that `setmaxnreg` draws from.
//!
//! PTX manual, *setmaxnreg*: `.inc` blocks until the CTA's pool has enough; `.dec` gives back.

use crate::cluster::shape::Shape;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;

/// A CTA's pool.
#[derive(Clone, Default)]
struct Pool {
    /// Registers that nobody has.
    free: u32,
    /// Warps that wait for registers, in order of arrival, and how many each wants per thread.
    queue: Vec<(usize, u32)>,
}

/// The registers of a cluster's warps.
pub(crate) struct Registers {
    /// Per thread, by warp.
    have: Vec<u32>,
    pools: Vec<Pool>,
}

/// What comes of a request.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Grant {
    /// The warp has its registers; these warps have got theirs, too.
    Now(Vec<usize>),
    /// The warp waits.
    Later,
}

impl Registers {
    pub fn new(shape: &Shape) -> Self {
        let warps = (shape.ctas() * shape.warps_per_cta()) as usize;
        let pools = vec![Pool::default(); shape.ctas() as usize];
        Self { have: vec![shape.registers; warps], pools }
    }

    /// The protocol state: who has how many, and who waits for more.
    pub fn protocol(&self, f: &mut impl FnMut(u64)) {
        self.have.iter().for_each(|&n| f(u64::from(n)));
        for pool in &self.pools {
            f(u64::from(pool.free));
            pool.queue.iter().for_each(|&(warp, want)| f((warp as u64) << 32 | u64::from(want)));
        }
    }

    /// Registers per thread of a warp.
    pub fn of(&self, warp: usize) -> u32 {
        self.have[warp]
    }

    /// Registers of a CTA that no warp has.
    pub fn free(&self, cta: usize) -> u32 {
        self.pools[cta].free
    }

    /// A warp of the CTA wants `n` registers per thread: `more`, or fewer.
    pub fn request(&mut self, cta: usize, warp: usize, n: u32, more: bool) -> Result<Grant, Fault> {
        let have = self.have[warp];
        let wrong = |message: String| Err(Fault::new(Rule::Registers, message));
        if !n.is_multiple_of(8) || !(24..=256).contains(&n) {
            return wrong(format!("setmaxnreg {n}: a multiple of 8 from 24 to 256"));
        }
        if (more && n < have) || (!more && n > have) {
            let way = if more { "inc" } else { "dec" };
            return wrong(format!("setmaxnreg.{way} to {n} registers from {have}"));
        }
        let pool = &mut self.pools[cta];
        if !more {
            self.have[warp] = n;
            pool.free += (have - n) * 32;
            return Ok(Grant::Now(self.hand_out(cta)));
        }
        let want = (n - have) * 32;
        if pool.queue.is_empty() && pool.free >= want {
            pool.free -= want;
            self.have[warp] = n;
            return Ok(Grant::Now(Vec::new()));
        }
        pool.queue.push((warp, n));
        Ok(Grant::Later)
    }

    /// Hands free registers to the warps that wait for them, first come first served; gives them.
    fn hand_out(&mut self, cta: usize) -> Vec<usize> {
        let pool = &mut self.pools[cta];
        let mut served = Vec::new();
        while let Some(&(warp, n)) = pool.queue.first() {
            let want = (n - self.have[warp]) * 32;
            if pool.free < want {
                break;
            }
            pool.queue.remove(0);
            pool.free -= want;
            self.have[warp] = n;
            served.push(warp);
        }
        served
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::grid::Grid;

    #[test]
    fn requests_are_served_in_their_order() {
        let grid = Grid {
            grid: [1; 3],
            block: [128, 1, 1],
            cluster: [1; 3],
            min_ctas: 4,
            smem_bytes: 0,
            name: "",
        };
        let mut r = Registers::new(&Shape::new(&grid, 0, 1));
        assert_eq!(r.of(0), 128);
        assert_eq!(r.request(0, 0, 160, true).unwrap(), Grant::Later);
        assert_eq!(r.request(0, 1, 136, true).unwrap(), Grant::Later, "behind the first");
        assert_eq!(r.request(0, 2, 104, false).unwrap(), Grant::Now(vec![]));
        assert_eq!(r.request(0, 3, 112, false).unwrap(), Grant::Now(vec![0, 1]));
        assert_eq!([r.of(0), r.of(1), r.of(2), r.of(3)], [160, 136, 104, 112]);
        assert_eq!(r.request(0, 3, 100, false).unwrap_err().rule, Rule::Registers);
        assert_eq!(r.request(0, 3, 104, true).unwrap_err().rule, Rule::Registers);
    }
}
