"""Explains why a host is not at the cluster version, with the facts and the next action of an operator.

Waits for a lock and for other services are explained in ``explanation``, those for a rollout in ``rollout``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zkdeployment.base.cluster import ClusterState, short
from zkdeployment.base.durations import age, ago
from zkdeployment.base.lock import Lock, LockKind
from zkdeployment.base.stop import FailureOutput, Stop, output_place, services_of
from zkdeployment.base.text import listing
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.explanations.explanation import (
    Advice,
    Cause,
    Explanation,
    HostFinding,
    ask_host,
    explain_wait_for_lock,
    explain_wait_for_service,
    release_lock,
)
from zkdeployment.fleet.explanations.rollout import (
    explain_following,
    explain_missing_grant,
    explain_rollout_failure,
)
from zkdeployment.fleet.views.instances import NO_SERVICES, ServicesSnapshot
from zkdeployment.fleet.views.services import unchanged_deployments, withheld_from_host
from zkdeployment.fleet.views.snapshot import (
    NO_HOSTS_SENTENCE,
    UNAFFECTED,
    FleetSnapshot,
    describe_retry,
    describe_stops,
    is_retry_pending,
    retried_host,
    stops_in_force,
)
from zkdeployment.fleet.views.status import fleet_status

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from zkdeployment.base.act import Maintenance
    from zkdeployment.base.host import Host, Identity
    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.machine.reboots import RebootRecord
    from zkdeployment.base.publication import LeftService
    from zkdeployment.publishing.targets.compiler import ServiceTarget


#: Seconds after a change of the cluster version within which a host should begin.
_PROMPT = 10.0

#: The limit of hosts with the same failure that a sentence names.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class HostSnapshot:
    """The values that explain a host: the fleet, its locks, and what is kept about the host.

    ``known`` is the last report of the host about itself, ``output`` that of the script with which it failed last,
    and ``checks`` are the findings about its services. ``withheld`` are all withheld services, ``records`` the
    records of all intents, and ``left`` the services that left the governance of their intents. ``services`` show
    which of its instances are down.
    """

    fleet: FleetSnapshot
    locks: Sequence[Lock] = ()
    known: KnownHost | None = None
    withheld: Collection[ServiceTarget] = frozenset()
    left: Collection[LeftService] = ()
    records: Collection[Any] = ()
    output: FailureOutput | None = None
    checks: tuple[HostFinding, ...] = ()
    services: ServicesSnapshot = NO_SERVICES


def explain_host(snapshot: HostSnapshot, name: str, *, now: float) -> Explanation:
    """Explain why the host with this id or name is not at the cluster version, for all who show it.

    ``now`` is in seconds since the epoch.
    """
    explanation = _explain(snapshot, name, now)
    identity = snapshot.fleet.find_identity(name)
    if identity is None:
        return explanation
    facts = [*withheld_from_host(identity, snapshot.withheld, snapshot.records, snapshot.left)]
    if explanation.cause is Cause.CONVERGED:
        facts += unchanged_deployments(snapshot.known)
        explanation = _with_down(explanation, snapshot, identity)
    return replace(
        explanation,
        facts=(*explanation.facts, *facts),
        output=snapshot.output if explanation.cause is Cause.FAILED else None,
        checks=snapshot.checks,
    )


def _with_down(explanation: Explanation, snapshot: HostSnapshot, identity: Identity) -> Explanation:
    """Return the explanation of a host at the cluster version, with its instances that are down."""
    down = fleet_status(snapshot.fleet, names=[identity.id], services=snapshot.services).down
    if not down.count:
        return explanation
    return replace(
        explanation,
        sentence=f"{explanation.sentence.removesuffix(': nothing to explain.')}, but {down.sentence}.",
        advice=(
            f"inspect the service on {identity.name}: its process has ended, or it has lost its registration",
            "start it there; a push that changes the service in the tree also lets its script run again",
        ),
    )


def _explain(reading: HostSnapshot, name: str, now: float) -> Explanation:
    snapshot, locks = reading.fleet, reading.locks
    identity = snapshot.find_identity(name)
    maintenance = None if identity is None else snapshot.maintenance.get(identity.id)
    if identity is not None and maintenance is not None:
        return _explain_maintenance(reading, identity, maintenance, now)
    host = snapshot.find_host(name)
    if host is None:
        known = next((host for host in snapshot.absent if host.identity == identity), None)
        return _explain_absent(snapshot, locks, name, known, now)
    explanation = _with_lease(_explain_registered(reading, host, now), host)
    role = snapshot.out_of_service.get(host.identity.id)
    if role is None or explanation.cause is Cause.CONVERGED:
        return explanation
    return replace(explanation, facts=(*explanation.facts, _out_of_service(role)))


def _explain_maintenance(
    reading: HostSnapshot, identity: Identity, maintenance: Maintenance, now: float
) -> Explanation:
    snapshot = reading.fleet
    host = snapshot.find_host(identity.id)
    effect = "" if maintenance.drain else ": the host starts nothing"
    facts = [f"the maintenance began {ago(maintenance.since, now)}{effect}"]
    if host is not None and maintenance.is_draining:
        facts += _drain_facts(reading, host, now)
    facts += ["the host is not registered" if host is None else _present_version(snapshot, host)]
    if host is not None and host.error is not None:
        facts.append(f"the host failed: {host.error}")
    return Explanation(
        Cause.MAINTENANCE,
        f"{identity} is {maintenance}",
        tuple(facts),
        (f"'zkdeployment uncordon {identity.id}' ends the maintenance: the host then deploys the revision",),
    )


def _drain_facts(reading: HostSnapshot, host: Host, now: float) -> Sequence[str]:
    """Return the facts on a host that is being drained: its obstacle, its lock or its step."""
    cluster = reading.fleet.cluster
    if cluster is not None and cluster.revision is None:
        return (f"no undeployment begins while the fleet is {cluster.state.value}",)
    wait = explain_wait_for_lock(reading.fleet, reading.locks, host, now)
    if wait is not None:
        return (wait.sentence.removesuffix("."), *wait.facts)
    return () if host.step is None else (f"its step is: {host.step}",)


def _with_lease(explanation: Explanation, host: Host) -> Explanation:
    """Return the explanation with the lease of a host that can be leased, and the obstacle of its change."""
    if not host.is_leasable:
        return explanation
    is_halted = explanation.cause in {Cause.STOPPED, Cause.HELD} and host.step is not None
    facts = [f"the host {host.step}"] if is_halted else []
    return replace(explanation, facts=(*facts, host.lease_text, *explanation.facts))


def _out_of_service(role: str) -> str:
    return (
        f"the host is out of service: it released the lock of role {role} before it finished, and"
        " 'ending-deployments' runs only after the host's next successful deployment"
    )


def _explain_registered(reading: HostSnapshot, host: Host, now: float) -> Explanation:
    snapshot, locks = reading.fleet, reading.locks
    if host.error is not None:
        output = reading.output
        if host.is_leasable:
            return _explain_failure_alone(snapshot, host, output)
        return explain_rollout_failure(snapshot, host.identity, host.error, output) or _explain_failure(
            snapshot, host, output, now
        )
    cluster = snapshot.cluster
    state = None if cluster is None else cluster.state
    match state:
        case None:
            return Explanation(
                Cause.UNPUBLISHED,
                f"{NO_HOSTS_SENTENCE}.",
                advice=(
                    "in a new fleet: start a syncer, or run 'zkdeployment sync CONFIG' once",
                    "in a fleet that worked before: first check the address of ZooKeeper and its data",
                ),
            )
        case ClusterState.STOPPED | ClusterState.HELD:
            return _explain_halt(snapshot, host, now)
        case ClusterState.IMPORTING:
            return _explain_import(snapshot, locks, now)
    if cluster is not None and host.has(cluster.version or None) and host.deploying is None:
        if host.lacking:
            return _explain_lacking(snapshot, host, now)
        return Explanation(
            Cause.CONVERGED,
            f"{host.identity} is at the cluster version {short(cluster.version or None)}: nothing to explain.",
        )
    return (
        explain_wait_for_lock(snapshot, locks, host, now)
        or explain_wait_for_service(snapshot, host, now)
        or (
            explain_following(host)
            if host.is_leasable
            else explain_missing_grant(snapshot, host, reading.output, now)
        )
        or _explain_progress(snapshot, host, now)
    )


def _explain_lacking(snapshot: FleetSnapshot, host: Host, now: float) -> Explanation:
    """Explain which services of the cluster version a host lacks because groups are stopped."""
    services = listing(sorted(services_of(host.lacking)), _NAMED)
    stops = [stop for stop in snapshot.group_stops if stop.group in host.lacking]
    return Explanation(
        Cause.CONVERGED,
        f"{host.identity} is at the cluster version {short(host.version)}, but lacks {services}, because the group"
        " is stopped.",
        tuple(f"{stop} ({ago(stop.stop.time, now)})" for stop in stops),
        tuple(
            f"publish a change of the group, or 'zkdeployment intent resume {group} --reason TEXT'"
            for group in sorted(host.lacking)
        ),
    )


def _explain_absent(
    snapshot: FleetSnapshot, locks: Sequence[Lock], name: str, known: KnownHost | None, now: float
) -> Explanation:
    names = {name} if known is None else {name, *known.identity.target_names}
    shown = name if known is None else str(known.identity)
    members = sorted(identity.name for identity in snapshot.identities if identity.role == name)
    if known is None and members:
        return _explain_unknown(f"{name} is a role; name one of its hosts: {listing(members, _NAMED)}.")
    ids = {name} if known is None else {name, known.identity.id}
    queued = [*_traces_in_locks(locks, ids, now)]
    traces = [*_traces_in_stops(snapshot, ids, now), *queued]
    if not snapshot.targets.isdisjoint(names):
        traces.append("the published tree deploys to the host")
    if known is None and not traces:
        return _explain_unknown(
            f"There is no host {name}: no registered host and no target in the tree has this id or name."
        )
    reboot = None if known is None else snapshot.reboots.get(known.identity.id)
    if reboot is not None and not reboot.is_over(now):
        return Explanation(
            Cause.REBOOTING,
            f"{shown} {reboot}.",
            tuple(traces),
            ("its locks are kept for it; if it is not back in time, its step fails",),
        )
    if known is not None and known.time:
        traces.insert(0, f"the host last reported its inventory {ago(known.time, now)}")
    if known is not None and (since := snapshot.absent_since(known)) is not None:
        traces.insert(0, f"the host disappeared {ago(since, now)}")
    return Explanation(
        Cause.ABSENT,
        f"{shown} {_describe_absence(reboot, now)}.",
        tuple(traces),
        (
            *(
                ()
                if reboot is None
                else ("start the machine: its agent then verifies the step, and hands its locks on",)
            ),
            "on the host: systemctl status zkdeployment-agent; journalctl -u zkdeployment-agent",
            *(
                ()
                if known is None and not queued  # nothing to forget
                else (f"if the host is gone for good: remove it from the tree, then 'zkdeployment forget {name}'",)
            ),
            *_advice_on_kept_locks(locks, name if known is None else known.identity.id),
        ),
    )


def _explain_unknown(sentence: str) -> Explanation:
    return Explanation(
        Cause.UNKNOWN,
        sentence,
        advice=(Advice("'zkdeployment status' lists all hosts by name and id", "fleet", "see all hosts"),),
    )


def _describe_absence(reboot: RebootRecord | None, now: float) -> str:
    if reboot is None:
        return "is not registered: its agent does not run, or cannot reach ZooKeeper"
    return f"did not come back from its reboot; it last reported {ago(reboot.since, now)}, at {reboot.step!r}"


def _advice_on_kept_locks(locks: Sequence[Lock], host_id: str) -> Iterator[str]:
    for lock in locks:
        if lock.work is not None and lock.work.kept and lock.work.host_id == host_id:
            text = (
                f"{lock} is kept for the host: if the host is gone for good, or its script does not run any more,"
            )
            yield release_lock(lock, text, f"{text} release the lock")


def _traces_in_stops(snapshot: FleetSnapshot, ids: Collection[str], now: float) -> Iterator[str]:
    """Yield the stops by an absent host, which has one of these ids or names."""
    for stop in snapshot.stops:
        if stop.by is None and (stop.host_id in ids or stop.host_name in ids):
            yield f"{stop} ({ago(stop.time, now)})"


def _traces_in_locks(locks: Sequence[Lock], ids: Collection[str], now: float) -> Iterator[str]:
    """Yield the unfinished work of an absent host, and its places in queues for locks."""
    for lock in locks:
        if lock.work is not None and (lock.work.host_id in ids or lock.work.host_name in ids):
            yield f"the host was at {lock.work.step} {ago(lock.work.since, now)}"
        for contender in () if lock.holder is None else (lock.holder, *lock.waiting):
            if contender.host_id in ids:
                verb = "has held" if contender == lock.holder else "has waited for"
                duration = age(now - contender.since)
                yield f"the host {verb} {lock} for {duration}; {_others(len(lock.waiting))}"


def _explain_failure(snapshot: FleetSnapshot, host: Host, output: FailureOutput | None, now: float) -> Explanation:
    own = [stop for stop in snapshot.stops if stop.by is None and stop.host_id == host.identity.id]
    facts = [f"the host failed at {stop.step} of {short(stop.revision)}, {ago(stop.time, now)}" for stop in own]
    facts.append(_present_version(snapshot, host))
    others = [stop for stop in stops_in_force(snapshot) if stop not in own]
    same = [stop for stop in others if any(_is_alike(stop, failure) for failure in own)]
    if same:
        facts.append(f"{_hosts(same)} failed in the same way")
    facts += describe_stops([stop for stop in others if stop not in same], now)
    return Explanation(
        Cause.FAILED,
        f"{host.identity} failed: {host.error}",
        tuple(facts),
        (
            f"on the host: the output is {output_place(output)}",
            *_retry_advice(snapshot, host),
            *_advice_on_halt(snapshot),
        ),
    )


def _advice_on_halt(snapshot: FleetSnapshot) -> tuple[str, ...]:
    """Return the advice for a failed host, by whether the fleet is stopped or held, and can be resumed."""
    state = None if snapshot.cluster is None else snapshot.cluster.state
    if state not in {ClusterState.STOPPED, ClusterState.HELD}:
        return ("the host tries again with the next publication, or when its agent starts",)
    repair = Advice(
        "repair the host, then 'zkdeployment resume'; or push a fix, then 'zkdeployment resume --latest'",
        "resume",
        "repair the host, or push a fix; then resume the fleet",
    )
    return (
        _advice_to_resume(snapshot) if snapshot.published is None else repair,
        Advice(
            "or go back to the last good revision: 'zkdeployment rollback --now --reason TEXT'",
            "rollback",
            "or go back to the last good revision",
        ),
    )


def _retry_advice(snapshot: FleetSnapshot, host: Host) -> tuple[Advice, ...]:
    """Return the advice to retry only this host; none if that would be refused, or is ordered already."""
    if host is retried_host(snapshot) or snapshot.retry_objection(host):
        return ()
    text = f"repair the host, then 'zkdeployment retry {host.identity.id}': the fleet stays stopped"
    return (
        Advice(text, "retry", "repair the host, then retry it; the fleet stays stopped", host=host.identity.id),
    )


def _explain_failure_alone(snapshot: FleetSnapshot, host: Host, output: FailureOutput | None) -> Explanation:
    return Explanation(
        Cause.FAILED,
        f"{host.identity} failed: {host.error}",
        (_present_version(snapshot, host), "the host can be leased: its failure does not stop other hosts"),
        (
            f"on the host: the output is {output_place(output)}",
            "repair the host; it tries again when its lease or the cluster version changes, or its agent restarts",
            "'zkdeployment node forgive' gives back a failed node of a pool",
        ),
    )


def _explain_halt(snapshot: FleetSnapshot, host: Host, now: float) -> Explanation:
    stopped = snapshot.cluster is not None and snapshot.cluster.state is ClusterState.STOPPED
    state, value = ("stopped", "null") if stopped else ("held", "false")
    stops = stops_in_force(snapshot)
    first = stops[0] if stops else None
    if first is None:
        when = "" if snapshot.changed is None else f" {ago(snapshot.changed, now)}"
        sentence = f"The fleet is {state}: the cluster version was set to {value} by hand{when}."
    elif first.by is not None:
        sentence = f"The fleet was {first} ({ago(first.time, now)})."
    else:
        sentence = f"The fleet is {state}: {first} ({ago(first.time, now)})."
    facts = describe_stops(stops[1:], now)
    if retry := describe_retry(snapshot):
        facts.append(f"{retry}, as an operator ordered" if is_retry_pending(snapshot) else retry)
        if host is retried_host(snapshot) and host.step is not None:
            facts.append(f"its step is: {host.step}")
    facts += [_present_version(snapshot, host), UNAFFECTED]
    advice: list[str] = [_advice_to_resume(snapshot)]
    if first is not None and first.by is None and first.host_id != host.identity.id:
        text = f"the cause is on that host: 'zkdeployment why {first.host_id}' explains it"
        advice.insert(0, ask_host(text, first.host_id, "the cause is on that host"))
    if any(stop.host_id == host.identity.id for stop in stops):
        advice[:0] = _retry_advice(snapshot, host)
    if not stopped:
        advice.append("the next pushed revision also ends the hold")
    return Explanation(Cause.STOPPED if stopped else Cause.HELD, sentence, tuple(facts), tuple(advice))


def _advice_to_resume(snapshot: FleetSnapshot) -> Advice:
    """Return the advice that ends a stop or a hold, by whether there is a revision to resume."""
    stopped = snapshot.cluster is not None and snapshot.cluster.state is ClusterState.STOPPED
    halt = "stop" if stopped else "hold"
    ends, shown = f"'zkdeployment resume' ends the {halt}; with --latest, the branch's tip is published first", ""
    if snapshot.published is None:
        ends = f"'zkdeployment resume --latest' ends the {halt}; no revision is completely published to resume"
        shown = ", and publish the tip of the branch first: no revision is completely published"
    return Advice(ends, "resume", f"resume the fleet to end the {halt}{shown}")


def _present_version(snapshot: FleetSnapshot, host: Host) -> str:
    published = snapshot.published
    if host.former is not None:
        return f"the host has no version: an unfinished deployment changed parts of {short(host.former)}"
    if host.version is None:
        return "the host has no version yet"
    if host.has(published):
        return f"the host has the last published revision, {short(published)}"
    last = "" if published is None else f"; the last published revision is {short(published)}"
    return f"the host has {short(host.version)}{last}"


def _explain_import(snapshot: FleetSnapshot, locks: Sequence[Lock], now: float) -> Explanation:
    revision = None if snapshot.cluster is None else snapshot.cluster.importing
    holder = next((lock.holder for lock in locks if lock.kind is LockKind.SYNCER), None)
    if holder is not None:
        return Explanation(
            Cause.IMPORTING,
            f"{short(revision)} is being published; hosts start when the publication is complete.",
            (f"{holder.identity} has held the syncer's lock for {age(now - holder.since)}",),
        )
    return Explanation(
        Cause.IMPORTING,
        f"The publication of {short(revision)} was interrupted; hosts start when a syncer has completed it.",
        ("no syncer holds the syncer's lock",),
        ("start the syncer, or run 'zkdeployment sync CONFIG' once",),
    )


def _explain_progress(snapshot: FleetSnapshot, host: Host, now: float) -> Explanation:
    version = _present_version(snapshot, host)
    if host.deploying is not None:
        done, total = host.steps or (0, 0)
        steps = f"{done} of {total} steps done" if total else "just begun"
        step = f", now at: {host.step}" if host.step else ""
        since = "" if host.since is None else f" (last change {ago(host.since, now)})"
        return Explanation(
            Cause.WORKING,
            f"{host.identity} is deploying {short(host.deploying)}: {steps}{step}{since}.",
            (version,),
            (f"on the host: the step's output is {output_place(None)}",),
        )
    wanted = None if snapshot.cluster is None else snapshot.cluster.revision
    wanted_for = host.behind_for(snapshot.changed, now)
    if wanted_for < _PROMPT:
        return Explanation(Cause.IDLE, f"{host.identity} is about to begin with {short(wanted)}.", (version,))
    return Explanation(
        Cause.IDLE,
        f"{host.identity} is registered, but has not begun with {short(wanted)} in {age(wanted_for)}.",
        (version,),
        ("on the host: journalctl -u zkdeployment-agent; the agent may be frozen, or cut off from ZooKeeper",),
    )


def _is_alike(stop: Stop, failure: Stop) -> bool:
    return stop.by is None and (stop.step, stop.reason) == (failure.step, failure.reason)


def _hosts(stops: Sequence[Stop]) -> str:
    return listing([stop.host_name for stop in stops]) if len(stops) <= _NAMED else f"{len(stops)} other hosts"


def _others(number: int) -> str:
    match number:
        case 0:
            return "no other host waits for it"
        case 1:
            return "1 other host waits for it"
    return f"{number} other hosts wait for it"
