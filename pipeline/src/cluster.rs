//! Clusters: their shape, where a CTA stands in one, and which peers share its operands.

use core::marker::PhantomData;

/// Closes [`ClusterShape`]: who shares an operand follows from M and N.
mod sealed {
    #[diagnostic::on_unimplemented(
        message = "`{Self}` can't be the shape of a cluster",
        label = "this trait is closed",
        note = "a cluster is `Cluster<M, N>`"
    )]
    pub trait Sealed {}
}
use sealed::Sealed;

/// The shape of a thread-block cluster, known at compile time.
pub trait ClusterShape: Sealed + Copy + core::fmt::Debug + 'static {
    /// CTAs along M.
    const M: usize;
    /// CTAs along N.
    const N: usize;
    /// CTAs in the cluster.
    const SIZE: usize = Self::M * Self::N;
    /// CTAs that share an operand with one CTA, itself included: its row and its column.
    const SHARERS: usize = Self::M + Self::N - 1;
}

/// `M` x `N` CTAs (CUTLASS `ClusterShape`, without L). Rank = m + n·M.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<const M: usize, const N: usize>(());

impl<const M: usize, const N: usize> Sealed for Cluster<M, N> {}
impl<const M: usize, const N: usize> ClusterShape for Cluster<M, N> {
    const M: usize = {
        assert!(M >= 1 && N >= 1 && M * N <= 16, "a cluster has from 1 to 16 CTAs");
        M
    };
    const N: usize = N;
}

/// Where a CTA stands in its cluster, and in the grid of clusters.
///
/// `K` is the cluster's shape. Made by the CTA token; reads `%cluster_ctarank` once.
#[derive(Clone, Copy, Debug)]
pub struct ClusterCoord<K> {
    rank: u32,
    shape: PhantomData<K>,
}

impl<K: ClusterShape> ClusterCoord<K> {
    #[inline(always)]
    pub(crate) fn read() -> Self {
        let rank = if K::SIZE == 1 { 0 } else { isa::cluster::cta_rank() };
        Self { rank, shape: PhantomData }
    }
    /// Rank in the cluster, `0..K::SIZE`.
    #[inline(always)]
    pub fn rank(self) -> u32 {
        self.rank
    }
    /// Position along M.
    #[inline(always)]
    pub fn m(self) -> u32 {
        self.rank % K::M as u32
    }
    /// Position along N.
    #[inline(always)]
    pub fn n(self) -> u32 {
        self.rank / K::M as u32
    }
    /// Which cluster of the grid this is.
    #[inline(always)]
    pub fn cluster_id(self) -> u32 {
        isa::thread::block_idx_x() / K::SIZE as u32
    }
    /// Clusters in the grid.
    #[inline(always)]
    pub fn clusters(self) -> u32 {
        isa::thread::grid_dim_x() / K::SIZE as u32
    }
    /// Does this CTA share an operand with CTA `rank` (same row or same column)?
    #[inline(always)]
    pub(crate) fn shares_with(self, rank: u32) -> bool {
        let m = K::M as u32;
        rank % m == self.m() || rank / m == self.n()
    }
}

impl<const M: usize, const N: usize> ClusterCoord<Cluster<M, N>> {
    /// The `N` CTAs with this CTA's m: they need the same rows of A.
    #[inline(always)]
    pub fn sharing_a(self) -> Peers<N> {
        let mut mask = 0;
        let mut n = 0;
        while n < N {
            mask |= 1 << (n * M);
            n += 1;
        }
        Peers { index: self.n(), mask: (mask << self.m()) as u16 }
    }
    /// The `M` CTAs with this CTA's n: they need the same rows of B.
    #[inline(always)]
    pub fn sharing_b(self) -> Peers<M> {
        let mask: u32 = (1 << M) - 1;
        Peers { index: self.m(), mask: (mask << (self.n() * M as u32)) as u16 }
    }
}

/// `COUNT` CTAs that each load one slice of a tile and multicast it to all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peers<const COUNT: usize> {
    /// Which slice this CTA loads.
    pub(crate) index: u32,
    /// Bit r: CTA r of the cluster receives it.
    pub(crate) mask: u16,
}

impl Peers<1> {
    /// This CTA alone: no multicast.
    pub const ALONE: Self = Self { index: 0, mask: 1 };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const M: usize, const N: usize>() {
        for rank in 0..(M * N) as u32 {
            let at = ClusterCoord::<Cluster<M, N>> { rank, shape: PhantomData };
            let (a, b) = (at.sharing_a(), at.sharing_b());
            for other in 0..(M * N) as u32 {
                let peer = ClusterCoord::<Cluster<M, N>> { rank: other, shape: PhantomData };
                assert_eq!(a.mask >> other & 1 == 1, peer.m() == at.m());
                assert_eq!(b.mask >> other & 1 == 1, peer.n() == at.n());
                assert_eq!(at.shares_with(other), peer.m() == at.m() || peer.n() == at.n());
            }
            assert_eq!(a.mask.count_ones() as usize, N);
            assert_eq!(b.mask.count_ones() as usize, M);
            let sharers = (0..16).filter(|r| *r < (M * N) as u32 && at.shares_with(*r)).count();
            assert_eq!(sharers, <Cluster<M, N> as ClusterShape>::SHARERS);
        }
    }

    #[test]
    fn masks_are_rows_and_columns() {
        check::<1, 1>();
        check::<2, 1>();
        check::<1, 2>();
        check::<2, 2>();
        check::<4, 2>();
        check::<4, 4>();
    }
}
