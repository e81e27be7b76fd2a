//! `tcgen05.ld`, `st` and `cp` on the model: where each word lies, against what CUTLASS publishes; and `shift`, against what
//! the manual says. No chip has run them.

use isa::tcgen05::{self, Swizzle};
use isa::{fence, mbarrier, shared, thread, warp};
use sim::{Config, GlobalMemory, Grid};
use std::sync::Mutex;

/// A layout of CuTe: extents and strides, the first extent running fastest.
type Modes = Vec<(usize, usize)>;

fn at(modes: &Modes, mut index: usize) -> usize {
    let mut place = 0;
    for (extent, stride) in modes {
        place += index % extent * stride;
        index /= extent;
    }
    place
}

/// Where the bits of a thread's registers lie in rows of `width` bits: the layouts of `Copy_Traits<SM100_TMEM_LOAD_..>`.
struct Traits {
    rows: usize,
    width: usize,
    thread: Modes,
    value: Modes,
}

impl Traits {
    /// Row and column of a register of a lane.
    fn place(&self, lane: usize, register: usize) -> (usize, usize) {
        let bit = at(&self.thread, lane) + at(&self.value, 32 * register);
        (bit / self.width, bit % self.width / 32)
    }
}

fn lanes_32x32b(n: usize) -> Traits {
    let width = 32 * n;
    Traits { rows: 32, width, thread: vec![(32, width)], value: vec![(width, 1)] }
}
fn lanes_16x64b(n: usize) -> Traits {
    let width = 64 * n;
    let thread = vec![(2, 8 * width), (2, 32), (8, width)];
    Traits { rows: 16, width, thread, value: vec![(32, 1), (n, 64)] }
}
fn lanes_16x128b(n: usize) -> Traits {
    let width = 128 * n;
    let value = vec![(32, 1), (2, 8 * width), (n, 128)];
    Traits { rows: 16, width, thread: vec![(4, 32), (8, width)], value }
}
fn lanes_16x256b(n: usize) -> Traits {
    let width = 256 * n;
    let value = vec![(64, 1), (2, 8 * width), (n, 256)];
    Traits { rows: 16, width, thread: vec![(4, 64), (8, width)], value }
}
/// With a split of as many columns as each half has.
fn lanes_16x32bx2(n: usize) -> Traits {
    let width = 64 * n;
    let thread = vec![(16, width), (2, 32 * n)];
    Traits { rows: 16, width, thread, value: vec![(32 * n, 1)] }
}

/// The first column that is moved.
const FIRST: u32 = 8;
const COLUMNS: usize = 512;

/// What tensor memory holds at first.
fn filled(row: usize, column: usize) -> u32 {
    (COLUMNS * row + column) as u32
}

/// All threads have moved what they wanted, and may see what the others have moved.
unsafe fn sync() {
    // SAFETY: all threads of the CTA come.
    unsafe {
        tcgen05::wait_ld();
        tcgen05::wait_st();
        tcgen05::fence_before_thread_sync();
        thread::sync_threads();
        tcgen05::fence_after_thread_sync();
    }
}

/// Runs 128 threads, with tensor memory filled; gives all of it afterwards, by rows, and what the threads noted.
fn run(f: impl Fn(u32, usize) -> Vec<u32> + Sync) -> [Vec<Vec<u32>>; 2] {
    let all = [Mutex::new(vec![Vec::new(); 128]), Mutex::new(vec![Vec::new(); 128])];
    let entry = || {
        let t = thread::thread_idx_x() as usize;
        // SAFETY: as the order of the instructions says.
        unsafe {
            let s = shared::dynamic_base();
            if t < 32 {
                tcgen05::alloc(s, 512);
            }
            thread::sync_threads();
            let d: u32 = shared::ld(s);
            let own = d + ((t as u32 / 32 * 32) << 16);
            for part in 0..4 {
                let words = std::array::from_fn(|i| filled(t, 128 * part + i));
                tcgen05::st_32x32b_x128(own + 128 * part as u32, words);
            }
            sync();
            let noted = f(own + FIRST, t);
            sync();
            let mut row = Vec::new();
            for part in 0..4 {
                let loaded = tcgen05::ld_32x32b_x128(own + 128 * part);
                tcgen05::wait_ld();
                row.extend(loaded.ready());
            }
            all[0].lock().unwrap()[t] = row;
            all[1].lock().unwrap()[t] = noted;
            sync();
            if t < 32 {
                tcgen05::dealloc(d, 512);
            }
        }
    };
    let grid = Grid {
        grid: [1, 1, 1],
        block: [128, 1, 1],
        cluster: [1, 1, 1],
        min_ctas: 1,
        smem_bytes: 16384,
        name: "moves",
    };
    let config = Config { workers: Some(1), ..Config::default() };
    if let Err(report) = sim::launch(&config, &GlobalMemory::new(), &grid, &entry) {
        panic!("{report}");
    }
    all.map(|all| all.into_inner().unwrap())
}

/// A load gives each register the word of its place, and a store of what it gave and more changes these places alone.
fn check<const N: usize>(
    traits: &Traits,
    name: &str,
    load: impl Fn(u32) -> [u32; N] + Sync,
    store: impl Fn(u32, [u32; N]) + Sync,
) {
    for upper in (0..32).step_by(traits.rows) {
        let from = |own: u32| own + ((upper as u32) << 16);
        let place = |t: usize, r: usize| {
            let (row, column) = traits.place(t % 32, r);
            (t / 32 * 32 + upper + row, FIRST as usize + column)
        };
        let [_, loaded] = run(|own, _| load(from(own)).to_vec());
        for (t, loaded) in loaded.iter().enumerate() {
            for (r, &word) in loaded.iter().enumerate() {
                let (row, column) = place(t, r);
                assert_eq!(word, filled(row, column), "{name}: register {r} of thread {t}");
            }
        }
        let value = |t: usize, r: usize| (1 << 30 | t << 8 | r) as u32;
        let [after, _] = run(|own, t| {
            store(from(own), std::array::from_fn(|r| value(t, r)));
            Vec::new()
        });
        let mut want: Vec<Vec<_>> =
            (0..128).map(|row| (0..COLUMNS).map(|column| filled(row, column)).collect()).collect();
        for t in 0..128 {
            for r in 0..N {
                let (row, column) = place(t, r);
                want[row][column] = value(t, r);
            }
        }
        assert!(after == want, "{name}: a store to other places");
    }
}

macro_rules! all {
    ($($ld:ident $(::<$l:literal>)? $st:ident $(::<$s:literal>)?: $traits:ident($n:literal);)*) => {$(
        // SAFETY: the warp's own lanes of columns that are allocated.
        unsafe {
            check(
                &$traits($n),
                stringify!($ld),
                |at| {
                    let loaded = tcgen05::$ld $(::<$l>)? (at);
                    tcgen05::wait_ld();
                    loaded.ready()
                },
                |at, words| tcgen05::$st $(::<$s>)? (at, words),
            );
        }
    )*};
}

#[test]
fn words_lie_where_the_published_layouts_say() {
    all! {
        ld_32x32b_x1 st_32x32b_x1: lanes_32x32b(1);
        ld_32x32b_x2 st_32x32b_x2: lanes_32x32b(2);
        ld_32x32b_x4 st_32x32b_x4: lanes_32x32b(4);
        ld_32x32b_x8 st_32x32b_x8: lanes_32x32b(8);
        ld_32x32b_x16 st_32x32b_x16: lanes_32x32b(16);
        ld_32x32b_x32 st_32x32b_x32: lanes_32x32b(32);
        ld_32x32b_x64 st_32x32b_x64: lanes_32x32b(64);
        ld_32x32b_x128 st_32x32b_x128: lanes_32x32b(128);
        ld_16x64b_x1 st_16x64b_x1: lanes_16x64b(1);
        ld_16x64b_x2 st_16x64b_x2: lanes_16x64b(2);
        ld_16x64b_x4 st_16x64b_x4: lanes_16x64b(4);
        ld_16x64b_x8 st_16x64b_x8: lanes_16x64b(8);
        ld_16x64b_x16 st_16x64b_x16: lanes_16x64b(16);
        ld_16x64b_x32 st_16x64b_x32: lanes_16x64b(32);
        ld_16x64b_x64 st_16x64b_x64: lanes_16x64b(64);
        ld_16x64b_x128 st_16x64b_x128: lanes_16x64b(128);
        ld_16x128b_x1 st_16x128b_x1: lanes_16x128b(1);
        ld_16x128b_x2 st_16x128b_x2: lanes_16x128b(2);
        ld_16x128b_x4 st_16x128b_x4: lanes_16x128b(4);
        ld_16x128b_x8 st_16x128b_x8: lanes_16x128b(8);
        ld_16x128b_x16 st_16x128b_x16: lanes_16x128b(16);
        ld_16x128b_x32 st_16x128b_x32: lanes_16x128b(32);
        ld_16x128b_x64 st_16x128b_x64: lanes_16x128b(64);
        ld_16x256b_x1 st_16x256b_x1: lanes_16x256b(1);
        ld_16x256b_x2 st_16x256b_x2: lanes_16x256b(2);
        ld_16x256b_x4 st_16x256b_x4: lanes_16x256b(4);
        ld_16x256b_x8 st_16x256b_x8: lanes_16x256b(8);
        ld_16x256b_x16 st_16x256b_x16: lanes_16x256b(16);
        ld_16x256b_x32 st_16x256b_x32: lanes_16x256b(32);
        ld_16x32bx2_x1::<1> st_16x32bx2_x1::<1>: lanes_16x32bx2(1);
        ld_16x32bx2_x2::<2> st_16x32bx2_x2::<2>: lanes_16x32bx2(2);
        ld_16x32bx2_x4::<4> st_16x32bx2_x4::<4>: lanes_16x32bx2(4);
        ld_16x32bx2_x8::<8> st_16x32bx2_x8::<8>: lanes_16x32bx2(8);
        ld_16x32bx2_x16::<16> st_16x32bx2_x16::<16>: lanes_16x32bx2(16);
        ld_16x32bx2_x32::<32> st_16x32bx2_x32::<32>: lanes_16x32bx2(32);
        ld_16x32bx2_x64::<64> st_16x32bx2_x64::<64>: lanes_16x32bx2(64);
        ld_16x32bx2_x128::<128> st_16x32bx2_x128::<128>: lanes_16x32bx2(128);
    }
}

/// The halves of a warp may lie further apart.
#[test]
fn the_halves_of_a_warp_lie_apart() {
    // SAFETY: as above.
    let [after, loaded] = run(|own, t| unsafe {
        let loaded = tcgen05::ld_16x32bx2_x2::<64>(own);
        tcgen05::wait_ld();
        tcgen05::st_16x32bx2_x2::<64>(own, [1 << 30 | t as u32; 2]);
        loaded.ready().to_vec()
    });
    for (t, loaded) in loaded.iter().enumerate() {
        let (row, column) = (t / 32 * 32 + t % 16, FIRST as usize + t % 32 / 16 * 64);
        assert_eq!(loaded[..], [filled(row, column), filled(row, column + 1)], "thread {t}");
        assert_eq!(after[row][column..][..2], [1 << 30 | t as u32; 2], "thread {t}");
    }
}

/// Rows of 32 bytes in core matrices: 8 rows, and the next 16 bytes of the same.
const STRIDE: u32 = 256;
const LEAD: u32 = 128;
const DATA: u32 = 1024;

fn copied(row: usize, word: usize) -> u32 {
    (1 << 30 | row << 8 | word) as u32
}

/// Copies, and gives tensor memory afterwards.
fn copy(f: impl Fn(u32, u64) + Sync) -> Vec<Vec<u32>> {
    // SAFETY: each thread has its own row, and one thread copies.
    let [after, _] = run(|own, t| unsafe {
        let s = shared::dynamic_base();
        let bar = s + 16;
        if t == 0 {
            mbarrier::init(bar, 1);
            fence::mbarrier_init_release_cluster();
        }
        let row = t as u32;
        for word in 0..8 {
            let place = row / 8 * STRIDE + row % 8 * 16 + word / 4 * LEAD + word % 4 * 4;
            shared::st(s + DATA + place, copied(t, word as usize));
        }
        fence::proxy_async_shared_cta();
        sync();
        if t < 32 {
            if warp::elect_one() {
                f(own, tcgen05::shared(s + DATA, LEAD, STRIDE, Swizzle::None));
                tcgen05::commit(bar);
            }
            warp::sync_warp(u32::MAX);
        }
        mbarrier::wait_parity(bar, 0);
        tcgen05::fence_after_thread_sync();
        Vec::new()
    });
    after
}

#[test]
fn copies_go_to_the_lanes_of_their_shapes() {
    // For each shape: the words of a row, and each row with its lanes.
    let check = |name: &str, words: usize, to: &[(usize, usize)], f: fn(u32, u64)| {
        let mut want: Vec<Vec<_>> =
            (0..128).map(|row| (0..COLUMNS).map(|column| filled(row, column)).collect()).collect();
        for &(row, lane) in to {
            for word in 0..words {
                want[lane][FIRST as usize + word] = copied(row, word);
            }
        }
        assert!(copy(f) == want, "{name}");
    };
    let all: Vec<_> = (0..128).map(|row| (row, row)).collect();
    let twice = |lane: fn(usize) -> [usize; 2]| -> Vec<_> {
        (0..64).flat_map(|row| lane(row).map(|lane| (row, lane))).collect()
    };
    let alternate = twice(|row| [row, row + 64]);
    let adjacent = twice(|row| if row < 32 { [row, row + 32] } else { [row + 32, row + 64] });
    let quarters: Vec<_> =
        (0..32).flat_map(|row| [0, 32, 64, 96].map(|quarter| (row, quarter + row))).collect();
    let four: Vec<_> = [31, 63, 95, 127].into_iter().enumerate().collect();
    // SAFETY: the columns are allocated, and nobody else uses them.
    unsafe {
        check("128x256b", 8, &all, |d, from| tcgen05::cp_128x256b(d, from));
        check("128x128b", 4, &all, |d, from| tcgen05::cp_128x128b(d, from));
        check("02_13", 4, &alternate, |d, from| tcgen05::cp_64x128b_warpx2_02_13(d, from));
        check("01_23", 4, &adjacent, |d, from| tcgen05::cp_64x128b_warpx2_01_23(d, from));
        check("warpx4", 4, &quarters, |d, from| tcgen05::cp_32x128b_warpx4(d, from));
        check("4x256b", 8, &four, |d, from| tcgen05::cp_4x256b(d + (31 << 16), from));
    }
}

#[test]
fn a_shift_moves_the_rows_of_one_warp() {
    for first in [0, 32, 64, 96] {
        // SAFETY: the columns are allocated, and nobody else uses them.
        let after = copy(|d, _| unsafe { tcgen05::shift_down(d + ((first as u32) << 16)) });
        for (row, after) in after.iter().enumerate() {
            for (column, &word) in after.iter().enumerate() {
                let moves = row > first
                    && row < first + 32
                    && (FIRST as usize..FIRST as usize + 8).contains(&column);
                let from = if moves { row - 1 } else { row };
                assert_eq!(word, filled(from, column), "lane {first}: row {row}, column {column}");
            }
        }
    }
}

/// A shift, a copy of a row into the place of the first one, and a shift again: in the order of their thread.
#[test]
fn shifts_and_copies_are_in_order() {
    // SAFETY: as above.
    let after = copy(|d, from| unsafe {
        tcgen05::shift_down(d);
        tcgen05::cp_4x256b(d, from);
        tcgen05::shift_down(d);
    });
    let column = FIRST as usize;
    let rows: Vec<_> = (0..4).map(|row| after[row][column]).collect();
    assert_eq!(rows, [copied(0, 0), copied(0, 0), filled(0, column), filled(1, column)]);
    // The copy has a row for each warp's lanes; these two were not shifted.
    assert_eq!([after[32][column], after[33][column]], [copied(1, 0), filled(33, column)]);
}
