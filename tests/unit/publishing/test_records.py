import json

from zkdeployment.base.deployment import HostResult
from zkdeployment.base.publication import Origin
from zkdeployment.publishing.records import (
    ForcedBy,
    GuardOverrides,
    PublicationOutcome,
    PublicationRecord,
    PublicationSummary,
)

RESULTS = {
    "h1": HostResult("h1", "app1", 110.0, 9.5),
    "h2": HostResult("h2", "app2", 115.0, 3.0, "deploy /a 0: exit status 1"),
}
RECORD = PublicationRecord(
    "r1",
    100.0,
    sequence=7,
    origin=Origin("Ann <ann@example.com>", "web 1.4", 90.0, signer="Ann SHA256:abc"),
    forced=ForcedBy("bob@desk", "it burns"),
    hosts=3,
    results=RESULTS,
    left_out=2,
)


def test_a_record_is_read_back_unchanged():
    assert PublicationRecord.from_json(json.loads(json.dumps(RECORD.to_json()))) == RECORD
    plain = PublicationRecord("r1", 100.0)
    assert PublicationRecord.from_json(plain.to_json()) == plain
    assert HostResult.from_json(RESULTS["h2"].to_json()) == RESULTS["h2"]


def test_a_repaired_host_keeps_its_first_failure():
    first, second = HostResult("h1", "a", 1.0, 9.0, "boom"), HostResult("h1", "a", 2.0, 9.0, "bang")
    repaired = HostResult("h1", "a", 3.0, 9.0).after(second.after(first))
    record = PublicationRecord("r1", 0.0, hosts=1, results={"h1": repaired})
    summary = PublicationSummary.of(record)

    assert (record.done, record.failed, record.repaired) == (1, 0, 1)
    assert (summary.first_failure, summary.outcome(newest=True)) == (1.0, PublicationOutcome.REPAIRED)
    assert repaired.account == "done after a repair; it failed at first: boom"
    assert HostResult.from_json(repaired.to_json()) == repaired
    assert (first.account, HostResult("h1", "a", 3.0, 9.0).account) == ("failed: boom", "done")


def test_a_result_that_is_merged_with_itself_stays_the_same():
    failed = HostResult("h1", "a", 1.0, 9.0, "boom")
    assert failed.after(failed) == failed


def test_the_record_of_a_forced_publication_names_the_overridden_guards():
    overrides = GuardOverrides(rewind=True, package_problems=True)
    assert str(ForcedBy("ann@desk", "", str(overrides))) == (
        "ann@desk (--allow-rewind --allow-package-problems): no reason given"
    )
    assert str(ForcedBy("ann@desk", "it burns")) == "ann@desk: it burns"


def test_a_record_counts_results_and_knows_its_end():
    assert (RECORD.done, RECORD.failed, RECORD.ended) == (3, 1, 115.0)
    assert PublicationRecord("r1", 100.0).ended is None
    assert RECORD.summary() == {
        "revision": "r1",
        "time": 100.0,
        "sequence": 7,
        "since": 0,
        "author": "Ann <ann@example.com>",
        "subject": "web 1.4",
        "committed": 90.0,
        "signer": "Ann SHA256:abc",
        "forced_by": "bob@desk",
        "reason": "it burns",
        "hosts": 3,
        "excluded": 0,
        "nodes": None,
        "done": 3,
        "failed": 1,
        "repaired": 0,
        "ended": 115.0,
    }


def test_malformed_values_read_as_unknown():
    record = PublicationRecord.from_json(
        {"revision": [], "time": "x", "hosts": 1e300, "results": [1, {}, {"error": 5}]}
    )
    assert (record.revision, record.time, record.hosts) == ("?", 0.0, 0)
    assert record.results == {"?": HostResult("?", "?", 0.0, 0.0, "5")}


def test_hosts_in_no_group_are_not_expected_to_deploy_a_publication():
    record = PublicationRecord("r1", 100.0, hosts=3, excluded=1)
    assert record.expected == 2
    assert PublicationRecord.from_json(record.to_json()) == record
    former = record.to_json()
    del former["excluded"]
    assert PublicationRecord.from_json(former).expected == 3
