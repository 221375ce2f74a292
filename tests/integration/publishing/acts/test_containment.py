"""The rule of a syncer with ``contained-in``: commits of the main branch, and exact rollbacks, nothing else."""

from __future__ import annotations

import dataclasses
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from support.branches import Branch
from support.commands import invoke
from support.repository import make_key, public
from zkdeployment.base.errors import RefusedError, SourceError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.config.settings import load
from zkdeployment.publishing.acts.commits import Author, BranchSnapshot, CommitOrder, FileChanges
from zkdeployment.publishing.acts.containment import Containment
from zkdeployment.publishing.acts.opening import open_commits
from zkdeployment.publishing.acts.quarantine import quarantines_of_rollback
from zkdeployment.publishing.acts.rollback import rollback_changes
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.records import GuardOverrides, SyncOptions
from zkdeployment.publishing.sources.git.act_commits import TreeCommits
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from pathlib import Path

    from support.publishing import Publishing

EU = "fleets/eu-1"
ANN = Author("Ann", "ann@example.com")
TRAILER = "Zkdeployment-Rollback-To"
GROUP = "schema: shipyard/DeploymentStrategy/v1\nmetadata: {name: all}\ndata: {groups: []}\n"


def tree(version: str) -> str:
    return f"/app : hello\n  version = '{version}'\n  /deploy\n    /h1\n"


class Fleet:
    """A fleet that follows its own branch of a repository, and the rule of its syncer."""

    def __init__(self, directory: Path, signers: Path | None = None) -> None:
        self.repository = Branch(directory)
        self.signers = signers
        self.directory = directory

    def push(self, version: str, **more: str) -> str:
        """Push to main, and move the branch of the fleet there."""
        files: dict[str, str | bytes | None] = {"a.zk": tree(version), "docs/read.me": version}
        commit = self.repository.push({**files, **{name.replace("_", "."): text for name, text in more.items()}})
        self.move(commit)
        return commit

    def move(self, commit: str) -> None:
        self.repository.clone.git("push", "--quiet", "--force", "origin", f"{commit}:refs/heads/{EU}")

    def roll_back(
        self, to: str, *, quarantine: bool = False, former: bool = False, key: Path | None = None
    ) -> str:
        """Roll the branch of the fleet back, as the verb and the coordinator do."""
        mirror = self.directory / "acts" / "mirror"
        source = GitSource(str(self.repository.bare), mirror, branch=EU, gap=0, allowed_signers=self.signers)

        def compute(branch: BranchSnapshot) -> FileChanges:
            changes = rollback_changes(branch, "it is bad", former_strategy=former)
            more = quarantines_of_rollback(branch, "it is bad", ANN, time.time()) if quarantine else {}
            return dataclasses.replace(changes, files={**changes.files, **more})

        order = CommitOrder(author=ANN, compute=compute, check=lambda *_: (), back_to=to, reads_newer=quarantine)
        outcome = TreeCommits(source, ANN, key).commit(order)
        assert outcome.commit is not None
        return outcome.commit

    def forge(self, parent: str, files: dict[str, str | bytes | None], message: str) -> str:
        """Commit something on top of a commit, and move the branch of the fleet there."""
        clone = self.repository.clone
        clone.git("fetch", "--quiet", "origin", EU)
        clone.git("checkout", "--quiet", "--detach", parent)
        forged = clone.commit(files, message=message)
        clone.git("checkout", "--quiet", "main")
        self.move(forged)
        return forged

    def rule(self) -> tuple[GitSource, Containment]:
        mirror = self.directory / "syncer" / "tree"
        source = GitSource(
            str(self.repository.bare), mirror, branch=EU, gap=0, allowed_signers=self.signers, every_branch=True
        )
        return source, Containment(source, "main")

    def refusal(self) -> str | None:
        source, rule = self.rule()
        return rule.refusal(str(source.fetch()))


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def test_a_commit_of_main_is_published(fleet: Fleet):
    fleet.push("1.0")
    fleet.repository.push({"a.zk": tree("1.1")})  # main may be ahead
    assert fleet.refusal() is None


def test_a_commit_that_main_lacks_is_refused(fleet: Fleet):
    first = fleet.push("1.0")
    forged = fleet.forge(first, {"a.zk": tree("6.6.6")}, "A fix")
    assert fleet.refusal() == (
        f"{forged} is not published: {forged[:12]} is not in main, and is no rollback; expected a commit of main"
        " (contained-in), or a rollback of this fleet; move the branch to such a commit"
    )


def test_a_commit_of_another_branch_and_a_merge_are_refused(fleet: Fleet):
    first = fleet.push("1.0")
    clone = fleet.repository.clone
    other = fleet.forge(first, {"b.zk": "/b\n"}, "Another branch")
    clone.git("push", "--quiet", "origin", f"{other}:refs/heads/feature")
    assert "is no rollback" in str(fleet.refusal())
    clone.git("merge", "--quiet", "--no-ff", "-m", f"Merge\n\n{TRAILER}: {first}", other)
    fleet.move(clone.git("rev-parse", "HEAD"))
    assert "is no rollback" in str(fleet.refusal())


OTHER_GROUP = GROUP.replace("all", "others")
STRATEGY = """\
schema: shipyard/DeploymentStrategy/v1
metadata: {name: deployment-strategy}
data:
  groups:
    - {name: all, critical: true, depends_on: [], selectors: [], success_criteria: {percent_successful_nodes: 100}}
"""


@pytest.mark.parametrize(("quarantine", "former"), [(False, False), (True, False), (False, True)])
def test_a_rollback_of_the_fleet_is_published_and_so_is_one_on_top_of_it(fleet: Fleet, quarantine, former):
    first = fleet.push("1.0", groups_yaml=GROUP, pools_yaml=f"{OTHER_GROUP}---\nother: 1\n")
    second = fleet.push("1.1", groups_yaml=f"# better\n{GROUP}")
    third = fleet.push("1.2", b_zk="/b\n", s_yaml=STRATEGY)
    assert fleet.roll_back(second, quarantine=quarantine, former=former) != third
    assert fleet.refusal() is None
    fleet.roll_back(first, quarantine=quarantine, former=former)
    assert fleet.refusal() is None
    names = fleet.repository.ask("ls-tree", "--name-only", EU).splitlines()
    assert any(name.startswith("quarantine") for name in names) is quarantine
    assert ("s.yaml" in names) is not former
    assert fleet.repository.ask("show", f"{EU}:a.zk").strip() == tree("1.0").strip()


def test_a_rollback_to_an_own_rollback_is_published(fleet: Fleet):
    first = fleet.push("1.0")
    second = fleet.push("1.1")
    rolled = fleet.roll_back(first)
    files: dict[str, str | bytes | None] = {"a.zk": tree("1.1"), "docs/read.me": "1.1"}
    again = fleet.forge(rolled, files, f"Forward\n\n{TRAILER}: {second}")
    assert fleet.refusal() is None
    fleet.roll_back(rolled)
    assert fleet.refusal() is None
    assert again != second


def test_a_rollback_by_a_former_program_which_kept_no_new_nodes_is_published(fleet: Fleet):
    first, second = fleet.push("1.0"), fleet.push("1.1", b_zk="/b\n")
    fleet.forge(second, {"a.zk": tree("1.0"), "b.zk": None}, f"Roll back\n\n{TRAILER}: {first}")
    assert fleet.refusal() is None


@pytest.mark.parametrize(
    ("files", "difference"),
    [
        ({"a.zk": tree("6.6.6")}, "'a.zk'"),
        ({"a.zk": tree("1.0"), "b.zk": "/evil\n"}, "'b.zk'"),
        ({"a.zk": tree("1.0"), "docs/evil": "x"}, "'docs'"),
        ({"a.zk": tree("1.0"), "evil.yaml": GROUP}, "'evil.yaml'"),
        ({"a.zk": tree("1.0"), "quarantine.zk": "schema: zkdeployment/Quarantine/v1\n"}, "'quarantine.zk'"),
        ({"a.zk": tree("1.0"), "q.yaml": "schema: zkdeployment/Quarantine/v1\n"}, "'q.yaml'"),
    ],
)
def test_a_rollback_with_other_content_is_refused(fleet: Fleet, files, difference):
    first, second = fleet.push("1.0"), fleet.push("1.1")
    forged = fleet.forge(second, files, f"Roll back\n\n{TRAILER}: {first}")
    assert f"{forged[:12]} is no exact rollback to {first[:12]}: {difference} differs" in str(fleet.refusal())


def test_a_rollback_on_top_of_a_foreign_commit_is_refused(fleet: Fleet):
    first = fleet.push("1.0")
    forged = fleet.forge(first, {"a.zk": tree("6.6.6"), "docs/evil": "x"}, "Something else")
    fleet.roll_back(first)
    assert f"{forged[:12]} is not in main, and is no rollback" in str(fleet.refusal())


@pytest.mark.parametrize("past", ["0" * 40, "main", "HEAD~1", ""])
def test_a_rollback_to_nothing_that_its_branch_had_is_refused(fleet: Fleet, past):
    fleet.push("1.0")
    second = fleet.push("1.1")
    fleet.forge(second, {"a.zk": tree("1.0")}, f"Roll back\n\n{TRAILER}: {past}")
    refusal = str(fleet.refusal())
    assert ("which its branch did not have before" if past == "0" * 40 else "and is no rollback") in refusal


def test_nothing_returns_from_a_foreign_commit(fleet: Fleet):
    first = fleet.push("1.0")
    forged = fleet.forge(first, {"a.zk": tree("6.6.6")}, "evil")
    source, rule = fleet.rule()
    source.fetch()
    fleet.push("1.1")
    assert not rule.returns(str(source.fetch()), forged)


def test_nothing_returns_from_a_commit_that_the_mirror_lacks(fleet: Fleet):
    source, rule = fleet.rule()
    fleet.push("1.0")
    assert not rule.returns(str(source.fetch()), "1" * 40)


def test_a_rollback_forward_is_refused(fleet: Fleet):
    first, second = fleet.push("1.0"), fleet.push("1.1")
    fleet.forge(first, {"a.zk": tree("1.1"), "docs/read.me": "1.1"}, f"Roll back\n\n{TRAILER}: {second}")
    assert "which its branch did not have before" in str(fleet.refusal())


def test_a_repository_without_the_branch_publishes_nothing(fleet: Fleet):
    fleet.push("1.0")
    fleet.repository.ask("update-ref", "-d", "refs/heads/main")
    assert "is not published: the repository has no branch main" in str(fleet.refusal())


def test_where_signatures_are_required_a_rollback_needs_one(tmp_path: Path):
    key, stolen, signers = make_key(tmp_path, "key"), make_key(tmp_path, "stolen"), tmp_path / "signers"
    signers.write_text(f"ann@example.com {public(key)}\n")
    fleet, config = Fleet(tmp_path, signers), ("gpg.format=ssh", f"user.signingkey={key}.pub")
    clone = fleet.repository.clone
    first, second = (clone.commit({"a.zk": tree(version)}, "-S", config=config) for version in ("1.0", "1.1"))
    clone.git("push", "--quiet", "origin", "main")
    fleet.move(second)
    fleet.roll_back(first, key=key)
    assert fleet.refusal() is None
    fleet.forge(second, {"a.zk": tree("1.0")}, f"Roll back\n\n{TRAILER}: {first}")
    with pytest.raises(SourceError, match="it has no SSH signature"):
        fleet.refusal()
    clone.git("checkout", "--quiet", "--detach", second)
    config = ("gpg.format=ssh", f"user.signingkey={stolen}.pub")
    forged = clone.commit({"a.zk": tree("1.0")}, "-S", message=f"Roll back\n\n{TRAILER}: {first}", config=config)
    fleet.move(forged)
    with pytest.raises(SourceError, match="signed with a key that is not allowed"):
        fleet.refusal()


@pytest.mark.parametrize("dry_run", [False, True])
def test_other_acts_than_rollbacks_are_not_committed_to_the_branch_of_a_fleet(
    fleet: Fleet, tmp_path: Path, dry_run: bool
):
    first, second = fleet.push("1.0"), fleet.push("1.1")
    file = tmp_path / "sync.cfg"
    sync = f"url = {fleet.repository.bare}\nbranch = {EU}\ncontained-in = main\ntree-directory = {tmp_path}/t"
    file.write_text(f"[zkdeployment]\nzookeeper = z:2181\n[sync]\n{sync}\n")
    act = CommitOrder(author=ANN, compute=lambda _: FileChanges({"b.zk": b"/b\n"}, "Act"), check=lambda *_: ())
    with open_commits(load(file, host=False)) as commits:
        with pytest.raises(RefusedError) as error:
            commits.commit(act, dry_run=dry_run)
        assert str(error.value) == (
            "the act would not be published: expected a rollback or a commit of main (contained-in), found another"
            " act; repeat it with a configuration whose branch is main"
        )
        assert fleet.repository.ask("rev-parse", EU) == second
        back = CommitOrder(
            author=ANN, compute=lambda at: rollback_changes(at, "bad"), check=lambda *_: (), back_to=first
        )
        assert commits.commit(back, dry_run=dry_run).changed


class TestSyncer:
    """A syncer with the rule, in front of a real ZooKeeper. The git server has no hook."""

    @pytest.fixture
    def sync(self, publishing: Publishing, fleet: Fleet):
        source, rule = fleet.rule()
        with Session(publishing.zookeeper, session_timeout=6) as session:
            syncer = Syncer(source, ZooKeeperPublications(session), SystemClock(), containment=rule)
            yield partial(self.run, syncer)

    @staticmethod
    def run(syncer: Syncer, *, force: bool = False) -> str:
        return syncer.sync(SyncOptions(force=force, overrides=GuardOverrides(mass_removal=force))).sentence

    def test_whoever_stole_the_promoters_key_can_publish_only_commits_of_main(self, publishing, fleet, sync):
        first = fleet.push("1.0")
        sync()
        second = fleet.push("1.1")
        fleet.move(first)
        fleet.forge(first, {"a.zk": tree("6.6.6")}, "evil")
        for force in (False, True):
            with pytest.raises(RefusedError, match="expected a commit of main"):
                sync(force=force)
        assert publishing.version == first
        fleet.move(second)
        sync(force=True)
        assert publishing.version == second

    def test_a_fleet_rolls_back_and_returns_to_main_where_an_operator_resets_its_branch(
        self, publishing, fleet, sync
    ):
        first = fleet.push("1.0")
        sync()
        bad = fleet.push("1.1")
        sync(force=True)
        rolled = fleet.roll_back(first)
        sync(force=True)
        assert publishing.version == rolled
        fleet.move(bad)  # what the fleet left is no way back
        with pytest.raises(RefusedError, match="does not descend from"):
            sync(force=True)
        fixed = fleet.push("1.2")
        sync(force=True)
        assert publishing.version == fixed
        fleet.move(first)
        with pytest.raises(RefusedError, match="does not descend from"):
            sync(force=True)

    def test_a_rollback_ends_what_new_files_and_new_top_level_nodes_deploy(self, publishing, fleet, sync):
        first = fleet.push("1.0")
        sync()
        more = tree("1.0").replace("/app", "/{}").replace("/h1", "/{}")
        fleet.push("1.1", b_zk=more.format("b", "h2"), a_zk=tree("1.1") + more.format("c", "h3"))
        sync(force=True)
        assert set(publishing.targets) == {"h1", "h2", "h3"}
        rolled = fleet.roll_back(first)
        sync(force=True)
        assert (publishing.version, set(publishing.targets)) == (rolled, {"h1"})
        assert {path for path in publishing.nodes() if path.startswith(("/b", "/c"))} == {"/b", "/c"}

    def test_the_key_of_the_configuration_sets_the_rule_for_git_and_for_nothing_else(
        self, publishing: Publishing, fleet: Fleet, tmp_path: Path
    ):
        first = fleet.push("1.0")
        file = tmp_path / "sync.cfg"
        text = (
            f"[zkdeployment]\nzookeeper = {publishing.zookeeper}\n[sync]\nurl = {{}}\ncontained-in = main\n"
            f"tree-directory = {tmp_path}/mirror/tree\n"
        )
        file.write_text(f"{text.format(fleet.repository.bare)}branch = {EU}\n")
        assert invoke("sync", file).returncode == 0
        assert publishing.version == first
        fleet.forge(first, {"a.zk": tree("6.6.6")}, "evil")
        done = invoke("sync", "--force", "--reason", "now", file)
        assert (done.returncode, "expected a commit of main (contained-in)" in done.stderr) == (3, True)
        file.write_text(text.format("svn://svn.example.com/tree"))
        done = invoke("sync", file)
        assert (done.returncode, done.stderr.strip().rpartition("zkdeployment: ")[2]) == (
            2,
            "contained-in: expected a git repository, found another one; remove the key contained-in",
        )
