"""The refusals that the syncer records: of which commit, why, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import pytest

from zkdeployment.base.errors import NotConvergedError, RefusedError, SourceError, TreeError
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.fleet.views.fleet_health import MonitoredFleet, fleet_health
from zkdeployment.fleet.views.health import Health, HealthLimits
from zkdeployment.fleet.views.status import fleet_status
from zkdeployment.publishing.records import GuardOverrides, Refusal
from zkdeployment.publishing.sources.git.command import GitTimeoutError
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.publishing.store.requests import BYTES_LIMIT, REFUSALS_LIMIT, write_refusal
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from support.publishing import Publishing
    from zkdeployment.base.cluster import Revision
    from zkdeployment.fleet.views.snapshot import FleetSnapshot

TREE = "/who\n  /web : shop\n    version = '1.0'\n    /deploy\n      /h1\n"
BAD = "/who\n  x = oops\n  y z\n"


def snapshot(publishing: Publishing) -> FleetSnapshot:
    with Session(publishing.zookeeper) as session:
        return ZooKeeperFleetReader(session).snapshot()


def refusals(publishing: Publishing) -> dict[object, tuple[str, ...]]:
    with Session(publishing.zookeeper) as session:
        return {refusal.revision: refusal.problems for refusal in ZooKeeperFleetReader(session).refusals()}


def test_a_refused_tip_is_recorded_and_shown_until_another_tip_is_on_the_branch(publishing: Publishing):
    first = publishing.push(TREE)
    publishing.sync()
    publishing.register("h1", first)
    assert snapshot(publishing).refusal is None
    bad = publishing.push(BAD)
    for _ in range(2):
        with pytest.raises(TreeError):
            publishing.sync()
    refusal = snapshot(publishing).refusal
    assert refusal is not None
    assert (refusal.revision, len(refusal.problems)) == (bad, 2)
    assert refusal.problems[0].startswith("a.zk:2:7: ")
    assert (refusal.author, refusal.subject) == ("Tester <tester@example.com>", "a change")
    status = fleet_status(snapshot(publishing))
    assert status.to_json()["refusal"] == refusal.to_json()
    verdict = fleet_health(
        MonitoredFleet(snapshot(publishing)), now=refusal.time + 120, limits=HealthLimits(15, 30)
    )
    assert verdict.health is Health.WARNING
    assert f'the tip {bad[:12]} "a change" by Tester is refused, 2 min ago: a.zk:2:7: ' in verdict.line
    assert verdict.line.endswith(" and 1 more")

    publishing.put("/hosts/h1", {"name": "h1", "version": None})
    publishing.push(TREE.replace("1.0", "1.1"))
    with pytest.raises(NotConvergedError):
        publishing.sync()
    assert snapshot(publishing).refusal is None, "the fleet has to wait, but the tip is another one"
    assert list(refusals(publishing)) == [bad]


def test_a_guards_refusal_is_recorded_and_withdrawn_when_an_operator_overrides_it(publishing: Publishing):
    many = TREE + "".join(f"      /h{number}\n" for number in range(2, 11))
    first = publishing.push(many)
    publishing.sync()
    publishing.register("h1", first)
    tip = publishing.push(TREE)
    with pytest.raises(RefusedError):
        publishing.sync()
    assert list(refusals(publishing)) == [tip]
    assert "it would end 9 of 10 deployments" in refusals(publishing)[tip][0]
    publishing.sync(force=True, overrides=GuardOverrides(mass_removal=True))
    assert snapshot(publishing).refusal is None


@pytest.mark.parametrize(
    "error",
    [
        GitTimeoutError("git log did not end within 300 s and was stopped"),
        SourceError("no access to the repository"),
    ],
)
def test_a_tip_that_cannot_be_read_is_not_refused(
    publishing: Publishing, monkeypatch: pytest.MonkeyPatch, error: SourceError
):
    def fail(_source: GitSource, _revision: Revision) -> NoReturn:
        raise error

    publishing.push(TREE)
    monkeypatch.setattr(GitSource, "files", fail)
    with pytest.raises(SourceError, match=str(error)):
        publishing.sync()
    assert refusals(publishing) == {}


def test_a_tip_without_tree_files_is_refused(publishing: Publishing):
    tip = publishing.repository.commit({"README": "a tree will follow\n"})
    with pytest.raises(SourceError):
        publishing.sync()
    assert refusals(publishing) == {tip: (f"revision {tip} has no tree files (*.zk) at its top",)}


def test_a_bounded_number_of_refusals_is_kept(publishing: Publishing):
    with Session(publishing.zookeeper) as session:
        for number in range(REFUSALS_LIMIT + 20):
            write_refusal(session, Refusal(f"{number:040x}", ("x" * 500,) * 20, float(number)))
        node = session.get(paths.REFUSALS)
        assert node is not None
        assert len(node.data) <= BYTES_LIMIT
        kept = ZooKeeperFleetReader(session).refusals()
        assert kept[-1].time == REFUSALS_LIMIT + 19
        assert 5 < len(kept) <= REFUSALS_LIMIT
