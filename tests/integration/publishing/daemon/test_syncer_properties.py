"""Any tree published over any other tree: afterwards only the new tree and foreign nodes exist."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.publishing import Publishing
from zkdeployment.base.errors import TreeError
from zkdeployment.base.publication import Origin
from zkdeployment.base.source_files import SourceFile
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.records import GuardOverrides, SyncOptions
from zkdeployment.publishing.store import builder as transactions
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.tree.diff import format_tree
from zkdeployment.tree.values import Tree
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kazoo.client import KazooClient

Nodes = dict[str, dict[str, Any]]

TOPS = ("a", "b", "c")
#: Nodes below a top-level node: services, who runs them, and where instances register.
BELOW = (
    "web",
    "web/deploy",
    "web/deploy/h1",
    "web/deploy/h2",
    "web/providers",
    "db",
    "db/deploy",
    "db/deploy/h1",
    "x/y",
)
PROPERTIES = st.sampled_from(
    [{}, {}, {"n": 1}, {"n": 1.0}, {"n": True}, {"n": 2, "note": "é"}, {"string_value": "{text}"}, {"l ->": "/a"}]
)


@st.composite
def nodes(draw: st.DrawFn, tops: Sequence[str] = TOPS) -> Nodes:
    """Some top-level nodes with some of the nodes below; services have a type of their own."""
    nodes_drawn: Nodes = {}
    for top in draw(st.sets(st.sampled_from(tops), max_size=2)):
        for path in ("", *draw(st.sets(st.sampled_from(BELOW), max_size=5))):
            names = [top, *filter(None, path.split("/"))]
            for count in range(1, len(names) + 1):
                nodes_drawn.setdefault("/" + "/".join(names[:count]), {})
            properties = dict(draw(PROPERTIES))
            if path in {"web", "db"}:
                properties |= {"type": f"{top}-{path}", "version": draw(st.sampled_from(["1", "2"]))}
            nodes_drawn["/" + "/".join(names)] = properties
    for service in ("web", "db"):
        for top in TOPS:
            if f"/{top}/{service}/deploy" in nodes_drawn:
                nodes_drawn[f"/{top}/{service}"] |= {"type": f"{top}-{service}", "version": "1"}
    return nodes_drawn


@dataclass(frozen=True)
class Text:
    """The content of the repository: a ``.zk`` file and a ``.zkx`` file."""

    base: Nodes
    layer: Nodes = field(default_factory=dict)

    @property
    def files(self) -> list[SourceFile]:
        layers = [SourceFile("z.zkx", format_tree(Tree(self.layer)).encode())] if self.layer else []
        return [SourceFile("a.zk", format_tree(Tree(self.base)).encode()), *layers]


texts = st.builds(Text, nodes(), st.just({}) | nodes())


class Texts:
    """Texts as a ``TreeSource``; the tip is the last one."""

    def __init__(self) -> None:
        self.texts: dict[str, Text] = {}

    def push(self, text: Text) -> None:
        self.texts[f"r{len(self.texts)}"] = text

    def fetch(self) -> str:
        return list(self.texts)[-1]

    def files(self, revision: object) -> list[SourceFile]:
        return self.texts[str(revision)].files

    def origin(self, revision: object) -> Origin:
        return Origin(author="me", subject=str(revision), time=1.0)

    def descends(self, revision: object, ancestor: object) -> bool:
        return str(ancestor) <= str(revision)


class Standstill:
    """A stopped clock, so that publications differ only in their content."""

    def now(self) -> float:
        return 1.0

    monotonic = now


def expected(live: Nodes, pinned: set[str], text: Text) -> Nodes:
    """Return the expected live tree, computed in the simplest way."""
    managed = {path.split("/")[1] for path in text.base}
    ensure_registered = pinned - text.layer.keys()
    kept = {
        path: node for path, node in live.items() if path.split("/")[1] not in managed or path in ensure_registered
    }
    wanted = kept | text.base
    for path, properties in text.layer.items():
        wanted[path] = wanted.get(path, {}) | properties
    return wanted


def put(client: KazooClient, nodes: Nodes, *, ephemeral: bool = False) -> None:
    for path, properties in sorted(nodes.items()):
        data = json.dumps(properties).encode() if properties else b""
        client.create(path, data, ephemeral=ephemeral, makepath=True)


@pytest.mark.parametrize(
    "limit",
    [pytest.param(2000, id="in one transaction", marks=pytest.mark.nightly), pytest.param(4, id="in chunks")],
)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    foreign=nodes(("b", "c", "f")),
    texts=st.lists(texts, min_size=2, max_size=3),
    instances=st.sets(st.sampled_from(["/a/web/providers/i1", "/b/web/providers/i1", "/c/db/i2", "/f/i3"])),
)
def test_any_tree_published_over_any_other_leaves_the_new_tree_and_foreign_nodes(
    publishing: Publishing,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
    foreign: Nodes,
    texts: list[Text],
    instances: set[str],
):
    monkeypatch.setattr(transactions, "OPERATIONS_LIMIT", limit)
    ways = [Way(publishing, foreign, whole=whole) for whole in (False, True)]
    try:
        for number, text in enumerate(texts):
            outcomes = [way.publish(text) for way in ways]
            assert outcomes[0] == outcomes[1]
            if number == 0:
                for way in ways:
                    way.register(instances)
    finally:
        for way in ways:
            way.close()


class Way:
    """One of two ways to publish, in a ZooKeeper of its own: with ``whole`` everything is read each time."""

    _numbers = itertools.count()

    def __init__(self, publishing: Publishing, foreign: Nodes, *, whole: bool) -> None:
        self.whole = whole
        self.client = publishing.client
        self.top = f"/w{next(self._numbers)}"
        self.client.create(self.top)
        put(self.client, {f"{self.top}{path}": properties for path, properties in foreign.items()})
        self.session = Session(f"{publishing.zookeeper}{self.top}")
        self.session.open()
        self.source = Texts()
        self.syncer = Syncer(self.source, ZooKeeperPublications(self.session), Standstill())
        self.look = Publishing(publishing.directory / self.top[1:], "", self.client)

    def register(self, instances: set[str]) -> None:
        """Register instances below existing parents."""
        for path in instances:
            if self.client.exists(f"{self.top}{path.rpartition('/')[0]}"):
                self.client.create(f"{self.top}{path}", ephemeral=True)

    def live(self) -> Nodes:
        return {
            path.removeprefix(self.top): node or {}
            for path, node in self.look.nodes(self.top).items()
            if path.removeprefix(self.top).split("/")[1] in {*TOPS, "f"}
        }

    def publish(self, text: Text) -> object:
        """Publish a text; return all nodes afterwards, or the error of the refusal."""
        before = self.live()
        pinned = {above for path in before for above in _above(path) if path.rpartition("/")[2].startswith("i")}
        ephemeral = {path for path in before if path.rpartition("/")[2].startswith("i")}
        self.source.push(text)
        try:
            self.syncer.sync(SyncOptions(force=self.whole, overrides=GuardOverrides(mass_removal=True)))
        except TreeError as error:
            assert self.live() == before
            return str(error)
        after = self.live()
        assert after == expected(before, pinned | ephemeral, text)
        targets = {
            name: self.client.get(f"{self.top}/zkdeployment/targets/{name}")[0]
            for name in self.client.get_children(f"{self.top}/zkdeployment/targets")
        }
        return (
            after,
            targets,
            self.look.get(f"{self.top}/zkdeployment/targets"),
            self.look.get(f"{self.top}/hosts"),
        )

    def close(self) -> None:
        self.session.close()
        self.client.delete(self.top, recursive=True)


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts))]
