"""The Nagios bridge with a real Nagios and real plugins; the service runs the real workflow in memory."""

import os
import re
import shutil
import socket
from contextlib import contextmanager

import pytest

from support.checks.nagios import BridgedNagios, make_details, status_text
from support.waiting import wait_until
from zkdeployment.base.errors import NagiosError, ServiceError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.checks.nagios import bridge as module
from zkdeployment.checks.nagios.bridge import CheckReports
from zkdeployment.checks.nagios.check_rollouts import FirstRuns
from zkdeployment.checks.nagios.files import NagiosResult


@pytest.fixture
def nagios(tmp_path):
    return BridgedNagios(tmp_path / "n")


@contextmanager
def listening():
    """Yield a port that accepts connections."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(50)
        yield str(server.getsockname()[1])


class Killed(BaseException):
    """The end of a bridge by a signal."""


class KilledBeforeReload:
    """A Nagios whose bridge is killed when it is about to reload."""

    def __init__(self, program) -> None:
        self._program = program

    def has_plugin(self, name):
        return self._program.has_plugin(name)

    def verify(self, files):
        return self._program.verify(files)

    def reload(self):
        raise Killed


def test_checks_follow_a_service_from_its_deployment_to_its_removal(nagios):
    with nagios.running(), listening() as old, listening() as new, nagios.bridge():
        check = nagios.want("front", "h1", "check_tcp", "-H", "127.0.0.1", "-p", old)
        nagios.wait_state(check, "active")
        assert "port " + old in nagios.wait_result(check, "ok")

        # The old check goes before the new one comes.
        nagios.want("front", "h1", "check_tcp", "-H", "127.0.0.1", "-p", new)
        nagios.wait_state(check, "deprovisioned")
        assert [name for name in nagios.files() if name.startswith("check-")] == []
        nagios.service.turn()
        nagios.wait_state(check, "active")
        wait_until(lambda: "port " + new in nagios.service.results[check].output, "the new port is checked")

        nagios.service.delete(check)
        nagios.service.turn()
        nagios.wait_state(check, "deprovisioned")
        assert [*nagios.files()] == []
        wait_until(lambda: check not in status_text(nagios.server), "Nagios has no such check")


def test_the_answer_to_an_impossible_check_has_the_reason_and_all_other_checks_stay(nagios):
    good = [nagios.want(f"good{number}", "h1", "check_dummy", "0") for number in range(5)]
    missing = nagios.want("missing", "h1", "check_nothing")
    broken = nagios.want("broken", "h2", "check_dummy", "0")
    (nagios.directory / "own.cfg").write_text(
        "define host {\n use generic-host\n host_name h2.example.com\n address 127.0.0.1\n}\n"
    )
    with (nagios.directory / "nagios.cfg").open("a") as configuration:
        configuration.write(f"cfg_file={nagios.directory}/own.cfg\n")
    with nagios.running():
        nagios.rollouts().synchronize()
        assert {nagios.service.state(check).value for check in good} == {"active"}
        assert nagios.service.state(missing).value == nagios.service.state(broken).value == "rollout_failed"
        assert nagios.service.reason(missing).startswith("Nagios has no plugin check_nothing; install it")
        assert "Duplicate definition found for host 'h2.example.com'" in nagios.service.reason(broken)
        assert nagios.verify() is None
        assert sorted(nagios.files()) == sorted(
            [f"check-{check}.{kind}" for check in good for kind in ("cfg", "sh")] + ["host-h1.example.com.cfg"]
        )


def add_plugin(nagios, name, text, mode=0o755):
    (nagios.plugins / name).write_text(text)
    (nagios.plugins / name).chmod(mode)


def test_a_rollout_succeeds_when_its_plugin_has_run_and_fails_if_it_cannot(nagios):
    add_plugin(nagios, "check_broken", "#!/no/such/interpreter\n")
    add_plugin(nagios, "check_slow", "#!/bin/sh\nexec sleep 60\n")
    with (nagios.directory / "nagios.cfg").open("a") as configuration:
        configuration.write("service_check_timeout=10\n")
    with nagios.running(), nagios.bridge():
        critical = nagios.want("critical", "h1", "check_dummy", "2", interval=3600)
        broken = nagios.want("broken", "h1", "check_broken")
        slow = nagios.want("slow", "h1", "check_slow")
        nagios.wait_state(critical, "active")
        nagios.wait_result(critical, "critical")
        nagios.wait_state(broken, "rollout_failed")
        nagios.wait_state(slow, "rollout_failed")
        assert "check_broken failed: (Return code of 127 is out of bounds" in nagios.service.reason(broken)
        assert "check_slow failed: (Service check timed out after 10.0" in nagios.service.reason(slow)
        assert sorted(name for name in nagios.files() if name.startswith("check-")) == [
            f"check-{critical}.cfg",
            f"check-{critical}.sh",
        ]
        assert nagios.service.results.keys() == {critical}


def test_contacts_that_are_on_call_are_those_of_the_service_in_nagios(nagios):
    contacts = [{"name": "ann", "email": "ann@example.com"}, {"name": "duty", "phone": "+49 30 123456"}]
    on_call = {"name": "shop team", "contacts": contacts}
    first = nagios.want("first", "h1", "check_dummy", "0", on_call=on_call)
    second = nagios.want(
        "second", "h1", "check_dummy", "0", on_call={"name": "shop team", "contacts": contacts[:1]}
    )
    hostile = {"name": "x", "contacts": [{"name": "eve", "email": "eve@example.com\n}"}]}
    refused = nagios.want("third", "h1", "check_dummy", "0", on_call=hostile)
    program = nagios.make_program(nagios.verify_command, ["true"])
    nagios.rollouts(program).synchronize()
    assert nagios.verify() is None
    assert nagios.service.state(refused).value == "rollout_failed"
    assert "expected an email address of a contact" in nagios.service.reason(refused)
    ann, duty = sorted(name for name in nagios.files() if name.startswith("contact-"))
    assert b"email         ann@example.com\n" in nagios.files()[ann][1]
    assert b"pager         +49 30 123456\n" in nagios.files()[duty][1]
    names = [name.removeprefix("contact-").removesuffix(".cfg") for name in (ann, duty)]
    definitions = [nagios.files()[f"check-{check}.cfg"][1].decode() for check in (first, second)]
    assert f"contacts             {','.join(names)}\n" in definitions[0]
    assert f"contacts             {names[0]}\n" in definitions[1]
    nagios.service.delete(first)
    nagios.service.turn()
    nagios.rollouts(program).synchronize()
    assert [name for name in nagios.files() if name.startswith("contact-")] == [ann]
    assert nagios.verify() is None


def test_a_contact_that_has_another_name_after_an_update_of_the_bridge_replaces_the_former_one(nagios):
    on_call = {"name": "shop", "contacts": [{"name": "eu.ann", "email": "ann@example.com"}]}
    nagios.want("first", "h1", "check_dummy", "0", on_call=on_call)
    program = nagios.make_program(nagios.verify_command, ["true"])
    nagios.rollouts(program).synchronize()
    files = nagios.files()
    (contact,) = nagios.server.objects.glob("contact-*.cfg")
    for file in nagios.server.objects.glob("*.cfg"):
        file.write_text(file.read_text().replace(contact.stem.removeprefix("contact-"), "shop.eu.ann"))
    contact.rename(contact.with_name("contact-shop.eu.ann.cfg"))
    assert nagios.verify() is None
    nagios.rollouts(program).synchronize()
    assert nagios.files() == files


def test_a_rollout_waits_for_its_plugin_also_after_the_bridge_was_killed(nagios):
    clock, check = SystemClock(), nagios.want("first", "h1", "check_dummy", "0")
    for _ in range(2):
        first_runs = FirstRuns(nagios.program, clock)
        rollouts = nagios.rollouts(first_runs=first_runs)
        with nagios.running():
            rollouts.synchronize()
            rollouts.prove({})
            assert (rollouts.waiting, rollouts.proven) == ({check}, {})
            assert nagios.service.state(check).value == "rollout_in_progress"
    result = NagiosResult("critical", "no such service", 1.0, clock.now())
    rollouts.prove({check: result})
    assert nagios.service.state(check).value == "active"
    assert (rollouts.waiting, rollouts.proven.keys()) == (frozenset(), {check})


def test_a_bridge_that_was_killed_before_the_reload_ends_at_the_same_files(nagios):
    first = nagios.want("first", "h1", "check_dummy", "0")
    with nagios.running():
        nagios.rollouts().synchronize()
        second = nagios.want("second", "h2", "check_dummy", "1")
        nagios.service.delete(first)
        nagios.service.turn()
        with pytest.raises(Killed):
            nagios.rollouts(KilledBeforeReload(nagios.program)).synchronize()
        assert nagios.service.state(first).value == "deprovision_in_progress"
        assert nagios.service.state(second).value == "rollout_in_progress"
        for name in (f".check-{second}.cfg.x1y2", ".contact-shop.ann.cfg.x1y2"):
            (nagios.server.objects / name).write_text("half of a fi")
        nagios.rollouts().synchronize()
        assert nagios.service.state(first).value == "deprovisioned"
        assert nagios.service.state(second).value == "active"
        files = nagios.files()
        assert sorted(files) == [f"check-{second}.cfg", f"check-{second}.sh", "host-h2.example.com.cfg"]
        wait_until(lambda: second in status_text(nagios.server), "Nagios was reloaded")
        nagios.rollouts().synchronize()
        assert nagios.files() == files


def test_a_killed_bridge_may_have_left_a_file_that_nagios_does_not_accept(nagios):
    check = nagios.want("first", "h1", "check_dummy", "0")
    with nagios.running():
        with pytest.raises(Killed):
            nagios.rollouts(KilledBeforeReload(nagios.program)).synchronize()
        definition = nagios.server.objects / f"check-{check}.cfg"
        definition.write_text(definition.read_text().replace("generic-service", "no-template"))
        assert nagios.verify() is not None
        nagios.rollouts().synchronize()
        assert nagios.service.state(check).value == "active"
        assert nagios.verify() is None


def test_a_directory_that_is_wiped_while_the_bridge_runs_is_filled_again(nagios):
    check = nagios.want("first", "h1", "check_dummy", "0")
    with nagios.running(), nagios.bridge():
        nagios.wait_state(check, "active")
        files = nagios.files()
        shutil.rmtree(nagios.server.objects)
        wait_until(lambda: nagios.files() == files, "the files are back")
        assert nagios.service.state(check).value == "active"


def test_a_directory_from_a_backup_is_corrected_and_its_results_do_not_count(nagios, tmp_path):
    """The check of the backup is critical, the deployed one is OK."""
    check = nagios.want("front", "h1", "check_dummy", "2", "from the backup")
    with nagios.running():
        nagios.rollouts().synchronize()
        shutil.copytree(nagios.server.objects, tmp_path / "backup")
        nagios.want("front", "h1", "check_dummy", "0", "deployed")
        nagios.rollouts().synchronize()
        nagios.service.turn()
        nagios.rollouts().synchronize()
        shutil.rmtree(nagios.server.objects)
        shutil.copytree(tmp_path / "backup", nagios.server.objects)
        nagios.program.reload()
        wait_until(lambda: "from the backup" in status_text(nagios.server), "the old check ran")
        with nagios.bridge():
            assert nagios.wait_result(check, "ok") == "OK: deployed"
        assert nagios.service.all_results == {"OK: deployed"}


def test_a_bridge_synchronizes_when_the_service_has_deployed_another_configuration(nagios):
    check = nagios.want("front", "h1", "check_dummy", "0", "first")
    with nagios.running(), nagios.bridge():
        nagios.wait_result(check, "ok")
        nagios.service.deploy_silently(check, make_details("front", "h1", "check_dummy", "1", "second"))
        assert nagios.wait_result(check, "warning") == "WARNING: second"


def test_a_bridge_synchronizes_after_more_pokes_than_it_remembers(nagios, monkeypatch):
    monkeypatch.setattr(module, "_MOST_POKES", 0)
    first = nagios.want("first", "h1", "check_dummy", "0")
    with nagios.running(), nagios.bridge(interval=3600) as bridge:
        nagios.wait_state(first, "active")
        second = nagios.want("second", "h1", "check_dummy", "0")
        bridge._changed.poke(first)
        nagios.wait_state(second, "active")


def test_files_of_checks_that_the_service_does_not_know_are_removed_and_others_are_not(nagios):
    check = nagios.want("first", "h1", "check_dummy", "0")
    with nagios.running():
        nagios.rollouts().synchronize()
        del nagios.service.instances[check]
        (nagios.server.objects / "README").write_text("of an administrator")
        nagios.rollouts().synchronize()
        assert [*nagios.files()] == ["README"]


def test_checks_get_no_answer_while_the_configuration_is_broken_for_other_reasons(nagios):
    check = nagios.want("first", "h1", "check_dummy", "0")
    templates = nagios.directory / "templates.cfg"
    right = templates.read_text()
    with nagios.running():
        templates.write_text(right + "define service {\n use generic-service\n host_name nowhere\n}\n")
        with pytest.raises(
            NagiosError, match=r"broken without the new changes, so that nothing is answered: Service has no hosts"
        ):
            nagios.rollouts().synchronize()
        assert nagios.service.state(check).value == "rollout_in_progress"
        with nagios.bridge():
            templates.write_text(right)
            nagios.wait_state(check, "active")


def test_a_service_that_was_away_delays_only(nagios):
    with nagios.running(), nagios.bridge():
        first = nagios.want("first", "h1", "check_dummy", "0")
        nagios.wait_state(first, "active")
        nagios.service.broken = True
        second = nagios.want("second", "h1", "check_dummy", "0")
        with pytest.raises(ServiceError):
            nagios.service.list_flagged()
        nagios.service.broken = False
        nagios.wait_state(second, "active")


HOSTILE = [
    "!",
    "$USER1$",
    "$(touch PLACE)",
    "a\nb",
    ";x",
    "{}",
    "}",
    "'",
    '"',
    "\\",
    "`id`",
    "#",
    "ä€\u2028",
    " ",
    "%n",
    "",
]


def test_hostile_values_reach_the_plugin_unchanged(nagios):
    """The plugin writes its arguments to a file."""
    values = [value.replace("PLACE", str(nagios.directory / "touched")) for value in HOSTILE]
    seen = nagios.directory / "seen"
    plugin = nagios.plugins / "check_arguments"
    plugin.write_text(f"#!/bin/sh\nprintf '%s\\0' \"$@\" >{seen}\n")
    plugin.chmod(0o755)
    check = nagios.want("front", "h1", "check_arguments", *values)
    named = [nagios.want(f"c{value}", "h1", "check_dummy", "0", path=f"/p{value}") for value in values]
    with nagios.running():
        nagios.rollouts().synchronize()
        assert {nagios.service.state(instance).value for instance in (check, *named)} == {"active"}
        wait_until(lambda: seen.exists() and seen.read_bytes().count(b"\0") == len(values), "the plugin ran")
        wait_until(lambda: all(instance in status_text(nagios.server) for instance in named), "all are there")
    assert seen.read_bytes().decode().split("\0")[:-1] == values
    assert not (nagios.directory / "touched").exists()


def test_hosts_in_a_deployment_step_have_a_downtime(nagios):
    with nagios.running(), nagios.bridge():
        check = nagios.want("first", "h1", "check_dummy", "0")
        nagios.wait_state(check, "active")
        nagios.service.working |= {"h1", "h2"}
        wait_until(
            lambda: re.search(r"servicedowntime \{\n\s*host_name=h1.example.com\n", status_text(nagios.server)),
            "there is a downtime",
        )
        assert "host_name=h2" not in status_text(nagios.server)


def test_the_results_of_a_nagios_that_has_ended_are_not_reported_as_true(nagios):
    class LaterClock(SystemClock):
        def now(self):
            return super().now() + 200.0

    check = nagios.want("first", "h1", "check_dummy", "1", "careful")
    with nagios.running(), nagios.bridge():
        assert nagios.wait_result(check, "warning") == "WARNING: careful"
        nagios.server.kill()
    reports = CheckReports(nagios.service, nagios.program_of_another_bridge(), LaterClock())
    reported = nagios.service.reports
    with pytest.raises(NagiosError, match=r"has not written its status file for 20\d s"):
        reports.send({}, {})
    assert nagios.service.reports == reported


def test_a_bridge_without_news_gives_signs_of_life(nagios):
    reports = CheckReports(nagios.service, nagios.program, SystemClock())
    with nagios.running():
        reports.send({}, {})
        reports.send({}, {})
    assert nagios.service.reports == 1


def test_a_command_for_a_nagios_that_does_not_run_is_an_error(nagios):
    with pytest.raises(NagiosError, match="cannot pass commands to Nagios"):
        nagios.program.submit(["[0] X"])
    os.mkfifo(nagios.server.command_file)
    with pytest.raises(NagiosError, match="Nagios does not read it; see command-file"):
        nagios.program.submit(["[0] X"])


def test_commands_of_nagios_that_cannot_run_are_errors(nagios):
    program = nagios.make_program(verify=["/missing"], reload=["false"])
    with pytest.raises(
        NagiosError, match=r"/missing does not exist or is not on the PATH; see verify in \[nagios\]"
    ):
        program.verify({})
    with pytest.raises(NagiosError, match=r"Nagios was not reloaded: false failed .*; see reload in \[nagios\]"):
        program.reload()
    killed = nagios.make_program(verify=["sh", "-c", "kill -9 $$"], reload=["true"])
    with pytest.raises(NagiosError, match="sh was ended by signal 9 while it verified"):
        killed.verify({})
