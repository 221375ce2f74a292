"""``zkdeployment nagios``: the bridge as a process, with a real service and a real Nagios."""

import os
import signal
import socket

import httpx
import pytest

from support.checks.monitoring import ServedMonitoringService
from support.checks.nagios import BridgedNagios, make_details, make_key
from support.forks import ForkedProgram
from support.service import running_service
from support.waiting import wait_until
from zkdeployment.sandbox.zookeeper import free_port

CONFIGURATION = """\
[zkdeployment]
root = {place}
[nagios]
server = {url}
user = nagios1
key-file = {place}/key
objects = {objects}
plugins = {plugins}
command-file = {commands}
status-file = {status}
verify = {verify}
reload = {reload}
listen = 127.0.0.1:{port}
"""


@pytest.fixture
def service(zookeeper):
    with running_service(zookeeper) as running:
        yield ServedMonitoringService(running)


@pytest.fixture
def nagios(tmp_path):
    return BridgedNagios(tmp_path / "n")


@pytest.fixture
def port():
    return free_port()


@pytest.fixture
def config(service, nagios, port, tmp_path):
    key = tmp_path / "key"
    key.write_text(f"{service.key}\n")
    key.chmod(0o600)
    server = nagios.server
    text = CONFIGURATION.format(
        place=tmp_path,
        url=service.url,
        objects=server.objects,
        plugins=nagios.plugins,
        commands=server.command_file,
        status=server.status_file,
        verify=server.verify,
        reload=server.reload,
        port=port,
    )
    (tmp_path / "bridge.cfg").write_text(text)
    return tmp_path / "bridge.cfg"


@pytest.fixture
def printed(tmp_path):
    """Return the file with the output of the bridges."""
    return tmp_path / "printed"


@pytest.fixture
def start(config, printed):
    """Return a function that starts the bridge, with failpoints; all bridges are killed at the end."""
    started = []

    def begin(failpoints=""):
        environment = os.environ | {"ZKDEPLOYMENT_FAILPOINTS": failpoints}
        with printed.open("wb") as output:
            started.append(ForkedProgram(["nagios", str(config)], environment, output=output))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


def want(service, name, *arguments):
    details = make_details(name, "h1", "check_dummy", *arguments)
    return service.want(make_key(details), details)


def test_a_bridge_killed_before_or_after_the_reload_ends_at_the_same_files_and_follows_pokes(
    service, nagios, start, port, printed
):
    check = want(service, "first", "1", "careful")
    with nagios.running():
        for point in ("before:reload", "after:reload"):
            assert start(f"{point}=kill").wait() == -signal.SIGKILL
            assert service.state(check).value == "rollout_in_progress"
        killed = nagios.files()
        bridge = start()
        wait_until(lambda: service.state(check).value == "active", "the check is active")
        assert nagios.files() == killed
        wait_until(lambda: service.result(check) == ("warning", "WARNING: careful"), "the result is reported")

        # The bridge does not poll: only the poke tells it about the next one.
        other = want(service, "other", "0")
        assert httpx.post(f"http://127.0.0.1:{port}/poke", json={"uuid": other}, timeout=None).status_code == 204
        wait_until(lambda: service.state(other).value == "active", "the poke was followed")

        assert start().wait() == 3
        assert f"another bridge uses {nagios.server.objects}; one bridge at a time" in printed.read_text()
        bridge.terminate()
        assert bridge.wait() == 0


#: Refuses each configuration with a check that has the argument ``refused``, and waits in the third verification.
VERIFY = """\
#!/bin/sh
echo >> {place}/verified
until [ "$(wc -l < {place}/verified)" -lt 3 ] || [ -e {place}/continue ]; do sleep 0.05; done
! grep -q '"refused"' {objects}/.trial/definitions.cfg
"""


def test_a_search_for_refused_checks_notifies_systemd_and_ends_with_the_bridge(
    service, nagios, config, start, printed, tmp_path, monkeypatch
):
    verify = tmp_path / "verify"
    verify.write_text(VERIFY.format(place=tmp_path, objects=nagios.server.objects))
    verify.chmod(0o755)
    config.write_text(config.read_text().replace("verify = ", f"verify = {verify} "))
    checks = [want(service, f"check{number}", "refused") for number in range(20)]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "systemd"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "systemd"))
        bridge = start()
        assert [systemd.recv(1000) for _ in range(4)] == [b"READY=1", *[b"WATCHDOG=1"] * 3]
        wait_until(lambda: (tmp_path / "verified").read_text() == "\n" * 3, "the third verification")
        bridge.terminate()
        (tmp_path / "continue").touch()
        assert bridge.wait() == 0
    assert (tmp_path / "verified").read_text() == "\n" * 3
    assert "bridge-failed" not in printed.read_text()
    assert {service.state(check).value for check in checks} == {"rollout_in_progress"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("objects = /x y", "objects: expected a path of letters from a to z, digits"),
        ("server = ftp://x", "server: expected http://HOST[:PORT] or https://HOST[:PORT]"),
        ("host-template = a;b", "host-template: expected the name of a template of Nagios, found 'a;b'"),
        ("interval = 0", "interval: expected a positive number of seconds"),
    ],
)
def test_mistakes_in_the_configuration_are_reported(config, start, printed, line, message):
    key = line.partition(" ")[0]
    kept = [text for text in config.read_text().splitlines() if not text.startswith(f"{key} ")]
    config.write_text("\n".join([*kept, line]))
    assert start().wait() == 2
    assert message in printed.read_text()


def test_a_configuration_without_the_section_or_its_keys_is_refused(config, start, printed):
    text = config.read_text()
    for content, message in (
        ("[zkdeployment]\n", "the section [nagios] not specified"),
        (text.replace("verify = ", "# verify = "), "verify: not specified in [nagios]"),
    ):
        config.write_text(content)
        assert start().wait() == 2
        assert message in printed.read_text()
