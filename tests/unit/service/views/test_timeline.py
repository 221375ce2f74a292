"""The timeline of a publication: lanes, folded groups, waits, locks and flags at their places."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest

from zkdeployment.base.act import Act
from zkdeployment.base.deployment import HostResult
from zkdeployment.fleet.traces.spans import StepTime, Trace, publication_trace
from zkdeployment.publishing.records import PublicationRecord
from zkdeployment.service.pages.live_page import render
from zkdeployment.service.views.timeline import LEFT, WIDTH, TimelineSection, timeline_view

LOCK = "wait for the lock of /web, held by app1 (h1)"


def trace_of(hosts: int, steps: dict[str, list[StepTime]] | None = None, **fields: Any) -> Trace:
    """Return the trace of hosts that end one after the other, ten seconds each; the third one failed."""
    results = {
        f"h{number}": HostResult(
            f"h{number}", f"app{number}", 1010.0 + 10 * number, 10.0, "no space left" if number == 3 else None
        )
        for number in range(1, hosts + 1)
    }
    record = PublicationRecord("a" * 40, 1000.0, 7, 7, hosts=hosts, results=results)
    return publication_trace(record, [], steps or {}, fields.pop("acts", ()), is_over=True, **fields)


STEPS = {
    "h1": [StepTime("deploy /web 0", 1010.0, 1020.0)],
    "h2": [StepTime(LOCK, 1012.0, 1020.0), StepTime("deploy /web 0", 1020.0, 1030.0)],
}


def test_few_hosts_have_lanes_with_their_steps():
    view = timeline_view(trace_of(3, STEPS), TimelineSection(), 2000.0)
    assert [lane.label for lane in view.lanes] == ["all hosts: 3 hosts, 1 failed", "app3", "app1", "app2"]
    _, failed, first, second = view.lanes
    assert [bar.tone for bar in second.bars] == ["converged", "waiting", "step"]
    assert [bar.tone for bar in failed.bars] == ["failed"]
    assert failed.failed_at is not None
    assert first.failed_at is None
    assert failed.bars[0].label.endswith(": no space left")
    assert view.summary == "3 hosts, 1 failed, took 40 s"


def test_a_reboot_is_a_bar_of_its_own_with_its_deadline():
    step = "rebooting, expected back by 00:15 UTC"
    view = timeline_view(trace_of(1, {"h1": [StepTime(step, 1011.0, 1020.0, 1911.0)]}), TimelineSection(), 2000.0)
    bar = view.lanes[1].bars[-1]
    assert (bar.tone, bar.label) == ("reboot", f"{step}, 9 s")


def test_a_wait_for_a_lock_is_a_line_to_its_holder_and_listed():
    view = timeline_view(trace_of(3, STEPS), TimelineSection(), 2000.0)
    (line,) = view.lines
    places = {lane.label: lane.y for lane in view.lanes}
    assert (line.y1, line.y2) == (places["app2"] + 9, places["app1"] + 9)
    assert view.waits == (f"app2: {LOCK}, 8 s",)


def test_the_marks_of_the_time_are_round_and_differ():
    def labels(section):
        return [tick.label for tick in timeline_view(trace_of(300), section, 9000.0).ticks]

    assert labels(TimelineSection()) == ["+0 s", "+10 min", "+20 min", "+30 min", "+40 min", "+50 min"]
    assert labels(TimelineSection(55.0, 130.0)) == [
        "+1:00",
        "+1:10",
        "+1:20",
        "+1:30",
        "+1:40",
        "+1:50",
        "+2:00",
        "+2:10",
    ]


def test_hosts_that_the_record_only_counts_have_ended_and_have_their_names():
    record = PublicationRecord("r2", 1000.0, 7, 7, hosts=2, left_out=1)
    steps = {"h1": [StepTime("deploy /web 0", 1010.0, 1020.0)], "h2": [StepTime("deploy /web 0", 1010.0)]}
    trace = publication_trace(record, [], steps, is_over=False, names={"h1": "app1"})
    view = timeline_view(trace, TimelineSection(), 1100.0)
    assert [(lane.label, [bar.tone for bar in lane.bars]) for lane in view.lanes[1:]] == [
        ("app1", ["converged", "step"]),
        ("h2", ["deploying", "step"]),
    ]


def test_acts_are_flags():
    act = Act("ann@desk", "stop", "too slow", 1020.0)
    view = timeline_view(trace_of(3, acts=[act]), TimelineSection(), 2000.0)
    assert [flag.label for flag in view.flags] == ["stop by ann@desk: too slow"]
    assert view.flags[0].x == pytest.approx((LEFT + WIDTH - 16) / 2, abs=1)


def test_many_hosts_are_folded_until_their_group_is_asked_for():
    view = timeline_view(trace_of(300), TimelineSection(), 9000.0)
    (lane,) = view.lanes
    assert lane.label == "all hosts: 300 hosts, 1 failed"
    assert lane.href == "/history/7/timeline?group=all+hosts"
    assert {bar.tone for bar in lane.bars} == {"deploying", "failed"}
    unfolded = timeline_view(trace_of(300), TimelineSection(group="all hosts"), 9000.0)
    assert len(unfolded.lanes) == 202
    assert unfolded.lanes[-1].label == "and 100 more hosts"


def test_ten_thousand_hosts_are_a_small_picture():
    view = timeline_view(trace_of(10_000), TimelineSection(), 2e5)
    assert len(render("timeline_picture.svg", view=view, standalone=True)) < 40_000


def test_a_section_shows_only_a_part_of_the_time():
    whole = timeline_view(trace_of(20), TimelineSection(), 2000.0)
    part = timeline_view(trace_of(20), TimelineSection(20.0, 40.0), 2000.0)
    assert sum(bool(lane.bars) for lane in part.lanes) < sum(bool(lane.bars) for lane in whole.lanes)
    assert [label for label, _ in whole.links] == ["Zoom in"]
    assert [label for label, _ in part.links] == ["Zoom in", "Zoom out", "Whole time", "Earlier", "Later"]
    assert all(LEFT <= bar.x <= WIDTH for lane in part.lanes for bar in lane.bars)


def test_the_file_is_a_picture_of_its_own_with_hostile_names_as_text():
    trace = publication_trace(
        PublicationRecord("<b>", 1000.0, 7, 7), [], {"<i>": [StepTime("<script>", 1001.0)]}, is_over=False
    )
    view = timeline_view(trace, TimelineSection(), 1010.0)
    root = ET.fromstring(render("timeline_picture.svg", view=view, standalone=True))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    names = {element.tag.partition("}")[2] for element in root.iter()}
    assert names <= {"svg", "title", "style", "defs", "pattern", "rect", "path", "g", "text", "clipPath"}
