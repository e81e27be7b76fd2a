//! What the CTAs of a grid share, and what one grid owes the next.
//!
//! [`Partials`] holds the partial tiles of stream-K, [`SplitTiles`] the parts of tiles with few rows, and [`Throttle`]
//! keeps the CTAs of a persistent grid close together. [`ClcFetch`] hands out the CTAs that have not started (launch
//! control). [`BeforeWait`] is the part of a dependent grid that overlaps the primary grid (programmatic dependent
//! launch), and [`DependentSlice`] is memory that a dependent grid reads after its wait.

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
