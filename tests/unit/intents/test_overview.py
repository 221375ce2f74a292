"""Overviews of intents: the last publication beside the tip of the branch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zkdeployment.documents.intents.values import Approval, ClusterIntents, DeploymentIntentGroup, IntentState
from zkdeployment.errors import NotFoundError
from zkdeployment.intents.instances import IntentInstance, IntentRecord
from zkdeployment.intents.life_cycle import IntentSnapshot
from zkdeployment.intents.overview import IntentOverview, find_overview, intent_overviews
from zkdeployment.planning.targets.content import IntentContent

CONTENT = IntentContent({"apps": {"front": ["/p1/front"]}}, {"/p1/front": {"version": "1"}})
OTHER = replace(CONTENT, nodes={"/p1/front": {"version": "2"}})
APPROVAL = Approval(CONTENT.digest, "alice@example.com", "tested")
SHOP = DeploymentIntentGroup(
    "p1", "store", "v1", "shop", "plain", {"front": ("/p1/front",)}, IntentState.APPROVED, approval=APPROVAL
)
AMS = ClusterIntents("ams", "web-server", {"vlan12": ("/net/vlan12",)})
INSTANCE = IntentInstance(7, 100.0, "alice", 7, SHOP.apps, ())
RECORD = IntentRecord(SHOP, IntentState.APPROVED, (INSTANCE,), CONTENT, CONTENT)


def test_an_intent_is_shown_as_it_is_published_and_as_it_is_at_the_tip() -> None:
    tip = {AMS.subject: IntentSnapshot(AMS, OTHER), SHOP.subject: IntentSnapshot(SHOP, OTHER)}
    group, cluster = intent_overviews([RECORD], tip)
    assert (group.published_state, group.tip_state) == (IntentState.APPROVED, IntentState.CREATED)
    assert (cluster.published_state, cluster.tip_state) == (None, IntentState.CREATED)
    assert find_overview((group, cluster), AMS.subject) is cluster
    with pytest.raises(NotFoundError, match="there is no intent p1/other"):
        find_overview((group, cluster), ("p1", "other"))


def test_programs_get_the_document_and_whether_its_content_is_the_approved_one() -> None:
    assert IntentOverview(RECORD, None).to_json() == {
        "subject": "p1/store/v1/shop",
        "state": "Approved",
        "tip_state": None,
        "content": CONTENT.digest,
        "is_approved": True,
        "approval": {"content": CONTENT.digest, "by": "alice@example.com", "reason": "tested"},
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
    changed = IntentOverview(RECORD, IntentSnapshot(SHOP, OTHER)).to_json()
    assert (changed["state"], changed["tip_state"], changed["is_approved"]) == ("Approved", "Created", False)


def test_the_approved_content_is_known_if_that_approval_was_published() -> None:
    assert IntentOverview(RECORD, None).approved_content == CONTENT
    newer = replace(SHOP, approval=replace(APPROVAL, content=OTHER.digest))
    assert IntentOverview(RECORD, IntentSnapshot(newer, OTHER)).approved_content is None
    assert IntentOverview(None, IntentSnapshot(SHOP, CONTENT)).approved_content is None
