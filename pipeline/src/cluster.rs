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
///
/// Waits for nothing. Signals nothing. PTX: `.reqnctapercluster`, through the launch. CUTLASS: the
/// `ClusterShape` parameter.
///
/// ```
/// use pipeline::prelude::*;
/// type K = Cluster<2, 1>;
/// assert_eq!((K::SIZE, K::SHARERS), (2, 2));
/// ```
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

/// `M` x `N` CTAs. Rank = m + n·M.
///
/// Waits for nothing. Signals nothing. PTX: `.reqnctapercluster`, through the launch. CUTLASS:
/// `Shape<Int<M>, Int<N>, _1>`.
///
/// ```
/// use pipeline::prelude::*;
/// assert_eq!(<Cluster<4, 2> as ClusterShape>::SIZE, 8);
/// ```
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
///
/// Waits for nothing. Signals nothing. PTX: `%cluster_ctarank`. CUTLASS: `block_rank_in_cluster`,
/// `block_id_in_cluster`.
///
/// ```
/// # use half::bf16;
/// # use pipeline::{prelude::*, tensor::Load};
/// type A<'a> = Load<'a, Tile<bf16, 128, 64>, 1>;
/// /// Each CTA of a column of two loads its own rows of A: nobody shares them.
/// fn rows(at: ClusterCoord<Cluster<2, 1>>, a: &TensorMap<Tile<bf16, 128, 64>>) -> A<'_> {
///     let tile = at.cluster_id() * 2 + at.m();
///     assert!(at.n() == 0 && at.rank() == at.m() && at.cluster_id() < at.clusters());
///     a.tile(128 * tile, 0, at.sharing_a())
/// }
/// ```
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
    ///
    /// Waits for nothing. Signals nothing. PTX: none. CUTLASS: `block_rank_in_cluster()`. See the
    /// example of [`ClusterCoord`].
    #[inline(always)]
    pub fn rank(self) -> u32 {
        self.rank
    }
    /// Position along M.
    ///
    /// Waits for nothing. Signals nothing. PTX: none. CUTLASS: `block_id_in_cluster().x`. See the
    /// example of [`ClusterCoord`].
    #[inline(always)]
    pub fn m(self) -> u32 {
        self.rank % K::M as u32
    }
    /// Position along N.
    ///
    /// Waits for nothing. Signals nothing. PTX: none. CUTLASS: `block_id_in_cluster().y`. See the
    /// example of [`ClusterCoord`].
    #[inline(always)]
    pub fn n(self) -> u32 {
        self.rank / K::M as u32
    }
    /// Which cluster of the grid this is.
    ///
    /// Waits for nothing. Signals nothing. PTX: `%ctaid.x`. CUTLASS: `cluster_id_in_grid()`. See
    /// the example of [`ClusterCoord`].
    #[inline(always)]
    pub fn cluster_id(self) -> u32 {
        isa::thread::block_idx_x() / K::SIZE as u32
    }
    /// Clusters in the grid.
    ///
    /// Waits for nothing. Signals nothing. PTX: `%nctaid.x`. CUTLASS: `cluster_grid_dims()`. See
    /// the example of [`ClusterCoord`].
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
    ///
    /// Waits for nothing. Signals nothing. PTX: the mask of `.multicast::cluster`. CUTLASS:
    /// `mcast_mask_a`. See the example of [`ClusterCoord`].
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
    ///
    /// Waits for nothing. Signals nothing. PTX: the mask of `.multicast::cluster`. CUTLASS:
    /// `mcast_mask_b`. See the example of [`Peers`].
    #[inline(always)]
    pub fn sharing_b(self) -> Peers<M> {
        let mask: u32 = (1 << M) - 1;
        Peers { index: self.m(), mask: (mask << (self.n() * M as u32)) as u16 }
    }
}

/// `COUNT` CTAs that each load one slice of a tile and multicast it to all of them.
///
/// Waits for nothing. Signals nothing. PTX: the mask of `.multicast::cluster`. CUTLASS:
/// `mcast_mask_a`, `mcast_mask_b`.
///
/// ```
/// # use half::bf16;
/// # use pipeline::{prelude::*, tensor::Load};
/// /// Two CTAs load half of the tile each, and both receive the whole.
/// fn half(at: ClusterCoord<Cluster<2, 1>>, b: &TensorMap<Tile<bf16, 128, 64>, 2>) {
///     let peers: Peers<2> = at.sharing_b();
///     let _load = b.tile(0, 0, peers);
/// }
/// ```
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
