"""Time limits of tests, which grow on a busy machine, their repetition, and the end of what failed tests leave.

Environment variables mark the programs that tests start, so that they end with their test or with all tests.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import uuid
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import pytest_timeout

from zkdeployment.sandbox.processes import VARIABLE, Deadline

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator


#: The variable with a value that is different in each run of tests.
RUN = "RUN_OF_TESTS"

#: The variable in which pytest names the test and its phase.
TEST = "PYTEST_CURRENT_TEST"


def outliving_the_test() -> dict[str, str]:
    """Return the environment of a program that may outlive the test that starts it."""
    return {name: value for name, value in os.environ.items() if name != TEST}


def outliving_all_tests() -> dict[str, str]:
    """Return the environment of a program that cleans up after the tests."""
    return {name: value for name, value in os.environ.items() if name not in {RUN, TEST}}


#: Seconds between two checks of a time limit.
_INTERVAL = 5.0

#: Waits until the tests have ended, also if they were killed, and kills the programs that they left.
_GUARD = """\
read -r _
for round in 1 2 3 4 5 6 7 8 9; do
    left=$(grep -lzxF "$1" /proc/[0-9]*/environ 2>/dev/null | cut -d / -f 3)
    [ -n "$left" ] || exit 0
    kill -KILL $left
done
"""

_settings = pytest.StashKey[Any]()
_failed = pytest.StashKey[bool]()


# Time limits


def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool:
    """Keep the time limit of a test; its phases set the timer."""
    item.stash[_settings] = settings
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Limit the time of a test and of its fixtures, also when the test is repeated."""
    item.stash[_failed] = False
    _limit(item)


def _limit(item: pytest.Item) -> None:
    """Fail the test at its time limit, and again if its fixtures hang after that."""
    if (settings := item.stash.get(_settings, None)) is None:
        return
    deadline = Deadline(settings.timeout)

    def check(*_: object) -> None:
        nonlocal deadline
        if deadline.passed and not pytest_timeout.is_debugging():
            late, deadline = deadline, Deadline(settings.timeout)
            pytest_timeout.dump_stacks(item.config.get_terminal_writer())
            pytest.fail(f"the test did not end within its time limit, {late}")

    def cancel() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    item.cancel_timeout = cancel  # type: ignore[attr-defined]  # pytest-timeout calls it
    signal.signal(signal.SIGALRM, check)
    interval = min(settings.timeout, _INTERVAL)
    signal.setitimer(signal.ITIMER_REAL, interval, interval)


# Repetition


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run a failed test of real servers again and report that: the machine may have been overloaded.

    The option ``--reruns`` decides for all tests instead; with ``--reruns 0``, no test runs again.
    """
    if config.getoption("reruns", 0) is not None:
        return
    for item in items:
        if {"integration", "system"} & set(item.path.parts):
            item.add_marker(pytest.mark.flaky(reruns=1))


# Programs


@pytest.fixture(scope="session", autouse=True)
def _programs_end_with_the_tests() -> Iterator[None]:
    """Kill all programs that remain after the end of the tests, for every kind of end."""
    value = uuid.uuid4().hex
    words = ["/bin/sh", "-c", _GUARD, "sh", f"{RUN}={value}"]
    with (
        subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True, env=outliving_all_tests()),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv(RUN, value)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember whether the test failed."""
    report = yield
    item.stash[_failed] = item.stash.get(_failed, False) or report.failed
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Limit the time of the end of a test; if the test failed, remove its remains.

    If the test is to be repeated, fixtures for its whole module end, too: the next test gets new ones. Programs
    that the test started are killed, except members of sandboxes, which end with their sandbox.
    """
    _limit(item)
    has_failed = item.stash.get(_failed, False)
    # Another run may have a test of the same name. The last teardown of a run ends its variable, too.
    marks = {RUN: os.environ.get(RUN, ""), TEST: f"{item.nodeid} (call)"}
    try:
        if has_failed and item.get_closest_marker("flaky"):
            # As if a test of another module were next: pytest takes any part of its tree that stays in use.
            item.session._setupstate.teardown_exact(item.session)  # type: ignore[arg-type]
    finally:
        yield
        if has_failed:
            left = [program for program in psutil.process_iter() if _belongs(program, marks)]
            for program in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    program.kill()
            psutil.wait_procs(left, timeout=_INTERVAL)


def _belongs(program: psutil.Process, marks: dict[str, str]) -> bool:
    try:
        environment = program.environ()
    except psutil.Error:
        return False  # it has ended, or belongs to another user
    return environment.items() >= marks.items() and VARIABLE not in environment
