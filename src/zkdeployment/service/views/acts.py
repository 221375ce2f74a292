"""The acts of operators: the acts that pages offer, and the consequences that the forms show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import ClusterState, short
from zkdeployment.fleet.views.locks import plan_release
from zkdeployment.fleet.views.status import HostState
from zkdeployment.service.users.user import ActKind
from zkdeployment.service.views.frame import act_page
from zkdeployment.service.views.hosts import count_text
from zkdeployment.strategies.state import Directive
from zkdeployment.strategies.state_machine import GroupVerdict
from zkdeployment.strategies.views import directive_objection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zkdeployment.base.host import Host
    from zkdeployment.base.lock import Lock
    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.fleet.views.status import FleetStatus
    from zkdeployment.publishing.records import PublicationRecord
    from zkdeployment.service.users.user import User
    from zkdeployment.service.views.plan import PlanView
    from zkdeployment.strategies.state import RolloutState
    from zkdeployment.strategies.views import GroupStatus


@dataclass(frozen=True, slots=True)
class ActLink:
    """A link to the form of an act; ``kind`` is ``danger``, ``primary`` or empty."""

    label: str
    href: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class ActOption:
    """A choice that the form offers; ``name`` is the name of its field."""

    name: str
    label: str
    explanation: str


@dataclass(frozen=True, slots=True)
class ActInput:
    """A field that the person fills in; ``kind`` is the type of the field in HTML.

    A number lies between ``least`` and ``most``; a text has at most ``most`` characters.
    """

    name: str
    label: str
    explanation: str = ""
    kind: str = "text"
    value: str = ""
    least: int = 0
    most: int = 500
    required: bool = False


@dataclass(frozen=True, slots=True)
class ActDetail:
    """Lines that a person reads before the act; ``is_open`` is whether the page shows them at once."""

    title: str
    lines: tuple[str, ...]
    is_open: bool = True


@dataclass(frozen=True, slots=True)
class ActForm:
    """The form of an act: its effects, and the button that performs it.

    ``objection`` is why the act is not possible now, or empty. ``fields`` name the subject of the act. ``details``
    and the ``plan`` of hosts show what the act covers. ``asks_reason`` is whether the act is recorded with a
    reason.
    """

    title: str
    consequences: tuple[str, ...]
    button: str
    kind: str = "primary"
    fields: tuple[tuple[str, str], ...] = ()
    inputs: tuple[ActInput, ...] = ()
    options: tuple[ActOption, ...] = ()
    asks_reason: bool = True
    reason_required: bool = True
    objection: str = ""
    details: tuple[ActDetail, ...] = ()
    plan: PlanView | None = None


#: The acts that a fleet accepts in each state, in the order in which they are shown.
_FLEET_ACTS = {
    ClusterState.STOPPED: (ActKind.RESUME,),
    ClusterState.HELD: (ActKind.RESUME, ActKind.STOP),
    ClusterState.IMPORTING: (ActKind.STOP,),
    ClusterState.RUNNING: (ActKind.HOLD, ActKind.STOP),
}

#: The label and the style of each button.
_FLEET_BUTTONS = {
    ActKind.STOP: ("Stop", "danger"),
    ActKind.HOLD: ("Hold", ""),
    ActKind.RESUME: ("Resume", "primary"),
}


def fleet_acts(snapshot: FleetSnapshot, back: str, user: User) -> tuple[ActLink, ...]:
    """Return the acts on the whole fleet that its present state and the rights of the user permit."""
    kinds = () if snapshot.cluster is None else _FLEET_ACTS[snapshot.cluster.state]
    return tuple(_fleet_link(kind, back) for kind in kinds if user.may_act(kind))


def _fleet_link(kind: ActKind, back: str) -> ActLink:
    label, style = _FLEET_BUTTONS[kind]
    return ActLink(label, act_page(kind.name.lower(), back), style)


def fleet_form(name: str, snapshot: FleetSnapshot, status: FleetStatus) -> ActForm | None:
    """Return the form of ``stop``, ``hold`` or ``resume``; ``None`` for another name."""
    forms: Mapping[str, Callable[[FleetSnapshot, FleetStatus], ActForm]] = {
        "stop": _stop,
        "hold": _hold,
        "resume": _resume,
    }
    return forms[name](snapshot, status) if name in forms else None


def _stop(snapshot: FleetSnapshot, status: FleetStatus) -> ActForm:
    return ActForm(
        title="Stop the fleet",
        consequences=(
            f"{_deploying(status)} They finish their current step, and no host starts another step.",
            "No new revision is published.",
            "The stop lasts until an operator resumes the fleet. Running services continue to run.",
        ),
        button="Stop the fleet",
        kind="danger",
        objection="" if snapshot.cluster is not None else "Nothing is published yet, so there is nothing to stop.",
    )


def _hold(snapshot: FleetSnapshot, status: FleetStatus) -> ActForm:
    state = None if snapshot.cluster is None else snapshot.cluster.state
    objections = {
        None: "Nothing is published yet, so there is nothing to hold.",
        ClusterState.STOPPED: "The fleet is stopped, and a hold would end the stop.",
        ClusterState.IMPORTING: "A publication is under way, and would end the hold.",
    }
    return ActForm(
        title="Hold the fleet",
        consequences=(
            f"{_deploying(status)} They finish their current step, and no host starts another step.",
            "The hold ends when an operator resumes the fleet, or when a new revision is published.",
        ),
        button="Hold the fleet",
        objection=objections.get(state, ""),
    )


def _resume(snapshot: FleetSnapshot, status: FleetStatus) -> ActForm:
    state = None if snapshot.cluster is None else snapshot.cluster.state
    failed = sum(host.state is HostState.FAILED for host in status.hosts)
    waiting = sum(host.expected and host.version != snapshot.published for host in status.hosts)
    retry = f"{count_text(failed, 'failed host')} {'tries' if failed == 1 else 'try'} again." if failed else ""
    consequences = (
        f"Hosts continue with revision {short(snapshot.published)}: {count_text(waiting, 'host')} will deploy it.",
        retry,
        f"{count_text(len(status.stops), 'recorded stop')} {'is' if len(status.stops) == 1 else 'are'} removed."
        if status.stops
        else "",
    )
    objection = ""
    if state not in {ClusterState.STOPPED, ClusterState.HELD}:
        objection = "The fleet is neither stopped nor held, so there is nothing to resume."
    return ActForm(
        title="Resume the fleet",
        consequences=tuple(filter(None, consequences)),
        button="Resume the fleet",
        options=(
            ActOption(
                "latest",
                "Publish the tip of the branch first",
                "For a fix that was pushed after the stop. The syncer publishes it, and hosts deploy it instead.",
            ),
        ),
        reason_required=False,
        objection=objection,
    )


def _deploying(status: FleetStatus) -> str:
    deploying = sum(host.state is HostState.DEPLOYING for host in status.hosts)
    return f"{count_text(deploying, 'host')} {'is' if deploying == 1 else 'are'} deploying now."


#: The acts on rollouts: directive, label, kind of the button.
_ROLLOUT_ACTS = (
    (Directive.RESUME, "Resume the rollout", "primary"),
    (Directive.PAUSE, "Pause the rollout", ""),
    (Directive.ABORT, "Abort the rollout", "danger"),
)

#: The names of forms: a fleet has ``resume``, too.
_FORM_NAMES = {directive: f"rollout-{directive.value}" for directive in Directive}

_ROLLOUT_CONSEQUENCES = {
    Directive.PAUSE: (
        "Hosts that deploy now finish. No other host begins.",
        "The rollout continues when an operator resumes it.",
    ),
    Directive.RESUME: ("The rollout continues where it was paused.",),
    Directive.ABORT: (
        "Hosts that deploy now finish. No other host begins, and the fleet stops.",
        "Hosts that have the new revision keep it. To go back, roll back to an older publication.",
    ),
}


def rollout_acts(state: RolloutState, back: str) -> tuple[ActLink, ...]:
    """Return the acts that a rollout accepts now; the promotions of groups are in ``promotion``."""
    return tuple(
        ActLink(label, act_page(_FORM_NAMES[directive], back), kind)
        for directive, label, kind in _ROLLOUT_ACTS
        if directive_objection(state, directive) is None
    )


def promotion(state: RolloutState, group: GroupStatus, back: str) -> ActLink | None:
    """Return the link that promotes a group, if the rollout accepts that; it is emphasised for the next group."""
    if directive_objection(state, Directive.PROMOTE, group.name) is not None:
        return None
    progress = state.rollout.progress
    is_next = all(progress[parent].verdict is GroupVerdict.SUCCESS for parent in group.depends_on)
    address = act_page(_FORM_NAMES[Directive.PROMOTE], back, group=group.name)
    return ActLink("Promote", address, "primary" if is_next else "")


def form_directive(name: str) -> Directive | None:
    """Return the directive that a form of a rollout gives; ``None`` if there is no such form."""
    return next((directive for directive, form in _FORM_NAMES.items() if form == name), None)


def rollout_form(directive: Directive, state: RolloutState | None, group: str) -> ActForm:
    """Return the form of an act on the present rollout; ``group`` is the group to promote."""
    if state is None:
        return ActForm("Act on the rollout", (), "", objection="There is no rollout at present.")
    objection = directive_objection(state, directive, group or None) or ""
    if directive is Directive.PROMOTE:
        members = state.rollout.members.get(group, frozenset())
        return ActForm(
            title=f"Promote group {group}",
            consequences=(f"The group begins as soon as its turn comes: {count_text(len(members), 'host')}.",),
            button="Promote the group",
            fields=(("group", group),),
            objection=objection,
        )
    label = next(label for known, label, _ in _ROLLOUT_ACTS if known is directive)
    kind = next(kind for known, _, kind in _ROLLOUT_ACTS if known is directive) or "primary"
    return ActForm(label, _ROLLOUT_CONSEQUENCES[directive], label, kind, objection=objection)


def release_form(lock: Lock, hosts: tuple[Host, ...], now: float) -> ActForm:
    """Return the form that releases a lock; raises ``RefusedError`` if no host holds the lock."""
    release = plan_release(lock, hosts, now=now)
    next_host = lock.waiting[0].identity if lock.waiting else ""
    follower = f"{next_host} acquires the lock next." if next_host else "No host waits for the lock."
    return ActForm(
        title=f"Release {lock}",
        consequences=(f"{release.owner} loses the lock. A script that it runs continues.", follower),
        button="Release the lock",
        kind="danger",
        fields=(("lock", lock.path),),
        options=()
        if release.objection is None
        else (
            ActOption("force", "Release it although the holder works under it", f"Warning: {release.objection}."),
        ),
    )


def rollback_form(record: PublicationRecord) -> ActForm:
    """Return the form that rolls the fleet back to the revision of an earlier publication."""
    revision = short(record.revision)
    subject = f" ({record.origin.subject})" if record.origin is not None and record.origin.subject else ""
    return ActForm(
        title=f"Roll back to {revision}",
        consequences=(
            f"A new commit restores the tree and the strategies of {revision}{subject}.",
            "The syncer publishes that commit, and hosts deploy it like any other. History goes forward.",
        ),
        button="Roll back",
        kind="danger",
        fields=(("sequence", str(record.sequence)),),
        options=(
            ActOption("now", "Publish at once", "Even while the fleet is stopped or hosts are behind."),
            ActOption(
                "quarantine",
                "Quarantine the undone versions",
                "Package versions that the undone commits introduced are refused from now on.",
            ),
        ),
    )
