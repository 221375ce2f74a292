"""The life cycle of intents: the table, its guards and its refusals."""

import itertools
from dataclasses import replace

import pytest

from zkdeployment.base.act import DecisionForm, describe_decision
from zkdeployment.intents.documents import (
    Approval,
    ClusterIntents,
    DeploymentIntentGroup,
    IntentState,
    UpdateRule,
)
from zkdeployment.intents.rules.content import IntentContent
from zkdeployment.intents.rules.instances import (
    LIFE_CYCLE,
    IntentAct,
    IntentEffect,
    IntentRefusal,
    IntentSnapshot,
    LifeCycleStep,
    due_approval,
    perform,
)

SHOP = DeploymentIntentGroup("p1", "store", "v1", "shop", "plain", {"front": ("/p1/shop/front",)})
WEB = ClusterIntents("ams", "web", {"vlan12": ("/net/vlan12",)})
CONTENT = IntentContent({}, {"/p1/shop/front": {"version": "1"}})
CHANGED = IntentContent({}, {"/p1/shop/front": {"version": "2"}})

CHANGED_SINCE = (
    "its content has changed since it was approved by alice; approve it again (changed: /p1/shop/front)"
)

GROUP_STATES = (IntentState.CREATED, IntentState.APPROVED, IntentState.INSTANTIATED, IntentState.TERMINATED)
CLUSTER_STATES = (IntentState.CREATED, IntentState.APPLIED, IntentState.TERMINATED)
GROUP_ACTS = (
    IntentAct.APPROVE,
    IntentAct.INSTANTIATE,
    IntentAct.ADOPT,
    IntentAct.TERMINATE,
    IntentAct.MODIFY,
    IntentAct.REMOVE,
)
CLUSTER_ACTS = (IntentAct.APPLY, IntentAct.ADOPT, IntentAct.TERMINATE, IntentAct.MODIFY, IntentAct.REMOVE)


def group(state, content=CONTENT, approved=CONTENT):
    approval = None if approved is None else Approval(approved.digest, "alice", "go")
    return IntentSnapshot(replace(SHOP, state=state, approval=approval), content)


def cluster(state):
    return IntentSnapshot(replace(WEB, state=state), CONTENT)


SNAPSHOTS = [
    *((group(state), act) for state, act in itertools.product(GROUP_STATES, GROUP_ACTS)),
    *((cluster(state), act) for state, act in itertools.product(CLUSTER_STATES, CLUSTER_ACTS)),
]


@pytest.mark.parametrize(("snapshot", "act"), SNAPSHOTS)
def test_every_act_in_every_state_is_in_the_table_and_has_its_result(snapshot, act):
    entry = LIFE_CYCLE[snapshot.state, act]
    outcome = perform(snapshot, act)
    if isinstance(entry, LifeCycleStep):
        assert outcome == entry
    else:
        assert isinstance(outcome, IntentRefusal)
        assert outcome.reason == entry


def test_the_table_has_no_other_entries_than_the_update_of_a_group():
    pairs = {(snapshot.state, act) for snapshot, act in SNAPSHOTS}
    assert LIFE_CYCLE.keys() - pairs == {(IntentState.INSTANTIATED, IntentAct.UPDATE)}


def test_acts_that_begin_an_instance_deploy_services_and_acts_that_end_it_undeploy_them():
    for (state, _), entry in LIFE_CYCLE.items():
        if isinstance(entry, LifeCycleStep) and entry.state is not None:
            begins = IntentEffect.BEGIN_INSTANCE in entry.effects
            ends = IntentEffect.END_INSTANCE in entry.effects
            assert (begins, ends) == (
                not state.is_active and entry.state.is_active,
                state.is_active and not entry.state.is_active,
            )


@pytest.mark.parametrize(
    ("snapshot", "act", "message"),
    [
        (
            group(IntentState.CREATED, approved=None),
            IntentAct.INSTANTIATE,
            "is Created: it must be approved first",
        ),
        (
            group(IntentState.APPROVED, CHANGED),
            IntentAct.INSTANTIATE,
            f"is Created: {CHANGED_SINCE}",
        ),
        (
            group(IntentState.TERMINATED, CHANGED),
            IntentAct.INSTANTIATE,
            f"is Terminated: {CHANGED_SINCE}",
        ),
        (
            group(IntentState.INSTANTIATED),
            IntentAct.APPROVE,
            "is Instantiated, approved by alice: its services are deployed; terminate it first",
        ),
        (
            group(IntentState.CREATED, approved=None),
            IntentAct.APPLY,
            "is Created: there is no act 'apply' for groups; approve and instantiate it",
        ),
    ],
)
def test_a_refusal_names_subject_state_approver_and_nodes(snapshot, act, message):
    assert str(perform(snapshot, act, approved=CONTENT)).startswith(f"p1/store/v1/shop {message}")


DEPLOYED = IntentContent(
    {},
    {
        "/p1/shop/front": {"type": "web"},
        "/p1/shop/front/deploy": {},
        "/p1/shop/front/deploy/h1": {},
        "/p1/shop/front/deploy/h2": {"n": 2},
        "/defaults/db/deploy/h9": {},
    },
)
TAKES_DOWN = "the termination takes down /p1/shop/front on h1, h2 (2 instances)"
IN_PLACE = "; a group that is instantiated with 'update: approve' changes in place"


@pytest.mark.parametrize(
    ("update", "act", "advice"),
    [
        (UpdateRule.TERMINATE, IntentAct.MODIFY, IN_PLACE),
        (UpdateRule.TERMINATE, IntentAct.APPROVE, IN_PLACE),
        (UpdateRule.APPROVE, IntentAct.MODIFY, ""),
        (UpdateRule.APPROVE, IntentAct.UPDATE, ""),
        (UpdateRule.TERMINATE, IntentAct.REMOVE, ""),
        (UpdateRule.TERMINATE, IntentAct.INSTANTIATE, ""),
    ],
)
def test_a_refusal_that_advises_a_termination_names_what_it_takes_down(update, act, advice):
    snapshot = group(IntentState.INSTANTIATED, DEPLOYED, DEPLOYED)
    snapshot = replace(snapshot, intent=replace(snapshot.intent, update=update))
    refused = str(perform(snapshot, act, changed=replace(snapshot, content=CHANGED)))
    assert refused.endswith(f"; {TAKES_DOWN}{advice}")


def test_other_refusals_of_a_running_instance_name_no_termination():
    assert "takes down" not in str(perform(group(IntentState.INSTANTIATED), IntentAct.ADOPT))
    assert "takes down" not in str(perform(group(IntentState.CREATED), IntentAct.TERMINATE))


@pytest.mark.parametrize("act", [IntentAct.APPROVE, IntentAct.INSTANTIATE])
def test_clusters_are_neither_approved_nor_instantiated(act):
    refused = perform(cluster(IntentState.TERMINATED), act)
    assert str(refused) == f"ams/web is Terminated: there is no act '{act.value}' for clusters; apply it"


def test_an_approved_group_with_another_content_is_created_until_the_content_is_back():
    assert group(IntentState.APPROVED, CHANGED).state is IntentState.CREATED
    assert group(IntentState.APPROVED).state is IntentState.APPROVED
    assert group(IntentState.TERMINATED, CHANGED).state is IntentState.TERMINATED


def test_a_document_is_not_removed_while_hosts_undeploy_its_instance():
    terminated = group(IntentState.TERMINATED)
    assert perform(terminated, IntentAct.REMOVE) == LifeCycleStep(
        None, guard=LIFE_CYCLE[IntentState.TERMINATED, IntentAct.REMOVE].guard
    )
    refused = perform(terminated, IntentAct.REMOVE, is_terminating=True)
    assert "hosts still undeploy its last instance" in str(refused)


def test_a_refusal_names_at_most_twenty_nodes():
    paths = tuple(f"/n{number}" for number in range(25))
    text = str(IntentRefusal(("p", "c"), IntentState.CREATED, "no", paths=paths))
    assert text.endswith("/n18, /n19, and 5 more)")


@pytest.mark.parametrize(
    ("intent", "state", "approval", "reason"),
    [
        (SHOP, IntentState.CREATED, None, "it is not approved, so nothing of it is deployed"),
        (SHOP, IntentState.CREATED, "another", "its content has changed since it was approved by alice"),
        (SHOP, IntentState.CREATED, CONTENT.digest, "its approval by alice does not suffice"),
        (SHOP, IntentState.APPROVED, CONTENT.digest, None),
        (SHOP, IntentState.INSTANTIATED, CONTENT.digest, None),
        (SHOP, IntentState.TERMINATED, "another", None),
        (WEB, IntentState.CREATED, None, None),
    ],
)
def test_a_group_that_is_created_waits_for_its_approval(intent, state, approval, reason):
    if approval is not None:
        intent = replace(intent, approval=Approval(approval, "alice", ""))

    found = due_approval(intent, state, CONTENT.digest, 40.0)

    assert (None if found is None else found.reason) == reason


def test_a_due_approval_names_its_subject_its_begin_its_verb_and_its_form():
    found = due_approval(SHOP, IntentState.CREATED, CONTENT.digest, 40.0)

    assert found is not None
    assert describe_decision(found, 100.0) == (
        "intent p1/store/v1/shop has waited for a decision for 1 min: it is not approved, so nothing of it is"
        " deployed; 'zkdeployment intent approve p1/store/v1/shop' approves it"
    )
    assert found.form == DecisionForm(
        "intent-approve", "Approve p1/store/v1/shop", {"subject": "p1/store/v1/shop"}
    )
