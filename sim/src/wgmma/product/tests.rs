use super::*;

#[test]
fn products_of_every_depth() {
    for (n, depth) in [(8, 16), (24, 32), (64, 8), (256, 16), (16, 32), (8, 8)] {
        let a: Vec<f32> = (0..64 * depth).map(|i| (i % 7) as f32 - 3.0).collect();
        let b: Vec<f32> = (0..depth * n).map(|i| (i % 5) as f32 - 2.0).collect();
        let mut d = vec![f32::NAN; 64 * n];
        product(&a, &b, n, &mut d);
        for i in 0..64 {
            for j in 0..n {
                let want: f32 = (0..depth).map(|k| a[i * depth + k] * b[k * n + j]).sum();
                assert_eq!(d[i * n + j], want);
            }
        }
    }
}

#[test]
fn accumulators_get_their_parts_of_a_product() {
    let n = 16;
    let product: Vec<f32> = (0..64 * n).map(|i| i as f32).collect();
    let mut all = vec![0.5f32.to_bits(); 64 * n];
    add(&product, n, true, 0, &mut all);
    // Thread 37 has rows 17 and 25; its register 5 is column 11 of row 17, and register 6 column 10 of 25.
    let part = &all[37 * n / 2..][..n / 2];
    let float = f32::from_bits;
    assert_eq!(
        (float(part[5]), float(part[6])),
        ((17 * n + 11) as f32 + 0.5, (25 * n + 10) as f32 + 0.5)
    );
    let mut one = vec![f32::NAN.to_bits(); n / 2];
    add(&product, n, false, 37, &mut one);
    assert!(one.iter().zip(part).all(|(&new, &added)| float(new) + 0.5 == float(added)));
}

#[test]
fn sums_of_integers_wrap_around() {
    let product = vec![16384.0 * 32.0; 64 * 8];
    let mut d = vec![i32::MAX.cast_unsigned(); 64 * 8];
    add_s32(&product, 8, true, 0, &mut d);
    assert!(d.iter().all(|&d| d.cast_signed() == i32::MAX.wrapping_add(16384 * 32)));
    add_s32(&product, 8, false, 0, &mut d);
    assert!(d.iter().all(|&d| d == 16384 * 32));
}

/// Where the manual's figures of A's fragments have the elements: of row 0, those of lanes 0 to 3, first the
/// lower half of K and then the upper half.
#[test]
fn fragments_of_every_element_size() {
    for (dtype, bytes) in [
        (OperandType::S8, 1u32),
        (OperandType::E4m3, 1),
        (OperandType::F16, 2),
        (OperandType::Tf32, 4),
    ] {
        let (k, each) = (32 / bytes as usize, 4 / bytes as usize);
        let one: u32 = match dtype {
            OperandType::S8 => 1,
            OperandType::E4m3 => 0x38,
            OperandType::F16 => 0x3c00,
            _ => 0x3f80_0000,
        };
        for column in 0..k {
            let half = column / (k / 2);
            let lane = column % (k / 2) / each;
            let mut fragments = [[0u32; 4]; 128];
            // Row 64 - 16 + 8 + 5: warp 3, lanes 20 to 23, the lower of the thread's two rows.
            fragments[96 + 20 + lane][2 * half + 1] = one << (8 * bytes as usize * (column % each));
            let mut a = vec![0.0; 64 * k];
            from_fragments(&fragments, dtype, &mut a);
            let found: Vec<usize> = (0..64 * k).filter(|&i| a[i] != 0.0).collect();
            assert_eq!(found, [61 * k + column], "{dtype:?}, column {column}");
            assert_eq!(a[found[0]], 1.0);
        }
    }
}
