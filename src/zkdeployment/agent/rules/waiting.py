"""Decides how a host waits for others: for which hosts, until when, and how often it sends requests meanwhile.

A thousand hosts may wait for one lock. Watches notify a waiting host of its turn and of a change of the cluster
version. Two facts have no watch, because a watch would wake all waiting hosts whenever one of them gets its turn:
the name of the lock's holder, and whether another lock has become free. Hosts read these at intervals that double;
the farther back a host is in the queue, the later it reads. A waiting host reads the cluster version and the other
conditions of its deployment once, with watches, and again only when one of these watches fired.
"""

from __future__ import annotations

import threading
from dataclasses import field, replace
from typing import TYPE_CHECKING

from zkdeployment.base.daemon.cycles import jittered
from zkdeployment.base.host import ORDER_PREFIX, RESTART
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.base.publication import OrderEntry
    from zkdeployment.strategies.permission import RolloutOutline


#: Seconds between two checks of the notes of watches, and between two reads of a host that reads in each turn.
TURN = 2.0

_MAX_TURNS = 30  # between two checks of other locks


def asks_for_holder(turn: int, ahead: int, known: int | None) -> bool:
    """Return whether to read the lock's holder in this turn; ``ahead`` counts the hosts ahead in the queue.

    ``known`` is that number when the holder was last read, ``None`` before. The next host in the queue watches the
    holder itself. A holder that has to wait for a lock delay reads the blocking record in each turn.
    """
    if ahead < 2 or ahead != known:
        return ahead == 0 or ahead != known
    return _is_doubling(turn, ahead)


def asks_for_others(turn: int, ahead: int) -> bool:
    """Return whether to check in this turn whether another lock is free: at least once a minute.

    The hosts at the head of the queue check soon and often at first: a free lock is unused at most as long as the
    first host that needs it has waited.
    """
    if turn >= _MAX_TURNS:
        return turn % _MAX_TURNS == 0
    return _is_doubling(turn, min(max(1, ahead), _MAX_TURNS))


def _is_doubling(turn: int, first: int) -> bool:
    """Whether a turn is 0, ``first``, or a multiple of that by a power of two."""
    multiple, rest = divmod(turn, first)
    return rest == 0 and multiple & (multiple - 1) == 0


_PATIENCE = 300.0  # seconds until the conditions are read again although no watch fired


class Recheck:
    """Whether the conditions of one deployment have to be read again.

    ``session`` returns the id of the current session with ZooKeeper: watches end with their session.
    """

    def __init__(self, clock: Clock, session: Callable[[], int | None]) -> None:
        self._clock = clock
        self._session = session
        self._changed = threading.Event()
        self._changed.set()
        self._watching: int | None = None
        self._due = 0.0

    def note_change(self) -> None:
        """Note that a condition may have changed; may be called on any thread."""
        self._changed.set()

    @property
    def is_due(self) -> bool:
        """Whether the conditions may have changed since they were last read; sends no request."""
        return self._changed.is_set() or self._session() != self._watching or self._clock.monotonic() >= self._due

    @property
    def is_late(self) -> bool:
        """Whether the conditions are due although no watch fired, because they were read long ago."""
        return self._watching is not None and self._clock.monotonic() >= self._due

    def begin(self) -> Callable[[], None]:
        """Return the function to call at the next change; call ``begin`` before the conditions are read."""
        self._changed.clear()
        self._watching = self._session()
        self._due = self._clock.monotonic() + jittered(_PATIENCE)
        return self.note_change


def undeployable_hosts(rollout: RolloutOutline, hosts: Iterable[str]) -> dict[str, str]:
    """Return those of the unfinished ``hosts`` that will not deploy in this rollout, with the reason.

    These are hosts that failed, and hosts outside the present group that have not succeeded: groups run one after
    the other, and a host never waits for a later group.
    """
    awaited = None if rollout.under_way is None else rollout.under_way | rollout.late_joiners
    reasons = {}
    for host_id in hosts:
        if host_id in rollout.succeeded:
            continue
        if host_id in rollout.failures:
            reasons[host_id] = rollout.failures[host_id]
        elif awaited is not None and host_id not in awaited:
            reasons[host_id] = "the host's group was not rolled out"
    return reasons


#: Seconds between two reads of the progress by one waiting host: at least, at most, and for each expected host.
#: The number of reads of all hosts together then hardly depends on the number of waiting hosts.
_SHORTEST, _LONGEST, _FOR_EACH = 5.0, 300.0, 0.06

_PUBLISH = "publish the revision again with 'zkdeployment resume --latest' or 'zkdeployment sync --force'"


@dataclass(frozen=True)
class OrderProgress:
    """A snapshot of the progress of one entry.

    ``finished`` are the hosts that have the service or the whole publication; ``registered`` are the other
    expected hosts that are registered or assumed to be restarting. ``names`` are the names of some unfinished
    hosts by id. ``failed`` are the hosts that will not deploy the service in the present rollout, with the reason.
    ``is_lost`` is whether the entry is missing although its publication is the last one.
    """

    entry: OrderEntry
    finished: frozenset[str] = frozenset()
    registered: frozenset[str] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class OrderWait:
    """The hosts, by id, that have not deployed a service yet; ``failure`` is why one of these never will."""

    path: str
    missing: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    failure: str = ""

    def __bool__(self) -> bool:
        return bool(self.missing or self.failure)

    @property
    def step(self) -> str:
        """The step of the waiting host: ``waits for /shop/db on app3 and 2 other hosts``."""
        others = len(self.missing) - 1
        more = f" and {counted(others, 'other host')}" if others else ""
        return f"{ORDER_PREFIX}{self.path} on {self.names[0]}{more}"


def order_wait(path: str, progress: OrderProgress, *, gaining: bool, ignores_failures: bool = False) -> OrderWait:
    """Return the hosts for which a deployment waits, or with ``gaining`` an undeployment on a host that loses it.

    A host does not wait for hosts that are not registered. But at least one host has to have the service before an
    undeployment, and before a deployment if one of the hosts was registered at the time of the publication. With
    ``ignores_failures``, the host does not wait for hosts that failed. A lost entry is a failure.
    """
    if progress.is_lost:
        return OrderWait(
            path, failure=f"ZooKeeper has lost which hosts deploy {path} before this host; {_PUBLISH}"
        )
    expected = progress.entry.gaining if gaining else progress.entry.hosts
    unfinished = [host_id for host_id in expected if host_id not in progress.finished]
    missing = [host_id for host_id in unfinished if host_id in progress.registered]
    if ignores_failures:
        missing = [host_id for host_id in missing if host_id not in progress.failed]
    elif not missing and len(unfinished) == len(expected):
        absent = () if gaining else progress.entry.absent
        missing = [host_id for host_id in unfinished if host_id not in absent]
    names = tuple(progress.names.get(host_id, host_id) for host_id in missing)
    failed = next((host_id for host_id in missing if host_id in progress.failed), None)
    failure = ""
    if failed is not None:
        name = progress.names.get(failed, failed)
        failure = f"{path} is not deployed on {name}, which this host waits for: {progress.failed[failed]}"
    return OrderWait(path, tuple(missing), names, failure)


def is_finished(progress: OrderProgress) -> bool:
    """Whether all hosts of an entry have deployed its service, so that other hosts no longer need to wait."""
    return progress.finished.issuperset(progress.entry.hosts)


def with_restarting(
    progress: OrderProgress, before: OrderProgress | None, absent: Mapping[str, float], now: float
) -> tuple[OrderProgress, Mapping[str, float]]:
    """Return the progress with the hosts assumed to be restarting, and the times since which these are absent.

    These hosts were registered in the progress ``before`` (without it, at the time of the publication), or have
    joined the service since, and have been absent for less than ``RESTART`` seconds. ``absent`` are the times that
    were returned with ``before``. Hosts that failed are not assumed to be restarting.
    """
    expected = frozenset(progress.entry.hosts)
    if before is None:
        present = expected.difference(progress.entry.absent)
    else:
        present = expected & before.registered.union(expected.difference(before.entry.hosts))
    away = present - progress.finished - progress.registered - progress.failed.keys()
    since = {host_id: absent.get(host_id, now) for host_id in sorted(away)}
    since = {host_id: moment for host_id, moment in since.items() if now < moment + RESTART}
    return replace(progress, registered=progress.registered.union(since)), since


def reading_interval(hosts: int) -> float:
    """Return the seconds between two reads of the progress of ``hosts`` hosts by one waiting host."""
    return min(_LONGEST, max(_SHORTEST, _FOR_EACH * hosts))
