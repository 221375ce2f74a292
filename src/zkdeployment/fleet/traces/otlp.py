"""Traces in the JSON form of the OpenTelemetry protocol (OTLP/HTTP)."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.fleet.traces.spans import Span, Trace

#: The most spans of one request: receivers limit the size of requests.
_MOST = 2000

_INTERNAL, _OK, _ERROR = 1, 1, 2


def otlp_requests(trace: Trace, *, site: str) -> Iterator[bytes]:
    """Yield the bodies of the requests that export a trace; spans that have not ended are omitted.

    ``site`` is the address of the service.
    """
    ended = [span for span in trace.spans if span.end is not None]
    for first in range(0, len(ended), _MOST):
        spans = [_span(trace, span) for span in ended[first : first + _MOST]]
        scope = {"name": "zkdeployment", "version": version("zkdeployment")}
        resource = {"attributes": _attributes({"service.name": "zkdeployment", "service.instance.id": site})}
        scoped = [{"scope": scope, "spans": spans}]
        yield json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scoped}]}).encode()


def _span(trace: Trace, span: Span) -> dict[str, Any]:
    found: dict[str, Any] = {
        "traceId": trace.id,
        "spanId": trace.span_id(span.key),
        "name": span.name,
        "kind": _INTERNAL,
        "startTimeUnixNano": _nanoseconds(span.start),
        "endTimeUnixNano": _nanoseconds(span.end or span.start),
        "attributes": _attributes({"zkdeployment.kind": span.kind.value, **span.facts}),
        "status": {"code": _ERROR, "message": span.error} if span.error else {"code": _OK},
    }
    if span.parent is not None:
        found["parentSpanId"] = trace.span_id(span.parent)
    if span.events:
        found["events"] = [
            {
                "timeUnixNano": _nanoseconds(event.time),
                "name": event.name,
                "attributes": _attributes(event.facts),
            }
            for event in span.events
        ]
    return found


def _nanoseconds(seconds: float) -> str:
    """Return a time as the protocol has it: an integer of 64 bits, as text."""
    return str(round(seconds * 1_000_000) * 1000)


def _attributes(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in facts.items()]


def _value(value: object) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
    return {"stringValue": str(value)}
