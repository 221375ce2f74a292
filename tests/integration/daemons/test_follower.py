from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from kazoo.security import make_acl
from structlog.testing import capture_logs

from support.metrics import probe_of
from support.waiting import wait_until
from support.zookeeper import through
from zkdeployment.adapters.clock import SystemClock
from zkdeployment.adapters.systemd import Notifier
from zkdeployment.adapters.zookeeper.interventions import Interventions
from zkdeployment.adapters.zookeeper.publications import ZooKeeperPublications
from zkdeployment.adapters.zookeeper.session import Session
from zkdeployment.daemons.control import Control
from zkdeployment.daemons.follower import Follower
from zkdeployment.daemons.syncer import Syncer
from zkdeployment.errors import RestartError, ZkdeploymentError
from zkdeployment.model.act import Act

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.proxy import Proxy
    from support.publishing import Publishing
    from zkdeployment.model.tree import Value
    from zkdeployment.ports import TreeSource

TREE = "/who\n  /web : shop\n    version = '1.0'\n    /deploy\n      /h1\n"
BAD = "/who\n  x = open('f')\n"

NEVER = 3600.0
OFTEN = 0.05


@contextmanager
def following(
    publishing: Publishing, interval: float, connection: str | None = None, source: TreeSource | None = None
) -> Iterator[Control]:
    session = Session(connection or publishing.zookeeper, session_timeout=2, call_timeout=2)
    store = ZooKeeperPublications(session)
    control = Control(SystemClock())
    syncer = Syncer(source or publishing.source(), store, SystemClock(), publishing.memory())
    follower = Follower(
        syncer, store, control, connect=session.open, notifier=Notifier({}), probe=probe_of(session)
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
        return str(Interventions(session).resume_latest(Act("me", "resume --latest", reason, 0.0), timeout=60))


def test_every_push_is_published(publishing: Publishing):
    first = publishing.push(TREE)
    with following(publishing, OFTEN):
        published(publishing, first)
        assert publishing.get("/who/web")["version"] == "1.0"
        published(publishing, publishing.push(TREE.replace("1.0", "1.1")))
        assert publishing.get("/who/web")["version"] == "1.1"


def test_it_looks_at_once_when_woken(publishing: Publishing):
    first = publishing.push(TREE)
    with following(publishing, NEVER) as control:
        published(publishing, first)
        second = publishing.push(TREE.replace("1.0", "1.1"))
        assert publishing.version == first
        control.wake()
        published(publishing, second)
        assert publishing.get("/who/web")["version"] == "1.1"


def test_an_operator_s_request_ends_a_stop_at_once(publishing: Publishing):
    first = publishing.push(TREE)
    with following(publishing, NEVER):
        published(publishing, first)
        publishing.register("h1", "older")
        publishing.put("/hosts", {"version": None})
        second = publishing.push(TREE.replace("1.0", "1.1"))
        assert ask(publishing) == second
        assert publishing.version == second
        assert publishing.get("/zkdeployment/request") is None


def test_a_request_that_cannot_be_met_is_answered_with_the_reason(publishing: Publishing):
    first = publishing.push(TREE)
    with following(publishing, NEVER):
        published(publishing, first)
        publishing.push(BAD)
        with pytest.raises(ZkdeploymentError, match=r"(?s)the syncer could not publish: .*a\.zk:2:7"):
            ask(publishing)
        assert publishing.version == first


def test_a_request_made_before_it_started_is_served(publishing: Publishing):
    publishing.put("/zkdeployment/request", {"id": "1", "by": "me", "reason": "", "time": 0.0})
    publishing.put("/hosts", {"version": None})
    revision = publishing.push(TREE)
    with following(publishing, NEVER):
        published(publishing, revision)
        wait_until(lambda: publishing.get("/zkdeployment/request") is None, "the request is answered")
        assert publishing.get("/who/web")["version"] == "1.0"


def test_a_session_that_is_over_for_good_ends_it(publishing: Publishing):
    session = Session(publishing.zookeeper)
    session.open()
    store = ZooKeeperPublications(session)
    syncer = Syncer(publishing.source(), store, SystemClock(), publishing.memory())
    follower = Follower(
        syncer, store, Control(SystemClock()), connect=session.open, notifier=Notifier({}), probe=probe_of(session)
    )
    session.close()
    with pytest.raises(RestartError):
        follower.run(NEVER)


def test_a_request_that_zookeeper_interrupts_is_served_later(publishing: Publishing, proxy: Proxy):
    publishing.put("/zkdeployment/request", {"id": "1", "by": "me", "reason": "", "time": 0.0})
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
        assert publishing.get("/zkdeployment/request") == {"id": "1", "by": "me", "reason": "", "time": 0.0}
        proxy.heal()
        published(publishing, revision)
        wait_until(lambda: publishing.get("/zkdeployment/request") is None, "the request is answered")


def test_a_bad_tree_is_said_once_for_each_revision(publishing: Publishing):
    publishing.push(BAD)
    with capture_logs() as logs, following(publishing, OFTEN):
        wait_until(lambda: len(refused(logs)) == 1, "the tree is refused")
        looked_at_again(publishing)
        second = publishing.push(BAD + "\n")
        wait_until(lambda: len(refused(logs)) == 2, "the other one is refused")
        looked_at_again(publishing)
        published(publishing, publishing.push(TREE))
    assert len(refused(logs)) == 2
    assert second in refused(logs)[1]["reason"]
    assert [entry["event"] for entry in logs if entry["event"] == "published"] == ["published"]


def test_all_stop_is_said_loudly(publishing: Publishing):
    publishing.push(TREE)
    publishing.put("/hosts", {"version": None})
    with capture_logs() as logs, following(publishing, OFTEN):
        wait_until(lambda: logs, "something is said")
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("all-stop", "critical")]


def test_hosts_that_are_behind_are_waited_for(publishing: Publishing):
    first = publishing.push(TREE)
    with capture_logs() as logs, following(publishing, OFTEN):
        published(publishing, first)
        publishing.register("h1", "older")
        second = publishing.push(TREE.replace("1.0", "1.1"))
        wait_until(lambda: logs and logs[-1]["event"] == "not-converged", "it waits")
        assert publishing.version == first
        publishing.put("/hosts/h1", {"name": "h1", "version": first})
        published(publishing, second)


def test_a_repository_that_comes_back_is_followed(publishing: Publishing):
    first = publishing.push(TREE)
    hidden = publishing.directory / "hidden"
    publishing.repository.directory.rename(hidden)
    with capture_logs() as logs, following(publishing, OFTEN):
        wait_until(lambda: logs, "the missing repository is noticed")
        hidden.rename(publishing.repository.directory)
        published(publishing, first)
    assert [entry["event"] for entry in logs] == ["repository-unreadable", "published"]


def test_the_last_time_that_the_repository_was_read_stays_known(publishing: Publishing):
    def reported(words: str) -> object:
        def report() -> dict[str, Value]:
            return publishing.get("/zkdeployment/syncer") or {}

        wait_until(lambda: words in str(report().get("said")), f"it says {words}", 60)
        return report()["fetched"]

    publishing.push(TREE)
    with following(publishing, NEVER):
        reported("published")
    fetched = (publishing.get("/zkdeployment/syncer") or {})["fetched"]
    assert abs(float(str(fetched)) - time.time()) < 300
    publishing.repository.directory.rename(publishing.directory / "hidden")
    with following(publishing, NEVER):
        assert reported("there is no git repository") == fetched


def test_a_sign_of_life_that_zookeeper_does_not_allow_ends_nothing(publishing: Publishing):
    publishing.put("/zkdeployment/syncer", {})
    publishing.client.set_acls("/zkdeployment/syncer", [make_acl("world", "anyone", read=True)])
    with capture_logs() as logs, following(publishing, OFTEN):
        published(publishing, publishing.push(TREE))
        wait_until(lambda: "report-not-written" in [entry["event"] for entry in list(logs)], "it is told")
        assert "does not allow to set /zkdeployment/syncer" in str(logs)
        published(publishing, publishing.push(TREE.replace("1.0", "1.1")))
        assert publishing.get("/who/web")["version"] == "1.1"


def test_it_starts_without_zookeeper_and_survives_its_absence(publishing: Publishing, proxy: Proxy):
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


def looked_at_again(publishing: Publishing) -> None:
    """Return after the lock was taken and given back two more times."""
    seen = publishing.client.get("/hosts-lock")[1].cversion
    wait_until(lambda: publishing.client.get("/hosts-lock")[1].cversion >= seen + 4, "the tree is looked at again")
