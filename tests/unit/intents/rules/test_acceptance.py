"""What governs before a publication: by the record of the syncer, by the signed publication, or by ZooKeeper."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zkdeployment.base.publication import LeftService, Published
from zkdeployment.intents.rules.approvals import (
    NOTHING_ACCEPTED,
    Acceptance,
    AcceptanceRecord,
    recorded_governance,
)
from zkdeployment.publishing.governance import StandingGovernance, standing_list
from zkdeployment.publishing.signing.standing import SigningRecord
from zkdeployment.publishing.signing.statement import left_digest

LEFT = (LeftService("/a", None, ("p", "s", "v", "g"), "r1"),)
OLD, NEW = replace(NOTHING_ACCEPTED, approvals={"shop": "old"}), Acceptance({"shop": "new"}, LEFT, "r2", 7, {})
OWN = Acceptance({}, LEFT, "r2", 7, {})


@pytest.mark.parametrize(
    ("published", "accepted"),
    [
        (Published(revision="r2", sequence=7), NEW),
        (Published(revision="r2", sequence=8), NEW),  # published once more
        (Published(revision="r2", sequence=6), OLD),
        (Published(revision="r3", sequence=8), OLD),
        (Published(revision=None, ordered="r1", sequence=6), OLD),  # a publication of several transactions
        (Published(revision=None, ordered="r2", sequence=7), NEW),  # the publication after it, of several
    ],
)
def test_accepted_forms_count_from_the_last_transaction_of_the_publication_on(published, accepted):
    assert AcceptanceRecord(OLD, NEW).settled(published) == accepted
    assert AcceptanceRecord(OLD, None).settled(published) == OLD
    assert AcceptanceRecord(None, Acceptance({}, (), "r4", 9, {})).settled(published) is None


@pytest.mark.parametrize("sequence", [0, 6, 7])
def test_the_own_record_governs_unless_another_syncer_has_published_since(sequence):
    governance = StandingGovernance("r2", LEFT)
    assert recorded_governance(OWN, Published(revision="r1", sequence=sequence), None) == governance
    forged = Published(revision="r9", sequence=99)
    assert recorded_governance(OWN, forged, SigningRecord(7, sequence, sequence, "r1")) == governance


@pytest.mark.parametrize("own", [None, Acceptance({"shop": "a"}, None, "r2", 7, {})])
def test_a_record_without_left_services_does_not_govern(own):
    assert recorded_governance(own, Published(revision="r2", sequence=7), None) is None


@pytest.mark.parametrize(("left", "is_same"), [(LEFT, True), ((), False)])
def test_the_record_of_an_earlier_publication_governs_if_the_list_is_still_the_same(left, is_same):
    signed = SigningRecord(8, 8, 8, "r3", left_digest(left))
    expected = StandingGovernance("r3", LEFT) if is_same else None
    assert recorded_governance(OWN, Published(), signed) == expected
    assert recorded_governance(OWN, Published("r3", sequence=8, left=left_digest(left)), None) == expected


def test_a_signed_list_counts_more_than_the_list_that_zookeeper_names():
    published = Published(revision="r9", sequence=9, left="forged")
    assert standing_list(published, SigningRecord(8, 8, 8, "r3", "signed")) == ("r3", "signed")
    assert standing_list(published, SigningRecord(8)) == ("r9", "forged")
    assert standing_list(Published(ordered="r8"), None) == ("r8", None)
