//! Attention that can't be computed, one line each.

use super::strides::Operand;

/// A mistake in an attention problem, or in the tensors that a plan is bound to.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AttentionError {
    /// No kernel has these elements.
    #[error("attention with elements of {dtype}; bf16 or f16 is supported")]
    Dtype {
        /// The type.
        dtype: &'static str,
    },
    /// No kernel has this head dim.
    #[error("attention with head dim {dim}; it must be a multiple of 8, from 8 to {most}")]
    HeadDim {
        /// Elements of a head.
        dim: u32,
        /// The largest.
        most: u32,
    },
    /// The numbers of heads do not go together.
    #[error(
        "attention with {q} query heads and {kv} key heads; the first number must be a multiple of the second, and at most {most}"
    )]
    Heads {
        /// Heads of Q.
        q: u32,
        /// Heads of K and V.
        kv: u32,
        /// Most heads.
        most: u32,
    },
    /// Too few or too many sequences.
    #[error("attention with {batch} sequences; their number must be 1 to {most}")]
    Batch {
        /// Sequences.
        batch: u32,
        /// Most sequences.
        most: u32,
    },
    /// A sequence is empty or too long.
    #[error("attention with {what} = {rows}; it must be 1 to 2^29")]
    Length {
        /// "seq_q", "seq_kv", or "pages".
        what: &'static str,
        /// Its value.
        rows: u32,
    },
    /// A list of packed sequences has too few numbers.
    #[error(
        "{what} has {count} numbers; expected the first row of each sequence and the number of all rows"
    )]
    Starts {
        /// "cu_seqlens_q" or "cu_seqlens_kv".
        what: &'static str,
        /// Numbers in the list.
        count: usize,
    },
    /// The two lists of packed sequences have different lengths.
    #[error(
        "cu_seqlens_q and cu_seqlens_kv have {q} and {kv} numbers; they must have equally many"
    )]
    Lists {
        /// Numbers in the list of queries.
        q: usize,
        /// Numbers in the list of keys.
        kv: usize,
    },
    /// The first packed sequence does not begin at row 0.
    #[error("{what} begins with {first}; it must begin with 0")]
    FirstStart {
        /// "cu_seqlens_q" or "cu_seqlens_kv".
        what: &'static str,
        /// The first number.
        first: u32,
    },
    /// A packed sequence ends before it begins.
    #[error("{what}[{at}] = {start}; it must be at least {before}, the number before it")]
    Descending {
        /// "cu_seqlens_q" or "cu_seqlens_kv".
        what: &'static str,
        /// Index of the number.
        at: usize,
        /// The number.
        start: u32,
        /// The one before it.
        before: u32,
    },
    /// The packed sequences have no rows, or too many.
    #[error("{what} ends with {last}; the number of all rows must be 1 to 2^29")]
    LastStart {
        /// "cu_seqlens_q" or "cu_seqlens_kv".
        what: &'static str,
        /// The last number.
        last: u32,
    },
    /// A sequence has more keys than its cache has room for.
    #[error("sequence {sequence} has {keys} keys; its cache has room for {most}")]
    Capacity {
        /// The sequence.
        sequence: usize,
        /// Its keys.
        keys: u32,
        /// Most keys.
        most: u64,
    },
    /// A page whose blocks of keys would reach into the next one.
    #[error("attention with pages of {rows} rows; a multiple of {unit} is supported")]
    PageRows {
        /// Rows of a page.
        rows: u32,
        /// What they must be a multiple of.
        unit: u32,
    },
    /// Batches of K or V that are not whole rows apart.
    #[error(
        "attention operand {operand}: {batches} batches with a stride of {batch} elements; of a cache it must be a multiple of the seq stride, {seq}, and all rows fewer than 2^31"
    )]
    PageStride {
        /// K or V.
        operand: Operand,
        /// The batch stride.
        batch: u64,
        /// The seq stride.
        seq: u64,
        /// Batches.
        batches: u64,
    },
    /// Another number of lengths than sequences.
    #[error("{have} lengths for {want} sequences")]
    KeyCount {
        /// Lengths given.
        have: usize,
        /// Sequences of the plan.
        want: u32,
    },
    /// The lengths of a plan's sequences can't be changed.
    #[error("the plan has no cache: its sequences are {sequences}, and their lengths stay")]
    NoCache {
        /// "equal" or "packed".
        sequences: &'static str,
    },
    /// A graph would copy lengths that are gone when it runs.
    #[error(
        "the lengths of a plan can't be changed in a capture; change them before the graph is launched"
    )]
    KeysInCapture,
    /// A plan with pages is bound without a block table, or the reverse.
    #[error("attention was planned {planned} a block table and is bound {bound} one")]
    BlockTable {
        /// "with" or "without".
        planned: &'static str,
        /// "with" or "without".
        bound: &'static str,
    },
    /// A factor is no positive number.
    #[error("attention with a {what} of {value}; it must be positive and finite")]
    Factor {
        /// "scale" or "softcap".
        what: &'static str,
        /// The value.
        value: f32,
    },
    /// A stride that TMA does not take.
    #[error(
        "attention operand {operand}: the {dimension} stride of {stride} elements; TMA takes multiples of 8 elements below 2^40 bytes"
    )]
    Stride {
        /// The tensor.
        operand: Operand,
        /// "batch", "head" or "seq".
        dimension: &'static str,
        /// Elements.
        stride: u64,
    },
    /// Rows of O share elements.
    #[error(
        "attention operand O: the {dimension} stride of {stride} elements is less than the {within} elements within it, so rows overlap"
    )]
    Overlapping {
        /// "batch", "head" or "seq".
        dimension: &'static str,
        /// Elements.
        stride: u64,
        /// Elements from the first to the last of the dimensions with smaller strides.
        within: u64,
    },
    /// A tensor larger than a GPU's address space.
    #[error(
        "attention operand {operand} of {} elements with its strides; a GPU addresses less than 2^47 bytes",
        by(sizes)
    )]
    Bytes {
        /// The tensor.
        operand: Operand,
        /// Batches, heads, rows, elements of a head.
        sizes: [u64; 4],
    },
    /// More tiles than a work list has room for.
    #[error(
        "attention of {tiles} tiles of {rows} queries and one head; at most {most} are supported"
    )]
    Tiles {
        /// Tiles of all heads and sequences.
        tiles: u64,
        /// Queries of a tile.
        rows: u32,
        /// Most tiles.
        most: u64,
    },
    /// A run with a score of its own, by a kernel that has no place for one.
    #[error(
        "decode kernel {kernel} takes no score; plan with tables of your own (Attention::with_tables), or call run"
    )]
    Score {
        /// Name of the kernel.
        kernel: String,
    },
    /// No kernel of the table computes the problem.
    #[error(
        "no attention kernel for {dtype}, head dim {dim}{packed}{softcap}{window}; the table of {count} has: {have}"
    )]
    NoInstance {
        /// Element type.
        dtype: &'static str,
        /// Elements of a head.
        dim: u32,
        /// " of packed sequences", or nothing.
        packed: &'static str,
        /// " with a soft-cap", or nothing.
        softcap: &'static str,
        /// " with a left window", or nothing.
        window: &'static str,
        /// Kernels in the table.
        count: usize,
        /// What they compute.
        have: String,
    },
    /// The row asked for is not in the table, or it computes another kind of problem.
    #[error("attention instance {index} of {count} does not compute this problem: {have}")]
    WrongInstance {
        /// The row asked for.
        index: usize,
        /// Rows in the table.
        count: usize,
        /// What the row computes.
        have: String,
    },
    /// A row of an instance table contradicts its kernel.
    #[error("attention instance {kernel}: {what}")]
    BadInstance {
        /// The kernel.
        kernel: String,
        /// The table's value and the kernel's value.
        what: String,
    },
    /// The elements of a view are of another type.
    #[error("attention operand {operand}: the view has elements of {have}; the plan has {want}")]
    ViewDtype {
        /// The tensor.
        operand: Operand,
        /// The view's type.
        have: &'static str,
        /// The plan's type.
        want: &'static str,
    },
    /// The row pitch of a view is not the stride of the plan.
    #[error(
        "attention operand {operand}: the view's row pitch is {have} bytes; the plan's rows of a head are {want} bytes apart"
    )]
    ViewPitch {
        /// The tensor.
        operand: Operand,
        /// The view's pitch.
        have: u64,
        /// Bytes from row to row in the plan.
        want: u64,
    },
    /// An address that TMA, or a store of f32, does not take.
    #[error("attention operand {operand} at address {addr:#x}; it must be a multiple of {unit}")]
    ViewAddress {
        /// The tensor.
        operand: Operand,
        /// The address of its first element.
        addr: u64,
        /// What the address must be a multiple of.
        unit: u64,
    },
    /// A buffer of another size than its tensor.
    #[error("attention operand {operand} needs {need} bytes; the buffer has {have}")]
    ViewSize {
        /// The tensor.
        operand: Operand,
        /// Bytes from its first to its last element.
        need: u64,
        /// Bytes of the buffer.
        have: u64,
    },
    /// A tensor that reaches beyond its buffer.
    #[error(
        "attention operand {operand} of {need} bytes from byte {offset} exceeds its buffer of {have} bytes"
    )]
    ViewEnd {
        /// The tensor.
        operand: Operand,
        /// Bytes from its first to its last element.
        need: u64,
        /// Offset of the first element.
        offset: u64,
        /// Bytes of the buffer.
        have: u64,
    },
    /// A tensor that is written shares bytes with another one.
    #[error(
        "attention operand {operand} at {theirs:#x} overlaps {written} at {ours:#x}; {written} must have memory of its own"
    )]
    Overlap {
        /// The other tensor.
        operand: Operand,
        /// Its first byte.
        theirs: u64,
        /// O or LSE.
        written: Operand,
        /// Its first byte.
        ours: u64,
    },
    /// Borrowed memory is used on a stream that its owner does not know of.
    #[error(
        "attention operand {operand} was borrowed for stream {have:#x}, and attention is run on stream {run:#x}"
    )]
    ViewStream {
        /// The tensor.
        operand: Operand,
        /// The stream of the loan.
        have: u64,
        /// The stream of the run.
        run: u64,
    },
    /// The plan has an LSE and the run has not, or the reverse.
    #[error("attention was planned {planned} LSE and is run {run} LSE")]
    LseOperand {
        /// "with" or "without".
        planned: &'static str,
        /// "with" or "without".
        run: &'static str,
    },
    /// A slice of values is shorter than its tensor.
    #[error("attention operand {operand}: {need} elements are needed; there are {have}")]
    Elements {
        /// The tensor.
        operand: Operand,
        /// Elements from the first to the last.
        need: u64,
        /// Elements of the slice.
        have: u64,
    },
}

/// For example `2 x 16 x 4096 x 128`.
fn by(sizes: &[u64; 4]) -> String {
    sizes.map(|size| size.to_string()).join(" x ")
}
