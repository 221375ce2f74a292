import pytest

from zkdeployment.base.errors import (
    AllStopError,
    ConfigurationError,
    ConflictError,
    DeniedError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    TreeError,
    UnreachableError,
    WaitTimeoutError,
    ZkdeploymentError,
)
from zkdeployment.service.responses import error_status, invalid_value


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConfigurationError, 400),
        (NotFoundError, 404),
        (ForbiddenError, 403),
        (AllStopError, 409),
        (ConflictError, 409),
        (RefusedError, 409),
        (ZkdeploymentError, 409),
        (TreeError, 422),
        (DeniedError, 503),
        (UnreachableError, 503),
        (WaitTimeoutError, 503),
    ],
)
def test_each_kind_of_error_has_a_status(error, status):
    assert error_status(error("x")) == status


@pytest.mark.parametrize(
    ("place", "kind", "body", "expected"),
    [
        (
            ("body", "session_lifetime", "function-before[read_duration(), float]"),
            "x",
            {"session_lifetime": 1},
            "body.session_lifetime",
        ),
        (("body", "api_key", "literal['reset']"), "literal_error", {"api_key": "x"}, "body.api_key"),
        (("body", "specs", 0, "pool"), "missing", {"specs": [{}]}, "body.specs.0.pool"),
        (("body", "data", "float"), "x", {"data": {"float": 1}}, "body.data.float"),
        (("body",), "missing", None, "body"),
        (("query", "last"), "int_parsing", None, "query.last"),
        (("path", "number"), "int_parsing", {"number": 1}, "path.number"),
    ],
)
def test_the_place_of_an_invalid_value_has_no_names_of_functions(place, kind, body, expected):
    problem = {"loc": place, "type": kind, "msg": "Value error, expected seconds"}
    assert invalid_value(problem, body) == f"{expected}: expected seconds"
