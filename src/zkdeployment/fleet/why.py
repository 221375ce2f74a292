"""Why a host is not (yet) at the cluster version: one answer, for somebody who is tired."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.fleet.ages import age, ago
from zkdeployment.fleet.explanation import Cause, Explanation
from zkdeployment.fleet.rollout_why import why_failed, why_not_granted
from zkdeployment.fleet.stops import in_force, tell
from zkdeployment.model.cluster import ClusterState, short
from zkdeployment.model.lock import LockKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zkdeployment.fleet.snapshot import Snapshot
    from zkdeployment.model.host import Host
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.lock import Lock
    from zkdeployment.model.stop import Stop
    from zkdeployment.model.work import LockedWork

#: What a registered host that is told of a version is given to begin, in seconds.
_PROMPT = 10.0

#: How many hosts that failed in the same way are named.
_NAMED = 3


def why(snapshot: Snapshot, locks: Sequence[Lock], asked: str, *, now: float) -> Explanation:
    """Say why the host ``asked`` for (id or name) is not at the cluster version; ``now`` is since the epoch."""
    host = next((one for one in snapshot.hosts if asked in {one.identity.id, one.identity.name}), None)
    if host is None:
        known = next((one for one in snapshot.absent if asked in {one.identity.id, one.identity.name}), None)
        return _absent(snapshot, locks, asked, known, now)
    answer = _why_registered(snapshot, locks, host, now)
    role = snapshot.out_of_service.get(host.identity.id)
    if role is None or answer.cause is Cause.CONVERGED:
        return answer
    return replace(answer, facts=(*answer.facts, _out_of_service(role)))


def _out_of_service(role: str) -> str:
    return (
        f"it is out of service: it gave the lock of role {role} to the other hosts of the role, and"
        " 'ending-deployments' does not run before its next deployment is through"
    )


def _why_registered(snapshot: Snapshot, locks: Sequence[Lock], host: Host, now: float) -> Explanation:
    if host.error is not None:
        return why_failed(snapshot, host.identity, host.error) or _failed(snapshot, host, now)
    cluster = snapshot.cluster
    state = None if cluster is None else cluster.state
    match state:
        case None:
            return Explanation(
                Cause.UNPUBLISHED,
                "Nothing was published yet: there is no /hosts.",
                advice=("start a syncer, or 'zkdeployment sync CONFIG'",),
            )
        case ClusterState.STOPPED | ClusterState.HELD:
            return _halted(snapshot, host, now)
        case ClusterState.IMPORTING:
            return _importing(snapshot, locks, now)
    if cluster is not None and host.has(cluster.version or None) and host.deploying is None:
        return Explanation(
            Cause.CONVERGED,
            f"{host.identity} is at the cluster version {short(cluster.version or None)}: nothing to explain.",
        )
    return (
        _waiting(snapshot, locks, host, now)
        or why_not_granted(snapshot, host.identity, now)
        or _underway(snapshot, host, now)
    )


def _absent(
    snapshot: Snapshot, locks: Sequence[Lock], asked: str, known: KnownHost | None, now: float
) -> Explanation:
    names = {asked} if known is None else {asked, *known.identity.target_names}
    shown = asked if known is None else str(known.identity)
    traces = [*_traces(snapshot, locks, asked if known is None else known.identity.id, asked, now)]
    if not snapshot.targets.isdisjoint(names):
        traces.append("the published tree deploys to it")
    if known is None and not traces:
        return Explanation(
            Cause.UNKNOWN,
            f"Nobody knows a host {asked}: none of that id or name is registered, or is named by the tree.",
            advice=("'zkdeployment status' lists hosts by name and id",),
        )
    if known is not None and known.time:
        traces.insert(0, f"what it has was last written {ago(known.time, now)}")
    return Explanation(
        Cause.ABSENT,
        f"{shown} is not registered: its agent does not run, or does not reach ZooKeeper.",
        tuple(traces),
        (
            "on the host: systemctl status zkdeployment-agent; journalctl -u zkdeployment-agent",
            f"if it is gone for good: take it out of the tree, then 'zkdeployment forget {asked}'",
        ),
    )


def _traces(snapshot: Snapshot, locks: Sequence[Lock], host_id: str, name: str, now: float) -> Iterator[str]:
    """What a host that is not there left behind."""
    ids = {host_id, name}
    for stop in snapshot.stops:
        if stop.by is None and not ids.isdisjoint({stop.host_id, stop.host_name}):
            yield f"{stop} ({ago(stop.time, now)})"
    for lock in locks:
        if lock.work is not None and not ids.isdisjoint({lock.work.host_id, lock.work.host_name}):
            yield f"it was at {lock.work.step} {ago(lock.work.since, now)}"
        for place, one in enumerate(lock.contenders):
            if one.host_id in ids:
                which = "has" if place == 0 else "waits for"
                yield f"it still {which} {lock}, since {age(now - one.since)}; {_others(len(lock.contenders) - 1)}"


def _failed(snapshot: Snapshot, host: Host, now: float) -> Explanation:
    mine = [stop for stop in snapshot.stops if stop.by is None and stop.host_id == host.identity.id]
    facts = [f"it failed at {stop.step} of {short(stop.revision)}, {ago(stop.time, now)}" for stop in mine]
    facts.append(_had(snapshot, host))
    others = [stop for stop in in_force(snapshot.cluster, snapshot.stops) if stop not in mine]
    same = [stop for stop in others if any(_is_alike(stop, one) for one in mine)]
    if same:
        facts.append(f"{_hosts(same)} failed in the same way")
    facts += tell([stop for stop in others if stop not in same], now)
    return Explanation(
        Cause.FAILED,
        f"{host.identity} failed: {host.error}",
        tuple(facts),
        (
            "on the host: the output is under /var/log/zkdeployment",
            "mend the host, then 'zkdeployment resume'; or push a fix, then 'zkdeployment resume --latest'",
        ),
    )


def _halted(snapshot: Snapshot, host: Host, now: float) -> Explanation:
    stopped = snapshot.cluster is not None and snapshot.cluster.state is ClusterState.STOPPED
    word, value = ("stopped", "null") if stopped else ("held", "false")
    stops = in_force(snapshot.cluster, snapshot.stops)
    first = stops[0] if stops else None
    if first is None:
        when = "" if snapshot.changed is None else f" {ago(snapshot.changed, now)}"
        sentence = f"The fleet is {word}: somebody set the cluster version to {value} by hand{when}."
    elif first.by is not None:
        sentence = f"The fleet was {first} ({ago(first.time, now)})."
    else:
        sentence = f"The fleet is {word}: {first} ({ago(first.time, now)})."
    facts = tell(stops[1:], now)
    facts.append(_had(snapshot, host))
    advice = ["'zkdeployment resume' ends it; 'zkdeployment resume --latest' publishes the branch's tip first"]
    if first is not None and first.by is None:
        advice.insert(0, f"'zkdeployment why {first.host_id}' says more; the cause is there")
    if not stopped:
        advice.append("the next revision that is pushed ends it, too")
    return Explanation(Cause.STOPPED if stopped else Cause.HELD, sentence, tuple(facts), tuple(advice))


def _had(snapshot: Snapshot, host: Host) -> str:
    published = snapshot.published
    if host.former is not None:
        return f"it has no version: a deployment changed what it had of {short(host.former)}, and is not complete"
    if host.version is None:
        return "it has no version yet"
    if host.has(published):
        return f"it has what was published last, {short(published)}"
    return f"it has {short(host.version)}" + ("" if published is None else f"; published is {short(published)}")


def _importing(snapshot: Snapshot, locks: Sequence[Lock], now: float) -> Explanation:
    revision = None if snapshot.cluster is None else snapshot.cluster.importing
    holder = next((lock.holder for lock in locks if lock.kind is LockKind.SYNCER), None)
    if holder is not None:
        return Explanation(
            Cause.IMPORTING,
            f"{short(revision)} is being published; hosts start when all of it is in ZooKeeper.",
            (f"{holder.identity} is at it since {age(now - holder.since)}",),
        )
    return Explanation(
        Cause.IMPORTING,
        f"The publication of {short(revision)} was interrupted; hosts start when a syncer has finished it.",
        ("no syncer is at work",),
        ("start the syncer, or 'zkdeployment sync CONFIG'",),
    )


def _waiting(snapshot: Snapshot, locks: Sequence[Lock], host: Host, now: float) -> Explanation | None:
    """Explain the lock that a host waits for, if it does: it waits for one at a time."""
    for lock in locks:
        places = [place for place, one in enumerate(lock.contenders) if one.host_id == host.identity.id]
        if not places:
            continue
        left = lock.abandoned_work
        if left is not None and left.host_id != host.identity.id:
            return _delayed(lock, left, host, now)
        if places[0] > 0:
            return _queued(snapshot, lock, host, places[0], now)
    return None


def _delayed(lock: Lock, left: LockedWork, host: Host, now: float) -> Explanation:
    return Explanation(
        Cause.LOCK,
        f"{host.identity} waits because {left.host_name} ({left.host_id}) lost {lock} in the middle of a script.",
        (
            f"that was at {left.step}, begun {ago(left.since, now)}",
            "the wait ends with the lock delay at the latest",
        ),
        (
            f"'zkdeployment why {left.host_id}' says what became of it",
            f"if its script has surely ended: zkdeployment locks release {lock.name} --reason TEXT",
        ),
    )


def _queued(snapshot: Snapshot, lock: Lock, host: Host, place: int, now: float) -> Explanation:
    holder = lock.contenders[0]
    other = next((one for one in snapshot.hosts if one.identity.id == holder.host_id), None)
    waited = age(now - lock.contenders[place].since)
    facts = [f"it is number {place} of {len(lock.contenders) - 1} in the queue, for {waited}"]
    advice = [f"'zkdeployment why {holder.host_id}' says what the holder is doing"] if holder.host_id else []
    if lock.work is not None:
        facts.append(f"the holder is at {lock.work.step}")
    elif other is not None and other.step is not None:
        facts.append(f"the holder is at: {other.step}")
    if lock.kind is LockKind.ROLE and (other is None or other.error is not None):
        facts.append("the holder failed" if other is not None else "the holder is not registered")
        facts.append(
            "a role's lock stays with its host until that has succeeded"
            + (", or the rollout goes on without it" if snapshot.governed else "")
        )
        advice.append(
            f"if it never comes back and surely does nothing: zkdeployment locks release {lock.name} --reason TEXT"
        )
    return Explanation(
        Cause.LOCK,
        f"{host.identity} waits for {lock}, which {holder.identity} has for {age(now - lock.since)}.",
        tuple(facts),
        tuple(advice),
    )


def _underway(snapshot: Snapshot, host: Host, now: float) -> Explanation:
    had = _had(snapshot, host)
    if host.deploying is not None:
        done, total = host.steps or (0, 0)
        steps = f"{done} of {total} steps done" if total else "just begun"
        doing = f", now at: {host.step}" if host.step else ""
        since = "" if host.since is None else f" (last news {ago(host.since, now)})"
        return Explanation(
            Cause.WORKING,
            f"{host.identity} is on its way to {short(host.deploying)}: {steps}{doing}{since}.",
            (had,),
            ("on the host: the step's output is under /var/log/zkdeployment",),
        )
    version = None if snapshot.cluster is None else snapshot.cluster.revision
    told = now - (snapshot.changed or now)
    if told < _PROMPT:
        return Explanation(Cause.IDLE, f"{host.identity} begins with {short(version)} any moment.", (had,))
    return Explanation(
        Cause.IDLE,
        f"{host.identity} is registered, but has not begun with {short(version)}, wanted for {age(told)}.",
        (had,),
        ("on the host: journalctl -u zkdeployment-agent; the agent may be frozen, or cut off from ZooKeeper",),
    )


def _is_alike(one: Stop, other: Stop) -> bool:
    return one.by is None and (one.step, one.reason) == (other.step, other.reason)


def _hosts(stops: Sequence[Stop]) -> str:
    return ", ".join(stop.host_name for stop in stops) if len(stops) <= _NAMED else f"{len(stops)} other hosts"


def _others(number: int) -> str:
    match number:
        case 0:
            return "nobody else wants it"
        case 1:
            return "1 other waits"
    return f"{number} others wait"
