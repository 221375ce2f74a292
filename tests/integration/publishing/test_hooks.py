"""The sample hooks of etc/git in real repositories, with real commits and pushes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.commands import invoke
from support.forks import ForkedProgram, run_forked
from support.repository import Repository, make_key, public
from support.strategies import EXAMPLE_FILE, example
from support.waiting import wait_until
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.edits import render_document
from zkdeployment.intents.documents import Approval, DeploymentIntentGroup, IntentState
from zkdeployment.intents.rules.content import intent_content
from zkdeployment.intents.verification import approval_signer
from zkdeployment.publishing.rules.review import review
from zkdeployment.publishing.store.documents import read_strategy
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.publishing import Publishing


SAMPLES = Path(__file__).parents[3] / "etc" / "git"
GOOD = "/who\n  /web : shop\n    version = '1.0'\n    /deploy\n      /h1\n"
QUARANTINE = """\
schema: zkdeployment/Quarantine/v1
metadata: {name: shop, version: 2.0}
data: {reason: loses orders, by: alice@example.com, time: 2026-11-22}
"""
GROUP = """\
schema: zkdeployment/DeploymentIntentGroup/v1
metadata: {project: p1, composite-app: store, version: v1, name: shop}
data:
  composite-profile: plain
  apps: {web: [/who/web]}
  state: Instantiated
  approval: {content: "CONTENT", by: alice@example.com, reason: the launch}
"""
CLUSTER = """\
schema: zkdeployment/Cluster/v1
metadata: {provider: ams, name: h1}
data: {network-intents: {web: [/who/web]}, state: Applied}
"""
DEPLOYED = "p1/store/v1/shop is Instantiated, approved by alice@example.com: its services are deployed"
TERMINATE_FIRST = f"{DEPLOYED}; terminate it first"
SHOP = DeploymentIntentGroup("p1", "store", "v1", "shop", "plain", {"web": ("/who/web",)})
SENTENCE = "shop 2.0 is quarantined by alice@example.com since 2026-11-22: loses orders"
BAD = "/who\n  x = open('f')\n  y z\n"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the program's directory to PATH for the hooks."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")


class Server:
    """A bare repository, and a clone from which to push."""

    def __init__(self, directory: Path, *hooks: str) -> None:
        self.bare = directory / "tree.git"
        self.clone = Repository(directory / "clone")
        self.clone.git("init", "-q", "--bare", "--initial-branch=main", str(self.bare))
        self.clone.git("remote", "add", "origin", str(self.bare))
        for hook in hooks:
            shutil.copy(SAMPLES / hook, self.bare / "hooks" / hook)

    def push(self, *arguments: str) -> tuple[bool, str]:
        """Push; return whether the server accepted the push, and the server's output."""
        done = subprocess.run(
            ["git", "push", "origin", *arguments],
            cwd=self.clone.directory,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode == 0, done.stderr

    @property
    def branches(self) -> dict[str, str]:
        """Return the commit of each branch by branch name."""
        listed = self.clone.git("ls-remote", "--heads", str(self.bare)).splitlines()
        return {name.removeprefix("refs/heads/"): tip for tip, name in (line.split("\t") for line in listed)}


def digest(tree: str) -> str:
    """Return the digest of the content of the group in a tree."""
    reviewed = review([SourceFile("a.zk", tree.encode()), SourceFile("i.yaml", GROUP.encode())])
    return intent_content(SHOP, reviewed.linted.tree).digest


def lint(server: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``zkdeployment lint`` in the clone."""
    return run_forked("lint", *arguments, cwd=server.clone.directory)


class TestPreReceive:
    @pytest.fixture
    def server(self, tmp_path: Path) -> Server:
        return Server(tmp_path, "pre-receive")

    def test_a_valid_tree_is_accepted_and_an_invalid_tree_is_rejected_with_all_errors(self, server: Server):
        good = server.clone.commit({"a.zk": GOOD})
        assert server.push("main")[0]
        server.clone.commit({"a.zk": BAD, "b.zk": "/hosts\n"})
        accepted, output = server.push("main")
        assert not accepted
        for place in ("remote: a.zk:2:7: ", "remote: a.zk:3:3: ", "remote: b.zk:1:1: "):
            assert place in output
        assert server.branches == {"main": good}

    @pytest.mark.nightly
    def test_an_invalid_strategy_is_rejected_with_the_place_of_the_error(self, server: Server):
        good = server.clone.commit({"a.zk": GOOD, "strategy.yaml": EXAMPLE_FILE.read_bytes()})
        assert server.push("main")[0]
        server.clone.commit({"strategy.yaml": EXAMPLE_FILE.read_text().replace("- ntp-node", "- ntp-nude", 1)})
        accepted, output = server.push("main")
        assert not accepted
        assert "remote: strategy.yaml:15:11: data.groups[0].depends_on[0]: there is no group ntp-nude" in output
        assert server.branches == {"main": good}

    def test_a_quarantined_version_is_rejected_and_so_is_a_push_that_removes_the_quarantine_with_it(
        self, server: Server
    ):
        server.clone.commit({"a.zk": GOOD, "quarantine.yaml": QUARANTINE})
        assert server.push("main")[0]
        wanting = {"a.zk": GOOD.replace("1.0", "2.0-1")}
        server.clone.commit(wanting)
        accepted, output = server.push("main")
        assert not accepted
        assert f"remote: a.zk:2:3: /who/web: {SENTENCE}; choose another version" in output
        server.clone.commit({"quarantine.yaml": "# nothing\n"})
        accepted, output = server.push("main")
        assert not accepted
        assert f"{SENTENCE}; this change removes the quarantine and wants the version at once" in output
        server.clone.git("reset", "--hard", "HEAD~2")
        server.clone.commit({"quarantine.yaml": "# nothing\n"})
        assert server.push("main")[0]
        wanted = server.clone.commit(wanting)
        assert server.push("main")[0]
        assert server.branches == {"main": wanted}

    @pytest.mark.nightly
    def test_a_push_that_breaks_the_life_cycle_of_an_intent_is_rejected_and_so_is_its_check_by_hand(
        self, server: Server
    ):
        group = GROUP.replace("CONTENT", f"sha256:{'0' * 64}")
        good = server.clone.commit({"a.zk": GOOD, "i.yaml": group})
        assert server.push("main")[0]
        server.clone.commit({"a.zk": GOOD.replace("1.0", "2.0")})
        accepted, output = server.push("main")
        assert not accepted
        assert f"remote: i.yaml:6:10: data.state: {TERMINATE_FIRST} (changed: /who/web)" in output
        checked = lint(server, "--since", good)
        refusal = f"i.yaml:6:10: data.state: {TERMINATE_FIRST} (changed: /who/web); the termination takes down"
        in_place = "a group that is instantiated with 'update: approve' changes in place"
        assert (checked.returncode, checked.stdout) == (1, f"{refusal} /who/web on h1; {in_place}\n")
        server.clone.commit({"a.zk": GOOD, "i.yaml": None})
        accepted, output = server.push("main")
        assert not accepted
        assert f"remote: {TERMINATE_FIRST}" in output
        assert server.branches == {"main": good}
        terminated = group.replace("Instantiated", "Terminated")
        server.clone.commit({"a.zk": GOOD.replace("1.0", "2.0"), "i.yaml": terminated})
        assert lint(server, "--since", good).returncode == 0
        (server.clone.directory / "approvers").write_text("")
        assert lint(server, "--since", good, "--approvers", "approvers").returncode == 0
        server.clone.commit({"a.zk": GOOD, "i.yaml": group.replace(f"sha256:{'0' * 64}", digest(GOOD))})
        unsigned = lint(server, "--since", "HEAD~1", "--approvers", "approvers")
        assert "its approval does not count: it has no signature by one of the approvers" in unsigned.stdout
        assert lint(server, "--since", "HEAD~1").returncode == 0
        server.clone.git("reset", "--hard", "HEAD~1")
        assert server.push("main")[0]

    @pytest.mark.parametrize(("days", "accepts"), [(29, True), (31, False)])
    def test_a_push_that_begins_an_instance_with_an_expired_approval_is_rejected(
        self, server: Server, tmp_path: Path, days: int, accepts: bool
    ):
        key, approvers, rules = make_key(tmp_path, "ann"), tmp_path / "approvers", tmp_path / "rules"
        approvers.write_text(f"ann@example.com {public(key)}\n")
        rules.write_text("/who 1 30 *\n")
        options = f"--approvers {approvers} --approval-rules {rules}"
        hook = server.bare / "hooks" / "pre-receive"
        hook.write_text(hook.read_text().replace("lint --hook", f"lint --hook {options}"))
        content = digest(GOOD)
        created = replace(SHOP, state=IntentState.CREATED)
        good = server.clone.commit({"a.zk": GOOD, "i.yaml": render_document(created.to_document())})
        assert server.push("main")[0]
        number = int(time.time()) - days * 86_400
        approval = Approval(content, "ann@example.com", "go", "unsigned", "Approved", number)
        approval = approval_signer(key)(SHOP.subject, approval)
        instantiated = replace(SHOP, state=IntentState.INSTANTIATED, approval=approval)
        server.clone.commit({"i.yaml": render_document(instantiated.to_document())})
        expired = "it has expired: approvals for /who count for 30 days; approve the group again"
        accepted, output = server.push("main")
        assert (accepted, expired in output) == (accepts, not accepts)
        checked = lint(server, "--since", good, *options.split())
        assert (checked.returncode == 0, expired in checked.stdout) == (accepts, not accepts)

    @pytest.mark.nightly
    def test_a_new_intent_over_deployed_services_is_rejected_and_a_departure_is_warned_of(self, server: Server):
        good = server.clone.commit({"a.zk": GOOD})
        assert server.push("main")[0]
        group = GROUP.replace("CONTENT", digest(GOOD))
        server.clone.commit({"i.yaml": group.replace("Instantiated", "Approved")})
        accepted, output = server.push("main")
        assert not accepted
        assert "p1/store/v1/shop is Approved, but it would undeploy services that are deployed" in output
        advice = lint(server, "--since", good).stdout
        assert "'zkdeployment intent adopt p1/store/v1/shop --work-tree DIRECTORY' before the push; if" in advice
        assert "because they left a removed intent, write the state Terminated" in advice
        server.clone.commit({"i.yaml": group.replace("Instantiated", "Terminated")})
        terminated = lint(server, "--since", good)  # where a document comes back that a push removed
        assert (terminated.returncode, "warning: " in terminated.stdout) == (0, True)
        assert "write the state Terminated" not in terminated.stdout
        adopted = server.clone.commit({"i.yaml": group})
        assert lint(server, "--since", good).returncode == 0
        assert server.push("main")[0]
        server.clone.commit({"i.yaml": group.replace("Instantiated", "Terminated")})
        assert lint(server, "--since", adopted).returncode == 0
        server.clone.commit({"i.yaml": None})
        departed = lint(server, "--since", "HEAD~1")
        assert departed.returncode == 0
        assert "warning: /who/web leaves the governance of p1/store/v1/shop, is not deployed" in departed.stdout

    def test_faults_of_the_governance_of_intents_are_rejected_with_their_places(self, server: Server):
        group = GROUP.replace("CONTENT", f"sha256:{'0' * 64}")
        server.clone.commit({"a.zk": GOOD, "i.yaml": f"{group.replace('/web]', '/web, /who/x]')}---\n{CLUSTER}"})
        accepted, output = server.push("main")
        assert not accepted
        assert "remote: i.yaml:5:26: data.apps.web[1]: there is no node /who/x" in output
        assert "remote: i.yaml:11:32: data.network-intents.web[0]: /who/web for h1 is governed by p1/sto" in output
        server.clone.commit({"i.yaml": group.replace("  state:", "  colour: red\n  state:")})
        accepted, output = server.push("main")
        assert not accepted
        assert "remote: i.yaml:6:11: data.colour: unknown key 'colour'" in output

    @pytest.mark.nightly
    def test_a_document_that_governs_nothing_is_named_by_the_hook_and_by_lint(self, server: Server):
        group = GROUP.replace("CONTENT", f"sha256:{'0' * 64}")
        server.clone.commit({"a.zk": GOOD, "intents/shop.yaml": group})
        accepted, output = server.push("main")
        assert accepted
        expected = "intents/shop.yaml:1:9: schema: warning: the DeploymentIntentGroup p1/store/v1/shop is not in"
        assert f"remote: {expected}" in output
        assert expected in invoke("lint", server.clone.directory).stdout

    @pytest.mark.nightly
    def test_the_hook_ignores_the_work_tree_of_the_pushing_user(self, server: Server):
        server.clone.commit({"a.zk": GOOD})
        server.clone.write({"a.zk": BAD})
        assert server.push("main")[0]

    def test_other_branches_and_tags_are_not_checked(self, server: Server):
        server.clone.commit({"a.zk": BAD})
        server.clone.git("branch", "draft")
        server.clone.git("tag", "v1")
        assert server.push("draft", "v1")[0]
        assert server.push("--delete", "draft")[0]
        assert not server.push("draft", "main")[0]
        assert server.branches == {}

    def test_the_branch_cannot_be_deleted(self, server: Server):
        good = server.clone.commit({"a.zk": GOOD})
        server.push("main")
        server.clone.git("config", "--file", str(server.bare / "config"), "receive.denyDeleteCurrent", "ignore")
        accepted, output = server.push("--delete", "main")
        assert not accepted
        assert "the branch main cannot be deleted: it contains the tree" in output
        assert server.branches == {"main": good}

    def test_a_commit_without_a_tree_or_with_a_link_is_rejected(self, server: Server):
        server.clone.commit({"README": "x"})
        accepted, output = server.push("main")
        assert (accepted, "has no tree files" in output) == (False, True)
        (server.clone.directory / "a.zk").symlink_to("/etc/passwd")
        server.clone.commit({"b.zk": GOOD})
        accepted, output = server.push("main")
        assert (accepted, "is a symbolic link" in output) == (False, True)
        assert "Traceback" not in output

    @pytest.mark.nightly
    def test_without_a_branch_option_every_branch_is_checked_and_warnings_may_fail(self, server: Server):
        hook = server.bare / "hooks" / "pre-receive"
        hook.write_text("#!/bin/sh\nexec zkdeployment lint --hook --strict\n")
        server.clone.commit({"a.zk": "/who\n  password = 'x'\n"})
        server.clone.git("branch", "other")
        accepted, output = server.push("other")
        assert (accepted, "looks like a secret" in output) == (False, True)
        hook.write_text("#!/bin/sh\nexec zkdeployment lint --hook\n")
        assert server.push("other")[0]


class TestPreCommit:
    @pytest.fixture
    def clone(self, tmp_path: Path) -> Repository:
        clone = Repository(tmp_path / "clone")
        shutil.copy(SAMPLES / "pre-commit", clone.directory / ".git" / "hooks" / "pre-commit")
        return clone

    def test_staged_content_is_checked_and_unstaged_content_is_not(self, clone: Repository):
        clone.write({"a.zk": GOOD})
        clone.git("add", "a.zk")
        clone.write({"a.zk": BAD})
        clone.git("commit", "-q", "-m", "good")
        with pytest.raises(subprocess.CalledProcessError) as error:
            clone.git("commit", "-q", "-a", "-m", "bad")
        assert "a.zk:2:7: " in error.value.stdout + error.value.stderr
        assert clone.git("rev-list", "--count", "HEAD") == "1"
        clone.write({"a.zk": GOOD + "  /x\n", "b.zk": BAD})
        clone.git("add", "b.zk")
        clone.git("commit", "-q", "-m", "a part", "a.zk")
        assert clone.git("ls-files") == "a.zk\nb.zk"

    @pytest.mark.nightly
    def test_a_tree_without_files_is_refused(self, clone: Repository):
        clone.write({"README": "x"})
        clone.git("add", "README")
        with pytest.raises(subprocess.CalledProcessError) as error:
            clone.git("commit", "-q", "-m", "nothing")
        assert "has no tree files" in error.value.stderr


class TestPostReceive:
    @pytest.fixture
    def server(self, publishing: Publishing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
        config = tmp_path / "x.cfg"
        server = Server(tmp_path, "post-receive")
        config.write_text(
            f"[zkdeployment]\nzookeeper = {publishing.zookeeper}\n"
            f"[sync]\nurl = {server.bare}\ntree-directory = {tmp_path}/var/tree\n"
        )
        monkeypatch.setenv("ZKDEPLOYMENT_CONFIG", str(config))
        return server

    @pytest.fixture
    def syncer(self, server: Server, publishing: Publishing) -> Iterator[None]:
        first = server.clone.commit({"a.zk": GOOD})
        server.push("main")
        process = ForkedProgram(["sync", os.environ["ZKDEPLOYMENT_CONFIG"], "--interval", "3600"])
        try:
            wait_until(lambda: publishing.version == first, "the first revision is published")
            wait_until(lambda: publishing.get("/zkdeployment/syncer"), "the syncer gave a sign of life")
            yield
        finally:
            process.terminate()
            process.wait()

    @pytest.mark.usefixtures("syncer")
    def test_a_push_is_published_immediately(self, server: Server, publishing: Publishing):
        second = server.clone.commit({"a.zk": GOOD.replace("1.0", "1.1")})
        accepted, output = server.push("main")
        assert accepted
        assert "remote: notified the syncer (syncer on" in output
        wait_until(lambda: publishing.version == second, "the second revision is published")

    @pytest.mark.nightly
    @pytest.mark.usefixtures("syncer")
    def test_a_strategy_is_published_with_its_tree_and_refused_with_its_place(
        self, server: Server, publishing: Publishing
    ):
        strategy = EXAMPLE_FILE.read_text()
        second = server.clone.commit({"strategy.yaml": strategy, "ci.yml": "script: !reference [a, b]\n"})
        assert server.push("main")[0]
        wait_until(lambda: publishing.version == second, "the strategy is published")
        with Session(publishing.zookeeper) as session:
            assert read_strategy(session) == example()
        server.clone.commit({"strategy.yaml": strategy.replace("- ntp-node", "- ntp-nude", 1)})
        assert server.push("main")[0]
        place = "strategy.yaml:15:11: data.groups[0].depends_on[0]: there is no group ntp-nude"
        wait_until(lambda: place in str((publishing.get("/zkdeployment/syncer") or {}).get("said")), "refused")
        assert publishing.version == second

    def test_without_a_syncer_a_push_is_accepted_with_a_notice(self, server: Server, publishing: Publishing):
        server.clone.commit({"a.zk": GOOD})
        accepted, output = server.push("main")
        assert accepted
        assert "remote: no syncer follows the branch: what was pushed waits for the next sync" in output
        publishing.put("/zkdeployment/syncer", {"by": "a syncer of old", "said": "", "interval": -100.0})
        server.clone.commit({"a.zk": GOOD + "  /x\n"})
        assert "remote: the last syncer (a syncer of old) has been silent for" in server.push("main")[1]

    def test_a_push_notification_does_not_resume_a_stopped_fleet(
        self, server: Server, publishing: Publishing, syncer: None
    ):
        del syncer
        publishing.put("/hosts", {"version": None})
        server.clone.commit({"a.zk": GOOD.replace("1.0", "1.1")})
        assert server.push("main")[0]
        wait_until(
            lambda: "ALL STOP" in str((publishing.get("/zkdeployment/syncer") or {}).get("said")), "it looked"
        )
        assert publishing.version is None


def test_lint_and_hooks_refuse_services_without_an_intent_below_governed_paths(tmp_path: Path) -> None:
    tree, config = tmp_path / "tree", tmp_path / "zkdeployment.cfg"
    tree.mkdir()
    (tree / "a.zk").write_text(GOOD)
    result = invoke("lint", "--governed-path", "/who", str(tree))
    assert result.returncode == 1
    assert (
        "a.zk:2:3: /who/web has no intent for h1: expected one for every service at and below /who"
        in result.stdout
    )
    config.write_text("[zkdeployment]\n[sync]\ngoverned-paths = /net /who/web\n")
    config.write_text(f"{config.read_text()}url = /tree.git\ntree-directory = {tmp_path}/mirror\n")
    result = invoke("lint", "--config", str(config), str(tree))
    assert (result.returncode, "at and below /who/web (governed-paths)" in result.stdout) == (1, True)
    (tree / "c.yaml").write_text(CLUSTER)
    assert invoke("lint", "--config", str(config), str(tree)).returncode == 0
    wrong = invoke("lint", "--governed-path", "who", str(tree))
    assert (wrong.returncode, "'who' is not the path of a node: expected /who" in wrong.stderr) == (2, True)
