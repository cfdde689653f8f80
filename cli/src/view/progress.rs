//! Progress of a run while it is followed: one living line at a terminal, plain lines elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use mosaic_record::RunEvent;

use super::describe::describe;
use super::text::{Decoder, harmless};

/// How often the elapsed time is drawn.
const TICK: Duration = Duration::from_millis(120);

/// Shows how a run goes on: progress on standard error, the response on standard output.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    lines: bool,
    response: bool,
    stdout_is_terminal: bool,
    decoder: Decoder,
    /// What a terminal has not been shown yet: a line whose end has not come. The living line would be drawn over it.
    unfinished: String,
}

/// Longest line that waits for its end, in bytes.
const LINE_BYTES: usize = 8 * 1024;

impl Progress {
    /// For people: progress and response.
    #[must_use]
    pub(crate) fn for_people() -> Self {
        let stdout_is_terminal = std::io::stdout().is_terminal();
        let bar = std::io::stderr().is_terminal().then(living_line);
        Self {
            lines: bar.is_none(),
            bar,
            response: true,
            stdout_is_terminal,
            decoder: Decoder::default(),
            unfinished: String::new(),
        }
    }

    /// For programs: nothing but what they asked for.
    #[must_use]
    pub(crate) fn silent() -> Self {
        Self {
            bar: None,
            lines: false,
            response: false,
            stdout_is_terminal: false,
            decoder: Decoder::default(),
            unfinished: String::new(),
        }
    }

    /// An event.
    pub(crate) fn event(&mut self, event: &RunEvent) {
        if let Some(bar) = &self.bar {
            match event {
                // The line shows what the run is doing, not how much it has written.
                RunEvent::Output(_) => {}
                _ => bar.set_message(describe(event)),
            }
        }
        if self.lines {
            crate::say!("{}", describe(event));
        }
    }

    /// Bytes of the response: as they are into a pipe, made harmless at a terminal.
    pub(crate) fn response(&mut self, data: &[u8], dropped: i64) {
        if !self.response || (data.is_empty() && dropped == 0) {
            return;
        }
        if dropped > 0 {
            crate::say!("[{dropped} bytes were dropped here]");
        }
        if !self.stdout_is_terminal {
            return write(data);
        }
        self.unfinished += &self.decoder.decode(data);
        let complete = match self.unfinished.rfind('\n') {
            Some(end) => end + 1,
            None if self.unfinished.len() > LINE_BYTES => self.unfinished.len(),
            None => return,
        };
        let text: String = self.unfinished.drain(..complete).collect();
        let print = || write(harmless(&text).as_bytes());
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Ends the living line, and the response's last one.
    pub(crate) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        self.unfinished += &self.decoder.finish();
        if !self.unfinished.is_empty() {
            crate::tell!("{}", harmless(&std::mem::take(&mut self.unfinished)));
        }
    }
}

fn write(data: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    crate::exit::written(stdout.write_all(data).and_then(|()| stdout.flush()));
}

fn living_line() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {elapsed_precise} {wide_msg}").expect("a valid template");
    let bar = ProgressBar::new_spinner().with_style(style);
    bar.enable_steady_tick(TICK);
    bar
}
