//! Panics of kernel code: caught, remembered, and not printed.

use crate::finding::fault::Fault;
use crate::finding::rule::Rule;
use std::any::Any;
use std::cell::RefCell;
use std::panic;
use std::sync::Once;

thread_local! {
    static LAST: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

/// Makes the panic hook silent inside simulated threads, of which `inside` tells; all other panics go
/// to the hook before it.
pub(crate) fn install(inside: fn() -> bool) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !inside() {
                return before(info);
            }
            let at = info.location().map_or_else(String::new, ToString::to_string);
            LAST.set(Some((text(info.payload()), at)));
        }));
    });
}

/// The fault of a panic that was just caught.
pub(crate) fn caught(payload: &(dyn Any + Send)) -> Fault {
    pending().unwrap_or_else(|| Fault::new(Rule::Panic, text(payload)))
}

/// The fault of a panic that is unwinding, and was not caught yet.
pub(crate) fn pending() -> Option<Fault> {
    let (message, at) = LAST.take()?;
    Some(Fault::new(Rule::Panic, format!("{message} (at {at})")))
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
