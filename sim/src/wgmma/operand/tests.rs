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
