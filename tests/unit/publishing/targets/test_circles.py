import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.base.deployment import Assignment
from zkdeployment.publishing.targets.compilation import order_problems


def assignment(path, *after):
    return Assignment(path, 1, "foo", "foo", version="1", after=after)


def problems(services, **targets):
    """Return the problems of services (what each waits for, by path), with the services of targets by name."""
    named = targets or {"h1": [*services]}
    assigned = {name: tuple(assignment(path, *services[path]) for path in paths) for name, paths in named.items()}
    controlled = {name.removeprefix("controlled_"): value for name, value in assigned.items()}
    controllers = {
        f"/roles/{name.removeprefix('controlled_')}": () for name in assigned if name.startswith("controlled_")
    }
    return [(problem.path, problem.message) for problem in order_problems(controlled | controllers, services)]


@pytest.mark.parametrize(
    "services",
    [
        {"/a": (), "/b": ()},
        {"/a": ("/b",), "/b": ("/c",), "/c": ()},
        {"/a": ("/b", "/c"), "/b": ("/d",), "/c": ("/d",), "/d": ()},
    ],
)
def test_services_that_wait_for_each_other_in_one_direction_have_no_problem(services):
    assert problems(services) == []


def test_a_path_without_a_service_is_unknown():
    assert problems({"/a": ("/b",)}) == [
        ("/a", "deploy_after names /b, expected the path of a service; no service has this path")
    ]


def test_a_circle_is_reported_once_with_all_its_waits():
    ((path, message),) = problems({"/a": ("/b",), "/b": ("/c",), "/c": ("/a",), "/d": ("/a",)})
    assert path == "/a"
    assert message == (
        "deploy_after makes a circle, so none of these is ever deployed: /a waits for /b, which waits for /c,"
        " which waits for /a; remove one of the waits"
    )


def test_a_service_that_waits_for_itself_is_a_circle():
    ((path, message),) = problems({"/a": ("/a",)})
    assert path == "/a"
    assert "/a waits for /a;" in message


def test_services_under_one_role_controller_cannot_wait_for_each_other():
    services = {"/a": ("/b",), "/b": ()}
    assert problems(services, web=["/a", "/b"]) == []
    ((path, message),) = problems(services, controlled_web=["/a", "/b"])
    assert path == "/a"
    assert "/a waits for /b, which runs under the controller of role web with /a;" in message


def test_a_wait_that_leads_back_to_the_bracket_of_a_role_controller_is_a_circle():
    services = {"/a": ("/b",), "/b": ("/c",), "/c": ()}
    assert problems(services, controlled_web=["/a"], db=["/b", "/c"]) == []
    assert problems(services, controlled_web=["/a", "/c"], db=["/b"])


PATHS = "/a", "/b", "/c", "/d", "/e"


@given(
    st.fixed_dictionaries({path: st.sets(st.sampled_from(PATHS), max_size=2).map(tuple) for path in PATHS}),
    st.lists(st.sets(st.sampled_from(PATHS), max_size=4), max_size=2),
)
def test_services_without_a_problem_can_all_be_deployed_one_bracket_after_the_other(services, brackets):
    roles = {f"controlled_r{number}": sorted(bracket) for number, bracket in enumerate(brackets)}
    if problems(services, **roles, h1=[*PATHS]):
        return
    units = [{path} for path in PATHS]
    for bracket in brackets:
        joined = [unit for unit in units if unit & bracket]
        units = [unit for unit in units if unit not in joined] + ([set().union(*joined)] if joined else [])
    deployed: set[str] = set()
    while units:
        ready = [unit for unit in units if all(set(services[path]) <= deployed for path in unit)]
        assert ready, "the services that are left wait for each other"
        for unit in ready:
            units.remove(unit)
            deployed |= unit
