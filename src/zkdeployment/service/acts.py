"""The acts on the whole fleet and on its locks: stop, hold, resume, roll back and release."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from zkdeployment.base.act import NO_REASON, Act, ActRight, sanitize
from zkdeployment.base.cluster import ClusterState, Revision, short
from zkdeployment.base.errors import ConflictError, ZkdeploymentError
from zkdeployment.base.features import installed
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.snapshot import FleetSnapshot, is_retry_pending, retried_host, stops_in_force
from zkdeployment.publishing.records import CHECK_BUDGET, GuardOverrides, PublicationRecord
from zkdeployment.service.act import (
    ActDetail,
    ActForm,
    Actor,
    CommittedAct,
    EmergencyAct,
    FormAct,
    PlannedAct,
    RecordedAct,
    Snapshot,
    UndoneCommit,
    Visit,
    given,
)
from zkdeployment.service.host_acts import HOST_ACTS
from zkdeployment.service.places import ServicePlaces
from zkdeployment.strategies.views import aborted_rollout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.base.host import Host
    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.fleet.views.locks import Release
    from zkdeployment.fleet.views.status import FleetStatus
    from zkdeployment.publishing.acts.rollback import RollbackOrder
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits
    from zkdeployment.service.dependencies import ServerAdapters
    from zkdeployment.service.users.user import User
    from zkdeployment.service.views.frame import ActLink

#: The longest wait for a syncer, in seconds: a request keeps a thread of the service.
_LONGEST_WAIT = 300.0

#: Seconds for which a form waits for the syncer's answer to a request for a publication.
_FORM_TIMEOUT = CHECK_BUDGET + 30.0

#: The most lines of a difference on a form, and of stops in the sentence on a situation.
_MOST_LINES = 400
_MOST_STOPS = 3

#: The last publications, which a form searches for the commit to which a rollback led.
_SEARCHED = 20

#: A sequence has at most 16 digits.
_DIGITS = 17


class OperatorAct(FormAct[Snapshot, "OperatorAdapters"]):
    """An act that the adapters of operators perform."""

    ADAPTERS = "operator"


class _FleetAct(OperatorAct["tuple[FleetSnapshot, FleetStatus]"]):
    RIGHT: ClassVar[ActRight]
    IS_OF_FLEET = True

    def read(self, visit: Visit) -> tuple[FleetSnapshot, FleetStatus]:
        cached = visit.adapters.feed.snapshot()
        return cached.fleet, cached.status


class StopFleet(EmergencyAct, _FleetAct):
    """Stop the whole fleet: hosts finish their present step and start no other step."""

    NAME = "stop"
    KEY = "!"
    RIGHT = ActRight("stop the fleet", is_safe=True)
    BUTTON = "Stop the fleet"
    STYLE = "danger"
    PATH = "stop"
    OPERATION = "stop"
    REFUSAL = "NOT stopped"

    def objection(self, found: tuple[FleetSnapshot, FleetStatus]) -> str:
        return "" if found[0].cluster is not None else "Nothing is published yet, so there is nothing to stop."

    def consequences(self, found: tuple[FleetSnapshot, FleetStatus]) -> tuple[str, ...]:
        return (
            _deploying(found[1]),
            "No new revision is published.",
            "The stop lasts until an operator resumes the fleet. Running services continue to run.",
        )

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> Act:
        act = actor.record(self, "stop")
        adapters.cluster.stop(act)
        return act


class HoldFleet(EmergencyAct, _FleetAct):
    """Hold all hosts until the next publication."""

    NAME = "hold"
    RIGHT = ActRight("hold the fleet")
    BUTTON = "Hold the fleet"
    PATH = "hold"
    OPERATION = "hold"
    REFUSAL = "NOT held"

    def objection(self, found: tuple[FleetSnapshot, FleetStatus]) -> str:
        objections = {
            None: "Nothing is published yet, so there is nothing to hold.",
            ClusterState.STOPPED: "The fleet is stopped, and a hold would end the stop.",
            ClusterState.IMPORTING: "A publication is under way, and would end the hold.",
        }
        return objections.get(_state(found[0]), "")

    def consequences(self, found: tuple[FleetSnapshot, FleetStatus]) -> tuple[str, ...]:
        return (
            _deploying(found[1]),
            "The hold ends when an operator resumes the fleet, or when a new revision is published.",
        )

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> Act:
        act = actor.record(self, "hold")
        adapters.cluster.hold(act)
        return act


@dataclass(frozen=True, slots=True)
class ResumedFleet:
    """The end of a stop or a hold: the revision that hosts deploy now."""

    act: RecordedAct
    revision: Revision


@dataclass(frozen=True, kw_only=True)
class ResumeFleet(_FleetAct):
    """End a stop or a hold; with ``latest``, a syncer publishes the tip of the branch first."""

    NAME = "resume"
    RIGHT = ActRight("resume the fleet")
    BUTTON = "Resume the fleet"
    PATH = "resume"
    OPERATION = "resume"
    REQUEST = """The end of a stop or a hold.

With ``latest``, a syncer first publishes the tip of the branch; the answer waits for it, at most ``timeout``
seconds."""
    ANSWER = ResumedFleet
    NEEDS_REASON = False
    FORM_NEEDS_REASON = False

    latest: bool = given(
        default=False,
        label="Publish the tip of the branch first",
        explanation=(
            "For a fix that was pushed after the stop. The syncer publishes it, and hosts deploy it instead."
        ),
    )
    timeout: float = given(60.0, least=0, most=_LONGEST_WAIT)
    allow_rewind: bool = given(default=False)
    allow_mass_removal: bool = given(default=False)
    allow_package_problems: bool = given(default=False)

    @property
    def overrides(self) -> GuardOverrides:
        """The guards that the publication overrides."""
        return GuardOverrides(self.allow_rewind, self.allow_mass_removal, self.allow_package_problems)

    def check(self) -> None:
        if not self.latest and self.overrides != GuardOverrides():
            raise ValueError(
                "expected latest with allow_rewind, allow_mass_removal or allow_package_problems: without it"
                " nothing is published"
            )

    @classmethod
    def of_form(cls, values: Mapping[str, str], visit: Visit) -> Self | None:
        act = super().of_form(values, visit)
        return None if act is None else replace(act, timeout=_FORM_TIMEOUT)

    def objection(self, found: tuple[FleetSnapshot, FleetStatus]) -> str:
        if _state(found[0]) in {ClusterState.STOPPED, ClusterState.HELD}:
            return ""
        return "The fleet is neither stopped nor held, so there is nothing to resume."

    def situation(self, found: tuple[FleetSnapshot, FleetStatus], visit: Visit) -> str:
        return fleet_situation(found[0])

    def consequences(self, found: tuple[FleetSnapshot, FleetStatus]) -> tuple[str, ...]:
        snapshot, status = found
        stops, failed = len(status.stops), _count(status, "failed")
        behind = _left(snapshot, status)
        waiting = counted(behind, "host", ",")
        lines = (
            "No revision is completely published: publish the tip of the branch first."
            if snapshot.published is None
            else f"Hosts continue with revision {short(snapshot.published)}: {waiting} will deploy it.",
            f"{counted(failed, 'failed host', ',')} {'tries' if failed == 1 else 'try'} again.",
            _removed(stops),
        )
        aborted = "" if snapshot.rollout is None else aborted_rollout(snapshot.rollout)
        shown = zip((f"{_sentence(aborted)}.", *lines), (aborted, 1, failed, stops), strict=True)
        return tuple(line for line, is_shown in shown if is_shown)

    def preview(self, found: tuple[FleetSnapshot, FleetStatus], form: ActForm, visit: Visit) -> ActForm:
        from zkdeployment.fleet.views.history import PACE, duration_sentence  # noqa: PLC0415  verbs start faster without it

        snapshot, status = found
        left, governed = _left(snapshot, status), snapshot.strategy is not None  # unlike a stopped fleet
        duration = duration_sentence(left, visit.adapters.feed.history(PACE), governed=governed)
        failed = _count(status, "failed")
        risk = f"{counted(failed, 'host', ',')} {'is' if failed == 1 else 'are'} likely to fail again."
        return replace(form, consequences=(*form.consequences, *filter(None, (duration, risk if failed else ""))))

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> ResumedFleet:
        """End the stop or the hold; raises what ``resume_latest`` and ``resume`` raise."""
        words = ("resume", "--latest" if self.latest else "", str(self.overrides))
        act = actor.record(self, " ".join(filter(None, words)))
        if not self.latest:
            return ResumedFleet(RecordedAct.of(act), adapters.cluster.resume(act))
        revision = adapters.cluster.resume_latest(act, timeout=self.timeout, overrides=self.overrides)
        return ResumedFleet(RecordedAct.of(act), revision)


@dataclass(frozen=True, kw_only=True)
class RetryHost(OperatorAct["tuple[FleetSnapshot, Host | None]"]):
    """Let one failed host of a stopped fleet deploy the published revision again; all other hosts stay stopped."""

    NAME = "retry"
    RIGHT = ActRight("resume the fleet")
    BUTTON = "Retry the host"
    PATH = "retry"
    OPERATION = "retry"
    REQUEST = "Another attempt of one failed host, named by its id or name, while the fleet stays stopped."
    ANSWER = ResumedFleet
    NEEDS_REASON = False
    FORM_NEEDS_REASON = False

    host: str = given(least=1, most=500, hidden=True)

    def read(self, visit: Visit) -> tuple[FleetSnapshot, Host | None]:
        snapshot = visit.adapters.feed.snapshot().fleet
        return snapshot, snapshot.find_host(self.host)

    def title(self, found: tuple[FleetSnapshot, Host | None]) -> str:
        return f"Retry {self.host if found[1] is None else found[1].identity.name}"

    def objection(self, found: tuple[FleetSnapshot, Host | None]) -> str:
        snapshot, host = found
        reason = snapshot.retry_objection(host)
        return f"{_sentence(reason)}." if reason else ""

    def situation(self, found: tuple[FleetSnapshot, Host | None], visit: Visit) -> str:
        return fleet_situation(found[0])

    def consequences(self, found: tuple[FleetSnapshot, Host | None]) -> tuple[str, ...]:
        snapshot, host = found
        name = self.host if host is None else host.identity.name
        other = retried_host(snapshot) if is_retry_pending(snapshot) else None
        replaced = () if other is None or other is host else (f"The retry of {other.identity.name} ends.",)
        return (
            f"{name} deploys revision {short(snapshot.published)} again, without a turn in a rollout.",
            *replaced,
            "The fleet stays stopped: no other host starts a step.",
            "If the host fails again, its attempt ends. If it succeeds, resume the fleet for the others.",
        )

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> ResumedFleet:
        """Order the attempt; raises ``NotFoundError`` and what ``retry`` raises."""
        identity = adapters.fleet.snapshot().find_identity(self.host)
        host_id = self.host if identity is None else identity.id
        act = actor.record(self, f"retry of {host_id}")
        return ResumedFleet(RecordedAct.of(act), adapters.cluster.retry(host_id, act))


@dataclass(frozen=True, kw_only=True)
class PublishFleet(_FleetAct):
    """Publish the tip of the branch now, without waiting until all hosts have the present revision."""

    NAME = "publish"
    RIGHT = ActRight("publish")
    BUTTON = "Publish the tip of the branch"
    STYLE = "primary"
    PATH = "publish"
    OPERATION = "publish"
    REQUEST = """The publication of the tip of the branch, in any state of the fleet.

The answer waits for the syncer, at most ``timeout`` seconds. A stop or a hold ends with the publication."""
    ANSWER = ResumedFleet

    timeout: float = given(60.0, least=0, most=_LONGEST_WAIT)
    #: The tip of the branch that the page with the link to the form showed.
    commit: str = ""

    @classmethod
    def of_form(cls, values: Mapping[str, str], visit: Visit) -> Self | None:
        act = super().of_form(values, visit)
        return None if act is None else replace(act, timeout=_FORM_TIMEOUT, commit=values.get("commit", ""))

    def objection(self, found: tuple[FleetSnapshot, FleetStatus]) -> str:
        snapshot, _ = found
        if snapshot.cluster is None:
            return "Nothing is published yet: a syncer publishes the first revision without a request."
        if self.commit and str(snapshot.published) == self.commit:
            return f"{short(self.commit)} is published already; another publication would begin its rollout again."
        return ""

    def situation(self, found: tuple[FleetSnapshot, FleetStatus], visit: Visit) -> str:
        return fleet_situation(found[0])

    def form(self, found: tuple[FleetSnapshot, FleetStatus]) -> ActForm:
        return replace(super().form(found), fields=(("commit", self.commit),))

    def consequences(self, found: tuple[FleetSnapshot, FleetStatus]) -> tuple[str, ...]:
        snapshot, status = found
        left = _left(snapshot, status)
        lines = ["The syncer publishes the newest commit now. The guards against mistakes still apply."]
        state = _state(snapshot)
        if state in {ClusterState.STOPPED, ClusterState.HELD}:
            ended = "stop" if state is ClusterState.STOPPED else "hold"
            stops = [_removed(len(status.stops))] if status.stops else []
            lines = [f"The {ended} of the fleet ends, and hosts deploy the new revision.", *stops, *lines]
        if snapshot.rollout is not None and snapshot.governed and snapshot.rollout.ended is None:
            lines.append("The rollout that is under way ends: a new one begins with the first group.")
        if left:
            verb = "skips" if left == 1 else "skip"
            lines.append(f"{counted(left, 'host', ',')} without the present revision {verb} it.")
        return tuple(lines)

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> ResumedFleet:
        """Request the publication and wait for it; raises what ``resume_latest`` raises."""
        act = actor.record(self, "publish")
        return ResumedFleet(RecordedAct.of(act), adapters.cluster.resume_latest(act, timeout=self.timeout))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _state(snapshot: FleetSnapshot) -> ClusterState | None:
    return None if snapshot.cluster is None else snapshot.cluster.state


def fleet_situation(snapshot: FleetSnapshot) -> str:
    """Return the situation of acts that let hosts deploy: the state of the fleet, its revision and its stops."""
    state = _state(snapshot)
    if state is None:
        return "nothing is published"
    at = "" if snapshot.published is None else f" at {short(snapshot.published)}"
    stops = [str(stop) for stop in stops_in_force(snapshot)]
    listed = f" ({'; '.join(stops[:_MOST_STOPS])})" if stops else ""
    more = f" and {counted(len(stops) - _MOST_STOPS, 'more stop')}" if len(stops) > _MOST_STOPS else ""
    return f"the fleet is {state.value}{at}{listed}{more}"


def _left(snapshot: FleetSnapshot, status: FleetStatus) -> int:
    """Return the number of expected hosts without the published revision."""
    return sum(host.expected and host.version != snapshot.published for host in status.hosts)


def _count(status: FleetStatus, state: str) -> int:
    return sum(host.state.value == state for host in status.hosts)


def _removed(stops: int) -> str:
    return f"{counted(stops, 'recorded stop', ',')} {'is' if stops == 1 else 'are'} removed."


def _deploying(status: FleetStatus) -> str:
    deploying = _count(status, "deploying")
    return (
        f"{counted(deploying, 'host', ',')} {'is' if deploying == 1 else 'are'} deploying now. They finish their"
        " current step, and no host starts another step."
    )


#: The acts that a fleet accepts in each state, in the order in which they are shown.
_OFFERED: Mapping[ClusterState, tuple[type[_FleetAct], ...]] = {
    ClusterState.STOPPED: (ResumeFleet,),
    ClusterState.HELD: (ResumeFleet, StopFleet),
    ClusterState.IMPORTING: (StopFleet,),
    ClusterState.RUNNING: (HoldFleet, StopFleet),
}


def fleet_acts(snapshot: FleetSnapshot, back: str, user: User) -> tuple[ActLink, ...]:
    """Return the acts on the whole fleet that its present state and the rights of the user permit.

    A stop also ends the retry of one host of a stopped fleet.
    """
    acts = () if snapshot.cluster is None else _OFFERED[snapshot.cluster.state]
    if is_retry_pending(snapshot):
        acts = (*acts, StopFleet)
    return tuple(
        act.link(act.NAME.capitalize(), "" if act is HoldFleet else act.STYLE, back)
        for act in acts
        if user.may_act(act.RIGHT)
    )


#: The most decisions of features with a link.
_MOST_DECISIONS = 3


def decision_acts(status: FleetStatus, back: str, user: User) -> tuple[ActLink, ...]:
    """Return the acts that make the first decisions due, as far as the rights of the user permit."""
    due = [each.form for each in (*status.rollout_decisions, *status.feature_decisions[:_MOST_DECISIONS])]
    links = (act_link(form.act, back, user, **form.fields) for form in due)
    return tuple(
        replace(link, label=form.label) for link, form in zip(links, due, strict=True) if link is not None
    )


def retry_link(snapshot: FleetSnapshot, status: FleetStatus, back: str, user: User) -> tuple[ActLink, ...]:
    """Return the link that retries the failed host of a stopped fleet, if there is exactly one."""
    failed = [host for host in status.hosts if host.state.value == "failed"]
    if len(failed) != 1 or not user.may_act(RetryHost.RIGHT):
        return ()
    host = next((host for host in snapshot.hosts if host.identity.id == failed[0].id), None)
    if snapshot.retry_objection(host):
        return ()
    return (RetryHost.link(f"Retry {failed[0].name}", "", back, host=failed[0].id),)


@dataclass(frozen=True, kw_only=True)
class ReleaseLock(OperatorAct["Release"]):
    """Release the lock of a service or of a role, so that the next host in the queue acquires it."""

    NAME = "release"
    RIGHT = ActRight("release the lock")
    BUTTON = "Release the lock"
    STYLE = "danger"
    PATH = "locks/release"
    OPERATION = "release"
    REQUEST = """The release of the lock of a service, named by its path, or of a role.

With ``force``, the lock is released even while its holder works under it."""

    name: str = given(least=1, most=2000, hidden=True, form_name="lock")
    force: bool = given(default=False, label="Release it although the holder works under it")

    def read(self, visit: Visit) -> Release:
        """Return the release; raises ``NotFoundError``, and ``RefusedError`` if no host holds the lock."""
        from zkdeployment.fleet.views.locks import find_lock, plan_release  # noqa: PLC0415  other acts need none

        lock = find_lock(visit.adapters.operator.locks.locks(), self.name)
        return plan_release(lock, visit.adapters.feed.snapshot().fleet, now=visit.adapters.clock.now())

    def concerned(self, found: Release) -> tuple[str, ...]:
        return found.lock.services

    def title(self, found: Release) -> str:
        return f"Release {found.lock}"

    def situation(self, found: Release, visit: Visit) -> str:
        return f"{found.owner} holds the lock"

    def consequences(self, found: Release) -> tuple[str, ...]:
        next_host = found.lock.waiting[0].identity if found.lock.waiting else ""
        follower = f"{next_host} acquires the lock next." if next_host else "No host waits for the lock."
        return f"{found.owner} loses the lock. A script that it runs continues.", follower

    def form(self, found: Release) -> ActForm:
        form = replace(super().form(found), fields=(("lock", found.lock.path),))
        if found.objection is None:
            return replace(form, options=())
        return replace(form, options=(replace(form.options[0], explanation=f"Warning: {found.objection}."),))

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> Act:
        """Release the lock; raises ``RefusedError`` while its holder works, unless forced."""
        from zkdeployment.fleet.views.locks import check_release, find_lock, plan_release  # noqa: PLC0415  as above

        lock = find_lock(adapters.locks.locks(), self.name)
        actor.require(self.RIGHT, *lock.services)
        planned = plan_release(lock, adapters.fleet.snapshot(), now=actor.now())
        check_release(planned, force=self.force)
        act = actor.record(self, planned.description, *lock.services)
        adapters.locks.release(planned.node, act)
        return act


@dataclass(frozen=True, kw_only=True)
class RollBackFleet(EmergencyAct, FormAct["PublicationRecord", "ServerAdapters"]):
    """Commit the tree of an earlier revision to the branch; 202 if a commit was made, else 200."""

    NAME = "rollback"
    RIGHT = ActRight("roll the fleet back")
    BUTTON = "Roll back"
    STYLE = "danger"
    PATH = "rollback"
    OPERATION = "roll_back"
    REFUSAL = "NOT rolled back"
    REQUEST = """\
A rollback to a revision, by default to the last successful revision before the current one. After a push that
the syncer refused, the current one counts, too.

With ``now``, a syncer publishes the commit at once; the answer waits for it, at most ``timeout`` seconds.
``quarantine`` puts each version that the undone commits introduced into quarantine. ``former_strategy`` restores
the strategy of that revision, too; without it, the present one stays in force. ``dry_run`` commits nothing."""
    ANSWER = CommittedAct
    ROUTE = {
        "status_code": 202,
        "responses": {200: {"model": CommittedAct, "description": "No commit"}},
    }

    revision: str | None = given(None, pattern="^[0-9a-f]{4,64}$")
    now: bool = given(
        default=False, label="Publish at once", explanation="Even while the fleet is stopped or hosts are behind."
    )
    quarantine: bool = given(
        default=False,
        label="Quarantine the undone versions",
        explanation="Package versions that the undone commits introduced are refused from now on.",
    )
    former_strategy: bool = given(
        default=False,
        label="Restore the former strategy, too",
        explanation="Otherwise the present strategy stays in force, even if it came with an undone commit.",
    )
    dry_run: bool = given(default=False)
    timeout: float = given(60.0, least=0, most=_LONGEST_WAIT)
    commit: str = ""
    publications: tuple[PublicationRecord, ...] = field(default=())

    @classmethod
    def of_form(cls, values: Mapping[str, str], visit: Visit) -> Self | None:
        number = values.get("sequence", "")
        records = (
            visit.adapters.feed.publication(int(number)) if number.isdecimal() and len(number) < _DIGITS else ()
        )
        act = super().of_form(values, visit)
        if act is None or visit.adapters.commits is None or not records:
            return None
        from zkdeployment.publishing.acts.rollback import restored_commit  # noqa: PLC0415  other acts need none

        revision = str(records[-1].revision)
        named = ": ".join(filter(None, restored_commit(records[-1], visit.adapters.feed.history(_SEARCHED))))
        return replace(act, revision=revision, timeout=_FORM_TIMEOUT, commit=named, publications=tuple(records))

    def read(self, visit: Visit) -> PublicationRecord:
        return self.publications[-1]

    def title(self, found: PublicationRecord) -> str:
        return f"Roll back to {short(found.revision)}"

    def situation(self, found: PublicationRecord, visit: Visit) -> str:
        tip, _ = visit.adapters.require_commits().at_tip()
        return f"{fleet_situation(visit.adapters.feed.snapshot().fleet)}, and the branch is at {short(tip)}"

    def consequences(self, found: PublicationRecord) -> tuple[str, ...]:
        return (
            f"A new commit restores the tree of {self.commit or short(found.revision)}.",
            "The syncer publishes that commit, and hosts deploy it like any other. History goes forward.",
        )

    def form(self, found: PublicationRecord) -> ActForm:
        return replace(super().form(found), fields=(("sequence", str(found.sequence)),))

    def preview(self, found: PublicationRecord, form: ActForm, visit: Visit) -> ActForm:
        """Return the form with the commits that the rollback undoes, its changes, the plan and its duration."""
        from zkdeployment.fleet.rollback import roll_back  # noqa: PLC0415  as above
        from zkdeployment.fleet.views.forecast import Outlook  # noqa: PLC0415  verbs start faster without it
        from zkdeployment.fleet.views.history import PACE, duration_sentence  # noqa: PLC0415  as above
        from zkdeployment.publishing.acts.rollback import governing_strategy  # noqa: PLC0415  as above
        from zkdeployment.service.views.plan import plan_view  # noqa: PLC0415  as above

        adapters = visit.adapters
        commits, operator = adapters.require_commits(), adapters.operator
        order = self._order(commits, visit.actor)
        outcome = roll_back(order, commits, operator.fleet, operator.rollouts, dry_run=True)
        if not outcome.changed:
            return replace(form, objection="The tip of the branch has this tree already: nothing would change.")
        planned = visit.state.planner.plan_files(adapters, outcome.files, "the rollback")
        changing = len(planned.forecast.with_outlook(Outlook.CHANGES))
        duration = duration_sentence(changing, adapters.feed.history(PACE), governed=planned.forecast.governed)
        strategy = _sentence(governing_strategy(outcome, commits))
        undone = tuple(f"{short(each.id)} {each.subject} ({each.author})" for each in outcome.undone)
        return replace(
            form,
            consequences=(*form.consequences, f"{strategy}.", *filter(None, (duration,))),
            details=(
                ActDetail(f"It undoes {counted(len(undone), 'commit')}", undone),
                ActDetail("Changes of the files", tuple(outcome.diff.splitlines()[:_MOST_LINES])),
            ),
            plan=plan_view(planned.forecast, planned.warnings, planned.packages, planned.additions),
        )

    def _order(self, commits: TreeCommits, actor: Actor) -> RollbackOrder:
        from zkdeployment.publishing.acts.rollback import RollbackOrder  # noqa: PLC0415  other acts need none

        return RollbackOrder(
            author=commits.author(actor.name),
            reason=sanitize(self.reason) or NO_REASON,
            revision=self.revision,
            quarantine=self.quarantine,
            former_strategy=self.former_strategy,
            now=actor.now(),
        )

    def perform(self, adapters: ServerAdapters, actor: Actor) -> CommittedAct:
        """Commit the rollback; its commit is made even if it could not be published in time.

        Raises what ``roll_back`` raises, and ``RefusedError`` if the service has no repository.
        """
        from zkdeployment.fleet.rollback import publish_now, roll_back, rollback_title  # noqa: PLC0415  other acts need none
        from zkdeployment.fleet.store.audit import ActAudit  # noqa: PLC0415  as above
        from zkdeployment.fleet.views.requests import publication_obstacles  # noqa: PLC0415  as above
        from zkdeployment.publishing.acts.rollback import governing_strategy  # noqa: PLC0415  as above

        actor.require(self.RIGHT)
        operator, commits = adapters.operator, adapters.require_commits()
        order = self._order(commits, actor)
        audit = ActAudit(operator.acts, actor.name, order.reason)
        outcome = roll_back(order, commits, operator.fleet, operator.rollouts, dry_run=self.dry_run, audit=audit)
        obstacles: list[str] = []
        if not self.dry_run and outcome.commit is not None and self.now:
            act = actor.record(self, rollback_title(outcome))
            try:
                publish_now(outcome.commit, act, commits, operator.fleet, operator.cluster, timeout=self.timeout)
            except ZkdeploymentError as error:
                obstacles = [str(error)]
        elif not self.dry_run and outcome.commit is not None:
            obstacles = [*publication_obstacles(operator.fleet.snapshot(), outcome.commit)]
        undone = [UndoneCommit(commit.id, commit.author, commit.subject, commit.time) for commit in outcome.undone]
        strategy = governing_strategy(outcome, commits)
        return CommittedAct(outcome.commit, outcome.changed, outcome.diff, undone, obstacles, strategy)

    def page_after(self, outcome: CommittedAct, back: str) -> str:
        """Return the page before; raises ``ConflictError`` if the commit was to be published, but was not."""
        if self.now and outcome.obstacles:
            raise ConflictError(f"{outcome.job} is committed, but not published: {'; '.join(outcome.obstacles)}")
        return back


#: The acts on the fleet that have a form; the features add theirs.
ACTS: tuple[type[FormAct[Any, Any]], ...] = (
    StopFleet,
    HoldFleet,
    ResumeFleet,
    RetryHost,
    PublishFleet,
    ReleaseLock,
    RollBackFleet,
)


def all_acts() -> tuple[type[PlannedAct[Any]], ...]:
    """Return the acts on the fleet, and those of the features."""
    return (*ACTS, *HOST_ACTS, *(act for places in installed(ServicePlaces) for act in places.acts()))


def act_link(name: str, back: str, user: User, **values: str) -> ActLink | None:
    """Return the link to the form of an act; ``None`` if the user may not perform it on the whole fleet."""
    act = next((each for each in all_acts() if issubclass(each, FormAct) and name == each.NAME), None)
    if act is None or not isinstance(act.RIGHT, ActRight) or not user.may_act(act.RIGHT):
        return None
    return act.link(act.BUTTON, act.STYLE, back, **values)
