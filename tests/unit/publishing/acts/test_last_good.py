"""The last good revision of the history."""

from zkdeployment.base.deployment import HostResult
from zkdeployment.publishing.acts.rollback import last_good_revision
from zkdeployment.publishing.records import PublicationRecord


def record(revision, sequence, *, since=0, failed=False, hosts=1):
    result = HostResult("h1", "h1", 1.0, 1.0, "boom" if failed else None)
    results = {} if 0 < since < sequence else {"h1": result}
    return PublicationRecord(revision, 1.0, sequence, hosts=hosts, results=results, since=since)


def good(*records):
    return last_good_revision(records, lambda _: ())


def test_the_last_revision_before_the_current_one_that_all_hosts_reached_is_good():
    assert good(record("r3", 3), record("r2", 2, failed=True), record("r1", 1)) == "r1"
    assert good(record("r3", 3), record("r2", 2, hosts=2), record("r1", 1)) == "r1"
    assert good(record("r1", 1)) is None
    assert good() is None


def test_a_publication_of_documents_is_as_good_as_the_one_before_it():
    bad = record("d2", 4, since=3), record("r2", 3, failed=True)
    assert good(record("r3", 5), *bad, record("d1", 2, since=1), record("r1", 1)) == "d1"


def test_revisions_with_the_current_tree_are_not_targets_of_a_rollback():
    assert good(record("d2", 4, since=3), record("r2", 3), record("r1", 1)) == "r1"


def test_after_a_refused_push_the_current_revision_is_good_if_it_succeeded():
    records = record("r3", 3), record("r2", 2), record("r1", 1)
    failed = record("r3", 3, failed=True), *records[1:]
    assert last_good_revision(records, lambda _: (), with_current=True) == "r3"
    assert last_good_revision(failed, lambda _: (), with_current=True) == "r2"
