//! Epilogues put together from links: an epilogue, and what happens to its results one after another.
//!
//! ```text
//! Linear { alpha, beta } ──► then(PerColBias) ──► activated::<Gelu>() ──► D
//! ```
//!
//! The chain is a type, so the compiler makes one function of it, and it is an argument of the kernel like any other
//! epilogue. (CUTLASS: `epilogue::fusion`, the operations of `Sm90EVT`; cuBLASLt: `CUBLASLT_EPILOGUE_GELU_BIAS` and the
//! like.)
#![forbid(unsafe_code)]

pub use super::activation::{Activation, Gelu, GeluTanh, Relu, Sigmoid, Silu, Tanh};
use super::epilogue::{Epilogue, Linear};
use core::marker::PhantomData;
use half::{bf16, f16};
use isa::kernel::{AfterWait, ByValue, KernelArg};
use isa::math::{fma, tanh_approx};
use isa::slice::Element;
use isa::wgmma::{M64, Shape};
use pipeline::cta::{ClusterShape, Role};
use pipeline::grid::DependentSlice;
use pipeline::mma::{ColumnValues, Fragment, TileOfGroup};
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

    /// This epilogue, and then half of its results as gates of the other half: D = `link`(gate) · up. With [`EltAct::SILU`]
    /// this is SwiGLU, with [`EltAct::GELU`] GeGLU.
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

/// The types of a bias: f32, bf16 and f16.
pub trait BiasElement: Element {
    /// What a row or column behind the last one has.
    const ZERO: Self;
    /// Whether [`add_columns`](Self::add_columns) loads the values itself.
    const LOADS: bool = true;
    /// The value as f32.
    fn widened(self) -> f32;

    /// Loads the values of a tile's columns, if registers hold them ([`ColumnValues::load`]). Waits for nothing.
    #[isa::forceinline]
    fn hold_columns<R: Role, Cl: ClusterShape>(
        _bias: &DependentSlice<'_, Self>,
        _group: &Warpgroup<R, Cl>,
        _tile: &TileOfGroup,
    ) -> ColumnValues {
        ColumnValues::NONE
    }

    /// `alpha` times each value of `x`, plus the value of its column. Waits for the values of the columns and, if registers hold
    /// them, for the warp's other lanes ([`ColumnValues::map`]).
    #[isa::forceinline]
    fn add_columns(
        bias: &DependentSlice<'_, Self>,
        _held: &ColumnValues,
        alpha: f32,
        x: Fragment,
    ) -> Fragment {
        let bias = bias.by(&x);
        let of = |column: u32| bias.get_or(column as usize, Self::ZERO).widened();
        x.map_by(|_row| (), of, |x, (), bias| fma(alpha, x, bias))
    }
}

/// How a bias of 16-bit values is held while a tile is multiplied.
macro_rules! held {
    ($pair:path) => {
        const LOADS: bool = false;

        #[isa::forceinline]
        fn hold_columns<R: Role, Cl: ClusterShape>(
            bias: &DependentSlice<'_, Self>,
            group: &Warpgroup<R, Cl>,
            tile: &TileOfGroup,
        ) -> ColumnValues {
            let bias = bias.by(group);
            ColumnValues::load(group, tile, |column| {
                bias.get_or(column as usize, Self::ZERO).to_bits()
            })
        }

        #[isa::forceinline]
        fn add_columns(
            _bias: &DependentSlice<'_, Self>,
            held: &ColumnValues,
            alpha: f32,
            x: Fragment,
        ) -> Fragment {
            let widened = |[low, high]: [u16; 2]| $pair(u32::from(low) | u32::from(high) << 16);
            held.map(x, widened, |x, bias| fma(alpha, x, bias))
        }
    };
}

impl BiasElement for f32 {
    const ZERO: Self = 0.0;

    #[isa::forceinline]
    fn widened(self) -> f32 {
        self
    }
}

impl BiasElement for bf16 {
    const ZERO: Self = bf16::ZERO;
    held!(isa::cvt::bf16x2_to_f32);

    #[isa::forceinline]
    fn widened(self) -> f32 {
        isa::cvt::bf16x2_to_f32(u32::from(self.to_bits()))[0]
    }
}

// `half` would convert with a dozen integer instructions.
impl BiasElement for f16 {
    const ZERO: Self = f16::ZERO;
    held!(isa::cvt::f16x2_to_f32);

    #[isa::forceinline]
    fn widened(self) -> f32 {
        isa::cvt::f16x2_to_f32(u32::from(self.to_bits()))[0]
    }
}

/// Adds a value to each column of D: the bias of a linear layer. A column without a value gets none.
///
/// (torch: `bias` of `torch.nn.functional.linear`; CUTLASS `PerColBias`, `Sm90RowBroadcast`; cuBLASLt with A and B
/// exchanged, `CUBLASLT_EPILOGUE_BIAS`.)
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct PerColBias<'a, T: BiasElement> {
    /// One value for each column of D, which is a row of B.
    pub bias: DependentSlice<'a, T>,
    /// Those of the tile that is multiplied.
    held: ColumnValues,
}

impl<'a, T: BiasElement> PerColBias<'a, T> {
    /// Adds `bias`: one value for each column of D, which is a row of B.
    #[must_use]
    pub const fn new(bias: DependentSlice<'a, T>) -> Self {
        Self { bias, held: ColumnValues::NONE }
    }
}

impl<T: BiasElement> Link for PerColBias<'_, T> {
    const LOADS: bool = T::LOADS;

    #[isa::forceinline]
    fn begin_tile<R: Role, Cl: ClusterShape>(
        &mut self,
        group: &Warpgroup<R, Cl>,
        tile: TileOfGroup,
    ) {
        self.held = T::hold_columns(&self.bias, group, &tile);
    }

    #[isa::forceinline]
    fn visit(&self, x: Fragment, _c: Option<Fragment>) -> Fragment {
        T::add_columns(&self.bias, &self.held, 1.0, x)
    }
}

/// alpha · A·Bᵀ + beta · C + bias of the column, with one instruction for alpha and the bias. [`Linear`] and then [`PerColBias`]
/// take two.
///
/// (CUTLASS `LinCombPerColBias`.)
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct LinCombPerColBias<'a, T: BiasElement> {
    /// Factors of the product and of C.
    pub linear: Linear,
    /// The bias.
    pub bias: PerColBias<'a, T>,
}

impl<T: BiasElement> Epilogue for LinCombPerColBias<'_, T> {
    const LOADS: bool = T::LOADS;

    #[isa::forceinline]
    fn begin_tile<R: Role, Cl: ClusterShape>(
        &mut self,
        group: &Warpgroup<R, Cl>,
        tile: TileOfGroup,
    ) {
        self.bias.begin_tile(group, tile);
    }

    #[isa::forceinline]
    fn visit(&self, sum: Fragment, c: Option<Fragment>) -> Fragment {
        let PerColBias { bias, held } = &self.bias;
        let x = T::add_columns(bias, held, self.linear.alpha, sum);
        self.linear.visit(x, c)
    }
}

/// Adds a value to each row of D. A row without a value gets none.
///
/// (CUTLASS `PerRowBias`, `Sm90ColBroadcast`.)
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct PerRowBias<'a, T: BiasElement> {
    /// One value for each row of D, which is a row of A.
    pub bias: DependentSlice<'a, T>,
}

impl<T: BiasElement> Link for PerRowBias<'_, T> {
    const LOADS: bool = true;

    #[isa::forceinline]
    fn visit(&self, x: Fragment, _c: Option<Fragment>) -> Fragment {
        let bias = self.bias.by(&x);
        let of = |row: u32| bias.get_or(row as usize, T::ZERO).widened();
        x.map_by(of, |_column| (), |x, bias, ()| x + bias)
    }
}

/// Adds `factor` · C behind an activation, as a residual connection does. The kernel reads C (`with C`), and the
/// [`Linear`] in front has a beta of 0.
///
/// (CUTLASS `LinCombEltActResidual`.)
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug, KernelArg)]
pub struct Residual {
    /// Factor of C.
    pub factor: f32,
}

impl Link for Residual {
    #[isa::forceinline]
    fn visit(&self, x: Fragment, c: Option<Fragment>) -> Fragment {
        match c {
            Some(c) => x.zip(c, |x, c| x + self.factor * c),
            None => x,
        }
    }
}

/// Bounds each result. NaN becomes `low`.
///
/// (torch: `torch.clamp`, which keeps NaN; CUTLASS `Clamp`.)
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug, KernelArg)]
pub struct Clamp {
    /// The least result.
    pub low: f32,
    /// The greatest result, not below `low`.
    pub high: f32,
}

impl Link for Clamp {
    #[isa::forceinline]
    fn visit(&self, x: Fragment, _c: Option<Fragment>) -> Fragment {
        x.map(|x| isa::math::min(isa::math::max(x, self.low), self.high))
    }
}

/// An activation that an argument of the kernel chooses, so that one kernel serves them all.
///
/// The smooth ones are x · σ(x · p(x²)), where σ is the logistic function: one piece of code for all, whose coefficients
/// are arguments. A fragment takes one branch for it. [`Chain::activated`] has the activation in the kernel's type, and
/// any other one.
///
/// Each value takes one `tanh.approx`. What that adds to the error of the result for x is at most 2⁻¹² · |x| by the PTX
/// manual. On an H200 it is at most 4·10⁻⁶ · |x|.
///
/// (CUTLASS: `EltAct` in the names of its fusion operations, where it is a type; cuBLASLt: `CUBLASLT_MATMUL_DESC_EPILOGUE`.)
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug, KernelArg)]
pub struct EltAct {
    kind: u32,
    // Half the coefficients of p, from that of x⁰ on.
    p0: f32,
    p1: f32,
    p2: f32,
    p3: f32,
    p4: f32,
}

/// What [`EltAct::kind`] means, if it is not the identity.
const RELU: u32 = 1;
const SMOOTH: u32 = 2;

impl EltAct {
    /// x itself.
    pub const IDENTITY: Self = Self::of(0, [0.0; 5]);
    /// [`Relu`].
    pub const RELU: Self = Self::of(RELU, [0.0; 5]);
    /// [`Silu`].
    pub const SILU: Self = Self::of(SMOOTH, [1.0, 0.0, 0.0, 0.0, 0.0]);
    /// x · Φ(x), Φ the normal distribution, with an error of at most 1.2·10⁻⁴ · (|y| + 0.01) in a result y, which is less than
    /// half of what rounding it to f16 adds, and what `tanh.approx` adds. (torch `gelu`; [`Gelu`] is more exact.)
    // p is log(Φ(x) / Φ(-x)) / x, fitted for |x| up to 6 so that the largest error of that form is the least. It grows from
    // there on, so x needs no bound.
    pub const GELU: Self = Self::of(
        SMOOTH,
        [1.595_320_5, 0.073_403_65, -4.203_750_2e-4, -3.926_144_2e-5, 1.359_806_6e-6],
    );
    /// GELU by a hyperbolic tangent. (torch `gelu` with `approximate="tanh"`; [`GeluTanh`].)
    // tanh(z) is 2 · σ(2 · z) - 1, and 2 · √(2/π) is 1.5957691.
    pub const GELU_TANH: Self = Self::of(SMOOTH, [1.595_769, 0.071_354_814, 0.0, 0.0, 0.0]);

    const fn of(kind: u32, p: [f32; 5]) -> Self {
        // With a coefficient of 0, p would be NaN where x² is infinite.
        const fn half(p: f32) -> f32 {
            if p == 0.0 { f32::MIN_POSITIVE } else { 0.5 * p }
        }
        let [p0, p1, p2, p3, p4] = p;
        Self { kind, p0: half(p0), p1: half(p1), p2: half(p2), p3: half(p3), p4: half(p4) }
    }

    /// x · σ(x · p(x²)) = h + h · tanh(h · p(x²)), where h = x / 2.
    ///
    /// The logistic function by `ex2` and `rcp` would take a second special function and one instruction more. Beside the
    /// wgmmas of the other warp group, that costs 1.5 % of a product with a K of 2048.
    #[isa::forceinline]
    fn smooth(&self, x: f32) -> f32 {
        let (half, square) = (0.5 * x, x * x);
        let p = fma(fma(fma(self.p4, square, self.p3), square, self.p2), square, self.p1);
        fma(half, tanh_approx(x * fma(p, square, self.p0)), half)
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl EltAct {
    /// The activations with their names, which are torch's.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("relu", Self::RELU),
        ("silu", Self::SILU),
        ("gelu", Self::GELU),
        ("gelu-tanh", Self::GELU_TANH),
    ];
}

impl Link for EltAct {
    const ACTIVATES: bool = true;

    #[isa::forceinline]
    fn visit(&self, x: Fragment, _c: Option<Fragment>) -> Fragment {
        match self.kind {
            RELU => x.map(Relu::apply),
            SMOOTH => x.map(|x| self.smooth(x)),
            _ => x,
        }
    }
}

/// alpha · A·Bᵀ + beta · C + bias of the column, an activation of that, and + factor · C.
///
/// (CUTLASS `LinCombPerColBiasEltAct`, with the addition of `LinCombEltActResidual`.)
pub type LinCombPerColBiasEltAct<'a, T> = Then<Then<LinCombPerColBias<'a, T>, EltAct>, Residual>;

/// SwiGLU, GeGLU and the like: alpha · A·Bᵀ + bias of the column (of the product), and then an activation of the gates
/// times what belongs to them.
pub type LinCombPerColBiasGated<'a, T> = Gated<LinCombPerColBias<'a, T>, EltAct>;

#[cfg(test)]
mod tests {
    use super::super::activation::tests::erf_exact;
    use super::*;

    #[test]
    fn activations_as_arguments_are_as_exact_as_they_say() {
        let phi = |x: f64| 0.5 * (1.0 + erf_exact(x / 2f64.sqrt()));
        let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
        let tanh = |x: f64| {
            logistic(2.0 * (2.0 / core::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x))
        };
        let check = |act: EltAct, exact: &dyn Fn(f64) -> f64, bound: f64| {
            for x in (-4500..=4500).map(|i| i as f32 / 1000.0) {
                let want = f64::from(x) * exact(f64::from(x));
                let error = (f64::from(act.smooth(x)) - want).abs();
                assert!(error <= bound * (want.abs() + 0.01), "{act:?} {x}: {error:e}");
            }
        };
        check(EltAct::GELU, &phi, 1.2e-4);
        // For negative x, h + h · tanh is a difference of near numbers, whose last bits are lost.
        check(EltAct::SILU, &logistic, 1e-5);
        check(EltAct::GELU_TANH, &tanh, 2e-5);
        for act in [EltAct::GELU, EltAct::SILU, EltAct::GELU_TANH] {
            for x in [60.0, 1e4, 1e10, 1e20, f32::MAX, f32::INFINITY] {
                assert_eq!(act.smooth(x).to_bits(), x.to_bits(), "{act:?} {x}");
            }
            assert!(
                [-60.0, -1e4, -1e10, -1e20, f32::MIN].iter().all(|&x| act.smooth(x).abs() < 1e-23)
            );
            assert!(act.smooth(f32::NAN).is_nan());
        }
    }
}
