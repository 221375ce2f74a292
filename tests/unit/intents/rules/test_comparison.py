"""The content of a group beside the one that was approved last."""

from dataclasses import replace

import pytest

from support.intents import APPROVAL, CHANGED, CLUSTER, CONTENT, GROUP
from zkdeployment.base.errors import RefusedError
from zkdeployment.intents.documents import Approval, FurtherApproval, IntentState
from zkdeployment.intents.rules.approvals import ApprovalRule
from zkdeployment.intents.rules.instances import IntentRecord, IntentSnapshot
from zkdeployment.intents.rules.listing import ListedIntent, compare_before_approval, compare_content

APPROVED = replace(GROUP, state=IntentState.APPROVED, approval=APPROVAL)
PUBLISHED = IntentRecord(APPROVED, IntentState.APPROVED, (), CONTENT, CONTENT)
CHANGE = ["/p1/shop/db change property version from '1' to '2'"]


def test_a_changed_content_is_compared_with_the_approved_one():
    compared = compare_content(ListedIntent(PUBLISHED, IntentSnapshot(APPROVED, CHANGED)))
    assert (list(compared.lines()), compared.is_approved, compared.remark) == (CHANGE, False, "")
    assert compared.to_json() == {
        "subject": "p1/store/v1/shop",
        "approved": CONTENT.digest,
        "content": CHANGED.digest,
        "is_approved": False,
        "document": {},
        "create": {},
        "update": {"/p1/shop/db": {"version": "2"}},
        "delete": [],
    }
    assert "/p1/shop/front add property version = '1.3'" in list(compared.content_lines())


@pytest.mark.parametrize(
    ("record", "tip", "is_whole", "remark"),
    [
        (None, IntentSnapshot(GROUP, CONTENT), True, "p1/store/v1/shop was never approved: the whole content"),
        (None, IntentSnapshot(APPROVED, CHANGED), True, "no content whose approval counts was published"),
        (PUBLISHED, None, False, ""),
    ],
)
def test_a_content_without_a_published_approval_is_new_as_a_whole(record, tip, is_whole, remark):
    compared = compare_content(ListedIntent(record, tip))
    assert list(compared.lines()) == (list(compared.content_lines()) if is_whole else [])
    assert compared.remark.startswith(remark)


def test_before_an_approval_the_content_is_compared_with_the_published_approval():
    coming = replace(APPROVED, approval=Approval(CHANGED.digest, "bob@example.com"))
    assert list(compare_before_approval(PUBLISHED, IntentSnapshot(coming, CHANGED)).lines()) == CHANGE
    assert compare_before_approval(None, IntentSnapshot(coming, CHANGED)).remark.endswith("whole content is new")


PARTIAL = replace(APPROVED, approval=Approval(CHANGED.digest, "alice@example.com", signature="a"))
RULES = (ApprovalRule("/p1", 2, ("alice@example.com", "bob@example.com")),)
DIGESTS = (CONTENT.digest, CHANGED.digest)


@pytest.mark.parametrize("record", [IntentRecord(PARTIAL, IntentState.CREATED, (), CHANGED, CONTENT), PUBLISHED])
def test_before_a_second_approval_the_content_is_compared_with_the_last_approval_that_counts(record):
    listed = ListedIntent(record, IntentSnapshot(PARTIAL, CHANGED), RULES)
    compared, body = compare_content(listed), listed.to_json()
    assert (list(compared.lines()), compared.is_approved, compared.remark) == (CHANGE, False, "")
    assert (compared.to_json()["approved"], compared.to_json()["content"]) == DIGESTS
    assert (body["state"], body["tip_state"], body["is_approved"]) == (record.state.value, "Created", False)
    both = replace(PARTIAL.approval, also=(FurtherApproval("bob@example.com", "b"),))
    coming = IntentSnapshot(replace(PARTIAL, approval=both), CHANGED)
    assert list(compare_before_approval(record, coming).lines()) == CHANGE
    complete = ListedIntent(record, coming, RULES)
    assert (complete.snapshot.is_approved, complete.tip_state) == (True, IntentState.APPROVED)


def test_a_published_approval_that_does_not_count_is_not_listed_as_one():
    record = IntentRecord(PARTIAL, IntentState.CREATED, (), CHANGED)
    listed = ListedIntent(record, None)
    assert (listed.to_json()["state"], listed.to_json()["is_approved"]) == ("Created", False)
    compared = compare_content(listed)
    assert (compared.is_approved, compared.to_json()["approved"]) == (False, None)
    assert compared.remark.startswith("no content whose approval counts was published")


def test_a_cluster_has_no_approval_to_compare_with():
    with pytest.raises(RefusedError, match="clusters are applied without an approval"):
        compare_content(ListedIntent(None, IntentSnapshot(CLUSTER, CONTENT)))
