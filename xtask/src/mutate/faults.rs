//! The faults: edits of the SM model, each with the tests that must fail with it.
//!
//! If no test notices a fault, the model can differ from the chip, and only a GPU shows it.

use super::Mutation;

/// The unit tests of the addresses of wgmma's operands.
const ADDRESSES: &[&str] = &["--package", "warpipe-sim", "--lib", "wgmma::operand"];
/// Products on the model, and what it reports of operands.
const PRODUCTS: &[&str] = &["--package", "warpipe-sim", "--test", "model", "mn_major"];

/// Products of Blackwell by one CTA and by a pair.
const PAIRS: &[&str] = &["--package", "warpipe-isa", "--test", "integration", "tensor_products"];

/// The unit tests of sums of 8-bit floats.
const SHORT_SUMS: &[&str] = &["--package", "warpipe-sim", "--lib", "wgmma::short"];

const OPERAND: &str = "sim/src/wgmma/operand.rs";

/// All faults.
pub const FAULTS: &[Mutation] = &[
    Mutation {
        case: "model_mn_major_offsets_exchanged",
        tests: ADDRESSES,
        edits: &[(
            OPERAND,
            "return self.start + row / 8 * self.stride + k / 8 * self.leading + k % 8 * 16;",
            "return self.start + row / 8 * self.leading + k / 8 * self.stride + k % 8 * 16;",
        )],
    },
    Mutation {
        case: "model_mn_major_panels_as_groups",
        tests: ADDRESSES,
        edits: &[(
            OPERAND,
            "let panel = self.start + 2 * row / span * self.leading;",
            "let panel = self.start + 2 * row / span * self.stride;",
        )],
    },
    Mutation {
        case: "model_mn_major_without_its_swizzle",
        tests: PRODUCTS,
        edits: &[(
            OPERAND,
            "self.swizzle.apply(panel + 2 * row % span + k / 8 * self.stride + k % 8 * span)",
            "panel + 2 * row % span + k / 8 * self.stride + k % 8 * span",
        )],
    },
    Mutation {
        case: "model_mn_major_decoded_along_k",
        tests: PRODUCTS,
        edits: &[(
            "sim/src/wgmma/groups.rs",
            "if o.major() == Major::K { along_k } else { along_m_or_n };",
            "if o.major() == Major::K { along_k } else { along_k };",
        )],
    },
    Mutation {
        case: "model_mn_major_step_unchecked",
        tests: PRODUCTS,
        edits: &[(
            OPERAND,
            "if start % span + span.min(2 * rows) > span {",
            "if start % span > span {",
        )],
    },
    Mutation {
        case: "model_k_major_bytes_as_halves",
        tests: ADDRESSES,
        edits: &[(OPERAND, "self.dtype.k() / 2;", "CHUNK / 2;")],
    },
    Mutation {
        case: "model_short_sums_of_twelve_bits",
        tests: SHORT_SUMS,
        edits: &[(
            "sim/src/wgmma/short.rs",
            "const POINT: f32 = 8192.0;",
            "const POINT: f32 = 4096.0;",
        )],
    },
    Mutation {
        case: "model_pair_copies_in_one_cta",
        tests: PAIRS,
        edits: &[(
            "sim/src/exec/tensor_copy.rs",
            "for cta in std::iter::once(cta).chain(peer) {",
            "for cta in std::iter::once(cta).chain(peer.filter(|_| false)) {",
        )],
    },
    Mutation {
        case: "model_pair_with_one_a_in_tensor_memory",
        tests: PAIRS,
        edits: &[("sim/src/tensor/umma.rs", "words[i].iter()", "words[i / 2].iter()")],
    },
    Mutation {
        case: "model_factors_of_four_rows_in_a_lane",
        tests: PAIRS,
        edits: &[(
            "sim/src/tensor/scaled.rs",
            "let (lane, column) = (row % ROWS, first + row / ROWS);",
            "let (lane, column) = (row / 4, first + row % 4);",
        )],
    },
];
