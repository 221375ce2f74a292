"""Jobs: pending, processed or failed."""

import pytest

from zkdeployment.fleet.views.requests import Job, JobState, job_of
from zkdeployment.publishing.records import PublicationRecord, Refusal

RECORDS = [PublicationRecord(f"r{number}", 1.0, sequence=number * 10) for number in (3, 2, 1)]


def job(commit, *refusals):
    """Return the job of a commit; a revision contains the commits with a smaller number."""
    return job_of(commit, RECORDS, refusals, lambda revision: revision[1:] >= commit[1:])


@pytest.mark.parametrize(("commit", "sequence"), [("r3", 30), ("r2", 20), ("r1", 10), ("r25", 30)])
def test_a_commit_is_processed_with_the_first_publication_that_contains_it(commit, sequence):
    assert job(commit) == Job(commit, JobState.PROCESSED, sequence)


def test_a_commit_is_pending_until_it_is_published_or_refused():
    assert job("r5", Refusal("r4", ("bad",), 1.0)) == Job("r5", JobState.PENDING)
    assert job_of("r1", [], [], lambda _: False).state is JobState.PENDING


def test_a_refused_commit_failed_with_the_problems():
    failed = job("r4", Refusal("r4", ("a.zk:1:1: no",), 1.0))
    assert failed.to_json() == {
        "job": "r4",
        "state": "failed",
        "sequence": None,
        "problems": ["a.zk:1:1: no"],
        "refused": "r4",
    }


def test_a_commit_in_a_refused_tip_failed_with_the_problems_of_the_tip():
    refusals = [Refusal(f"r{number}", (f"bad {number}",), 1.0) for number in (5, 6)]
    assert job("r4", *refusals) == Job("r4", JobState.FAILED, problems=("bad 6",), refused="r6")
    assert job("r5", *refusals) == Job("r5", JobState.FAILED, problems=("bad 5",), refused="r5")


def test_a_commit_that_was_refused_and_published_later_is_processed():
    assert job("r2", Refusal("r2", ("no",), 1.0)).state is JobState.PROCESSED


def test_a_commit_that_was_published_before_the_branch_was_set_back_is_processed():
    records = [
        PublicationRecord(name, 1.0, sequence=sequence) for name, sequence in (("r1", 40), ("r3", 30), ("r1", 20))
    ]
    assert job_of("r2", records, (), lambda revision: revision >= "r2") == Job("r2", JobState.PROCESSED, 30)
