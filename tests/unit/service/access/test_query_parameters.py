"""Parameters that an operation of the API does not have."""

import asyncio

import pytest
from fastapi import Request
from fastapi.routing import APIRoute

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.service.access.headers import check_parameters, known_parameters
from zkdeployment.service.application import api_description, api_routers

ROUTES = [route for router in api_routers() for route in router.routes if isinstance(route, APIRoute)]
AUDIT = next(route for route in ROUTES if route.path == "/api/v1/audit")
JOB = next(route for route in ROUTES if route.path == "/api/v1/jobs/{commit}")


def check(route: APIRoute, query: str) -> None:
    scope = {"type": "http", "query_string": query.encode(), "route": route, "headers": []}
    asyncio.run(check_parameters(Request(scope)))


def test_each_operation_knows_the_parameters_that_its_description_has():
    paths = api_description()["paths"]
    for route in ROUTES:
        for method in route.methods:
            described = paths[route.path_format][method.lower()].get("parameters", ())
            expected = {each["name"] for each in described if each["in"] == "query"}
            assert known_parameters(route) == expected, route.path


@pytest.mark.parametrize("query", ["", "who=ann&who=bob&limit=5", "who"])
def test_known_parameters_are_accepted(query):
    check(AUDIT, query)


@pytest.mark.parametrize(
    ("route", "query", "expected"),
    [
        (
            AUDIT,
            "limt=5&who=ann",
            "unknown parameter 'limt': did you mean limit? expected one of: limit, since, until, who",
        ),
        (JOB, "b=1&a=%00", "unknown parameter 'a': expected no parameters; unknown parameter 'b': expected no"),
    ],
)
def test_an_unknown_parameter_is_refused_with_the_known_ones(route, query, expected):
    with pytest.raises(ConfigurationError) as refused:
        check(route, query)
    assert str(refused.value).startswith(expected)
