"""The page of pools: what each role sees of it, and what matters most."""

from dataclasses import replace

import pytest

from support.builders import make_user
from zkdeployment.pools.documents import NodePool, PoolConfiguration, RoleMechanism
from zkdeployment.pools.rules.node import NodeState, PoolNode, fail
from zkdeployment.pools.rules.snapshot import (
    FillingRecord,
    LeasedNode,
    NodesSpec,
    PoolReading,
    PoolSnapshot,
    TenantSession,
)
from zkdeployment.pools.views.page import MOST_FAILED, PAGE_SIZE, PAST_SIZE, BarPart, pools_view, request_notice
from zkdeployment.service.users.user import Role, TenantLimits

NOW = 100_000.0
READY, LEASED = NodeState.READY, NodeState.DEPLOYED
WEB = NodePool("web", RoleMechanism("spare", "ci"), fill_level=2)
SESSION = TenantSession(
    id=90,
    tenant=4,
    specs=(NodesSpec("web", 1),),
    nodes=(3,),
    created_at=NOW - 3600,
    expires_at=NOW + 3600,
    leased=(LeasedNode(3, "web", "n3.example", "192.0.2.3"),),
)


def node(number, state, **fields):
    session = 90 if state in {LEASED, NodeState.CONTEXTUALIZING} else None
    known = {"hostname": f"n{number}.example", "ipaddr": f"192.0.2.{number}", "pool": "web", "session": session}
    return PoolNode(**{"id": number, "state": state, "created_at": 1.0, "changed": NOW - 60, **known, **fields})


NODES = (node(1, READY), node(2, READY), node(3, LEASED))


def reading(nodes=NODES, sessions=(SESSION,), *, workers=("w",), filling=None, pools=(WEB,)):
    snapshot = PoolSnapshot(
        {each.id: each for each in nodes},
        {each.id: each for each in sessions},
        workers=workers,
        filling=filling or {},
    )
    configuration = PoolConfiguration({pool.name: pool for pool in pools}, TenantLimits(node_quota=8))
    return PoolReading(configuration, snapshot, tenants={4: "ci", 5: "qa"})


def user(role, number=4):
    return make_user("x", role, id=number)


def view(read=None, role=Role.ADMIN, ended=(), number=4, *, connected=True, **parameters):
    given = {name: [value] for name, value in parameters.items()}
    return pools_view(read or reading(), ended, user(role, number), given, NOW, connected=connected)


@pytest.mark.parametrize(
    ("read", "headline", "tone"),
    [
        (reading(), "All pools have their level", "good"),
        (reading(pools=()), "There are no pools", "unknown"),
        (reading(pools=(replace(WEB, fill_level=None),)), "No pool lends nodes", "unknown"),
        (reading(NODES[1:], workers=()), "No worker of the pools runs", "bad"),
        (reading(NODES[1:], filling={"web": FillingRecord(2, NOW, "boom")}), "web cannot be filled", "bad"),
        (reading((*NODES, node(4, NodeState.FAILED))), "1 node failed", "bad"),
        (reading(NODES[1:]), "web lacks nodes", "halted"),
        (reading((*NODES[1:], node(5, NodeState.PROVISIONING))), "web is being filled", "busy"),
    ],
)
def test_the_headline_is_the_most_urgent_fact(read, headline, tone):
    found = view(read)
    assert (found.headline, found.tone) == (headline, tone)


def test_the_card_of_a_pool_has_its_numbers_and_why_nodes_are_missing():
    failing = FillingRecord(3, NOW - 60, "no route to host")
    read = reading((*NODES[1:], node(4, NodeState.FAILED)), filling={"web": failing})
    (card,) = view(read).cards
    assert (card.ready, card.level, card.tone) == (1, 2, "bad")
    assert card.counts == ((1, "ready", "converged"), (1, "leased", "absent"), (1, "failed", "failed"))
    assert card.bar == (BarPart("converged", 0, 250), BarPart("absent", 250, 250), BarPart("failed", 500, 250))
    assert card.lack == "1 node missing: filling failed 3 times in a row: no route to host"
    assert card.again is not None
    assert card.again.age == "in 4 min"
    assert [act.href for act in card.acts] == ["/pools/acts/request?pool=web", "/pools/acts/fill?pool=web"]


def test_a_pool_at_its_level_has_a_full_bar():
    (card,) = view().cards
    assert (card.bar[-1].start + card.bar[-1].width, card.lack, card.tone) == (1000, "", "good")


def test_an_admin_sees_all_sessions_with_the_command_for_each_node():
    (row,) = view().sessions
    assert (row.tenant, row.word, row.expires.age, row.began.age) == ("ci", "active", "in 1 h", "1 h ago")
    assert [(line.name, line.ssh, line.note) for line in row.nodes] == [("n3.example", "ssh root@192.0.2.3", "")]
    assert [act.label for act in row.acts] == ["Extend", "Retire"]
    assert [act.label for act in view().acts] == ["Request nodes", "Add a node", "Usage"]


def test_a_tenant_sees_only_its_own_sessions():
    own, other = view(role=Role.TENANT), view(role=Role.TENANT, number=5)
    assert own.headline == "You have 1 node in 1 session"
    assert own.allowance == "You have 1 of the 8 nodes that you may lease at the same time."
    assert [row.id for row in own.sessions] == [90]
    assert (other.headline, other.sessions) == ("You have no nodes", ())
    assert not own.may_manage
    assert [act.label for act in own.acts] == ["Request nodes", "Usage"]
    assert own.nodes.rows[0].acts == ()


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_who_may_not_see_sessions_sees_levels_and_nodes(role):
    found = view(role=role)
    assert (found.sessions, found.past, found.acts, found.allowance) == (None, None, (), "")
    assert len(found.nodes.rows) == 3
    assert found.cards[0].acts == ()


def test_nothing_can_be_changed_without_zookeeper():
    found = view(connected=False)
    assert [act.label for act in found.acts] == ["Usage"]
    assert (found.cards[0].acts, found.sessions[0].acts, found.nodes.rows[0].acts) == ((), (), ())


def test_a_session_shows_when_it_is_prepared_and_that_it_expires_soon():
    soon = replace(SESSION, expires_at=NOW + 600)
    prepared = reading((*NODES[:2], node(3, NodeState.CONTEXTUALIZING)))
    assert view(reading(sessions=(soon,))).sessions[0].word == "expires soon"
    assert view(reading(sessions=(soon,)), Role.TENANT).headline == "Session 90 expires soon"
    assert view(reading(sessions=(replace(SESSION, expires_at=NOW - 1),))).sessions[0].word == "expired"
    row = view(prepared).sessions[0]
    assert (row.word, row.nodes[0].ssh, row.nodes[0].note) == ("being prepared", "", "gets the key")
    assert view(reading(NODES[:2])).sessions[0].nodes[0].note == "no longer in the session"


def test_failed_nodes_have_the_reason_the_newest_first():
    many = [
        replace(fail(node(number, NodeState.DEPROVISIONING), f"reason {number}", NOW - number))
        for number in range(1, MOST_FAILED + 4)
    ]
    found = view(reading(many, sessions=()))
    assert [row.detail for row in found.failed][:2] == ["reason 1", "reason 2"]
    assert (len(found.failed), found.more_failed) == (MOST_FAILED, 3)
    assert [act.label for act in found.failed[0].acts] == ["Forgive", "Retire"]
    assert view(reading(many, sessions=()), Role.TENANT).failed == []


def test_the_nodes_are_filtered_searched_and_paged():
    many = [node(number, READY) for number in range(1, PAGE_SIZE + 2)] + [node(200, LEASED, comment="slow disk")]
    read = reading(many, sessions=())
    first, second = view(read).nodes, view(read, page="2").nodes
    assert (first.part.range, len(first.rows)) == ("1 to 25 of 27", PAGE_SIZE)
    assert first.part.next == "/pools?page=2#nodes"
    assert (second.part.range, second.part.previous) == ("26 to 27 of 27", "/pools#nodes")
    assert [(link.sign.word, link.count) for link in first.filters] == [("deployed", 1), ("ready", 26)]
    found = view(read, text="slow", state="deployed").nodes
    assert [row.comment for row in found.rows] == ["slow disk"]
    assert [(link.href, link.selected) for link in found.filters] == [("/pools?text=slow#nodes", True)]
    assert view(read, text="nothing").nodes.rows == ()
    assert view(read, state="nonsense").nodes.state == ""


def test_earlier_sessions_show_how_they_ended():
    ended = [
        replace(SESSION, id=number, retired_at=NOW - 9, retired_by="ann" if number % 2 else None)
        for number in range(60, 60 + PAST_SIZE + 1)
    ]
    past, rest = view(ended=ended).past, view(ended=ended, past="2").past
    assert [row.how for row in past.rows][:2] == ["expired", "retired by ann"]
    assert past.rows[0].nodes == ("n3.example (web)",)
    assert (past.range, past.next, past.previous) == ("1 to 20 of 21", "/pools?past=2#past", None)
    assert (len(rest.rows), rest.previous) == (1, "/pools#past")
    assert view(role=Role.TENANT, number=5, ended=ended).past.rows == ()


def test_the_notice_shows_the_outcome_of_a_request():
    prepared = reading((*NODES[:2], node(3, NodeState.CONTEXTUALIZING)))
    tenant = user(Role.TENANT)
    assert request_notice(90, prepared, tenant, "").tone == "busy"
    assert request_notice(90, reading(), tenant, "").tone == "good"
    assert request_notice(91, reading(), tenant, "no route to host").sentence == "no route to host"
    foreign = request_notice(90, reading(), user(Role.TENANT, 5), "")
    assert foreign.sentence == "Session 90 has ended, or did not begin."
