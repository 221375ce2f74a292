"""Fixtures for all tests."""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from contextlib import nullcontext

import pytest
import structlog
from hypothesis import HealthCheck, is_hypothesis_test, settings

from support.hosts.repositories import built_packages, paper_repository
from support.hosts.rpm_hosts import rpm_repository
from support.hosts.rpms import built_rpms
from support.limits import (
    _programs_end_with_the_tests,
    pytest_collection_modifyitems,
    pytest_runtest_makereport,
    pytest_runtest_setup,
    pytest_runtest_teardown,
    pytest_timeout_set_timer,
    unmeasured,
)
from support.recordings import recorded
from support.web.browser import axe_source, browser
from support.zookeeper import (
    _root_client,
    client,
    own_zookeeper_server,
    proxy,
    zookeeper,
    zookeeper_server,
)
from zkdeployment.base import log
from zkdeployment.base.features import install
from zkdeployment.programs import FEATURES

__all__ = [
    "_programs_end_with_the_tests",
    "_root_client",
    "axe_source",
    "browser",
    "built_packages",
    "built_rpms",
    "client",
    "own_zookeeper_server",
    "paper_repository",
    "proxy",
    "pytest_collection_modifyitems",
    "pytest_runtest_makereport",
    "pytest_runtest_setup",
    "pytest_runtest_teardown",
    "pytest_timeout_set_timer",
    "recorded",
    "rpm_repository",
    "zookeeper",
    "zookeeper_server",
]

install(FEATURES)

# Other work on the machine must not fail a test.
settings.register_profile("commit", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=20)
settings.register_profile("nightly", settings.get_profile("commit"), max_examples=100)


# By default, structlog draws tracebacks with all variables, which takes longer than most tests.
_PROCESSORS = [
    *structlog.get_config()["processors"][:-1],
    structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
]


# A shell starts background jobs with SIGINT ignored, and nohup starts programs with SIGHUP ignored. The programs
# that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that write the recordings again and that run also what can wait a night."""
    parser.addoption("--record", action="store_true", help="write tests/recordings again instead of comparing")
    parser.addoption(
        "--nightly", action="store_true", help="run also tests marked nightly, and more examples of properties"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Without the option ``--nightly``, leave tests with that marker out and try fewer examples of properties."""
    is_nightly = config.getoption("nightly")
    settings.load_profile("nightly" if is_nightly else "commit")
    if not is_nightly:
        config.option.markexpr = " and ".join(
            f"({part})" for part in (config.option.markexpr, "not nightly") if part
        )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Trace the import of modules in one worker only, and exclude the imported objects from garbage collection."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    gc.disable()
    try:
        with nullcontext() if worker == "gw0" else unmeasured():
            return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Trace nothing in the process that distributes the tests to workers."""
    if session.config.getoption("numprocesses", None):
        with unmeasured():
            return (yield)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure no coverage in tests of properties and in marked tests: other tests reach the same lines."""
    if item.get_closest_marker("unmeasured") or is_hypothesis_test(getattr(item, "obj", None)):
        with unmeasured():
            return (yield)
    return (yield)


@pytest.fixture(autouse=True)
def _fresh_logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Reset the configuration of logs before and after each test."""
    monkeypatch.setattr(log, "_due", False)
    _reset_logs()
    yield
    _reset_logs()


def _reset_logs() -> None:
    structlog.reset_defaults()
    structlog.configure(processors=_PROCESSORS)
