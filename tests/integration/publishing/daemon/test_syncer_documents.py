"""Documents that the syncer publishes with the tree, quarantines that it enforces, and ``since``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from support.strategies import advanced_rollout, begun_rollout, ended_rollout, group, plain_hosts, strategy
from zkdeployment.base.errors import TreeError
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.publishing.rules.quarantines import QUARANTINE, Quarantine
from zkdeployment.strategies.store.records import encode_state
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from support.publishing import Publishing

TREE = "/who\n  /web : shop\n    version = '1.0'\n    /deploy\n      /h1\n"
DOCUMENT = """\
schema: zkdeployment/Quarantine/v1
metadata: {name: %s, version: %s}
data: {reason: loses orders, by: alice@example.com, time: 2026-11-22}
"""
STRATEGY = """\
schema: shipyard/DeploymentStrategy/v1
metadata: {name: deployment-strategy}
data:
  groups: [{name: all, critical: true, depends_on: [], selectors: []}]
"""
SENTENCE = "shop 2.0 is quarantined by alice@example.com since 2026-11-22: loses orders"


def quarantines(publishing: Publishing) -> dict[tuple[str, ...], Quarantine]:
    with Session(publishing.zookeeper) as session:
        return ZooKeeperFleetReader(session).documents().of(QUARANTINE)


def written(publishing: Publishing) -> dict[str, tuple[str, int]]:
    """Return the transaction that wrote each document, by path below the documents' node."""
    directory = "/zkdeployment/documents/quarantine"
    names = publishing.client.get_children(directory)
    return {name: publishing.client.get(f"{directory}/{name}")[1].mzxid for name in names}


def sequences(publishing: Publishing) -> tuple[Any, Any]:
    properties = publishing.get("/zkdeployment/targets") or {}
    return properties["sequence"], properties["since"]


@pytest.mark.parametrize("whole", [False, True], ids=["over the text", "over the live tree"])
def test_documents_are_published_and_only_those_that_change_are_written(publishing: Publishing, whole: bool):
    first = publishing.push(TREE, a_yaml=DOCUMENT % ("shop", "2.0"), b_yaml=DOCUMENT % ("git://host/x", "v1"))
    publishing.sync()
    publishing.register("h1", first)
    assert quarantines(publishing)["shop", "2.0"] == Quarantine(
        "shop", "2.0", "loses orders", "alice@example.com", "2026-11-22"
    )
    before = written(publishing)
    assert sorted(before) == ["git%3A%2F%2Fhost%2Fx:v1", "shop:2.0"]
    more = f"{DOCUMENT % ('shop', '3.0')}---\n{DOCUMENT % ('shop', '2.0')}"
    publishing.push(TREE, a_yaml=more, b_yaml=None)
    if whole:
        publishing.invalidate()
    assert "nodes: no change; targets: 0 changed; documents: 2 changed" in publishing.sync(force=whole)
    after = written(publishing)
    assert sorted(after) == ["shop:2.0", "shop:3.0"]
    assert after["shop:2.0"] == before["shop:2.0"]


def test_a_publication_of_only_documents_keeps_since_and_other_publications_do_not(publishing: Publishing):
    first = publishing.push(TREE)
    publishing.sync()
    publishing.register("h1", first)
    begun, since = sequences(publishing)
    assert since == begun
    second = publishing.push(TREE, a_yaml=DOCUMENT % ("shop", "2.0"))
    publishing.sync()
    later, since = sequences(publishing)
    assert (later > begun, since, publishing.version) == (True, begun, second)
    publishing.put("/hosts/h1", {"name": "h1", "version": second})
    third = publishing.push(TREE.replace("1.0", "1.1"))
    publishing.sync()
    last, since = sequences(publishing)
    assert (last > later, since) == (True, last)
    publishing.put("/hosts/h1", {"name": "h1", "version": third})
    publishing.push(TREE.replace("1.0", "1.1"), a_yaml=None)
    publishing.invalidate()  # an import by hand may have changed what hosts read
    publishing.sync(force=True)
    assert sequences(publishing)[1] == sequences(publishing)[0]


def test_drift_that_a_publication_corrects_concerns_hosts(publishing: Publishing):
    publishing.push(TREE)
    publishing.sync()
    publishing.push(TREE, a_yaml=DOCUMENT % ("shop", "2.0"))
    publishing.put("/who/web", {"type": "shop", "version": "1.0", "by-hand": True})
    publishing.sync(force=True)
    assert sequences(publishing)[1] == sequences(publishing)[0]


@pytest.mark.parametrize("reported", [False, True], ids=["an old agent", "a new agent"])
def test_under_a_strategy_since_is_kept_after_a_completed_rollout_if_all_agents_know_it(
    publishing: Publishing, reported: bool
):
    first = publishing.push(TREE, strategy_yaml=STRATEGY)
    publishing.sync()
    begun, _ = sequences(publishing)
    publishing.register("h1", first, **({"sequence": begun} if reported else {}))
    publishing.put("/zkdeployment/rollouts", {"current": f"{begun}-1"})
    put_rollout(publishing, begun, first)
    publishing.push(TREE, strategy_yaml=STRATEGY, a_yaml=DOCUMENT % ("shop", "2.0"))
    publishing.sync()
    last, since = sequences(publishing)
    assert since == (begun if reported else last)


def put_rollout(publishing: Publishing, sequence: int, revision: str) -> None:
    """Write the record of a completed rollout."""
    state = replace(
        ended_rollout(advanced_rollout(begun_rollout(strategy(group("all")), plain_hosts(["h1"])))),
        sequence=sequence,
        revision=revision,
    )
    publishing.client.create(f"/zkdeployment/rollouts/{sequence}-1", encode_state(state), makepath=True)


def test_a_quarantined_version_is_refused_with_who_when_and_why(publishing: Publishing):
    first = publishing.push(TREE, a_yaml=DOCUMENT % ("shop", "2.0"))
    publishing.sync()
    publishing.register("h1", first)
    publishing.push(TREE.replace("1.0", "2.0-3"))
    with pytest.raises(TreeError, match=f"/who/web: {SENTENCE}; choose another version"):
        publishing.sync()
    publishing.push(TREE.replace("1.0", "2.0-3"), a_yaml=None)
    for force in (False, True):
        with pytest.raises(TreeError, match=f"{SENTENCE}; this change removes the quarantine"):
            publishing.sync(force=force)
    lifted = publishing.push(TREE)
    publishing.sync()
    publishing.put("/hosts/h1", {"name": "h1", "version": lifted})
    wanted = publishing.push(TREE.replace("1.0", "2.0-3"))
    publishing.sync()
    assert publishing.version == wanted
