import pytest

from zkdeployment.service.users.external_logins import (
    ExternalUser,
    OpenIdClient,
    RoleRule,
    attempt_of,
    claim_values,
    openid_user,
    role_of,
)
from zkdeployment.service.users.user import Role

RULES = (
    RoleRule(Role.ADMIN, "realm.roles", "root"),
    RoleRule(Role.OPERATOR, "groups", "ops"),
    RoleRule(Role.VIEWER, "groups", "staff"),
)
CLIENT = OpenIdClient(issuer="https://id.example.com", client_id="zk", roles=RULES)


@pytest.mark.parametrize(
    ("claims", "role"),
    [
        ({"groups": ["staff", "ops"]}, Role.OPERATOR),
        ({"groups": "staff"}, Role.VIEWER),
        ({"realm": {"roles": ["root"]}, "groups": ["staff"]}, Role.ADMIN),
        ({"realm.roles": ["root"]}, Role.ADMIN),
        ({"groups": ["opsx", "*"]}, None),
        ({"groups": [["ops"], {"ops": 1}, 5]}, None),
        ({}, None),
    ],
)
def test_the_first_rule_that_matches_decides(claims, role):
    assert role_of(claims, RULES) is role


def test_a_rule_may_be_for_everybody():
    assert role_of({}, (*RULES, RoleRule(Role.VIEWER, "", "*"))) is Role.VIEWER


def test_values_of_claims_are_texts():
    claims = {"a": {"b": {"c": ["x", 1]}}, "a.b": "y", "n": None}
    assert claim_values(claims, "a.b.c") == {"x"}
    assert claim_values(claims, "a.b") == {"y"}
    assert claim_values(claims, "n") == claim_values(claims, "missing") == claim_values(claims, "a") == set()


def test_a_person_is_identified_by_issuer_and_subject():
    claims = {"sub": "42", "preferred_username": "ann", "groups": ["ops"]}
    assert openid_user(claims, CLIENT) == ExternalUser("ann", Role.OPERATOR, "openid https://id.example.com 42")


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ({"sub": "42", "groups": ["ops"]}, "expected a short name in the claim preferred_username"),
        ({"sub": "42", "preferred_username": "a/b", "groups": ["ops"]}, "no usable user name"),
        ({"sub": "42", "preferred_username": ["ann"], "groups": ["ops"]}, "no usable user name"),
        ({"preferred_username": "ann", "groups": ["ops"]}, "no usable subject"),
        ({"sub": "", "preferred_username": "ann", "groups": ["ops"]}, "no usable subject"),
        ({"sub": "4" * 256, "preferred_username": "ann", "groups": ["ops"]}, "no usable subject"),
        ({"sub": "\ud800", "preferred_username": "ann", "groups": ["ops"]}, "no usable subject"),
        ({"sub": "42", "preferred_username": "ann"}, "no role is configured for ann"),
    ],
)
def test_a_person_without_name_subject_or_role_is_not_a_user(claims, problem):
    assert problem in openid_user(claims, CLIENT)


def test_an_attempt_has_values_that_only_its_secret_gives():
    attempt = attempt_of("secret")
    assert attempt == attempt_of("secret")
    assert len({attempt.state, attempt.nonce, attempt.verifier, attempt_of("other").state, "secret"}) == 5
    assert 43 <= len(attempt.verifier) <= 128
