"""``/acts/NAME``: the forms of operators' acts on the fleet, which show the effects of each act, and the acts."""

from collections.abc import Mapping

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException

from zkdeployment.base.act import sanitize
from zkdeployment.base.errors import ConflictError, ZkdeploymentError
from zkdeployment.fleet.views.locks import find_lock
from zkdeployment.intents.pages import PreparedIntentActs
from zkdeployment.publishing.acts.commits import CommitOutcome
from zkdeployment.publishing.records import GuardOverrides
from zkdeployment.service import acts
from zkdeployment.service.access.rights import Operator
from zkdeployment.service.acts import check_right, wait_for_reading
from zkdeployment.service.dependencies import ConnectedAdapters, ServerAdapters
from zkdeployment.service.error_responses import error_status
from zkdeployment.service.pages.act_forms import FormFields, Performer, PreparedAct, show_form
from zkdeployment.service.planner import RevisionPlanner, planner_of
from zkdeployment.service.users.user import ActKind, User
from zkdeployment.service.views.acts import fleet_form, form_directive, release_form, rollback_form, rollout_form
from zkdeployment.service.views.frame import local_path, with_job
from zkdeployment.strategies.state import Directive

#: Seconds to wait for the syncer's answer to a request for a publication.
_SYNCER_TIMEOUT = 30.0

#: A sequence has at most 16 digits.
_DIGITS = 17


def prepare_act(
    name: str, values: Mapping[str, str], adapters: ServerAdapters, planner: RevisionPlanner
) -> PreparedAct | None:
    """Return the act of this name on the subject in the form fields ``values``; ``None`` for an unknown name.

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


router = APIRouter(include_in_schema=False)


@router.get("/acts/{name}")
def ask(request: Request, adapters: ConnectedAdapters, user: Operator, name: str) -> Response:
    """Return the form of an act."""
    values = dict(request.query_params)
    prepared = _require_act(request, name, values, adapters, user)
    return show_form(request, adapters, user, prepared.shown_form(user), values, back=_page_before(values))


@router.post("/acts/{name}")
def act(request: Request, adapters: ConnectedAdapters, user: Operator, name: str, values: FormFields) -> Response:
    """Perform an act, and return to the page from which the form was opened."""
    prepared = _require_act(request, name, values, adapters, user)
    back = _page_before(values)

    def show_again(status: int, mistake: str = "") -> Response:
        form = prepared.shown_form(user)
        return show_form(request, adapters, user, form, values, back=back, status=status, mistake=mistake)

    reason = sanitize(values.get("reason", ""))
    if prepared.form.objection:
        return show_again(409)
    if prepared.form.reason_required and not reason:
        return show_again(422, "The reason is missing: expected a few words for everybody who asks later.")
    before = adapters.feed.snapshot().reading.number
    try:
        outcome = prepared.perform(user, reason)
    except ZkdeploymentError as error:
        return show_again(error_status(error), str(error))
    wait_for_reading(adapters.feed, lambda reading: reading.number != before)
    if prepared.shows_job and isinstance(outcome, CommitOutcome):
        back = with_job(back, outcome.commit or "")
    return RedirectResponse(back, 303)


def _require_act(
    request: Request, name: str, values: dict[str, str], adapters: ServerAdapters, user: User
) -> PreparedAct:
    """Return the act of a form; answer 404 if the act does not exist, and 403 if the user may not perform it."""
    prepared = prepare_act(name, values, adapters, planner_of(request))
    if prepared is None:
        raise HTTPException(404, f"there is no act {name}")
    check_right(user, prepared.kind, *prepared.paths)
    return prepared


def _page_before(values: dict[str, str]) -> str:
    """Return the address of the page from which a form was opened."""
    return local_path(values.get("back", "/"))
