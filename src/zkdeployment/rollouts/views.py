"""The page of the rollout: its groups in order, the work or the obstacle of each, and the acts of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.cluster import ClusterState, short
from zkdeployment.base.durations import age
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.rollouts.acts import group_acts, rollout_acts
from zkdeployment.service.views.fleet import FleetProgress, HostLink, Tone
from zkdeployment.service.views.frame import ActLink, Moment, host_page, moment
from zkdeployment.service.views.rollouts import ROLLOUT_TONES, GroupRow, group_row, undecided_groups
from zkdeployment.strategies.picture import RolloutPicture, pace_facts, picture
from zkdeployment.strategies.state_machine import HostProgress
from zkdeployment.strategies.views import GroupStatus, RolloutProgressState, RolloutStatus, rollout_status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.fleet.views.status import FleetStatus
    from zkdeployment.strategies.state import RolloutState

#: The limit of failed hosts that the page names.
_NAMED = 8

_HEADLINES = {
    RolloutProgressState.UNDER_WAY: "The rollout is under way",
    RolloutProgressState.PAUSED: "The rollout is paused",
    RolloutProgressState.SUCCESS: "The rollout succeeded",
    RolloutProgressState.PARTIAL: "The rollout ended, and some hosts failed",
    RolloutProgressState.FAILED: "The rollout failed",
    RolloutProgressState.ABORTED: "The rollout was aborted",
    RolloutProgressState.SUPERSEDED: "A newer publication replaced the rollout",
}


#: The headlines of a rollout whose hosts may start nothing.
_HALTS = {
    ClusterState.STOPPED: "The rollout stands still: the fleet is stopped",
    ClusterState.HELD: "The rollout stands still: the fleet is held",
}


@dataclass(frozen=True, slots=True)
class FailedHost:
    """A host that failed in the rollout, with its error."""

    host: HostLink
    error: str


@dataclass(frozen=True, slots=True)
class RolloutView:
    """The values of the page of the rollout. Without a rollout, only ``headline`` and ``sentence`` are set.

    ``since`` is when the rollout came into its state, and ``change`` the word for that. ``pace`` is how fast the
    group under way advances; empty while it stands still. ``progress`` is that of the whole fleet, and ``failed``
    hosts failed.
    """

    tone: Tone
    headline: str
    sentence: str
    id: str = ""
    revision: str = ""
    strategy: str = ""
    begun: Moment | None = None
    since: Moment | None = None
    change: str = ""
    pace: str = ""
    took: str = ""
    failed: int = 0
    progress: FleetProgress | None = None
    picture: RolloutPicture | None = None
    groups: tuple[GroupRow, ...] = ()
    failures: tuple[FailedHost, ...] = ()
    more_failures: int = 0
    history: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    acts: tuple[ActLink, ...] = ()


def rollout_view(snapshot: FleetSnapshot, fleet: FleetStatus, *, now: float, may_act: bool) -> RolloutView:
    """Return the page of the present rollout at ``now``, in seconds since the epoch.

    ``fleet`` is the status of the fleet in the snapshot: frame and page count the same hosts.
    """
    state = snapshot.rollout
    if state is None:
        return _no_rollout(snapshot)
    led = snapshot.coordinator is not None
    status = rollout_status(state, led=led, now=now, governed=snapshot.governed, known=snapshot.facts)
    names = {identity.id: identity.name for identity in snapshot.identities}

    def link(host_id: str) -> HostLink:
        return HostLink(names.get(host_id, host_id), host_page(host_id))

    failures = sorted({*status.errors, *(id_ for id_, at in status.hosts.items() if at is HostProgress.FAILURE)})
    tone, headline = ROLLOUT_TONES[status.state], _HEADLINES[status.state]
    halt = None if snapshot.cluster is None or status.is_over else _HALTS.get(snapshot.cluster.state)
    if halt is not None:
        tone, headline = Tone.BAD if any(stop.is_open_failure for stop in fleet.stops) else Tone.HALTED, halt
    elif status.state is RolloutProgressState.UNDER_WAY and not led:
        tone, headline = Tone.BAD, "The rollout does not continue"
    is_moving = halt is None and led and status.state is RolloutProgressState.UNDER_WAY
    decisions = _decisions(state, status.groups) if is_moving else ()
    if decisions:
        tone, headline = _undecided(len(failures))
    change, since = _since(state)
    return RolloutView(
        tone=tone,
        headline=headline,
        sentence=f"{'Result' if status.is_over else 'Now'}: {status.description}.",
        id=status.id,
        revision=short(status.revision),
        strategy=status.strategy,
        begun=moment(status.begun, now),
        since=moment(since, now),
        change=change,
        pace="; ".join(_pace(state, status.groups, now)) if is_moving else "",
        took="" if status.ended is None else age(status.ended - status.begun),
        failed=len(failures),
        progress=FleetProgress.of(fleet),
        picture=picture(state, status.groups) if status.groups else None,
        groups=tuple(
            group_row(
                group,
                state,
                now,
                link,
                group_acts(state, group, "/rollout") if may_act else (),
                moves=is_moving,
            )
            for group in status.groups
        ),
        failures=tuple(_failure(status, id_, names) for id_ in failures[:_NAMED]),
        more_failures=max(0, len(failures) - _NAMED),
        history=status.acts,
        warnings=status.warnings,
        acts=(*decisions, *rollout_acts(state, "/rollout")) if may_act else (),
    )


def _undecided(failures: int) -> tuple[Tone, str]:
    """Return the tone and the headline of a rollout that waits for a decision: failed hosts come first."""
    if not failures:
        return Tone.HALTED, "The rollout waits for a decision"
    return Tone.BAD, f"{counted(failures, 'host', ',')} failed; the rollout waits for a decision"


def _since(state: RolloutState) -> tuple[str, float]:
    """Return the word for the last change of the state of a rollout, and its time."""
    if state.ended is not None:
        return "ended", state.ended
    return ("began", state.begun) if state.paused is None else ("paused", state.paused.time)


def _pace(state: RolloutState, groups: Sequence[GroupStatus], now: float) -> tuple[str, ...]:
    """Return the pace of the group under way."""
    active = "" if state.active_phase is None else state.active_phase.task.group
    return next((pace_facts(state, group, now) for group in groups if group.name == active), ())


def _decisions(state: RolloutState, groups: Sequence[GroupStatus]) -> tuple[ActLink, ...]:
    """Return the acts on groups without which a rollout does not continue."""
    return tuple(
        ActLink(f"{link.label} {group.name}", link.href, link.kind)
        for group in undecided_groups(state, groups)
        for link in group_acts(state, group, "/rollout")
    )


def _no_rollout(snapshot: FleetSnapshot) -> RolloutView:
    if snapshot.strategy is None:
        sentence = (
            "No strategy is published, so all hosts deploy a revision at once, each service one host at a time."
        )
        return RolloutView(Tone.UNKNOWN, "There is no rollout", sentence)
    begun = f"The rollout by {snapshot.strategy} has not begun."
    if snapshot.coordinator is None:
        return RolloutView(Tone.BAD, "The rollout does not begin", f"{begun} No coordinator runs.")
    return RolloutView(Tone.BUSY, "The rollout is about to begin", f"{begun} {snapshot.coordinator} coordinates.")


def _failure(status: RolloutStatus, host_id: str, names: Mapping[str, str]) -> FailedHost:
    link = HostLink(names.get(host_id, host_id), host_page(host_id))
    return FailedHost(link, status.errors.get(host_id, "failed"))
