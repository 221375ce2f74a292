"""A fleet that a test writes into ZooKeeper, in place of agents, syncer and coordinator."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from kazoo.client import KazooClient

from support.waiting import UNLIMITED
from zkdeployment.base.inventory import Inventory, KnownHost, Marker, Package
from zkdeployment.base.lock import LockedWork
from zkdeployment.base.publication import LeftService, Origin, next_sequence
from zkdeployment.base.source_files import SourceFile
from zkdeployment.base.stop import FailureOutput, Stop
from zkdeployment.checks import paths as check_paths
from zkdeployment.checks.rules.instance import CheckChange
from zkdeployment.checks.store.instances import encode_changes
from zkdeployment.intents.store import intent_operations, read_intent_nodes
from zkdeployment.pools.rules.snapshot import PoolChange, TenantSession, retire
from zkdeployment.pools.store.store import ZooKeeperPools
from zkdeployment.publishing.records import Publication, PublicationRecord
from zkdeployment.publishing.rules.changes import changed_versions
from zkdeployment.publishing.store.cluster import write_output
from zkdeployment.publishing.store.documents import subject_name
from zkdeployment.publishing.store.hosts import encode as encode_host
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.publishing.targets.compiler import ServiceTarget, assignments_for, compile_targets
from zkdeployment.rollouts.store import ZooKeeperRollouts
from zkdeployment.strategies.store.records import FencedLead
from zkdeployment.strategies.strategy import MemberKind, Strategy
from zkdeployment.tree.diff import diff
from zkdeployment.tree.lint import lint
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from zkdeployment.base.deployment import HostResult
    from zkdeployment.base.host import Host, Identity
    from zkdeployment.documents.collection import DocumentContents
    from zkdeployment.intents.rules.instances import IntentRecord
    from zkdeployment.strategies.state import RolloutState


class WrittenFleet:
    """The nodes of a fleet in the ZooKeeper at a connection string.

    The registrations of its hosts have no session, which would expire on a busy machine.
    """

    def __init__(self, zookeeper: str) -> None:
        self._client = KazooClient(hosts=zookeeper)
        self._client.start(timeout=UNLIMITED)
        self._session = Session(zookeeper, session_timeout=20.0)
        self._session.open()
        self._lead = FencedLead(self._session, MemberKind.HOST, identity="coordinator on adm1")
        self._rollouts = ZooKeeperRollouts(self._session, self._lead, lambda: None)
        self._publications = ZooKeeperPublications(self._session, identity="syncer on adm1")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the sessions."""
        self._session.close()
        self._client.stop()
        self._client.close()

    def publish(
        self,
        revision: str,
        text: str,
        *,
        subject: str = "",
        author: str = "Jane Doe <jane@example.com>",
        results: Iterable[HostResult] = (),
        hosts: int = 0,
        strategy: Strategy | None = None,
        documents: DocumentContents | None = None,
        age: float = 0.0,
        left_out: int = 0,
    ) -> int:
        """Publish a tree as the syncer would have done ``age`` seconds ago, and return the sequence.

        ``left_out`` hosts succeeded, and the record only counts them.
        """
        linted = lint([SourceFile("a.zk", text.encode())])
        tree = linted.tree
        before = self._publications.tree.live_tree()
        change = diff(before.tree, tree)
        state = self._publications.published_state()
        at = time.time() - age
        sequence = next_sequence(state.published.sequence, at)
        targets, _ = compile_targets(tree)
        self._publications.publish(
            Publication(
                revision,
                change,
                targets,
                expected=state.cluster,
                versions=before.versions,
                sequence=sequence,
                strategy=strategy,
                documents=documents or {},
                record=PublicationRecord(
                    revision,
                    at,
                    sequence=sequence,
                    origin=Origin(author, subject, at - 60.0),
                    hosts=hosts,
                    nodes=len(change.paths),
                    versions=changed_versions(old := compile_targets(before.tree)[0], targets, {*old, *targets}),
                    results={result.host_id: result for result in results},
                    left_out=left_out,
                ),
            )
        )
        self._publications.report("up to date", 3600.0, time.time())
        return sequence

    def record(
        self,
        *records: IntentRecord,
        withheld: Collection[ServiceTarget] = (),
        left: Collection[LeftService] = (),
    ) -> None:
        """Write what publications recorded of intents, the services that these withhold, and those that left."""
        self._session.ensure(paths.OURS)
        changed = {record.intent.subject: record for record in records}
        nodes = read_intent_nodes(self._session, changed, changed)
        stamps = {name: node.version for name, node in nodes.indexes.items()}
        written = {
            subject: replace(record, stamp=stamps.get(subject_name(subject), 0))
            for subject, record in changed.items()
        }
        operations = intent_operations(written, nodes, withheld, left)
        for transaction in (operations.parts, operations.closing):
            self._session.commit(*transaction)

    def register(self, *hosts: Host) -> None:
        """Register hosts, or write their nodes again."""
        self._client.ensure_path(paths.HOSTS)
        present = set(self._client.get_children(paths.HOSTS))
        pending = []
        for host in hosts:
            path = f"{paths.HOSTS}/{host.identity.id}"
            data = json.dumps(host.properties()).encode()
            write = self._client.set_async if host.identity.id in present else self._client.create_async
            pending.append(write(path, data))
        for result in pending:
            result.get()

    def leave(self, *ids: str) -> None:
        """Remove the registrations of hosts."""
        for id_ in ids:
            self._client.delete(f"{paths.HOSTS}/{id_}")

    def report(self, *identities: Identity, version: str = "", at: float = 0.0, installed: bool = False) -> None:
        """Write the inventories of hosts: everything that the tree deploys to them, in this version if given.

        ``installed`` is whether they have the packages, too.
        """
        targets, _ = compile_targets(self._publications.tree.live_tree().tree)
        self._session.ensure(paths.INVENTORY)
        known = []
        for identity in identities:
            markers = tuple(
                Marker(deployment, each.application, each.package, version=version or each.version)
                for each in assignments_for(identity, targets)
                for deployment in each.deployments
            )
            packages = {
                each.package: (Package(each.package, 0, each.version or "", "1", "noarch"),)
                for each in assignments_for(identity, targets)
                if installed
            }
            scripts = {name: f"/opt/{name}/bin/zookeeper-deploy" for name in packages}
            found = Inventory(markers=markers, packages=packages, scripts=scripts)
            known.append(KnownHost(identity, found, time=at))
        pending = [
            self._client.create_async(f"{paths.INVENTORY}/{host.identity.id}", encode_host(host)) for host in known
        ]
        for result in pending:
            result.get()

    def fail(self, host: Host, step: str, reason: str, revision: str, output: str = "") -> None:
        """Record the failure of a host at a step, with the output of its script if any, which stops the fleet."""
        self.register(host)
        stop = Stop(host.identity.id, host.identity.name, revision, step, reason, time.time())
        self._put(f"{paths.STOPS}/{host.identity.id}", stop.to_json())
        if output:
            write_output(self._session, FailureOutput(host.identity.id, revision, step, time.time(), output))
        self._put(paths.HOSTS, {"version": None})

    def lend(
        self, document: Mapping[str, object], change: PoolChange, *, ended: Iterable[TenantSession] = ()
    ) -> None:
        """Publish a document of pools, and write nodes and sessions; ``ended`` are sessions that have ended."""
        self._put(f"{paths.DOCUMENTS}/pools/:", document)
        store = ZooKeeperPools(self._session)
        store.announce("worker on adm1")
        store.commit(change, store.read())
        for session in ended:
            store.commit(PoolChange(sessions=(session,)), store.read())
            written = store.read().sessions[session.id]
            by = None if session.id % 2 else "ann"
            over, _ = retire(written, (), session.created_at + 3000.0, by)
            store.commit(PoolChange(sessions=(over,)), store.read())

    def begin_rollout(self, state: RolloutState) -> None:
        """Begin a rollout as its coordinator, which leads until ``close``."""
        assert self._lead.acquire(10.0)
        self._rollouts.begin(state, self._publications.published_state().published.stamp)

    def hold_lock(self, service: str, *identities: Identity, step: str = "") -> None:
        """Give the lock of a service to the first host, at a step if given; queue the other hosts."""
        name = service[1:].replace("/", ",")
        for number, identity in enumerate(identities):
            path = f"{paths.AGENT_LOCKS}/{name}/{uuid.uuid4().hex}__lock__{number:010}"
            self._client.create(path, str(identity).encode(), ephemeral=True, makepath=True)
        if step:
            holder = identities[0]
            work = LockedWork(holder.id, holder.name, step, time.time())
            self._put(f"{paths.BUSY}/{name}", work.to_json())

    def change_check(self, service: str, host: str) -> None:
        """Note that a check of a service on a host changed its state, as a coordinator does."""
        change = CheckChange(f"check-of-{host}", "http", service, 0, host, "nagios1", "PENDING", "DEPLOYED")
        self._put(check_paths.CHANGED, json.loads(encode_changes((change,))))

    def _put(self, path: str, properties: Mapping[str, object]) -> None:
        data = json.dumps(properties).encode()
        if self._client.exists(path):
            self._client.set(path, data)
        else:
            self._client.create(path, data, makepath=True)
