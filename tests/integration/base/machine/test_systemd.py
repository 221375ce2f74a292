"""Notifications to systemd, with a real datagram socket."""

import math
import socket
from pathlib import Path

import pytest

from zkdeployment.base.machine import systemd
from zkdeployment.base.machine.systemd import SystemdNotifier, stop_limit


def test_messages_arrive_at_the_supervisors_socket(tmp_path: Path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        notifier = SystemdNotifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})
        notifier.ready()
        notifier.status("r1:\ndeploy")
        notifier.watchdog()
        notifier.stopping()
        messages = [supervisor.recv(100) for _ in range(4)]
    assert messages == [b"READY=1", b"STATUS=r1: deploy", b"WATCHDOG=1", b"STOPPING=1"]


def test_the_address_may_be_abstract(tmp_path: Path):
    name = f"zkdeployment-{tmp_path.name}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(f"\0{name}")
        SystemdNotifier({"NOTIFY_SOCKET": f"@{name}"}).ready()
        assert supervisor.recv(100) == b"READY=1"


def test_a_missing_supervisor_is_not_an_error(tmp_path: Path):
    for environment in ({}, {"NOTIFY_SOCKET": str(tmp_path / "nobody")}):
        assert SystemdNotifier(environment).ready() is None


def test_a_reload_is_reported_with_its_time(tmp_path: Path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        SystemdNotifier({"NOTIFY_SOCKET": str(tmp_path / "notify")}).reloading()
        first, second = supervisor.recv(100).decode().split("\n")
    assert first == "RELOADING=1"
    assert int(second.removeprefix("MONOTONIC_USEC=")) > 0


def test_the_watchdog_is_suspended_during_an_uninterruptible_step(tmp_path: Path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        notifier = SystemdNotifier({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "3000000"})
        assert notifier.pace == 1.5
        with notifier.uninterrupted():
            assert supervisor.recv(100) == b"WATCHDOG_USEC=604800000000\nWATCHDOG=1"
        assert supervisor.recv(100) == b"WATCHDOG_USEC=3000000\nWATCHDOG=1"


def test_the_pace_is_infinite_without_a_watchdog():
    for environment in ({}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}):
        notifier = SystemdNotifier(environment)
        assert notifier.pace == math.inf
        with notifier.uninterrupted():
            pass


@pytest.mark.parametrize(
    ("script", "limit"),
    [
        ("echo LoadState=loaded; echo TimeoutStopUSec=1min 30s", 90.0),
        ("echo TimeoutStopUSec=1h 500ms; echo LoadState=loaded", 3600.5),
        ("echo LoadState=loaded; echo TimeoutStopUSec=infinity", math.inf),
        ("echo LoadState=not-found; echo TimeoutStopUSec=1min 30s", None),
        ("exit 1", None),
    ],
)
def test_the_limit_of_a_stop_is_known_for_services_that_systemd_has_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, limit: float | None
):
    program = tmp_path / "systemctl"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(systemd, "BOOTED", tmp_path / "missing")
    assert stop_limit("some.service") is None
    monkeypatch.setattr(systemd, "BOOTED", tmp_path)
    assert stop_limit("some.service") == limit
