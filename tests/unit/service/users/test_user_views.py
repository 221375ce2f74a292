from support.builders import make_user
from zkdeployment.service.users.user import (
    Role,
    TenantLimits,
    user_to_json,
)

LIMITS = TenantLimits(node_quota=7, session_lifetime=60.0, session_lifetime_max=120.0)
CI = make_user("ci", Role.TENANT, id=2, created_at=1.0, ssh_key="ssh-ed25519 AAAA", node_quota=0)


def test_a_users_secrets_are_masked_and_defaults_are_filled_in():
    assert user_to_json(CI, LIMITS) == {
        "id": 2,
        "name": "ci",
        "role": "tenant",
        "is_admin": False,
        "active": True,
        "created_at": 1.0,
        "retired_at": None,
        "key_expires_at": None,
        "identity": None,
        "paths": [],
        "ssh_key": "***",
        "node_quota": 0,
        "effective_node_quota": 0,
        "session_lifetime": None,
        "effective_session_lifetime": 60.0,
        "session_lifetime_max": None,
        "effective_session_lifetime_max": 120.0,
    }


def test_the_paths_of_a_limited_operator_are_a_list():
    bob = make_user("bob", Role.OPERATOR, id=3, created_at=1.0, paths=("/shop", "/web"))
    assert user_to_json(bob, LIMITS)["paths"] == ["/shop", "/web"]


def test_no_lifetime_in_force_exceeds_the_maximum():
    brief = make_user("ci", Role.TENANT, id=2, created_at=1.0, session_lifetime_max=30.0)
    assert user_to_json(brief, LIMITS)["effective_session_lifetime"] == 30.0
