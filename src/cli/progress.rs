//! A line on a terminal that says what is going on. Nothing is drawn where stderr is no terminal.

use host::{SimConfig, SimProgress};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// Steps of a command, shown as a bar with the time that they have taken, and how many clusters
/// the SM model has finished, which may be a long work.
pub struct Progress {
    bar: ProgressBar,
    model: Arc<SimProgress>,
}

impl Progress {
    /// A bar of `steps` steps.
    pub fn new(steps: u64) -> Self {
        let bar = ProgressBar::new(steps);
        let model = Arc::new(SimProgress::default());
        let watched = Arc::clone(&model);
        let clusters = move |_: &ProgressState, text: &mut dyn Write| {
            let (done, all) = (watched.finished(), watched.clusters());
            if done < all {
                let _ = write!(text, "({done} of {all} clusters)");
            }
        };
        let style = ProgressStyle::with_template("{spinner} [{bar:20}] {elapsed} {msg} {clusters}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("=> ").with_key("clusters", clusters));
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar, model }
    }

    /// The configuration of a model that is watched.
    pub fn model(&self) -> SimConfig {
        SimConfig { progress: Some(Arc::clone(&self.model)), ..SimConfig::default() }
    }

    /// Runs one step under its name.
    pub fn step<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        self.bar.set_message(name.to_owned());
        let done = work();
        self.bar.inc(1);
        done
    }
}

impl Drop for Progress {
    /// Leaves nothing on the terminal, whichever way the command ends.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
