"""Spans follow from the record of a publication, its rollouts, and the steps that hosts showed."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.strategies import begun_rollout, ended_rollout, group, plain_hosts, strategy
from zkdeployment.base.act import Act
from zkdeployment.base.deployment import HostResult
from zkdeployment.fleet.traces.spans import (
    SpanKind,
    StepTime,
    Trace,
    is_publication_over,
    otlp_requests,
    publication_trace,
)
from zkdeployment.publishing.records import PublicationRecord
from zkdeployment.strategies.state import Ending


def record(*results: HostResult, **fields: Any) -> PublicationRecord:
    return PublicationRecord("a" * 40, 100.0, 7, 7, results={one.host_id: one for one in results}, **fields)


def result(host: str, time: float, seconds: float, error: str | None = None) -> HostResult:
    return HostResult(host, f"{host}.example.com", time, seconds, error)


def listed(trace: Trace) -> list[tuple[str, str, float, float | None]]:
    return [(span.kind.value, span.name, span.start, span.end) for span in trace.spans]


def test_a_publication_has_groups_hosts_and_steps():
    rollouts = [begun_rollout(strategy(group("first", hosts="a"), group("rest", "first")), plain_hosts("ab"))]
    steps = {
        "a": [StepTime("waits to deploy: for first", 101.0, 103.0), StepTime("deploy /web 0", 103.0, 109.0)],
        "b": [StepTime("wait for the lock of /web, held by a", 111.0)],
    }
    trace = publication_trace(record(result("a", 110.0, 9.0)), rollouts, steps, is_over=False)
    assert listed(trace) == [
        ("publication", "publication aaaaaaaaaaaa", 100.0, None),
        ("group", "first", 101.0, 110.0),
        ("host", "a.example.com", 101.0, 110.0),
        ("step", "waits to deploy: for first", 101.0, 103.0),
        ("step", "deploy /web 0", 103.0, 109.0),
        ("group", "rest", 111.0, None),
        ("host", "b", 111.0, None),
        ("step", "wait for the lock of /web, held by a", 111.0, None),
    ]
    waits = [event.name for span in trace.spans if span.kind is SpanKind.HOST for event in span.events]
    assert waits == ["waits to deploy: for first", "wait for the lock of /web, held by a"]


def test_the_step_of_a_host_that_reboots_has_the_deadline():
    steps = {"a": [StepTime("reboot", 101.0, 102.0), StepTime("rebooting", 102.0, 103.0, 902.0)]}
    reboot, rebooting = publication_trace(record(), [], steps, is_over=True).spans[-2:]
    assert (reboot.is_rebooting, rebooting.is_rebooting) == (False, True)
    assert reboot.facts == {"zkdeployment.waiting": False}
    assert rebooting.facts == {"zkdeployment.waiting": False, "zkdeployment.deadline": 902.0}


def test_without_a_rollout_all_hosts_are_one_group():
    trace = publication_trace(
        record(result("a", 110.0, 5.0), result("b", 120.0, 3.0, "boom")), [], {}, is_over=True
    )
    assert listed(trace)[:2] == [
        ("publication", "publication aaaaaaaaaaaa", 100.0, 120.0),
        ("group", "all hosts", 105.0, 120.0),
    ]
    assert [span.error for span in trace.spans] == ["1 hosts failed", "", "", "boom"]


def test_acts_are_events_of_the_publication():
    act = Act("ann@desk", "stop", "too slow", 105.0)
    root = publication_trace(record(), [], {}, [act], is_over=True).spans[0]
    assert [(event.time, event.name) for event in root.events] == [(105.0, "stop by ann@desk: too slow")]


def test_requests_have_the_json_form_of_the_protocol():
    trace = publication_trace(record(result("a", 110.0, 5.0, "boom")), [], {}, is_over=True)
    (body,) = map(json.loads, otlp_requests(trace, site="https://deploy.example"))
    (resource,) = body["resourceSpans"]
    assert {"key": "service.name", "value": {"stringValue": "zkdeployment"}} in resource["resource"]["attributes"]
    root, _, host = resource["scopeSpans"][0]["spans"]
    assert (len(root["traceId"]), len(root["spanId"])) == (32, 16)
    assert "parentSpanId" not in root
    assert root["startTimeUnixNano"] == "100000000000"
    assert host["status"] == {"code": 2, "message": "boom"}
    assert {"key": "zkdeployment.sequence", "value": {"intValue": "7"}} in root["attributes"]


def test_large_traces_are_several_requests_and_unended_spans_are_omitted():
    hosts = [result(f"h{number}", 110.0, 5.0) for number in range(2500)]
    trace = publication_trace(record(*hosts), [], {"late": [StepTime("deploy", 101.0)]}, is_over=True)
    bodies = map(json.loads, otlp_requests(trace, site="s"))
    sizes = [len(body["resourceSpans"][0]["scopeSpans"][0]["spans"]) for body in bodies]
    assert sizes == [2000, 502]


times = st.floats(100.0, 200.0)


@given(
    st.dictionaries(
        st.sampled_from("abcd"),
        st.tuples(times, st.floats(0.0, 100.0), st.none() | st.just("boom")),
    ),
    st.dictionaries(st.sampled_from("abcde"), st.lists(times, min_size=1, max_size=3)),
    st.booleans(),
)
def test_spans_stand_inside_their_parents_and_ids_are_unique(results, shown, is_over):
    steps = {host: [StepTime("deploy", begun) for begun in sorted(begins)] for host, begins in shown.items()}
    made = record(*(result(host, *values) for host, values in results.items()))
    trace = publication_trace(made, [], steps, is_over=is_over)
    spans = {span.key: span for span in trace.spans}
    assert len({trace.span_id(key) for key in spans}) == len(trace.spans)
    for span in trace.spans:
        assert span.end is None or span.end >= span.start
        if span.parent is not None:
            parent = spans[span.parent]
            assert list(spans).index(parent.key) < list(spans).index(span.key)
            assert parent.start <= span.start or span.kind is SpanKind.STEP
    assert publication_trace(made, [], steps, is_over=is_over).id == trace.id


def test_a_publication_is_over_when_hosts_are_no_longer_led_to_it():
    running = begun_rollout()
    aborted = ended_rollout(running, Ending.ABORTED)
    assert not is_publication_over(7, (), 6)
    assert not is_publication_over(7, (aborted, running), 6)
    assert is_publication_over(7, (running, aborted), 6)
    assert is_publication_over(7, (running,), 7)
