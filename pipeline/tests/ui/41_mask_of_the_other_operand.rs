//! In a square cluster, the mask of the CTAs that share A's rows goes with a load of B.
mod support;
use support::*;

type Square = Cluster<2, 2>;
type Pair = (Panel, Panel);

fn fill(
    slot: EmptySlot<Pair, Main>,
    at: ClusterCoord<Square>,
    a: &TensorMap<Panel, AlongN<2>>,
    b: &TensorMap<Panel, AlongM<2>>,
) {
    slot.load((a.tile(0, 0, at.sharing_a()), b.tile(0, 0, at.sharing_a())));
}

fn main() {}
