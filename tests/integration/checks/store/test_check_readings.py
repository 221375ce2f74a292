"""The shared reading of check instances on a real ZooKeeper: its content, and what it costs."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from support.waiting import wait_until
from support.zookeeper import connected, renew_session, sent_requests
from zkdeployment.base.act import Maintenance
from zkdeployment.checks import feed as readings
from zkdeployment.checks import paths as check_paths
from zkdeployment.checks.feed import PAUSE, CheckReadings
from zkdeployment.checks.rules.instance import CheckInstance, InstanceKey
from zkdeployment.checks.rules.listing import listed_part
from zkdeployment.checks.rules.monitoring_system import STALE_AFTER, CheckResult, ResultState, SystemContact
from zkdeployment.checks.rules.workflow import WantedConfiguration, delete, want
from zkdeployment.checks.store.instances import ZooKeeperCheckInstances
from zkdeployment.checks.store.systems import ZooKeeperMonitoringSystems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.checks.rules.findings import CheckReading
    from zkdeployment.zookeeper.session import Session

NOW = 1000.0
CRITICAL = CheckResult(ResultState.CRITICAL, "refused", 5.0, 6.0)


class Checks:
    """Instances and a monitoring system, written through one session, and readings through another."""

    def __init__(self, writer: Session, reader: Session) -> None:
        self.reader = reader
        self.store = ZooKeeperCheckInstances(writer)
        self.systems = ZooKeeperMonitoringSystems(writer)
        made = {found.id: found for found in map(_instance, range(60))}
        self.store.change(made, lambda found, _: made[found])
        self.ids = sorted(made)
        self.systems.set_callback("nagios1", None)
        self.systems.note_contact("nagios1", SystemContact(reported=NOW))
        self.systems.record_results("nagios1", {self.ids[0]: CRITICAL})
        self.readings = CheckReadings(reader)

    def read(self, now: float = NOW, maintenance: Mapping[str, Maintenance] | None = None) -> CheckReading:
        """Return a reading with all that was written before."""
        self.reader.last_transaction()  # which waits for the watches
        return self.readings.get(now, maintenance or {})


def _instance(number: int) -> CheckInstance:
    key = InstanceKey("tcp", "/shop/web", number, "h1")
    details = {"host": {"name": "h1.example.com"}, "number": number}
    return want(CheckInstance(key), WantedConfiguration(details, "nagios1", 1), 5.0, is_reported=True)


@pytest.fixture
def checks(session: Session, other: Session) -> Checks:
    return Checks(session, other)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the buckets of instances that are decoded from now on."""
    seen, decode = [], readings.decode_instances

    def noting(path: str, node: Any) -> Any:
        seen.append(path)
        return decode(path, node)

    monkeypatch.setattr(readings, "decode_instances", noting)
    return seen


def test_a_reading_has_the_listed_parts_of_all_instances_and_the_known_results(checks: Checks):
    found = checks.read()
    assert found.instances == {one.id: listed_part(one) for one in checks.store.scan()}
    assert sorted(found.instances) == checks.ids
    assert found.results == {checks.ids[0]: CRITICAL}
    (system,) = found.summary.systems
    assert (system.name, system.reported) == ("nagios1", NOW)
    assert system.flagged == {*checks.store.flagged("nagios1")}
    assert system.open == {*checks.store.open("nagios1")} == {*checks.ids}


def test_nothing_is_read_while_nothing_changed_and_then_only_the_changed_bucket(
    checks: Checks, decoded: list[str], monkeypatch: pytest.MonkeyPatch
):
    first = checks.read()
    assert len(decoded) == len({one[:3] for one in checks.ids})
    decoded.clear()
    sent = sent_requests(checks.reader, monkeypatch)
    assert all(checks.readings.get(NOW, {}) is first for _ in range(20))
    assert (sent, decoded) == ([], [])

    changed = checks.ids[7]
    checks.store.change([changed], lambda _, found: found and delete(found, 6.0))
    bucket = f"{check_paths.INSTANCES}/{changed[:3]}"
    second = checks.read()
    assert second.instances[changed].deleted
    assert second.instances[checks.ids[8]] is first.instances[checks.ids[8]]
    assert decoded == [bucket]
    assert [one.path for one in sent][1:] == [f"{checks.reader._client.chroot}{bucket}"]


def test_a_bucket_a_result_and_a_system_that_are_new_are_read(checks: Checks):
    checks.read()
    new = next(
        found for found in map(_instance, range(60, 2000)) if found.id[:3] not in {i[:3] for i in checks.ids}
    )
    checks.store.change([new.id], lambda *_: new)
    checks.systems.record_results("nagios1", {new.id: CRITICAL})
    checks.systems.set_callback("other/one", "http://o")
    found = checks.read()
    assert found.instances[new.id] == listed_part(new)
    assert found.results[new.id] == CRITICAL
    assert [(one.name, one.callback) for one in found.summary.systems] == [
        ("nagios1", None),
        ("other/one", "http://o"),
    ]


def test_results_become_unknown_by_time_alone_and_without_a_read(checks: Checks, monkeypatch: pytest.MonkeyPatch):
    checks.read()
    sent = sent_requests(checks.reader, monkeypatch)
    assert checks.readings.get(NOW + STALE_AFTER, {}).results[checks.ids[0]] == CRITICAL
    assert checks.readings.get(NOW + STALE_AFTER + 1, {}).results[checks.ids[0]].state is ResultState.UNKNOWN
    assert sent == []


def test_findings_follow_the_maintenance_of_hosts_without_a_read(checks: Checks, monkeypatch: pytest.MonkeyPatch):
    checks.read()
    sent = sent_requests(checks.reader, monkeypatch)
    away = {"h1": Maintenance("h1", "ann", "new disk", NOW)}
    assert {one.word for one in checks.readings.get(NOW, away).findings} == {"in maintenance"}
    assert {one.word for one in checks.readings.get(NOW, {}).findings} == {"pending"}
    assert sent == []


def test_many_clients_share_one_reading_a_second(checks: Checks, monkeypatch: pytest.MonkeyPatch):
    begun = time.monotonic()
    checks.read()
    checks.store.change(checks.ids[:1], lambda _, found: found and delete(found, 6.0))
    checks.reader.last_transaction()
    sent = sent_requests(checks.reader, monkeypatch)
    found: list[CheckReading] = []
    clients = [threading.Thread(target=lambda: found.append(checks.readings.get(NOW, {}))) for _ in range(30)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert len(sent) == 1
    assert time.monotonic() - begun >= PAUSE
    assert all(one is found[0] for one in found)
    assert found[0].instances[checks.ids[0]].deleted


def test_after_a_lost_session_everything_is_read_but_not_decoded_again(checks: Checks, decoded: list[str]):
    first = checks.read()
    decoded.clear()
    renew_session(checks.reader)
    checks.store.change(checks.ids[:1], lambda _, found: found and delete(found, 6.0))
    second = checks.read()
    assert second.instances[checks.ids[0]].deleted
    assert second.instances[checks.ids[1]] is first.instances[checks.ids[1]]
    assert decoded == [f"{check_paths.INSTANCES}/{checks.ids[0][:3]}"]


def test_a_damaged_bucket_hides_no_other_and_its_recorded_reason_is_shown(checks: Checks, zookeeper: str):
    bucket = f"{check_paths.INSTANCES}/{checks.ids[0][:3]}"
    others = {found for found in checks.ids if not bucket.endswith(found[:3])}
    with connected(zookeeper) as client:
        client.set(bucket, b"{")
        client.create(check_paths.UNWRITTEN, b'{"006": "it is damaged", "007": 1}')

        def is_read() -> bool:
            found = checks.read()
            return found.instances.keys() == others and found.summary.unwritten == {"006": "it is damaged"}

        wait_until(is_read, "the reading without the bucket, and with the reason")
