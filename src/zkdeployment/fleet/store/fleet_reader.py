"""Reads the state of the fleet and its past, for operators' commands and the monitor."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from zkdeployment.base.machine.calls import turn
from zkdeployment.fleet.store.assembly import ServicesAssembly, SnapshotAssembly
from zkdeployment.fleet.store.audit import read_acts
from zkdeployment.publishing.store.assignments import KeptTargets, read_left, read_targets, read_withheld
from zkdeployment.publishing.store.cluster import (
    decode_published,
    read_maintenance,
    read_output,
    read_outputs,
)
from zkdeployment.publishing.store.documents import read_published_documents, read_strategy
from zkdeployment.publishing.store.history import read_history
from zkdeployment.publishing.store.hosts import read_inventories
from zkdeployment.publishing.store.reboots import read_reboots
from zkdeployment.publishing.store.requests import (
    read_refusals,
    read_report,
)
from zkdeployment.publishing.store.service_order import read_unfinished
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.shared_nodes import ReadNodes, late_read

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zkdeployment.base.act import Act, Maintenance
    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.machine.reboots import RebootRecord
    from zkdeployment.base.publication import LeftService, Published, Targets
    from zkdeployment.base.stop import FailureOutput
    from zkdeployment.documents.collection import PublishedDocuments
    from zkdeployment.fleet.views.instances import ServicesSnapshot
    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.publishing.records import PublicationRecord, Refusal, SyncerReport
    from zkdeployment.publishing.targets.compiler import ServiceTarget
    from zkdeployment.strategies.strategy import Strategy
    from zkdeployment.zookeeper.session import Session


#: Seconds that a thread waits for the read of another thread.
_PATIENCE = 5.0


def _lasts(path: str) -> bool:
    return path.startswith((f"{paths.INVENTORY}/", f"{paths.HISTORY}/"))


class ZooKeeperFleetReader:
    """The state of the fleet and its past, through one session, for any thread.

    Inventories of absent hosts and records of publications are read once: they do not change meanwhile.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._targets = KeptTargets()
        self._nodes = ReadNodes(session, _lasts)
        self._assembly = SnapshotAssembly(self._nodes)
        self._lock = threading.Lock()

    def snapshot(self) -> FleetSnapshot:
        """Read the state of the fleet: registered and absent hosts, stops, requests, and the rollout."""
        with turn(self._lock, _PATIENCE, late_read):
            self._nodes.refresh(self._assembly.wanted)
            return self._assembly.snapshot()

    def watch(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` (which must not block) whenever the cluster version may have changed."""
        self._session.watch(paths.HOSTS, changed)

    def maintenance(self, now: float) -> Mapping[str, Maintenance]:
        """Return the maintenance of hosts in force at ``now``, in seconds since the epoch, by host id."""
        return read_maintenance(self._session, now)

    def history(self, last: int | None = None) -> tuple[PublicationRecord, ...]:
        """Return the records of the ``last`` publications (``None``: all that are kept), newest first."""
        return read_history(self._session, last)

    def published(self) -> Published:
        """Return the record of the last publication."""
        (targets, managed), (tops,) = self._session.look([paths.TARGETS, paths.MANAGED], ["/"])
        return decode_published(targets, managed, tops or ())

    def known_hosts(self) -> tuple[KnownHost, ...]:
        """Return the inventories of all known hosts, absent ones included."""
        return read_inventories(self._session)

    def known_host(self, host_id: str) -> KnownHost | None:
        """Return the inventory of a host; ``None`` if the host never published one."""
        return next(iter(read_inventories(self._session, [host_id])), None)

    def acts(self) -> tuple[Act, ...]:
        """Return the recorded acts of operators, oldest first."""
        return read_acts(self._session)

    def reboots(self, now: float) -> tuple[RebootRecord, ...]:
        """Return the recorded reboots of hosts at ``now``, in seconds since the epoch."""
        return tuple(reboot.seen_at(now) for reboot in read_reboots(self._session))

    def targets(self) -> Targets:
        """Return the targets of the last publication, by name."""
        return read_targets(self._session, self._session.children(paths.TARGETS) or ())

    def services(self, snapshot: FleetSnapshot) -> ServicesSnapshot:
        """Read the services of a snapshot with their registered instances, and the inventories that this needs."""
        nodes = ReadNodes(self._session)
        assembly = ServicesAssembly(nodes, partial(self._targets.read_valid, self._session))
        nodes.refresh(partial(assembly.wanted, snapshot))
        return assembly.reading()

    def syncer_report(self) -> SyncerReport | None:
        """Return the last report of a syncer that follows the branch; ``None`` if no syncer ever reported."""
        return read_report(self._session)

    def unfinished_gains(self, sequence: int) -> Mapping[str, frozenset[str]]:
        """Read the hosts that gain a service in a publication and still lack it, by the service's path."""
        names = self._session.children(paths.order_path(sequence)) or ()
        return read_unfinished(self._session, sequence, names)

    def failure_output(self, host_id: str) -> FailureOutput | None:
        """Return the end of the output of the script with which a host failed last, if it is kept."""
        return read_output(self._session, host_id)

    def failure_outputs(self) -> tuple[FailureOutput, ...]:
        """Return the kept outputs of all failed hosts, oldest first."""
        return read_outputs(self._session)

    def refusals(self) -> tuple[Refusal, ...]:
        """Return the recorded refusals of tips, oldest first: at most one for each revision."""
        return read_refusals(self._session)

    def strategy(self) -> Strategy | None:
        """Return the published strategy, if there is one; raises ``TreeError`` if it cannot be read."""
        return read_strategy(self._session)

    def withheld(self) -> frozenset[ServiceTarget]:
        """Return the services and targets that are not deployed because of the state of their intents."""
        return read_withheld(self._session)

    def left(self) -> tuple[LeftService, ...]:
        """Return the services that left the governance of their intents, and stay as published."""
        return read_left(self._session)

    def documents(self) -> PublishedDocuments:
        """Return the published documents."""
        return read_published_documents(self._session)
