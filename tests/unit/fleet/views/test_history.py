import pytest

from zkdeployment.base.act import Act
from zkdeployment.base.deployment import HostResult
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.machine.reboots import RebootRecord
from zkdeployment.fleet.views.history import (
    acts_during,
    by_importance,
    duration_sentence,
    find_record,
    hosts_text,
    publication_body,
    reboots_during,
)
from zkdeployment.publishing.records import PublicationRecord

COMMIT = "0123456789abcdef0123456789abcdef01234567"
RECORDS = (
    PublicationRecord(COMMIT, 300.0, sequence=30),
    PublicationRecord(12, 200.0, sequence=20),
    PublicationRecord(COMMIT, 100.0, sequence=10),
)
ACTS = [
    Act("ann@desk", action, "", time) for action, time in (("stop", 150.0), ("resume", 199.0), ("hold", 310.0))
]


@pytest.mark.parametrize(
    ("text", "sequence"), [(COMMIT, 30), (COMMIT[:7], 30), ("12", 20), ("10", 10), ("30", 30)]
)
def test_a_publication_is_found_by_revision_or_sequence_the_newest_of_a_revision(text, sequence):
    assert find_record(RECORDS, text).sequence == sequence


@pytest.mark.parametrize(
    ("since", "done", "text"),
    [
        (0, 0, "0 of 3 hosts done"),
        (0, 2, "2 of 3 hosts done"),
        (10, 0, "nothing changed for hosts"),
        (10, 1, "nothing changed for hosts; 1 host done since"),
    ],
)
def test_hosts_are_counted_unless_nothing_changed_for_them(since, done, text):
    results = {str(number): HostResult(str(number), "h", 300.0, 1.0) for number in range(done)}
    assert hosts_text(PublicationRecord(COMMIT, 300.0, 20, since, hosts=3, results=results)) == text


@pytest.mark.parametrize("text", [COMMIT[:6], "fedcba9", "", "1", "0123456x"])
def test_a_publication_that_is_not_in_the_history_is_refused(text):
    with pytest.raises(RefusedError, match="the history has no publication of"):
        find_record(RECORDS, text)


def test_acts_belong_to_the_publication_that_they_came_after():
    assert [[act.what for act in acts_during(RECORDS, record, ACTS)] for record in RECORDS] == [
        ["hold"],
        [],
        ["stop", "resume"],
    ]


def test_hosts_that_failed_come_first():
    done, failed = HostResult("h1", "a", 1.0, 1.0), HostResult("h2", "b", 2.0, 1.0, "no")
    assert by_importance([done, failed]) == [failed, done]
    record = PublicationRecord("r", 1.0, results={"h1": done, "h2": failed})
    document = publication_body(record, [record], ACTS[:1], [], now=5.0)
    assert [result["id"] for result in document["results"]] == ["h2", "h1"]
    assert (document["acts"], document["failed"], document["left_out"]) == ([ACTS[0].to_json()], 1, 0)


def test_hosts_that_reboot_for_a_publication_belong_to_it_until_they_are_back_or_too_late():
    def reboot(number, sequence=7, **changed):
        return RebootRecord(
            f"h{number}", f"app{number}", "r", sequence, "/os", 0, "reboot for /os", "b", 1.0, 901.0, **changed
        )

    record = PublicationRecord("r", 1.0, 7)
    reboots = [reboot(2), reboot(3, sequence=6), reboot(1), reboot(4, expired=True)]
    assert reboots_during(record, reboots) == [reboot(1), reboot(2)]
    document = publication_body(record, [record], (), [], reboots, now=5.0)
    assert [each["deadline"] for each in document["reboots"]] == [901.0, 901.0]


def test_the_pace_of_the_last_publications_predicts_the_time_that_hosts_take():
    def record(seconds, hosts):
        results = {f"h{n}": HostResult(f"h{n}", f"h{n}", 100.0 + seconds, 1.0) for n in range(hosts)}
        return PublicationRecord(COMMIT, 100.0, results=results)

    records = [record(40.0, 2), record(600.0, 3), record(60.0, 3)]

    def sentence(hosts, records, *, governed=False):
        return duration_sentence(hosts, records, governed=governed)

    assert sentence(116, records) == "116 hosts take about 38 min at the pace of the last publications."
    assert sentence(1, records) == "1 host takes about 20 s at the pace of the last publications."
    assert sentence(116, [record(0.0, 2), record(60.0, 0)]) == ""
    assert sentence(0, records) == ""
    assert sentence(116, records, governed=True) == ""  # groups, bakes and decisions determine the time
