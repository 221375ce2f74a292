"""The branches of fleets: a mirror of a real git repository, and one push for the branches of a group."""

import subprocess
from dataclasses import replace

import pytest

from support.branches import Branch
from support.repository import Repository
from zkdeployment.base.errors import SourceError, UnknownRevisionError
from zkdeployment.promotion.branches import FleetBranches
from zkdeployment.promotion.records import BranchMove, BranchTip, MoveOutcome
from zkdeployment.publishing.sources.git.source import GitSource

EU, US = "fleets/eu-1", "fleets/us-1"


@pytest.fixture
def server(tmp_path):
    return Branch(tmp_path)


@pytest.fixture
def branches(server, tmp_path):
    return FleetBranches.opened(str(server.bare), tmp_path / "promoter" / "mirror", main="main")


def push(server, number):
    return server.push({"tree.zk": f"/app{number}\n"}, message=f"change {number}")


def set_branch(server, branch, commit):
    server.ask("update-ref", f"refs/heads/{branch}", commit)


def tip(server, branch):
    return server.ask("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")


def replace_push(directory, monkeypatch, script):
    """Put a git on the path that runs a script in place of a push; ``$GIT`` is the real git."""
    real = subprocess.run(["which", "git"], check=True, capture_output=True, text=True).stdout.strip()
    other = directory / "bin" / "git"
    other.parent.mkdir()
    other.write_text(
        f'#!/bin/sh\nGIT={real}\ncase "$*" in *" push --porcelain"*) {script};; esac\nexec {real} "$@"\n'
    )
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{other.parent}:/usr/bin:/bin")


def test_tips_tell_how_far_each_branch_is_behind_main_and_which_have_diverged(server, branches):
    first, second, third = (push(server, number) for number in range(3))
    set_branch(server, EU, first)
    own = server.clone.commit({"tree.zk": "/own\n"})
    server.clone.git("push", "--quiet", "origin", f"{own}:refs/heads/{US}")
    server.clone.git("reset", "--quiet", "--hard", second)

    assert branches.fetch() == third
    assert branches.tips([EU, US, "fleets/none"]) == {
        EU: BranchTip(first, in_main=True, behind=2),
        US: BranchTip(own, in_main=False, behind=0),
        "fleets/none": BranchTip(behind=3),
    }


def test_ancestry_of_unknown_commits_is_false_and_of_known_ones_exact(server, branches):
    first, second = push(server, 1), push(server, 2)
    branches.fetch()
    assert branches.contains(second, first)
    assert branches.contains(first, first)
    assert not branches.contains(first, second)
    assert not branches.contains(second, "0" * 39 + "1")
    assert not branches.contains("0" * 39 + "1", first)
    assert not branches.contains("initial", first)
    assert branches.contains(second, first)  # from memory


def test_a_damaged_mirror_is_an_error_and_not_a_divergence(server, branches, tmp_path):
    first, second = push(server, 1), push(server, 2)
    branches.fetch()
    (tmp_path / "promoter" / "mirror" / "HEAD").write_text("rubbish")
    with pytest.raises(SourceError):
        branches.tips([EU])
    with pytest.raises(SourceError):
        branches.contains(second, first)
    assert branches.fetch() == second  # a fetch makes the mirror anew
    assert branches.contains(second, first)


def test_a_commit_has_its_summary_its_documents_and_its_trailers(server, branches):
    document = b"schema: zkdeployment/Fleets/v1\ndata: {fleets: []}\n"
    commit = server.push(
        {"tree.zk": "/app\n", "fleets.yaml": document, "other.yaml": "a: 1\n"},
        message="A change\n\nRolls-Back-Promotion: 1234",
    )
    branches.fetch()
    found = branches.summary(commit)
    assert (found.id, found.subject, found.author) == (commit, "A change", "Tester <tester@example.com>")
    assert [(file.name, file.content) for file in branches.documents(commit)] == [("fleets.yaml", document)]
    assert branches.trailer(commit, "Rolls-Back-Promotion") == "1234"
    assert branches.trailer(commit, "Other") is None


def test_one_push_moves_a_whole_group_and_creates_missing_branches(server, branches):
    first, second = push(server, 1), push(server, 2)
    set_branch(server, EU, first)
    log = server.bare / "pushes"
    server.hook("pre-receive", f"cat >> {log}; echo end >> {log}")
    branches.fetch()

    moved = branches.move([BranchMove(EU, first, second), BranchMove(US, None, second)])

    assert {branch: result.outcome for branch, result in moved.items()} == dict.fromkeys(
        (EU, US), MoveOutcome.MOVED
    )
    assert tip(server, EU) == tip(server, US) == second
    assert log.read_text().count("end") == 1


def test_a_successor_may_repeat_a_push(server, branches):
    first, second = push(server, 1), push(server, 2)
    set_branch(server, EU, first)
    branches.fetch()
    moves = [BranchMove(EU, first, second)]
    assert branches.move(moves)[EU].outcome is MoveOutcome.MOVED
    assert branches.move(moves)[EU].outcome is MoveOutcome.MOVED


def test_a_branch_that_another_person_moved_is_left_alone_and_the_others_move(server, branches):
    first, second, third = (push(server, number) for number in range(3))
    set_branch(server, EU, first)
    set_branch(server, US, first)
    branches.fetch()
    set_branch(server, US, second)  # in the meantime

    moved = branches.move([BranchMove(EU, first, third), BranchMove(US, first, third)])

    assert moved[EU].outcome is MoveOutcome.MOVED
    assert moved[US].outcome is MoveOutcome.RACED
    assert (tip(server, EU), tip(server, US)) == (third, second)


def test_a_branch_that_exists_by_now_is_not_created_again(server, branches):
    first, second = push(server, 1), push(server, 2)
    branches.fetch()
    set_branch(server, EU, first)
    assert branches.move([BranchMove(EU, None, second)])[EU].outcome is MoveOutcome.RACED


def test_the_servers_words_about_each_refused_branch_are_its_own(server, branches):
    first, second = push(server, 1), push(server, 2)
    for branch in (EU, US, "fleets/us-10"):
        set_branch(server, branch, first)
    server.hook("update", 'case $1 in */eu-1) exit 0;; esac; echo "$1: not today" >&2; exit 1')
    branches.fetch()

    moved = branches.move([BranchMove(branch, first, second) for branch in (EU, US, "fleets/us-10")])

    assert moved[EU].outcome is MoveOutcome.MOVED
    assert moved[US].outcome is moved["fleets/us-10"].outcome is MoveOutcome.REFUSED
    assert moved[US].words == "refs/heads/fleets/us-1: not today"


def test_a_push_that_is_too_large_for_the_server_is_refused(server, branches):
    first, second = push(server, 1), push(server, 2)
    set_branch(server, EU, first)
    branches.fetch()
    server.ask("config", "receive.maxInputSize", "1")
    result = branches.move([BranchMove(EU, first, second)])[EU]
    assert (result.outcome, "pack exceeds maximum allowed size" in result.words) == (MoveOutcome.REFUSED, True)


@pytest.mark.parametrize(
    "summary",
    [
        "[remote rejected] (unable to create temporary object directory)",
        "[remote rejected] (unable to migrate objects to permanent storage)",
        "[remote rejected] (Internal Server Error)",
        "[remote failure] (remote failed to report status)",
        "[remote rejected] (unpacker error)",
    ],
)
def test_the_words_of_servers_that_are_disturbed_are_no_refusal(server, branches, tmp_path, monkeypatch, summary):
    first, second = push(server, 1), push(server, 2)
    set_branch(server, EU, first)
    branches.fetch()
    line = f"!\\t{second}:refs/heads/{EU}\\t{summary}"
    words = "remote: fatal: write error: No space left on device" if "unpacker" in summary else ""
    replace_push(tmp_path, monkeypatch, f"printf '{line}\\n'; echo '{words}' >&2; exit 1")
    assert branches.move([BranchMove(EU, first, second)])[EU].outcome is MoveOutcome.RACED


def test_only_commits_of_main_are_promoted_and_only_forward(server, branches):
    first, second = push(server, 1), push(server, 2)
    own = server.clone.commit({"tree.zk": "/own\n"})
    server.clone.git("push", "--quiet", "origin", f"{own}:refs/heads/{US}")
    set_branch(server, EU, second)
    branches.fetch()

    moved = branches.move(
        [BranchMove(EU, second, first), BranchMove(US, own, own), BranchMove("main", second, second)]
    )

    assert moved[EU].words == f"{first[:12]} does not descend from {second[:12]}: branches only move forward"
    assert moved[US].words == f"{own[:12]} is not in main: only its commits are promoted"
    assert moved["main"].words == "main is the main branch, which only people move"
    assert tip(server, EU) == second


def test_a_reset_leaves_a_diverged_branch_only_from_where_it_was_seen(server, branches):
    first = push(server, 1)
    own = server.clone.commit({"tree.zk": "/own\n"})
    server.clone.git("push", "--quiet", "origin", f"{own}:refs/heads/{EU}")
    branches.fetch()
    assert branches.reset(BranchMove(EU, first, first)).outcome is MoveOutcome.RACED
    assert tip(server, EU) == own
    assert branches.reset(BranchMove(EU, own, first)).outcome is MoveOutcome.MOVED
    assert tip(server, EU) == first


def test_a_lost_answer_to_a_push_is_found_at_the_server(server, branches, tmp_path, monkeypatch):
    """A git on the path that pushes, and then fails as if the connection broke."""
    first, second = push(server, 1), push(server, 2)
    set_branch(server, EU, first)
    branches.fetch()
    push_and_fail = '"$GIT" "$@" >/dev/null 2>&1; echo "fatal: the remote end hung up unexpectedly" >&2; exit 128'
    replace_push(tmp_path, monkeypatch, push_and_fail)
    assert branches.move([BranchMove(EU, first, second)])[EU].outcome is MoveOutcome.MOVED
    assert branches.reset(BranchMove(EU, first, second)).outcome is MoveOutcome.MOVED


def test_a_push_of_which_nothing_is_known_is_an_error(server, branches, tmp_path):
    """The repository is away when the promoter looks for the branch."""
    first, second = push(server, 1), push(server, 2)
    set_branch(server, EU, first)
    branches.fetch()
    server.hook("update", f"mv {server.bare} {tmp_path}/away; kill -9 $PPID")
    with pytest.raises(SourceError, match=r"it is not known whether the push to .* arrived"):
        branches.move([BranchMove(EU, first, second)])
    (tmp_path / "away").rename(server.bare)
    (server.bare / "hooks" / "update").unlink()
    branches.fetch()
    assert branches.move([BranchMove(EU, first, second)])[EU].outcome is MoveOutcome.MOVED


def test_a_server_that_hangs_during_a_push_has_a_time_limit(server, tmp_path):
    first, second = push(server, 1), push(server, 2)
    set_branch(server, EU, first)
    source = GitSource(str(server.bare), tmp_path / "short" / "mirror", branch="main", gap=0, every_branch=True)
    hanging = FleetBranches(source)
    hanging.fetch()
    hanging._source = replace(source, timeout=3)  # a fetch may take longer on a busy machine
    server.hook("update", "exec sleep 3600")
    with pytest.raises(SourceError, match=r"did not arrive: git push did not end within 3 s") as error:
        hanging.move([BranchMove(EU, first, second)])
    assert error.value.retry_helps


def test_a_push_that_did_not_arrive_is_an_error_that_a_retry_may_mend(server, branches):
    first, second = push(server, 1), push(server, 2)
    set_branch(server, EU, first)
    branches.fetch()
    packs = server.bare / "objects"
    server.hook("update", "kill -9 $PPID")
    with pytest.raises(SourceError) as error:
        branches.move([BranchMove(EU, first, second)])
    assert error.value.retry_helps, error.value
    assert packs.is_dir()


def test_a_repository_without_main_is_named(tmp_path, server):
    push(server, 1)
    other = FleetBranches.opened(str(server.bare), tmp_path / "other", main="trunk")
    with pytest.raises(UnknownRevisionError, match=r"has no branch trunk; did you mean main\?"):
        other.fetch()


def test_a_deleted_branch_has_no_tip_after_the_next_fetch(server, branches):
    first = push(server, 1)
    set_branch(server, EU, first)
    branches.fetch()
    assert branches.tips([EU])[EU].commit == first
    server.ask("update-ref", "-d", f"refs/heads/{EU}")
    branches.fetch()
    assert branches.tips([EU]) == {EU: BranchTip(behind=1)}


def test_a_rewritten_main_no_longer_contains_what_was_promoted(server, branches):
    first, second = push(server, 1), push(server, 2)
    set_branch(server, EU, second)
    branches.fetch()
    server.clone.git("reset", "--quiet", "--hard", first)
    third = server.clone.commit({"tree.zk": "/other\n"})
    server.clone.git("push", "--quiet", "--force", "origin", "main")
    assert branches.fetch() == third
    assert branches.tips([EU])[EU] == BranchTip(second, in_main=False, behind=1)
    assert not branches.contains(third, second)


def test_a_clone_elsewhere_may_be_the_mirror_of_nothing_else(server, tmp_path):
    push(server, 1)
    Repository(tmp_path / "taken").commit({"file": "x"})
    with pytest.raises(SourceError, match="no mirror that this program made"):
        FleetBranches.opened(str(server.bare), tmp_path / "taken", main="main").fetch()


def test_rollbacks_of_promotions_are_found_below_newer_commits(server, branches):
    first = push(server, 1)
    older = server.push({"tree.zk": "/a\n"}, message=f"Roll back\n\nRolls-Back-Promotion: {first}")
    newer = server.push({"tree.zk": "/b\n"}, message="Roll back again\n\nRolls-Back-Promotion: abc")
    push(server, 2)
    branches.fetch()
    assert branches.rollbacks(first) == [(newer, "abc"), (older, first)]
    assert branches.rollbacks(older) == [(newer, "abc")]
    assert branches.rollbacks(newer) == []
    assert branches.rollbacks(None) == branches.rollbacks("0" * 40) == [(newer, "abc"), (older, first)]
