"""The sample hook for the branches of fleets, on a real git server with real SSH keys."""

import shutil
import subprocess
from pathlib import Path

import pytest

from support.branches import Branch
from support.git_server import GitServer
from zkdeployment.base.errors import SourceError
from zkdeployment.promotion.branches import FleetBranches
from zkdeployment.promotion.records import BranchMove, MoveOutcome

HOOK = Path(__file__).parents[3] / "etc" / "git" / "update"
EU, US = "fleets/eu-1", "fleets/us-1"


class Site:
    """A repository with the hook: three commits in main, two fleets at the first, and a commit of nobody's."""

    def __init__(self, directory, server, commits, evil) -> None:
        self.server = server
        self.bare = directory / "server.git"
        self.clone = directory / "clone"
        self.commits = commits
        self.evil = evil

    def ask(self, *arguments):
        """Run git in the repository."""
        run = ["git", "--git-dir", str(self.bare), *arguments]
        return subprocess.run(run, check=True, capture_output=True, text=True).stdout.strip()

    def push(self, key, *refs):
        """Push; return whether the server accepted everything, and its words."""
        done = self.server.push(self.server.keys[key], self.clone, self.bare, *refs)
        return done.returncode == 0, done.stderr

    def tip(self, branch):
        return self.ask("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = GitServer(tmp_path_factory.mktemp("git-server") / "ssh")
    pushers = ("operator", "developer", "promoter", f"fleet:{EU}", "wizard", "")
    names = ("operator", "developer", "promoter", "eu-1", "wizard", "nobody")
    server.keys = {name: server.admit(name, pusher) for name, pusher in zip(names, pushers, strict=True)}
    with server.running():
        yield server


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A repository that each test copies, its commits, and a commit that only the clone has."""
    directory = tmp_path_factory.mktemp("prepared")
    repository = Branch(directory)
    commits = [repository.push({"tree.zk": f"/app{number}\n"}, message=f"change {number}") for number in range(3)]
    for branch in (EU, US):
        repository.ask("update-ref", f"refs/heads/{branch}", commits[0])
    shutil.copy(HOOK, repository.bare / "hooks" / "update")
    return directory, commits, repository.clone.commit({"tree.zk": "/evil\n"}, message="evil")


@pytest.fixture
def site(server, prepared, tmp_path):
    directory, commits, evil = prepared
    for name in ("server.git", "clone"):
        shutil.copytree(directory / name, tmp_path / name)
    return Site(tmp_path, server, commits, evil)


def refusal(site, key, *refs):
    accepted, words = site.push(key, *refs)
    assert not accepted
    return words


def test_the_promoter_moves_branches_of_fleets_forward_to_commits_of_main(site):
    _, second, third = site.commits
    assert site.push("promoter", f"{second}:refs/heads/{EU}", f"{third}:refs/heads/{US}")[0]
    assert site.push("promoter", f"{second}:refs/heads/fleets/new")[0]
    assert (site.tip(EU), site.tip(US), site.tip("fleets/new")) == (second, third, second)


@pytest.mark.parametrize(
    ("refs", "words"),
    [
        (("{evil}:refs/heads/main",), "refs/heads/main: the promoter's key may only move branches below fleets/"),
        (
            ("+{second}:refs/heads/main",),
            "refs/heads/main: the promoter's key may only move branches below fleets/",
        ),
        ((":refs/heads/main",), "deleting the current branch is denied"),
        (
            ("{evil}:refs/heads/other",),
            "refs/heads/other: the promoter's key may only move branches below fleets/",
        ),
        (("{evil}:refs/tags/fleets/eu-1",), "may only move branches below fleets/"),
        (("{evil}:refs/replace/{second}",), "may only move branches below fleets/"),
        (
            ("{evil}:refs/heads/fleets/eu-1",),
            "refs/heads/fleets/eu-1: the promoter's key may only choose among the commits of main, and {evil} is",
        ),
        (("{evil}:refs/heads/fleets/new",), "may only choose among the commits of main"),
        ((":refs/heads/fleets/eu-1",), "the key of promoter may not delete branches; ask an operator"),
    ],
)
def test_a_stolen_key_of_the_promoter_can_only_choose_among_commits_of_main(site, refs, words):
    facts = {"evil": site.evil, "second": site.commits[1]}
    before = site.ask("for-each-ref")
    assert words.format(**facts) in refusal(site, "promoter", *(ref.format(**facts) for ref in refs))
    assert site.ask("for-each-ref") == before


def test_the_promoter_cannot_move_a_branch_backwards_or_away_from_a_fleets_own_commits(site):
    second, third = site.commits[1:]
    site.ask("update-ref", f"refs/heads/{EU}", third)
    words = refusal(site, "promoter", f"+{second}:refs/heads/{EU}")
    assert f"may only move a branch forward, and {second} does not descend from {third}; an operator can" in words
    assert site.push("eu-1", f"{site.evil}:refs/heads/{EU}")[0]  # the fleet's rollback
    assert "may only move a branch forward" in refusal(site, "promoter", f"+{third}:refs/heads/{EU}")
    assert site.tip(EU) == site.evil


def test_each_branch_of_a_push_is_judged_alone(site):
    second = site.commits[1]
    words = refusal(site, "promoter", f"{second}:refs/heads/{EU}", f"{site.evil}:refs/heads/{US}")
    assert "[remote rejected]" in words
    assert (site.tip(EU), site.tip(US)) == (second, site.commits[0])


def test_a_fleet_moves_its_own_branch_forward_and_no_other(site):
    assert site.push("eu-1", f"{site.evil}:refs/heads/{EU}")[0]
    for ref in (US, "main", "fleets/eu-10", "fleets/eu", "new"):
        words = refusal(site, "eu-1", f"{site.evil}:refs/heads/{ref}")
        assert f"the key of fleet:{EU} may only move the fleet's own branch {EU}" in words
    assert "may only move a branch forward" in refusal(site, "eu-1", f"+{site.commits[0]}:refs/heads/{EU}")
    assert "may not delete branches" in refusal(site, "eu-1", f":refs/heads/{EU}")
    assert site.tip(EU) == site.evil


def test_developers_move_everything_but_the_branches_of_fleets(site):
    assert site.push("developer", f"{site.evil}:refs/heads/main", f"{site.evil}:refs/heads/feature")[0]
    words = refusal(site, "developer", f"{site.evil}:refs/heads/{EU}")
    assert f"refs/heads/{EU}: only the promoter and operators move the branches below fleets/" in words


def test_developers_add_to_main_and_neither_rewrite_nor_delete_it(site):
    first, _, third = site.commits
    site.ask("config", "receive.denyDeleteCurrent", "ignore")
    words = refusal(site, "developer", f"+{first}:refs/heads/main")
    assert (
        f"the key of developer may only move a branch forward, and {first} does not descend from {third}" in words
    )
    assert "the key of developer may not delete branches" in refusal(site, "developer", ":refs/heads/main")
    assert site.tip("main") == third


def test_no_branch_of_a_developer_is_in_the_way_of_the_branches_of_fleets(site):
    site.ask("config", "zkdeployment.fleets", "stages/")
    second = site.commits[1]
    for ref in ("stages", "stages/eu-1"):
        words = refusal(site, "developer", f"{second}:refs/heads/{ref}")
        assert "only the promoter and operators move the branches below stages/" in words
    assert site.push("promoter", f"{second}:refs/heads/stages/eu-1")[0]


def test_an_operator_resets_branches_and_rewrites_main(site):
    assert site.push("operator", f"{site.evil}:refs/heads/{EU}")[0]
    assert site.push("operator", f"+{site.commits[0]}:refs/heads/{EU}", f"+{site.commits[1]}:refs/heads/main")[0]
    assert site.push("operator", f":refs/heads/{US}")[0]
    assert (site.tip(EU), site.tip("main"), site.tip(US)) == (site.commits[0], site.commits[1], "")


@pytest.mark.parametrize(("key", "found"), [("wizard", "'wizard'"), ("nobody", "''")])
def test_an_unknown_pusher_may_do_nothing(site, key, found):
    words = refusal(site, key, f"{site.commits[1]}:refs/heads/{EU}")
    assert (
        "the pusher is not known: expected ZKDEPLOYMENT_PUSHER=operator, developer, promoter or fleet:BRANCH"
        in words
    )
    assert f"found {found}" in words


@pytest.mark.nightly
def test_a_repository_without_main_lets_the_promoter_choose_nothing(site):
    site.ask("update-ref", "-d", "refs/heads/main")
    assert "may only choose among the commits of main" in refusal(
        site, "promoter", f"{site.commits[1]}:refs/heads/{EU}"
    )


@pytest.mark.nightly
def test_the_names_of_main_and_of_fleets_may_be_others(site):
    second = site.commits[1]
    site.ask("update-ref", "refs/heads/trunk", second)
    site.ask("config", "zkdeployment.main", "trunk")
    site.ask("config", "zkdeployment.fleets", "stages")
    assert site.push("promoter", f"{second}:refs/heads/stages/eu-1")[0]
    assert "may only choose among the commits of trunk" in refusal(
        site, "promoter", f"{site.commits[2]}:refs/heads/stages/eu-1"
    )
    assert "may only move branches below stages/" in refusal(site, "promoter", f"{second}:refs/heads/{EU}")


@pytest.mark.nightly
def test_keys_run_no_other_program_than_git(site):
    key = site.server.keys["promoter"]
    done = site.server.run(key, "touch /tmp/zkdeployment-owned")
    assert done.returncode != 0
    assert "unrecognized command" in done.stderr
    assert not Path("/tmp/zkdeployment-owned").exists()


def promoter(site, tmp_path, key="promoter"):
    url, identity = site.server.url(site.bare), site.server.keys[key]
    return FleetBranches.opened(url, tmp_path / f"mirror-{key}", main="main", identity=identity)


@pytest.mark.nightly
def test_the_promoter_learns_the_servers_words_about_each_branch(site, tmp_path, monkeypatch):
    """The key of a fleet in the place of the promoter's."""
    monkeypatch.setenv("PATH", f"{site.server.bin}:/usr/bin:/bin")
    first, second, third = site.commits
    branches = promoter(site, tmp_path)
    assert branches.fetch() == third
    moved = branches.move([BranchMove(EU, first, second), BranchMove(US, first, third)])
    assert {result.outcome for result in moved.values()} == {MoveOutcome.MOVED}

    wrong = promoter(site, tmp_path, "eu-1")
    wrong.fetch()
    moved = wrong.move(
        [BranchMove(EU, second, third), BranchMove(US, third, third), BranchMove("fleets/x", None, second)]
    )
    assert moved[EU].outcome is MoveOutcome.MOVED
    assert moved[US].outcome is MoveOutcome.MOVED  # nothing to do
    assert moved["fleets/x"].outcome is MoveOutcome.REFUSED
    assert moved["fleets/x"].words == (
        f"refs/heads/fleets/x: the key of fleet:{EU} may only move the fleet's own branch {EU}"
    )


def test_a_key_that_the_server_does_not_admit_is_a_sentence(site, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{site.server.bin}:/usr/bin:/bin")
    branches = promoter(site, tmp_path)
    branches.fetch()
    site.server.dismiss("promoter")
    try:
        with pytest.raises(SourceError) as error:
            branches.move([BranchMove(EU, site.commits[0], site.commits[1])])
        assert "Permission denied (publickey)" in str(error.value)
        assert "set identity in [promote] to a key that may push to the branches of fleets" in str(error.value)
    finally:
        site.server.readmit()
