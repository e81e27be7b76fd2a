use super::*;

#[test]
fn a_product_of_sixteen_terms() {
    let a: Vec<f32> = (0..64 * 16).map(|i| (i % 7) as f32 - 3.0).collect();
    for n in [8, 24, 64, 256] {
        let b: Vec<f32> = (0..16 * n).map(|i| (i % 5) as f32 - 2.0).collect();
        let mut d = vec![f32::NAN; 64 * n];
        product(&a, &b, n, &mut d);
        for i in 0..64 {
            for j in 0..n {
                let want: f32 = (0..16).map(|k| a[i * 16 + k] * b[k * n + j]).sum();
                assert_eq!(d[i * n + j], want);
            }
        }
    }
}

#[test]
fn an_operand_lies_in_what_is_around_it() {
    let field = |bytes: u32, shift: u32| u64::from(bytes >> 4) << shift;
    for swizzle in 0..4u64 {
        for (start, leading, stride, rows) in [
            (1024, 128, 256, 64),
            (2048 + 32, 16, 1024, 256),
            (4096, 4096, 80, 8),
            (3072, 0, 0, 16),
        ] {
            let descriptor =
                swizzle << 62 | field(start, 0) | field(leading, 16) | field(stride, 32);
            let Ok(operand) = Operand::new(descriptor, rows) else { continue };
            let (first, end) = operand.around();
            operand.for_each_chunk(|_, _, at| assert!(first <= at && at + 16 <= end));
            assert!(first <= start && start - first < 128);
        }
    }
}
