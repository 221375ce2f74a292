"""The acts that forms offer: each with its form, and with the function that performs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.errors import ConflictError
from zkdeployment.fleet.locks import find_lock
from zkdeployment.model.publishing.request import GuardOverrides
from zkdeployment.model.user import ActKind
from zkdeployment.rollout.state import Directive
from zkdeployment.web import acts
from zkdeployment.web.intent_acts import act_on_intent, approvals_are_signed, find_record
from zkdeployment.web.views.acts import fleet_form, form_directive, release_form, rollback_form, rollout_form
from zkdeployment.web.views.intents.acts import FORM_ACTS, intent_form, intent_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zkdeployment.intents.life_cycle import IntentAct
    from zkdeployment.model.user import User
    from zkdeployment.ports.server import ServerAdapters
    from zkdeployment.web.views.acts import ActForm

    #: Performs an act for a user, with a reason.
    Performer = Callable[[User, str], object]

#: Seconds to wait for the syncer's answer to a request for a publication.
_SYNCER_TIMEOUT = 30.0

#: A sequence has at most 16 digits.
_DIGITS = 17


@dataclass(frozen=True, slots=True)
class PreparedAct:
    """An act: its form, the function that performs it, and what rights it takes.

    ``paths`` are the services that the act concerns; an act without paths concerns the whole fleet. ``shows_job``
    is whether the page that is shown afterwards says what became of the act's commit.
    """

    form: ActForm
    perform: Performer
    kind: ActKind
    paths: tuple[str, ...] = ()
    shows_job: bool = False


def prepare_act(name: str, values: Mapping[str, str], adapters: ServerAdapters) -> PreparedAct | None:
    """Return the act of this name on the subject that ``values`` describe, the fields of its form; else ``None``.

    Raises ``NotFoundError`` for a lock or an intent that does not exist.
    """
    if name == "release":
        return _release(values, adapters)
    if name == "rollback":
        return _roll_back(values, adapters)
    if name in FORM_ACTS:
        return _act_on_intent(FORM_ACTS[name], values, adapters)
    directive = form_directive(name)
    if directive is not None:
        return _direct(directive, values, adapters)
    return _act_on_fleet(name, values, adapters)


def _act_on_fleet(name: str, values: Mapping[str, str], adapters: ServerAdapters) -> PreparedAct | None:
    cached = adapters.feed.snapshot()
    form = fleet_form(name, cached.fleet, cached.status)

    def resume(user: User, reason: str) -> object:
        if not values.get("latest"):
            return acts.resume_fleet(adapters, user, reason)
        return acts.resume_at_tip(adapters, user, reason, timeout=_SYNCER_TIMEOUT, overrides=GuardOverrides())

    performers: Mapping[str, Performer] = {
        "stop": lambda user, reason: acts.stop_fleet(adapters, user, reason),
        "hold": lambda user, reason: acts.hold_fleet(adapters, user, reason),
        "resume": resume,
    }
    return None if form is None else PreparedAct(form, performers[name], ActKind[name.upper()])


def _direct(directive: Directive, values: Mapping[str, str], adapters: ServerAdapters) -> PreparedAct:
    group = values.get("group", "") if directive is Directive.PROMOTE else None
    form = rollout_form(directive, adapters.feed.snapshot().fleet.rollout, group or "")

    def perform(user: User, reason: str) -> object:
        return acts.direct_rollout(adapters, user, directive, reason, group)

    return PreparedAct(form, perform, ActKind.DIRECT_ROLLOUT)


def _roll_back(values: Mapping[str, str], adapters: ServerAdapters) -> PreparedAct | None:
    number = values.get("sequence", "")
    records = adapters.feed.publication(int(number)) if number.isdecimal() and len(number) < _DIGITS else ()
    if adapters.commits is None or not records:
        return None
    record = records[-1]
    revision = str(record.revision)

    def perform(user: User, reason: str) -> object:
        publish = bool(values.get("now"))
        outcome, obstacles = acts.roll_back_fleet(
            adapters,
            user,
            reason,
            revision=revision,
            quarantine=bool(values.get("quarantine")),
            publish=publish,
            timeout=_SYNCER_TIMEOUT,
        )
        if publish and obstacles:
            raise ConflictError(f"{outcome.commit} is committed, but not published: {'; '.join(obstacles)}")
        return outcome

    return PreparedAct(rollback_form(record), perform, ActKind.ROLL_BACK)


def _act_on_intent(act: IntentAct, values: Mapping[str, str], adapters: ServerAdapters) -> PreparedAct:
    subject = tuple(values.get("subject", "").split("/"))
    record = find_record(adapters, subject)

    def perform(user: User, reason: str) -> object:
        return act_on_intent(adapters, user, subject, act, reason, content=values.get("content") or None)

    paths = intent_paths(record.intent)
    form = intent_form(record, act, signed=approvals_are_signed(adapters))
    return PreparedAct(form, perform, ActKind.ACT_ON_INTENT, paths, shows_job=True)


def _release(values: Mapping[str, str], adapters: ServerAdapters) -> PreparedAct:
    name, force = values.get("lock", ""), bool(values.get("force"))
    lock = find_lock(adapters.operator.locks.locks(), name)
    form = release_form(lock, adapters.feed.snapshot().fleet.hosts, adapters.clock.now())

    def perform(user: User, reason: str) -> object:
        return acts.release_lock(adapters, user, name, reason, force=force)

    return PreparedAct(form, perform, ActKind.RELEASE_LOCK, lock.services)
