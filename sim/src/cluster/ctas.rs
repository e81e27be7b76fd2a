//! Which CTAs of a cluster run, and whose shared memory an address names.
//!
//! A `shared::cluster` address has the CTA's rank + 1 in its high byte; 0 there stands for the own
//! CTA, as in the `shared::cta` window.

use super::shape::Shape;
use crate::finding::fault::Fault;
use crate::finding::rule::Rule;

/// The `shared::cluster` address of an address in CTA `rank`.
pub(crate) fn ranked(addr: u32, rank: u32) -> u32 {
    (rank + 1) << 24 | (addr & 0xff_ffff)
}

/// A CTA: where it lies, and whether it runs.
pub(crate) struct Cta {
    /// Its coordinates in the grid.
    pub block: [u32; 3],
    /// Its coordinates in the cluster.
    pub rank_coord: [u32; 3],
    /// Threads that have not returned.
    live: u32,
    /// Whether a thread has started.
    started: bool,
    /// Whether it has let the dependent grid start, or has ended.
    signalled: bool,
}

/// The CTAs of a cluster, by rank.
pub(crate) struct Ctas(Vec<Cta>);

impl Ctas {
    pub fn new(shape: &Shape) -> Self {
        let c = shape.cluster;
        let cta = |rank: u32| {
            let at = [rank % c[0], rank / c[0] % c[1], rank / (c[0] * c[1])];
            Cta {
                block: std::array::from_fn(|i| shape.coord[i] * c[i] + at[i]),
                rank_coord: at,
                live: shape.block_threads(),
                started: false,
                signalled: false,
            }
        };
        Self((0..shape.ctas()).map(cta).collect())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get(&self, rank: usize) -> &Cta {
        &self.0[rank]
    }

    /// Whether a thread of the CTA has not returned.
    pub fn lives(&self, rank: usize) -> bool {
        self.0[rank].live > 0
    }

    /// Whether a thread of the CTA has started, and one has not returned.
    pub fn runs(&self, rank: usize) -> bool {
        self.0[rank].started && self.lives(rank)
    }

    /// Whether any CTA of the cluster runs.
    pub fn any_lives(&self) -> bool {
        self.0.iter().any(|cta| cta.live > 0)
    }

    /// A thread of the CTA runs.
    #[inline]
    pub fn start(&mut self, rank: usize) {
        self.0[rank].started = true;
    }

    /// The CTA lets the dependent grid start, or ends; false if it has done so before.
    pub fn signals(&mut self, rank: usize) -> bool {
        !std::mem::replace(&mut self.0[rank].signalled, true)
    }

    /// A thread of the CTA returns; whether it was the last.
    pub fn exit(&mut self, rank: usize) -> bool {
        self.0[rank].live -= 1;
        self.0[rank].live == 0
    }

    /// The CTA that a `shared::cluster` address of CTA `own` names, and the address there. A peer
    /// must run.
    #[inline]
    pub fn split(&self, own: usize, addr: u32) -> Result<(usize, u32), Fault> {
        let cta = match addr >> 24 {
            0 => own,
            r => r as usize - 1,
        };
        let local = addr & 0xff_ffff;
        let Some(peer) = self.0.get(cta) else {
            return Err(Fault::new(
                Rule::RemoteAddress,
                format!("{addr:#x} names CTA {cta} of a cluster of {}", self.0.len()),
            ));
        };
        if cta != own && (!peer.started || peer.live == 0) {
            let how = if peer.started { "has exited" } else { "has not started" };
            return Err(Fault::new(
                Rule::PeerGone,
                format!("CTA {own} uses shared address {local:#x} of CTA {cta}, which {how}"),
            ));
        }
        Ok((cta, local))
    }

    /// The same for an instruction that takes an address of its own CTA only.
    #[inline]
    pub fn own(own: usize, addr: u32) -> Result<(usize, u32), Fault> {
        match addr >> 24 {
            0 => Ok((own, addr)),
            r if r as usize - 1 == own => Ok((own, addr & 0xff_ffff)),
            _ => Err(Fault::new(
                Rule::RemoteAddress,
                format!("{addr:#x} lies in another CTA; the instruction takes shared::cta"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::grid::Grid;

    fn two() -> Ctas {
        let grid = Grid {
            grid: [2, 1, 1],
            block: [1, 1, 1],
            cluster: [2, 1, 1],
            min_ctas: 1,
            smem_bytes: 0,
            name: "",
        };
        Ctas::new(&Shape::new(&grid, 0, 1))
    }

    #[test]
    fn a_peer_is_reached_while_it_runs() {
        let mut ctas = two();
        let peer = 2 << 24 | 1024;
        assert_eq!(ctas.split(0, 1024).unwrap(), (0, 1024), "the own CTA always is");
        assert_eq!(ctas.split(0, peer).unwrap_err().rule, Rule::PeerGone);
        ctas.start(1);
        assert_eq!(ctas.split(0, peer).unwrap(), (1, 1024));
        assert!(ctas.exit(1) && !ctas.lives(1));
        assert!(ctas.split(0, peer).unwrap_err().message.contains("has exited"));
        assert_eq!(ctas.split(0, 3 << 24).unwrap_err().rule, Rule::RemoteAddress);
    }

    #[test]
    fn own_addresses_have_two_forms() {
        assert_eq!(Ctas::own(1, 1024).unwrap(), (1, 1024));
        assert_eq!(Ctas::own(1, 2 << 24 | 1024).unwrap(), (1, 1024));
        assert_eq!(Ctas::own(0, 2 << 24 | 1024).unwrap_err().rule, Rule::RemoteAddress);
    }
}
