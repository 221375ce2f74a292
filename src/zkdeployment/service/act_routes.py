"""The forms of acts, ``/acts/NAME``, and the operations of the API that follow from the acts."""

import contextlib
import inspect
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, replace
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model
from starlette.exceptions import HTTPException

from zkdeployment.base.act import MAX_REASON_LENGTH, sanitize
from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.text import printable
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.feed.feed import ZooKeeperFeed
from zkdeployment.fleet.feed.fleet_assembly import FleetReading
from zkdeployment.service.access.identity import Operator
from zkdeployment.service.act import ActForm, FormAct, PlannedAct, Visit
from zkdeployment.service.acts import all_acts
from zkdeployment.service.dependencies import ConnectedAdapters
from zkdeployment.service.pages.live_page import show_page
from zkdeployment.service.responses import ERRORS, error_status
from zkdeployment.service.users.user import Right
from zkdeployment.service.views.frame import local_path

AnyAct: TypeAlias = PlannedAct[Any]


def _given(reason: str) -> str:
    if not sanitize(reason):
        raise ValueError("the reason is empty: expected a few words")
    return reason


OptionalReason = Annotated[
    str, Field(max_length=MAX_REASON_LENGTH, description="The reason, which is shown to all operators.")
]
Reason = Annotated[OptionalReason, Field(min_length=1), AfterValidator(_given)]


#: The longest wait in seconds, and the most characters that a message repeats from a form.
_LONGEST = 1.0
_LONGEST_SITUATION = 2000


def wait_for_reading(feed: ZooKeeperFeed, is_wanted: Callable[[FleetReading], bool]) -> None:
    """Wait until ``is_wanted`` accepts a reading of the feed, but only for a moment."""
    changed = threading.Event()
    unsubscribe = feed.subscribe(changed.set)
    deadline = time.monotonic() + _LONGEST
    try:
        while not is_wanted(feed.snapshot().reading) and changed.wait(max(0.0, deadline - time.monotonic())):
            changed.clear()
    finally:
        unsubscribe()


def request_body(act: type[AnyAct]) -> type[BaseModel]:
    """Return the model of the body of a request for an act."""
    given: dict[str, Any] = {"reason": (Reason, ...) if act.NEEDS_REASON else (OptionalReason, "")}
    for name, kind, default, bounds in act.given_fields():
        sizes = ("min_length", "max_length") if kind.startswith(("str", "list")) else ("ge", "le")
        limits: dict[str, Any] = dict(zip(sizes, (bounds.least, bounds.most), strict=True))
        value = Field(... if default is MISSING else default, pattern=bounds.pattern, **limits)
        item = Annotated[str, Field(max_length=bounds.length)]
        given[name] = (kind if bounds.length is None else list[item], value)
    model: type[BaseModel] = create_model(
        f"{act.__name__}Request",
        __config__=ConfigDict(extra="forbid"),
        __doc__=act.REQUEST,
        **given,
    )
    return model


def add_operation(
    router: APIRouter, path: str, act: type[AnyAct], *named: inspect.Parameter, **route: Any
) -> None:
    """Add the operation of an act to a router.

    ``named`` are the fields of the act that the address of the operation gives, as parameters of a route;
    ``route`` has further arguments of the router. An act without a change is answered by 200 if ``responses`` have
    that.
    """
    body: Any = request_body(act)

    def endpoint(**parameters: Any) -> Any:
        response, given = parameters.pop("response"), parameters.pop("body")
        visit = Visit(parameters.pop("adapters"), parameters.pop("user"), parameters.pop("request").app.state)
        planned = act(**parameters, **({} if given is None else dict(given)))
        try:
            planned.check()
        except ValueError as error:
            raise HTTPException(422, f"body: {error}") from error
        outcome = planned.perform(act.served(visit), visit.actor)
        if 200 in route.get("responses", ()) and not outcome.made:
            response.status_code = 200
        answer = act.answer(outcome)
        return JSONResponse(answer) if isinstance(answer, Mapping) else answer

    route = {
        "name": act.OPERATION,
        "description": inspect.getdoc(act),
        "response_model": act.ANSWER,
        **act.ROUTE,
        **route,
    }
    kinds = {
        "request": Request,
        "adapters": ConnectedAdapters,
        "user": Operator,
        "response": Response,
        "body": body if act.NEEDS_BODY else body | None,
    }
    shared = [address_field(name, kind) for name, kind in kinds.items()]
    if not act.NEEDS_BODY:
        shared[-1] = shared[-1].replace(default=None)
    endpoint.__signature__ = inspect.Signature([*named, *shared])  # type: ignore[attr-defined]
    router.add_api_route(path, endpoint, methods=["POST"], **route)


def address_field(name: str, kind: Any) -> inspect.Parameter:
    """Return a field of an act that the address of its operation gives, of a kind as FastAPI reads it."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind)


def act_operations() -> APIRouter:
    """Return the operations of the acts that have one below ``/api/v1``."""
    router = APIRouter(prefix="/api/v1", tags=["acts"], responses=ERRORS)
    for act in all_acts():
        if act.PATH:
            add_operation(router, f"/{act.PATH}", act)
    return router


async def read_fields(request: Request) -> dict[str, str]:
    """Return the text fields of the form in a request; of several fields with one name, the last."""
    form = await request.form()
    return {name: value for name, value in form.items() if isinstance(value, str)}


FormFields = Annotated[dict[str, str], Depends(read_fields)]


def forms(
    path: str, user: Any, acts: Callable[[], Sequence[type[PlannedAct[Any]]]], *, back: str = "/"
) -> APIRouter:
    """Return the routes of the forms of acts below a path, for users with a right.

    ``back`` is the page to which a form returns that was not opened from another one.
    """
    router = APIRouter(include_in_schema=False)

    @router.get(f"{path}/{{name}}")
    def ask(request: Request, adapters: ConnectedAdapters, user: user, name: str) -> Response:
        """Return the form of an act."""
        values = {"back": back, **request.query_params}
        return _Asked.of(request, Visit(adapters, user, request.app.state), acts(), name, values).show()

    @router.post(f"{path}/{{name}}")
    def act(request: Request, adapters: ConnectedAdapters, user: user, name: str, values: FormFields) -> Response:
        """Perform an act, and return to the page from which the form was opened."""
        visit = Visit(adapters, user, request.app.state)
        return _Asked.of(request, visit, acts(), name, {"back": back, **values}).act()

    return router


forms_router = forms("/acts", Operator, all_acts)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request for the form of an act: the act, the facts for its form, and the fields of the form."""

    request: Request
    visit: Visit
    planned: FormAct[Any, Any]
    found: Any
    values: Mapping[str, str]

    @classmethod
    def of(
        cls,
        request: Request,
        visit: Visit,
        acts: Sequence[type[PlannedAct[Any]]],
        name: str,
        values: Mapping[str, str],
    ) -> "_Asked":
        """Return the act of a form; answers 404 if it does not exist.

        Raises ``ForbiddenError`` if the user may not perform it.
        """
        kind = next((each for each in acts if issubclass(each, FormAct) and name == each.NAME), None)
        if kind is not None and isinstance(kind.RIGHT, Right):
            visit.actor.require(kind.RIGHT)
        planned = None if kind is None else kind.of_form(values, visit)
        if planned is None:
            raise HTTPException(404, f"there is no act {name}")
        found = planned.read(visit)
        visit.actor.require(planned.RIGHT, *planned.concerned(found))
        return cls(request, visit, planned, found, values)

    @property
    def _back(self) -> str:
        return local_path(self.values["back"])

    def act(self) -> Response:
        """Perform the act, and return to another page, or show the form again with the mistake."""
        form, visit = self.planned.form(self.found), self.visit
        if form.objection:
            return self.show(409)
        if form.reason_required and not self.planned.reason:
            return self.show(422, "The reason is missing: expected a few words for everybody who asks later.")
        feed = visit.adapters.feed
        before = feed.snapshot().reading.number
        try:
            if changed := self._changed():
                return self.show(409, changed)
            outcome = self.planned.perform(self.planned.served(visit), visit.actor)
            target = self.planned.page_after(outcome, self._back)
        except ZkdeploymentError as error:
            return self.show(error_status(error), str(error))
        wait_for_reading(feed, lambda reading: reading.number != before)
        return RedirectResponse(target, 303)

    def show(self, status: int = 200, mistake: str = "") -> Response:
        """Return the page of the form; ``mistake`` is why the act was not performed."""
        return show_page(
            self.request,
            self.visit.adapters,
            self.visit.user,
            "act.html",
            status=status,
            situation=self._shown_situation(),
            form=self._form(),
            action=self.request.url.path,
            back=self._back,
            given=self.values,
            reason=self.values.get("reason", ""),
            mistake=mistake,
        )

    @property
    def _situation(self) -> str:
        return printable(self.planned.situation(self.found, self.visit))

    def _shown_situation(self) -> str:
        """Return the situation for the form; empty if it cannot be read, so that the form is shown again."""
        with contextlib.suppress(ZkdeploymentError):
            return self._situation
        return ""

    def _changed(self) -> str:
        """Return a message if the situation differs from the one in which the form was opened."""
        before, now = self.values.get("situation", ""), self._situation
        if before == now:
            return ""
        then = f" Then: {before[:_LONGEST_SITUATION]}." if before else ""
        return (
            f"Nothing was done, because the situation has changed since this form was opened.{then} Now: {now}."
            " Read what will happen now, and press the button again."
        )

    def _form(self) -> ActForm:
        """Return the form with the preview, or with the reason why the act is not possible."""
        form = self.planned.form(self.found)
        if form.objection:
            return form
        try:
            return self.planned.preview(self.found, form, self.visit)
        except ZkdeploymentError as error:
            return replace(form, objection=str(error))
