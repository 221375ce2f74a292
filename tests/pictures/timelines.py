"""Pictures over time: a lock that goes from host to host, and a rollout through its groups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pictures.drawing import Picture
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.reading import read_documents, read_facts
from zkdeployment.strategies.documents import strategy_in_force
from zkdeployment.strategies.permission import Phase
from zkdeployment.strategies.state_machine import begin, next_task, record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.strategies.strategy import Strategy

EXAMPLES = Path(__file__).parents[2] / "etc" / "manual" / "examples"

_LEFT = 84


def locks() -> Picture:
    """Draw the lock of one service over time; one of its holders loses its session."""
    picture = Picture(
        "locks",
        "The lock of one service over time",
        "app1 holds the lock, runs its script and releases the lock. app2 gets the lock. Its session ends while"
        " its script runs, so the lock is free, but the record of its work remains. app3 gets the lock and waits"
        " until the script has ended, at most for the lock delay. Then it runs its own script.",
    )
    for number, host in enumerate(("app1", "app2", "app3")):
        y = 50 + 56 * number
        picture.text(8, y + 19, host, "strong")
        picture.stroke(f"M{_LEFT} {y + 40}H712", "grid")
    _bar(picture, 96, 50, 140, "script", "accent")
    _bar(picture, 96, 106, 140, "waits for the lock", "wait")
    _bar(picture, 236, 106, 110, "script", "accent")
    _bar(picture, 346, 106, 124, "script still runs", "bad")
    _bar(picture, 96, 162, 250, "waits for the lock", "wait")
    _bar(picture, 346, 162, 124, "lock delay", "wait")
    _bar(picture, 470, 162, 140, "script", "accent")
    for x, y, label in (
        (236, 16, "app1 releases the lock"),
        (346, 32, "the session of app2 ends"),
        (470, 16, "the script of app2 has ended"),
    ):
        picture.stroke(f"M{x} {y + 6}V220", "line dash")
        picture.text(x, y, label, "small soft mid")
    picture.arrow("M96 226H712")
    picture.text(712, 246, "time", "small soft end")
    picture.box(96, 236, 12, 12, kind="bad", corner=2)
    picture.text(
        114,
        246,
        "without the lock: the record of the work makes app3 wait, for the lock delay at most",
        "small soft",
    )
    return picture


def _bar(picture: Picture, x: float, y: float, width: float, message: str, kind: str) -> None:
    picture.box(x, y, width, 30, kind=kind, corner=4)
    picture.text(x + width / 2, y + 20, message, "small mid")


def example() -> Strategy:
    """Return the strategy of the manual's example."""
    documents = read_documents([SourceFile("strategy.yaml", (EXAMPLES / "strategy.yaml").read_bytes())])
    strategy = strategy_in_force(documents)
    if strategy is None:
        raise ValueError(f"etc/manual/examples/strategy.yaml: {documents.problems}")
    return strategy


def slots() -> Iterator[tuple[str, str, str, int]]:
    """Return the work of hosts in the example's rollout: group, host, work, and slot of time."""
    strategy = example()
    hosts = read_facts("hosts.yaml", (EXAMPLES / "hosts.yaml").read_bytes())
    rollout, now = begin(strategy, hosts), 0
    while (task := next_task(rollout)) is not None:
        pace = strategy.group(task.group).pace
        size, share = len(rollout.members[task.group]), pace.max_parallel
        width = size if share is None else max(1, size * share.number // 100) if share.percent else share.number
        for number, host in enumerate(task.hosts):
            yield task.group, host, task.phase.value, now + number // width
        now += -(-len(task.hosts) // width)
        if task.phase is Phase.DEPLOY and pace.bake_time:
            yield from ((task.group, host, "bake", now) for host in task.hosts)
            now += 1
        rollout = record(rollout, task, task.hosts)


def rollout() -> Picture:
    """Draw the example's rollout through its groups."""
    todo = [*slots()]
    picture = Picture(
        "rollout",
        "A rollout through the groups of the example",
        "; ".join(f"slot {slot + 1}: {group}: {host}: {task}" for group, host, task, slot in todo),
    )
    rows = list(dict.fromkeys((group, host) for group, host, _, _ in todo))
    width = (712 - 150) / (1 + max(slot for *_, slot in todo))
    kinds = {"prepare": "box", "deploy": "accent", "bake": "wait"}
    tops, y, last = {}, 12, ""
    for group, host in rows:
        if group != last:
            y += 12 if last else 0
            picture.text(8, y + 18, group, "strong")
        tops[group, host], last = y, group
        picture.text(82, y + 18, host, "soft")
        y += 34
    for group, host, task, slot in todo:
        x, top = 150 + slot * width, tops[group, host]
        picture.box(x + 1, top, width - 2, 28, kind=kinds[task], corner=4)
        picture.text(x + width / 2, top + 18, task, "small mid")
    picture.arrow(f"M150 {y + 8}H712")
    picture.text(712, y + 26, "time", "small soft end")
    return picture
