"""What publications change of intents: random revisions against the rules, and final statuses."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.base.deployment import Assignment, Deployment
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.host import Identity
from zkdeployment.intents.documents import Approval, DeploymentIntentGroup, IntentState, UpdateRule
from zkdeployment.intents.rules.content import IntentContent
from zkdeployment.intents.rules.governance import GovernedService
from zkdeployment.intents.rules.instances import InstanceChange, IntentSnapshot
from zkdeployment.intents.rules.reality import FleetReports, RecordedDeployment, ReportedHost, ReportedHosts
from zkdeployment.intents.rules.revisions import (
    awaiting_reports,
    change_intents,
    expected_refusals,
    with_final_status,
)

SHOP = DeploymentIntentGroup("p1", "store", "v1", "shop", "plain", {"front": ("/front",)})
CONTENTS = [IntentContent({}, {"/front": {"version": str(number)}}) for number in range(3)]
SERVICE = GovernedService("front", "web", Assignment("/front", 1, "front", "front", version="1"))
WEB1 = Identity("web1", "web1.example.com", "web")
CREATED, APPROVED, INSTANTIATED = IntentState.CREATED, IntentState.APPROVED, IntentState.INSTANTIATED
TERMINATED = IntentState.TERMINATED


def snapshot(state, content=0, approved=0, rule=UpdateRule.TERMINATE):
    approval = None if approved is None else Approval(CONTENTS[approved].digest, "alice", "go")
    return IntentSnapshot(replace(SHOP, state=state, approval=approval, update=rule), CONTENTS[content])


def reports(*deployments):
    markers = {Deployment(path, 0): RecordedDeployment("front", "1", 1) for path in deployments}
    return FleetReports(ReportedHosts([ReportedHost(WEB1, deployments=markers)]))


def publish(records, after, sequence, fleet=None):
    """Return the records after a publication; raises ``RefusedError``."""
    new = {} if after is None else {SHOP.subject: after}
    change = change_intents("r", records, new, {SHOP.subject: (SERVICE,)}, fleet)
    written = change.records(InstanceChange(sequence, float(sequence), "bob"))
    kept = {subject: record for subject, record in (records or {}).items() if subject in new}
    return {**kept, **written}


REVISIONS = st.none() | st.builds(
    snapshot,
    st.sampled_from([CREATED, APPROVED, INSTANTIATED, TERMINATED]),
    st.integers(0, 2),
    st.integers(0, 2),
    st.sampled_from(UpdateRule),
)


def is_allowed(before, after):
    """The rules of the life cycle, for endpoints: from a published snapshot to the next one."""
    was_active = before is not None and before.state is INSTANTIATED
    if after is None:
        return not was_active
    if not was_active:
        return after.state is not INSTANTIATED or after.is_approved
    if after.state is not INSTANTIATED or before == after:
        return True
    may_update = before.intent.update is after.intent.update is UpdateRule.APPROVE
    return may_update and before.content != after.content and after.is_approved


@given(st.lists(REVISIONS, min_size=1, max_size=8))
def test_random_revisions_follow_the_rules_and_every_instance_begins_and_ends_once(revisions):
    records, published, active, begun = {}, None, 0, 0
    for sequence, revision in enumerate(revisions, 1):
        before = records
        allowed = is_allowed(published, revision)
        if records:
            new = {} if revision is None else {SHOP.subject: revision}
            assert bool(expected_refusals(records.values(), new)) is not allowed
        try:
            records = publish(records, revision, sequence, reports())
        except RefusedError:
            assert not allowed
            assert records == before
            continue
        assert allowed
        is_active = revision is not None and revision.state is INSTANTIATED
        begun = 0 if revision is None else begun + (is_active and not active)
        active, published = is_active, revision
        instances = records[SHOP.subject].instances if records else ()
        assert len(instances) == begun
        assert [instance.terminated is None for instance in instances] == [
            number == begun and is_active for number in range(1, begun + 1)
        ]
        assert all(instance.final is not None for instance in instances[:-1])


def test_an_unchanged_intent_is_not_written_again():
    records = publish(None, snapshot(INSTANTIATED), 1)
    change = change_intents("r", records, {SHOP.subject: snapshot(INSTANTIATED)}, {}, None)
    assert change.records(InstanceChange(2, 2.0, "bob")) == {}


def test_the_first_documents_of_a_fleet_are_accepted_unchanged():
    record = publish(None, snapshot(INSTANTIATED, content=1, approved=0), 7)[SHOP.subject]
    assert [instance.id for instance in record.instances] == [7]
    with pytest.raises(RefusedError, match="its content has changed since it was approved by alice"):
        publish({}, snapshot(INSTANTIATED, content=1, approved=0), 7)


def test_the_approved_content_is_remembered_while_the_approval_stays():
    records = publish({}, snapshot(APPROVED), 1)
    changed = publish(records, snapshot(APPROVED, content=1), 2)
    record = changed[SHOP.subject]
    assert (record.state, record.content, record.approved) == (CREATED, CONTENTS[1], CONTENTS[0])
    with pytest.raises(RefusedError, match=r"approve it again \(changed: /front\)"):
        publish(changed, snapshot(INSTANTIATED, content=1), 3)
    assert publish(changed, snapshot(APPROVED, content=1, approved=2), 3)[SHOP.subject].approved is None


def test_the_content_whose_approval_counted_is_remembered_beside_approvals_that_do_not_count():
    records = publish({}, snapshot(APPROVED), 1)
    partial = replace(snapshot(APPROVED, content=1, approved=1), objection="1 of 2 approvals")
    for sequence, after in enumerate((partial, snapshot(APPROVED, content=2, approved=1)), 2):
        records = publish(records, after, sequence)
        record = records[SHOP.subject]
        assert (record.state, record.approved, record.snapshot.is_approved) == (CREATED, CONTENTS[0], False)
    assert publish(records, snapshot(APPROVED, content=1, approved=1), 4)[SHOP.subject].approved == CONTENTS[1]


def test_a_removed_document_waits_for_hosts_and_a_final_status_is_recorded_once():
    records = publish(publish({}, snapshot(INSTANTIATED), 1), snapshot(TERMINATED), 2)
    (record,) = awaiting_reports(records, {})
    with pytest.raises(RefusedError, match="hosts still undeploy its last instance"):
        publish(records, None, 3, reports("/front"))
    assert publish(records, None, 3, reports()) == {}
    assert with_final_status(record, reports("/front")) is None
    ended = with_final_status(record, reports())
    assert [row["rsync"] for row in ended.instances[-1].final] == ["Terminated"]
    assert awaiting_reports({SHOP.subject: ended}, {}) == ()
    # An instance that begins before the end of the last one records what is known then.
    again = publish(records, snapshot(INSTANTIATED), 3, reports("/front"))[SHOP.subject]
    assert [row["exists"] for row in again.instances[0].final] == ["Present"]
