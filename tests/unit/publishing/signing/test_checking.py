"""Any change of a target, a bucket or the statement is detected, and so is a target that is missing."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from zkdeployment.base.errors import UntrustedError
from zkdeployment.publishing.signing.snapshot import check_targets, deviations
from zkdeployment.publishing.signing.standing import SignedTargets
from zkdeployment.publishing.signing.statement import Statement, bucket_of, digest_of, encode_bucket

names = st.sampled_from([f"app{number}" for number in range(40)] + ["web", "db.example.com"])
published = st.dictionaries(names, st.binary(max_size=8), max_size=12)


def proof(targets, *asked):
    """Return the statement of targets, and the buckets of all of them and of the names that are asked for."""
    signed = SignedTargets().after(targets)
    buckets = {bucket: signed.data.get(bucket) for bucket in map(bucket_of, (*targets, *asked))}
    return Statement(7, 7, "r1", None, signed.digests), buckets


@given(published, names)
def test_signed_targets_are_accepted_with_the_absence_of_other_targets(targets, other):
    statement, buckets = proof(targets, other)
    check_targets(statement, buckets, {other: None, **targets})


@given(published, names, st.none() | st.binary(max_size=8))
def test_any_other_target_is_refused_and_named(targets, name, data):
    assume(targets.get(name) != data)
    statement, buckets = proof(targets, name)
    with pytest.raises(UntrustedError, match=f"target {name}: expected .*, found"):
        check_targets(statement, buckets, {**targets, name: data})


@given(published.filter(bool), st.data())
def test_any_other_bucket_is_refused(targets, data):
    statement, buckets = proof(targets)
    bucket = data.draw(st.sampled_from(sorted(buckets)))
    right = buckets[bucket]
    cut = st.integers(0, len(right) - 1).map(lambda length: right[:length])
    flipped = st.integers(0, len(right) - 1).map(
        lambda place: right[:place] + bytes([right[place] ^ 1]) + right[place + 1 :]
    )
    moved = st.sampled_from(sorted(buckets)).map(buckets.get)
    wrong = data.draw(cut | flipped | moved | st.none() | st.just(b"{}"))
    assume(wrong != right)
    with pytest.raises(UntrustedError, match=f"bucket {bucket}: expected SHA-256"):
        check_targets(statement, buckets | {bucket: wrong}, targets)


@given(published, names, st.binary(max_size=8))
def test_a_bucket_that_was_empty_cannot_be_filled(targets, name, data):
    assume(bucket_of(name) not in {bucket_of(other) for other in targets})
    statement, buckets = proof(targets)
    forged = {bucket_of(name): encode_bucket({name: digest_of(data)})}
    with pytest.raises(UntrustedError, match="expected no node, found SHA-256"):
        check_targets(statement, buckets | forged, {**targets, name: data})


@given(published.filter(bool), published)
def test_a_bucket_of_another_publication_is_refused(targets, earlier):
    statement, _ = proof(targets)
    _, buckets = proof(earlier, *targets)
    assume(
        {bucket: data for bucket, data in buckets.items() if data is not None}
        != SignedTargets().after(targets).data
    )
    with pytest.raises(UntrustedError, match="bucket"):
        check_targets(statement, buckets, targets)


def test_each_deviation_is_listed():
    statement, buckets = proof({"app1": b"one", "app2": b"two", "app3": b"three"})
    bucket, empty = bucket_of("app1"), digest_of(b"{}")[:12]
    buckets[bucket] = b"{}"
    found = [
        str(deviation) for deviation in deviations(statement, buckets, {"app1": b"", "app2": b"", "app3": None})
    ]
    assert found == [
        f"bucket {bucket}: expected SHA-256 {statement.buckets[bucket][:12]}…, found SHA-256 {empty}…",
        f"target app2: expected SHA-256 {digest_of(b'two')[:12]}…, found SHA-256 {digest_of(b'')[:12]}…",
        f"target app3: expected SHA-256 {digest_of(b'three')[:12]}…, found no node",
    ]
