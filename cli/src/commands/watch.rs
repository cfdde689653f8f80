use jiff::Timestamp;

use super::print_line;
use crate::args::Watch;
use crate::exit::{Exit, Outcome};
use crate::host::attach::attach;
use crate::settings::Settings;
use crate::view::describe::describe;
use crate::view::follow::{Event, Item, Stream, follow};
use crate::view::text::harmless;

pub(crate) async fn run(arguments: Watch, settings: &Settings) -> Outcome {
    let client = attach(settings).await?;
    let mut items = follow(settings, client, &arguments.run, arguments.from);
    loop {
        let item = tokio::select! {
            item = items.recv() => item,
            _interrupted = tokio::signal::ctrl_c() => return Ok(Exit::Left),
        };
        match item {
            None => return Ok(Exit::Done),
            Some(item) => show(item?, arguments.json),
        }
    }
}

fn show(item: Item, json: bool) {
    match item {
        Item::Event(event) if json => print_line(&event_json(&event)),
        Item::Event(event) => {
            let time = time_of(&event).map(|time| time.strftime("%H:%M:%S").to_string()).unwrap_or_default();
            print_line(&format!("{:>6} {time} {}", event.raw.sequence, describe(&event.payload)));
        }
        Item::Output { stream, offset, dropped, data } if json => {
            let text = String::from_utf8_lossy(&data);
            let line =
                serde_json::json!({ "stream": stream.name(), "offset": offset, "dropped": dropped, "text": text });
            print_line(&line.to_string());
        }
        Item::Output { stream, dropped, data, .. } => {
            let mark = if stream == Stream::Stdout { '|' } else { '!' };
            if dropped > 0 {
                print_line(&format!("{mark} [{dropped} bytes were dropped here]"));
            }
            for line in harmless(&String::from_utf8_lossy(&data)).lines() {
                print_line(&format!("{mark} {line}"));
            }
        }
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
