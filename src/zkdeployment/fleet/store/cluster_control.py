"""The acts of operators on the fleet: stops, holds, the maintenance of hosts, and directives to its rollout.

Each change and its audit record are written in one transaction.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from zkdeployment.base.act import Act, Maintenance
from zkdeployment.base.cluster import INITIAL, ClusterEvent, Revision, retrying
from zkdeployment.base.errors import ConflictError, RefusedError, WaitTimeoutError, ZkdeploymentError
from zkdeployment.base.host import Host, retry_objection
from zkdeployment.base.stop import Stop
from zkdeployment.fleet.store.audit import recording
from zkdeployment.fleet.views.maintenance import HostSelection, check_limit, cordoned, select_identities
from zkdeployment.publishing.records import CHECK_BUDGET, GuardOverrides, PublicationRequest, RequestState
from zkdeployment.publishing.store.cluster import (
    changing_cluster,
    cluster_of,
    decode_published,
    few_stops,
    forgetting_stops,
    published_revision,
    read_maintenance,
    read_stops,
    recorded_stops,
    recording_stop,
    resuming_group,
    setting_cluster,
)
from zkdeployment.publishing.store.requests import answer_request, asking, give_notice, read_request
from zkdeployment.strategies.state import Directive, RolloutAct, RolloutState
from zkdeployment.strategies.store.agent_records import current_id
from zkdeployment.strategies.store.records import read_attempts, read_leader, read_state, record_act
from zkdeployment.strategies.strategy import MemberKind
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.connection import WatchHandler
from zkdeployment.zookeeper.nodes import Node, encode
from zkdeployment.zookeeper.transactions import Check, Create, Delete, Operation, Set, commit_afresh

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
    from zkdeployment.zookeeper.session import Session

_AIM = "change the cluster version"

#: Seconds between two calls of ``tick`` during the wait for a syncer.
_TICK = 1.0


class ZooKeeperClusterControl:
    """The cluster version as operators set it, through one session.

    Several operators may call the same methods at the same time. ``RefusedError``: the state of the cluster does
    not allow the act. ``ConflictError``: other writers interfered, try again.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def stop(self, act: Act) -> None:
        """Stop the fleet: no host starts a step until the fleet is resumed.

        If the fleet is already stopped, the act is recorded as a further stop. Raises ``RefusedError`` before the
        first publication.
        """
        commit_afresh(self._session, lambda: self._halting(act, self._hosts("stop"), ClusterEvent.STOP), _AIM)

    def hold(self, act: Act) -> None:
        """Hold all hosts until the next publication.

        Raises ``RefusedError`` if the cluster is stopped (a hold would end the stop), during a publication (which
        would end the hold), and before the first publication.
        """
        commit_afresh(self._session, lambda: self._halting(act, self._hosts("hold"), ClusterEvent.HOLD), _AIM)

    def resume(self, act: Act) -> Revision:
        """End a stop or a hold: set the published revision again, forget all stops, and return the revision.

        Hosts that failed then try again. Raises ``RefusedError`` if the cluster is neither stopped nor held, or if
        no revision is completely published.
        """
        published: Revision | None = None

        def resuming() -> list[Operation]:
            nonlocal published
            hosts, targets = self._session.get_many([paths.HOSTS, paths.TARGETS])
            if hosts is None:
                raise _no_cluster("resume")
            published = published_revision(targets)
            return [
                changing_cluster(hosts, ClusterEvent.RESUME, published),
                Check(paths.TARGETS, -1 if targets is None else targets.version),
                *forgetting_stops(few_stops(self._session, hosts.version)),
                recording(self._session, act),
            ]

        commit_afresh(self._session, resuming, _AIM)
        with contextlib.suppress(ZkdeploymentError):  # the syncer, which read nothing meanwhile, needs no notice
            give_notice(self._session, act.by)
        return cast("Revision", published)  # in all other cases the event was refused

    def retry(self, host_id: str, act: Act) -> Revision:
        """Let one host of a stopped fleet deploy the published revision again, and return the revision.

        The fleet stays stopped. The retry ends when the host succeeds or fails again, and with every other write
        of the cluster version. Raises ``RefusedError`` if the cluster is not stopped, if an operator stopped it,
        if no revision is completely published, and for a host that is not registered, or has not failed.
        """
        published: Revision | None = None

        def ordering() -> list[Operation]:
            nonlocal published
            stops = recorded_stops(self._session)
            path = f"{paths.HOSTS}/{host_id}"
            hosts, targets, node = self._session.get_many([paths.HOSTS, paths.TARGETS, path])
            if hosts is None:
                raise _no_cluster("retry")
            published = published_revision(targets)
            cluster = cluster_of(hosts)
            host = None if node is None else Host.from_properties(host_id, node.properties)
            maintenance = read_maintenance(self._session, act.time, [quote(host_id, safe="")])
            reason = retry_objection(host, cluster.state, read_stops(self._session), published, maintenance)
            if reason:
                raise RefusedError(f"{host_id} cannot try again: {reason}")
            return [
                setting_cluster(hosts, retrying(cluster, host_id, published)),
                Check(paths.TARGETS, -1 if targets is None else targets.version),
                Check(paths.STOPS, stops.version),
                recording(self._session, act),
            ]

        commit_afresh(self._session, ordering, _AIM)
        return cast("Revision", published)  # in all other cases the retry was refused

    def resume_group(self, group: str, act: Act) -> None:
        """End the stop of a deployment intent group: hosts that lack its steps run them.

        Raises ``RefusedError`` if the group is not stopped.
        """

        def resuming() -> list[Operation]:
            hosts, stop = self._session.get_many([paths.HOSTS, paths.group_stop_path(group)])
            if hosts is None or stop is None:
                raise RefusedError(f"group {group} is not stopped, so there is nothing to resume")
            return [*resuming_group(hosts, group), recording(self._session, act)]

        commit_afresh(self._session, resuming, _AIM)

    def resume_latest(
        self,
        act: Act,
        *,
        timeout: float,
        overrides: GuardOverrides | None = None,
        tick: Callable[[], None] = lambda: None,
    ) -> Revision:
        """Ask the syncer to publish the tip of the branch, and return the revision when it is published.

        The request is valid for ``timeout`` seconds, and only while the fleet is in its present state. If the call
        ends early, for any reason, it withdraws the request. ``tick`` is called once a second during the wait, and
        may end it with an error. Raises ``WaitTimeoutError`` if no syncer published in time, and
        ``ZkdeploymentError`` with the syncer's message if it could not publish.
        """
        request = PublicationRequest(
            id=uuid.uuid4().hex,
            by=act.by,
            reason=act.reason,
            time=act.time,
            overrides=overrides or GuardOverrides(),
            state=self._request_state(),
            age_limit=timeout,
        )
        try:
            commit_afresh(
                self._session, lambda: [asking(self._session, request), recording(self._session, act)], _AIM
            )
            return self._wait_for_answer(request, timeout, tick)
        except BaseException:
            with contextlib.suppress(ZkdeploymentError):
                answer_request(self._session, request, None)
            raise

    def _request_state(self) -> RequestState:
        stops = recorded_stops(self._session)
        hosts = self._session.get(paths.HOSTS)
        version = INITIAL if hosts is None else cluster_of(hosts).version
        return RequestState(version, stops.version)

    def _wait_for_answer(self, request: PublicationRequest, timeout: float, tick: Callable[[], None]) -> Revision:
        deadline = time.monotonic() + timeout
        changed = threading.Event()
        while True:
            changed.clear()
            self._session.exists(paths.REQUEST, WatchHandler(changed.set))
            current = read_request(self._session)
            if current is None or current.id != request.id:
                return self._revision_after(current)
            if current.error is not None:
                raise ZkdeploymentError(f"the syncer could not publish: {current.error}")
            notified = _wait(changed, deadline, tick)
            if not notified and answer_request(self._session, current, None):
                raise WaitTimeoutError(
                    f"no syncer published within {timeout:g} s; the request was withdrawn; a syncer may need"
                    f" {CHECK_BUDGET:g} s to check packages; check that a syncer is running and reaches ZooKeeper,"
                    " on its machine: systemctl status zkdeployment-syncer"
                )

    def _hosts(self, verb: str) -> Node:
        hosts = self._session.get(paths.HOSTS)
        if hosts is None:
            raise _no_cluster(verb)
        return hosts

    def _halting(self, act: Act, hosts: Node, event: ClusterEvent) -> list[Operation]:
        return [
            changing_cluster(hosts, event),
            *recording_stop(self._session, Stop.of_operator(act)),
            recording(self._session, act),
        ]

    def _revision_after(self, newer_request: PublicationRequest | None) -> Revision:
        """Return the revision that was published for a request that was removed, or replaced by a newer one."""
        if newer_request is not None:
            raise ConflictError(
                f"{newer_request.by or 'another operator'} replaced the request for a publication; try again"
            )
        published = published_revision(self._session.get(paths.TARGETS))
        if published is None:
            raise ConflictError(
                "a syncer published, but another publication is under way; see 'zkdeployment status'"
            )
        return published


def _wait(changed: threading.Event, deadline: float, tick: Callable[[], None]) -> bool:
    """Wait for an event, with calls of ``tick``; return whether it happened before the ``deadline``."""
    while not changed.wait(min(_TICK, max(0.0, deadline - time.monotonic()))):
        tick()
        if time.monotonic() >= deadline:
            return False
    return True


def _no_cluster(verb: str) -> RefusedError:
    return RefusedError(
        f"there is no /hosts: nothing was published yet, or ZooKeeper was wiped, so there is nothing to {verb}"
    )


def direct(session: Session, directive: Directive, act: Act, group: str | None = None) -> RolloutState:
    """Record an operator's act for the coordinator and return the published revision's rollout, before the act.

    The coordinator applies the act unless another revision is published first. Raises ``RefusedError`` for an act
    that the rollout does not allow.
    """

    def current() -> tuple[str, tuple[Operation, ...]]:
        targets, above = session.get_many([paths.TARGETS, paths.ROLLOUTS])
        rollout_id, sequence = current_id(above), decode_published(targets).effective_since
        if targets is None or rollout_id is None or not rollout_id.startswith(f"{sequence}-"):
            raise RefusedError(
                "there is no rollout: none was begun for what is published; 'zkdeployment rollout show' shows why"
            )
        return rollout_id, (Check(paths.TARGETS, targets.version), recording(session, act))

    return record_act(session, MemberKind.HOST, RolloutAct(directive, act, group), current)


class ZooKeeperRolloutControl:
    """Rollouts, and the directives of operators to the coordinator, through one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def rollout(self, rollout_id: str | None = None) -> RolloutState | None:
        """Return a rollout by its id, or the current one; ``None`` if it does not exist."""
        return read_state(self._session, rollout_id)

    def attempts(self, sequence: int) -> tuple[RolloutState, ...]:
        """Return all rollouts of the publication with this sequence, in order."""
        return read_attempts(self._session, sequence)

    def coordinator(self) -> str | None:
        """Return the identity of the leading coordinator; ``None`` if no coordinator runs."""
        return read_leader(self._session)

    def direct(self, directive: Directive, act: Act, group: str | None = None) -> RolloutState:
        """Record a directive for the coordinator and return the rollout; ``group`` is the group to promote.

        Raises ``RefusedError`` if the rollout does not accept the directive now.
        """
        return direct(self._session, directive, act, group)


class ZooKeeperMaintenance:
    """The maintenance of hosts as operators begin and end it, through one session."""

    def __init__(self, session: Session, fleet: ZooKeeperFleetReader) -> None:
        self._session = session
        self._fleet = fleet

    def begin(
        self,
        selection: HostSelection,
        act: Act,
        *,
        until: float | None = None,
        most: int | None = None,
        drain: bool = False,
    ) -> tuple[str, ...]:
        """Put the selected hosts into maintenance, and return their names; a new record replaces the former one.

        With ``drain``, the hosts undeploy the services that other hosts have.

        Raises ``NotFoundError`` for unknown hosts, and ``RefusedError`` if more than ``most`` hosts would be in
        maintenance. Then nothing is written.
        """
        names: tuple[str, ...] = ()

        def beginning() -> list[Operation]:
            nonlocal names
            parent = self._session.get(paths.MAINTENANCE)
            snapshot = self._fleet.snapshot()
            selected = select_identities(snapshot, selection)
            check_limit(snapshot, selected, most)
            names = tuple(identity.name for identity in selected)
            records = [Maintenance(each.id, act.by, act.reason, act.time, until, drain) for each in selected]
            return [
                # Two acts at the same time must not exceed the limit together.
                Set(paths.MAINTENANCE, b"", -1 if parent is None else parent.version),
                *map(self._writing, records),
                recording(self._session, act),
            ]

        self._session.ensure(paths.MAINTENANCE)
        commit_afresh(self._session, beginning, "begin the maintenance")
        return names

    def end(self, selection: HostSelection, act: Act) -> tuple[str, ...]:
        """End the maintenance of the selected hosts, and return their ids.

        Raises ``NotFoundError`` for unknown hosts, and ``RefusedError`` if there is no maintenance to end.
        """
        ids: tuple[str, ...] = ()

        def ending() -> list[Operation]:
            nonlocal ids
            records = cordoned(self._fleet.snapshot(), selection)
            ids = tuple(record.host_id for record in records)
            return [*(Delete(paths.maintenance_path(host_id)) for host_id in ids), recording(self._session, act)]

        commit_afresh(self._session, ending, "end the maintenance")
        return ids

    def _writing(self, record: Maintenance) -> Operation:
        path = paths.maintenance_path(record.host_id)
        node, data = self._session.get(path), encode(record.to_json())
        return Create(path, data) if node is None else Set(path, data, node.version)
