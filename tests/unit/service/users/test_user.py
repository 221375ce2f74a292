from dataclasses import replace

import pytest

from zkdeployment.service.acts import HoldFleet, ReleaseLock, StopFleet
from zkdeployment.service.users.user import (
    RIGHTS,
    IssuedKey,
    Right,
    Role,
    User,
    act_refusal,
    limit_problem,
)

ALICE = User(id=1, name="alice", role=Role.OPERATOR, created_at=1.0)
STOP, RELEASE = StopFleet.RIGHT, ReleaseLock.RIGHT
BOB = User(id=2, name="bob", role=Role.OPERATOR, created_at=1.0, paths=("/shop", "/web/front"))


@pytest.mark.parametrize(
    ("role", "granted", "denied"),
    [
        (Role.VIEWER, Right.READ_FLEET, Right.ACT_ON_FLEET),
        (Role.VIEWER, Right.READ_POOLS, Right.READ_ALL_SESSIONS),
        (Role.OPERATOR, Right.ACT_ON_FLEET, Right.MANAGE_USERS),
        (Role.OPERATOR, Right.READ_AUDIT, Right.LEASE_NODES),
        (Role.MONITORING, Right.ANSWER_CHECKS, Right.READ_FLEET),
        (Role.TENANT, Right.LEASE_NODES, Right.READ_FLEET),
        (Role.TENANT, Right.READ_POOLS, Right.READ_ALL_SESSIONS),
        (Role.ADMIN, Right.MANAGE_USERS, None),
    ],
)
def test_a_role_grants_its_rights_and_no_others(role, granted, denied):
    user = replace(ALICE, role=role)
    assert user.may(granted)
    assert denied is None or not user.may(denied)


def test_an_admin_has_every_right_and_every_role_has_some():
    assert RIGHTS[Role.ADMIN] == frozenset(Right)
    assert all(RIGHTS[role] for role in Role)
    assert RIGHTS.keys() == set(Role)


def test_only_an_admin_is_an_admin():
    assert [role for role in Role if replace(ALICE, role=role).is_admin] == [Role.ADMIN]


def test_a_retired_user_has_no_rights():
    retired = replace(ALICE, role=Role.ADMIN, retired_at=2.0)
    assert retired.is_retired
    assert retired.rights == frozenset()
    assert not retired.may(Right.READ_FLEET)


@pytest.mark.parametrize(
    ("paths", "within"),
    [
        ((), False),
        (("/shop",), True),
        (("/shop/web",), True),
        (("/web/front/a/b", "/shop"), True),
        (("/shop", "/db"), False),
        (("/db", "/shop"), False),
    ],
)
@pytest.mark.parametrize("right", [STOP, RELEASE])
def test_a_limited_operator_acts_only_at_and_below_its_paths_but_may_always_stop(right, paths, within):
    expected = within or right is STOP

    assert BOB.may_act(right, *paths) is expected
    assert (act_refusal(BOB, right, *paths) is None) is expected
    assert ALICE.may_act(right, *paths)
    assert not replace(BOB, role=Role.VIEWER).may_act(right, *paths)
    assert not replace(BOB, retired_at=2.0).may_act(right, *paths)


@pytest.mark.parametrize("path", ["/shopping", "/web", "/web/frontend", "/", "", "/db/shop"])
def test_a_path_contains_whole_names_only(path):
    assert not BOB.may_act(RELEASE, path)
    assert BOB.may_act(STOP, path)


def test_a_refusal_names_the_limit_and_what_to_do():
    assert act_refusal(BOB, HoldFleet.RIGHT) == (
        "the user bob may not hold the fleet: this user may act only at and below /shop, /web/front (and stop the"
        " fleet); ask an operator without this limit"
    )
    assert "may not release the lock at /db: this user" in str(act_refusal(BOB, RELEASE, "/shop", "/db"))
    assert act_refusal(replace(ALICE, role=Role.VIEWER), STOP) == (
        "the user alice may not stop the fleet: its role is viewer; expected operator or admin"
    )


@pytest.mark.parametrize(
    ("role", "paths", "problem"),
    [
        (Role.OPERATOR, ["/shop", "/web/front"], None),
        (Role.VIEWER, [], None),
        (Role.VIEWER, ["/shop"], "expected the role operator, found viewer"),
        (Role.ADMIN, ["/shop"], "expected the role operator, found admin"),
        (Role.OPERATOR, ["/shop", "web"], "'web' is not the path of a node: expected /web"),
        (Role.OPERATOR, [""], "'' is not the path of a node: expected /"),
        (Role.OPERATOR, ["/shop/"], "without a slash at the end, found '/shop/'"),
        (Role.OPERATOR, ["/"], "'/' is the whole tree"),
        (Role.OPERATOR, ["/shop//web"], "found '/shop//web': '' is not a node name"),
        (Role.OPERATOR, ["/shop/../db"], "'..' is not a node name"),
        (Role.OPERATOR, ["/shop web"], "'shop web' is not a node name"),
        (Role.OPERATOR, ["/hosts/h1"], "/hosts is reserved"),
    ],
)
def test_a_limit_consists_of_paths_of_the_tree(role, paths, problem):
    found = limit_problem(role, paths)

    assert found is None if problem is None else problem in found


def test_a_key_expires_at_its_time():
    assert not ALICE.key_has_expired(1e12)
    limited = replace(ALICE, key_expires_at=100.0)
    assert not limited.key_has_expired(99.9)
    assert limited.key_has_expired(100.0)


def test_a_new_key_is_not_shown_by_accident():
    issued = IssuedKey(ALICE, "d1b5ad5c-0a4b-4b6c-9d67-9cb5f2d0a111")
    assert "d1b5ad5c" not in f"{issued} {issued!r}"
