"""Measures a lock for which many hosts wait, against hosts that read the queue in each turn.

In each turn all hosts try to acquire the lock and check whether the cluster version may have changed, then the
holder releases the lock and the next host acquires it.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.bench_publish import running_server
from benchmarks.results import Result, Scale, seconds
from zkdeployment.agent.files.run_directory import JoinedRoles
from zkdeployment.agent.rules.waiting import Recheck, asks_for_holder
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.agent.store.role_locks import RoleRequestLock, RoleRequests, requests
from zkdeployment.agent.store.service_locks import LockDelay, ZooKeeperServiceLock
from zkdeployment.base.host import Identity
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.contender_lock import contenders
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import make_skeleton

_SESSIONS = 10  # shared by all hosts, because a thousand kazoo clients would dominate the measurement
_RELEASES = 20
_PATIENCE = 60


def measure(scale: Scale) -> Iterator[Result]:
    """Measure a service lock and a role lock, with the largest number of hosts and with a tenth of it."""
    most = scale.hosts[0]
    sent: dict[str, list[Result]] = {}
    with tempfile.TemporaryDirectory() as scratch, running_server(Path(scratch)) as server, ExitStack() as stack:
        sessions = [stack.enter_context(Session(server.address)) for _ in range(_SESSIONS)]
        make_skeleton(sessions[0])
        for waiting in (most // 10, most):
            for result in (*_service_lock(sessions, waiting, scale), *_role_lock(sessions, waiting, scale)):
                yield result
                if not result.unit:
                    sent.setdefault(result.work, []).append(result)
    for few, many in sent.values():
        yield replace(many, against=f"with {few.size}", reference=few.value, at_least=None, at_most=1.1)


def _service_lock(sessions: Sequence[Session], waiting: int, scale: Scale) -> Iterator[Result]:
    name = f"service{waiting}"
    directory = f"{paths.AGENT_LOCKS}/{name}"
    delay = LockDelay(60)
    hosts = [
        ZooKeeperServiceLock(sessions[number % _SESSIONS], name, Identity(f"h{number}", f"h{number}"), delay)
        for number in range(waiting)
    ]
    yield from _results("service lock", hosts, sessions, scale, lambda session: contenders(session, directory))


def _role_lock(sessions: Sequence[Session], waiting: int, scale: Scale) -> Iterator[Result]:
    role = f"role{waiting}"
    sessions[0].ensure(f"{paths.ROLE_LOCKS}/{role}")
    hosts = [
        RoleRequests(sessions[number % _SESSIONS], JoinedRoles()).lock(
            role, Identity(f"h{number}", f"h{number}", role)
        )
        for number in range(waiting)
    ]
    yield from _results("role lock", hosts, sessions, scale, lambda session: requests(session, role))


def _results(
    work: str,
    hosts: Sequence[ZooKeeperServiceLock] | Sequence[RoleRequestLock],
    sessions: Sequence[Session],
    scale: Scale,
    read_queue: Callable[[Session], object],
) -> Iterator[Result]:
    """Measure hosts that wait for a lock while some of them acquire and release it in order."""
    for host in hosts:
        host.acquire(0)
    releases = min(_RELEASES, len(hosts) - 1)
    queue = list(hosts)

    def release() -> None:
        queue.pop(0).release()
        if not queue[0].acquire(_PATIENCE):
            raise TimeoutError("the lock was given back, and the next host did not get it")

    known = {host: host.ahead for host in hosts}
    clock = SystemClock()
    rechecks = {host: Recheck(clock, partial(getattr, host._session, "id")) for host in hosts}
    for host in hosts:
        _read_cluster(host, rechecks[host])

    def take_turns() -> None:
        for turn in range(1, releases + 1):
            for host in queue[1:]:
                host.acquire(0)
                if rechecks[host].is_due:
                    _read_cluster(host, rechecks[host])
                if asks_for_holder(turn, host.ahead, known[host]):
                    host.holder()
                    known[host] = host.ahead
            release()

    with _counting(sessions) as sent:
        taken = seconds(take_turns) / releases
        ours = len(sent) / releases
    with _counting(sessions) as sent:
        # The reading is the same for all hosts, so it is measured once per round and multiplied.
        plain = [seconds(lambda: read_queue(sessions[0])) for _ in range(scale.rounds)]
        theirs = len(sent) / scale.rounds
    size = f"{len(hosts):,} hosts wait"
    others = len(hosts) - 1
    against = "all read the queue in each turn"
    yield Result(
        work=f"{work}: a turn of all and a release",
        size=size,
        value=taken,
        against=against,
        reference=min(plain) * others,
        at_least=10,
    )
    yield Result(
        work=f"{work}: requests for a released lock",
        size=size,
        value=ours,
        unit="",
        against=against,
        reference=theirs * others,
        at_least=10,
    )


def _read_cluster(host: ZooKeeperServiceLock | RoleRequestLock, recheck: Recheck) -> None:
    """Read the cluster version as a host that waits does, with a watch."""
    ZooKeeperFleet(host._session).cluster(Identity("id0", "host0"), recheck.begin())


@contextmanager
def _counting(sessions: Sequence[Session]) -> Iterator[list[object]]:
    """Yield a list that records the requests that sessions send during the context."""
    sent: list[object] = []
    calls = [session._client._call for session in sessions]

    def counted(call: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def send(request: Any, result: Any) -> Any:
            sent.append(request)
            return call(request, result)

        return send

    for session, call in zip(sessions, calls, strict=True):
        session._client._call = counted(call)
    try:
        yield sent
    finally:
        for session, call in zip(sessions, calls, strict=True):
            session._client._call = call
