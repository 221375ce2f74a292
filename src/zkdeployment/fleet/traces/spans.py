"""A publication as a tree of spans, also in the JSON form of OpenTelemetry (OTLP/HTTP).

Spans follow from what ZooKeeper holds: the record of the publication with the results of hosts, the rollouts with
their groups, and the steps that hosts showed meanwhile. All times are in seconds since the epoch.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import field
from enum import Enum
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from zkdeployment.base.cluster import short
from zkdeployment.base.host import ORDER_PREFIX, WAITING_PREFIX
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.act import Act
    from zkdeployment.base.deployment import HostResult
    from zkdeployment.publishing.records import PublicationRecord
    from zkdeployment.strategies.state import RolloutState

#: The beginning of the step of a host that waits for a lock.
_LOCK = "wait for the lock of "

#: The group of hosts that no rollout has put into a group.
ALL_HOSTS = "all hosts"


@dataclass(frozen=True, slots=True)
class StepTime:
    """A step that a host showed, from ``begun`` to ``ended`` (``None``: the host still shows it).

    ``deadline`` is until when a host that reboots is expected back; other steps have none.
    """

    step: str
    begun: float
    ended: float | None = None
    deadline: float | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the host waited for its turn, for another host or for a lock."""
        return self.step.startswith((WAITING_PREFIX, ORDER_PREFIX, _LOCK))


class SpanKind(Enum):
    """The kinds of spans, from the outermost to the innermost."""

    PUBLICATION = "publication"
    GROUP = "group"
    HOST = "host"
    STEP = "step"


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """A moment within a span: its name and facts."""

    time: float
    name: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of work; ``key`` identifies it within its publication, ``parent`` is the key of the span around it.

    ``end`` is ``None`` while the work continues. ``error`` is why the work failed, empty if it did not.
    """

    key: str
    kind: SpanKind
    name: str
    start: float
    end: float | None
    parent: str | None = None
    error: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[SpanEvent, ...] = ()
    is_waiting: bool = False
    is_rebooting: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """The spans of one publication, each after the span around it; ``is_over``: nothing is added later."""

    sequence: int
    spans: tuple[Span, ...]
    is_over: bool

    @property
    def id(self) -> str:
        """The id of the trace, 16 bytes in hexadecimal digits; each service finds the same one."""
        return _digest(f"trace {self.sequence} {self.spans[0].start}", 16)

    def span_id(self, key: str) -> str:
        """Return the id of a span, 8 bytes in hexadecimal digits."""
        return _digest(f"span {self.sequence} {key}", 8)


def _digest(text: str, size: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[: 2 * size]


def is_publication_over(sequence: int, rollouts: Sequence[RolloutState], last_over: int) -> bool:
    """Whether hosts are no longer led to a publication.

    ``rollouts`` are its attempts. ``last_over`` is the last sequence that all hosts have, or that a later one
    replaced. A rollout also ends with failures, or is aborted.
    """
    has_ended = bool(rollouts) and rollouts[-1].ended is not None
    return sequence <= last_over or has_ended


_NO_NAMES: Mapping[str, str] = {}


def publication_trace(
    record: PublicationRecord,
    rollouts: Sequence[RolloutState],
    steps: Mapping[str, Sequence[StepTime]],
    acts: Iterable[Act] = (),
    *,
    is_over: bool,
    names: Mapping[str, str] = _NO_NAMES,
) -> Trace:
    """Return the spans of a publication.

    ``rollouts`` are its attempts, ``steps`` the observed steps by host id, ``acts`` the acts of operators, and
    ``names`` the names of hosts by id. Without a rollout, all hosts are one group.
    """
    hosts = dict(_host_spans(record, rollouts, steps, names))
    groups = [*_group_spans(rollouts, hosts, is_over=is_over)]
    ends = [span.end for span in (*groups, *hosts.values()) if span.end is not None]
    failed = [result for result in record.results.values() if result.error is not None]
    root = Span(
        key="publication",
        kind=SpanKind.PUBLICATION,
        name=f"publication {short(record.revision)}",
        start=record.time,
        end=max([record.time, *ends]) if is_over else None,
        error="" if not failed else f"{len(failed)} hosts failed",
        facts=_facts(record),
        events=tuple(SpanEvent(act.time, str(act)) for act in acts),
    )
    spans: list[Span] = [root]
    for group in groups:
        spans.append(group)
        for host in (span for span in hosts.values() if span.parent == group.key):
            spans.append(host)
            spans += _step_spans(host, steps.get(str(host.facts["host.id"]), ()))
    return Trace(record.sequence, tuple(spans), is_over)


def _facts(record: PublicationRecord) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "zkdeployment.revision": str(record.revision),
        "zkdeployment.sequence": record.sequence,
        "zkdeployment.hosts": record.hosts,
    }
    if record.origin is not None:
        facts |= {"vcs.author": record.origin.author, "vcs.subject": record.origin.subject}
    return facts


def _group_of(rollouts: Sequence[RolloutState]) -> dict[str, str]:
    """Return the group of each host: in the last attempt, the first group that began with the host."""
    found: dict[str, str] = {}
    for state in rollouts:
        members = state.rollout.members
        own: dict[str, str] = {}
        for group in dict.fromkeys([*state.rollout.order, *members]):
            for host in members[group]:
                own.setdefault(host, group)
        found |= own
    return found


def _host_spans(
    record: PublicationRecord,
    rollouts: Sequence[RolloutState],
    steps: Mapping[str, Sequence[StepTime]],
    names: Mapping[str, str],
) -> Iterator[tuple[str, Span]]:
    """Yield the span of each host with its id.

    The record of a large publication only counts the hosts that succeeded: a host without a step has then ended.
    """
    groups = _group_of(rollouts)
    for host_id in sorted({*record.results, *steps}):
        result, shown = record.results.get(host_id), steps.get(host_id, ())
        begins = [step.begun for step in shown]
        if result is not None:
            begins.append(result.time - result.seconds)
        start = max(record.time, min(begins))
        end = shown[-1].ended if shown and record.left_out else None
        if result is not None:
            end = max(start, result.time)
        yield (
            host_id,
            Span(
                key=f"host {host_id}",
                kind=SpanKind.HOST,
                name=names.get(host_id, host_id) if result is None else result.host_name,
                start=start,
                end=end,
                parent=f"group {groups.get(host_id, ALL_HOSTS)}",
                error="" if result is None else result.error or "",
                facts=_host_facts(host_id, result),
                events=tuple(SpanEvent(step.begun, step.step) for step in shown if step.is_waiting),
            ),
        )


def _host_facts(host_id: str, result: HostResult | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"host.id": host_id}
    if result is not None:
        facts |= {"host.name": result.host_name, "zkdeployment.seconds": result.seconds}
        if result.failed is not None:
            facts["zkdeployment.failed.step"] = result.failed.step
    return facts


def _group_spans(rollouts: Sequence[RolloutState], hosts: Mapping[str, Span], *, is_over: bool) -> Iterator[Span]:
    """Yield the groups with hosts that began, in the order in which they began."""
    last = rollouts[-1] if rollouts else None
    for key in dict.fromkeys(span.parent or "" for span in sorted(hosts.values(), key=_start)):
        own = [span for span in hosts.values() if span.parent == key]
        name = key.removeprefix("group ")
        progress = None if last is None else last.rollout.progress.get(name)
        members = len(own) if last is None else len(last.rollout.members.get(name, own))
        ended = is_over or (len(own) >= members and all(span.end is not None for span in own))
        yield Span(
            key=key,
            kind=SpanKind.GROUP,
            name=name,
            start=min(span.start for span in own),
            end=max((span.end for span in own if span.end is not None), default=None) if ended else None,
            parent="publication",
            error="" if progress is None else progress.reason,
            facts={"zkdeployment.group": name, "zkdeployment.hosts": members},
        )


def _start(span: Span) -> float:
    return span.start


def _step_spans(host: Span, steps: Iterable[StepTime]) -> Iterator[Span]:
    for number, step in enumerate(steps):
        end = step.ended if step.ended is not None else host.end
        yield Span(
            key=f"{host.key} step {number}",
            kind=SpanKind.STEP,
            name=step.step,
            start=step.begun,
            end=None if end is None else max(end, step.begun),
            parent=host.key,
            facts=_step_facts(step),
            is_waiting=step.is_waiting,
            is_rebooting=step.deadline is not None,
        )


def _step_facts(step: StepTime) -> dict[str, Any]:
    facts: dict[str, Any] = {"zkdeployment.waiting": step.is_waiting}
    return facts if step.deadline is None else facts | {"zkdeployment.deadline": step.deadline}


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
