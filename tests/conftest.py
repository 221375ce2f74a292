"""Fixtures for all tests."""

import gc
import signal
from collections.abc import Generator, Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

from support.hosts.repositories import built_packages, paper_repository
from support.hosts.rpm_hosts import rpm_repository
from support.hosts.rpms import built_rpms
from support.hosts.snapshots import snapshots
from support.limits import (
    _programs_end_with_the_tests,
    pytest_collection_modifyitems,
    pytest_runtest_makereport,
    pytest_runtest_setup,
    pytest_runtest_teardown,
    pytest_timeout_set_timer,
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
    "snapshots",
    "zookeeper",
    "zookeeper_server",
]

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
    """Exclude the objects that the imports make from garbage collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


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
