"""Stops, holds and resumes the fleet: the changes of the cluster version by operators.

Each change and its audit record are written in one transaction.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from zkdeployment.base.cluster import INITIAL, ClusterEvent, Revision, retrying
from zkdeployment.base.errors import ConflictError, RefusedError, WaitTimeoutError, ZkdeploymentError
from zkdeployment.base.host import Host, retry_objection
from zkdeployment.base.stop import Stop
from zkdeployment.fleet.store.audit import recording
from zkdeployment.publishing.records import GuardOverrides, PublicationRequest, RequestState
from zkdeployment.publishing.store.cluster import (
    changing_cluster,
    cluster_of,
    few_stops,
    forgetting_stops,
    published_revision,
    read_stops,
    recorded_stops,
    recording_stop,
    resuming_group,
    setting_cluster,
)
from zkdeployment.publishing.store.maintenance import read_maintenance
from zkdeployment.publishing.store.requests import answer_request, asking, read_request
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.connection import WatchHandler
from zkdeployment.zookeeper.transactions import Check, Operation, commit_afresh

if TYPE_CHECKING:
    from zkdeployment.base.act import Act
    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session

_AIM = "change the cluster version"


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
            cluster = retrying(cluster_of(hosts), host_id, published)
            host = None if node is None else Host.from_properties(host_id, node.properties)
            maintenance = read_maintenance(self._session, act.time, [quote(host_id, safe="")])
            reason = retry_objection(host, read_stops(self._session), published, maintenance)
            if reason:
                raise RefusedError(f"{host_id} cannot try again: {reason}")
            return [
                setting_cluster(hosts, cluster),
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

    def resume_latest(self, act: Act, *, timeout: float, overrides: GuardOverrides | None = None) -> Revision:
        """Ask the syncer to publish the tip of the branch, and return the revision when it is published.

        The request is valid for ``timeout`` seconds, and only while the fleet is in its present state. If the call
        ends early, for any reason, it withdraws the request. Raises ``WaitTimeoutError`` if no syncer published in
        time, and ``ZkdeploymentError`` with the syncer's message if it could not publish.
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
            return self._wait_for_answer(request, timeout)
        except BaseException:
            with contextlib.suppress(ZkdeploymentError):
                answer_request(self._session, request, None)
            raise

    def _request_state(self) -> RequestState:
        stops = recorded_stops(self._session)
        hosts = self._session.get(paths.HOSTS)
        version = INITIAL if hosts is None else cluster_of(hosts).version
        return RequestState(version, stops.version)

    def _wait_for_answer(self, request: PublicationRequest, timeout: float) -> Revision:
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
            notified = changed.wait(max(0.0, deadline - time.monotonic()))
            if not notified and answer_request(self._session, current, None):
                raise WaitTimeoutError(
                    f"no syncer published within {timeout:g} s; the request was withdrawn; check that a syncer is"
                    " running and reaches ZooKeeper, on its machine: systemctl status zkdeployment-syncer"
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


def _no_cluster(verb: str) -> RefusedError:
    return RefusedError(
        f"there is no /hosts: nothing was published yet, or ZooKeeper was wiped, so there is nothing to {verb}"
    )
