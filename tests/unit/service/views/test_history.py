"""The pages of the history: publications by pages, and the outcome of one on each host."""

from zkdeployment.base.act import Act
from zkdeployment.base.deployment import HostResult
from zkdeployment.base.machine.reboots import RebootRecord
from zkdeployment.base.publication import Origin
from zkdeployment.publishing.records import ForcedBy, PublicationRecord, PublicationSummary, Refusal
from zkdeployment.service.views.history import (
    PAGE_SIZE,
    TreeDifference,
    history_view,
    previous_publication,
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


def publication(records, chosen, *, page=1, acts=(), may_roll_back=False, difference=None, reboots=()):
    return publication_view(
        records,
        chosen,
        acts,
        (),
        difference,
        reboots,
        page=page,
        now=NOW,
        may_roll_back=may_roll_back,
        may_compare=True,
    )


def test_the_page_of_a_publication_names_the_hosts_that_reboot_with_their_deadlines():
    reboot = RebootRecord("h1", "app1", "r2", 7, "/os", 0, "reboot for /os", "b", 60.0, 960.0)
    view = publication([record(7)], record(7), reboots=[reboot])
    assert view.facts[-1] == (
        "Rebooting",
        "app1 reboots since 00:01 UTC for 'reboot for /os', expected back by 00:16 UTC",
    )


def listed(records, page=1, day="", now=NOW):
    summaries = [PublicationSummary.of(each) for each in records]
    return history_view(summaries, summaries, page, now, day)


def test_the_last_refused_pushes_stand_below_the_publications():
    refusals = [Refusal(f"{number:040x}", ("oops",), NOW - 60, "Jane <j@x>", "Web") for number in range(30)]
    shown = history_view((), (), 1, NOW, refusals=refusals).refused
    assert (len(shown), shown[0].revision, shown[-1].revision) == (20, f"{29:040x}"[:12], f"{10:040x}"[:12])
    assert (shown[0].href, shown[0].subject, shown[0].author) == (f"/commits/{29:040x}", "Web", "Jane")
    assert shown[0].problems == ("oops",)


def test_the_list_has_pages():
    records = [record(number) for number in range(2 * PAGE_SIZE + 1, 0, -1)]

    first, second, third = (listed(records[: page * PAGE_SIZE + 1], page) for page in (1, 2, 3))

    assert (len(first.rows), first.newer, first.older) == (PAGE_SIZE, None, "/history?page=2")
    assert (len(second.rows), second.newer, second.older) == (PAGE_SIZE, "/history", "/history?page=3")
    assert (len(third.rows), third.newer, third.older) == (1, "/history?page=2", None)


def test_a_row_counts_hosts_and_names_who_forced_it():
    forced = record(results=[result(1), result(2, "boom")], hosts=3, forced=ForcedBy("ann", "the fix"))

    (row,) = listed([forced]).rows

    assert (row.hosts, row.failed, row.took) == ("1 of 3 hosts done", 1, "1 min")
    assert (row.author, row.forced_by) == ("Jane", "ann")


def test_failures_come_first_and_acts_during_the_publication_are_shown():
    chosen = record(results=[result(1), result(2, "boom")], hosts=2, excluded=1, forced=ForcedBy("ann"))
    acts = [Act("ann", "stop", "web loses sessions", 9_100.0), Act("bob", "stop", "earlier", 8_000.0)]

    found = publication([chosen], chosen, acts=acts)

    assert [row.outcome for row in found.results] == ["failed: boom", "done"]
    assert [text for _, text in found.acts] == ["stop by ann: web loses sessions"]
    assert ("Forced by", "ann: no reason given") in found.facts
    assert ("Not awaited", "1 host in no group or in maintenance") in found.facts
    assert ("Signed by", "ann's key") in found.facts


def test_a_day_with_many_publications_has_pages():
    records = [record(number) for number in range(PAGE_SIZE + 2, 0, -1)]

    first, second = listed(records, day="1970-01-01"), listed(records, 2, day="1970-01-01")

    assert (len(first.rows), first.older) == (PAGE_SIZE, "/history?day=1970-01-01&page=2")
    assert (len(second.rows), second.newer, second.older) == (2, "/history?day=1970-01-01", None)


def test_many_results_have_pages():
    chosen = record(results=[result(number) for number in range(PAGE_SIZE + 5)])

    first, second = publication([chosen], chosen), publication([chosen], chosen, page=2)

    assert (first.range, first.next) == ("1 to 50 of 55 hosts", "/history/7?page=2")
    assert (len(second.results), second.previous, second.next) == (5, "/history/7", None)


def test_the_difference_of_the_tree_and_the_rollback_are_offered_when_they_are_known():
    chosen = record()

    found = publication([chosen], chosen, may_roll_back=True, difference=TreeDifference(("~ /shop/web",)))

    assert found.difference == TreeDifference(("~ /shop/web",))
    assert found.show_changes is None
    assert publication([chosen], chosen).show_changes == "/history/7?changes=yes#changes"
    assert found.rollback == "/acts/rollback?sequence=7&back=%2Fhistory%2F7"
    assert publication([chosen], chosen).rollback is None


def test_the_publication_before_is_found_by_its_sequence():
    summaries = [PublicationSummary.of(record(sequence)) for sequence in (9, 7, 4)]

    assert previous_publication(summaries, 7) is summaries[2]
    assert previous_publication(summaries, 4) is None


MONDAY = 1_796_601_600.0  # 2026-12-07
HOUR, DAY = 3_600.0, 86_400.0


def published(day, sequence, *, failed=False, done=3, since=0, nodes=4, took=600.0, author="Ada Byron <ada@x>"):
    """Return a publication ``day`` days before Monday, for three hosts."""
    at = MONDAY - day * DAY
    results = [
        HostResult(f"h{number}", f"h{number}", at + took, 9.0, "boom" if failed and not number else None)
        for number in range(done)
    ]
    return PublicationRecord(
        f"r{sequence}",
        at,
        sequence,
        since,
        origin=Origin(author, f"Web {sequence}", at - HOUR),
        hosts=3,
        nodes=nodes,
        results={result.host_id: result for result in results},
    )


def test_the_strip_shows_outcome_duration_size_and_author_of_the_last_publications():
    records = [
        published(0, 5, done=1),
        published(1, 4, since=3, done=0, nodes=0),
        published(2, 3, took=2400.0, nodes=16, author="Bob"),
        published(3, 2, done=2),
        published(4, 1, failed=True),
    ]
    bars = listed(records, now=MONDAY).strip
    assert [bar.tone for bar in bars] == ["failed", "behind", "converged", "excluded", "deploying"]
    assert [bar.height for bar in bars] == [40, 40, 80, 4, 40]
    assert [bar.size for bar in bars] == [4, 4, 9, 0, 4]
    assert [bar.initials for bar in bars] == ["AB", "AB", "B", "AB", "AB"]
    assert bars[1].label == (
        "Web 2, by Ada Byron, superseded before all hosts were done, 2 of 3 hosts done, took 10 min,"
        " 4 nodes of the tree changed"
    )
    assert bars[3].label.startswith("Web 4, by Ada Byron, documents only, nothing changed for hosts")
    assert bars[2].href == "/history/3"


def test_the_strip_shows_at_most_forty_publications_and_unknown_sizes_have_no_circle():
    records = [published(0, sequence, nodes=None) for sequence in range(50, 0, -1)]
    bars = listed(records, now=MONDAY).strip
    assert (len(bars), bars[0].href, bars[-1].href) == (40, "/history/11", "/history/50")
    assert {bar.size for bar in bars} == {0}


def test_the_calendar_has_weeks_as_columns_and_marks_days_with_failures():
    records = [published(0, 3), published(0, 2), published(1, 1, failed=True)]
    calendar = listed(records, now=MONDAY, day="2026-12-07").calendar
    sunday, monday = sorted(calendar.cells, key=lambda cell: cell.label)
    assert (sunday.x, sunday.y, sunday.failed, sunday.selected) == (24 * 14, 6 * 14, True, False)
    assert (monday.x, monday.y, monday.level, monday.selected) == (25 * 14, 0, 2, True)
    assert monday.label == "2026-12-07: 2 publications"
    assert sunday.label == "2026-12-06: 1 publication, 1 with failures"
    assert calendar.summary == "3 publications on 2 days since 2026-06-15"
    assert calendar.quiet.count("M") == 25 * 7 - 1


def test_a_day_lists_its_publications_only():
    records = [published(0, 3), published(1, 2), published(1, 1)]
    view = listed(records, day="2026-12-06", now=MONDAY)
    assert [row.href for row in view.rows] == ["/history/2", "/history/1"]
    assert listed(records, day="2020-01-01", now=MONDAY).rows == ()


def test_without_publications_there_are_no_figures():
    view = listed([], now=MONDAY)
    assert (view.strip, view.calendar.cells) == ((), ())
    assert {figure.value for figure in view.figures} == {"none yet"}


def test_each_figure_has_its_course_over_twelve_weeks():
    records = [published(0, 4), published(7, 3, failed=True), published(30, 2), published(31, 1)]
    figures = {figure.name: figure for figure in listed(records, now=MONDAY).figures}
    frequency, rate = figures["Deployment frequency"], figures["Change failure rate"]
    assert frequency.value == "0.5 a week"
    assert frequency.course == "Deployment frequency over 12 weeks: 0.5 a week to 0.8 a week"
    assert frequency.path.startswith("M84 ")
    assert frequency.path.count("L") == 4
    assert rate.course == "Change failure rate over 12 weeks: 0 % to 50 %"
    assert figures["Time to restore"].path == ""


def test_weeks_without_a_value_are_gaps_in_the_course():
    records = [published(0, 2), published(50, 1)]
    path = next(each.path for each in listed(records, now=MONDAY).figures if each.name == "Change failure rate")
    assert path.count("M") == 2
