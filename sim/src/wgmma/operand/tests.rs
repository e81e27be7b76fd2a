use super::*;
use std::collections::BTreeMap;

#[test]
fn an_operand_lies_in_what_is_around_it() {
    let field = |bytes: u32, shift: u32| u64::from(bytes >> 4) << shift;
    for (swizzle, major) in (0..4u64).flat_map(|s| [(s, Major::K), (s, Major::Mn)]) {
        for (start, leading, stride, rows) in [
            (1024, 128, 256, 64),
            (2048 + 32, 16, 1024, 256),
            (4096, 4096, 80, 8),
            (3072, 0, 0, 16),
            (1024, 2048, 4096, 256),
            (2048 + 32, 1024, 2048, 16),
        ] {
            let descriptor =
                swizzle << 62 | field(start, 0) | field(leading, 16) | field(stride, 32);
            let Ok(operand) = Operand::new((descriptor, major), rows, OperandType::F16) else {
                continue;
            };
            let (first, end) = operand.around();
            operand.for_each_chunk(|_, _, at| assert!(first <= at && at + 16 <= end));
            assert!(first <= start && start - first < 128);
        }
    }
}

/// Every address of an operand, (row, k) to bytes, eight elements for each chunk.
fn elements(operand: &Operand) -> BTreeMap<(u32, u32), u32> {
    let mut all = BTreeMap::new();
    operand.for_each_chunk(|row, k, addr| {
        for i in 0..8 {
            let at = if operand.major() == Major::K { (row, k + i) } else { (row + i, k) };
            assert_eq!(all.insert(at, addr + 2 * i), None, "{at:?} twice");
        }
    });
    all
}

/// The manual's canonical layouts of MN-major operands, one loop for each mode of the layout's shape:
/// `((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))` without a swizzle, `((T,U,m),(8,k)):((1,T,LBO),(UT,SBO))` with
/// one of U chunks. Then `Swizzle<B,4,3>`, bit by bit. Strides are in elements of two bytes.
fn canonical(
    [u, b]: [u32; 2],
    start: u32,
    [m_stride, k_stride]: [u32; 2],
    rows: u32,
) -> BTreeMap<(u32, u32), u32> {
    const T: u32 = 8;
    let mut all = BTreeMap::new();
    for (m, chunk, t) in (0..rows.div_ceil(u * T))
        .flat_map(|m| (0..u).flat_map(move |chunk| (0..T).map(move |t| (m, chunk, t))))
        .filter(|(m, chunk, t)| m * u * T + chunk * T + t < rows)
    {
        for (k, i) in (0..2).flat_map(|k| (0..8).map(move |i| (k, i))) {
            let element = t + T * chunk + m_stride * m + u * T * i + k_stride * k;
            let mut at = start + 2 * element;
            for bit in 0..b {
                at ^= (at >> (7 + bit) & 1) << (4 + bit);
            }
            all.insert((m * u * T + chunk * T + t, 8 * k + i), at);
        }
    }
    all
}

#[test]
fn mn_major_operands_lie_in_the_canonical_layouts() {
    // Code of the swizzle, U and B.
    for (code, swizzle) in [(0u64, [1, 0]), (1, [8, 3]), (2, [4, 2]), (3, [2, 1])] {
        for (start, lbo, sbo, rows) in [
            (4096u32, 2048u32, 1024u32, 64u32),
            (4096, 8192, 2048, 256),
            (6144, 3072, 5120, 136),
            (2048, 1024, 8192, 24),
            (1024, 0, 1024, 8),
        ] {
            let strides = if code == 0 { [sbo / 2, lbo / 2] } else { [lbo / 2, sbo / 2] };
            let field = |bytes: u32, shift: u32| u64::from(bytes >> 4) << shift;
            let descriptor = code << 62 | field(start, 0) | field(lbo, 16) | field(sbo, 32);
            let operand = Operand::new((descriptor, Major::Mn), rows, OperandType::Bf16).unwrap();
            let want = canonical(swizzle, start, strides, rows);
            assert_eq!(want.len(), 16 * rows as usize);
            assert_eq!(elements(&operand), want, "swizzle {code}, {rows} rows");
        }
    }
}

/// Part of a panel, from an element inside of its first row on: the same bytes as in the whole panel.
#[test]
fn a_part_of_an_mn_major_panel() {
    let descriptor = |start: u64| 1 << 62 | start >> 4 | 1024 >> 4 << 32;
    let operand =
        |start, rows| Operand::new((descriptor(start), Major::Mn), rows, OperandType::Bf16);
    let whole = elements(&operand(2048, 64).unwrap());
    let part = elements(&operand(2048 + 2 * 40, 24).unwrap());
    assert_eq!(part.len(), 24 * 16);
    assert!(part.iter().all(|(&(row, k), at)| whole[&(row + 40, k)] == *at));
    assert!(operand(2048 + 2 * 40, 32).is_err(), "it leaves the panel");
}

/// A K-major operand has the same bytes whatever its elements are: only the number of elements differs.
#[test]
fn k_major_operands_of_every_size() {
    let descriptor = 1 << 62 | 2048 >> 4 | 1024 >> 4 << 32;
    let chunks = |dtype| {
        let mut all = Vec::new();
        Operand::new((descriptor, Major::K), 24, dtype)
            .unwrap()
            .for_each_chunk(|row, k, at| all.push((row, k * (K_BYTES / dtype.k()), at)));
        all
    };
    let halves = chunks(OperandType::F16);
    assert_eq!(halves.len(), 48);
    for dtype in [OperandType::E4m3, OperandType::S8, OperandType::Tf32] {
        assert_eq!(chunks(dtype), halves, "{dtype:?}");
        let fault = Operand::new((descriptor, Major::Mn), 24, dtype).unwrap_err();
        assert_eq!(fault.rule, Rule::Descriptor, "{dtype:?} is K-major only");
    }
}
