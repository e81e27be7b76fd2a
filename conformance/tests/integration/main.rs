//! The litmus programs and their judge, in one program: each module is a subject.

mod blackwell;
mod conformance;
mod judge;
