"""The responses to errors: ``{"detail": text}`` for programs, a page for people, with the status of the error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException

from zkdeployment.base.errors import (
    BusyError,
    ConfigurationError,
    ConflictError,
    DeniedError,
    ForbiddenError,
    IdentityProviderError,
    LeaseHeldError,
    NotFoundError,
    RefusedError,
    RestartError,
    RetiredError,
    ShutdownError,
    SourceError,
    TreeError,
    UnknownRevisionError,
    UnreachableError,
    WaitTimeoutError,
    ZkdeploymentError,
    error_message,
)
from zkdeployment.base.log import get_logger
from zkdeployment.service.access.cookies import SAFE_METHODS
from zkdeployment.service.pages.live_page import error_page, render_page
from zkdeployment.service.views.frame import local_path

if TYPE_CHECKING:
    from fastapi import FastAPI, Request


class ErrorDetail(BaseModel):
    """An error: what happened, what was expected and found, and what to do."""

    model_config = ConfigDict(extra="forbid")

    detail: str


#: Seconds after which a client may try again while ZooKeeper, the repository or the syncer does not answer.
RETRY_AFTER = 5

#: The status of each kind of error; the first kind that matches counts.
STATUSES: Sequence[tuple[type[ZkdeploymentError], int]] = (
    (BusyError, 503),
    (UnreachableError, 503),
    (RestartError, 503),
    (ShutdownError, 503),
    (WaitTimeoutError, 503),
    (UnknownRevisionError, 404),
    (SourceError, 503),
    (DeniedError, 503),
    (NotFoundError, 404),
    (RetiredError, 422),
    (LeaseHeldError, 423),
    (ForbiddenError, 403),
    (RefusedError, 409),
    (ConflictError, 409),
    (ConfigurationError, 400),
    (IdentityProviderError, 502),
    (TreeError, 422),
)

#: The status of an expected error of another kind: the act is not possible in the present state.
_OTHER = 409

#: The paths of the JSON API; all others belong to people.
_API = ("/api/", "/v2", "/deployments", "/healthz", "/metrics", "/openapi.json")

#: Descriptions of the error responses for ``responses=`` of routers.
ERRORS: dict[int | str, dict[str, object]] = {
    400: {"model": ErrorDetail, "description": "The request is malformed."},
    401: {"model": ErrorDetail, "description": "The user name or the key is missing or wrong."},
    403: {"model": ErrorDetail, "description": "The user is retired or has no right to do this."},
    404: {"model": ErrorDetail, "description": "The named thing does not exist."},
    409: {"model": ErrorDetail, "description": "The present state of the fleet does not permit this."},
    422: {"model": ErrorDetail, "description": "A value is not valid."},
    429: {"model": ErrorDetail, "description": "Too many failed logins; Retry-After is the waiting time."},
    503: {
        "model": ErrorDetail,
        "description": "ZooKeeper does not answer, or the service is busy; see Retry-After.",
    },
}


def install_error_handlers(application: FastAPI) -> None:
    """Make the application answer every error with its status and one sentence."""
    application.add_exception_handler(ZkdeploymentError, _expected)
    application.add_exception_handler(RequestValidationError, _invalid)
    application.add_exception_handler(HTTPException, _rejected)
    application.add_exception_handler(Exception, _unexpected)


def error_status(error: ZkdeploymentError) -> int:
    """Return the status of the response to an expected error."""
    return next((status for kind, status in STATUSES if isinstance(error, kind)), _OTHER)


def respond(request: Request, status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response to an error: JSON below the paths of the API, a page elsewhere."""
    if request.url.path.startswith(_API):
        return JSONResponse({"detail": detail}, status, headers=headers)
    return error_page(request, status, detail, headers)


def _expected(request: Request, error: Exception) -> Response:
    assert isinstance(error, ZkdeploymentError)  # noqa: S101  it was registered for these
    status = error_status(error)
    headers = {"Retry-After": str(RETRY_AFTER)} if status == 503 else None
    return respond(request, status, str(error), headers)


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101  it was registered for these
    problems = error.errors()
    if not request.url.path.startswith(_API) and any(problem["loc"][0] == "path" for problem in problems):
        return error_page(request, 404, f"there is no page {request.url.path}")
    status = 400 if any(problem["type"] == "json_invalid" for problem in problems) else 422
    sentences = dict.fromkeys(invalid_value(problem, error.body) for problem in problems)
    return respond(request, status, "; ".join(sentences))


def invalid_value(problem: Mapping[str, Any], body: object) -> str:
    """Return the message about an invalid value of a request, with the value's place.

    The place in ``problem`` also contains the names of the validators that refused the value. The message omits
    names that the body of the request does not contain, except the last name if the value is missing.
    """
    shown, *rest = problem["loc"]
    place, value = [str(shown)], cast("Any", body)
    for number, part in enumerate(rest, start=1):
        is_there = isinstance(value, Mapping) and part in value
        if shown != "body" or is_there or (isinstance(value, list) and isinstance(part, int)):
            place.append(str(part))
            value = value[part] if shown == "body" else value
        elif problem["type"] == "missing" and number == len(rest):
            place.append(str(part))
    return f"{'.'.join(place)}: {problem['msg'].removeprefix('Value error, ')}"


def _rejected(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  it was registered for these
    if error.status_code == 401 and not request.url.path.startswith(_API) and request.method in SAFE_METHODS:
        return _ask_to_log_in(request)
    return respond(request, error.status_code, error.detail, error.headers)


def _ask_to_log_in(request: Request) -> Response:
    """Return the response for a person without a login session who asked for a page."""
    target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    if request.headers.get("Sec-Fetch-Site") == "cross-site":
        # The browser followed a link on another site, and therefore sent no cookies. From this page, the browser
        # sends them.
        return render_page(request, "arrive.html", target=local_path(target))
    login = f"/login?next={quote(local_path(target), safe='/')}"
    if "X-Page-Parts" in request.headers:  # a part of a page that is shown already
        return Response(status_code=401, headers={"HX-Redirect": login})
    return RedirectResponse(login, 303)


def _unexpected(request: Request, error: Exception) -> Response:
    get_logger().error("request-failed", method=request.method, path=request.url.path, exc_info=error)
    return respond(request, 500, error_message(error))
