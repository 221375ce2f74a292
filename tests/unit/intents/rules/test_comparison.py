"""The content of a group beside the one that was approved last."""

from dataclasses import replace

import pytest

from support.intents import APPROVAL, CHANGED, CLUSTER, CONTENT, GROUP
from zkdeployment.base.errors import RefusedError
from zkdeployment.intents.documents import Approval, IntentState
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
        (None, IntentSnapshot(APPROVED, CHANGED), True, "the approved content was never published"),
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


def test_a_cluster_has_no_approval_to_compare_with():
    with pytest.raises(RefusedError, match="clusters are applied without an approval"):
        compare_content(ListedIntent(None, IntentSnapshot(CLUSTER, CONTENT)))
