"""The pages of the history: publications by pages, and the outcome of one on each host."""

from zkdeployment.base.act import Act
from zkdeployment.base.deployment import HostResult
from zkdeployment.base.publication import Origin
from zkdeployment.publishing.records import ForcedBy, PublicationRecord
from zkdeployment.service.views.history import (
    PAGE_SIZE,
    TreeDifference,
    history_view,
    previous_record,
    publication_view,
)

NOW = 10_000.0


def record(sequence=7, results=(), **fields):
    return PublicationRecord(
        "r2",
        9_000.0,
        sequence,
        origin=Origin("Jane <j@x>", "Web 1.3", 8_900.0, "ann's key"),
        results={result.host_id: result for result in results},
        **fields,
    )


def result(number, error=None):
    return HostResult(f"h{number:03}", f"h{number:03}.example.com", 9_060.0 + number, 61.0, error)


def publication(records, chosen, *, page=1, acts=(), may_roll_back=False, difference=None):
    return publication_view(
        records,
        chosen,
        acts,
        (),
        difference,
        page=page,
        now=NOW,
        may_roll_back=may_roll_back,
        may_compare=True,
    )


def test_the_list_has_pages():
    records = [record(number) for number in range(2 * PAGE_SIZE + 1, 0, -1)]

    first, second, third = (history_view(records[: page * PAGE_SIZE + 1], page, NOW) for page in (1, 2, 3))

    assert (len(first.rows), first.newer, first.older) == (PAGE_SIZE, None, "/history?page=2")
    assert (len(second.rows), second.newer, second.older) == (PAGE_SIZE, "/history", "/history?page=3")
    assert (len(third.rows), third.newer, third.older) == (1, "/history?page=2", None)


def test_a_row_counts_hosts_and_names_who_forced_it():
    forced = record(results=[result(1), result(2, "boom")], hosts=3, forced=ForcedBy("ann", "the fix"))

    (row,) = history_view([forced], 1, NOW).rows

    assert (row.done, row.failed, row.expected, row.took) == (1, 1, 3, "1 min")
    assert (row.author, row.forced_by) == ("Jane", "ann")


def test_failures_come_first_and_acts_during_the_publication_are_shown():
    chosen = record(results=[result(1), result(2, "boom")], hosts=2, excluded=1, forced=ForcedBy("ann"))
    acts = [Act("ann", "stop", "web loses sessions", 9_100.0), Act("bob", "stop", "earlier", 8_000.0)]

    found = publication([chosen], chosen, acts=acts)

    assert [row.error for row in found.results] == ["boom", ""]
    assert [text for _, text in found.acts] == ["stop by ann: web loses sessions"]
    assert ("Forced by", "ann: no reason given") in found.facts
    assert ("In no group", "1 hosts keep their revision") in found.facts
    assert ("Signed by", "ann's key") in found.facts


def test_many_results_have_pages():
    chosen = record(results=[result(number) for number in range(PAGE_SIZE + 5)])

    first, second = publication([chosen], chosen), publication([chosen], chosen, page=2)

    assert (first.range, first.next) == ("1 to 50 of 55", "/history/7?page=2")
    assert (len(second.results), second.previous, second.next) == (5, "/history/7?page=1", None)


def test_the_difference_of_the_tree_and_the_rollback_are_offered_when_they_are_known():
    chosen = record()

    found = publication([chosen], chosen, may_roll_back=True, difference=TreeDifference(("~ /shop/web",)))

    assert found.difference == TreeDifference(("~ /shop/web",))
    assert found.show_changes is None
    assert publication([chosen], chosen).show_changes == "/history/7?changes=yes#changes"
    assert found.rollback == "/acts/rollback?sequence=7&back=%2Fhistory%2F7"
    assert publication([chosen], chosen).rollback is None


def test_the_publication_before_is_found_by_its_sequence():
    records = [record(9), record(7), record(4)]

    assert previous_record(records, 7) is records[2]
    assert previous_record(records, 4) is None
