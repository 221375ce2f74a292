"""The four figures of software delivery, from literals."""

import pytest

from zkdeployment.base.deployment import HostResult
from zkdeployment.base.publication import Origin
from zkdeployment.fleet.views import history
from zkdeployment.publishing.records import PublicationRecord, PublicationSummary

NOW, DAY = 100 * 86_400.0, 86_400.0


def delivery_figures(summaries, now):
    return history.delivery_figures(history.publication_deliveries(summaries), now)


def published(day, *, took=600.0, failed=False, repaired_after=None, since=0, sequence=5, lead=3_600.0, done=2):
    """Return the summary of a publication ``day`` days ago, ``lead`` seconds after its commit."""
    at = NOW - day * DAY
    results = {
        str(number): HostResult(str(number), "h", at + took, 9.0, "boom" if failed and not number else None)
        for number in range(done)
    }
    if repaired_after is not None:
        repair = HostResult("0", "h", at + took + repaired_after, 9.0)
        results["0"] = repair.after(results["0"])
    origin = Origin("Ada", "Web", at - lead)
    return PublicationSummary.of(
        PublicationRecord("r", at, sequence, since, origin=origin, hosts=2, results=results)
    )


def test_the_frequency_counts_publications_of_four_weeks_that_concern_hosts():
    figures = delivery_figures([published(1), published(2, since=4, done=0), published(27), published(29)], NOW)
    assert (figures.publications, figures.per_week) == (2, 0.5)


def test_the_lead_time_is_the_median_from_the_commit_to_the_last_host_without_failed_publications():
    listed = [published(1, lead=100.0), published(2, lead=300.0), published(3, failed=True), published(4, done=0)]
    assert delivery_figures(listed, NOW).lead_time == 800.0


def test_a_publication_has_ended_when_all_its_hosts_have_it():
    assert delivery_figures([published(1, lead=100.0, done=1), published(2, lead=300.0)], NOW).lead_time == 900.0


@pytest.mark.parametrize(("failed", "rate"), [((), 0.0), ((1,), 0.25), ((1, 2), 0.5)])
def test_the_failure_rate_is_the_share_of_publications_that_failed_on_a_host(failed, rate):
    listed = [published(day, failed=day in failed) for day in range(1, 5)]
    assert delivery_figures(listed, NOW).failure_rate == rate


def test_the_time_to_restore_ends_with_the_next_publication_that_all_its_hosts_took_without_failure():
    listed = [
        published(1),
        published(2, done=0),
        published(3, failed=True),
        published(4, failed=True),
        published(5),
    ]
    assert delivery_figures(listed, NOW).restore_time == 3 * DAY


def test_a_repaired_publication_has_failed_and_is_restored_when_its_last_host_is_repaired():
    figures = delivery_figures([published(1, failed=True, repaired_after=50.0), published(2, lead=100.0)], NOW)
    assert (figures.failure_rate, figures.restore_time, figures.lead_time) == (0.5, 50.0, 700.0)


def test_a_failure_that_is_not_mended_yet_and_an_empty_history_have_no_figures():
    assert delivery_figures([published(1, failed=True)], NOW).restore_time is None
    empty = delivery_figures([], NOW)
    assert (empty.lead_time, empty.failure_rate, empty.restore_time, empty.publications) == (None, None, None, 0)


def test_the_figures_of_past_weeks_do_not_know_what_came_later():
    deliveries = [
        history.Delivery(NOW - DAY, NOW - 2 * DAY, NOW - DAY / 2),
        history.Delivery(NOW - 8 * DAY, NOW - 9 * DAY, NOW - 6 * DAY),  # it ended in the last week
        history.Delivery(NOW - 20 * DAY, None, None, failed=True, failed_at=NOW - 20 * DAY),
    ]
    weeks = history.weekly_figures(deliveries, NOW, 4)
    assert [week.publications for week in weeks] == [0, 1, 2, 3]
    assert [week.failure_rate for week in weeks] == [None, 1.0, 0.5, pytest.approx(1 / 3)]
    assert [week.lead_time for week in weeks] == [None, None, None, 2.25 * DAY]
    assert weeks[-1] == history.delivery_figures(deliveries, NOW)
