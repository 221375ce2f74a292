"""A real repository, a real ZooKeeper and a syncer between them."""

from __future__ import annotations

import contextlib
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kazoo.exceptions import NoNodeError

from support.repository import Repository
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.fleet.package_check import PackageGuard
from zkdeployment.publishing.daemon.keeper import section_keeper
from zkdeployment.publishing.daemon.signing import signing_file
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.keys import PublisherKeysFile, PublishKey
from zkdeployment.publishing.records import GuardOverrides, SyncOptions
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.publishing.store import builder
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.publishing.watermark import published_file
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest
    from kazoo.client import KazooClient

    from zkdeployment.agent.packages.host_repositories import DnfHostRepositories
    from zkdeployment.base.json_values import Value
    from zkdeployment.base.machine.files import JsonFile
    from zkdeployment.base.publication import Published
    from zkdeployment.zookeeper.servers import Servers


class InterruptedSyncError(Exception):
    """The end of a syncer in the middle of a publication."""


class Publishing:
    """A repository and a ZooKeeper for syncers; ``client`` reads and changes nodes without a syncer.

    With ``key``, syncers sign publications; ``publishers`` are the keys of all syncers. With ``allowed_signers``,
    they publish only signed commits. With ``host_repositories``, they check packages against these. Services
    at and below the ``governed`` paths need an intent.
    """

    def __init__(self, directory: Path, zookeeper: Servers | str, client: KazooClient) -> None:
        self.directory = directory
        self.zookeeper = zookeeper
        self.client = client
        self.repository = Repository(directory / "repository")
        self.key: Path | None = None
        self.publishers: Path | None = None
        self.allowed_signers: Path | None = None
        self.host_repositories: DnfHostRepositories | None = None
        self.governed: tuple[str, ...] = ()

    def push(self, text: str, **more: str | None) -> str:
        """Commit ``text`` as ``a.zk`` and other files (``_`` in their names stands for the dot)."""
        files = {name.replace("_", "."): content for name, content in more.items()}
        return self.repository.commit({"a.zk": text, **files})

    @contextmanager
    def syncer(self, name: str = "syncer", reach: Callable[[str], None] = lambda _place: None) -> Iterator[Syncer]:
        """Yield a syncer with a mirror and a session of its own; ``reach`` is called at its failpoints."""
        signer = None if self.key is None else PublishKey(self.key)
        with Session(self.zookeeper, session_timeout=20) as session:
            store = ZooKeeperPublications(session, identity=name, signer=signer, reach=reach)
            repositories = self.host_repositories
            yield Syncer(
                self.source(name),
                store,
                SystemClock(),
                self.memory(name),
                signer=signer,
                check_packages=None if repositories is None else PackageGuard(store, repositories).check,
                keeper=section_keeper(store, self.directory / name / ".tree.accepted"),
                signing=signing_file(self.directory / name / ".tree.signed"),
                publishers=None if self.publishers is None else PublisherKeysFile(self.publishers),
                governed=self.governed,
            )

    def source(self, name: str = "syncer") -> GitSource:
        """Return the repository as the source of the syncer ``name``."""
        mirror = self.directory / name / "tree"
        return GitSource(self.repository.url, mirror, allowed_signers=self.allowed_signers, gap=0)

    def memory(self, name: str = "syncer") -> JsonFile[Published]:
        """Return the record of the last publication of the syncer ``name``."""
        return published_file(self.directory / name / ".tree.published")

    def sync(self, *, force: bool = False, overrides: GuardOverrides | None = None, name: str = "syncer") -> str:
        """Run the syncer of this name once; return the sentence of its report."""
        with self.syncer(name) as syncer:
            return syncer.sync(SyncOptions(force=force, overrides=overrides or GuardOverrides())).sentence

    def interrupt(self, monkeypatch: pytest.MonkeyPatch, *, after: int) -> None:
        """Run a syncer that ends before the commit that follows ``after`` commits of small transactions."""
        commits: list[str] = []

        def reach(place: str) -> None:
            if place == "before:commit":
                commits.append(place)
                if len(commits) > after:
                    raise InterruptedSyncError

        with monkeypatch.context() as patch, Session(self.zookeeper, session_timeout=20) as session:
            patch.setattr(builder, "OPERATIONS_LIMIT", 5)
            store = ZooKeeperPublications(session, identity="interrupted", reach=reach)
            keeper = section_keeper(store, self.directory / "syncer" / ".tree.accepted")
            syncer = Syncer(self.source(), store, SystemClock(), self.memory(), keeper=keeper)
            options = SyncOptions(force=True, overrides=GuardOverrides(mass_removal=True))
            with contextlib.suppress(InterruptedSyncError):
                syncer.sync(options)
                raise AssertionError(f"the publication was complete after {len(commits)} commits")

    def register(self, host_id: str, version: str | None, name: str | None = None, **properties: Value) -> None:
        """Register a host."""
        self.client.ensure_path("/hosts")
        self.put(f"/hosts/{host_id}", {"name": name or host_id, "version": version, **properties}, ephemeral=True)

    def put(self, path: str, properties: dict[str, Value], *, ephemeral: bool = False) -> None:
        """Create or set a node."""
        data = json.dumps(properties).encode() if properties else b""
        if self.client.exists(path):
            self.client.set(path, data)
        else:
            self.client.create(path, data, ephemeral=ephemeral, makepath=True)

    def invalidate(self) -> None:
        """Remove the targets' version, as an import by hand and an unfinished publication do."""
        targets = self.get("/zkdeployment/targets") or {}
        targets.pop("exact", None)
        self.put("/zkdeployment/targets", targets | {"version": None})

    def get(self, path: str) -> dict[str, Value] | None:
        """Return a node's properties."""
        try:
            data = self.client.get(path)[0]
        except NoNodeError:
            return None
        properties: dict[str, Value] = json.loads(data) if data else {}
        return properties

    @property
    def version(self) -> Value:
        """The cluster version."""
        return (self.get("/hosts") or {}).get("version", "none")

    @property
    def published(self) -> Value:
        """The revision whose targets are published."""
        return (self.get("/zkdeployment/targets") or {}).get("version", "none")

    @property
    def targets(self) -> dict[str, list[str]]:
        """The paths of the services of each published target."""
        if not self.client.exists("/zkdeployment/targets"):
            return {}
        return {
            name: [
                assignment["path"]
                for assignment in json.loads(self.client.get(f"/zkdeployment/targets/{name}")[0])
            ]
            for name in sorted(self.client.get_children("/zkdeployment/targets"))
        }

    def nodes(self, path: str = "") -> dict[str, dict[str, Value] | None]:
        """Return the live tree without the program's own top-level nodes."""
        nodes = {}
        for name in sorted(self.client.get_children(path or "/")):
            if not path and name in {
                "hosts",
                "hosts-lock",
                "agent-locks",
                "role-locks",
                "zkdeployment",
                "zookeeper",
            }:
                continue
            child = f"{path}/{name}"
            nodes[child] = self.get(child)
            nodes.update(self.nodes(child))
        return nodes
