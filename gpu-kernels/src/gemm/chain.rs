//! What makes a chain of an epilogue: the links behind it, activations and gates.
#![forbid(unsafe_code)]

use super::activation::Activation;
use super::epilogue::Epilogue;
use core::marker::PhantomData;
use isa::kernel::{AfterWait, ByValue, KernelArg};
use isa::wgmma::{M64, Shape};
use pipeline::cta::{ClusterShape, Role};
use pipeline::mma::{Fragment, TileOfGroup};
use pipeline::prelude::*;

/// Makes chains: implemented for every [`Epilogue`].
///
/// ```
/// use warpipe_gpu_kernels::gemm::{Linear, fusion::{Chain, Clamp, Silu}};
///
/// /// alpha · A·Bᵀ, then SiLU, at most 6.
/// let epilogue = Linear { alpha: 0.5, beta: 0.0 }
///     .activated::<Silu>()
///     .then(Clamp { low: f32::NEG_INFINITY, high: 6.0 });
/// assert_eq!(epilogue.next.high, 6.0);
/// ```
pub trait Chain: Epilogue {
    /// This epilogue, and then `link`.
    #[must_use]
    fn then<L: Link>(self, link: L) -> Then<Self, L> {
        Then { first: self, next: link }
    }

    /// This epilogue, and then half of its results as gates of the other half: D = `link`(gate) · up. With
    /// [`EltAct::SILU`](crate::gemm::fusion::EltAct::SILU) this is SwiGLU, with
    /// [`EltAct::GELU`](crate::gemm::fusion::EltAct::GELU) GeGLU.
    ///
    /// D has half as many columns as B has rows. [`GATED`](Epilogue::GATED) says in which order these come.
    #[must_use]
    fn gated<L: Link>(self, link: L) -> Gated<Self, L> {
        const { assert!(!Self::GATED, "results are gated once") };
        Gated { first: self, link }
    }

    /// This epilogue, and then the function `A` of each result.
    #[must_use]
    fn activated<A: Activation>(self) -> Activated<Self, A> {
        Activated::new(self)
    }
}

impl<E: Epilogue> Chain for E {}

/// A link of a chain: it maps the results of the links before it.
///
/// ```
/// use warpipe_gpu_kernels::gemm::{Linear, fusion::{Chain, Link}};
/// use isa::kernel::KernelArg;
/// use pipeline::mma::Fragment;
///
/// /// Sets results to 0 whose row is `gap` or more below their column: what a causal mask hides.
/// #[repr(C)]
/// #[derive(Clone, Copy, KernelArg)]
/// struct Below {
///     gap: u32,
/// }
///
/// impl Link for Below {
///     fn visit(&self, x: Fragment, _c: Option<Fragment>) -> Fragment {
///         x.map_at(|x, row, column| if row >= column + self.gap { 0.0 } else { x })
///     }
/// }
///
/// let epilogue = Linear { alpha: 0.5, beta: 0.0 }.then(Below { gap: 1 });
/// # let _: warpipe_gpu_kernels::gemm::fusion::Then<Linear, Below> = epilogue;
/// ```
pub trait Link: ByValue + KernelArg + AfterWait {
    /// Whether [`visit`](Self::visit) loads values ([`Epilogue::LOADS`]).
    const LOADS: bool = false;
    /// Whether [`visit`](Self::visit) computes a smooth function ([`Epilogue::ACTIVATES`]).
    const ACTIVATES: bool = false;

    /// Called once by each warp group before its first tile ([`Epilogue::prepared`]).
    #[isa::forceinline]
    #[must_use]
    fn prepared<R: Role, Cl: ClusterShape>(self, _group: &Warpgroup<R, Cl>) -> Self {
        self
    }

    /// Called once by each warp group before it multiplies a tile ([`Epilogue::begin_tile`]).
    #[isa::forceinline]
    fn begin_tile<R: Role, Cl: ClusterShape>(
        &mut self,
        _group: &Warpgroup<R, Cl>,
        _tile: TileOfGroup,
    ) {
    }

    /// Returns what the next link gets in place of `x`. If the kernel reads C, `c` is C at the same place.
    ///
    /// All threads of a warp group call this together, once for each 64 x 16 fragment.
    fn visit(&self, x: Fragment, c: Option<Fragment>) -> Fragment;

    /// Visits fragments that one TMA store writes together ([`Epilogue::visit_all`]).
    #[isa::forceinline]
    fn visit_all<R: Role, Cl: ClusterShape>(
        &mut self,
        _group: &Warpgroup<R, Cl>,
        xs: &mut [Fragment],
    ) {
        for x in xs {
            *x = self.visit(*x, None);
        }
    }

    /// Called once by each warp group behind its last tile ([`Epilogue::end`]).
    #[isa::forceinline]
    fn end<R: Role, Cl: ClusterShape>(&self, _group: &Warpgroup<R, Cl>) {}
}

/// The epilogue `E`, and then the link `L`. [`Chain::then`] makes it.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Then<E, L> {
    /// What comes first.
    pub first: E,
    /// What comes after it.
    pub next: L,
}

impl<E: Epilogue, L: Link> Epilogue for Then<E, L> {
    const GATED: bool = E::GATED;
    const LOADS: bool = E::LOADS || L::LOADS;
    const ACTIVATES: bool = E::ACTIVATES || L::ACTIVATES;

    #[isa::forceinline]
    fn prepared<R: Role, Cl: ClusterShape>(self, group: &Warpgroup<R, Cl>) -> Self {
        Self { first: self.first.prepared(group), next: self.next.prepared(group) }
    }

    #[isa::forceinline]
    fn begin_tile<R: Role, Cl: ClusterShape>(
        &mut self,
        group: &Warpgroup<R, Cl>,
        tile: TileOfGroup,
    ) {
        self.first.begin_tile(group, tile);
        self.next.begin_tile(group, if E::GATED { of_gated(tile) } else { tile });
    }

    #[isa::forceinline]
    fn begin<const N: usize>(&self, sums: &mut Accumulator<N>)
    where
        M64<N>: Shape,
    {
        self.first.begin(sums);
    }

    #[isa::forceinline]
    fn visit(&self, sum: Fragment, c: Option<Fragment>) -> Fragment {
        let first = self.first.visit(sum, c);
        if E::GATED { first } else { self.next.visit(first, c) }
    }

    #[isa::forceinline]
    fn visit_all<R: Role, Cl: ClusterShape>(
        &mut self,
        group: &Warpgroup<R, Cl>,
        sums: &mut [Fragment],
    ) {
        self.first.visit_all(group, sums);
        self.next.visit_all(group, sums);
    }

    #[isa::forceinline]
    fn end<R: Role, Cl: ClusterShape>(&self, group: &Warpgroup<R, Cl>) {
        self.first.end(group);
        self.next.end(group);
    }

    #[isa::forceinline]
    fn gate(&self, gate: Fragment, up: Fragment) -> Fragment {
        self.next.visit(self.first.gate(gate, up), None)
    }
}

/// The epilogue `E`, and then the function `A` of each result. [`Chain::activated`] makes it.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Activated<E, A> {
    /// What comes first.
    pub first: E,
    function: PhantomData<A>,
}

impl<E, A> Activated<E, A> {
    const fn new(first: E) -> Self {
        Self { first, function: PhantomData }
    }
}

impl<E: Epilogue, A: Activation> Epilogue for Activated<E, A> {
    const GATED: bool = E::GATED;
    const LOADS: bool = E::LOADS;
    const ACTIVATES: bool = true;

    #[isa::forceinline]
    fn prepared<R: Role, Cl: ClusterShape>(self, group: &Warpgroup<R, Cl>) -> Self {
        Self::new(self.first.prepared(group))
    }

    #[isa::forceinline]
    fn begin_tile<R: Role, Cl: ClusterShape>(
        &mut self,
        group: &Warpgroup<R, Cl>,
        tile: TileOfGroup,
    ) {
        self.first.begin_tile(group, tile);
    }

    #[isa::forceinline]
    fn begin<const N: usize>(&self, sums: &mut Accumulator<N>)
    where
        M64<N>: Shape,
    {
        self.first.begin(sums);
    }

    #[isa::forceinline]
    fn visit(&self, sum: Fragment, c: Option<Fragment>) -> Fragment {
        let first = self.first.visit(sum, c);
        if E::GATED { first } else { first.map(A::apply) }
    }

    #[isa::forceinline]
    fn visit_all<R: Role, Cl: ClusterShape>(
        &mut self,
        group: &Warpgroup<R, Cl>,
        sums: &mut [Fragment],
    ) {
        self.first.visit_all(group, sums);
        for sum in sums {
            *sum = sum.map(A::apply);
        }
    }

    #[isa::forceinline]
    fn end<R: Role, Cl: ClusterShape>(&self, group: &Warpgroup<R, Cl>) {
        self.first.end(group);
    }

    #[isa::forceinline]
    fn gate(&self, gate: Fragment, up: Fragment) -> Fragment {
        self.first.gate(gate, up).map(A::apply)
    }
}

/// The epilogue `E`, and then `link`(gate) · up. [`Chain::gated`] makes it.
///
/// (torch: `silu(x @ gate.T) * (x @ up.T)`, a dual GEMM; CUTLASS: example 45, `dual_gemm`.)
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Gated<E, L> {
    /// What comes first, for gates and for what belongs to them.
    pub first: E,
    /// What becomes of a gate.
    pub link: L,
}

impl<E: Epilogue, L: Link> Epilogue for Gated<E, L> {
    const GATED: bool = true;
    const ACTIVATES: bool = E::ACTIVATES || L::ACTIVATES;

    #[isa::forceinline]
    fn prepared<R: Role, Cl: ClusterShape>(self, group: &Warpgroup<R, Cl>) -> Self {
        Self { first: self.first.prepared(group), link: self.link.prepared(group) }
    }

    #[isa::forceinline]
    fn end<R: Role, Cl: ClusterShape>(&self, group: &Warpgroup<R, Cl>) {
        self.first.end(group);
        self.link.end(group);
    }

    #[isa::forceinline]
    fn begin_tile<R: Role, Cl: ClusterShape>(
        &mut self,
        group: &Warpgroup<R, Cl>,
        tile: TileOfGroup,
    ) {
        self.first.begin_tile(group, tile);
        self.link.begin_tile(group, tile);
    }

    #[isa::forceinline]
    fn begin<const N: usize>(&self, sums: &mut Accumulator<N>)
    where
        M64<N>: Shape,
    {
        self.first.begin(sums);
    }

    #[isa::forceinline]
    fn visit(&self, sum: Fragment, c: Option<Fragment>) -> Fragment {
        self.first.visit(sum, c)
    }

    #[isa::forceinline]
    fn gate(&self, gate: Fragment, up: Fragment) -> Fragment {
        self.link.visit(gate, None).zip(up, |gate, up| gate * up)
    }
}

/// The part of D of a gated product's tile.
#[isa::forceinline]
const fn of_gated(tile: TileOfGroup) -> TileOfGroup {
    TileOfGroup { column: tile.column / 2, columns: tile.columns / 2, ..tile }
}
