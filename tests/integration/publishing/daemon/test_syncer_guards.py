"""Publications that the syncer refuses as dangerous, and the overrides of operators."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from support.metrics import probe_of
from support.repository import Subversion, make_key, public
from support.waiting import UNLIMITED
from zkdeployment.base.act import Act
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.errors import RefusedError, SourceError, TreeError, ZkdeploymentError
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import KnownHost
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.fleet.store.cluster_control import ZooKeeperClusterControl
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.fleet.store.forgetting import forget_hosts
from zkdeployment.publishing.daemon.follower import Follower
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.records import GuardOverrides, SyncOptions
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.publishing.sources.svn import SvnSource
from zkdeployment.publishing.store.hosts import write_inventory
from zkdeployment.publishing.store.live_tree import ZooKeeperLiveTree
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.tree.values import TreeChange
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from pathlib import Path

    from support.publishing import Publishing
    from zkdeployment.publishing.ports import TreeSource


def tree(services: int, version: str = "1.0") -> str:
    return "/who\n" + "".join(
        f"  /s{number} : shop\n    version = {version!r}\n    /deploy\n      /h{number}\n"
        for number in range(services)
    )


def refused(publishing: Publishing, *, force: bool = False, overrides: GuardOverrides | None = None) -> str:
    before = publishing.nodes(), publishing.get("/hosts"), publishing.get("/zkdeployment/targets")
    with pytest.raises(RefusedError) as error:
        publishing.sync(force=force, overrides=overrides)
    assert error.value.exit_code == 3
    assert (publishing.nodes(), publishing.get("/hosts"), publishing.get("/zkdeployment/targets")) == before
    assert publishing.client.get_children("/hosts-lock") == []
    return str(error.value)


class TestHistory:
    @pytest.mark.parametrize("force", [False, True])
    def test_a_rewritten_branch_is_refused_unless_a_rewind_is_allowed(self, publishing: Publishing, force: bool):
        published = publishing.push(tree(1))
        publishing.sync()
        tip = publishing.repository.commit({"a.zk": tree(1, "1.1")}, "--amend")
        message = refused(publishing, force=force)
        assert message.startswith(
            f"{tip} is not published: it does not descend from {published}, which is published"
        )
        assert "--allow-rewind" in message
        publishing.sync(force=force, overrides=GuardOverrides(rewind=True))
        assert publishing.version == tip

    def test_a_branch_that_was_reset_to_an_older_commit_is_refused(self, publishing: Publishing):
        first = publishing.push(tree(1))
        publishing.push(tree(1, "1.1"))
        publishing.sync()
        publishing.repository.git("reset", "-q", "--hard", first)
        assert "does not descend" in refused(publishing)

    def test_an_unknown_published_commit_does_not_count_as_an_ancestor(self, publishing: Publishing):
        publishing.push(tree(1))
        publishing.sync()
        tip = publishing.repository.commit({"a.zk": tree(1, "1.1")}, "--amend")
        with Session(publishing.zookeeper) as session:
            fresh = Syncer(publishing.source("another mirror"), ZooKeeperPublications(session), SystemClock())
            with pytest.raises(RefusedError, match="does not descend"):
                fresh.sync()
            fresh.sync(SyncOptions(overrides=GuardOverrides(rewind=True)))
        assert publishing.version == tip

    def test_a_merge_and_a_renamed_branch_are_published(self, publishing: Publishing):
        publishing.push(tree(1))
        publishing.sync()
        publishing.repository.git("checkout", "-q", "-b", "side")
        publishing.push(tree(1, "1.1"))
        publishing.repository.git("checkout", "-q", "main")
        publishing.repository.commit({"README": "x"})
        publishing.repository.git("merge", "-q", "--no-edit", "side")
        publishing.repository.git("branch", "-m", "main", "trunk")
        publishing.sync()
        assert publishing.version == publishing.repository.git("rev-parse", "HEAD")

    def test_the_published_revision_is_known_while_the_fleet_is_stopped(self, publishing: Publishing):
        published = publishing.push(tree(1))
        publishing.sync()
        publishing.put("/hosts", {"version": None})
        publishing.repository.commit({"a.zk": tree(1, "1.1")}, "--amend")
        assert published in refused(publishing, force=True)

    def test_the_published_revision_is_known_after_a_stop_and_a_manual_import(self, publishing: Publishing):
        published = publishing.push(tree(1))
        publishing.sync()
        publishing.put("/hosts", {"version": None})
        with Session(publishing.zookeeper) as session:
            change = TreeChange(create={"/who/more": {}})
            ZooKeeperLiveTree(session).import_tree(change, roles=(), versions={})
        publishing.repository.commit({"a.zk": tree(1, "1.1")}, "--amend")
        assert published in refused(publishing, force=True)

    def test_an_interrupted_publication_is_not_replaced_by_another_history(self, publishing: Publishing):
        publishing.push(tree(1))
        publishing.sync()
        begun = publishing.push(tree(1, "1.1"))
        publishing.put("/hosts", {"version": publishing.version, "importing": begun})
        publishing.invalidate()
        publishing.repository.commit({"a.zk": tree(1, "1.2")}, "--amend")
        assert begun in refused(publishing)
        publishing.repository.git("reset", "-q", "--hard", begun)
        publishing.sync()
        assert publishing.get("/hosts") == {"version": begun}

    def test_an_older_subversion_revision_is_refused_unless_a_rewind_is_allowed(
        self, publishing: Publishing, tmp_path: Path
    ):
        subversion = Subversion(tmp_path / "svn")
        subversion.commit({"old/a.zk": tree(1)})
        subversion.commit({"new/a.zk": tree(1, "1.1")})

        def sync(name: str, overrides: GuardOverrides | None = None) -> str:
            with Session(publishing.zookeeper) as session:
                source: TreeSource = SvnSource(f"{subversion.url}/{name}")
                syncer = Syncer(source, ZooKeeperPublications(session), SystemClock())
                return syncer.sync(SyncOptions(overrides=overrides or GuardOverrides())).sentence

        assert sync("new") == "published 2 (nodes: 4 added; targets: 1 changed)"
        assert sync("new") == "nothing to do: 2 is published"
        assert publishing.version == 2
        with pytest.raises(RefusedError, match=r"^1 is not published: it does not descend from 2"):
            sync("old")
        sync("old", GuardOverrides(rewind=True))
        assert publishing.version == 1
        assert publishing.get("/zkdeployment/targets")["version"] == 1  # type: ignore[index]

    def test_a_move_from_git_to_subversion_is_refused_unless_a_rewind_is_allowed(
        self, publishing: Publishing, tmp_path: Path
    ):
        publishing.push(tree(1))
        publishing.sync()
        subversion = Subversion(tmp_path / "svn")
        subversion.commit({"a.zk": tree(1)})
        with Session(publishing.zookeeper) as session:
            moved = Syncer(SvnSource(subversion.url), ZooKeeperPublications(session), SystemClock())
            with pytest.raises(RefusedError, match="does not descend"):
                moved.sync()
            moved.sync(SyncOptions(overrides=GuardOverrides(rewind=True)))
        assert publishing.version == 1


class TestRemoval:
    @pytest.mark.parametrize("force", [False, True])
    def test_a_mass_removal_is_refused_unless_it_is_allowed(self, publishing: Publishing, force: bool):
        publishing.push(tree(10))
        publishing.sync()
        tip = publishing.push(tree(6))
        assert refused(publishing, force=force) == (
            f"{tip} is not published: it would end 4 of 10 deployments (/who/s6: 1, /who/s7: 1, /who/s8: 1,"
            " /who/s9: 1), more than 30%; if that is a mistake, push a repair, or undo the push with"
            " 'zkdeployment rollback'; if it is meant, use 'zkdeployment resume --latest --allow-mass-removal'"
        )
        publishing.sync(force=force, overrides=GuardOverrides(mass_removal=True))
        assert publishing.version == tip
        assert len(publishing.client.get_children("/who")) == 6

    @pytest.mark.parametrize("emptied", ["    /deploy\n", "    /deploy\n      /h1\n        n = 0\n"])
    def test_emptied_lists_of_hosts_and_no_instances_count_as_removed(self, publishing: Publishing, emptied: str):
        publishing.push(tree(3))
        publishing.sync()
        publishing.push(
            "/who\n" + "".join(f"  /s{number} : shop\n    version = '1.0'\n{emptied}" for number in range(3))
        )
        assert "3 of 3 deployments" in refused(publishing)

    def test_a_small_removal_is_published(self, publishing: Publishing):
        publishing.push(tree(10))
        publishing.sync()
        tip = publishing.push(tree(7))
        publishing.sync()
        assert publishing.version == tip

    def test_an_empty_tree_never_removes_all_deployments(self, publishing: Publishing):
        publishing.push(tree(2))
        publishing.sync()
        publishing.push("/who\n")
        assert "2 of 2 deployments" in refused(publishing)
        publishing.push("")
        publishing.sync()
        assert set(publishing.targets) == {"h0", "h1"}
        publishing.repository.commit({"a.zk": None, "README": "x"})
        with pytest.raises(SourceError, match="has no tree files"):
            publishing.sync()

    def test_an_interrupted_allowed_removal_is_completed(self, publishing: Publishing):
        publishing.push(tree(4))
        publishing.sync()
        tip = publishing.push(tree(1))
        publishing.put("/hosts", {"version": publishing.version, "importing": tip})
        publishing.invalidate()
        publishing.sync()
        assert publishing.version == tip


class TestAbsentHosts:
    def test_a_tree_that_conflicts_with_an_absent_host_is_refused_until_the_host_is_forgotten(
        self, publishing: Publishing
    ):
        publishing.push(tree(1))
        publishing.sync()
        with Session(publishing.zookeeper) as session:
            host = Identity("id7", "h0", "db")
            write_inventory(session, KnownHost(host))
            tip = publishing.push(tree(2))
            with pytest.raises(TreeError, match=r"which has the role db: .*'zkdeployment forget id7'"):
                publishing.sync(force=True)
            forget_hosts(session, ZooKeeperFleetReader(session), ["id7"], Act("ann", "forget id7"))
        publishing.sync()
        assert publishing.version == tip


class TestSignedHistory:
    def test_a_back_dated_commit_is_refused(self, publishing: Publishing, tmp_path: Path):
        key = make_key(tmp_path, "key")
        signers = tmp_path / "signers"
        signers.write_text(f"me@example.com {public(key)}\n")
        config = ("gpg.format=ssh", f"user.signingkey={key}.pub")
        source = GitSource(publishing.repository.url, tmp_path / "signed" / "tree", allowed_signers=signers, gap=0)
        now = int(SystemClock().now())
        first = publishing.repository.commit({"a.zk": tree(1)}, "-S", config=config, date=now - 100)
        with Session(publishing.zookeeper) as session:
            syncer = Syncer(source, ZooKeeperPublications(session), SystemClock())
            syncer.sync()
            tip = publishing.repository.commit({"a.zk": tree(1, "1.1")}, "-S", config=config, date=now - 200)
            with pytest.raises(RefusedError, match=f"^{tip} is not published: .* 100 s before"):
                syncer.sync(SyncOptions(force=True))
            assert publishing.version == first
            signers.write_text(f"other@example.com {public(make_key(tmp_path, 'other'))}\n")
            with pytest.raises(SourceError, match="not allowed"):
                syncer.sync(SyncOptions(force=True))

    def test_a_removed_key_is_refused_although_the_commit_was_verified_before(
        self, publishing: Publishing, tmp_path: Path
    ):
        key = make_key(tmp_path, "key")
        signers = tmp_path / "signers"
        signers.write_text(f"me@example.com {public(key)}\n")
        config = ("gpg.format=ssh", f"user.signingkey={key}.pub")
        source = GitSource(publishing.repository.url, tmp_path / "signed" / "tree", allowed_signers=signers, gap=0)
        first = publishing.repository.commit({"a.zk": tree(4)}, "-S", config=config)
        with Session(publishing.zookeeper) as session:
            syncer = Syncer(source, ZooKeeperPublications(session), SystemClock())
            syncer.sync()
            publishing.repository.commit({"a.zk": tree(1)}, "-S", config=config)
            with pytest.raises(RefusedError, match="3 of 4 deployments"):
                syncer.sync(SyncOptions(force=True))
            signers.write_text(f"other@example.com {public(make_key(tmp_path, 'other'))}\n")
            with pytest.raises(SourceError, match="not allowed"):
                syncer.sync(SyncOptions(force=True, overrides=GuardOverrides(mass_removal=True)))
            assert publishing.version == first


class TestRequests:
    def ask(self, publishing: Publishing, overrides: GuardOverrides | None = None) -> object:
        with Session(publishing.zookeeper) as session:
            act = Act("me", "resume --latest", "a fix", 0.0)
            return ZooKeeperClusterControl(session).resume_latest(act, timeout=UNLIMITED, overrides=overrides)

    def test_a_daemon_publishes_a_rewind_only_with_the_overrides_of_an_operator(self, publishing: Publishing):
        publishing.push(tree(4))
        publishing.sync()
        tip = publishing.repository.commit({"a.zk": tree(1)}, "--amend")
        session = Session(publishing.zookeeper, session_timeout=6)
        store = ZooKeeperPublications(session)
        control = Control(SystemClock())
        follower = Follower(
            Syncer(publishing.source(), store, SystemClock()),
            store,
            control,
            connect=session.open,
            notifier=SystemdNotifier({}),
            probe=probe_of(session),
        )
        thread = threading.Thread(target=follower.run, args=(3600,))
        thread.start()
        try:
            with pytest.raises(ZkdeploymentError, match="does not descend"):
                self.ask(publishing)
            with pytest.raises(ZkdeploymentError, match="3 of 4 deployments"):
                self.ask(publishing, GuardOverrides(rewind=True))
            assert self.ask(publishing, GuardOverrides(rewind=True, mass_removal=True)) == tip
            assert publishing.version == tip
        finally:
            control.stop()
            thread.join()
            session.close()
