"""Libraries that an upgrade removed under a running process: nothing crashes, and the messages give advice."""

import json
import sys
import threading
import time

import pytest
from structlog.testing import capture_logs

from support.waiting import wait_until
from zkdeployment.agent.packages.dnf import Dnf
from zkdeployment.agent.scripts import ScriptRecord
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.daemon.metrics import MetricsFile
from zkdeployment.base.errors import RestartError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.mail import SmtpMailer
from zkdeployment.base.machine.program import late_import
from zkdeployment.config.settings import load
from zkdeployment.programs.agent import run_agent

MESSAGE = (
    "a library cannot be imported: import of {} halted; None in sys.modules; if an upgrade has just replaced it, a"
    " restart of this process helps, otherwise install zkdeployment again"
)


@pytest.fixture
def gone(monkeypatch):
    """Make the import of a library fail as after the removal of its files."""
    return lambda name: monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize("library", ["smtplib", "email.policy", "email.message"])
def test_mail_that_cannot_be_sent_is_logged(gone, library):
    gone(library)
    with capture_logs() as logs:
        SmtpMailer("ops@example.com", server="127.0.0.1:1").send("subject", "text")
    assert [(entry["event"], entry["error"]) for entry in logs] == [("mail-failed", MESSAGE.format(library))]


@pytest.mark.parametrize("library", ["prometheus_client", "prometheus_client.core"])
def test_metrics_that_cannot_be_written_are_logged_once(gone, tmp_path, library):
    gone(library)
    sink = MetricsFile(tmp_path / "x.prom")
    with capture_logs() as logs:
        sink.write([])
        sink.write([])
    assert [(entry["event"], entry["reason"]) for entry in logs] == [
        ("metrics-not-written", MESSAGE.format(library))
    ]


def test_an_agent_that_cannot_search_for_a_running_dnf_or_script_asks_for_a_restart(gone, tmp_path):
    """The next process imports the libraries that are present then, and checks both before all other work."""
    gone("psutil")
    state = tmp_path / "root/var/lib/zkdeployment/packages"
    (state / "prepared-1").mkdir(parents=True)
    with pytest.raises(RestartError) as raised:
        Dnf(tmp_path / "root").recover()
    assert str(raised.value) == MESSAGE.format("psutil")
    assert (state / "prepared-1").exists()
    (tmp_path / "script").write_text(json.dumps({"unit": "", "argv": ["/a"], "begun": time.time()}))
    with pytest.raises(RestartError):
        ScriptRecord(tmp_path / "script").orphan()


def test_a_new_library_beside_an_old_module_is_a_reason_for_a_restart():
    with pytest.raises(RestartError, match="has no attribute 'added_in_another_version'"), late_import():
        _ = json.added_in_another_version


@pytest.mark.parametrize(
    ("module", "added"),
    [
        ("zkdeployment.publishing.settings", "[sync]\nurl = /r\ntree-directory = /t\n"),
        ("zkdeployment.programs.host_trust", "publishers = /etc/publishers\n"),
        ("zkdeployment.pools.host.leases", "role = lease:spare\n"),
        ("zkdeployment.agent.telemetry", "metrics = /m/x.prom\n"),
        ("zkdeployment.base.daemon.metrics", "metrics = /m/x.prom\n"),
        ("importlib.metadata", "metrics = /m/x.prom\n"),
    ],
)
def test_a_reload_that_needs_a_module_which_has_gone_ends_the_agent_for_a_restart(fleet, gone, module, added):
    host = fleet.host("h1")
    control = Control(SystemClock())
    errors = []

    def run():
        with pytest.raises(RestartError) as raised:
            run_agent(load(host.config), control)
        errors.append(str(raised.value))

    agent = threading.Thread(target=run)
    agent.start()
    try:
        wait_until(lambda: host.node, "the host is registered")
        gone(module)
        with host.config.open("a") as config:
            config.write(added)
        control.reload()
        agent.join()
    finally:
        control.stop()
        agent.join()
    assert errors == [MESSAGE.format(module)]
    assert host.node == {}
