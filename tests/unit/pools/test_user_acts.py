"""The forms of acts on pools: their texts and fields, and their refusals."""

from dataclasses import replace

import pytest

from unit.pools.views.test_page import NODES, NOW, SESSION, WEB, node, reading, user
from zkdeployment.pools.rules.listing import pool_views
from zkdeployment.pools.rules.node import NodeState
from zkdeployment.pools.rules.snapshot import FillingRecord
from zkdeployment.pools.user_acts import (
    ACTS,
    ExtendSession,
    FillPool,
    Lending,
    RequestNodes,
    RetireSession,
    ShownSession,
)
from zkdeployment.service.users.user import Role

TENANT = replace(user(Role.TENANT), ssh_key="ssh-ed25519 A")


def pools(read):
    return pool_views(read.configuration, read.snapshot)


def request_form(read, lent, tenant, chosen):
    return RequestNodes(chosen=chosen).form(Lending(read, lent, tenant))


def extend_form(session, owner, seen_by):
    return ExtendSession(session=session.id, hours="").form(ShownSession(session, owner, reading(), seen_by, NOW))


def retire_session_form(session):
    return RetireSession(session=session.id).form(ShownSession(session, None, reading(), TENANT, NOW))


def fill_form(pool):
    return FillPool(pool=pool.name).form(pool)


def test_a_request_asks_for_a_number_of_nodes_of_each_pool_that_lends_some():
    read = reading(pools=(WEB, replace(WEB, name="attic", fill_level=None), replace(WEB, name="db")))
    form = request_form(read, pools(read), TENANT, "web")
    assert form.inputs[-1].name == "properties"
    assert [(field.name, field.value, field.explanation) for field in form.inputs[:-1]] == [
        ("nodes-db", "0", "0 nodes ready"),
        ("nodes-web", "1", "2 nodes ready"),
    ]
    assert "You have 1 of the 8 nodes that you may lease at the same time." in form.consequences
    assert (form.objection, form.asks_reason) == ("", False)


def test_a_request_without_a_key_or_without_pools_is_refused():
    read = reading(pools=())
    assert "no SSH key" in request_form(read, pools(reading()), user(Role.TENANT), "").objection
    assert request_form(read, (), TENANT, "").objection == "No pool lends nodes at present."


def test_an_extension_shows_how_long_the_session_can_last():
    (_, ceiling) = extend_form(SESSION, None, TENANT).consequences
    assert ceiling == "It can end at 1970-01-02 14:46:40 UTC at the latest. A later end is cut to that."
    assert "without a limit" in extend_form(SESSION, TENANT, user(Role.ADMIN)).consequences[1]
    ended = replace(SESSION, retired_at=1.0)
    assert extend_form(ended, None, TENANT).objection == "The session has ended."
    assert retire_session_form(ended).objection == "The session has ended."
    assert retire_session_form(SESSION).objection == ""


def test_a_pool_is_filled_only_below_its_level():
    (full,) = pools(reading())
    (failing,) = pools(reading(NODES[1:], filling={"web": FillingRecord(2, NOW, "boom")}))
    (idle,) = pools(reading(pools=(replace(WEB, fill_level=None),)))
    assert fill_form(full).objection == "The pool has its level."
    assert fill_form(idle).objection == "The pool has no level, so there is nothing to fill."
    assert fill_form(failing).consequences[0] == "2 failures of the pool are forgotten."


@pytest.mark.parametrize(
    ("name", "state", "objection"),
    [
        ("drain", NodeState.READY, ""),
        ("drain", NodeState.DEPLOYED, ""),
        (
            "drain",
            NodeState.FAILED,
            "The state of the node is failed; expected ready or deployed or unused.",
        ),
        ("forgive", NodeState.FAILED, ""),
        ("forgive", NodeState.READY, "The state of the node is ready; expected failed."),
        ("retire-node", NodeState.FAILED, ""),
        (
            "retire-node",
            NodeState.PROVISIONING,
            "The state of the node is provisioning; expected unused or failed.",
        ),
    ],
)
def test_acts_on_nodes_are_possible_in_some_states(name, state, objection):
    (act,) = (each for each in ACTS if name == each.NAME)
    assert act(node=1).form(node(1, state)).objection == objection
