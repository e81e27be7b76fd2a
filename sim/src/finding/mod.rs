//! What the model finds: the rules, a broken rule, and the report of it.

pub(crate) mod fault;
pub(crate) mod page;
pub(crate) mod report;
pub(crate) mod rule;
