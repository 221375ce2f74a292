"""Changes of intents, judged by the published revision and the new one."""

from dataclasses import replace

import pytest

from zkdeployment.intents.documents import (
    Approval,
    ClusterIntents,
    DeploymentIntentGroup,
    IntentState,
    UpdateRule,
)
from zkdeployment.intents.rules.content import IntentContent
from zkdeployment.intents.rules.instances import IntentEffect, IntentSnapshot
from zkdeployment.intents.rules.revisions import judge_change

SHOP = DeploymentIntentGroup("p1", "store", "v1", "shop", "plain", {"front": ("/p1/shop/front",)})
WEB = ClusterIntents("ams", "web", {"vlan12": ("/net/vlan12",)})
A = IntentContent({}, {"/p1/shop/front": {"version": "1"}}, {("/defaults", "version"): "1"})
B = IntentContent({}, {"/p1/shop/front": {"version": "2"}}, {("/defaults", "version"): "2"})
CREATED, APPROVED, INSTANTIATED = IntentState.CREATED, IntentState.APPROVED, IntentState.INSTANTIATED
APPLIED, TERMINATED = IntentState.APPLIED, IntentState.TERMINATED
BEGINS, ENDS = IntentEffect.BEGIN_INSTANCE, IntentEffect.END_INSTANCE


DEPLOYED = "is Instantiated, approved by alice: its services are deployed; terminate it first"
CHANGED_SINCE = "its content has changed since it was approved by alice; approve it again"


def group(state, content=A, approved=A, update=UpdateRule.TERMINATE, by="alice"):
    approval = None if approved is None else Approval(approved.digest, by, "go")
    return IntentSnapshot(replace(SHOP, state=state, approval=approval, update=update), content)


def cluster(state, content=A):
    return IntentSnapshot(replace(WEB, state=state), content)


def judge(before, after, **options):
    old, new = ({} if snapshot is None else {snapshot.intent.subject: snapshot} for snapshot in (before, after))
    return judge_change(old, new, **options)


@pytest.mark.parametrize(
    ("before", "after", "effects"),
    [
        (None, group(CREATED, approved=None), set()),
        (None, group(INSTANTIATED), {BEGINS}),
        (group(CREATED, approved=None), group(APPROVED), set()),
        (group(CREATED, approved=None), group(INSTANTIATED), {BEGINS}),
        (group(APPROVED), group(APPROVED, B), set()),
        (group(APPROVED), group(INSTANTIATED), {BEGINS}),
        (group(APPROVED), group(INSTANTIATED, B, B), {BEGINS}),
        (group(INSTANTIATED), group(INSTANTIATED), set()),
        (group(INSTANTIATED), group(TERMINATED), {ENDS}),
        (group(INSTANTIATED), group(TERMINATED, B), {ENDS}),
        (group(INSTANTIATED), group(APPROVED, B, B), {ENDS}),
        (group(TERMINATED), group(TERMINATED, B), set()),
        (group(TERMINATED), group(INSTANTIATED), {BEGINS}),
        (group(TERMINATED), None, set()),
        (group(APPROVED), None, set()),
        (
            group(INSTANTIATED, update=UpdateRule.APPROVE),
            group(INSTANTIATED, B, B, UpdateRule.APPROVE),
            {IntentEffect.UPDATE_INSTANCE},
        ),
        (cluster(CREATED), cluster(APPLIED), {BEGINS}),
        (cluster(TERMINATED), cluster(APPLIED, B), {BEGINS}),
        (cluster(APPLIED), cluster(TERMINATED, B), {ENDS}),
    ],
)
def test_a_legal_change_is_accepted_with_its_effect_on_the_instance(before, after, effects):
    judgement = judge(before, after)
    assert judgement.refusals == ()
    assert set().union(*judgement.effects.values()) == effects


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (None, group(INSTANTIATED, approved=None), "is Created: it must be approved first"),
        (
            group(APPROVED),
            group(INSTANTIATED, B),
            f"is Approved: {CHANGED_SINCE} (changed: /defaults, /p1/shop/front)",
        ),
        (
            group(TERMINATED),
            group(INSTANTIATED, B),
            f"is Terminated: {CHANGED_SINCE}",
        ),
        (
            group(INSTANTIATED),
            group(INSTANTIATED, B),
            f"{DEPLOYED} (changed: /defaults, /p1/shop/front)",
        ),
        (
            group(INSTANTIATED),
            group(INSTANTIATED, B, B),
            f"{DEPLOYED} (changed: approval,",
        ),
        (
            group(INSTANTIATED),
            group(INSTANTIATED, by="mallory"),
            f"{DEPLOYED} (changed: approval)",
        ),
        (
            group(INSTANTIATED),
            group(INSTANTIATED, update=UpdateRule.APPROVE),
            f"{DEPLOYED} (changed: update)",
        ),
        (
            group(INSTANTIATED, update=UpdateRule.APPROVE),
            group(INSTANTIATED, B, A, UpdateRule.APPROVE),
            "is Instantiated, approved by alice: its new content must be approved in the same change",
        ),
        (group(INSTANTIATED), None, DEPLOYED),
        (
            cluster(APPLIED),
            cluster(APPLIED, B),
            "is Applied: its services are deployed; terminate it first",
        ),
        (cluster(APPLIED), None, "is Applied: its services are deployed; terminate it first"),
    ],
)
def test_a_change_that_breaks_the_life_cycle_is_refused_with_state_approver_and_nodes(before, after, message):
    judgement = judge(before, after)
    assert judgement.effects == {}
    (refusal,) = judgement.refusals
    assert str(refusal).partition(" ")[2].startswith(message)


def test_a_document_stays_until_its_termination_is_complete():
    subject = SHOP.subject
    assert "still undeploy" in str(judge(group(TERMINATED), None, terminating=[subject]).refusals[0])
    assert judge(group(TERMINATED), group(INSTANTIATED), terminating=[subject]).refusals == ()


def test_a_fleet_that_never_published_an_intent_accepts_the_present_documents():
    new = {SHOP.subject: group(INSTANTIATED, approved=None), WEB.subject: cluster(CREATED)}
    judgement = judge_change(None, new)
    assert judgement.refusals == ()
    assert judgement.effects == {SHOP.subject: {BEGINS}}


def test_each_subject_of_a_change_is_judged():
    old = {SHOP.subject: group(INSTANTIATED), WEB.subject: cluster(APPLIED)}
    assert [refusal.subject for refusal in judge_change(old, {}).refusals] == [WEB.subject, SHOP.subject]
