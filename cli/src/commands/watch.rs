use jiff::Timestamp;

use super::print_line;
use crate::args::Watch;
use crate::exit::{Exit, Outcome};
use crate::host::attach::attach_any;
use crate::settings::Settings;
use crate::view::describe::describe;
use crate::view::follow::{Event, Item, Stream, follow};
use crate::view::text::{Decoder, harmless};

pub(crate) async fn run(arguments: Watch, settings: &Settings) -> Outcome {
    let client = attach_any(settings).await?;
    let mut items = follow(settings, client, &arguments.run, arguments.from);
    let mut shown = Shown { json: arguments.json, ..Shown::default() };
    loop {
        let item = tokio::select! {
            item = items.recv() => item,
            _interrupted = tokio::signal::ctrl_c() => return Ok(Exit::Left),
        };
        match item {
            None => {
                shown.rest();
                return Ok(Exit::Done);
            }
            Some(item) => shown.item(item?),
        }
    }
}

/// What is shown, and what waits for its rest.
#[derive(Debug, Default)]
struct Shown {
    json: bool,
    stdout: Lines,
    stderr: Lines,
}

/// One stream: its text so far, as far as its line is not complete.
#[derive(Debug, Default)]
struct Lines {
    decoder: Decoder,
    line: String,
}

/// Longest line that waits for its end, in bytes.
const LINE_BYTES: usize = 64 * 1024;

impl Shown {
    fn item(&mut self, item: Item) {
        match item {
            Item::Event(event) => {
                self.event(&event);
            }
            Item::Output { stream, offset, dropped, data } if self.json => {
                // Bytes that are no UTF-8 are recoverable by their offset from the run's own files.
                let text = self.lines(stream).decoder.decode(&data);
                let line =
                    serde_json::json!({ "stream": stream.name(), "offset": offset, "dropped": dropped, "text": text });
                print_line(&line.to_string());
            }
            Item::Output { stream, dropped, data, .. } => self.output(stream, dropped, &data),
        }
    }

    fn event(&self, event: &Event) {
        if self.json {
            return print_line(&event_json(event));
        }
        let time = time_of(event).map(|time| time.strftime("%H:%M:%S").to_string()).unwrap_or_default();
        print_line(&format!("{:>6} {time} {}", event.raw.sequence, describe(&event.payload)));
    }

    fn output(&mut self, stream: Stream, dropped: i64, data: &[u8]) {
        let mark = mark(stream);
        let lines = self.lines(stream);
        if dropped > 0 {
            print_line(&format!("{mark} [{dropped} bytes were dropped here]"));
        }
        let text = lines.decoder.decode(data);
        lines.line.push_str(&text);
        while let Some(end) = lines.line.find('\n') {
            let line: String = lines.line.drain(..=end).collect();
            print_line(&format!("{mark} {}", harmless(line.trim_end_matches('\n'))));
        }
        if lines.line.len() > LINE_BYTES {
            let line = std::mem::take(&mut lines.line);
            print_line(&format!("{mark} {}", harmless(&line)));
        }
    }

    /// Lines without an end, at the end.
    fn rest(&mut self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let lines = self.lines(stream);
            let text = lines.decoder.finish();
            lines.line.push_str(&text);
            let line = std::mem::take(&mut lines.line);
            if !line.is_empty() && !self.json {
                print_line(&format!("{} {}", mark(stream), harmless(&line)));
            }
        }
    }

    fn lines(&mut self, stream: Stream) -> &mut Lines {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}

const fn mark(stream: Stream) -> char {
    match stream {
        Stream::Stdout => '|',
        Stream::Stderr => '!',
    }
}

fn time_of(event: &Event) -> Option<Timestamp> {
    event.raw.time.and_then(|time| Timestamp::new(time.seconds, time.nanos).ok())
}

fn event_json(event: &Event) -> String {
    let line = serde_json::json!({
        "sequence": event.raw.sequence,
        "eventId": event.raw.event_id,
        "time": time_of(event).map(|time| time.to_string()),
        "kind": event.raw.kind,
        "actor": event.raw.actor,
        "runId": event.raw.subject,
        "traceId": event.raw.trace_id,
        "payload": event.payload,
    });
    line.to_string()
}
