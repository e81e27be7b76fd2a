//! Clusters: their shape, a CTA's place in its cluster, and the peers that share its operands.
//!
//! Invariant: the CTAs of a row of the cluster (same m) share tiles of A, and those of a column (same n) share
//! tiles of B. Multicast masks follow from the shape.

use core::marker::PhantomData;

/// Closes [`ClusterShape`] and [`Sharing`]: M and N determine which CTAs share an operand.
mod sealed {
    #[diagnostic::on_unimplemented(
        message = "`{Self}` can't be the shape of a cluster",
        label = "this trait is closed",
        note = "a cluster is `Cluster<M, N>`"
    )]
    pub trait Sealed {}
    /// The same for [`Sharing`](super::Sharing).
    #[diagnostic::on_unimplemented(
        message = "`{Self}` can't say who shares a tile",
        label = "this trait is closed",
        note = "a tile is shared `AlongN<COUNT>` (rows of A) or `AlongM<COUNT>` (rows of B), or by nobody: `Unshared`"
    )]
    pub trait Shared {}
}
use sealed::{Sealed, Shared};

/// The shape of a thread-block cluster, known at compile time.
///
/// (PTX `.reqnctapercluster`; CUTLASS `ClusterShape`.)
///
/// ```
/// use warpipe_pipeline::{cta::ClusterShape, prelude::*};
/// type Pair = Cluster<2, 1>;
/// assert_eq!((Pair::SIZE, Pair::SHARERS), (2, 2));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the shape of a cluster",
    label = "not a `Cluster`",
    note = "a cluster of M x N CTAs is `Cluster<M, N>`; a CTA without a cluster is `Cluster<1, 1>`"
)]
pub trait ClusterShape: Sealed + Copy + core::fmt::Debug + 'static {
    /// CTAs along M.
    const M: usize;
    /// CTAs along N.
    const N: usize;
    /// CTAs in the cluster.
    const SIZE: usize = Self::M * Self::N;
    /// The CTAs that share a tile of A: a row of the cluster.
    type SharesA: Sharing;
    /// The CTAs that share a tile of B: a column of the cluster.
    type SharesB: Sharing;
    /// The number of CTAs that share an operand with one CTA, itself included: its row and its column.
    const SHARERS: usize = Self::M + Self::N - 1;
}

/// A cluster of `M` x `N` CTAs. CTA (m, n) has rank m + n·M.
///
/// (PTX `.reqnctapercluster`; CUTLASS `Shape<Int<M>, Int<N>, _1>`.)
///
/// ```
/// use warpipe_pipeline::{cta::ClusterShape, prelude::*};
/// assert_eq!(<Cluster<4, 2> as ClusterShape>::SIZE, 8);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Cluster<const M: usize, const N: usize>(());

#[cfg(not(target_arch = "nvptx64"))]
impl<const M: usize, const N: usize> Cluster<M, N> {
    /// The place of CTA `rank` in such a cluster, for the host and for tests.
    ///
    /// ```
    /// use warpipe_pipeline::prelude::*;
    /// let at = Cluster::<2, 2>::coord(3);
    /// assert_eq!((at.m(), at.n()), (1, 1));
    /// ```
    #[must_use]
    pub fn coord(rank: u32) -> ClusterCoord<Self> {
        assert!(rank < (M * N) as u32, "a cluster of {M} x {N} has no CTA {rank}");
        ClusterCoord { rank, shape: PhantomData }
    }
}

impl<const M: usize, const N: usize> Sealed for Cluster<M, N> {}
impl<const M: usize, const N: usize> ClusterShape for Cluster<M, N> {
    const M: usize = {
        assert!(M >= 1 && N >= 1 && M * N <= 16, "a cluster has from 1 to 16 CTAs");
        M
    };
    const N: usize = N;
    type SharesA = AlongN<N>;
    type SharesB = AlongM<M>;
}

/// A CTA's place in its cluster, and the cluster's place in the grid.
///
/// `Cl` is the cluster's shape. The CTA's token makes it and reads `%cluster_ctarank` once. (PTX
/// `%cluster_ctarank`; CUTLASS `block_rank_in_cluster`, `block_id_in_cluster`.)
///
/// ```
/// # use half::bf16;
/// # use warpipe_pipeline::{cta::{AlongN, ClusterCoord}, prelude::*, tile::Load};
/// type Rows = Tile<bf16, 128, 64>;
/// /// The two CTAs of a row load half of the tile of A each, and both receive the whole tile.
/// fn rows<'a>(
///     at: ClusterCoord<Cluster<1, 2>>,
///     a: &'a TensorMap<Rows, AlongN<2>>,
/// ) -> Load<'a, Rows, AlongN<2>> {
///     let tile = at.cluster_id() + at.m();
///     assert!(at.m() == 0 && at.rank() == at.n() && at.cluster_id() < at.clusters());
///     a.tile(128 * tile, 0, at.sharing_a())
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ClusterCoord<Cl> {
    rank: u32,
    shape: PhantomData<Cl>,
}

impl<Cl: ClusterShape> ClusterCoord<Cl> {
    #[isa::forceinline]
    pub(crate) fn read() -> Self {
        let rank = if Cl::SIZE == 1 { 0 } else { isa::cluster::cta_rank() };
        Self { rank, shape: PhantomData }
    }
    /// The CTA's rank in the cluster, `0..Cl::SIZE`.
    ///
    /// (CUTLASS `block_rank_in_cluster()`.) See the example of [`ClusterCoord`].
    #[isa::forceinline]
    pub fn rank(self) -> u32 {
        self.rank
    }
    /// The CTA's position along M.
    ///
    /// (CUTLASS `block_id_in_cluster().x`.) See the example of [`ClusterCoord`].
    #[isa::forceinline]
    pub fn m(self) -> u32 {
        if const { Cl::N == 1 } { self.rank } else { self.rank % Cl::M as u32 }
    }
    /// The CTA's position along N.
    ///
    /// (CUTLASS `block_id_in_cluster().y`.) See the example of [`ClusterCoord`].
    #[isa::forceinline]
    pub fn n(self) -> u32 {
        // The compiler does not know that the rank is less than the cluster's size.
        if const { Cl::N == 1 } { 0 } else { self.rank / Cl::M as u32 }
    }
    /// The index of this cluster in the grid.
    ///
    /// (PTX `%ctaid.x`; CUTLASS `cluster_id_in_grid()`.) See the example of [`ClusterCoord`].
    #[isa::forceinline]
    pub fn cluster_id(self) -> u32 {
        isa::thread::block_idx_x() / Cl::SIZE as u32
    }
    /// The number of clusters in the grid.
    ///
    /// (PTX `%nctaid.x`; CUTLASS `cluster_grid_dims()`.) See the example of [`ClusterCoord`].
    #[isa::forceinline]
    pub fn clusters(self) -> u32 {
        isa::thread::grid_dim_x() / Cl::SIZE as u32
    }
    /// Whether this CTA shares an operand with CTA `rank`, which is in the same row or the same column.
    #[isa::forceinline]
    pub(crate) fn shares_with(self, rank: u32) -> bool {
        let m = Cl::M as u32;
        rank % m == self.m() || rank / m == self.n()
    }
}

impl<Cl: ClusterShape> ClusterCoord<Cl> {
    /// The CTAs with this CTA's m, which need the same rows of A.
    ///
    /// (PTX: the mask of `.multicast::cluster`; CUTLASS `mcast_mask_a`.) See the example of [`ClusterCoord`].
    #[isa::forceinline]
    pub fn sharing_a(self) -> Peers<Cl::SharesA> {
        let mut mask = 0;
        let mut n = 0;
        while n < Cl::N {
            mask |= 1 << (n * Cl::M);
            n += 1;
        }
        Peers { index: self.n(), mask: (mask << self.m()) as u16, sharing: PhantomData }
    }
    /// The CTAs with this CTA's n, which need the same rows of B.
    ///
    /// (PTX: the mask of `.multicast::cluster`; CUTLASS `mcast_mask_b`.) See the example of [`Peers`].
    #[isa::forceinline]
    pub fn sharing_b(self) -> Peers<Cl::SharesB> {
        let mask: u32 = (1 << Cl::M) - 1;
        let mask = (mask << (self.n() * Cl::M as u32)) as u16;
        Peers { index: self.m(), mask, sharing: PhantomData }
    }
}

/// Which CTAs of a cluster share a tile: they load parts of it, and all receive the whole tile.
///
/// A tensor map and the [`Peers`] that its tiles are loaded with name the same sharing. The mask of A therefore
/// can't go with B, not even in a square cluster, where both masks have the same number of bits.
///
/// (CUTLASS: the multicast count of `make_tma_copy_A_sm90` and `make_tma_copy_B_sm90`.)
///
/// ```
/// use warpipe_pipeline::cta::{AlongM, AlongN, Sharing, Unshared};
/// assert_eq!((AlongN::<4>::COUNT, AlongM::<2>::COUNT, Unshared::COUNT), (4, 2, 1));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't say who shares a tile",
    label = "not a sharing",
    note = "a tile is shared `AlongN<COUNT>` (rows of A) or `AlongM<COUNT>` (rows of B), or by nobody: `Unshared`"
)]
pub trait Sharing: Shared + Copy + core::fmt::Debug + 'static {
    /// The number of CTAs that share the tile.
    const COUNT: usize;
}

/// The sharing of tiles of A: the `COUNT` CTAs of a row of the cluster, side by side along N.
///
/// (CUTLASS `size<1>(cluster_shape)`, for A.)
///
/// ```
/// # use half::bf16;
/// # use warpipe_pipeline::{cta::AlongN, prelude::*};
/// /// Each of two CTAs loads 64 of the tile's 128 rows.
/// type A = TensorMap<Tile<bf16, 128, 64>, AlongN<2>>;
/// assert_eq!(A::BOX_ROWS, 64);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlongN<const COUNT: usize>(());

/// The sharing of tiles of B: the `COUNT` CTAs of a column of the cluster, one below the other along M.
///
/// (CUTLASS `size<0>(cluster_shape)`, for B.)
///
/// ```
/// # use half::bf16;
/// # use warpipe_pipeline::{cta::AlongM, prelude::*};
/// type B = TensorMap<Tile<bf16, 128, 64>, AlongM<4>>;
/// assert_eq!(B::BOX_ROWS, 32);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlongM<const COUNT: usize>(());

/// No sharing: each CTA loads its own tiles.
///
/// (CUTLASS `SM90_TMA_LOAD` instead of `SM90_TMA_LOAD_MULTICAST`.)
///
/// ```
/// # use half::bf16;
/// # use warpipe_pipeline::{prelude::*, cta::Unshared};
/// /// It is the default of a tensor map.
/// fn same(map: &TensorMap<Tile<bf16, 128, 64>>) -> &TensorMap<Tile<bf16, 128, 64>, Unshared> { map }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unshared(());

impl<const COUNT: usize> Shared for AlongN<COUNT> {}
impl<const COUNT: usize> Sharing for AlongN<COUNT> {
    const COUNT: usize = COUNT;
}
impl<const COUNT: usize> Shared for AlongM<COUNT> {}
impl<const COUNT: usize> Sharing for AlongM<COUNT> {
    const COUNT: usize = COUNT;
}
impl Shared for Unshared {}
impl Sharing for Unshared {
    const COUNT: usize = 1;
}

/// The CTAs that share a tile: each loads a box of it and multicasts it to all of them. Of fewer boxes than CTAs
/// ([`TensorMap`](crate::tile::TensorMap)), they load one in turn.
///
/// (PTX: the mask of `.multicast::cluster`; CUTLASS `mcast_mask_a`, `mcast_mask_b`.)
///
/// ```
/// # use half::bf16;
/// # use warpipe_pipeline::{cta::{AlongM, ClusterCoord}, prelude::*, tile::Load};
/// /// Two CTAs load half of the tile each, and both receive the whole tile.
/// fn half(at: ClusterCoord<Cluster<2, 1>>, b: &TensorMap<Tile<bf16, 128, 64>, AlongM<2>>) {
///     let peers: Peers<AlongM<2>> = at.sharing_b();
///     let _load = b.tile(0, 0, peers);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peers<P> {
    /// The number of this CTA among them.
    pub(crate) index: u32,
    /// The CTAs that receive it: bit r stands for the CTA of rank r.
    pub(crate) mask: u16,
    sharing: PhantomData<P>,
}

impl Peers<Unshared> {
    /// This CTA alone: no multicast.
    pub const ALONE: Self = Self { index: 0, mask: 1, sharing: PhantomData };
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
