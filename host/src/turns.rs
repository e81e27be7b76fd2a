//! The order of a plan's runs that share memory: staging copies and workspaces.
//!
//! Runs on one stream are in order anyway. A run on another stream waits, on the device, for the run before
//! it; the host does not wait.

use crate::error::Error;
use crate::event::Event;
use crate::stream::Stream;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Who used the shared memory last.
#[derive(Default)]
pub(crate) struct Turns(Mutex<State>);

#[derive(Default)]
pub(crate) struct State {
    last: Option<Last>,
    /// Marks the end of the last run for a run on another stream. Made at the first such run.
    event: Option<Event>,
}

struct Last {
    stream: Stream,
    /// The capture that the run belongs to.
    capture: Option<u64>,
    /// Whether the event was recorded behind the run.
    recorded: bool,
}

/// The turn of one run. While it lives, no other run is queued, so that the copies and launches of two
/// threads do not mix.
pub(crate) struct Turn<'t> {
    state: MutexGuard<'t, State>,
}

impl Turns {
    /// Queues a wait for the last run on `stream`, if that run was on another one.
    ///
    /// # Errors
    /// [`Error::PlanBusy`] if `stream` is being captured, and the last run, outside of this capture, has not
    /// ended: a graph can't wait for it.
    pub fn begin(&self, stream: &Stream) -> Result<Turn<'_>, Error> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let capture = stream.capture_id()?;
        let State { last, event } = &mut *state;
        if let Some(before) = last.as_mut().filter(|before| !before.orders(stream)) {
            let busy = || Error::PlanBusy {
                last: before.stream.raw() as u64,
                stream: stream.raw() as u64,
            };
            match (before.capture, capture) {
                (ours, theirs) if ours == theirs => {
                    if !before.recorded {
                        if before.stream.capture_id()? != ours {
                            // Somebody has begun to capture that stream, or has ended it.
                            return Err(busy());
                        }
                        before.stream.record_in(made(event, stream)?)?;
                    }
                    stream.wait(made(event, stream)?)?;
                }
                (None, Some(_)) => {
                    let done =
                        before.stream.capture_id()?.is_none() && before.stream.is_complete()?;
                    if !done {
                        return Err(busy());
                    }
                }
                // The caller orders the launches of a graph.
                _ => {}
            }
        }
        *last = Some(Last { stream: stream.clone(), capture, recorded: false });
        Ok(Turn { state })
    }

    /// Waits for the last run, and forgets its stream.
    pub fn synchronize(&self) -> Result<(), Error> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let State { last, event } = &mut *state;
        match last.take() {
            Some(Last { capture: None, recorded: true, .. }) => {
                event.as_ref().map_or(Ok(()), Event::synchronize)
            }
            Some(Last { capture: None, stream, .. }) => stream.synchronize(),
            _ => Ok(()),
        }
    }
}

impl Turn<'_> {
    /// Ends the turn after everything is queued.
    pub fn end(mut self) -> Result<(), Error> {
        let State { last, event } = &mut *self.state;
        // Another thread that has the handle would mean its own stream.
        if let Some(last) = last.as_mut().filter(|last| last.stream.is_per_thread()) {
            last.stream.record_in(made(event, &last.stream)?)?;
            last.recorded = true;
        }
        Ok(())
    }
}

impl Last {
    /// Whether work on `stream` is behind this run anyway.
    fn orders(&self, stream: &Stream) -> bool {
        self.stream.cu() == stream.cu() && !stream.is_per_thread()
    }
}

/// The event, which is made where there is none.
fn made<'e>(event: &'e mut Option<Event>, stream: &Stream) -> Result<&'e Event, Error> {
    match event {
        Some(event) => Ok(event),
        None => Ok(event.insert(Event::new(stream.backend(), false)?)),
    }
}
