"""A host acts only on signed content: the revision, the strategy and the properties."""

import pytest

from zkdeployment.base.deployment import Assignment
from zkdeployment.base.errors import UntrustedError
from zkdeployment.publishing.signing.snapshot import SignedSnapshot, check_properties, check_snapshot
from zkdeployment.publishing.signing.standing import SignedTargets
from zkdeployment.publishing.signing.statement import Statement, bucket_of, strategy_digest
from zkdeployment.strategies.strategy import Strategy
from zkdeployment.tree.values import properties_digest

STRATEGY = Strategy("one", ())


def signed(strategy=None):
    """Return the snapshot of a host with a target, and the statement that belongs to it."""
    targets = SignedTargets().after({"h1": b"[]"})
    snapshot = SignedSnapshot(buckets=dict(targets.data), targets={"h1": b"[]"}, strategy=strategy)
    return snapshot, Statement(7, 7, "r1", strategy_digest(strategy), targets.digests)


@pytest.mark.parametrize("strategy", [None, STRATEGY])
def test_what_was_signed_is_accepted(strategy):
    check_snapshot(*signed(strategy), "r1")


def test_another_cluster_version_is_refused():
    with pytest.raises(UntrustedError, match=r"expected r2, the cluster version, found r1 \(publication 7\)"):
        check_snapshot(*signed(), "r2")


@pytest.mark.parametrize(
    ("right", "wrong"), [(None, STRATEGY), (STRATEGY, None), (STRATEGY, Strategy("other", ()))]
)
def test_another_strategy_is_refused(right, wrong):
    (_, statement), (snapshot, _) = signed(right), signed(wrong)
    with pytest.raises(UntrustedError, match="ZooKeeper does not hold the strategy that was signed"):
        check_snapshot(snapshot, statement, "r1")


def test_a_target_without_proof_is_refused():
    snapshot, statement = signed()
    bucket = bucket_of("h2")
    forged = SignedSnapshot(buckets={**snapshot.buckets, bucket: None}, targets={"h1": b"[]", "h2": b"[]"})
    with pytest.raises(UntrustedError, match="target h2: expected no node"):
        check_snapshot(forged, statement, "r1")


def service(digest):
    return Assignment(path="/who/web", n=1, package="foo", application="foo", properties=digest)


def test_properties_are_those_that_were_signed():
    check_properties([service(properties_digest({"a": 1, "b": 2}))], {"/who/web": {"b": 2, "a": 1}})


@pytest.mark.parametrize("digest", [properties_digest({"a": 1}), None])
def test_other_properties_and_those_without_a_digest_are_refused(digest):
    with pytest.raises(UntrustedError, match="the properties of /who/web are not those that were signed"):
        check_properties([service(digest)], {"/who/web": {"a": 2}})
