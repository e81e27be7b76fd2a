//! State that the CTAs of a grid share, and the order between one grid and the next.
//!
//! | type | what it is |
//! |---|---|
//! | [`Partials`] | the partial tiles of stream-K |
//! | [`SplitTiles`] | the parts of split tiles with few rows |
//! | [`Throttle`] | keeps the CTAs of a persistent grid at about the same k tile |
//! | [`ClcFetch`] | assigns the tiles of CTAs that have not started (launch control) |
//! | [`BeforeWait`] | the token of a dependent grid before its wait (programmatic dependent launch) |
//! | [`DependentSlice`] | memory that a dependent grid accesses after its wait |

mod dependent;
mod launch_control;
mod max;
mod slice;
mod split_tile;
mod stream_k;
mod throttle;

pub use dependent::*;
pub use launch_control::*;
pub use slice::*;
pub use split_tile::*;
pub use stream_k::*;
pub use throttle::*;
