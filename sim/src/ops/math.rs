//! Arithmetic: a pure function of its operands.

/// `sqrt.rn.f32`
pub fn sqrt(x: f32) -> f32 {
    x.sqrt()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_root_is_rounded_once() {
        // 2 has no root in f32: the nearest is 0x3fb504f3 (IEEE 754, to nearest even).
        assert_eq!(super::sqrt(2.0).to_bits(), 0x3fb5_04f3);
        assert!(super::sqrt(-1.0).is_nan());
    }
}
