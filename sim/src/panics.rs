//! Panics of kernel code: caught, remembered, and not printed.

use std::any::Any;
use std::cell::RefCell;
use std::panic;
use std::sync::Once;

thread_local! {
    static LAST: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

/// Makes the panic hook silent for simulated threads; all other panics go to the hook before it.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !crate::current::inside() {
                return before(info);
            }
            let at = info.location().map_or_else(String::new, ToString::to_string);
            LAST.set(Some((text(info.payload()), at)));
        }));
    });
}

/// What the panic that was just caught said, and where.
pub(crate) fn last(payload: &(dyn Any + Send)) -> (String, String) {
    LAST.take().unwrap_or_else(|| (text(payload), String::new()))
}

fn text(payload: &(dyn Any + Send)) -> String {
    if let Some(s) = payload.downcast_ref::<&str>() {
        (*s).to_owned()
    } else if let Some(s) = payload.downcast_ref::<String>() {
        s.clone()
    } else {
        "a payload that is no text".to_owned()
    }
}
