import pytest

from support.waiting import ManualClock
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.errors import ShutdownError


def test_several_wakes_end_only_one_wait():
    control = Control(ManualClock(), grace=30)
    control.wake()
    control.wake()
    assert control.wait(60)
    assert not control.wait(0)
    assert not control.stopping


def test_a_reload_is_taken_once():
    control = Control(ManualClock())
    assert not control.take_reload()
    control.reload()
    assert control.wait(60)
    assert control.take_reload()
    assert not control.take_reload()
    assert not control.stopping


def test_a_stop_gives_the_current_step_the_grace_period():
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
