"""The record of publications, on a real ZooKeeper."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from support.zookeeper import write_node
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.base.deployment import FormerFailure, HostResult
from zkdeployment.base.publication import Origin
from zkdeployment.publishing.records import ForcedBy, Publication, PublicationRecord
from zkdeployment.publishing.store import history
from zkdeployment.publishing.store.history import PublicationMemory, folded, merge, read_history
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.tree.values import TreeChange
from zkdeployment.zookeeper.nodes import unpack
from zkdeployment.zookeeper.transactions import NODE_LIMIT

ORIGIN = Origin("Ann <ann@example.com>", "web 1.4", 90.0)
PARENT = "/zkdeployment/history"


def done(number, time=100.0):
    return HostResult(f"h{number}", f"app{number}", time, 1.5)


@pytest.fixture
def publish(session):
    def call(sequence, revision=None, limit=500):
        store = ZooKeeperPublications(session, history=limit)
        record = PublicationRecord(
            revision or f"r{sequence}", 10.0 * sequence, origin=ORIGIN, forced=ForcedBy("bob", "why")
        )
        publication = Publication(
            record.revision,
            TreeChange(),
            {},
            expected=store.published_state().cluster,
            sequence=sequence,
            record=record,
        )
        store.publish(publication)

    return call


@pytest.fixture
def fleet(session):
    return ZooKeeperFleet(session)


def test_a_publication_is_recorded_with_the_result_of_each_host(session, publish, fleet, client):
    client.create("/hosts", b'{"version": "initial"}')
    client.create("/hosts/h1", ephemeral=True)
    publish(7)
    fleet.record_result("r7", done(1))
    fleet.record_result("r7", replace(done(2), error="deploy /a 0: no"))
    (record,) = read_history(session)
    assert record == PublicationRecord(
        "r7",
        70.0,
        sequence=7,
        since=7,
        origin=ORIGIN,
        forced=ForcedBy("bob", "why"),
        hosts=1,
        results={"h1": done(1), "h2": replace(done(2), error="deploy /a 0: no")},
    )
    fleet.record_result("r7", done(2, 120.0))
    repaired = replace(done(2, 120.0), former=FormerFailure("deploy /a 0: no", done(2).time))
    assert read_history(session)[0].results["h2"] == repaired, "a later attempt keeps the first failure"


def test_a_version_that_was_set_by_hand_has_no_record(publish, fleet, client):
    fleet.record_result("r0", done(1))
    publish(7)
    fleet.record_result("by hand", done(1))
    assert client.get_children(f"{PARENT}/0000000007") == []
    client.delete(f"{PARENT}/0000000007")
    fleet.record_result("r7", done(1))
    assert client.get_children(PARENT) == []


def test_the_next_publication_merges_the_results_of_hosts_into_one_node(
    session, publish, fleet, client, monkeypatch
):
    monkeypatch.setattr(history, "_CHUNK", 2)
    publish(7)
    for number in range(5):
        fleet.record_result("r7", done(number))
    before = read_history(session)
    publish(8)
    assert client.get_children(f"{PARENT}/0000000007") == []
    assert read_history(session)[1:] == before
    assert [result["id"] for result in unpack(client.get(f"{PARENT}/0000000007")[0])["results"]] == [
        f"h{number}" for number in range(5)
    ]
    # A result that arrives after the merge is merged by the next publication.
    write_node(client, f"{PARENT}/0000000007/h9", done(9).to_json())
    publish(9)
    assert set(read_history(session)[2].results) == {"h0", "h1", "h2", "h3", "h4", "h9"}
    assert client.get_children(f"{PARENT}/0000000007") == []


def test_records_beyond_the_limit_are_deleted(session, publish, fleet):
    for sequence in range(1, 6):
        publish(sequence, limit=3)
        fleet.record_result(f"r{sequence}", done(1))
    assert [record.sequence for record in read_history(session)] == [5, 4, 3]
    publish(6, limit=1)
    assert [record.sequence for record in read_history(session)] == [6]


def test_a_read_may_be_limited_to_the_latest_records(session, publish):
    for sequence in (1, 2, 3):
        publish(sequence)
    assert [record.revision for record in read_history(session, 2)] == ["r3", "r2"]


def test_a_summary_is_kept_only_when_hosts_no_longer_add_to_the_publication(session, publish, fleet, client):
    memory = PublicationMemory(session)
    publish(1)
    fleet.record_result("r1", done(1))
    assert memory.read()[0].done == 1
    fleet.record_result("r1", done(2))
    for sequence in range(2, 6):
        publish(sequence)
    assert memory.read()[-1].done == 2
    client.delete(f"{PARENT}/0000000001")
    client.create(f"{PARENT}/0000000001")
    assert memory.read()[-1].done == 2, "the settled publication is not read again"


def test_a_revision_that_is_published_again_has_a_second_record(session, publish, fleet):
    publish(1, "same")
    fleet.record_result("same", done(1))
    publish(2, "same")
    fleet.record_result("same", done(2))
    assert [set(record.results) for record in read_history(session)] == [{"h2"}, {"h1"}]


def test_a_damaged_record_does_not_hide_others(session, publish, client):
    publish(1)
    publish(2)
    client.set(f"{PARENT}/0000000001", b"rubbish")
    client.create(f"{PARENT}/stray")
    assert [record.revision for record in read_history(session)] == ["r2", "?"]


def test_a_publication_succeeds_although_the_history_cannot_be_compacted(session, publish, fleet, client):
    publish(1)
    fleet.record_result("r1", done(1))
    client.create(f"{PARENT}/0000000001/h1/below", b"")  # so that h1 cannot be deleted
    publish(2)
    assert [record.revision for record in read_history(session)] == ["r2", "r1"]
    assert client.get("/hosts")[0] == b'{"version":"r2"}'


def test_results_that_exceed_the_node_limit_are_counted_and_failures_are_kept():
    chance = random.Random(1)
    many = {
        f"{chance.getrandbits(64):x}": replace(done(1), host_name=f"{chance.getrandbits(2000):x}")
        for _ in range(4000)
    }
    results = {host_id: replace(result, host_id=host_id) for host_id, result in many.items()}
    failed = replace(done(9), error="x" * 300)
    data = folded(PublicationRecord("r", 1.0, results={**results, "h9": failed}))
    assert len(data) <= NODE_LIMIT
    record = PublicationRecord.from_json(unpack(data))
    assert (record.results, record.left_out, record.done, record.failed) == ({"h9": failed}, 4000, 4000, 1)
    small = PublicationRecord.from_json(
        unpack(folded(PublicationRecord("r", 1.0, results={"h9": failed}), room=10))
    )
    assert small.results["h9"].error == "x" * 20


def test_of_two_results_of_a_host_the_later_is_kept():
    early, late = done(1, 5.0), done(1, 6.0)
    assert merge({"h1": early}, {"h1": late}) == merge({"h1": late}, {"h1": early}) == {"h1": late}
