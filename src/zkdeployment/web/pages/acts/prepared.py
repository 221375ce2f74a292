"""The acts that forms offer on the fleet, its rollout and its locks: each with the function that performs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import ConflictError
from zkdeployment.fleet.locks import find_lock
from zkdeployment.model.publishing.request import GuardOverrides
from zkdeployment.model.user import ActKind
from zkdeployment.rollout.state import Directive
from zkdeployment.web import acts
from zkdeployment.web.pages.acts.prepared_act import PreparedAct
from zkdeployment.web.pages.acts.prepared_intents import PreparedIntentActs
from zkdeployment.web.views.acts import fleet_form, form_directive, release_form, rollback_form, rollout_form

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.user import User
    from zkdeployment.ports.server import ServerAdapters
    from zkdeployment.web.pages.acts.prepared_act import Performer
    from zkdeployment.web.planner import RevisionPlanner

#: Seconds to wait for the syncer's answer to a request for a publication.
_SYNCER_TIMEOUT = 30.0

#: A sequence has at most 16 digits.
_DIGITS = 17


def prepare_act(
    name: str, values: Mapping[str, str], adapters: ServerAdapters, planner: RevisionPlanner
) -> PreparedAct | None:
    """Return the act of this name on the subject that ``values`` describe, the fields of its form; else ``None``.

    Raises ``NotFoundError`` for a lock or an intent that does not exist.
    """
    if name == "release":
        return _release(values, adapters)
    if name == "rollback":
        return _roll_back(values, adapters)
    intents = PreparedIntentActs(adapters, planner, values)
    if name in intents.by_name:
        return intents.by_name[name]()
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


def _release(values: Mapping[str, str], adapters: ServerAdapters) -> PreparedAct:
    name, force = values.get("lock", ""), bool(values.get("force"))
    lock = find_lock(adapters.operator.locks.locks(), name)
    form = release_form(lock, adapters.feed.snapshot().fleet.hosts, adapters.clock.now())

    def perform(user: User, reason: str) -> object:
        return acts.release_lock(adapters, user, name, reason, force=force)

    return PreparedAct(form, perform, ActKind.RELEASE_LOCK, lock.services)
