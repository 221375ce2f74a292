import os
import signal

import pytest

from zkdeployment.daemons import failpoints
from zkdeployment.errors import ConfigurationError


@pytest.fixture
def killed(monkeypatch):
    signals = []
    monkeypatch.setattr(os, "kill", lambda _, number: signals.append(number))
    yield signals
    failpoints.arm({})


def test_nothing_happens_unless_armed(killed):
    failpoints.arm({})
    failpoints.reach("before:deploy")
    assert killed == []


def test_an_armed_point_acts_when_it_is_reached_as_often_as_it_says(killed):
    failpoints.arm({failpoints.VARIABLE: "before:deploy@2=kill,after:x=freeze"})
    failpoints.reach("before:deploy")
    assert killed == []
    failpoints.reach("before:deploy")
    failpoints.reach("before:deploy")
    failpoints.reach("after:x")
    assert killed == [signal.SIGKILL, signal.SIGSTOP]


@pytest.mark.parametrize("text", ["x", "x=explode", "x@0=kill", "=kill"])
def test_nonsense_is_refused(text):
    with pytest.raises(ConfigurationError, match=r"expected NAME\[@COUNT\]=kill or =freeze"):
        failpoints.arm({failpoints.VARIABLE: text})
