"""``config check`` on hosts with different programs for packages."""

import math
import os
import pwd
import shutil
import socket
from pathlib import Path

import pytest

from support.commands import invoke
from zkdeployment.agent.packages import command
from zkdeployment.programs import config_verb

NOBODY = pwd.getpwnam("nobody")


def shadow(directory, said):
    """Write programs that report these versions to a directory."""
    directory.mkdir()
    for name, version in said.items():
        (directory / name).write_text(f"#!/bin/sh\necho '{version}'\n")
        (directory / name).chmod(0o755)
    return str(directory)


@pytest.fixture
def check(tmp_path):
    """Check a host's configuration with these programs and lines; return standard error."""
    file = tmp_path / "host.cfg"

    def call(said, *lines, path=""):
        file.write_text(
            "\n".join(
                [
                    "[zkdeployment]",
                    "host-id = one",
                    "host-name = one.example.com",
                    f"run-directory = {tmp_path}",
                    *lines,
                ]
            )
        )
        done = invoke("config", "check", file, env={"PATH": shadow(tmp_path / "bin", said) + path})
        assert done.returncode == 0
        return done.stderr

    return call


def test_the_programs_that_change_packages_are_named(check, tmp_path):
    said = {"dnf": "dnf5 version 5.4.6.0", "rpm": "RPM version 6.1.0"}
    bin_ = tmp_path / "bin"
    assert check(said) == f"packages are changed with dnf 5.4.6.0 as {bin_}/dnf, rpm 6.1.0 as {bin_}/rpm\n"


def test_each_missing_program_is_named(check):
    assert check({}) == (
        "packages are changed with no program\n"
        "warning: cannot find dnf: expected it on the PATH; install dnf 4 or dnf 5, or set packages = none in the"
        " configuration\n"
        "warning: cannot find rpm: expected it on the PATH; install rpm, or set packages = none\n"
    )


def test_dnf_4_needs_createrepo_for_rollbacks(check):
    assert "warning: cannot find createrepo_c" in check({"dnf": "4.14.0", "rpm": "RPM version 4.18.0"})


@pytest.mark.parametrize(
    ("said", "python", "warning"),
    [
        ({"dnf": "4.14.0"}, "false", ""),
        ({"dnf": "dnf5 version 5.4.6.0", "dnf-3": "4.24.0"}, "false", ""),
        ({"dnf": "dnf5 version 5.4.6.0"}, "true", ""),
        ({"dnf": "dnf5 version 5.4.6.0"}, "false", "dnf 5.4.6.0 needs its library for Python, which {} lacks"),
        ({}, "true", "cannot find dnf"),
    ],
)
def test_checks_of_repositories_need_dnf_4_or_dnf_5_with_its_library(check, monkeypatch, said, python, warning):
    program = shutil.which(python)  # a Python that can import everything, or nothing
    monkeypatch.setattr(command, "_PYTHON", program)
    sync = ("[sync]", "url = /srv/tree", "tree-directory = /var/tree", "repositories = /etc/yum.repos.d")
    printed = check(said, "packages = none", *sync)
    expected = f"warning: repositories in [sync] cannot be checked: {warning.format(program)}" if warning else ""
    assert printed.startswith(expected)
    assert bool(printed) == bool(expected)


def test_a_machine_without_an_agent_needs_no_dnf(tmp_path):
    file = tmp_path / "tools.cfg"
    file.write_text("[zkdeployment]\nzookeeper = zk1:2181\n")
    done = invoke("config", "check", file, env={"PATH": str(Path(shutil.which("true")).parent)})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["localhost", "one"])
def test_a_new_host_without_a_domain_is_warned_of(tmp_path, monkeypatch, name):
    monkeypatch.setattr(socket, "getfqdn", lambda: name)
    file = tmp_path / "host.cfg"
    lines = [
        "[zkdeployment]",
        "host-id = one",
        f"run-directory = {tmp_path}",
        f"root = {tmp_path}",
        "packages = none",
    ]
    file.write_text("\n".join(lines))
    assert invoke("config", "check", file).stderr == (
        "warning: the full name of this host is not known: expected a name with a domain,"
        f" found '{name}'; correct DNS, or set host-name in the configuration\n"
    )
    file.write_text("\n".join([*lines, "host-name = one"]))
    assert invoke("config", "check", file).stderr == ""


@pytest.mark.parametrize(
    ("seconds", "limit", "is_warned"),
    [(30, 60.0, False), (300, 60.0, True), (300, 330.0, False), (300, math.inf, False), (300, None, False)],
)
def test_an_agent_that_systemd_would_kill_before_stop_timeout_is_warned_of(
    check, monkeypatch, seconds, limit, is_warned
):
    monkeypatch.setattr(config_verb, "stop_limit", lambda _: limit)
    warnings = check({}, "packages = none", f"stop-timeout = {seconds}")
    assert warnings == is_warned * (
        "warning: stop-timeout: systemd kills an agent that does not end within 60 s, expected at least 330 s;"
        " write the lines [Service] and TimeoutStopSec=330 to"
        " /etc/systemd/system/zkdeployment-agent.service.d/stop-timeout.conf, and run systemctl daemon-reload\n"
    )


@pytest.mark.parametrize(
    ("lines", "mode", "owner", "is_warned"),
    [
        (("[sync]", "url = /srv/tree"), 0o640, (0, 0), True),
        (("[sync]", "url = /srv/tree"), 0o600, (0, NOBODY.pw_gid), True),
        (("[sync]", "url = /srv/tree"), 0o640, (0, NOBODY.pw_gid), False),
        (("[sync]", "url = /srv/tree"), 0o400, (NOBODY.pw_uid, 0), False),
        (("[sync]", "url = /srv/tree"), 0o044, (NOBODY.pw_uid, 0), True),
        (("[sync]", "url = /srv/tree"), 0o644, (0, 0), False),
        ((), 0o600, (0, 0), False),
    ],
)
def test_a_syncer_that_cannot_read_its_configuration_is_warned_of(
    check, tmp_path, monkeypatch, lines, mode, owner, is_warned
):
    monkeypatch.setattr(pwd, "getpwnam", lambda _: NOBODY)
    mirror = ("tree-directory = /tmp/tree",) if lines else ()
    file = tmp_path / "host.cfg"
    file.touch()
    os.chown(file, *owner)
    file.chmod(mode)
    warnings = check({}, "packages = none", *lines, *mirror)
    problem = f"warning: the syncer does not start: zkdeployment cannot read {file}, which belongs to "
    assert (problem in warnings) is is_warned


def test_places_to_which_the_user_of_the_units_cannot_write_are_warned_of(check, tmp_path, monkeypatch):
    monkeypatch.setattr(pwd, "getpwnam", lambda _: NOBODY)
    state, textfile = tmp_path / "state", tmp_path / "textfile"
    textfile.mkdir()
    sync = ("packages = none", "[sync]", "url = /srv/tree", f"tree-directory = {state}/tree")
    metrics = (f"metrics = {textfile}/syncer.prom",)
    assert "No such file or directory; make it with: install -d -o zkdeployment" in check({}, *sync)
    shutil.rmtree(tmp_path / "bin")
    state.mkdir()
    warnings = check({}, *sync, *metrics)
    assert (
        f"warning: tree-directory in [sync]: zkdeployment cannot write to {state}, which belongs to root"
        in warnings
    )
    assert f"warning: metrics in [sync]: zkdeployment cannot write to {textfile}" in warnings
    shutil.rmtree(tmp_path / "bin")
    for place in (state, textfile):
        os.chown(place, NOBODY.pw_uid, NOBODY.pw_gid)
    assert check({}, *sync, *metrics) == ""
    shutil.rmtree(tmp_path / "bin")
    (state / "tree").mkdir()
    assert f"zkdeployment cannot write to {state}/tree, which belongs to root" in check({}, *sync)


@pytest.mark.parametrize("output", ["table", "json"])
def test_passwords_in_urls_of_commands_and_sources_are_not_shown(tmp_path, output):
    file = tmp_path / "host.cfg"
    file.write_text(
        "[zkdeployment]\n"
        "host-id = one\n"
        "host-name = one.example.com\n"
        f"run-directory = {tmp_path}\n"
        "after = /usr/bin/curl --token hidden https://user:hidden@hooks.example.com/x\n"
        "checkout-sources = https://user:hidden@git.example.com/\n"
    )
    done = invoke("config", "check", file, "-o", output)
    assert done.stdout.count("https://***@") == 2
    assert "hidden" not in done.stdout
