"""The checker of histories: it accepts a good history, and finds each broken promise in a bad one."""

import json

import pytest

from histories.checker import GRACE, judge, read_history


def begin(time, script="a", **changed):
    event = {"event": "begin", "time": time, "script": script, "host": "host1", "lock": "/app", "reachable": 0.0}
    return {**event, "despite_stop": False, **changed}


def end(time, script="a"):
    return {"event": "end", "time": time, "script": script}


def release(time, lock="/app"):
    return {"event": "release", "time": time, "lock": lock}


def cluster(time, version="r1", written=1, stops=(), since=None):
    since = time if since is None else since
    event = {"event": "cluster", "time": time, "since": since, "version": version, "written": written}
    return {**event, "stops": None if stops is None else list(stops)}


def down(time, host="host1", lock="/app"):
    return {"event": "down", "time": time, "host": host, "lock": lock}


def reboot(time, event="reboot", host="host1", **facts):
    return {"event": event, "time": time, "host": host, **facts}


CONVERGED = {"event": "converged", "time": 900.0}
STOPPED = [cluster(10.0, None, 2), cluster(100.0, None, 2)]
LATE = 11.0 + GRACE

GOOD = {
    "one script after the other": [begin(1.0), end(2.0), begin(2.0, "b"), end(3.0, "b"), release(3.0), CONVERGED],
    "two scripts under two locks": [begin(1.0), begin(1.5, "b", lock="/other")],
    "two scripts without a lock": [begin(1.0, lock=None), begin(1.5, "b", lock=None)],
    "another lock is released": [begin(1.0), release(1.5, "/other")],
    "a script that begins before its host learns of the stop": [*STOPPED, begin(9.0 + GRACE)],
    "a script that begins right after its host is reachable": [*STOPPED, begin(LATE, reachable=12.0)],
    "a script that no stop prevents": [*STOPPED, begin(LATE, despite_stop=True)],
    "a script after the last moment that is known as stopped": [*STOPPED, begin(101.0), cluster(102.0, "r2", 3)],
    "a stop that nobody saw last": [cluster(10.0, None, 2), begin(LATE), cluster(LATE + 1, None, 3)],
    "a stop that stops": [cluster(1.0, None, 2, ["host1"])],
    "stops that were not read with the version": [cluster(1.0, stops=None)],
    "one host after the other is down": [
        down(1.0),
        reboot(2.0, "up"),
        down(2.0, "host2"),
        begin(2.5, host="host2"),
    ],
    "two hosts of two locks are down": [
        down(1.0),
        down(1.5, "host2", "/other"),
        begin(2.0, lock=None, host="host3"),
    ],
    "a host that goes down twice": [down(1.0), down(2.0), begin(2.5)],
    "a reboot that ends": [reboot(1.0), reboot(2.0, "back"), CONVERGED],
    "a host that is missing": [reboot(1.0), reboot(2.0, "missing", stopped=True), CONVERGED],
    "a host that is missing for an unknown time": [reboot(1.0), reboot(2.0, "missing", stopped=None)],
}

BAD = {
    "two scripts under /app: a runs, b begins on host1 at 1.5 s": [begin(1.0), begin(1.5, "b"), end(2.0)],
    "/app is released at 1.5 s while a runs": [begin(1.0), release(1.5), end(2.0)],
    "a ends at 2.0 s, but never began": [end(2.0)],
    "the fleet has converged, but a still runs": [begin(1.0), CONVERGED],
    f"a begins on host1 at {LATE} s, {LATE - 10} s after the stop": [*STOPPED, begin(LATE)],
    f"b begins on host1 at {LATE} s, {LATE - 10} s after the stop": [*STOPPED, begin(LATE, "b", reachable=10.5)],
    "at 1.0 s a stop is on record (host1), but the fleet runs at r1": [cluster(1.0, stops=["host1"])],
    "two hosts of /app are down at 1.5 s: host1 and host2": [down(1.0), down(1.5, "host2")],
    "a begins on host2 at 1.5 s under /app while host1 is down": [down(1.0), begin(1.5, host="host2")],
    "/app is released at 1.5 s while host1 is down": [down(1.0), release(1.5)],
    "host1 is missing at 2.0 s, but the fleet goes on": [reboot(2.0, "missing", stopped=False)],
    "the fleet has converged, but the reboot of host1 has no end": [reboot(1.0), CONVERGED],
}


@pytest.mark.parametrize("history", GOOD.values(), ids=GOOD)
def test_a_history_that_keeps_the_promises_has_no_finding(history):
    assert judge(history) == []


@pytest.mark.parametrize(("finding", "history"), BAD.items())
def test_a_broken_promise_is_found_in_any_order_of_lines(finding, history):
    assert judge(history) == judge(history[::-1]) == [finding]


def test_a_history_is_read_from_its_lines():
    events = [begin(1.0), end(2.0), release(2.0), cluster(3.0), CONVERGED]
    assert read_history(map(json.dumps, events)) == events


@pytest.mark.parametrize(
    "event", [{}, {"event": "fall", "time": 1.0}, {**end(1.0), "host": "x"}, {"event": "end"}]
)
def test_a_line_that_is_not_an_event_is_refused(event):
    with pytest.raises(ValueError, match="line 1 of the history is not an event"):
        read_history([json.dumps(event)])
