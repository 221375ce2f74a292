"""Overviews of intents: the last publication beside the tip of the branch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zkdeployment.base.errors import NotFoundError
from zkdeployment.intents.documents import Approval, ClusterIntents, DeploymentIntentGroup, IntentState
from zkdeployment.intents.rules.approvals import ApprovalRule
from zkdeployment.intents.rules.content import IntentContent
from zkdeployment.intents.rules.instances import IntentInstance, IntentRecord, IntentSnapshot
from zkdeployment.intents.rules.listing import (
    ListedIntent,
    content_difference,
    difference_to_json,
    find_listed_intent,
    listed_intents,
)

CONTENT = IntentContent({"apps": {"front": ["/p1/front"]}}, {"/p1/front": {"version": "1"}})
OTHER = replace(CONTENT, nodes={"/p1/front": {"version": "2"}})
APPROVAL = Approval(CONTENT.digest, "alice@example.com", "tested")
SHOP = DeploymentIntentGroup(
    "p1", "store", "v1", "shop", "plain", {"front": ("/p1/front",)}, IntentState.APPROVED, approval=APPROVAL
)
AMS = ClusterIntents("ams", "web-server", {"vlan12": ("/net/vlan12",)})
INSTANCE = IntentInstance(7, 100.0, "alice", 7, SHOP.apps, ())
RECORD = IntentRecord(SHOP, IntentState.APPROVED, (INSTANCE,), CONTENT, CONTENT)


def test_an_intent_is_shown_in_its_published_form_and_in_its_form_at_the_tip() -> None:
    tip = {AMS.subject: IntentSnapshot(AMS, OTHER), SHOP.subject: IntentSnapshot(SHOP, OTHER)}
    group, cluster = listed_intents([RECORD], tip)
    assert (group.published_state, group.tip_state) == (IntentState.APPROVED, IntentState.CREATED)
    assert (cluster.published_state, cluster.tip_state) == (None, IntentState.CREATED)
    assert find_listed_intent((group, cluster), AMS.subject) is cluster
    with pytest.raises(NotFoundError, match="there is no intent p1/other"):
        find_listed_intent((group, cluster), ("p1", "other"))


def test_programs_get_the_document_and_whether_its_content_is_the_approved_one() -> None:
    assert ListedIntent(RECORD, None).to_json() == {
        "subject": "p1/store/v1/shop",
        "state": "Approved",
        "tip_state": None,
        "content": CONTENT.digest,
        "is_approved": True,
        "approval": {"content": CONTENT.digest, "by": "alice@example.com", "reason": "tested"},
        "approvals": [],
        "instance": 7,
        "document": {
            "schema": "zkdeployment/DeploymentIntentGroup/v1",
            "metadata": {"project": "p1", "composite-app": "store", "version": "v1", "name": "shop"},
            "data": {
                "composite-profile": "plain",
                "apps": {"front": ["/p1/front"]},
                "state": "Approved",
                "approval": {"content": CONTENT.digest, "by": "alice@example.com", "reason": "tested"},
            },
        },
    }
    changed = ListedIntent(RECORD, IntentSnapshot(SHOP, OTHER)).to_json()
    assert (changed["state"], changed["tip_state"], changed["is_approved"]) == ("Approved", "Created", False)


def test_the_approved_content_is_known_if_that_approval_was_published() -> None:
    assert ListedIntent(RECORD, None).approved_content == CONTENT
    newer = replace(SHOP, approval=replace(APPROVAL, content=OTHER.digest))
    assert ListedIntent(RECORD, IntentSnapshot(newer, OTHER)).approved_content is None
    assert ListedIntent(None, IntentSnapshot(SHOP, CONTENT)).approved_content is None


RULES = (ApprovalRule("/p1", 2, ("alice@example.com", "bob@example.com"), 30),)


def counted(state: IntentState = IntentState.APPROVED, content: IntentContent = CONTENT) -> list[str]:
    """Return how many approvals the shop has that Alice signed."""
    signed = replace(SHOP, state=state, approval=replace(APPROVAL, signature="s", instance=100))
    approvals = ListedIntent(None, IntentSnapshot(signed, content), RULES).approvals
    return [f"{count} until {count.expires}" for count in approvals]


def test_the_approvals_of_the_present_content_are_counted() -> None:
    some = "1 of 2 approvals for /p1: alice@example.com; needs 1 more of bob@example.com"
    none = "0 of 2 approvals for /p1; needs 2 more of alice@example.com, bob@example.com until None"
    assert counted() == [f"{some} until {100 + 30 * 86_400}"]
    assert counted(IntentState.INSTANTIATED) == [f"{some} until None"]
    assert counted(IntentState.TERMINATED) == counted(content=OTHER) == [none]
    unsigned = ListedIntent(RECORD, None, RULES)
    assert [f"{count} until None" for count in unsigned.approvals] == [none]
    assert unsigned.to_json()["approvals"] == [
        {
            "path": "/p1",
            "needed": 2,
            "approvers": [],
            "missing": 2,
            "awaited": ["alice@example.com", "bob@example.com"],
            "expires": None,
        }
    ]


def test_approvals_are_not_counted_without_rules_or_for_clusters() -> None:
    assert ListedIntent(RECORD, None).approvals == ()
    assert ListedIntent(None, IntentSnapshot(AMS, CONTENT), RULES).approvals == ()


OLD = IntentContent(
    {"apps": {"front": ["/p1/front"]}, "composite-profile": "plain"},
    {"/p1/front": {"version": "1", "greeting": "hello"}, "/p1/front/deploy": {}, "/p1/front/deploy/h1": {}},
)
NEW = IntentContent(
    {"apps": {"front": ["/p1/front"]}, "composite-profile": "large"},
    {"/p1/front": {"version": "2", "greeting": "hello"}, "/p1/front/deploy": {}, "/p1/front/deploy/h2": {}},
)


def test_the_lines_name_changed_keys_nodes_and_properties() -> None:
    assert list(content_difference(OLD, NEW)) == [
        'change composite-profile from "plain" to "large"',
        "/p1/front change property version from '1' to '2'",
        "delete /p1/front/deploy/h1",
        "add /p1/front/deploy/h2",
    ]
    assert list(content_difference(OLD, OLD)) == []


def test_programs_get_the_values_before_and_after() -> None:
    assert difference_to_json(OLD, NEW) == {
        "document": {"composite-profile": {"before": "plain", "after": "large"}},
        "create": {"/p1/front/deploy/h2": {}},
        "update": {"/p1/front": {"version": "2", "greeting": "hello"}},
        "delete": ["/p1/front/deploy/h1"],
    }
