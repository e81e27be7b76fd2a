//! More named barriers than the hardware has left.
mod support;
use support::*;

roles! { Four = 4 x 88 registers }
names! { A = "a", B = "b", C = "c", D = "d", E = "e", F = "f", G = "g", H = "h", I = "i", J = "j", K = "k" }
type Bar<N> = NamedBarrier<Load, Four, N>;
type Eleven = SmemPlan<(
    PanelRing, Bar<A>, Bar<B>, Bar<C>, Bar<D>, Bar<E>, Bar<F>, Bar<G>, Bar<H>, Bar<I>, Bar<J>, Bar<K>,
)>;
const FIRST: u32 = Eleven::first_barrier::<(Load, Four)>();

fn main() {}
