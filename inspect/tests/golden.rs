//! The page of a recorded kernel without tools. `WARPIPE_BLESS=1` writes it again.
#![allow(missing_docs)]

use std::path::Path;
use warpipe_inspect::{Tools, inspect, read};

const PTX: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/stream_copy.ptx");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/stream_copy.txt");

#[test]
fn the_page_of_a_recorded_kernel() {
    let modules = read(Path::new(PTX)).unwrap();
    assert_eq!(modules.len(), 1);
    let page = inspect(&modules[0].ptx, "stream_copy", &Tools::none()).unwrap().to_string();
    if std::env::var_os("WARPIPE_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(PAGE, &page).unwrap();
    }
    let want = std::fs::read_to_string(PAGE).unwrap();
    assert_eq!(page, want, "WARPIPE_BLESS=1 writes {PAGE} again");
}

#[test]
fn a_damaged_comment_is_one_line() {
    let text = std::fs::read_to_string(PTX).unwrap();
    let damaged = text.replacen("\"threads\":", "\"threads\":-", 1);
    let line = inspect(&damaged, "stream_copy", &Tools::none()).unwrap_err().to_string();
    assert!(line.starts_with("kernel stream_copy: the comment of kernel-build"), "{line}");
    assert!(!line.contains('\n'), "{line}");
    // The comment of another kernel is none of this one.
    let other = text.replacen("\"kernel\":\"stream_copy\"", "\"kernel\":\"other\"", 1);
    let page = inspect(&other, "stream_copy", &Tools::none()).unwrap();
    assert!(page.facts.cta.is_none() && page.facts.threads.is_some());
}
