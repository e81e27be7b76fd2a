//! What `#[kernel]`, `#[device]` and `#[derive(KernelArg)]` refuse, and in which words.

#[test]
fn refusals_are_sentences() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
