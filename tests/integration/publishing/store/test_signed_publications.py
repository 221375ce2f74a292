"""The reads of a signed publication by a host with publishers."""

from __future__ import annotations

from support.zookeeper import sent_requests
from zkdeployment.base.host import Identity
from zkdeployment.publishing.signing.statement import bucket_of
from zkdeployment.publishing.store.signed import ZooKeeperSignedPublications

SIGNED = "/zkdeployment/signed"


def test_a_host_reads_the_statement_and_the_buckets_of_its_three_names_with_one_request(session, monkeypatch):
    sent = sent_requests(session, monkeypatch)
    ZooKeeperSignedPublications(session).snapshot(Identity("h1", "h1.example.com", role="web"))
    (request,) = sent
    read = {path[path.index("/zkdeployment/") :] for each in request.reads if SIGNED in (path := each.path)}
    assert read == {SIGNED, *(f"{SIGNED}/{bucket_of(name)}" for name in ("h1", "h1.example.com", "web"))}
    assert len(read) == 4
