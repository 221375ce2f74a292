"""Publications that are computed from two texts, and the cases in which the live tree is read as a whole."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.records import GuardOverrides, SyncOptions
from zkdeployment.publishing.store.live_tree import ZooKeeperLiveTree
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.tree.values import TreeChange
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from support.publishing import Publishing

TREE = """\
/who
  /web : shop
    version = '1.0'
    /providers
    /deploy
      /h1
      /h2
"""
NEWER = TREE.replace("1.0", "1.1")
WEB = {"type": "shop", "version": "1.1"}


class Noting(ZooKeeperLiveTree):
    """Records which nodes are read: a set of paths for each read, or ``"all"``."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.looks: list[object] = []

    def live_tree(self):
        self.looks.append("all")
        return super().live_tree()

    def nodes(self, paths: Collection[str]):
        self.looks.append(set(paths))
        return super().nodes(paths)


class Follower:
    """A syncer in one process for the whole test; ``sync`` returns the parts of the live tree that were read."""

    def __init__(self, publishing: Publishing, session: Session) -> None:
        self.store = ZooKeeperPublications(session)
        self.store.tree = self.live = Noting(session)
        self.syncer = Syncer(publishing.source(), self.store, SystemClock(), publishing.memory())

    def sync(self, **how: bool | GuardOverrides) -> list[object]:
        self.live.looks.clear()
        self.syncer.sync(SyncOptions(**how))
        return list(self.live.looks)


@pytest.fixture
def follower(publishing: Publishing) -> Iterator[Follower]:
    with Session(publishing.zookeeper) as session:
        yield Follower(publishing, session)


@contextmanager
def another(publishing: Publishing) -> Iterator[Follower]:
    with Session(publishing.zookeeper) as session:
        yield Follower(publishing, session)


def test_only_changed_nodes_are_read_and_written(publishing: Publishing, follower: Follower):
    publishing.push(TREE, b_zk="/x\n  /y\n")
    assert follower.sync() == ["all"]
    stat = {path: publishing.client.get(path)[1] for path in ("/who", "/x", "/zkdeployment/managed")}
    revision = publishing.push(NEWER)
    assert follower.sync() == [{"/who/web"}]
    assert publishing.get("/who/web") == WEB
    assert publishing.version == publishing.published == revision
    assert {path: publishing.client.get(path)[1] for path in stat} == stat
    publishing.push(NEWER.replace("      /h2\n", "      /h3\n"), c_zk="/new\n  /node\n")
    assert follower.sync() == [{"/who/web/deploy/h2", "/who/web/deploy/h3", "/new", "/new/node"}]
    assert publishing.targets == {"h1": ["/who/web"], "h3": ["/who/web"]}
    assert publishing.get("/new/node") == {}


def test_a_fresh_process_knows_the_published_text_from_the_repository(publishing: Publishing, follower: Follower):
    publishing.push(TREE)
    follower.sync()
    publishing.push(NEWER)
    with another(publishing) as fresh:
        assert fresh.sync() == [{"/who/web"}]
    assert publishing.get("/who/web") == WEB


def test_a_commit_without_a_change_reads_no_node(publishing: Publishing, follower: Follower):
    publishing.push(TREE)
    follower.sync()
    publishing.push(TREE, README_md="hello")
    assert follower.sync() == [set()]


def test_a_forced_sync_reads_the_whole_tree(publishing: Publishing, follower: Follower):
    publishing.push(TREE)
    follower.sync()
    publishing.put("/who/web/deploy", {"by": "hand"})
    publishing.put("/zkdeployment/targets/h2", {})
    publishing.push(NEWER)
    assert follower.sync(force=True) == ["all"]
    assert publishing.get("/who/web/deploy") == {}
    assert publishing.targets == {"h1": ["/who/web"], "h2": ["/who/web"]}


def test_a_preview_reads_only_changed_nodes(publishing: Publishing, follower: Follower):
    publishing.push(TREE)
    follower.sync()
    publishing.push(NEWER)
    follower.live.looks.clear()
    report = follower.syncer.preview()
    assert follower.live.looks == [{"/who/web"}]
    assert report.draft is not None
    assert list(report.draft.describe()) == [
        "/who/web change property version from '1.0' to '1.1'",
        "target h1",
        "target h2",
    ]


@pytest.mark.parametrize(
    ("drifted", "message"),
    [
        ({"type": "shop", "version": "9"}, ["/who/web change property version from '1.0' to '9'"]),
        (None, ["/who/web is gone"]),
    ],
)
def test_drift_of_a_changed_node_is_logged_and_the_whole_tree_corrected(
    publishing: Publishing, follower: Follower, drifted, message: list[str]
):
    publishing.push(TREE)
    follower.sync()
    if drifted is None:
        publishing.client.delete("/who/web", recursive=True)
    else:
        publishing.put("/who/web", drifted)
    publishing.put("/who/by-hand", {})
    revision = publishing.push(NEWER)
    with capture_logs() as logs:
        assert follower.sync() == [{"/who/web"}, "all"]
    assert [entry["found"] for entry in logs if entry["event"] == "tree-drifted"] == message
    assert publishing.nodes() == {
        "/who": {},
        "/who/web": WEB,
        "/who/web/providers": {},
        "/who/web/deploy": {},
        "/who/web/deploy/h1": {},
        "/who/web/deploy/h2": {},
    }
    assert publishing.version == revision
    publishing.push(TREE)
    assert follower.sync() == [{"/who/web"}]


def test_a_new_node_that_exists_already_is_logged_as_drift(publishing: Publishing, follower: Follower):
    publishing.push(TREE)
    follower.sync()
    publishing.put("/new", {"x": 1})
    publishing.put("/new/below", {})
    publishing.push(TREE + "/new\n")
    with capture_logs() as logs:
        assert follower.sync() == [{"/new"}, "all"]
    assert logs[0]["found"] == "/new is there already"
    assert publishing.get("/new") == {}
    assert publishing.get("/new/below") is None


def test_instances_below_removed_nodes_are_kept_until_they_end(publishing: Publishing, follower: Follower):
    publishing.push(TREE)
    follower.sync()
    publishing.put("/who/web/providers/a:1", {"pid": 1}, ephemeral=True)
    publishing.push("/who\n")
    with capture_logs() as logs:
        assert follower.sync(overrides=GuardOverrides(mass_removal=True))[-1] == "all"
    assert [entry["event"] for entry in logs] == ["revision-published"]
    assert publishing.get("/who/web/providers/a:1") == {"pid": 1}
    assert publishing.targets == {}
    publishing.client.delete("/who/web/providers/a:1")
    publishing.push("/who\n  /x\n")
    assert follower.sync() == ["all"]
    assert publishing.nodes() == {"/who": {}, "/who/x": {}}
    publishing.push("/who\n  /x\n  /y\n")
    assert follower.sync() == [{"/who/y"}]


def test_deployments_of_others_are_read_in_each_sync(publishing: Publishing, follower: Follower):
    publishing.put("/foreign", {"type": "tool-2"})
    publishing.put("/foreign/deploy/h9", {})
    publishing.push(TREE)
    assert follower.sync() == ["all"]
    publishing.put("/foreign/deploy/h8", {})
    publishing.push(NEWER)
    assert follower.sync() == ["all"]
    assert list(publishing.targets) == ["h1", "h2", "h8", "h9"]


def test_a_link_to_a_foreign_node_is_followed_in_the_live_tree(publishing: Publishing, follower: Follower):
    publishing.put("/versions", {"shop": "7"})
    publishing.push(TREE)
    follower.sync()
    publishing.push(TREE.replace("version = '1.0'", "version => /versions shop"))
    assert follower.sync() == ["all"]
    assert publishing.version == publishing.published


@pytest.mark.parametrize(
    "message", [{"exact": "?"}, {"version": "f" * 40}, {"exact": 1}], ids=["other rules", "unknown history", "odd"]
)
def test_an_incompletely_known_publication_is_not_a_baseline(
    publishing: Publishing, follower: Follower, message: dict[str, object]
):
    publishing.push(TREE)
    follower.sync()
    publishing.put("/zkdeployment/targets", (publishing.get("/zkdeployment/targets") or {}) | message)  # type: ignore[operator]
    publishing.push(NEWER)
    assert follower.sync(overrides=GuardOverrides(rewind=True)) == ["all"]
    assert publishing.get("/who/web") == WEB


def test_after_a_manual_import_the_whole_tree_is_read(publishing: Publishing, follower: Follower):
    publishing.push(TREE)
    follower.sync()
    with Session(publishing.zookeeper) as session:
        ZooKeeperLiveTree(session).import_tree(TreeChange(create={"/who/by-hand": {}}), roles=(), versions={})
    publishing.push(NEWER)
    assert follower.sync() == ["all"]
    assert publishing.get("/who/by-hand") is None


@pytest.mark.parametrize(
    ("meddle", "looks"),
    [
        (lambda publishing: publishing.put("/who/web", {"type": "x-1"}), [{"/who/web"}, "all"]),
        (lambda publishing: publishing.put("/zkdeployment/targets/h1", {}), [{"/who/web"}, "all"]),
        (lambda publishing: publishing.invalidate(), [{"/who/web"}, "all"]),
        (lambda publishing: publishing.client.delete("/who/web", recursive=True), [{"/who/web"}, "all"]),
    ],
    ids=["touched node", "touched target", "import by hand", "deleted"],
)
def test_a_change_between_the_read_and_the_write_is_noticed_and_reverted(
    publishing: Publishing, follower: Follower, meddle, looks: list[object]
):
    publishing.push(TREE)
    follower.sync()
    publish, times = follower.store.publish, [1]

    def meddled(publication, intents):
        if times:
            times.pop()
            meddle(publishing)
        publish(publication, intents)

    follower.store.publish = meddled  # type: ignore[method-assign]
    publishing.push(NEWER)
    assert follower.sync() in (looks, [{"/who/web"}])
    assert publishing.get("/who/web") == WEB
    assert publishing.targets == {"h1": ["/who/web"], "h2": ["/who/web"]}


class TestPruning:
    def test_pruning_removes_nodes_without_a_file_and_keeps_foreign_nodes(
        self, publishing: Publishing, follower: Follower
    ):
        publishing.push(TREE, b_zk="/x\n  /y\n", c_zkx="/layer\n")
        publishing.put("/foreign", {"deploy": 1})
        follower.sync()
        revision = publishing.push(TREE, b_zk=None, c_zkx=None)
        with capture_logs() as logs:
            follower.sync()
        assert [entry["problem"] for entry in logs if entry["event"] == "tree-warning"] == [
            "warning: /x is in no file any more and stays unchanged; 'zkdeployment sync --prune' removes it"
        ]
        assert publishing.get("/x/y") == {}
        assert follower.sync(prune=True) == ["all"]
        assert publishing.get("/x") is None
        assert publishing.get("/foreign") == {"deploy": 1}
        assert publishing.get("/layer") == {}
        assert publishing.version == revision
        before = publishing.client.get("/zkdeployment/targets")[1]
        follower.sync(prune=True)
        assert publishing.client.get("/zkdeployment/targets")[1] == before

    def test_a_node_that_was_removed_by_hand_causes_no_warning(self, publishing: Publishing, follower: Follower):
        publishing.push(TREE, b_zk="/x\n")
        follower.sync()
        publishing.client.delete("/x")
        publishing.push(TREE, b_zk=None)
        with capture_logs() as logs:
            follower.sync()
        assert [entry["event"] for entry in logs] == ["revision-published"]
