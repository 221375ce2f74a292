"""The configuration of a real Nagios stays valid after every failure and every kill of the bridge."""

import shutil

import pytest

from support.checks.monitoring import SimulatedMonitoringService
from support.checks.nagios import BridgedNagios
from zkdeployment.base.errors import NagiosError
from zkdeployment.checks.nagios.program import LocalNagios, NagiosObjectDirectory

OWN_SERVICE = """\
define service {
    use                  generic-service
    host_name            h1.example.com
    service_description  own
    check_command        notify-nobody
}
"""


@pytest.fixture
def nagios(tmp_path):
    return BridgedNagios(tmp_path / "n")


@pytest.fixture
def no_reload(nagios):
    """Return a Nagios that does not run, but verifies."""
    return nagios.make_program(nagios.verify_command, ["true"])


def add_own_file(nagios, text):
    """Add a file of the administrator to the configuration."""
    own = nagios.directory / "own.cfg"
    own.write_text(text)
    with (nagios.directory / "nagios.cfg").open("a") as configuration:
        configuration.write(f"cfg_file={own}\n")
    return own


def keep_check(nagios, program):
    """Return a check whose removal failed, and the administrator's file that needs its host."""
    kept = nagios.want("kept", "h1", "check_dummy", "0")
    nagios.rollouts(program).synchronize()
    own = add_own_file(nagios, OWN_SERVICE)
    nagios.service.delete(kept)
    nagios.service.turn()
    rollouts = nagios.rollouts(program)
    rollouts.synchronize()
    assert nagios.service.state(kept).value == "deprovision_failed"
    return kept, own


def test_a_check_that_cannot_be_removed_stays_and_delays_no_other(nagios, no_reload):
    kept, own = keep_check(nagios, no_reload)
    assert nagios.verify() is None
    second = nagios.want("second", "h2", "check_dummy", "0")
    nagios.rollouts(no_reload).synchronize()
    assert nagios.service.state(second).value == "active"
    assert nagios.verify() is None
    assert f"check-{kept}.cfg" in nagios.files()

    own.write_text("")
    nagios.service.retry(kept)
    nagios.rollouts(no_reload).synchronize()
    assert nagios.service.state(kept).value == "deprovisioned"
    assert sorted(nagios.files()) == [f"check-{second}.cfg", f"check-{second}.sh", "host-h2.example.com.cfg"]


def test_an_unknown_check_that_nagios_needs_stays_too(nagios, no_reload):
    kept, _ = keep_check(nagios, no_reload)
    del nagios.service.instances[kept]
    second = nagios.want("second", "h2", "check_dummy", "0")
    nagios.rollouts(no_reload).synchronize()
    assert nagios.service.state(second).value == "active"
    assert nagios.verify() is None


@pytest.mark.parametrize("is_named", [True, False], ids=["in a copy of the configuration", "in place"])
def test_a_base_that_nagios_rejects_changes_no_file(nagios, is_named):
    command = nagios.verify_command
    if not is_named:
        wrapper = nagios.directory / "verify"
        wrapper.write_text(f"#!/bin/sh\nexec {' '.join(command)}\n")
        wrapper.chmod(0o755)
        command = [str(wrapper)]
    program = nagios.make_program(command, ["true"])
    first = nagios.want("first", "h1", "check_dummy", "0")
    nagios.rollouts(program).synchronize()
    before = nagios.files()
    add_own_file(nagios, OWN_SERVICE.replace("h1.", "nowhere."))
    del nagios.service.instances[first]
    second = nagios.want("second", "h2", "check_dummy", "0")
    with pytest.raises(NagiosError, match=r"broken without the new changes.*nowhere"):
        nagios.rollouts(program).synchronize()
    assert nagios.service.state(second).value == "rollout_in_progress"
    after = nagios.files()
    assert {name: after[name] for name in before} == before
    assert not any(name.endswith(".cfg") for name in after.keys() - before.keys())


def test_the_words_about_a_rejected_check_name_its_file(nagios, no_reload):
    nagios.want("good", "h1", "check_dummy", "0")
    bad = nagios.want("bad", "h2", "check_dummy", "0")
    host = "define host {\n use generic-host\n host_name h2.example.com\n address 127.0.0.1\n}\n"
    add_own_file(nagios, host)
    nagios.rollouts(no_reload).synchronize()
    assert f"config file '{nagios.server.objects}/host-h1.example.com.cfg', starting on line 2" in (
        nagios.service.reason(bad)
    )


def test_a_service_that_lost_its_content_does_not_empty_nagios(nagios, no_reload):
    for number in range(4):
        nagios.want(f"check{number}", "h1", "check_dummy", "0")
    nagios.rollouts(no_reload).synchronize()
    before = nagios.files()
    nagios.service.instances.clear()
    for _ in range(2):
        with pytest.raises(
            NagiosError, match=r"the service does not know 4 of 4 checks in Nagios, more than 30%: no"
        ):
            nagios.rollouts(no_reload).synchronize()
        assert nagios.files() == before
    nagios.service.removal_allowed = True
    nagios.rollouts(no_reload).synchronize()
    assert nagios.files() == {}


def test_a_change_keeps_checks_whose_definitions_another_program_has_changed(nagios, no_reload):
    for number in range(4):
        nagios.want(f"check{number}", "h1", "check_dummy", "0")
    rollouts = nagios.rollouts(no_reload)
    rollouts.synchronize()
    before = nagios.files()
    for definition in nagios.server.objects.glob("check-*.cfg"):
        definition.write_text(f"# Managed by the configuration management\n{definition.read_text()}")
    fifth = nagios.want("check5", "h1", "check_dummy", "0")
    rollouts.update([fifth])
    assert nagios.service.state(fifth).value == "active"
    after = nagios.files()
    assert {name: after[name] for name in before} == before
    assert rollouts.checks.keys() == nagios.service.instances.keys()


class RefusingNagios(LocalNagios):
    """Refuses each configuration in which a script has the word ``refused``; counts verifications."""

    verified = 0

    def verify(self, files):
        self.verified += 1
        return "Error: refused" if any("'refused'" in file.text for file in files.values()) else None


def test_many_refused_checks_cost_few_verifications_and_delay_no_removal(nagios):
    program = nagios.make_program(nagios.verify_command, ["true"], RefusingNagios)
    removed = nagios.want("removed", "h1", "check_dummy", "0")
    kept = nagios.want("kept", "h1", "check_dummy", "0")
    rollouts = nagios.rollouts(program)
    rollouts.synchronize()
    nagios.service.delete(removed)
    nagios.service.turn()
    refused = [nagios.want(f"check{number}", "h1", "check_dummy", "refused") for number in range(300)]
    program.verified = 0
    rollouts.update([removed, *refused])
    assert program.verified < 60
    assert {nagios.service.state(check).value for check in refused} == {"rollout_failed"}
    assert {nagios.service.reason(check) for check in refused} == {"refused"}
    assert nagios.service.state(removed).value == "deprovisioned"
    assert rollouts.checks.keys() == {kept}


class Killed(BaseException):
    """The end of a bridge by a signal."""


class Steps:
    """Counts steps, and ends the bridge at the one with number ``last``."""

    def __init__(self, last) -> None:
        self.last = last
        self.count = 0

    def reach(self):
        self.count += 1
        if self.count == self.last:
            raise Killed


class KilledDirectory(NagiosObjectDirectory):
    """A directory of objects whose bridge may be killed before each change of a file."""

    def __init__(self, directory, steps) -> None:
        super().__init__(directory)
        self._steps = steps

    def _replace(self, name, file):
        self._steps.reach()
        super()._replace(name, file)

    def _remove(self, name):
        self._steps.reach()
        super()._remove(name)


class KilledNagios(LocalNagios):
    """A Nagios whose bridge may be killed before it runs a command, and after that."""

    def step_with(self, steps):
        self._steps = steps
        return self

    def _run(self, argv, key):
        self._steps.reach()
        completed = super()._run(argv, key)
        self._steps.reach()
        return completed


class KilledService(SimulatedMonitoringService):
    """A service whose bridge may be killed before it answers, and after that."""

    def __init__(self, instances, steps) -> None:
        super().__init__()
        self.instances = instances
        self._steps = steps

    def answer(self, answers):
        self._steps.reach()
        failed = super().answer(answers)
        self._steps.reach()
        return failed


def play(nagios, last):
    """Change checks with a bridge that is killed at a step; return whether it was."""
    steps = Steps(last)
    program = nagios.make_program(nagios.verify_command, ["true"], kind=KilledNagios).step_with(steps)
    rollouts = nagios.rollouts(
        program,
        service=KilledService(nagios.service.instances, steps),
        objects=KilledDirectory(nagios.server.objects, steps),
    )
    try:
        rollouts.synchronize()
    except Killed:
        return True
    return False


def test_nagios_starts_after_every_kill(nagios, no_reload):
    """One check stays, one is removed, one is new, and one cannot be removed."""
    kept, _ = keep_check(nagios, no_reload)
    stays, goes = (nagios.want(name, host, "check_dummy", "0") for name, host in (("stays", "h2"), ("goes", "h3")))
    nagios.rollouts(no_reload).synchronize()
    nagios.service.delete(goes)
    nagios.service.turn()
    comes = nagios.want("comes", "h4", "check_dummy", "1")
    before, directory = dict(nagios.service.instances), nagios.directory / "before"
    shutil.copytree(nagios.server.objects, directory)
    last, killed = 0, True
    while killed:
        last += 1
        nagios.service.instances = dict(before)
        shutil.rmtree(nagios.server.objects)
        shutil.copytree(directory, nagios.server.objects)
        killed = play(nagios, last)
        assert nagios.verify() is None, f"killed at step {last}"
        nagios.rollouts(no_reload).synchronize()
        states = [nagios.service.state(check).value for check in (kept, stays, goes, comes)]
        assert states == ["deprovision_failed", "active", "deprovisioned", "active"]
        assert sorted(nagios.files()) == sorted(
            [f"check-{check}.{kind}" for check in (kept, stays, comes) for kind in ("cfg", "sh")]
            + [f"host-h{number}.example.com.cfg" for number in (1, 2, 4)]
        )
    assert last > 14
    assert nagios.verify() is None
