//! The scope of a release or an acquire.

/// How far a release or an acquire reaches. `.sys` counts as `.gpu`, for the model has one GPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Scope {
    Cta,
    Cluster,
    Gpu,
}
