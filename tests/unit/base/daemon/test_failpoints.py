import contextlib
import os
import signal
from pathlib import Path

import pytest

from zkdeployment.base.daemon import failpoints
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.config.settings import Settings
from zkdeployment.rollouts.program import build_coordinator


@pytest.fixture
def killed(monkeypatch):
    signals = []
    monkeypatch.setattr(os, "kill", lambda _, number: signals.append(number))
    yield signals
    failpoints.arm({})


def test_a_failpoint_has_no_effect_unless_it_is_armed(killed):
    failpoints.arm({})
    failpoints.reach("before:deploy")
    assert killed == []


def test_an_armed_failpoint_acts_when_it_is_reached_the_given_number_of_times(killed):
    failpoints.arm({failpoints.VARIABLE: "before:deploy@2=kill,after:x=freeze"})
    failpoints.reach("before:deploy")
    assert killed == []
    failpoints.reach("before:deploy")
    failpoints.reach("before:deploy")
    failpoints.reach("after:x")
    assert killed == [signal.SIGKILL, signal.SIGSTOP]


@pytest.mark.parametrize(("root", "armed"), [("/", False), ("/scratch", True)])
def test_no_failpoint_is_armed_on_a_real_host(monkeypatch, root, armed):
    monkeypatch.setenv(failpoints.VARIABLE, "nonsense")
    settings = Settings(source=Path("x.cfg"), root=Path(root))
    refusal = pytest.raises(ConfigurationError) if armed else contextlib.nullcontext()
    with refusal, build_coordinator(settings):
        pass


@pytest.mark.parametrize("text", ["x", "x=explode", "x@0=kill", "=kill"])
def test_an_invalid_failpoint_is_refused(text):
    with pytest.raises(ConfigurationError, match=r"expected NAME\[@COUNT\]=kill or =freeze"):
        failpoints.arm({failpoints.VARIABLE: text})


def test_an_action_has_a_failpoint_before_and_after_it(killed):
    failpoints.arm({failpoints.VARIABLE: "before:x=kill,after:x=freeze"})
    with failpoints.failpoints("x"):
        assert killed == [signal.SIGKILL]
    assert killed == [signal.SIGKILL, signal.SIGSTOP]


def test_a_failed_action_does_not_reach_the_failpoint_after_it(killed):
    failpoints.arm({failpoints.VARIABLE: "after:x=freeze"})
    with pytest.raises(InterruptedError), failpoints.failpoints("x"):
        raise InterruptedError
    assert killed == []
