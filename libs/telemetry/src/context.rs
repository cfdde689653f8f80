//! W3C trace context: in gRPC metadata, in records and in the environment of adapters.

use std::str::FromStr;

use opentelemetry::propagation::{Extractor, Injector};
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// A W3C `traceparent`, version 00 (<https://www.w3.org/TR/trace-context/#traceparent-header>).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traceparent {
    trace: TraceId,
    span: SpanId,
    flags: TraceFlags,
}

/// Why a text is no [`Traceparent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a W3C traceparent of version 00")]
pub struct InvalidTraceparent;

impl Traceparent {
    /// The trace's id, 32 hex digits.
    #[must_use]
    pub fn trace_id(&self) -> String {
        self.trace.to_string()
    }
}

impl std::fmt::Display for Traceparent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, self.flags.to_u8())
    }
}

impl FromStr for Traceparent {
    type Err = InvalidTraceparent;

    fn from_str(text: &str) -> Result<Self, InvalidTraceparent> {
        let lower_hex = |part: &str, digits: usize| {
            part.len() == digits && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        let mut parts = text.split('-');
        let (Some("00"), Some(trace), Some(span), Some(flags), None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(InvalidTraceparent);
        };
        if !(lower_hex(trace, 32) && lower_hex(span, 16) && lower_hex(flags, 2)) {
            return Err(InvalidTraceparent);
        }
        let trace = TraceId::from_hex(trace).map_err(|_not_hex| InvalidTraceparent)?;
        let span = SpanId::from_hex(span).map_err(|_not_hex| InvalidTraceparent)?;
        let flags = u8::from_str_radix(flags, 16).map_err(|_not_hex| InvalidTraceparent)?;
        if trace == TraceId::INVALID || span == SpanId::INVALID {
            return Err(InvalidTraceparent);
        }
        Ok(Self { trace, span, flags: TraceFlags::new(flags) })
    }
}

/// The current span as a parent for somebody else; `None` outside of any span.
#[must_use]
pub fn current_traceparent() -> Option<Traceparent> {
    let context = tracing::Span::current().context();
    let span = context.span().span_context().clone();
    let parent = Traceparent { trace: span.trace_id(), span: span.span_id(), flags: span.trace_flags() };
    span.is_valid().then_some(parent)
}

/// Trace id of the current span, 32 hex digits.
#[must_use]
pub fn current_trace_id() -> Option<String> {
    current_traceparent().map(|parent| parent.trace_id())
}

/// Makes `parent` the parent of `span`, which must not have been entered yet.
pub fn follow(span: &tracing::Span, parent: &Traceparent) {
    let context = SpanContext::new(parent.trace, parent.span, parent.flags, true, TraceState::default());
    let context = opentelemetry::Context::new().with_remote_span_context(context);
    if let Err(error) = span.set_parent(context) {
        tracing::debug!(%error, "A span could not be put into its trace");
    }
}

/// Writes the current span into the metadata of a call.
pub fn inject(metadata: &mut tonic::metadata::MetadataMap) {
    struct Metadata<'a>(&'a mut tonic::metadata::MetadataMap);
    impl Injector for Metadata<'_> {
        fn set(&mut self, key: &str, value: String) {
            let key = tonic::metadata::MetadataKey::from_bytes(key.as_bytes());
            if let (Ok(key), Ok(value)) = (key, value.parse()) {
                self.0.insert(key, value);
            }
        }
    }
    let context = tracing::Span::current().context();
    opentelemetry::global::get_text_map_propagator(|propagator| {
        propagator.inject_context(&context, &mut Metadata(metadata));
    });
}

/// Makes the caller's span, if the headers name one, the parent of `span`.
pub fn extract(headers: &http::HeaderMap, span: &tracing::Span) {
    struct Headers<'a>(&'a http::HeaderMap);
    impl Extractor for Headers<'_> {
        fn get(&self, key: &str) -> Option<&str> {
            self.0.get(key)?.to_str().ok()
        }
        fn keys(&self) -> Vec<&str> {
            self.0.keys().map(http::HeaderName::as_str).collect()
        }
    }
    let context = opentelemetry::global::get_text_map_propagator(|propagator| propagator.extract(&Headers(headers)));
    if context.span().span_context().is_valid()
        && let Err(error) = span.set_parent(context)
    {
        tracing::debug!(%error, "A span could not be put into its trace");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_leads_back_to_its_text_and_a_malformed_one_is_refused() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let parsed = text.parse::<Traceparent>().expect("valid");
        assert_eq!(parsed.to_string(), text);
        assert_eq!(parsed.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        for bad in [
            "",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        ] {
            assert_eq!(bad.parse::<Traceparent>(), Err(InvalidTraceparent), "{bad:?}");
        }
    }
}
