"""Compares the answers of the service with the description of its API."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator

from zkdeployment.service.application import api_description

if TYPE_CHECKING:
    import httpx

#: The schemas whose other keys are those of a document of a user.
_OPEN = {"DeploymentDetails"}


def check_answer(response: httpx.Response) -> None:
    """Fail unless an answer of an operation, in JSON, has exactly what the description permits.

    Clients call this function with each response.
    """
    method, path = response.request.method.lower(), _template(response.request.url.path)
    if (
        path is None
        or method == "head"
        or not response.headers.get("Content-Type", "").startswith("application/json")
    ):
        return
    response.read()
    place, validator = f"{method} {path}: {response.status_code}", _validator(method, path, response.status_code)
    if validator is None:
        assert response.status_code >= 400, f"{place} is not described"
        return
    problems = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(response.json())]
    assert problems == [], f"{place}: {problems[:5]}"


#: The hooks of a client that compares each answer with the description.
DESCRIBED = {"response": [check_answer]}


@cache
def _description() -> Any:
    """Return the description of the API, in which no object has keys that are not described."""
    description = api_description()
    for name, schema in description["components"]["schemas"].items():
        if "properties" in schema and name not in _OPEN:
            schema["additionalProperties"] = False
    return description


@cache
def _templates() -> list[tuple[re.Pattern[str], str]]:
    """Return the paths of all operations, the ones without parameters first."""
    paths = sorted(_description()["paths"], key=lambda path: path.count("{"))
    return [(re.compile(re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(path))), path) for path in paths]


def _template(path: str) -> str | None:
    return next((template for pattern, template in _templates() if pattern.fullmatch(path)), None)


@cache
def _validator(method: str, path: str, status: int) -> Draft202012Validator | None:
    answers = _description()["paths"][path].get(method, {}).get("responses", {})
    if str(status) not in answers:
        return None
    schema = answers[str(status)]["content"]["application/json"]["schema"]
    return Draft202012Validator({**schema, "components": _description()["components"]})
