//! What fetching an engine says on standard error: a bar where that is a terminal, plain lines where it is not.

use crate::view::text::bytes;
use dbdyno_provision::FetchProgress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often a line says how far a download is.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Speaks for one engine.
pub struct FetchVoice {
    name: String,
    bar: Option<ProgressBar>,
    last_line: Instant,
}

impl FetchVoice {
    /// For the engine of this name.
    pub fn new(name: &str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(5);
            let bar = ProgressBar::with_draw_target(Some(0), target);
            let style = ProgressStyle::with_template("{bar:24} {bytes}/{total_bytes}  {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        FetchVoice { name: name.to_owned(), bar, last_line: Instant::now() }
    }

    /// Says what is being done.
    pub fn say(&mut self, progress: &FetchProgress) {
        match (progress, &self.bar) {
            (FetchProgress::Step { text }, Some(bar)) => {
                bar.set_length(0);
                bar.set_position(0);
                bar.set_message(format!("{}: {text}", self.name));
            }
            (FetchProgress::Step { text }, None) => self.line(text),
            (FetchProgress::Downloaded { bytes, of }, Some(bar)) => {
                bar.set_length((*of).max(*bytes));
                bar.set_position(*bytes);
            }
            (FetchProgress::Downloaded { bytes: done, of }, None) => {
                if self.last_line.elapsed() >= LINE_EVERY {
                    self.line(&format!("{} of about {}", bytes(*done as f64), bytes(*of as f64)));
                }
            }
        }
    }

    /// The engine is there, or is not to be had.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// That nobody reads a line is no reason to stop fetching.
    fn line(&mut self, text: &str) {
        self.last_line = Instant::now();
        let _ = writeln!(std::io::stderr(), "{}: {text}", self.name);
    }
}
