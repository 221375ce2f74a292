import pytest

from zkdeployment.base.deployment import Assignment, Deployment, DeploymentFailure

FRONT = Assignment("/shop/front", 2, "front", "front", patches={"front-fix": "1"})


def test_a_failure_round_trips():
    for failure in (
        DeploymentFailure(8, "deploy /a 1", "/a", 1),
        DeploymentFailure(0, "prepare packages", packages=frozenset({"b", "a"})),
    ):
        assert DeploymentFailure.if_valid(failure.to_json()) == failure


@pytest.mark.parametrize(
    "value",
    [
        None,
        "deploy",
        {},
        {"sequence": "8", "step": "plan", "path": None, "n": None, "packages": []},
        {"sequence": 8, "step": "plan", "path": 1, "n": None, "packages": []},
        {"sequence": 8, "step": "plan", "path": None, "n": None, "packages": "foo"},
    ],
)
def test_malformed_properties_are_not_a_failure(value):
    assert DeploymentFailure.if_valid(value) is None


@pytest.mark.parametrize(
    ("failure", "concerned"),
    [
        (DeploymentFailure(8, "deploy /shop/front 1", "/shop/front", 1), [1]),
        (DeploymentFailure(8, "lock", "/shop/front"), [0, 1]),
        (DeploymentFailure(8, "deploy /shop/db 0", "/shop/db", 0), []),
        (DeploymentFailure(8, "prepare packages", packages=frozenset({"front", "db"})), [0, 1]),
        (DeploymentFailure(8, "prepare packages", packages=frozenset({"front-fix"})), [0, 1]),
        (DeploymentFailure(8, "prepare packages", packages=frozenset({"db"})), []),
        (DeploymentFailure(8, "plan"), []),
    ],
)
def test_a_failure_concerns_its_deployment_or_all_that_need_its_packages(failure, concerned):
    assert [n for n in (0, 1) if failure.concerns(Deployment("/shop/front", n), FRONT)] == concerned
