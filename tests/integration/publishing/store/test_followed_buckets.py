"""The buckets that a syncer follows: it never misses a change."""

from __future__ import annotations

import threading

from zkdeployment.publishing.signing.statement import digest_of
from zkdeployment.publishing.store.signing import FollowedBuckets
from zkdeployment.zookeeper.transactions import Create, Set

BUCKET = "/zkdeployment/signed/0a"


def test_a_bucket_that_was_changed_before_a_read_counts_as_changed_although_its_watch_is_late(session, other):
    other.ensure("/zkdeployment/signed")
    other.commit(Create(BUCKET, b"signed"), Create("/slow"))
    buckets, digests = FollowedBuckets(session), {"0a": digest_of(b"signed")}
    assert buckets.have(digests)
    answered = threading.Event()
    session.get("/slow", watch=lambda _: answered.wait(0.3))  # the watches of later changes wait for this one
    other.commit(Set("/slow", b"x"))
    other.commit(Set(BUCKET, b"changed"))
    session.sync()
    are_equal = buckets.have(digests)
    answered.set()
    assert not are_equal
    other.commit(Set(BUCKET, b"signed"))
    session.sync()
    assert buckets.have(digests)
