"""Explanations: a cause, a sentence, facts and advice; explains waits for locks and for services."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Self

from zkdeployment.base.durations import age, ago
from zkdeployment.base.host import ORDER_PREFIX, Host
from zkdeployment.base.lock import Contender, Lock, LockedWork, LockKind
from zkdeployment.base.records import Key, Record
from zkdeployment.base.stop import FailureOutput
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.locks import reboot_of_holder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zkdeployment.fleet.views.snapshot import FleetSnapshot


class Cause(Enum):
    """The root cause for which a host is not at the cluster version."""

    CONVERGED = "converged"
    UNPUBLISHED = "unpublished"  # no revision was ever published
    UNKNOWN = "unknown"  # no host of this id or name is known
    ABSENT = "absent"  # the host's agent is not registered
    REBOOTING = "rebooting"  # the host is expected back from a reboot
    MAINTENANCE = "maintenance"  # an operator withholds the host from deployments
    FAILED = "failed"
    STOPPED = "stopped"
    HELD = "held"
    IMPORTING = "importing"  # a publication is in progress, or was interrupted
    LOCK = "lock"  # the host waits for a lock
    WORKING = "working"
    IDLE = "idle"  # the host is registered and has not begun
    ORDER = "order"  # the host waits for other hosts to deploy a service
    ROLLOUT = "rollout"  # the rollout has not reached the host


@dataclass(frozen=True, slots=True)
class HostFinding:
    """A finding of a feature on a host, such as the last result of a check of one of its services.

    ``word`` is the finding in a word, ``subject`` what was checked, ``host`` the name of the host. ``body`` is the
    finding as ``-o json`` prints it.
    """

    word: str
    subject: str
    host: str
    detail: str
    body: Mapping[str, Any]


def _findings(findings: Iterable[HostFinding]) -> list[Mapping[str, Any]]:
    return [finding.body for finding in findings]


class Advice(str):
    """A sentence that tells an operator what to do, with a command; ``on_page`` is the sentence beside a link.

    The link leads to the form of the act ``target`` of the service with these ``values``, or to a page: ``host``,
    with the id or the name of the host, ``fleet`` or ``rollout``.
    """

    __slots__ = ("on_page", "target", "values")

    target: str
    on_page: str
    values: Mapping[str, str]

    def __new__(cls, text: str, target: str, on_page: str, **values: str) -> Self:
        """Return the sentence with its link."""
        advice = super().__new__(cls, text)
        advice.target, advice.on_page, advice.values = target, on_page, values
        return advice


def ask_host(text: str, host: str, on_page: str) -> Advice:
    """Return the advice to read the explanation of another host, given by its id or name."""
    return Advice(text, "host", on_page, host=host)


def release_lock(lock: Lock, text: str, on_page: str) -> Advice:
    """Return the advice to release a lock; ``text`` is followed by the command."""
    return Advice(
        f"{text} zkdeployment locks release {lock.name} --reason TEXT", "release", on_page, lock=lock.name
    )


@dataclass(frozen=True, slots=True)
class Explanation(Record):
    """The cause, one sentence about it, facts that support the sentence, and advice for the operator.

    ``output`` is the end of the output of the script with which the host failed, if it is kept. ``checks`` holds
    the findings of the checks of the host's services.
    """

    cause: Cause
    sentence: Annotated[str, Key("answer")]
    facts: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    output: FailureOutput | None = None
    checks: Annotated[tuple[Any, ...], Key(write=_findings)] = ()


def explain_wait_for_lock(
    snapshot: FleetSnapshot, locks: Sequence[Lock], host: Host, now: float
) -> Explanation | None:
    """Explain the lock for which a host waits, if any; a host waits for one lock at a time."""
    for lock in locks:
        contender = next((one for one in lock.contenders if one.host_id == host.identity.id), None)
        if contender is None:
            continue
        left = lock.abandoned_work
        if left is not None and left.host_id != host.identity.id:
            return _explain_lock_delay(lock, left, host, now)
        if lock.holder is not None and contender in lock.waiting:
            return _explain_queue(snapshot, lock, lock.holder, contender, host, now)
    return None


def _explain_lock_delay(lock: Lock, left: LockedWork, host: Host, now: float) -> Explanation:
    return Explanation(
        Cause.LOCK,
        f"{host.identity} waits because {left.host_name} ({left.host_id}) lost {lock} in the middle of a script.",
        (
            f"that script was {left.step}, begun {ago(left.since, now)}",
            "the wait ends when the lock delay is over, at the latest",
        ),
        (
            ask_host(
                f"'zkdeployment why {left.host_id}' explains the present state of that host",
                left.host_id,
                "see the present state of that host",
            ),
            release_lock(
                lock, "if that script has certainly ended:", "if that script has certainly ended, release the lock"
            ),
        ),
    )


def _explain_queue(
    snapshot: FleetSnapshot, lock: Lock, holder: Contender, waiting: Contender, host: Host, now: float
) -> Explanation:
    place = 1 + lock.waiting.index(waiting)
    holding = next((host for host in snapshot.hosts if host.identity.id == holder.host_id), None)
    waited = age(now - waiting.since)
    facts = [f"the host is number {place} of {len(lock.waiting)} in the queue and has waited for {waited}"]
    advice = []
    if holder.host_id:
        text = f"'zkdeployment why {holder.host_id}' shows what the holder is doing"
        advice.append(ask_host(text, holder.host_id, "see what the holder is doing"))
    reboot = reboot_of_holder(lock, snapshot)
    if reboot is not None:  # no release is due: the host continues under the lock after its boot
        facts.append(f"the holder {reboot}")
    elif lock.is_kept and lock.work is not None:
        facts.append(f"the lock is kept for the holder, which has not completed {lock.work.step}")
        if holding is None:
            facts.append("the holder is not registered: the lock stays kept until that host is back")
        advice.append(
            release_lock(
                lock,
                "if the holder never comes back, or is in the way: make sure that its script does not run, then",
                "if the holder never comes back, or is in the way: make sure that its script does not run, then"
                " release the lock",
            )
        )
    elif lock.work is not None:
        facts.append(f"the holder is at {lock.work.step}")
    elif holding is not None and holding.step is not None:
        facts.append(f"the holder is at: {holding.step}")
    if reboot is None and lock.kind is LockKind.ROLE and (holding is None or holding.error is not None):
        facts.append("the holder failed" if holding is not None else "the holder is not registered")
        facts.append(
            "a host keeps the lock of its role until it has succeeded"
            + (", or until the rollout continues without the host" if snapshot.governed else "")
        )
        advice.append(
            release_lock(
                lock,
                "if the holder never comes back and certainly runs no script:",
                "if the holder never comes back and certainly runs no script, release the lock",
            )
        )
    return Explanation(
        Cause.LOCK,
        f"{host.identity} waits for {lock}, which {holder.identity} has held for {age(now - lock.since)}.",
        tuple(facts),
        tuple(advice),
    )


def explain_wait_for_service(snapshot: FleetSnapshot, host: Host, now: float) -> Explanation | None:
    """Explain the service for which a host waits, and the state of the awaited host; ``None`` without a wait.

    ``now`` is in seconds since the epoch.
    """
    if host.step is None or not host.step.startswith(ORDER_PREFIX):
        return None
    service, _, listed = host.step.removeprefix(ORDER_PREFIX).partition(" on ")
    name = listed.partition(" ")[0]
    since = "" if host.since is None else f" (last change {ago(host.since, now)})"
    return Explanation(
        Cause.ORDER,
        f"{host.identity} {host.step}{since}.",
        (_state(snapshot, name, service, now), "the host holds no lock while it waits"),
        (
            ask_host(f"'zkdeployment why {name}' explains the state of that host", name, "see that host"),
            "the properties deploy_after and undeploy of the services define who waits for whom",
        ),
    )


def _state(snapshot: FleetSnapshot, name: str, service: str, now: float) -> str:
    """Return the state of an awaited host as a clause."""
    host = next((host for host in snapshot.hosts if name in {host.identity.name, host.identity.id}), None)
    if host is None:
        return f"{name} is not registered; it is to gain {service}, which would be missing on all hosts otherwise"
    if host.error is not None:
        return f"{host.identity} failed: {host.error}"
    if host.step is None:
        return f"{host.identity} has not begun to deploy"
    since = "" if host.since is None else f", last change {ago(host.since, now)}"
    return f"{host.identity} is at: {host.step}{since}"
