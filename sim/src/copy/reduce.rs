//! Element-wise reductions of bulk copies.

use crate::types::tensor_map::DataType;
use half::{bf16, f16};

/// What a reduction does with the element in global memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum ReduceOp {
    Add,
    Min,
    Max,
    Inc,
    Dec,
    And,
    Or,
    Xor,
}

/// Whether PTX has this reduction for this type (`cp.reduce.async.bulk.tensor`, table of types).
pub(crate) fn has(op: ReduceOp, dtype: DataType) -> bool {
    use DataType as T;
    match op {
        ReduceOp::Add => !matches!(dtype, T::U8 | T::U16 | T::Tf32),
        ReduceOp::Min | ReduceOp::Max => {
            matches!(dtype, T::U32 | T::I32 | T::U64 | T::F16 | T::Bf16)
        }
        ReduceOp::Inc | ReduceOp::Dec => dtype == T::U32,
        ReduceOp::And | ReduceOp::Or | ReduceOp::Xor => matches!(dtype, T::U32 | T::I32 | T::U64),
    }
}

/// Combines the elements of `src` into `dst`.
pub(crate) fn reduce(op: ReduceOp, dtype: DataType, dst: &mut [u8], src: &[u8]) {
    /// Applies a function to each pair of elements of a type, through its bytes.
    macro_rules! each {
        ($t:ty, $f:expr) => {
            for (d, s) in
                dst.chunks_exact_mut(size_of::<$t>()).zip(src.chunks_exact(size_of::<$t>()))
            {
                let a = <$t>::from_le_bytes((&*d).try_into().expect("the chunk's size"));
                let b = <$t>::from_le_bytes(s.try_into().expect("the chunk's size"));
                let f: fn($t, $t) -> $t = $f;
                d.copy_from_slice(&f(a, b).to_le_bytes());
            }
        };
    }
    macro_rules! integers {
        ($t:ty) => {
            match op {
                ReduceOp::Add => each!($t, <$t>::wrapping_add),
                ReduceOp::Min => each!($t, |a, b| a.min(b)),
                ReduceOp::Max => each!($t, |a, b| a.max(b)),
                ReduceOp::Inc => each!($t, |a, b| if a >= b { 0 } else { a + 1 }),
                ReduceOp::Dec => each!($t, |a, b| if a == 0 || a > b { b } else { a - 1 }),
                ReduceOp::And => each!($t, |a, b| a & b),
                ReduceOp::Or => each!($t, |a, b| a | b),
                ReduceOp::Xor => each!($t, |a, b| a ^ b),
            }
        };
    }
    macro_rules! halves {
        ($t:ty) => {
            match op {
                ReduceOp::Min => each!($t, |a, b| if b < a { b } else { a }),
                ReduceOp::Max => each!($t, |a, b| if b > a { b } else { a }),
                _ => each!($t, |a, b| <$t>::from_f32(a.to_f32() + b.to_f32())),
            }
        };
    }
    match dtype {
        DataType::U8 => integers!(u8),
        DataType::U16 => integers!(u16),
        DataType::U32 => integers!(u32),
        DataType::I32 => integers!(i32),
        DataType::U64 => integers!(u64),
        DataType::F16 => halves!(f16),
        DataType::Bf16 => halves!(bf16),
        DataType::F32 | DataType::Tf32 => each!(f32, |a, b| a + b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(op: ReduceOp, a: u32, b: u32) -> u32 {
        let mut d = a.to_le_bytes();
        reduce(op, DataType::U32, &mut d, &b.to_le_bytes());
        u32::from_le_bytes(d)
    }

    /// PTX manual, `red`: inc gives 0 where d >= s, else d + 1; dec gives s where d = 0 or d > s.
    #[test]
    fn integers_in_the_manuals_words() {
        assert_eq!(one(ReduceOp::Add, u32::MAX, 2), 1);
        assert_eq!([one(ReduceOp::Inc, 3, 3), one(ReduceOp::Inc, 2, 3)], [0, 3]);
        assert_eq!(
            [one(ReduceOp::Dec, 0, 3), one(ReduceOp::Dec, 4, 3), one(ReduceOp::Dec, 3, 3)],
            [3, 3, 2]
        );
        assert_eq!(one(ReduceOp::Xor, 6, 3), 5);
    }

    #[test]
    fn floats_add_in_their_type() {
        let mut d = f16::from_f32(1.5).to_le_bytes();
        reduce(ReduceOp::Add, DataType::F16, &mut d, &f16::from_f32(2.25).to_le_bytes());
        assert_eq!(f16::from_le_bytes(d).to_f32(), 3.75);
        assert!(!has(ReduceOp::Min, DataType::F32) && has(ReduceOp::Add, DataType::F32));
    }
}
