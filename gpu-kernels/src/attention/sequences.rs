//! Where the sequences of a batch lie: of equal lengths, or packed one behind the other.
#![forbid(unsafe_code)]

use super::args::{AttentionArgs, Matrix};
use isa::kernel::KernelArg;
use pipeline::grid::ConstantSlice;
use pipeline::tile::RaggedRows;

/// The lengths of a batch's sequences, and their places in the tensor maps.
///
/// A tensor map has the dimensions (column, row, head, sequence); that of packed sequences is [`RaggedRows`].
///
/// (FlashAttention-3 `SeqlenInfo`; CUTLASS example 77 `VariableLength`.)
pub trait Sequences: Copy {
    /// What a tile knows of its sequence.
    type Info: Copy;
    /// The coordinates behind column and row in the tensor maps of Q, K and V.
    type Coords: Copy;
    /// Whether the keys of a tile may be split among CTAs. A kernel that splits them needs more registers.
    const SPLIT: bool;

    /// Reads what is known of a sequence.
    fn info(self, sequence: u32) -> Self::Info;

    /// The queries and keys of a sequence.
    fn lengths(args: &AttentionArgs<'_>, info: &Self::Info) -> [u32; 2];

    /// The row, and the coordinates behind it, of the sequence's query `row`, of the head of `place`, in the tensor map of Q.
    fn queries_at(info: &Self::Info, place: Matrix, row: u32) -> (u32, Self::Coords);

    /// The same of key `key` in the tensor maps of K and V.
    fn keys_at(info: &Self::Info, place: Matrix, key: u32) -> (u32, Self::Coords);

    /// The row, and the coordinates behind it, of the result of query `row` in the tensor map of O.
    fn results_at(
        args: &AttentionArgs<'_>,
        info: &Self::Info,
        place: Matrix,
        row: u32,
    ) -> (u32, [u32; 2]);

    /// The index of the log-sum-exp of the sequence's query 0, of the head of `place`.
    fn lse_at(self, args: &AttentionArgs<'_>, info: &Self::Info, place: Matrix) -> u32;
}

/// Sequences of equal lengths, those of [`AttentionArgs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Equal;

impl Sequences for Equal {
    type Info = ();
    type Coords = [u32; 2];
    const SPLIT: bool = true;
    #[isa::forceinline]
    fn info(self, _sequence: u32) {}
    #[isa::forceinline]
    fn lengths(args: &AttentionArgs<'_>, (): &()) -> [u32; 2] {
        [args.seq_q, args.seq_kv]
    }
    #[isa::forceinline]
    fn queries_at((): &(), place: Matrix, row: u32) -> (u32, [u32; 2]) {
        (row, place.coords())
    }
    #[isa::forceinline]
    fn keys_at((): &(), place: Matrix, key: u32) -> (u32, [u32; 2]) {
        (key, place.coords())
    }
    #[isa::forceinline]
    fn results_at(_args: &AttentionArgs<'_>, (): &(), place: Matrix, row: u32) -> (u32, [u32; 2]) {
        (row, place.coords())
    }
    #[isa::forceinline]
    fn lse_at(self, args: &AttentionArgs<'_>, (): &(), place: Matrix) -> u32 {
        let [head, batch] = place.coords();
        (batch * args.heads + head) * args.seq_q
    }
}

/// Sequences of any lengths, one behind the other.
///
/// The tensor maps of Q, K and V are those of [`RaggedRows`]. That of O does without the last dimension, whose coordinate would take
/// a register of the main loop: its address lies W rows in front of the tensor, where W is the length of the longest sequence, and
/// row r of a sequence of L rows is row W - L + r. Memory need not be there, because TMA only stores to it.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Packed<'a> {
    /// [`Extent::words`] of each sequence, one behind the other.
    pub table: ConstantSlice<'a, u32>,
    /// Rows of Q, of all sequences.
    pub rows: u32,
}

/// The entry of a sequence in [`Packed::table`], in rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// One past the last row in Q.
    pub q_end: u32,
    /// Queries.
    pub queries: u32,
    /// One past the last row in K.
    pub kv_end: u32,
    /// Keys.
    pub keys: u32,
}

impl Extent {
    const WORDS: usize = 4;

    /// The words of the entry, in the order of the fields.
    pub const fn words(self) -> [u32; Self::WORDS] {
        let Self { q_end, queries, kv_end, keys } = self;
        [q_end, queries, kv_end, keys]
    }
}

impl Sequences for Packed<'_> {
    type Info = Extent;
    type Coords = [u32; 3];
    const SPLIT: bool = false;
    #[isa::forceinline]
    fn info(self, sequence: u32) -> Extent {
        let table = self.table.all();
        let word = |i: u32| table.get((sequence * Extent::WORDS as u32 + i) as usize).unwrap_or(0);
        Extent { q_end: word(0), queries: word(1), kv_end: word(2), keys: word(3) }
    }
    #[isa::forceinline]
    fn lengths(_args: &AttentionArgs<'_>, info: &Extent) -> [u32; 2] {
        [info.queries, info.keys]
    }
    #[isa::forceinline]
    fn queries_at(info: &Extent, place: Matrix, row: u32) -> (u32, [u32; 3]) {
        RaggedRows { end: info.q_end, rows: info.queries }.row(row, place.coords()[0])
    }
    #[isa::forceinline]
    fn keys_at(info: &Extent, place: Matrix, key: u32) -> (u32, [u32; 3]) {
        RaggedRows { end: info.kv_end, rows: info.keys }.row(key, place.coords()[0])
    }
    #[isa::forceinline]
    fn results_at(
        args: &AttentionArgs<'_>,
        &Extent { q_end, queries, .. }: &Extent,
        place: Matrix,
        row: u32,
    ) -> (u32, [u32; 2]) {
        (row + args.seq_q - queries, [place.coords()[0], q_end])
    }
    #[isa::forceinline]
    fn lse_at(
        self,
        _args: &AttentionArgs<'_>,
        &Extent { q_end, queries, .. }: &Extent,
        place: Matrix,
    ) -> u32 {
        place.coords()[0] * self.rows + q_end - queries
    }
}
