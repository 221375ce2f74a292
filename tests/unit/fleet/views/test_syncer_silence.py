import pytest

from zkdeployment.fleet.views.requests import describe_silence
from zkdeployment.publishing.records import SyncerReport

NOW = 10_000.0


def report(silent, unread=0.0, interval=60.0):
    return SyncerReport("syncer on s1", "cannot fetch", interval, NOW - silent, NOW - silent - unread)


@pytest.mark.parametrize(
    ("syncer", "is_stopped", "found"),
    [
        (None, False, []),
        (report(180), False, []),
        (report(181), False, ["is silent since"]),
        (report(181), True, ["is silent since"]),
        (report(59, interval=1.0), False, []),
        (report(61, interval=1.0), False, ["is silent since"]),
        (report(5, unread=600), False, ["last read the repository 10 min ago: cannot fetch"]),
        (report(5, unread=600), True, []),
    ],
)
def test_a_syncer_is_late_after_three_intervals_and_a_minute(syncer, is_stopped, found):
    sentences = describe_silence(syncer, NOW, is_stopped=is_stopped)

    assert len(sentences) == len(found)
    for sentence, part in zip(sentences, found, strict=True):
        assert sentence.startswith(f"the syncer {part}")
        assert sentence.endswith("; newer commits may wait")
