"""The bodies of answers, for the description of the API, and the responses to errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from inspect import cleandoc
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin
from urllib.parse import quote

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.json_schema import SkipJsonSchema, WithJsonSchema
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
from zkdeployment.base.records import Record, codec
from zkdeployment.documents.forms import json_schema
from zkdeployment.service.access.cookies import SAFE_METHODS
from zkdeployment.service.pages.live_page import error_page, render_page
from zkdeployment.service.views.frame import local_path

if TYPE_CHECKING:
    from fastapi import FastAPI, Request

T = TypeVar("T")

#: The type of a key that an answer omits instead of making it null. In a request, null counts as omitted.
Omittable = Union[T, SkipJsonSchema[None]]  # noqa: UP007  a generic alias


class Described(BaseModel):
    """A JSON object with these keys; a later version may add keys, as in all output."""

    model_config = ConfigDict(extra="allow")


@cache
def body_of(record: Any) -> type[BaseModel]:
    """Return the body that describes a class of records, by its name and its docstring."""
    return _model(record.__name__, record.__doc__, _keys(record))


def answer(schema: str | None, record: Any = None, text: str = "", **more: Any) -> Any:
    """Return the body of an answer: its ``schema``, the keys of a record, and ``more`` keys with their types.

    ``text`` describes the answer, by default with the docstring of the record. Keys with the type ``None`` are
    omitted. A part of an answer, and an answer of ``/v2``, has no schema.
    """
    keys = {} if schema is None else {"schema": (Literal[f"zkdeployment/{schema}/v1"], ...)}
    keys |= ({} if record is None else _keys(record)) | {
        key: (_described(hint), ...) for key, hint in more.items()
    }
    kept = {key: described for key, described in keys.items() if described[0] is not None}
    name = (
        getattr(record, "__name__", "")
        if schema is None
        else "".join(part.capitalize() for part in schema.split("-"))
    )
    return _model(f"{name}Answer", text or record.__doc__, kept)


def _model(name: str, text: str, keys: dict[str, Any]) -> type[BaseModel]:
    described = {
        f"key_{number}": (hint, Field(default, alias=key))
        for number, (key, (hint, default)) in enumerate(keys.items())
    }
    return create_model(name, __base__=Described, __doc__=cleandoc(text).partition("\n\n")[0], **described)  # type: ignore[call-overload,no-any-return]


def _keys(record: Any) -> dict[str, tuple[Any, Any]]:
    """Return the types of the keys of a record, and their defaults: ``...`` for keys that are never omitted."""
    found: dict[str, tuple[Any, Any]] = {}
    for form in codec(record).fields:
        if form.flat and form.default is None:
            inner = _keys(form.type).items()
            found |= {key: (hint if default is None else hint | None, default) for key, (hint, default) in inner}
        elif form.flat:
            found |= _keys(form.type)
        else:
            found[form.key] = (_described(_given(form.type)), None) if form.omit else (_described(form.type), ...)
    return found | {shown.key: (_described(shown.type), ...) for shown in codec(record).shown}


def _given(hint: Any) -> Any:
    """Return the type of a key that is omitted instead of being null."""
    kinds = [kind for kind in get_args(hint) if kind is not type(None)] if get_origin(hint) is UnionType else []
    return Union[tuple(kinds)] if kinds else hint  # noqa: UP007  the types are computed


def _described(hint: Any) -> Any:
    """Return the type that describes the JSON form of a type, or values of the form of a document."""
    if isinstance(hint, Mapping):
        return Annotated[Any, WithJsonSchema(json_schema(hint))]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        described, about = _described(arguments[1].form or arguments[0]), arguments[1].about
        return Annotated[described, Field(description=about)] if about else described
    if origin in {Union, UnionType}:
        return Union[tuple(map(_described, arguments))]  # noqa: UP007  the types are computed
    if origin in {tuple, frozenset, list}:
        return list[_described(arguments[0])]  # type: ignore[misc]
    if origin is not None and origin is not Literal:
        return dict[str, _described(arguments[1])]  # type: ignore[misc]
    if isinstance(hint, type) and issubclass(hint, Record):
        return body_of(cast("Any", hint))
    return Literal[tuple(member.value for member in hint)] if _is_enumeration(hint) else hint


def _is_enumeration(hint: Any) -> bool:
    return hasattr(hint, "__members__")


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
