//! The shape that all instructions share, written once.

/// Declares instructions: on the device the body as written (one [`ptx!`] or [`ptx_pure!`]), on
/// the host a call of the same name in `sim::ops::<module>`.
///
/// On the host every function is `#[track_caller]`, so that the model can name the line of the
/// kernel that issued the instruction.
macro_rules! ops {
    ($module:ident;) => {};
    ($module:ident; $(#[$meta:meta])* pub unsafe fn $($rest:tt)*) => {
        ops! { @item $module [$(#[$meta])*] [unsafe] $($rest)* }
    };
    ($module:ident; $(#[$meta:meta])* pub fn $($rest:tt)*) => {
        ops! { @item $module [$(#[$meta])*] [] $($rest)* }
    };
    (@item $module:ident [$($meta:tt)*] [$($unsafe:tt)?]
     $name:ident $(<const $n:ident: u32>)? ($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?
     { $($device:tt)* }
     $($rest:tt)*) => {
        $($meta)*
        #[crate::device]
        pub $($unsafe)? fn $name $(<const $n: u32>)? ($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "nvptx64")]
            {
                $($device)*
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                sim::ops::$module::$name $(::<$n>)? ($($arg),*)
            }
        }
        ops! { $module; $($rest)* }
    };
}

/// One instruction that touches memory, barriers or other threads: the compiler keeps it, in
/// order, and assumes that it reads and writes any memory.
#[cfg(target_arch = "nvptx64")]
macro_rules! ptx {
    ($($t:tt)*) => {
        // SAFETY: the function that this stands in passes the instruction's rules on to its caller
        // (`# Safety`), or is safe because the instruction has none. The template writes no
        // register but its outputs.
        unsafe { core::arch::asm!($($t)*, options(nostack, preserves_flags)) }
    };
}

/// A record of an event with up to three fields, in a kernel that was built to be traced; else
/// nothing. See [`crate::trace`].
#[cfg(target_arch = "nvptx64")]
macro_rules! trace {
    // An arrival at a cluster address.
    (remote $bar:expr) => {
        #[cfg(feature = "trace")]
        {
            let (bar, rank) = crate::trace::remote($bar);
            crate::trace::record_each(crate::trace::Event::Arrive, bar, 0, rank);
        }
    };
    // What the block waits for.
    ({ $($wait:tt)* } is $event:ident $($field:tt)*) => {
        #[cfg(feature = "trace")]
        let since = crate::trace::now();
        $($wait)*
        #[cfg(feature = "trace")]
        trace!(@ record_since(since, ) $event $($field)*);
    };
    ($event:ident $($field:tt)*) => {
        #[cfg(feature = "trace")]
        trace!(@ record() $event $($field)*);
    };
    (@ $record:ident($($since:tt)*) $event:ident) => {
        trace!(@ $record($($since)*) $event, 0)
    };
    (@ $record:ident($($since:tt)*) $event:ident, $first:expr) => {
        trace!(@ $record($($since)*) $event, $first, 0)
    };
    (@ $record:ident($($since:tt)*) $event:ident, $first:expr, $second:expr) => {
        trace!(@ $record($($since)*) $event, $first, $second, 0)
    };
    (@ $record:ident($($since:tt)*) $event:ident, $first:expr, $second:expr, $third:expr) => {
        crate::trace::$record($($since)* crate::trace::Event::$event, $first, $second, $third)
    };
}

/// One instruction whose result depends on its operands (and on what is constant for a thread)
/// alone: the compiler may merge or drop it.
#[cfg(target_arch = "nvptx64")]
macro_rules! ptx_pure {
    ($($t:tt)*) => {
        // SAFETY: reads and writes no memory, has no effect but its outputs, and gives the same
        // outputs for the same inputs as long as the thread runs.
        unsafe { core::arch::asm!($($t)*, options(pure, nomem, nostack, preserves_flags)) }
    };
}
