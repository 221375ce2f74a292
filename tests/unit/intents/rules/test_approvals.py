"""Which approvals count where they need signatures."""

from dataclasses import replace

import pytest

from zkdeployment.intents.documents import (
    Approval,
    ClusterIntents,
    DeploymentIntentGroup,
    IntentState,
    UpdateRule,
)
from zkdeployment.intents.rules.approvals import (
    AcceptedInstance,
    ApprovalRule,
    accepted_by_records,
    accepted_by_syncer,
    accepted_instances,
    approval_statement,
    deployment_objection,
    documented_instance,
    missing_approvals,
    name_objection,
    newly_accepted,
    own_content_objection,
    reuse_objection,
    with_objections,
)
from zkdeployment.intents.rules.content import IntentContent
from zkdeployment.intents.rules.instances import (
    IntentAct,
    IntentRecord,
    IntentRefusal,
    IntentSnapshot,
    perform,
    uncounted_approval,
)
from zkdeployment.publishing.keys import KeyOwner

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


def test_the_statement_names_the_subject_the_content_the_state_and_the_instance():
    approval = Approval("sha256:0", "ann", state="Approved", instance=7)
    assert approval_statement(SHOP.subject, approval) == (
        "zkdeployment approval v2\np1/store/v1/shop\nsha256:0\nApproved\n7\n"
    )


def test_an_approval_names_its_signer():
    assert name_objection(Approval("sha256:0", "ann@example.com", instance=7), ANN) is None
    assert name_objection(Approval("sha256:0", "bob", instance=7), ANN) == (
        "it names bob as its approver, but ann@example.com signed it"
    )


@pytest.mark.parametrize(
    ("state", "number", "instance", "objection"),
    [
        ("Approved", 7, None, None),
        ("Approved", 7, AcceptedInstance(6, is_running=False), None),
        ("Approved", 7, AcceptedInstance(7, is_running=True), None),
        ("Instantiated", 7, AcceptedInstance(6, is_running=True), None),
        ("", 0, AcceptedInstance(0, is_running=True), None),
        ("Approved", 7, AcceptedInstance(6, is_running=True), "it approves a new instance, but the present one"),
        ("Approved", 7, AcceptedInstance(7, is_running=False), "it was given for an instance that has ended"),
        ("Instantiated", 7, AcceptedInstance(8, is_running=True), "it was given for an instance that has ended"),
        ("", 0, AcceptedInstance(0, is_running=False), "it does not name its instance"),
        ("", 0, None, "it does not name its instance"),
    ],
)
def test_an_approval_counts_for_its_own_instance(state, number, instance, objection):
    found = reuse_objection(Approval("sha256:0", "ann", state=state, instance=number), instance)
    assert found is None if objection is None else str(found).startswith(objection)


def test_the_last_instance_is_the_one_that_the_document_deploys_or_deployed():
    def instance(state):
        return documented_instance(replace(SNAPSHOT, intent=replace(SHOP, state=state, approval=approval)))

    approval = Approval(CONTENT.digest, "ann", instance=7)
    assert instance(IntentState.INSTANTIATED) == AcceptedInstance(7, is_running=True)
    assert instance(IntentState.TERMINATED) == AcceptedInstance(7, is_running=False)
    assert instance(IntentState.APPROVED) is None
    assert documented_instance(None) is None


def test_instances_of_groups_that_are_gone_are_remembered():
    running = replace(SNAPSHOT, intent=replace(SHOP, state=IntentState.INSTANTIATED))
    gone = {"p1/old": AcceptedInstance(5, is_running=True)}
    assert accepted_instances(gone, {SHOP.subject: running}) == {
        "p1/old": AcceptedInstance(5, is_running=False),
        "p1/store/v1/shop": AcceptedInstance(0, is_running=True),
    }


def test_an_approver_who_signed_the_content_with_the_same_name_or_key_is_refused():
    assert own_content_objection(ANN, None) is None
    assert own_content_objection(ANN, KeyOwner("bob@example.com", "SHA256:b")) is None
    for other in (KeyOwner("ann@example.com", "SHA256:b"), KeyOwner("ann", "SHA256:a")):
        assert own_content_objection(ANN, other) == (
            "ann@example.com signed the approval and also the commit that brought the content; another person must"
        )


def test_a_group_with_an_objection_is_created_and_cannot_be_instantiated():
    found = with_objections({SHOP.subject: SNAPSHOT}, lambda _: "nobody signed it")[SHOP.subject]
    assert (found.state, found.is_approved) == (IntentState.CREATED, False)
    refusal = perform(found, IntentAct.INSTANTIATE)
    assert isinstance(refusal, IntentRefusal)
    assert refusal.reason == (
        "its approval does not count: nobody signed it; this fleet needs signed approvals; use"
        " 'zkdeployment intent approve p1/store/v1/shop --key FILE' at a terminal"
    )


def test_a_change_in_place_that_lacks_approvals_is_to_be_approved_before_it_is_pushed():
    running = replace(SHOP, state=IntentState.INSTANTIATED, update=UpdateRule.APPROVE)
    missing = missing_approvals([ApprovalRule("/front", 2)], ["alice"])
    assert missing is not None
    found = with_objections({SHOP.subject: replace(SNAPSHOT, intent=running)}, lambda _: missing)[SHOP.subject]
    refusal = perform(replace(found, objection=None), IntentAct.UPDATE, changed=found)
    assert isinstance(refusal, IntentRefusal)
    command = "zkdeployment intent approve p1/store/v1/shop"
    assert refusal.reason == (
        f"its approval does not count: {missing}; each approver uses '{command} --work-tree DIRECTORY --key FILE'"
        " before the change is pushed"
    )
    others = (
        uncounted_approval(SHOP, missing),
        uncounted_approval(running, "nobody signed it"),
        uncounted_approval(replace(running, update=UpdateRule.TERMINATE), missing),
    )
    assert all(f"use '{command} --key FILE' at a terminal" in other for other in others)


def test_only_approvals_of_the_present_content_that_were_not_accepted_before_are_verified():
    asked = []

    def ask(snapshot):
        asked.append(snapshot)

    other = replace(SNAPSHOT, content=IntentContent({}, {}))
    with_objections({SHOP.subject: other}, ask)
    accepted = IntentRecord(SHOP, IntentState.APPROVED, (), CONTENT, CONTENT)
    with_objections({SHOP.subject: SNAPSHOT}, ask, accepted_by_records({SHOP.subject: accepted}))
    with_objections({SHOP.subject: SNAPSHOT}, ask, accepted_by_syncer(newly_accepted({SHOP.subject: SNAPSHOT})))
    assert asked == []
    for record in (replace(accepted, approved=None), replace(accepted, state=IntentState.CREATED)):
        with_objections({SHOP.subject: SNAPSHOT}, ask, accepted_by_records({SHOP.subject: record}))
    assert asked == [SNAPSHOT, SNAPSHOT]


def test_a_syncer_accepts_an_approval_again_only_byte_for_byte_and_of_the_same_content():
    is_accepted = accepted_by_syncer(newly_accepted({SHOP.subject: SNAPSHOT}))
    assert is_accepted(SNAPSHOT)
    approval = SHOP.approval
    assert approval is not None
    for other in (
        replace(SNAPSHOT, intent=replace(SHOP, approval=replace(approval, signature="other"))),
        replace(SNAPSHOT, intent=replace(SHOP, approval=None)),
        replace(SNAPSHOT, intent=replace(SHOP, name="other")),
        replace(SNAPSHOT, content=IntentContent({}, {})),
    ):
        assert not is_accepted(other)


def test_only_approved_and_deployed_groups_are_accepted():
    deployed = replace(SNAPSHOT, intent=replace(SHOP, state=IntentState.INSTANTIATED, approval=None))
    cluster = IntentSnapshot(ClusterIntents("ams", "web", {}, IntentState.APPLIED), CONTENT)
    for snapshot, count in (
        (SNAPSHOT, 1),
        (deployed, 1),
        (replace(SNAPSHOT, objection="nobody signed it"), 0),
        (replace(SNAPSHOT, intent=replace(SHOP, approval=None)), 0),
        (cluster, 0),
    ):
        assert len(newly_accepted({snapshot.intent.subject: snapshot})) == count


def test_a_group_stays_deployed_if_its_approval_counts_or_the_syncer_accepted_its_content():
    deployed = replace(SNAPSHOT, intent=replace(SHOP, state=IntentState.INSTANTIATED))
    bare = replace(deployed, intent=replace(deployed.intent, approval=None))
    for snapshot, reason in (
        (replace(deployed, objection="nobody signed it"), "nobody signed it"),
        (bare, "its content has no approval"),
        (replace(deployed, content=IntentContent({}, {})), "it approves another content"),
    ):
        found = deployment_objection(snapshot, lambda _: False)
        assert found is not None
        assert found.startswith(f"its approval does not count: {reason}; ")
        is_accepted = accepted_by_syncer(newly_accepted({SHOP.subject: snapshot}))
        assert deployment_objection(replace(snapshot, objection=None), is_accepted) is None
        assert deployment_objection(replace(snapshot, objection="it is used"), is_accepted) is not None
    assert deployment_objection(deployed, lambda _: False) is None
    assert deployment_objection(SNAPSHOT, lambda _: False) is None
