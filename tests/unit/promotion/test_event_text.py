"""The text of event streams, and the events that are a reason to ask a service."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.base.errors import ServiceError
from zkdeployment.promotion.streams import EventText, HostCount, StreamedEvent

#: What a service sends at the beginning.
BEGIN = b'retry: 3000\n\nevent: feed\ndata: {"id":"zookeeper","connected":true}\nid: 17\n\n'


def host(state):
    return StreamedEvent("host", f'{{"id":"h1","state":"{state}"}}')


@pytest.mark.parametrize(
    ("text", "events"),
    [
        (BEGIN, [StreamedEvent(), StreamedEvent("feed", '{"id":"zookeeper","connected":true}')]),
        (b"id: 18\n: heartbeat\n\n", [StreamedEvent()]),
        (b":\nevent: stop\n:\ndata: 1\n\n", [StreamedEvent("stop", "1")]),
        (b"event:stop\r\ndata:1\r\ndata: 2\r\n\r\n", [StreamedEvent("stop", "1\n2")]),
        (b"event: stop\ndata: 1\n", []),
        (b"event: a\n\ndata: 1\n\n", [StreamedEvent("a"), StreamedEvent("", "1")]),
        (b"<html>\n<h1>502\n", []),
        (b"data: \xff\n\n", [StreamedEvent("", "\ufffd")]),
        (b"data\nunknown: x\ndata: a: b\n\n", [StreamedEvent("", "\na: b")]),
    ],
)
def test_events_end_with_an_empty_line(text, events):
    assert EventText().feed(text) == events


@given(
    st.lists(st.sampled_from([b"event: stop\n", b"data: {}\n", b"\n", b": x\r\n", b"\xff", b"\r\n"])), st.data()
)
def test_the_pieces_in_which_a_text_arrives_do_not_matter(lines, data):
    text = b"".join(lines)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=5)))
    assembled, events = EventText(), []
    for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        events += assembled.feed(text[begin:end])
    assert events == EventText().feed(text)


@pytest.mark.parametrize(
    "piece", [b"x" * 1000, b"data: " + b"x" * 994 + b"\n", b"data: x\n" * 1000, b"data\n" * 1000]
)
def test_an_endless_line_and_an_endless_event_are_refused(piece):
    text = EventText()
    with pytest.raises(ServiceError, match="an event of more than 65536 bytes"):
        deque(map(text.feed, [piece] * 1000), 0)


def test_lines_that_belong_to_no_event_are_dropped():
    text = EventText()
    for _ in range(1000):
        assert text.feed(b": a comment of a proxy\n" * 100) == []


@pytest.mark.parametrize("kind", ["feed", "publication", "stop", "rollout", "reset", "unheard-of", ""])
def test_every_event_but_those_of_hosts_is_a_reason_to_ask(kind):
    assert HostCount().is_reason(StreamedEvent(kind, "{}"), 5)


def test_a_sign_of_life_is_no_reason_to_ask():
    assert not HostCount().is_reason(StreamedEvent(), 5)


def test_hosts_are_a_reason_when_as_many_converged_as_were_missing():
    hosts = HostCount()
    states = ["deploying", "converged", "behind", "converged", "converged", "deploying"]
    assert [hosts.is_reason(host(state), 3) for state in states] == [False] * 4 + [True, False]
    hosts.reset()
    assert not hosts.is_reason(host("converged"), 2)


def test_a_converged_host_of_a_converged_fleet_is_no_reason():
    assert not HostCount().is_reason(host("converged"), 0)


@pytest.mark.parametrize(
    "data",
    [
        '{"state":"failed"}',
        '{"state":"absent"}',
        '{"state":"forgotten"}',
        '{"state":"dancing"}',
        '{"state":["converged"]}',
        "[]",
        "not JSON",
        "[" * 60_000,
    ],
)
def test_hosts_that_fail_or_leave_and_unknown_states_are_a_reason(data):
    assert HostCount().is_reason(StreamedEvent("host", data), 100)
