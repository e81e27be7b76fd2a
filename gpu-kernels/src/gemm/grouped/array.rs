//! Pointer arrays: a grouped product of problems with sizes, addresses and row pitches of their own.
//!
//! ```text
//! table, one line per problem      M N K, first elements of A B D, row pitches of A B D
//!   │ write_maps, one thread per problem: checks the line, writes three tensor maps and the sizes
//!   ▼
//! grouped_array                    the main loops of any product, with the maps of each tile's problem
//! ```
//! The table lies in device memory, so the host launches both kernels without waiting for it. A map says where the rows and
//! columns of its problem end, so loads behind them bring zeros, and nothing is stored behind them.
//!
//! (CUTLASS: pointer-array grouped GEMM, `KernelPtrArrayTmaWarpSpecializedPingpong`, which rewrites the maps of a CTA whenever it
//! begins another problem.)
#![forbid(unsafe_code)]

use super::kernel::GroupedCta;
use crate::gemm::config::*;
use crate::gemm::epilogue::Epilogue;
use crate::gemm::output::{Orientation, Output};
use crate::gemm::rank::Arrays;
use crate::gemm::scales::Unscaled;
use crate::gemm::scheduler::{Array, ArrayArgs, ProblemShape, TileScheduler};
use half::bf16;
use isa::kernel::KernelArg;
use pipeline::cta::{ClusterShape, Condition, Is, Unshared};
use pipeline::grid::{DependentSlice, DependentSliceMut};
use pipeline::prelude::*;
use pipeline::tile::{MatrixPart, TensorMaps, TensorMapsMut, TileShape};

roles! {
    /// Threads that write maps.
    Low = 1 x 128 registers,
    /// More of them.
    High = 1 x 128 registers,
}

/// Problems of a CTA of [`write_maps`].
pub const PROBLEMS_PER_CTA: u32 = 256;

/// A line of the table, as `u64` values.
///
/// M, N and K; the first elements of A [M, K], B [N, K] and D [M, N], counted from the beginning of the memory that the launch
/// gives for each; and the elements from row to row of A, B and D.
pub const PROBLEM_WORDS: u32 = 9;

/// TMA's coordinates are signed 32-bit numbers.
const MAX_SIZE: u64 = (1 << 31) - 1;

/// The CTA of [`write_maps`].
pub type MapsCta = Cta<(Low, High), Cluster<1, 1>>;
/// The box of D that a store of `G` writes.
pub type BoxOfD<G> = <<G as Config>::Output as Orientation>::EpilogueTile;
/// How the CTAs of a cluster share tiles of A.
pub type SharesA<G> = <<G as Config>::Cluster as ClusterShape>::SharesA;
/// How they share tiles of B.
pub type SharesB<G> = <<G as Config>::Cluster as ClusterShape>::SharesB;

/// What [`write_maps`] reads, and the sizes that it writes.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct ArrayTable<'a> {
    /// [`PROBLEM_WORDS`] for each problem.
    pub problems: DependentSlice<'a, u64>,
    /// The memory in which each A lies.
    pub a: DependentSlice<'a, bf16>,
    /// The memory in which each B lies.
    pub b: DependentSlice<'a, bf16>,
    /// The memory in which each D lies.
    pub d: DependentSliceMut<'a, bf16>,
    /// The sizes of each problem.
    pub shapes: DependentSliceMut<'a, ProblemShape>,
}

/// One CTA of the kernel that checks the table and writes the tensor maps of `G`.
///
/// A problem is allowed if its matrices lie in their memory, begin on multiples of 16 bytes and have row pitches of
/// such a multiple, N is a multiple of 8, and K is at least 1; or if M or N is 0. Any other one has no tiles, and
/// [`Array`] says so.
///
/// Waits for the primary grid (`griddepcontrol.wait`) before it reads the table. It does not let the dependent grid start early:
/// [`grouped_array`] fills the GPU, and could only wait.
#[isa::forceinline]
pub fn write_maps<G>(
    cta: MapsCta,
    a: &TensorMap<G::A, SharesA<G>>,
    b: &TensorMap<G::B, SharesB<G>>,
    d: &TensorMap<BoxOfD<G>, Unshared>,
    maps_a: TensorMapsMut<'_, G::A, SharesA<G>>,
    maps_b: TensorMapsMut<'_, G::B, SharesB<G>>,
    maps_d: TensorMapsMut<'_, BoxOfD<G>, Unshared>,
    table: ArrayTable<'_>,
) where
    G: Config<A: TileShape<Element = bf16>, B: TileShape<Element = bf16>>,
    G::Output: Orientation<Out = bf16>,
{
    let (cta, ()) = cta.init();
    let problem = cta.coord().cluster_id() * PROBLEMS_PER_CTA + isa::thread::thread_idx_x();
    let problems = table.problems.by(&cta);
    let line = problem as usize * PROBLEM_WORDS as usize;
    let word = |i: usize| problems.get_or(line + i, 0);
    // A size that is none is 0 here, and `allowed` is false.
    let size = |value: u64| if value > MAX_SIZE { 0 } else { value as u32 };
    let sizes = [word(0), word(1), word(2)];
    let [m, n, k] = sizes.map(size);
    let fits = sizes.iter().all(|&value| value <= MAX_SIZE);
    let empty = fits && (m == 0 || n == 0);
    let part = |i: usize, rows: u32, cols: u32| {
        // No map of an empty problem is used.
        let rows = if empty || !n.is_multiple_of(8) { 0 } else { rows };
        MatrixPart { first: word(3 + i), rows, cols, pitch: word(6 + i) }
    };
    let in_a = maps_a.write(&cta, problem, a, &table.a, part(0, m, k));
    let in_b = maps_b.write(&cta, problem, b, &table.b, part(1, n, k));
    let in_d = maps_d.write(&cta, problem, d, &table.d, part(2, m, n));
    let shape = if empty || (in_a && in_b && in_d) { [m, n, k, 0] } else { [0, 0, 0, 1] };
    table.shapes.by(&cta).try_set(problem as usize, shape);
}

/// Runs one CTA of the grouped GEMM of pointer arrays that `G` describes. `STAGES` is the number of stages of `G::Operands`.
///
/// Each role waits for the primary grid (`griddepcontrol.wait`), which is [`write_maps`], before it reads maps or sizes. The CTA
/// lets the dependent grid start (`griddepcontrol.launch_dependents`) at once.
#[isa::forceinline]
pub fn grouped_array<G, const STAGES: usize>(
    cta: GroupedCta<G>,
    a: TensorMaps<'static, G::A, SharesA<G>>,
    b: TensorMaps<'static, G::B, SharesB<G>>,
    d: TensorMaps<'static, BoxOfD<G>, Unshared>,
    epilogue: G::Epilogue,
    problems: ArrayArgs<'static>,
) where
    G: Config<
            Operands = OperandRing<G, STAGES>,
            Rank = Arrays,
            Scales = Unscaled,
            Scheduler = Array<<G as Config>::Cluster>,
            ReadsC = Is<false>,
        >,
    G::Output:
        Orientation<Map<Arrays> = pipeline::tile::AcquiredMaps<'static, BoxOfD<G>, Unshared>>,
{
    let (bm, bn) = (<G::A as TileShape>::ROWS, <G::B as TileShape>::ROWS);
    let bk = <G::A as TileShape>::COLS as u32;
    const {
        assert!(
            !<G::Output as Orientation>::SWAP_AB && !G::Epilogue::GATED && !G::ReadsC::HOLDS,
            "a kernel of pointer arrays is not gated, and does not swap its operands"
        );
    }

    cta.launch_dependents();
    let (early, (stores, operands, turns)) = cta.prologue();

    early.specialize(
        |load| {
            load.elect(|early| {
                let one = early.wait();
                let at = one.coord();
                let mut ring = operands.producer.by(&one);
                let (a, b) = (a.by(&one), b.by(&one));
                let mut works = Array::<G::Cluster>::by(at, &one, &problems);
                while let Some(work) = works.next() {
                    let tile = works.origin(&work, bm, bn);
                    let (a, b) = (a.get(tile.batch), b.get(tile.batch));
                    for k in 0..work.k_tiles {
                        let a = a.tile(tile.row, k * bk, at.sharing_a());
                        let b = b.tile(tile.col, k * bk, at.sharing_b());
                        ring.acquire().load((a, b));
                    }
                }
                works.write_status(&one);
                ring.tail();
            });
        },
        |math| {
            let group = math.wait();
            let epilogue = epilogue.prepared(&group);
            let maps = d.by(&group);
            let mut out = Output {
                group: &group,
                source: None,
                stores: stores.by(&group),
                d: &maps,
                epilogue,
            };
            let work = Array::by(group.coord(), &group, &problems);
            G::Mainloop::run(work, operands.consumer.by(&group), (turns, None), &mut out);
            out.tail();
        },
    );
}
