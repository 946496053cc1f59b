//! What a run says on standard error while it goes on: a bar where that is a terminal, plain lines where it is not,
//! nothing with `--quiet`.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How to say it.
enum Voice {
    Bar(ProgressBar),
    Lines,
    Silent,
}

/// Progress of one run. Its unit is the planned second, so that a long trial moves the bar more than a short one.
pub struct Progress {
    voice: Voice,
    started: Instant,
    expected_s: f64,
    done_s: f64,
}

impl Progress {
    /// For a run that is expected to take so long.
    pub fn new(quiet: bool, expected_s: f64) -> Self {
        let voice = if quiet {
            Voice::Silent
        } else if std::io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(
                Some((expected_s * 1e3) as u64),
                ProgressDrawTarget::stderr_with_hz(5),
            );
            let style = ProgressStyle::with_template("{bar:24} {percent:>3}%  {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(Duration::from_secs(1));
            Voice::Bar(bar)
        } else {
            Voice::Lines
        };
        Progress { voice, started: Instant::now(), expected_s, done_s: 0.0 }
    }

    /// A step begins or has ended: worth a line.
    pub fn step(&self, text: &str) {
        match &self.voice {
            Voice::Bar(bar) => bar.set_message(format!("{text}{}", self.left())),
            Voice::Lines => say(&format!("{:7.1} s  {text}", self.started.elapsed().as_secs_f64())),
            Voice::Silent => {}
        }
    }

    /// Something within a step has moved: shown on a terminal only.
    pub fn live(&self, text: &str) {
        if let Voice::Bar(bar) = &self.voice {
            bar.set_message(format!("{text}{}", self.left()));
        }
    }

    /// So many of the expected seconds are over.
    pub fn advance(&mut self, planned_s: f64) {
        self.done_s += planned_s;
        if let Voice::Bar(bar) = &self.voice {
            bar.set_position((self.done_s * 1e3) as u64);
        }
    }

    /// Prints something for people that must not be lost in the bar.
    pub fn note(&self, text: &str) {
        match &self.voice {
            Voice::Bar(bar) => bar.suspend(|| say(text)),
            Voice::Lines => say(text),
            Voice::Silent => {}
        }
    }

    /// The run is over.
    pub fn finish(&self) {
        if let Voice::Bar(bar) = &self.voice {
            bar.finish_and_clear();
        }
    }

    /// Time left at the plan's pace, corrected by how the run has kept to it so far.
    fn left(&self) -> String {
        let elapsed_s = self.started.elapsed().as_secs_f64();
        let pace = if self.done_s > 1.0 { elapsed_s / self.done_s } else { 1.0 };
        let left_s = ((self.expected_s - self.done_s).max(0.0) * pace).round();
        format!("   {:.0}:{:02.0} left", (left_s / 60.0).floor(), left_s % 60.0)
    }
}

/// A line on standard error. That nobody reads it is no reason to end a run, which `eprintln!` would.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
