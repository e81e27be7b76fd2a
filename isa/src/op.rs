//! The macros that declare the instructions.

/// Declares instructions. On the device, a function is its body (one [`ptx!`] or [`ptx_pure!`]). On the
/// host, it calls the function of the same name in `sim::ops::<module>`.
///
/// On the host every function is `#[track_caller]`, so that the model can report the kernel's line that
/// issued the instruction.
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

/// One instruction that affects memory, barriers or other threads. The compiler keeps it in order and
/// assumes that it reads and writes any memory.
#[cfg(target_arch = "nvptx64")]
macro_rules! ptx {
    ($($t:tt)*) => {
        // SAFETY: the enclosing function passes the instruction's rules on to its caller (`# Safety`),
        // or is safe because the instruction has none. The template writes only its output registers.
        unsafe { core::arch::asm!($($t)*, options(nostack, preserves_flags)) }
    };
}

/// Records an event with up to three fields, if the kernel was built with the feature `trace`
/// ([`crate::trace`]). With the feature `stress`, pauses ([`crate::stress`]).
#[cfg(target_arch = "nvptx64")]
macro_rules! trace {
    // An arrival at a cluster address.
    (remote $bar:expr) => {
        #[cfg(feature = "stress")]
        crate::stress::pause();
        #[cfg(feature = "trace")]
        {
            let (bar, rank) = crate::trace::remote($bar);
            crate::trace::record_each(crate::trace::Event::Arrive, bar, 0, rank);
        }
    };
    // A wait: the block is the wait itself.
    ({ $($wait:tt)* } is $event:ident $($field:tt)*) => {
        #[cfg(feature = "stress")]
        crate::stress::pause();
        #[cfg(feature = "trace")]
        let since = crate::trace::now();
        $($wait)*
        #[cfg(feature = "trace")]
        trace!(@ record_since(since, ) $event $($field)*);
        #[cfg(feature = "stress")]
        crate::stress::pause();
    };
    ($event:ident $($field:tt)*) => {
        #[cfg(feature = "stress")]
        crate::stress::pause();
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

/// One instruction whose result depends only on its operands and on constants of the thread. The compiler
/// may merge or remove it.
#[cfg(target_arch = "nvptx64")]
macro_rules! ptx_pure {
    ($($t:tt)*) => {
        // SAFETY: the instruction accesses no memory, has no effect except its outputs, and gives the
        // same outputs for the same inputs while the thread runs.
        unsafe { core::arch::asm!($($t)*, options(pure, nomem, nostack, preserves_flags)) }
    };
}
