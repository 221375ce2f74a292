"""Strategies that the syncer publishes with the tree, and what it refuses because of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.strategies import EXAMPLE_FILE, example
from zkdeployment.adapters.zookeeper.publications import ZooKeeperPublications
from zkdeployment.adapters.zookeeper.session import Session
from zkdeployment.errors import TreeError

if TYPE_CHECKING:
    from support.publishing import Publishing
    from zkdeployment.model.strategy import Strategy

TREE = "/who\n  /web : shop\n    version = '1.0'\n    /deploy\n      /h1\n"
STRATEGY = EXAMPLE_FILE.read_text()


def strategy_of(publishing: Publishing) -> Strategy | None:
    with Session(publishing.zookeeper) as session:
        return ZooKeeperPublications(session).strategy()


def preview(publishing: Publishing, name: str = "another", **how: bool) -> list[str]:
    with publishing.syncer(name) as syncer:
        draft = syncer.preview(**how).draft
        assert draft is not None
        return [draft.sentence, *draft.describe()]


def test_a_strategy_is_published_with_the_tree_and_goes_when_its_file_goes(publishing: Publishing):
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
        "nodes: no change; targets: 0 changed; strategy: changed",
        "change strategy deployment-strategy",
        "change group control-nodes",
    ]
    publishing.sync(force=True)
    assert strategy_of(publishing) != example()


def test_a_wrong_strategy_is_refused_with_its_place_and_nothing_is_published(publishing: Publishing):
    revision = publishing.push(TREE)
    publishing.sync()
    publishing.push(TREE, strategy_yaml=STRATEGY.replace("- ntp-node", "- ntp-nude", 1))
    with pytest.raises(TreeError, match=r"strategy\.yaml:15:11: data\.groups\[0\]\.depends_on\[0\]: there is no"):
        publishing.sync()
    assert publishing.version == revision
    assert strategy_of(publishing) is None


def test_a_damaged_strategy_is_replaced(publishing: Publishing):
    publishing.push(TREE, strategy_yaml=STRATEGY)
    publishing.sync()
    publishing.client.set("/zkdeployment/strategy", b"rubbish")
    publishing.sync(force=True)
    assert strategy_of(publishing) == example()
