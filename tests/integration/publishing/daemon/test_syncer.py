from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from kazoo.recipe.lock import Lock
from structlog.testing import capture_logs

from support.repository import break_objects
from zkdeployment.base.act import Act
from zkdeployment.base.errors import (
    AllStopError,
    ConflictError,
    NotConvergedError,
    RefusedError,
    SourceError,
    TreeError,
)
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.reboots import RebootRecord
from zkdeployment.fleet.store.cluster_control import ZooKeeperClusterControl
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.records import GuardOverrides, SyncOptions
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.publishing import Publishing

TREE = """\
/who
  /web : shop
    version = '1.0'
    /providers
    /deploy
      /h1
      /h2
        n = 2
"""

SERVICE = {"type": "shop", "version": "1.0"}


def large(services: int, version: str = "1.0") -> str:
    """Return a tree whose publication takes several transactions."""
    return "/who\n" + "".join(
        f"  /s{number} : shop\n    version = {version!r}\n    /deploy\n      /h{number % 7}\n"
        for number in range(services)
    )


class TestPublishing:
    def test_the_first_publication_creates_all_nodes(self, publishing: Publishing):
        revision = publishing.push(TREE, b_zk="/x\n  y = [1, {'z': None}]\n")
        assert publishing.sync() == f"published {revision} (nodes: 7 added; targets: 2 changed)"
        assert publishing.version == revision
        assert publishing.nodes() == {
            "/who": {},
            "/who/web": SERVICE,
            "/who/web/deploy": {},
            "/who/web/deploy/h1": {},
            "/who/web/deploy/h2": {"n": 2},
            "/who/web/providers": {},
            "/x": {"y": [1, {"z": None}]},
        }
        assert publishing.targets == {"h1": ["/who/web"], "h2": ["/who/web"]}
        assert publishing.published == revision

    def test_a_published_tip_is_not_published_again_and_needs_no_lock(self, publishing: Publishing):
        revision = publishing.push(TREE)
        publishing.sync()
        lock = publishing.client.get("/hosts-lock")[1]
        hosts = publishing.client.get("/hosts")[1]
        assert publishing.sync() == f"nothing to do: {revision} is published"
        assert publishing.client.get("/hosts-lock")[1].cversion == lock.cversion
        assert publishing.client.get("/hosts")[1] == hosts

    def test_only_changed_nodes_are_written(self, publishing: Publishing):
        publishing.push(TREE)
        publishing.sync()
        untouched = publishing.client.get("/who/web/deploy/h2")[1]
        revision = publishing.push(TREE.replace("1.0", "1.1"))
        assert "nodes: 1 changed; targets: 2 changed" in publishing.sync()
        assert publishing.version == revision
        assert publishing.get("/who/web") == {"type": "shop", "version": "1.1"}
        assert publishing.client.get("/who/web/deploy/h2")[1] == untouched

    def test_nodes_that_were_removed_from_the_text_are_deleted(self, publishing: Publishing):
        publishing.push(TREE)
        publishing.sync()
        publishing.push(TREE.replace("      /h1\n", ""))
        publishing.sync()
        assert publishing.get("/who/web/deploy/h1") is None
        assert publishing.targets == {"h2": ["/who/web"]}

    def test_layers_are_added_without_deletions(self, publishing: Publishing):
        publishing.push(TREE, z_zkx="/who\n  /web\n    version = '2.0'\n    threads = 3\n/extra\n  a = 1\n")
        publishing.sync()
        assert publishing.get("/who/web") == {"type": "shop", "version": "2.0", "threads": 3}
        publishing.push(TREE, z_zkx="/extra\n  b = 2\n")
        publishing.sync()
        assert publishing.get("/who/web") == SERVICE
        assert publishing.get("/extra") == {"a": 1, "b": 2}

    def test_foreign_nodes_are_kept(self, publishing: Publishing):
        publishing.put("/foreign", {"x": 1})
        publishing.client.create("/foreign/raw", b"\xff not json")
        publishing.push(TREE)
        publishing.sync()
        assert publishing.get("/foreign") == {"x": 1}
        assert publishing.client.get("/foreign/raw")[0] == b"\xff not json"

    def test_ephemeral_nodes_and_their_ancestors_are_kept(self, publishing: Publishing):
        publishing.push(TREE)
        publishing.sync()
        publishing.put("/who/web/providers/10.0.0.1:80", {"pid": 1}, ephemeral=True)
        publishing.push("/who\n  /other\n")
        publishing.sync(overrides=GuardOverrides(mass_removal=True))
        assert publishing.nodes() == {
            "/who": {},
            "/who/other": {},
            "/who/web": SERVICE,
            "/who/web/providers": {},
            "/who/web/providers/10.0.0.1:80": {"pid": 1},
        }
        assert publishing.targets == {}

    def test_a_removed_file_leaves_its_top_level_node(self, publishing: Publishing):
        publishing.push(TREE, b_zk="/x\n")
        publishing.sync()
        publishing.push(TREE, b_zk=None)
        publishing.sync()
        assert publishing.get("/x") == {}

    def test_roles_get_a_lock_node(self, publishing: Publishing):
        publishing.push(TREE + "/role-locks\n  /db\n/roles\n  /web : ctl\n    version = '1'\n")
        publishing.sync()
        assert sorted(publishing.client.get_children("/role-locks")) == ["db", "web"]

    def test_a_commit_that_changes_no_tree_file_is_a_new_version(self, publishing: Publishing):
        publishing.push(TREE)
        publishing.sync()
        revision = publishing.push(TREE, README_md="hello")
        assert publishing.sync() == f"published {revision} (nodes: no change; targets: 0 changed)"
        assert publishing.version == revision

    def test_warnings_of_the_tree_are_logged(self, publishing: Publishing):
        publishing.push(TREE + "/x\n  y -> /elsewhere\n")
        with capture_logs() as logs:
            publishing.sync()
        assert [entry["event"] for entry in logs] == ["revision-published", "tree-warning", "tree-warning"]
        assert "/elsewhere" in logs[1]["problem"]
        assert "no host runs what the tree deploys to h1" in logs[2]["problem"]

    def test_a_forced_sync_reverts_manual_changes(self, publishing: Publishing):
        publishing.push(TREE)
        publishing.sync()
        publishing.put("/who/web", {"type": "shop", "version": "9.9"})
        publishing.put("/who/web/deploy/h9", {})
        publishing.push(TREE, README_md="hello")
        publishing.sync(force=True)
        assert publishing.get("/who/web") == SERVICE
        assert publishing.get("/who/web/deploy/h9") is None


class TestWhatTheFleetForbids:
    def test_the_refusal_names_all_hosts_that_are_behind(self, publishing: Publishing):
        first = publishing.push(TREE)
        publishing.sync()
        publishing.register("h1", first, "one.example.com")
        publishing.register("h2", "older", "two.example.com")
        publishing.register("h3", None, "three.example.com")
        publishing.push(TREE.replace("1.0", "1.1"))
        with pytest.raises(NotConvergedError) as error:
            publishing.sync()
        assert error.value.exit_code == 3
        assert "two.example.com (h2) has older" in str(error.value)
        assert "three.example.com (h3) has no version" in str(error.value)
        assert "one.example.com" not in str(error.value)
        assert publishing.version == first
        assert publishing.get("/who/web") == SERVICE

    def test_force_publishes_although_hosts_are_behind(self, publishing: Publishing):
        publishing.push(TREE)
        publishing.sync()
        publishing.register("h2", "older")
        revision = publishing.push(TREE.replace("1.0", "1.1"))
        publishing.sync(force=True)
        assert publishing.version == revision

    def test_a_push_waits_for_a_host_that_reboots_and_a_host_that_does_not_come_back_stops_the_fleet(
        self, publishing: Publishing
    ):
        first = publishing.push(TREE)
        publishing.sync()
        now = time.time()
        reboot = RebootRecord("h7", "app7", first, 0, "/os/web", 0, "reboot", "boot-1", now - 9, now + 900)
        publishing.put("/zkdeployment/reboots/h7", reboot.to_json())
        publishing.push(TREE.replace("1.0", "1.1"))
        with pytest.raises(NotConvergedError, match=r"app7 \(h7\) reboots, expected back by"):
            publishing.sync()
        sequence = publishing.get("/zkdeployment/targets")["sequence"]
        overdue = replace(reboot, sequence=sequence, since=now - 1, deadline=now - 1)
        publishing.put("/zkdeployment/reboots/h7", overdue.to_json())
        with pytest.raises(AllStopError):
            publishing.sync()
        assert "did not come back" in publishing.get("/zkdeployment/stops/h7")["reason"]

    def test_a_converged_fleet_gets_the_next_revision(self, publishing: Publishing):
        publishing.register("h1", publishing.push(TREE))
        publishing.sync(force=True)
        revision = publishing.push(TREE.replace("1.0", "1.1"))
        publishing.sync()
        assert publishing.version == revision

    def test_a_stopped_fleet_is_refused_before_a_fetch(self, publishing: Publishing):
        publishing.push(TREE)
        publishing.sync()
        publishing.put("/hosts", {"version": None})
        publishing.push(TREE.replace("1.0", "1.1"))
        break_objects(publishing.repository.directory / ".git")
        with pytest.raises(AllStopError, match="ALL STOP") as error:
            publishing.sync()
        assert error.value.exit_code == 3
        assert publishing.version is None

    def test_a_published_commit_does_not_wait_after_a_stop(self, publishing: Publishing):
        publishing.push(TREE)
        with publishing.syncer() as syncer:
            syncer.sync()
            publishing.put("/hosts", {"version": None})
            with pytest.raises(AllStopError):
                syncer.sync()
            assert syncer.waiting() == ()

    def test_a_forced_sync_ends_a_stop_and_deletes_its_reasons(self, publishing: Publishing):
        publishing.push(TREE)
        publishing.sync()
        publishing.put("/hosts", {"version": None})
        publishing.put("/zkdeployment/stops/h1", {"reason": "boom"})
        revision = publishing.push(TREE.replace("1.0", "1.1"))
        publishing.sync(force=True)
        assert publishing.version == revision
        assert publishing.client.get_children("/zkdeployment/stops") == []

    def test_a_held_cluster_is_synced_with_any_versions_of_the_hosts(self, publishing: Publishing):
        publishing.push(TREE)
        publishing.sync()
        publishing.register("h1", "older")
        publishing.put("/hosts", {"version": False})
        revision = publishing.push(TREE.replace("1.0", "1.1"))
        publishing.sync()
        assert publishing.version == revision

    def test_other_properties_of_hosts_are_kept(self, publishing: Publishing):
        publishing.put("/hosts", {"version": "initial", "note": "by hand"})
        revision = publishing.push(TREE)
        publishing.sync()
        assert publishing.get("/hosts") == {"version": revision, "note": "by hand"}

    def test_the_next_sync_ends_a_manual_hold_and_the_next_push_ends_a_recorded_hold(self, publishing: Publishing):
        first = publishing.push(TREE)
        publishing.sync()
        publishing.put("/hosts", {"version": False})
        publishing.sync()
        assert publishing.version == first
        with Session(publishing.zookeeper) as session:
            ZooKeeperClusterControl(session).hold(Act("ann@adm1", "hold", "rack 7", 1.0))
        assert publishing.sync() == f"nothing to do: {first} is published"
        assert publishing.version is False
        publishing.register("h1", "older")
        second = publishing.push(TREE.replace("1.0", "1.1"))
        publishing.sync()
        assert publishing.version == second
        assert publishing.client.get_children("/zkdeployment/stops") == []

    def test_a_sync_does_not_wait_for_a_held_lock(self, publishing: Publishing):
        publishing.push(TREE)
        publishing.sync()
        revision = publishing.push(TREE.replace("1.0", "1.1"))
        with Lock(publishing.client, "/hosts-lock", "process 4711"):
            with pytest.raises(RefusedError) as error:
                publishing.sync()
            assert str(error.value) == f"{revision} is not published: /hosts-lock is held by process 4711"
            assert error.value.exit_code == 3
            assert len(publishing.client.get_children("/hosts-lock")) == 1
        publishing.sync()
        assert publishing.version == revision

    def test_the_lock_is_released_after_a_failure(self, publishing: Publishing):
        publishing.push(TREE)
        publishing.sync()
        publishing.push("/who\n  x = \n")
        with pytest.raises(TreeError):
            publishing.sync()
        assert publishing.client.get_children("/hosts-lock") == []


class TestBadTrees:
    def test_all_errors_of_a_tree_are_reported_and_nothing_is_published(self, publishing: Publishing):
        publishing.push(TREE)
        publishing.sync()
        before = publishing.nodes()
        publishing.push(TREE + "  /bad : \n    x = open('/etc/passwd')\n", b_zk="/hosts\n  version = 'x'\n")
        with pytest.raises(TreeError) as error:
            publishing.sync()
        problems = [line.strip().split(" ")[0] for line in str(error.value).splitlines()[1:]]
        assert "a.zk:10:9:" in problems
        assert any(problem.startswith("b.zk:1:") for problem in problems)
        assert publishing.nodes() == before

    def test_a_conflict_on_one_host_is_an_error(self, publishing: Publishing):
        publishing.push(TREE + "  /old : shop\n    version = '0.9'\n    /deploy\n      /h1\n")
        with pytest.raises(TreeError, match=r"a\.zk:"):
            publishing.sync(force=True)
        assert publishing.nodes() == {}

    def test_a_host_with_a_role_cannot_be_a_target_itself(self, publishing: Publishing):
        publishing.register("h1", None, role="db")
        publishing.push(TREE)
        with pytest.raises(TreeError, match="h1"):
            publishing.sync(force=True)

    def test_a_repository_without_tree_files_is_an_error(self, publishing: Publishing):
        publishing.push(TREE)
        publishing.sync()
        revision = publishing.repository.commit({"a.zk": None, "README": "x"})
        with pytest.raises(SourceError, match=f"revision {revision} has no tree files"):
            publishing.sync()
        assert publishing.get("/who/web") == SERVICE


class TestPreview:
    def test_a_preview_lists_the_changes_and_writes_nothing(self, publishing: Publishing):
        publishing.push(TREE)
        publishing.sync()
        before = {path: publishing.client.get(path)[1] for path in ("/", "/hosts", "/who/web", "/hosts-lock")}
        publishing.push(TREE.replace("1.0", "1.1"))
        with publishing.syncer() as syncer:
            report = syncer.preview()
        assert report.draft is not None
        assert list(report.draft.describe()) == [
            "/who/web change property version from '1.0' to '1.1'",
            "target h1",
            "target h2",
        ]
        assert {path: publishing.client.get(path)[1] for path in before} == before

    def test_a_preview_of_an_empty_zookeeper_writes_nothing(self, publishing: Publishing):
        publishing.push(TREE)
        with publishing.syncer() as syncer:
            report = syncer.preview()
        assert report.draft is not None
        assert publishing.client.get_children("/") == []

    def test_a_preview_of_a_published_tip_is_empty(self, publishing: Publishing):
        publishing.push(TREE)
        publishing.sync()
        with publishing.syncer() as syncer:
            assert syncer.preview().draft is None


class Meddling(ZooKeeperPublications):
    """A store in which another client writes before each of the next ``times`` publications."""

    def __init__(self, session: Session, meddle, times: int) -> None:
        super().__init__(session)
        self.meddle, self.times = meddle, times

    def publish(self, publication, intents=None):
        if self.times:
            self.times -= 1
            self.meddle()
        super().publish(publication, intents)


class TestOthersWriteToo:
    def sync(self, publishing: Publishing, meddle, times: int = 1) -> str:
        overrides = GuardOverrides(mass_removal=True)
        with Session(publishing.zookeeper) as session:
            store = Meddling(session, meddle, times)
            syncer = Syncer(publishing.source(), store, SystemClock(), publishing.memory())
            return syncer.sync(SyncOptions(overrides=overrides or GuardOverrides())).sentence

    def test_a_concurrent_edit_is_noticed_and_reverted(self, publishing: Publishing):
        publishing.push(TREE)
        publishing.sync()
        revision = publishing.push(TREE.replace("1.0", "1.1"))
        self.sync(publishing, lambda: publishing.put("/who/web", {"type": "shop", "version": "9.9"}))
        assert publishing.get("/who/web") == {"type": "shop", "version": "1.1"}
        assert publishing.version == revision

    def test_a_concurrent_creation_of_a_node_is_noticed(self, publishing: Publishing):
        publishing.push(TREE)
        self.sync(publishing, lambda: publishing.put("/who/web/by-hand", {}))
        assert publishing.get("/who/web/by-hand") is None
        assert publishing.get("/who/web") == SERVICE

    def test_an_instance_that_registers_concurrently_is_kept(self, publishing: Publishing):
        publishing.push(TREE)
        publishing.sync()
        publishing.push("/who\n")
        self.sync(publishing, lambda: publishing.put("/who/web/providers/a:1", {}, ephemeral=True))
        assert publishing.get("/who/web/providers/a:1") == {}

    def test_a_concurrent_stop_is_obeyed(self, publishing: Publishing):
        publishing.push(TREE)
        publishing.sync()
        publishing.push(TREE.replace("1.0", "1.1"))
        with pytest.raises(AllStopError):
            self.sync(publishing, lambda: publishing.put("/hosts", {"version": None}))
        assert publishing.version is None
        assert publishing.get("/who/web") == SERVICE

    def test_a_version_change_during_the_read_of_the_tree_is_noticed(self, publishing: Publishing):
        publishing.push(TREE)
        publishing.sync()
        publishing.push(TREE.replace("1.0", "1.1"))
        with Session(publishing.zookeeper) as session:
            store = ZooKeeperPublications(session)
            lock = store.lock

            def stop_and_lock():
                publishing.put("/hosts", {"version": None})
                return lock()

            store.lock = stop_and_lock  # type: ignore[method-assign]
            with pytest.raises(AllStopError):
                Syncer(publishing.source(), store, SystemClock(), publishing.memory()).sync()
        assert publishing.version is None

    def test_a_sync_fails_if_every_attempt_meets_a_concurrent_write(self, publishing: Publishing):
        first = publishing.push(TREE)
        publishing.sync()
        publishing.push(TREE.replace("1.0", "1.1"))
        with pytest.raises(ConflictError):
            self.sync(publishing, lambda: publishing.put("/who/web", {"type": "x-1"}), times=100)
        assert publishing.version == first

    def test_only_one_of_two_syncers_publishes(self, publishing: Publishing):
        publishing.push(TREE)
        publishing.sync()
        revision = publishing.push(TREE.replace("1.0", "1.1"))
        messages: list[object] = []
        start = threading.Barrier(2)

        def race(name: str) -> None:
            with publishing.syncer(name) as syncer:
                start.wait(60)
                try:
                    messages.append(syncer.sync().sentence.split(" ")[0])
                except RefusedError as error:
                    messages.append(type(error))

        threads = [threading.Thread(target=race, args=(name,)) for name in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert messages.count("published") == 1
        assert publishing.version == revision
        assert publishing.client.get_children("/hosts-lock") == []


class Killed(BaseException):
    """The syncer was killed."""


class TestLargeTrees:
    @pytest.mark.parametrize("transactions", [1, 2, 3])
    def test_the_next_syncer_completes_a_killed_publication(
        self, publishing: Publishing, monkeypatch: pytest.MonkeyPatch, transactions: int
    ):
        first = publishing.push("/who\n  /x\n")
        publishing.sync()
        revision = publishing.push(large(1000))
        with monkeypatch.context() as patch:
            begin, done = Session.begin, []

            def limited(session: Session, *operations: object) -> Callable[[], None]:
                if len(operations) > 1:
                    if len(done) == transactions:
                        raise Killed
                    done.append(len(operations))
                return begin(session, *operations)  # type: ignore[arg-type]

            patch.setattr(Session, "begin", limited)
            with pytest.raises(Killed):
                publishing.sync()
        assert publishing.get("/hosts") == {"version": first, "importing": revision}
        assert publishing.published is None
        publishing.register("h1", "what it had before a restart")
        publishing.sync()
        assert publishing.get("/hosts") == {"version": revision}
        assert publishing.published == revision
        assert len(publishing.client.get_children("/who")) == 1000
        assert publishing.targets["h6"] == sorted(f"/who/s{number}" for number in range(6, 1000, 7))

    def test_the_publication_of_a_newer_tip_replaces_an_incomplete_publication(self, publishing: Publishing):
        first = publishing.push(TREE)
        publishing.sync()
        publishing.put("/hosts", {"version": first, "importing": "gone"})
        publishing.invalidate()
        revision = publishing.push(TREE.replace("1.0", "1.1"))
        publishing.sync()
        assert publishing.get("/hosts") == {"version": revision}
        assert publishing.published == revision
