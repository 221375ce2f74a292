"""Decides from the progress of a service whether those that wait for it may go on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.model.host import ORDER_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.publication import OrderEntry

#: Seconds between two reads of the progress by one waiting host: at least, at most, and for each expected host.
#: All hosts together then read about as often, however many wait.
_SHORTEST, _LONGEST, _FOR_EACH = 5.0, 300.0, 0.06


@dataclass(frozen=True, slots=True)
class OrderProgress:
    """A snapshot of the progress of one entry.

    ``finished`` are the hosts that have deployed the service, or have the whole publication; ``registered`` are
    all registered hosts. ``names`` are the names of some unfinished hosts by id. ``failed`` are the hosts that
    will not deploy the service in the present rollout, with the reason.
    """

    entry: OrderEntry
    finished: frozenset[str] = frozenset()
    registered: frozenset[str] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OrderWait:
    """The hosts, by id, that have not deployed a service yet; ``failure`` is why one of them never will."""

    path: str
    missing: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    failure: str = ""

    def __bool__(self) -> bool:
        return bool(self.missing)

    @property
    def step(self) -> str:
        """The step of the waiting host: ``waits for /shop/db on app3 and 2 other hosts``."""
        others = len(self.missing) - 1
        more = f" and {others} other host{'s' if others > 1 else ''}" if others else ""
        return f"{ORDER_PREFIX}{self.path} on {self.names[0]}{more}"


def order_wait(path: str, progress: OrderProgress, *, gaining: bool, ignores_failures: bool = False) -> OrderWait:
    """Return for which hosts a deployment waits, or with ``gaining`` the undeployment of a host that loses it.

    Hosts that are not registered are not waited for. But a service is not undeployed before at least one host that
    gains it has it. With ``ignores_failures`` hosts that failed are not waited for.
    """
    expected = progress.entry.gaining if gaining else progress.entry.hosts
    unfinished = [host_id for host_id in expected if host_id not in progress.finished]
    missing = [host_id for host_id in unfinished if host_id in progress.registered]
    if ignores_failures:
        missing = [host_id for host_id in missing if host_id not in progress.failed]
    elif gaining and len(unfinished) == len(expected):
        missing = unfinished
    names = tuple(progress.names.get(host_id, host_id) for host_id in missing)
    failed = next((host_id for host_id in missing if host_id in progress.failed), None)
    failure = ""
    if failed is not None:
        name = progress.names.get(failed, failed)
        failure = f"{path} is not deployed on {name}, which this host waits for: {progress.failed[failed]}"
    return OrderWait(path, tuple(missing), names, failure)


def is_finished(progress: OrderProgress) -> bool:
    """Whether nobody needs to wait for any host of an entry any more."""
    return not order_wait("", progress, gaining=False) and not order_wait("", progress, gaining=True)


def reading_interval(hosts: int) -> float:
    """Return the seconds between two reads of the progress of ``hosts`` hosts by one waiting host."""
    return min(_LONGEST, max(_SHORTEST, _FOR_EACH * hosts))
