"""The verbs that commit: rollback and quarantine, on a real ZooKeeper and a real repository."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest

from support.branches import Branch
from support.commands import Done, invoke, run
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.documents.edits import render_document
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.records import ForcedBy, SyncOptions
from zkdeployment.publishing.rules.quarantines import Quarantine
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kazoo.client import KazooClient

TREE = "/shop\n  /web : web\n    version = '{}'\n    /deploy\n      /h1\n"


class Site:
    """A repository, a ZooKeeper, and a configuration that names both."""

    def __init__(self, directory: Path, zookeeper: str, client: KazooClient) -> None:
        self.branch = Branch(directory)
        self.client = client
        self.zookeeper = zookeeper
        self.source = GitSource(str(self.branch.bare), directory / "syncer" / "tree", gap=0)
        self.config = directory / "zkdeployment.cfg"
        self.config.write_text(
            f"[zkdeployment]\nzookeeper = {zookeeper}\n[sync]\nurl = {self.branch.bare}\nbranch = main\n"
            f"tree-directory = {directory / 'tree'}\n"
        )

    def publish(self, *, force: bool = True) -> str:
        with Session(self.zookeeper) as session:
            syncer = Syncer(self.source, ZooKeeperPublications(session), SystemClock())
            return str(syncer.sync(SyncOptions(force=force)).revision)

    def serve_one_request(self) -> None:
        """Publish on the next request of an operator, as a syncer that follows the branch does."""
        with Session(self.zookeeper) as session:
            store = ZooKeeperPublications(session)
            asked = threading.Event()
            store.watch_requests(asked.set)
            while (request := store.request()) is None:
                asked.wait(60)
                asked.clear()
            forced = ForcedBy(request.by, request.reason)
            Syncer(self.source, store, SystemClock()).sync(
                SyncOptions(force=True, overrides=request.overrides, forced=forced, request=request)
            )

    def run(self, *words: str) -> Done:
        person = {"GIT_CONFIG_GLOBAL": "/dev/null", "SUDO_USER": "ann"}
        return invoke(*words, "--config", self.config, env=person)

    @property
    def version(self) -> object:
        return json.loads(self.client.get("/hosts")[0])["version"]


@pytest.fixture
def site(tmp_path: Path, zookeeper: str, client: KazooClient) -> Site:
    return Site(tmp_path, zookeeper, client)


@pytest.fixture
def published(site: Site) -> tuple[str, str]:
    """Two published revisions: the first was reached by every registered host (there is none)."""
    first = site.branch.push({"a.zk": TREE.format("1.0")}, message="the first")
    site.publish()
    second = site.branch.push({"a.zk": TREE.format("1.1"), "b.zk": "/b\n"}, message="web 1.1")
    site.publish()
    return first, second


def test_a_rollback_commits_the_tree_of_the_last_good_revision_and_lists_the_undone_commits(
    site: Site, published: tuple[str, str]
) -> None:
    first, second = published
    done = site.run("rollback", "--reason", "web 1.1 loses sessions")
    assert (done.returncode, done.stdout.strip()) == (0, site.branch.tip())
    assert (
        f"back to {first[:12]}; this undoes:\n  {second[:12]} web 1.1 (Tester <tester@example.com>)" in done.stderr
    )
    assert site.branch.files() == site.branch.files(first) | {"b.zk": "/b\n"}
    subject = site.branch.ask("log", "-1", "--format=%an|%s|%(trailers:key=Zkdeployment-Rollback-To,valueonly)")
    assert subject.startswith(f"ann|Roll back to {first[:12]}: web 1.1 loses sessions|{first}")
    audit = site.run("audit", "-o", "json").stdout
    assert f"rollback to {first[:12]} (commit {site.branch.tip()[:12]})" in audit
    assert site.publish(force=False) == site.branch.tip()
    again = site.run("rollback", first, "--reason", "once more")
    assert (again.returncode, again.stdout.strip()) == (0, site.branch.tip())
    assert "nothing changes" in again.stderr


def test_a_rollback_after_a_refused_push_undoes_only_the_push(site: Site) -> None:
    site.branch.push({"a.zk": TREE.format("1.0")})
    site.publish()
    second = site.branch.push({"a.zk": TREE.format("1.1") + "      /h2\n"})
    site.publish()
    refused = site.branch.push({"a.zk": "/shop\n"}, message="oops")
    with pytest.raises(
        RefusedError, match="push a repair, or undo the push with 'zkdeployment rollback'; if it is"
    ):
        site.publish()

    done = site.run("rollback", "--reason", "the list was empty")

    assert f"back to {second[:12]}; this undoes:\n  {refused[:12]} oops (Tester <tester@e" in done.stderr
    assert site.branch.files() == site.branch.files(second)


STRATEGY = "schema: shipyard/DeploymentStrategy/v1\nmetadata: {name: deployment-strategy}\ndata: {groups: [%s]}\n"
GROUP = "{name: all, critical: true, depends_on: [], selectors: []}"


@pytest.mark.parametrize(
    ("words", "sentence", "kept"),
    [
        ((), "the strategy deployment-strategy governs the rollback: hosts deploy in its groups; {} had no", True),
        (
            ("--strategy", "former"),
            "no strategy governs the rollback: all hosts without the revision deploy",
            False,
        ),
    ],
)
def test_the_present_strategy_governs_a_rollback_unless_the_former_one_is_demanded(
    site: Site, words: tuple[str, ...], sentence: str, kept: bool
) -> None:
    first = site.branch.push({"a.zk": TREE.format("1.0")})
    site.publish()
    site.branch.push({"a.zk": TREE.format("1.1"), "s.yaml": STRATEGY % GROUP})
    site.publish()
    dry = site.run("rollback", first, *words, "--reason", "web 1.1 loses sessions", "--dry-run")
    done = site.run("rollback", first, *words, "--reason", "web 1.1 loses sessions")
    for shown in (dry, done):
        assert shown.returncode == 0
        assert shown.stderr.startswith(sentence.format(first[:12]))
    files = site.branch.files()
    assert ("s.yaml" in files, files["a.zk"]) == (kept, site.branch.files(first)["a.zk"])


def test_a_rollback_that_would_change_an_instantiated_group_is_refused(site: Site) -> None:
    first = site.branch.push({"a.zk": TREE.format("1.0")})
    site.publish()
    group = {
        "schema": "zkdeployment/DeploymentIntentGroup/v1",
        "metadata": {"project": "p1", "composite-app": "store", "version": "v1", "name": "shop"},
        "data": {
            "composite-profile": "plain",
            "apps": {"web": ["/shop/web"]},
            "state": "Instantiated",
            "approval": {"content": f"sha256:{'0' * 64}", "by": "alice@example.com", "reason": "launch"},
        },
    }
    tip = site.branch.push({"a.zk": TREE.format("1.1"), "i.yaml": json.dumps(group)})
    done = site.run("rollback", first, "--reason", "web 1.1 loses sessions")
    assert done.returncode == 3
    assert "the act was not committed: it would break the life cycle of intents" in done.stderr
    assert "p1/store/v1/shop is Instantiated, approved by alice@example.com" in done.stderr
    assert "terminate it first (changed: /shop/web)" in done.stderr
    assert site.branch.tip() == tip


def test_a_rollback_leaves_a_tip_that_breaks_the_life_cycle_of_an_intent(site: Site) -> None:
    group = {
        "schema": "zkdeployment/DeploymentIntentGroup/v1",
        "metadata": {"project": "p1", "composite-app": "store", "version": "v1", "name": "shop"},
        "data": {
            "composite-profile": "plain",
            "apps": {"web": ["/shop/web"]},
            "state": "Instantiated",
            "approval": {"content": f"sha256:{'0' * 64}", "by": "alice@example.com", "reason": "launch"},
        },
    }
    first = site.branch.push({"a.zk": TREE.format("1.0"), "i.yaml": json.dumps(group)})
    site.publish()
    site.branch.push({"a.zk": TREE.format("1.1")})
    with pytest.raises(RefusedError, match="its services are deployed; terminate it first"):
        site.publish()
    done = site.run("rollback", first, "--reason", "web 1.1 was pushed too early")
    assert (done.returncode, site.branch.files()) == (0, site.branch.files(first)), done.stderr
    assert site.publish() == site.branch.tip()


def test_a_dry_run_prints_the_change_and_commits_nothing(site: Site, published: tuple[str, str]) -> None:
    first, second = published
    done = site.run("rollback", first[:8], "--reason", "to see it", "--dry-run")
    assert done.returncode == 0
    assert "-    version = '1.1'\n+    version = '1.0'\n" in done.stdout
    assert site.branch.tip() == second


def test_a_rollback_now_is_published_in_a_stopped_fleet_even_if_it_ends_most_deployments(site: Site) -> None:
    site.branch.push({"a.zk": TREE.format("1.0")})
    site.publish()
    many = "".join(f"      /g{number}\n" for number in range(9))
    site.branch.push({"a.zk": TREE.format("1.1") + many})
    site.publish()
    assert site.run("stop", "--reason", "it burns").returncode == 0
    assert site.run("rollback", "--dry-run").returncode == 0
    syncer = threading.Thread(target=site.serve_one_request)
    syncer.start()
    done = site.run("rollback", "--now", "--timeout", "60")
    syncer.join()
    assert run("git", "-C", site.branch.bare, "log", "-1", "--format=%s", "main").stdout.endswith(
        ": no reason given\n"
    )
    assert (done.returncode, done.stdout.strip()) == (0, site.branch.tip())
    assert site.version == site.branch.tip()


@pytest.mark.usefixtures("published")
def test_without_now_a_rollback_lists_the_obstacles(site: Site) -> None:
    site.run("stop", "--reason", "it burns")
    done = site.run("rollback", "--reason", "back")
    assert done.returncode == 0
    assert "not published yet: the fleet is stopped" in done.stderr
    assert "it burns" in done.stderr


@pytest.mark.usefixtures("published")
def test_a_rollback_now_that_no_syncer_publishes_ends_with_a_timeout(site: Site) -> None:
    done = site.run("rollback", "--reason", "back", "--now", "--timeout", "0.2")
    assert done.returncode == 5
    assert done.stdout.strip() == site.branch.tip()


def test_without_a_good_revision_a_rollback_is_refused(site: Site) -> None:
    site.branch.push({"a.zk": TREE.format("1.0")})
    site.publish()
    done = site.run("rollback", "--reason", "back")
    assert done.returncode == 3
    assert "there is no revision to roll back to" in done.stderr


def test_a_subversion_tree_is_refused(site: Site) -> None:
    site.config.write_text(site.config.read_text().replace(f"url = {site.branch.bare}", "url = svn://host/tree"))
    for words in (("rollback", "--reason", "x"), ("quarantine", "add", "web", "1.1", "--reason", "x")):
        done = site.run(*words)
        assert done.returncode == 3
        assert "is a Subversion repository, and acts are committed to git only" in done.stderr


def test_a_rollback_with_quarantine_forbids_the_versions_of_the_undone_commits(
    site: Site, published: tuple[str, str]
) -> None:
    site.branch.push({"a.zk": TREE.format("1.2")})
    done = site.run("rollback", published[0], "--reason", "both lose sessions", "--quarantine")
    assert done.returncode == 0
    assert {"quarantine-web-1.1.yaml", "quarantine-web-1.2.yaml"} < site.branch.files().keys()
    listed = json.loads(site.run("quarantine", "list", "-o", "json").stdout)["quarantines"]
    assert [(one["name"], one["version"], one["reason"]) for one in listed] == [
        ("web", "1.1", "both lose sessions"),
        ("web", "1.2", "both lose sessions"),
    ]
    # A rollback to a revision that wants a version in quarantine is refused, and a removal makes it possible.
    refused = site.run("rollback", published[1], "--reason", "forward")
    assert refused.returncode == 1
    assert "web 1.1 is quarantined by ann <ann@" in refused.stderr
    assert site.run("quarantine", "remove", "web", "1.1", "--reason", "not its fault").returncode == 0
    assert site.run("rollback", published[1], "--reason", "forward").returncode == 0
    assert "quarantine-web-1.1.yaml" not in site.branch.files()


def test_a_rollback_with_quarantine_leaves_quarantines_that_were_moved_to_other_files(
    site: Site, published: tuple[str, str]
) -> None:
    moved: dict[str, str | bytes | None] = {
        file: render_document(Quarantine("web", version, "by hand", "ann", "2026-01-31T12:00:00Z").to_document())
        for file, version in (("quarantines.yaml", "1.1"), ("quarantine-web-1.2.yaml", "1.4"))
    }
    site.branch.push({"a.zk": TREE.format("1.2"), **moved})
    done = site.run("rollback", published[0], "--reason", "both lose sessions", "--quarantine")
    assert done.returncode == 0, done.stderr
    files = site.branch.files()
    assert {name: files[name] for name in moved} == moved
    listed = json.loads(site.run("quarantine", "list", "-o", "json").stdout)["quarantines"]
    assert [(one["version"], one["reason"]) for one in listed] == [
        ("1.1", "by hand"),
        ("1.2", "both lose sessions"),
        ("1.4", "by hand"),
    ]


@pytest.fixture
def verbs(site: Site) -> Callable[..., Done]:
    return lambda *words: site.run("quarantine", *words, "--reason", "it is bad")


def test_a_version_that_the_tip_wants_cannot_be_put_into_quarantine(
    site: Site, published: tuple[str, str], verbs: Callable[..., Done]
) -> None:
    refused = verbs("add", "web", "1.1")
    assert refused.returncode == 3
    assert (
        "cannot put web 1.1 into quarantine, because the tip of the branch wants it (/shop/web)" in refused.stderr
    )
    assert site.branch.tip() == published[1]
    done = verbs("add", "web", "1.3")
    assert (done.returncode, done.stdout.strip()) == (0, site.branch.tip())
    again = verbs("add", "web", "1.3")
    assert (again.returncode, again.stdout) == (0, done.stdout)
    assert "web" in site.run("quarantine", "list").stdout
    missing = verbs("remove", "web", "9")
    assert missing.returncode == 3
    assert "there is no quarantine of web 9" in missing.stderr


#: An ssh that runs the command here, notes how it was called, and may deny pushes as git hosts do.
SSH = """\
#!/bin/sh
printf '%s\\n' "$*" >> "{directory}/calls"
for command; do :; done
case $command in git-receive-pack*)
    [ ! -e "{directory}/deny" ] || {{ echo "ERROR: Permission to ops/tree.git denied to ann." >&2; exit 1; }}
esac
exec sh -c "$command"
"""


@pytest.fixture
def ssh(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of an ssh through which the site pushes with a key."""
    directory = tmp_path / "ssh"
    directory.mkdir()
    (directory / "ssh").write_text(SSH.format(directory=directory))
    (directory / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(directory), prepend=":")
    site.config.write_text(
        f"{site.config.read_text()}push-url = ssh://git@host{site.branch.bare}\npush-key = {tmp_path}/a key\n"
    )
    return directory


def test_commits_are_pushed_to_the_push_url_with_the_push_key(
    site: Site, published: tuple[str, str], ssh: Path, tmp_path: Path
) -> None:
    done = site.run("rollback", published[0], "--reason", "back")
    assert (done.returncode, done.stdout.strip()) == (0, site.branch.tip()), done.stderr
    calls = (ssh / "calls").read_text().splitlines()
    assert all(call.startswith(f"-i {tmp_path}/a key -o IdentitiesOnly=yes -o BatchMode=yes ") for call in calls)
    assert any("git-receive-pack" in call for call in calls)


def test_a_key_that_may_not_push_is_refused_with_the_missing_permission(
    site: Site, published: tuple[str, str], ssh: Path
) -> None:
    (ssh / "deny").touch()
    done = site.run("rollback", published[0], "--reason", "back")
    assert done.returncode == 3
    assert "Permission to ops/tree.git denied to ann." in done.stderr
    assert "set push-url and push-key in [sync]" in done.stderr
    assert site.branch.tip() == published[1]
