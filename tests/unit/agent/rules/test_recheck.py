"""When a deployment that waits asks ZooKeeper again: after a change, in a new session, and now and then."""

from support.waiting import ManualClock
from zkdeployment.agent.rules.waiting import Recheck


def test_the_conditions_are_read_at_first_and_again_only_after_a_change():
    recheck = Recheck(ManualClock(), lambda: 7)
    assert (recheck.is_due, recheck.is_late) == (True, False)
    changed = recheck.begin()
    assert not recheck.is_due
    changed()
    assert (recheck.is_due, recheck.is_late) == (True, False)
    recheck.begin()
    assert not recheck.is_due


def test_watches_end_with_their_session():
    sessions = [7]
    recheck = Recheck(ManualClock(), lambda: sessions[-1])
    recheck.begin()
    sessions.append(8)
    assert recheck.is_due


def test_a_watch_that_never_fires_is_not_relied_upon_for_long():
    clock = ManualClock()
    recheck = Recheck(clock, lambda: 7)
    recheck.begin()
    clock.time += 200
    assert (recheck.is_due, recheck.is_late) == (False, False)
    clock.time += 200
    assert (recheck.is_due, recheck.is_late) == (True, True)
