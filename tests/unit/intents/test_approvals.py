"""Which approvals count where they need signatures."""

from dataclasses import replace

from zkdeployment.documents.intents.values import Approval, DeploymentIntentGroup, IntentState
from zkdeployment.intents.approvals import (
    KeyOwner,
    approval_statement,
    own_content_objection,
    with_objections,
)
from zkdeployment.intents.content import IntentContent
from zkdeployment.intents.instances import IntentRecord
from zkdeployment.intents.life_cycle import IntentAct, IntentRefusal, IntentSnapshot, perform

CONTENT = IntentContent({}, {"/front": {}})
SHOP = DeploymentIntentGroup(
    "p1",
    "store",
    "v1",
    "shop",
    "plain",
    {"front": ("/front",)},
    IntentState.APPROVED,
    approval=Approval(CONTENT.digest, "alice", "go"),
)
SNAPSHOT = IntentSnapshot(SHOP, CONTENT)
ANN = KeyOwner("ann@example.com", "SHA256:a")


def test_the_statement_names_the_subject_and_the_content():
    assert approval_statement(SHOP.subject, "sha256:0") == "zkdeployment approval v1\np1/store/v1/shop\nsha256:0\n"


def test_an_approver_who_signed_the_content_with_the_same_name_or_key_is_refused():
    assert own_content_objection(ANN, None) is None
    assert own_content_objection(ANN, KeyOwner("bob@example.com", "SHA256:b")) is None
    for other in (KeyOwner("ann@example.com", "SHA256:b"), KeyOwner("ann", "SHA256:a")):
        assert own_content_objection(ANN, other) == (
            "ann@example.com signed the approval and also the commit that brought the content; another person must"
        )


def test_a_group_with_an_objection_is_created_and_cannot_be_instantiated():
    found = with_objections({SHOP.subject: SNAPSHOT}, {}, lambda _: "nobody signed it")[SHOP.subject]
    assert (found.state, found.is_approved) == (IntentState.CREATED, False)
    refusal = perform(found, IntentAct.INSTANTIATE)
    assert isinstance(refusal, IntentRefusal)
    assert refusal.reason == (
        "its approval does not count: nobody signed it; this fleet needs signed approvals; use"
        " 'zkdeployment intent approve p1/store/v1/shop --key FILE' at a terminal"
    )


def test_only_approvals_of_the_present_content_that_were_not_accepted_before_are_verified():
    asked = []

    def ask(snapshot):
        asked.append(snapshot)

    other = replace(SNAPSHOT, content=IntentContent({}, {}))
    with_objections({SHOP.subject: other}, {}, ask)
    accepted = IntentRecord(SHOP, IntentState.APPROVED, (), CONTENT, CONTENT)
    with_objections({SHOP.subject: SNAPSHOT}, {SHOP.subject: accepted}, ask)
    assert asked == []
    with_objections({SHOP.subject: SNAPSHOT}, {SHOP.subject: replace(accepted, approved=None)}, ask)
    assert asked == [SNAPSHOT]
