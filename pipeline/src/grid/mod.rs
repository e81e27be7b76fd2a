//! What the CTAs of a grid share, and what one grid owes the next.

mod dependent;
mod slice;
mod stream_k;
mod throttle;

pub use dependent::*;
pub use slice::*;
pub use stream_k::*;
pub use throttle::*;
