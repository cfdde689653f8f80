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
    last_byte: Option<u8>,
}

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
            last_byte: None,
        }
    }

    /// For programs: nothing but what they asked for.
    #[must_use]
    pub(crate) fn silent() -> Self {
        let decoder = Decoder::default();
        Self { bar: None, lines: false, response: false, stdout_is_terminal: false, decoder, last_byte: None }
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
        let at_terminal = self.stdout_is_terminal;
        let text = if at_terminal { self.decoder.decode(data) } else { String::new() };
        let print = || {
            if dropped > 0 {
                crate::say!("[{dropped} bytes were dropped here]");
            }
            let mut stdout = std::io::stdout().lock();
            let written =
                if at_terminal { stdout.write_all(harmless(&text).as_bytes()) } else { stdout.write_all(data) };
            crate::exit::written(written.and_then(|()| stdout.flush()));
        };
        match &self.bar {
            // Drawn over a line that is not finished, the living line would eat it.
            Some(bar) if at_terminal => bar.suspend(print),
            _ => print(),
        }
        self.last_byte = data.last().copied().or(self.last_byte);
    }

    /// Ends the living line, and the response's last one.
    pub(crate) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        if self.stdout_is_terminal && self.last_byte.is_some_and(|byte| byte != b'\n') {
            crate::tell!();
        }
    }
}

fn living_line() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {elapsed_precise} {wide_msg}").expect("a valid template");
    let bar = ProgressBar::new_spinner().with_style(style);
    bar.enable_steady_tick(TICK);
    bar
}
