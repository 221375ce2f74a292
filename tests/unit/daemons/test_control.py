import pytest

from support.clocks import ManualClock
from zkdeployment.daemons.control import Control
from zkdeployment.errors import ShutdownError


def test_several_wakes_count_as_one():
    control = Control(ManualClock(), grace=30)
    control.wake()
    control.wake()
    assert control.wait(60)
    assert not control.wait(0)
    assert not control.stopping


def test_a_reload_is_asked_for_once():
    control = Control(ManualClock())
    assert not control.take_reload()
    control.reload()
    assert control.wait(60)
    assert control.take_reload()
    assert not control.take_reload()
    assert not control.stopping


def test_what_is_under_way_when_asked_to_end_has_its_grace():
    clock = ManualClock()
    control = Control(clock, grace=30)
    control.check()
    control.stop()
    control.wait(60)
    control.wait(60)
    with pytest.raises(ShutdownError):
        control.check()
    assert not control.overdue
    clock.time += 31
    control.stop()
    assert control.overdue
