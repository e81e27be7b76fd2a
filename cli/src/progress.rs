//! A progress line on the terminal. Nothing is drawn if stderr is not a terminal.

use host::{SimConfig, SimProgress};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// A progress bar over the steps of a command, with the elapsed time and the number of clusters that the
/// SM model has finished.
pub struct Progress {
    bar: ProgressBar,
    model: Arc<SimProgress>,
}

impl Progress {
    /// Makes a bar of `steps` steps.
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

    /// A model configuration that reports its progress to the bar.
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
    /// Clears the line, however the command ends.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
