"""The logs of daemons and commands."""

import io
import json
import logging
import subprocess
import sys
import threading

import pytest

from zkdeployment.base import log
from zkdeployment.base.log import lines as log_lines


@pytest.fixture(autouse=True)
def _restored(monkeypatch):
    monkeypatch.setattr(log_lines, "process", {})
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def told(**options: bool) -> list[str]:
    stream = io.StringIO()
    log.configure(stream=stream, **options)
    log.get_logger().debug("detail")
    log.get_logger().info("step", number=1)
    logging.getLogger("kazoo.client").warning("Connection dropped")
    log.get_logger().error("failed")
    return [json.loads(line)["event"] for line in stream.getvalue().splitlines()]


def test_a_daemon_logs_its_steps():
    assert told() == ["step", "Connection dropped", "failed"]


def test_a_verbose_daemon_logs_details():
    assert told(verbose=True) == ["detail", "step", "Connection dropped", "failed"]


def test_a_command_logs_only_unexpected_events():
    assert told(quiet=True) == ["failed"]


def lines(tell, *, terminal: bool = False) -> list[str]:
    """Return the log lines of ``tell``."""
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    log.configure(stream=stream)
    tell()
    return stream.getvalue().splitlines()


def test_every_line_of_a_process_has_the_values_bound_to_the_process():
    def tell() -> None:
        log.bind_process(host="h1")
        log.get_logger().info("one")
        for target in (
            lambda: log.get_logger().info("two"),
            lambda: logging.getLogger("kazoo.x").warning("three"),
        ):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()

    assert [json.loads(line)["host"] for line in lines(tell)] == ["h1"] * 3


def test_values_bound_to_a_block_end_with_the_block():
    def tell() -> None:
        with log.bound(step="deploy"), log.bound(revision="r1"):
            log.get_logger().info("inside")
        log.get_logger().info("outside")

    inside, outside = map(json.loads, lines(tell))
    assert (inside["step"], inside["revision"]) == ("deploy", "r1")
    assert {"step", "revision"}.isdisjoint(outside)


@pytest.mark.parametrize("terminal", [True, False])
def test_no_line_shows_a_secret(terminal):
    def tell() -> None:
        try:
            int("password=hunter2")
        except ValueError:
            log.get_logger().exception("failed", token="hunter2", argv=["git", "clone", "https://u:hunter2@h/x"])
        logging.getLogger("kazoo").warning("auth failed, secret: %s", "hunter2")
        log.get_logger().info(
            "nested", more={"api-key": "hunter2", "text": ("--password", "x --password hunter2")}
        )

    text = "\n".join(lines(tell, terminal=terminal))
    assert "ValueError" in text
    assert "nested" in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_lines_on_a_terminal_are_coloured_unless_that_is_not_wanted(monkeypatch, environment, coloured):
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in {"TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    (line,) = lines(lambda: log.get_logger().info("step"), terminal=True)
    assert "step" in line
    assert ("\x1b" in line) == coloured


def test_a_library_that_repeats_itself_is_heard_once_a_minute(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    monkeypatch.setattr("time.time_ns", lambda: int(now[0] * 1e9))  # from Python 3.13 on

    def tell() -> None:
        for seconds in (0, 2, 30, 40):
            now[0] += seconds
            logging.getLogger("kazoo.client").warning("Connection dropped: %s", seconds)
            logging.getLogger("kazoo.client").error("bad")
            log.get_logger().info("ours")

    events = [json.loads(line)["event"] for line in lines(tell)]
    assert events.count("bad") == events.count("ours") == 4
    assert [event for event in events if "dropped" in event] == ["Connection dropped: 0", "Connection dropped: 40"]


def test_an_agent_is_spared_libraries_that_it_rarely_needs_and_others_still_find_them():
    code = """
import sys
import zkdeployment.programs.agent
import zkdeployment.base.log
zkdeployment.base.log.configure()
zkdeployment.base.log.get_logger().info("started")
spared = {"asyncio", "difflib", "psutil", "rich", "smtplib", "zkdeployment.service.users.user", "zoneinfo"}
assert not spared & sys.modules.keys(), spared & sys.modules.keys()
import asyncio, rich.table
asyncio.run(asyncio.sleep(0))
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("on_terminal", [True, False])
def test_no_line_has_characters_that_control_a_terminal(monkeypatch, on_terminal):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: on_terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    log.configure(stream=stream)
    log.get_logger().info("step", reason="\x1b[2J\u202eab\x9b")
    assert "\\u202eab" in stream.getvalue()
    assert stream.getvalue().rstrip("\n").isprintable()
