"""Strategies that the syncer publishes with the tree, and its refusals because of a strategy or a rollout."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.strategies import (
    EXAMPLE_FILE,
    active_rollout,
    advanced_rollout,
    begun_rollout,
    ended_rollout,
    example,
    group,
    plain_hosts,
    strategy,
)
from zkdeployment.base.errors import NotConvergedError, TreeError
from zkdeployment.base.host import Facts
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.fleet.views.status import HostState, fleet_status
from zkdeployment.publishing.records import SyncOptions
from zkdeployment.publishing.store.documents import read_strategy
from zkdeployment.strategies.store.records import encode_state
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from support.publishing import Publishing
    from zkdeployment.base.json_values import Value
    from zkdeployment.strategies.strategy import Strategy

TREE = "/who\n  /web : shop\n    version = '1.0'\n    /deploy\n      /h1\n"
STRATEGY = EXAMPLE_FILE.read_text()


def strategy_of(publishing: Publishing) -> Strategy | None:
    with Session(publishing.zookeeper) as session:
        return read_strategy(session)


def preview(publishing: Publishing, name: str = "another", **how: bool) -> list[str]:
    with publishing.syncer(name) as syncer:
        draft = syncer.preview(SyncOptions(**how)).draft
        assert draft is not None
        return [draft.sentence, *draft.describe()]


def test_a_strategy_is_published_with_the_tree_and_removed_with_its_file(publishing: Publishing):
    publishing.push(TREE, strategy_yaml=STRATEGY)
    publishing.sync()
    assert strategy_of(publishing) == example()
    assert (publishing.get("/zkdeployment/targets") or {})["strategy"] == "deployment-strategy"
    publishing.push(TREE, strategy_yaml=None)
    publishing.sync(force=True)
    assert strategy_of(publishing) is None
    assert "strategy" not in (publishing.get("/zkdeployment/targets") or {})


@pytest.mark.parametrize("whole", [False, True], ids=["over the text", "over the live tree"])
def test_a_change_of_the_strategy_alone_is_previewed_and_published(publishing: Publishing, whole: bool):
    publishing.push(TREE, strategy_yaml=STRATEGY)
    publishing.sync()
    publishing.push(TREE, strategy_yaml=STRATEGY.replace("critical: true", "critical: false", 1))
    if whole:
        publishing.invalidate()
    assert preview(publishing, force=True) == [
        "nodes: no change; targets: 0 changed; strategy: changed; documents: 1 changed",
        "change strategy deployment-strategy",
        "change group control-nodes",
    ]
    publishing.sync(force=True)
    assert strategy_of(publishing) != example()


def test_an_invalid_strategy_is_refused_with_its_position(publishing: Publishing):
    revision = publishing.push(TREE)
    publishing.sync()
    publishing.push(TREE, strategy_yaml=STRATEGY.replace("- ntp-node", "- ntp-nude", 1))
    with pytest.raises(TreeError, match=r"strategy\.yaml:15:11: data\.groups\[0\]\.depends_on\[0\]: there is no"):
        publishing.sync()
    assert publishing.version == revision
    assert strategy_of(publishing) is None


def test_a_strategy_file_without_the_configured_strategy_is_refused(publishing: Publishing):
    revision = publishing.push(TREE)
    publishing.sync()
    publishing.push(TREE, strategy_yaml=STRATEGY.replace("name: deployment-strategy", "name: careful", 1))
    with pytest.raises(TreeError, match=r"strategy\.yaml:5:9: metadata\.name: strategy careful is not in force"):
        publishing.sync()
    assert publishing.version == revision


def test_a_strategy_that_is_not_in_force_causes_a_warning(publishing: Publishing):
    spare = STRATEGY.replace("name: deployment-strategy", "name: careful", 1)
    publishing.push(TREE, strategy_yaml=STRATEGY, spare_yaml=spare)
    with publishing.syncer() as syncer:
        draft = syncer.sync().draft
    assert draft is not None
    assert "strategy careful is not in force" in str(draft.warnings[0])
    assert strategy_of(publishing) == example()


def test_a_damaged_strategy_is_replaced(publishing: Publishing):
    publishing.push(TREE, strategy_yaml=STRATEGY)
    publishing.sync()
    publishing.client.set("/zkdeployment/strategy", b"rubbish")
    publishing.sync(force=True)
    assert strategy_of(publishing) == example()


def test_the_next_revision_waits_for_the_end_of_the_rollout_but_not_for_failed_hosts(publishing: Publishing):
    published = publishing.push(TREE, strategy_yaml=STRATEGY)
    publishing.sync()
    publishing.register("good", published)
    publishing.register("bad", "older", error="boom")
    tip = publishing.push(TREE.replace("1.0", "1.1"))
    with pytest.raises(NotConvergedError, match=r"no coordinator has begun the rollout by deployment-strategy"):
        publishing.sync()
    sequence = (publishing.get("/zkdeployment/targets") or {})["sequence"]
    going = replace(begun_rollout(strategy(group("one")), plain_hosts(["good", "bad"])), sequence=sequence)
    publishing.put("/zkdeployment/rollouts", {"current": going.id})
    publishing.client.create(
        f"/zkdeployment/rollouts/{going.id}", encode_state(active_rollout(going, granted=["bad"]))
    )
    with pytest.raises(
        NotConvergedError,
        match=rf"rollout {sequence}-1 .* under way; group one is in its prepare phase, bad \(bad\) busy",
    ):
        publishing.sync()
    with publishing.syncer("another") as another, pytest.raises(NotConvergedError):
        another.preview()
    publishing.client.set(
        f"/zkdeployment/rollouts/{going.id}", encode_state(ended_rollout(advanced_rollout(going, "bad")))
    )
    publishing.sync()
    assert publishing.version == tip


def test_a_forced_publication_of_the_revision_that_is_rolled_out_continues_its_rollout(publishing: Publishing):
    def since() -> Value:
        return (publishing.get("/zkdeployment/targets") or {})["since"]

    revision = publishing.push(TREE, strategy_yaml=STRATEGY)
    publishing.sync()
    publishing.register("late", "older")
    begun = since()
    going = begun_rollout(strategy(group("one")), plain_hosts(["late"]))
    going = active_rollout(replace(going, sequence=begun, revision=revision), granted=["late"])
    path = f"/zkdeployment/rollouts/{going.id}"
    publishing.put("/zkdeployment/rollouts", {"current": going.id})
    publishing.client.create(path, encode_state(going))
    with publishing.syncer("another") as another:
        sentence = f"; its rollout {going.id} is under way and continues"
        assert another.preview(SyncOptions(force=True)).sentence.endswith(sentence)
    assert publishing.sync(force=True).endswith(sentence)
    assert since() == begun
    publishing.put("/hosts", {"version": False})
    assert publishing.sync(force=True).endswith(sentence), "a hold does not end a rollout"
    publishing.put("/hosts", {"version": None})
    assert not publishing.sync(force=True).endswith(sentence), "after a stop, hosts that failed try again"
    assert since() != begun


def test_a_rollout_that_is_unreadable_or_of_another_publication_is_ignored(publishing: Publishing):
    publishing.push(TREE, strategy_yaml=STRATEGY)
    publishing.sync()
    publishing.register("bad", "older")
    publishing.push(TREE.replace("1.0", "1.1"))
    other = ended_rollout(advanced_rollout(begun_rollout(hosts=plain_hosts("a"))))
    publishing.put("/zkdeployment/rollouts", {"current": other.id})
    for data in (encode_state(other), b"rubbish"):
        publishing.client.ensure_path(f"/zkdeployment/rollouts/{other.id}")
        publishing.client.set(f"/zkdeployment/rollouts/{other.id}", data)
        with pytest.raises(NotConvergedError, match=r"no coordinator has begun"):
            publishing.sync()


def test_hosts_in_no_group_neither_delay_a_revision_nor_count_as_unfinished(publishing: Publishing):
    published = publishing.push(TREE, strategy_yaml=STRATEGY.replace("- ntp01", "- good"))
    publishing.sync()
    publishing.register("good", published)
    publishing.register("apart", "older")
    sequence = (publishing.get("/zkdeployment/targets") or {})["sequence"]
    rollout = begun_rollout(strategy(group("one", hosts="good")), {"good": Facts(), "apart": Facts()})
    going = ended_rollout(advanced_rollout(replace(rollout, sequence=sequence, revision=published)))
    publishing.put("/zkdeployment/rollouts", {"current": going.id})
    publishing.client.create(f"/zkdeployment/rollouts/{going.id}", encode_state(going))
    with Session(publishing.zookeeper) as session:
        status = fleet_status(ZooKeeperFleetReader(session).snapshot())
    assert {host.id: host.state for host in status.hosts} == {
        "good": HostState.CONVERGED,
        "apart": HostState.EXCLUDED,
    }
    assert status.deployed
    tip = publishing.push(TREE.replace("1.0", "1.1"))
    publishing.sync()
    with Session(publishing.zookeeper) as session:
        record = ZooKeeperFleetReader(session).history(1)[0]
    assert (record.revision, record.hosts, record.expected) == (tip, 2, 1)
