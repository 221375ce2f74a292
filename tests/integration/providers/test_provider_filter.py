"""The filter's daemon against a real ZooKeeper that goes away, and after defects."""

import threading
from contextlib import contextmanager
from fractions import Fraction

import pytest
from structlog.testing import capture_logs

from support.waiting import UNLIMITED, wait_until
from support.zookeeper import renew_session
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.providers.filter import ProviderFilter, ZooKeeperFilter
from zkdeployment.providers.instance import Provider
from zkdeployment.zookeeper.session import Session

SOURCE, OUTPUT = "/shop/web/providers", "/in-service/web"


@contextmanager
def running_filter(session, reach=lambda _place: None):
    """Run a filter in a thread."""
    control = Control(SystemClock())
    session.on_change(control.wake)
    store = ZooKeeperFilter(session, SOURCE, OUTPUT, control.wake, reach=reach)
    daemon = ProviderFilter(
        store,
        SystemClock(),
        control,
        majority=Fraction(60),
        connect=session.open,
        notifier=SystemdNotifier({}),
    )
    thread = threading.Thread(target=daemon.run)
    thread.start()
    try:
        yield
    finally:
        control.stop()
        thread.join()
        assert not thread.is_alive()


def register(session, version, *addresses):
    for address in addresses:
        Provider(session, SOURCE, address).register({"version": version})


def events(logs):
    return [line["event"] for line in logs]


def test_a_filter_waits_for_its_input_and_for_zookeeper(own_zookeeper_server):
    address = own_zookeeper_server.address
    with (
        capture_logs() as logs,
        Session(address, call_timeout=UNLIMITED) as session,
        Session(address) as own,
        running_filter(own),
    ):
        wait_until(lambda: "filter-failed" in events(logs), "the input is missing")
        session.ensure(SOURCE)
        register(session, "1.1", "app1:80")
        wait_until(lambda: session.get(f"{OUTPUT}/app1:80"), "a list")
        assert events(logs).count("lead-acquired") == 1  # it kept the lead while the input was missing
        own.call_timeout = 0.5
        own_zookeeper_server.kill()
        wait_until(lambda: "zookeeper-unreachable" in events(logs), "the filter notices it")
        own.call_timeout = 60
        own_zookeeper_server.start()
        register(session, "1.1", "app1:80", "app2:80")
        wait_until(lambda: session.get(f"{OUTPUT}/app2:80"), "the next instance")
    assert [line["reason"] for line in logs if line["event"] == "filter-failed"] == [
        f"{SOURCE}: there is no node /shop"
    ]


def test_a_filter_that_lost_its_session_leads_again_and_switches(session, zookeeper):
    session.ensure(SOURCE)
    register(session, "1.1", "app1:80")
    with capture_logs() as logs, Session(zookeeper) as own:

        def lose_the_session(place):
            if place == "before:switch" and "version-switched" in events(logs) and "lead-lost" not in events(logs):
                renew_session(own)

        with running_filter(own, lose_the_session):
            wait_until(lambda: session.get(f"{OUTPUT}/app1:80"), "a list")
            register(session, "1.4", "app1:80")
            wait_until(lambda: events(logs).count("version-switched") >= 2, "a switch")
        assert session.get(f"{OUTPUT}/app1:80").properties == {"version": "1.4"}
    assert events(logs).count("lead-lost") == 1
    assert events(logs).count("lead-acquired") == 2


def test_a_defect_is_logged_once_and_tried_again(session, zookeeper):
    session.ensure(SOURCE)
    register(session, "1.1", "app1:80")
    attempts = []

    def fail(_place):
        attempts.append(_place)
        if len(attempts) < 3:
            raise ZeroDivisionError

    with capture_logs() as logs, Session(zookeeper) as own, running_filter(own, fail):
        wait_until(lambda: session.get(f"{OUTPUT}/app1:80"), "a list")
    assert events(logs).count("filter-failed") == 1


@pytest.fixture
def session(zookeeper):
    with Session(zookeeper) as opened:
        yield opened
