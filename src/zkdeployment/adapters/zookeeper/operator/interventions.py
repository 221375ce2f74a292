"""What operators do to the cluster version: stop, hold and resume, each written down with who, when and why."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import Node, encode
from zkdeployment.adapters.zookeeper.client.transactions import Check, Operation, Set
from zkdeployment.adapters.zookeeper.operator.audit import recording
from zkdeployment.adapters.zookeeper.operator.stops import (
    few_stops,
    forgetting_stops,
    recorded_stops,
    recording_stop,
)
from zkdeployment.adapters.zookeeper.publication.requests import answer_request, asking, read_request
from zkdeployment.errors import ConflictError, RefusedError, WaitTimeoutError, ZkdeploymentError
from zkdeployment.model.cluster import INITIAL, Cluster, ClusterState, is_revision
from zkdeployment.model.publication import GuardOverrides, PublicationRequest, RequestState
from zkdeployment.model.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.act import Act
    from zkdeployment.model.cluster import Revision

#: How often a write is tried again when others write to the same nodes at the same time.
_ATTEMPTS = 20


class Interventions:
    """Operators' stopping, holding and resuming, through one session. Safe while anybody else does the same."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def stop(self, act: Act) -> None:
        """Set the cluster version to null, also when it is null already: then the reason is added.

        Raises ``RefusedError`` where nothing was ever published.
        """
        self._retry(lambda: self._halting(act, self._hosts("stop"), version=None))

    def hold(self, act: Act) -> None:
        """Set the cluster version to false.

        Raises ``RefusedError`` when the cluster is stopped, which says more than a hold, when a publication is
        under way, which would end the hold at once, and where nothing was ever published.
        """

        def holding() -> list[Operation]:
            """Read what is there and return what holds it."""
            hosts = self._hosts("hold")
            cluster = Cluster.from_properties(hosts.properties)
            if cluster.state is ClusterState.STOPPED:
                raise RefusedError("the cluster is stopped, and a hold would lift that; see 'zkdeployment status'")
            if cluster.importing is not None:
                raise RefusedError(
                    f"{cluster.importing} is being published, which would end the hold at once; try again when it"
                    " is, or use 'zkdeployment stop'"
                )
            return self._halting(act, hosts, version=False)

        self._retry(holding)

    def resume(self, act: Act) -> Revision:
        """End a stop or a hold: set the published revision again, forget the stops, and return it.

        Hosts that failed try again then. Raises ``RefusedError`` when the cluster is neither stopped nor held, or
        when no revision is wholly published.
        """
        published: Revision = ""

        def resuming() -> list[Operation]:
            """Read what is there and return what ends the stop."""
            nonlocal published
            hosts, targets, published = _resumable(*self._session.get_many([paths.HOSTS, paths.TARGETS]))
            return [
                Check(paths.TARGETS, targets.version),
                Set(paths.HOSTS, encode(hosts.properties | {"version": published}), hosts.version),
                *forgetting_stops(few_stops(self._session, hosts.version)),
                recording(self._session, act),
            ]

        self._retry(resuming)
        return published

    def resume_latest(self, act: Act, *, timeout: float, overrides: GuardOverrides | None = None) -> Revision:
        """Ask the syncer to publish the branch's tip, and return the revision once it has.

        The request is for the present state of the fleet, and for ``timeout`` seconds. Raises ``WaitTimeoutError``
        when no syncer published within that time (the request is taken back then, as it is when the wait is
        interrupted) and ``ZkdeploymentError`` with the syncer's words when it could not.
        """
        request = PublicationRequest(
            id=uuid.uuid4().hex,
            by=act.by,
            reason=act.reason,
            time=act.time,
            overrides=overrides or GuardOverrides(),
            state=self._state(),
            age_limit=timeout,
        )
        changed = threading.Event()
        self._session.watch(paths.REQUEST, changed.set)
        try:
            self._retry(lambda: [asking(self._session, request), recording(self._session, act)])
            return self._wait_served(request, changed, timeout)
        except BaseException:
            with contextlib.suppress(ZkdeploymentError):
                answer_request(self._session, request, None)
            raise

    def _state(self) -> RequestState:
        stops = recorded_stops(self._session)
        hosts = self._session.get(paths.HOSTS)
        version = INITIAL if hosts is None else Cluster.from_properties(hosts.properties).version
        return RequestState(version, stops.version)

    def _wait_served(self, request: PublicationRequest, changed: threading.Event, timeout: float) -> Revision:
        deadline = time.monotonic() + timeout
        while True:
            changed.clear()
            published_state = read_request(self._session)
            if published_state is None or published_state.id != request.id:
                return self._just_published(published_state)
            if published_state.error is not None:
                raise ZkdeploymentError(f"the syncer could not publish: {published_state.error}")
            waited = changed.wait(max(0.0, deadline - time.monotonic()))
            if not waited and answer_request(self._session, published_state, None):
                raise WaitTimeoutError(
                    f"no syncer published within {timeout:g} s, so the request was taken back;"
                    " is one running ('zkdeployment sync CONFIG --interval S')?"
                )

    def _hosts(self, verb: str) -> Node:
        hosts = self._session.get(paths.HOSTS)
        if hosts is None:
            raise RefusedError(
                f"there is no /hosts: nothing was ever published here, so there is nothing to {verb}"
            )
        return hosts

    def _halting(self, act: Act, hosts: Node, *, version: bool | None) -> list[Operation]:
        changed = encode(hosts.properties | {"version": version})
        return [
            Set(paths.HOSTS, changed, hosts.version),
            *recording_stop(self._session, Stop.of_operator(act)),
            recording(self._session, act),
        ]

    def _retry(self, operations: Callable[[], list[Operation]]) -> None:
        for _ in range(_ATTEMPTS):
            try:
                self._session.commit(*operations())
            except ConflictError:
                continue
            return
        raise ConflictError("the cluster version changes all the time; look at it with 'zkdeployment status'")

    def _just_published(self, published_state: PublicationRequest | None) -> Revision:
        if published_state is not None:
            raise ConflictError(
                f"{published_state.by or 'somebody'} asked for a publication at the same time; try again"
            )
        published = published_revision(self._session.get(paths.TARGETS))
        if published is None:
            raise ConflictError(
                "a syncer published, but another publication is under way; see 'zkdeployment status'"
            )
        return published


def published_revision(targets: Node | None) -> Revision | None:
    """Return the revision whose tree and targets are wholly published, as the targets' node says."""
    version = None if targets is None else targets.properties.get("version")
    return version if is_revision(version) else None


def _resumable(hosts: Node | None, targets: Node | None) -> tuple[Node, Node, Revision]:
    """Return the nodes and the revision to be set again; raises ``RefusedError`` that says why there is none."""
    if hosts is None:
        raise RefusedError("there is no /hosts: nothing was ever published here, so there is nothing to resume")
    cluster = Cluster.from_properties(hosts.properties)
    if cluster.state not in {ClusterState.STOPPED, ClusterState.HELD}:
        raise RefusedError(
            f"the cluster is neither stopped nor held: it is {cluster.state.value} at {cluster.version}"
        )
    published = published_revision(targets)
    if targets is None or published is None or cluster.importing is not None:
        raise RefusedError(
            "no revision is wholly published (a publication was interrupted, or there was none);"
            " publish one with 'zkdeployment resume --latest' or 'zkdeployment sync --force'"
        )
    return hosts, targets, published
