from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from kazoo.security import make_acl
from structlog.testing import capture_logs

from support.metrics import probe_of, read_metrics
from support.waiting import UNLIMITED, wait_until
from support.zookeeper import through
from zkdeployment.base.act import Act
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.errors import RefusedError, RestartError, SourceError, WaitTimeoutError, ZkdeploymentError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.fleet.store.cluster_control import ZooKeeperClusterControl
from zkdeployment.publishing.daemon.follower import Follower
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.records import SyncOptions
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Delete

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.proxy import Proxy
    from support.publishing import Publishing
    from zkdeployment.base.json_values import Value
    from zkdeployment.intents.rules.revisions import IntentsChange
    from zkdeployment.publishing.ports import TreeSource
    from zkdeployment.publishing.records import Publication

TREE = "/who\n  /web : shop\n    version = '1.0'\n    /deploy\n      /h1\n"
BAD = "/who\n  x = open('f')\n"

NEVER = 3600.0
OFTEN = 0.05


def request_in(version: str | None) -> dict[str, Value]:
    """Return the node of a request that refers to a cluster version without recorded stops."""
    return {"id": "1", "by": "me", "reason": "", "time": 0.0, "state": {"version": version, "stops": 0}}


@contextmanager
def following(
    publishing: Publishing,
    interval: float,
    connection: str | None = None,
    source: TreeSource | None = None,
    metrics: Path | None = None,
) -> Iterator[Control]:
    session = Session(publishing.zookeeper) if connection is None else Session(connection, call_timeout=2)
    store = ZooKeeperPublications(session)
    control = Control(SystemClock())
    syncer = Syncer(source or publishing.source(), store, SystemClock(), publishing.memory())
    follower = Follower(
        syncer,
        store,
        control,
        connect=session.open,
        notifier=SystemdNotifier({}),
        probe=probe_of(session, metrics),
    )
    thread = threading.Thread(target=follower.run, args=(interval,))
    thread.start()
    try:
        yield control
    finally:
        control.stop()
        thread.join()
        session.close()


def published(publishing: Publishing, revision: str) -> None:
    wait_until(lambda: publishing.version == revision, f"{revision} is published")


def ask(publishing: Publishing, reason: str = "a fix") -> str:
    with Session(publishing.zookeeper) as session:
        return str(
            ZooKeeperClusterControl(session).resume_latest(
                Act("me", "resume --latest", reason, 0.0), timeout=UNLIMITED
            )
        )


def report_with(publishing: Publishing, message: str) -> dict[str, Value]:
    """Wait for a report of the syncer whose message contains a text, and return the report."""

    def report() -> dict[str, Value]:
        return publishing.get("/zkdeployment/syncer") or {}

    wait_until(lambda: message in str(report().get("said")), f"the report contains {message}")
    return report()


def test_every_push_is_published(publishing: Publishing):
    first = publishing.push(TREE)
    with following(publishing, OFTEN):
        published(publishing, first)
        assert publishing.get("/who/web")["version"] == "1.0"
        published(publishing, publishing.push(TREE.replace("1.0", "1.1")))
        assert publishing.get("/who/web")["version"] == "1.1"


def test_a_wake_starts_a_cycle_immediately(publishing: Publishing):
    first = publishing.push(TREE)
    with following(publishing, NEVER) as control:
        published(publishing, first)
        second = publishing.push(TREE.replace("1.0", "1.1"))
        assert publishing.version == first
        control.wake()
        published(publishing, second)
        assert publishing.get("/who/web")["version"] == "1.1"


def test_an_operators_request_ends_a_stop_immediately(publishing: Publishing):
    first = publishing.push(TREE)
    with following(publishing, NEVER):
        published(publishing, first)
        publishing.register("h1", "older")
        publishing.put("/hosts", {"version": None})
        second = publishing.push(TREE.replace("1.0", "1.1"))
        assert ask(publishing) == second
        assert publishing.version == second
        assert publishing.get("/zkdeployment/request") is None


def test_the_end_of_a_stop_starts_a_cycle_immediately(publishing: Publishing):
    first = publishing.push(TREE)
    with following(publishing, NEVER), Session(publishing.zookeeper) as session:
        published(publishing, first)
        control = ZooKeeperClusterControl(session)
        control.stop(Act("ann@adm1", "stop", "fire", 0.0))
        second = publishing.push(TREE.replace("1.0", "1.1"))
        assert control.resume(Act("ann@adm1", "resume", "", 0.0)) == first
        published(publishing, second)


def test_a_request_that_cannot_be_served_is_answered_with_the_reason(publishing: Publishing):
    first = publishing.push(TREE)
    with following(publishing, NEVER):
        published(publishing, first)
        publishing.push(BAD)
        with pytest.raises(ZkdeploymentError, match=r"(?s)the syncer could not publish: .*a\.zk:2:7"):
            ask(publishing)
        assert publishing.version == first


@contextmanager
def abandoned_request(session: Session, age_limit: float = 60.0) -> Iterator[None]:
    """Leave the request of a command that was killed while it waited for the answer."""
    control = ZooKeeperClusterControl(session)
    wait = mock.patch.object(control, "_wait_for_answer", side_effect=WaitTimeoutError("killed"))
    withdraw = mock.patch("zkdeployment.fleet.store.cluster_control.answer_request")
    with wait, withdraw, pytest.raises(WaitTimeoutError, match="killed"):
        control.resume_latest(Act("me", "resume --latest", "", 0.0), timeout=age_limit)
    yield


def test_a_request_does_not_end_a_stop_that_came_after_it(publishing: Publishing):
    first = publishing.push(TREE)
    publishing.sync()
    publishing.put("/hosts", {"version": None})
    with Session(publishing.zookeeper) as session, abandoned_request(session):
        ZooKeeperClusterControl(session).stop(Act("ann@adm1", "stop", "fire", 0.0))
        publishing.push(TREE.replace("1.0", "1.1"))
        with following(publishing, NEVER):
            wait_until(
                lambda: "error" in (publishing.get("/zkdeployment/request") or {}), "the request is refused"
            )
        assert publishing.version is None
        assert publishing.published == first
        error = str((publishing.get("/zkdeployment/request") or {})["error"])
        assert error.startswith("the fleet was stopped again after me had asked")


def test_a_request_is_not_served_when_it_is_too_old(publishing: Publishing):
    publishing.push(TREE)
    publishing.sync()
    publishing.put("/hosts", {"version": None})
    with Session(publishing.zookeeper) as session, abandoned_request(session, age_limit=0.0):
        with following(publishing, NEVER):
            wait_until(
                lambda: "error" in (publishing.get("/zkdeployment/request") or {}), "the request is refused"
            )
        assert publishing.version is None
        assert "expired: expected to be served within 0 s" in str(publishing.get("/zkdeployment/request"))
        publishing.sync(force=True)
        assert publishing.get("/zkdeployment/request") is None


def stop_fleet(session: Session) -> None:
    ZooKeeperClusterControl(session).stop(Act("ann@adm1", "stop", "fire", 0.0))


def withdraw_request(session: Session) -> None:
    session.commit(Delete("/zkdeployment/request"))


@pytest.mark.parametrize(
    ("interfere", "message"), [(stop_fleet, "stopped again"), (withdraw_request, "was taken back")]
)
def test_a_stop_or_a_withdrawal_during_the_service_of_a_request_prevails(
    publishing: Publishing, interfere: Callable[[Session], None], message: str
):
    publishing.push(TREE)
    publishing.sync()
    publishing.put("/hosts", {"version": None})
    publishing.push(TREE.replace("1.0", "1.1"))
    with Session(publishing.zookeeper) as session, abandoned_request(session):
        store = ZooKeeperPublications(session)
        syncer = Syncer(publishing.source(), store, SystemClock())
        request, publish = store.request(), store.publish

        def interfere_first(publication: Publication, intents: IntentsChange | None) -> None:
            store.publish = publish  # type: ignore[method-assign]
            interfere(session)
            publish(publication, intents)

        store.publish = interfere_first  # type: ignore[method-assign]
        with pytest.raises(RefusedError, match=message):
            syncer.sync(SyncOptions(force=True, request=request))
        assert publishing.version is None


def test_a_request_stays_pending_while_another_syncer_holds_the_lock(publishing: Publishing):
    publishing.push(TREE)
    publishing.sync()
    publishing.put("/hosts", {"version": None})
    second = publishing.push(TREE.replace("1.0", "1.1"))
    with Session(publishing.zookeeper) as session, Session(publishing.zookeeper) as other:
        lock = ZooKeeperPublications(other).lock()
        assert lock.try_acquire()
        with abandoned_request(session), capture_logs() as logs, following(publishing, NEVER):
            wait_until(lambda: any("lock is held" in str(entry) for entry in logs), "the lock is in the way")
            assert "error" not in (publishing.get("/zkdeployment/request") or {"error": "gone"})
            lock.release()
            published(publishing, second)
            assert publishing.get("/zkdeployment/request") is None


def test_a_syncer_without_a_repository_leaves_a_request_to_another_one_for_a_while(publishing: Publishing):
    publishing.push(TREE)
    publishing.sync()
    publishing.put("/hosts", {"version": None})
    second = publishing.push(TREE.replace("1.0", "1.1"))
    broken = mock.Mock(wraps=publishing.source("broken"))
    broken.fetch.side_effect = SourceError("no route to host")
    with Session(publishing.zookeeper) as session, following(publishing, OFTEN, source=broken):
        with abandoned_request(session, UNLIMITED):
            before = broken.fetch.call_count
            wait_until(lambda: broken.fetch.call_count > before + 2, "the broken syncer tried to serve it")
            assert "error" not in (publishing.get("/zkdeployment/request") or {"error": "gone"})
            with following(publishing, NEVER):
                published(publishing, second)
        with abandoned_request(session, age_limit=8.0):
            wait_until(lambda: "error" in (publishing.get("/zkdeployment/request") or {}), "it is answered")
    assert (publishing.get("/zkdeployment/request") or {})["error"] == "no route to host"


def test_a_failed_cycle_whose_tip_is_published_leaves_nothing_unpublished(publishing: Publishing, tmp_path: Path):
    publishing.push(TREE)
    publishing.sync()
    file = tmp_path / "syncer.prom"
    with Session(publishing.zookeeper) as session, Session(publishing.zookeeper) as other:
        assert ZooKeeperPublications(other).lock().try_acquire()
        with abandoned_request(session), following(publishing, OFTEN, metrics=file):
            wait_until(lambda: file.exists() and failures(file) > 1, "the lock is in the way")
    assert "syncer_unpublished_since_timestamp_seconds" not in read_metrics(file.read_text())


def failures(file: Path) -> float:
    return read_metrics(file.read_text())["syncer_looks_total"]["publication-refused",]


def test_a_request_from_before_the_start_is_served(publishing: Publishing):
    publishing.put("/zkdeployment/request", request_in(None))
    publishing.put("/hosts", {"version": None})
    revision = publishing.push(TREE)
    with following(publishing, NEVER):
        published(publishing, revision)
        wait_until(lambda: publishing.get("/zkdeployment/request") is None, "the request is answered")
        assert publishing.get("/who/web")["version"] == "1.0"


def test_a_closed_session_ends_the_follower(publishing: Publishing):
    session = Session(publishing.zookeeper)
    session.open()
    store = ZooKeeperPublications(session)
    syncer = Syncer(publishing.source(), store, SystemClock(), publishing.memory())
    follower = Follower(
        syncer,
        store,
        Control(SystemClock()),
        connect=session.open,
        notifier=SystemdNotifier({}),
        probe=probe_of(session),
    )
    session.close()
    with pytest.raises(RestartError):
        follower.run(NEVER)


def test_a_request_that_zookeeper_interrupts_is_served_later(publishing: Publishing, proxy: Proxy):
    publishing.put("/zkdeployment/request", request_in("initial"))
    revision = publishing.push(TREE)
    source = publishing.source()
    fetched: list[object] = []

    class Interrupted:
        def fetch(self):
            fetched.append(source.fetch())
            if len(fetched) == 1:
                proxy.cut()
            return fetched[-1]

        def __getattr__(self, name) -> object:
            return getattr(source, name)

    with (
        capture_logs() as logs,
        following(publishing, OFTEN, through(proxy, publishing.zookeeper), source=Interrupted()),
    ):
        wait_until(
            lambda: "zookeeper-unreachable" in [entry["event"] for entry in logs],
            "the server's absence is noticed",
        )
        assert publishing.get("/zkdeployment/request") == request_in("initial")
        proxy.heal()
        published(publishing, revision)
        wait_until(lambda: publishing.get("/zkdeployment/request") is None, "the request is answered")


def test_an_invalid_tree_is_logged_once_for_each_revision(publishing: Publishing):
    publishing.push(BAD)
    with capture_logs() as logs, following(publishing, OFTEN):
        wait_until(lambda: len(refused(logs)) == 1, "the tree is refused")
        wait_for_two_cycles(publishing)
        second = publishing.push(BAD + "\n")
        wait_until(lambda: len(refused(logs)) == 2, "the other syncer is refused")
        wait_for_two_cycles(publishing)
        published(publishing, publishing.push(TREE))
    assert len(refused(logs)) == 2
    assert second in refused(logs)[1]["reason"]
    assert [entry["event"] for entry in logs if entry["event"] == "revision-published"] == ["revision-published"]


def test_a_stop_of_the_fleet_is_logged_as_critical(publishing: Publishing):
    publishing.push(TREE)
    publishing.put("/hosts", {"version": None})
    with capture_logs() as logs, following(publishing, OFTEN):
        wait_until(lambda: logs, "something is said")
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("all-stop", "critical")]


def test_the_next_revision_waits_for_hosts_that_are_behind(publishing: Publishing):
    first = publishing.push(TREE)
    with capture_logs() as logs, following(publishing, OFTEN):
        published(publishing, first)
        publishing.register("h1", "older")
        second = publishing.push(TREE.replace("1.0", "1.1"))
        wait_until(lambda: logs and logs[-1]["event"] == "not-converged", "it waits")
        assert publishing.version == first
        publishing.put("/hosts/h1", {"name": "h1", "version": first})
        published(publishing, second)


def test_a_repository_that_becomes_readable_again_is_followed(publishing: Publishing):
    first = publishing.push(TREE)
    hidden = publishing.directory / "hidden"
    publishing.repository.directory.rename(hidden)
    with capture_logs() as logs, following(publishing, OFTEN):
        wait_until(lambda: logs, "the missing repository is noticed")
        hidden.rename(publishing.repository.directory)
        published(publishing, first)
    assert [entry["event"] for entry in logs][:2] == ["repository-unreadable", "revision-published"]


def test_the_time_of_the_last_fetch_is_kept_over_a_restart(publishing: Publishing):
    publishing.push(TREE)
    with following(publishing, NEVER):
        report_with(publishing, "published")
    fetched = (publishing.get("/zkdeployment/syncer") or {})["fetched"]
    assert abs(float(str(fetched)) - time.time()) < 300
    publishing.repository.directory.rename(publishing.directory / "hidden")
    with following(publishing, NEVER):
        assert report_with(publishing, "there is no git repository")["fetched"] == fetched


def test_a_failed_cycle_is_reported_if_the_waiting_commits_cannot_be_read(publishing: Publishing):
    publishing.push(BAD)
    source = publishing.source()
    unreadable = mock.Mock(wraps=source)
    unreadable.newer.side_effect = SourceError("the mirror is damaged")
    with capture_logs() as logs, following(publishing, OFTEN, source=unreadable):
        assert "waiting" not in report_with(publishing, "a.zk:2:7")
    reasons = {entry["reason"] for entry in logs if entry["event"] == "waiting-commits-unknown"}
    assert reasons == {"the mirror is damaged"}


def test_the_waiting_commits_are_read_once(publishing: Publishing):
    commit = publishing.push(BAD)
    source = publishing.source()
    counted = mock.Mock(wraps=source)
    with following(publishing, OFTEN, source=counted):
        report = report_with(publishing, "a.zk:2:7")
        wait_for_two_cycles(publishing)
    assert commit in str(report["waiting"])
    assert counted.newer.call_count == 1


def test_the_follower_publishes_although_its_report_may_not_be_written(publishing: Publishing):
    publishing.put("/zkdeployment/syncer", {})
    publishing.client.set_acls("/zkdeployment/syncer", [make_acl("world", "anyone", read=True)])
    with capture_logs() as logs, following(publishing, OFTEN):
        published(publishing, publishing.push(TREE))
        wait_until(lambda: "report-not-written" in [entry["event"] for entry in list(logs)], "it is told")
        assert "does not allow to set /zkdeployment/syncer" in str(logs)
        published(publishing, publishing.push(TREE.replace("1.0", "1.1")))
        assert publishing.get("/who/web")["version"] == "1.1"


def test_the_follower_starts_and_continues_without_zookeeper(publishing: Publishing, proxy: Proxy):
    proxy.cut()
    first = publishing.push(TREE)
    with capture_logs() as logs, following(publishing, OFTEN, through(proxy, publishing.zookeeper)):
        wait_until(lambda: logs, "the missing server is noticed")
        proxy.heal()
        published(publishing, first)
        proxy.cut()
        second = publishing.push(TREE.replace("1.0", "1.1"))
        wait_until(lambda: logs[-1]["event"] == "zookeeper-unreachable", "its absence is noticed")
        assert publishing.version == first
        proxy.heal()
        published(publishing, second)
        assert publishing.get("/who/web")["version"] == "1.1"


def refused(logs: list[dict[str, str]]) -> list[dict[str, str]]:
    return [entry for entry in list(logs) if entry["event"] == "tree-refused"]


def wait_for_two_cycles(publishing: Publishing) -> None:
    """Return after a contender joined and left the queue of the lock two more times."""
    publishing.client.ensure_path("/hosts-lock")
    seen = publishing.client.get("/hosts-lock")[1].cversion
    wait_until(lambda: publishing.client.get("/hosts-lock")[1].cversion >= seen + 4, "the tree is looked at again")
