"""The permissions of one host in a rollout, and the reasons of refusals."""

import pytest

from zkdeployment.strategies.permission import Grant, Permission, Phase, PhaseReport

PREPARE, DEPLOY = Phase.PREPARE, Phase.DEPLOY
WITHDRAWN = Grant("x", None, "1 of 2 hosts did not end within 60 s")
GOES_ON = "rollout 7-1 continues without this host: 1 of 2 hosts did not end within 60 s"


@pytest.mark.parametrize(
    ("permission", "phases", "failure", "obstacle"),
    [
        (Permission(), [], None, "no rollout of this publication is under way"),
        (Permission("7-1"), [], None, "rollout 7-1 has not reached this host yet"),
        (
            Permission("7-1", Grant("x", PREPARE)),
            [PREPARE],
            None,
            "rollout 7-1 has granted it only to prepare, with group x",
        ),
        (
            Permission("7-1", Grant("x", DEPLOY), {PREPARE: PhaseReport(1.0)}),
            [PREPARE, DEPLOY],
            None,
            "rollout 7-1 has granted it only to deploy, with group x",
        ),
        (Permission("7-1", WITHDRAWN, {PREPARE: PhaseReport(1.0)}), [], GOES_ON, GOES_ON),
        (Permission("7-1", WITHDRAWN, {PREPARE: PhaseReport(1.0, "boom")}), [], "boom", "boom"),
        (Permission("7-1", None, {DEPLOY: PhaseReport(1.0, "boom")}), [], "boom", "boom"),
    ],
    ids=["no rollout", "not yet", "prepare", "deploy", "withdrawn", "failed", "failed, grant gone"],
)
def test_a_permission_has_the_allowed_phases_or_the_obstacle(permission, phases, failure, obstacle):
    assert [phase for phase in Phase if permission.allows(phase)] == phases
    assert (permission.failure, permission.obstacle) == (failure, obstacle)
