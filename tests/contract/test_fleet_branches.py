"""The contract of the branches of fleets, for a real git server and for that of the simulation."""

import shutil
from itertools import count
from types import SimpleNamespace

import pytest

from simulation.promotion_servers import GitServer, SimulatedBranches
from support.branches import Branch
from zkdeployment.base.errors import LockLostError, SourceError, UnknownRevisionError
from zkdeployment.base.source_files import SourceFile
from zkdeployment.promotion.branches import FleetBranches
from zkdeployment.promotion.records import PROMOTION_ROLLBACK_TRAILER, BranchMove, BranchTip, MoveOutcome
from zkdeployment.publishing.acts.commits import ROLLBACK_TRAILER

EU, US = "fleets/eu-1", "fleets/us-1"
UNKNOWN = "1" * 40
DOCUMENT = SourceFile("fleets.yaml", b"schema: zkdeployment/Fleets/v1\ndata: {fleets: []}\n")


class RealArena:
    """A git server in a directory, and the mirror of a promoter."""

    def __init__(self, directory) -> None:
        self._server = Branch(directory)
        self._numbers = count()
        self.branches = FleetBranches.opened(str(self._server.bare), directory / "mirror", main="main")

    def commit(self, parent=None, rolls_back=""):
        """Push a commit to the server, to no branch; the first one has the document of the fleets."""
        clone = self._server.clone
        if parent is not None:
            clone.git("checkout", "--quiet", "--detach", parent)
        message = f"change {next(self._numbers)}"
        if rolls_back:
            good = clone.git("rev-list", "--max-parents=0", "HEAD")
            message += f"\n\n{PROMOTION_ROLLBACK_TRAILER}: {rolls_back}\n{ROLLBACK_TRAILER}: {good}"
        commit = clone.commit({DOCUMENT.name: DOCUMENT.content}, message=message)
        clone.git("push", "--quiet", "origin", f"{commit}:refs/kept/{commit}")
        return commit

    def set(self, branch, commit):
        self._server.ask("update-ref", f"refs/heads/{branch}", commit)

    def tip(self, branch):
        return self._server.ask("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}") or None

    def leave(self):
        self._server.bare.rename(self._server.bare.with_name("away"))

    def come_back(self):
        shutil.move(self._server.bare.with_name("away"), self._server.bare)


class SimulatedArena:
    """The git server of the simulation, whose world does not interfere."""

    def __init__(self) -> None:
        self._server = GitServer([DOCUMENT])
        world = SimpleNamespace(reach=lambda _: None, count=lambda _: None, judge_move=lambda _move, _main: None)
        self.branches = SimulatedBranches(self._server, world)

    def commit(self, parent=None, rolls_back=""):
        return self._server.commit(parent, rolls_back=rolls_back)

    def set(self, branch, commit):
        self._server.branches[branch] = commit

    def tip(self, branch):
        return self._server.branches.get(branch)

    def leave(self):
        self._server.is_away = True

    def come_back(self):
        self._server.is_away = False


@pytest.fixture(params=["real", "simulated"])
def arena(request, tmp_path):
    return SimulatedArena() if request.param == "simulated" else RealArena(tmp_path)


def line(arena, number=3):
    """Set the main branch to the last of some commits in a line; return them."""
    commits = [arena.commit()]
    while len(commits) < number:
        commits.append(arena.commit(commits[-1]))
    arena.set("main", commits[-1])
    return commits


def outcomes(results):
    return {branch: result.outcome for branch, result in results.items()}


def test_a_repository_without_a_main_branch_has_no_known_tip(arena):
    arena.set(EU, arena.commit())
    with pytest.raises(UnknownRevisionError):
        arena.branches.fetch()


def test_tips_are_those_of_the_last_fetch(arena):
    first, second, third = line(arena)
    own = arena.commit(second)
    arena.set(EU, first)
    arena.set(US, own)
    assert arena.branches.fetch() == third
    tips = {
        EU: BranchTip(first, in_main=True, behind=2),
        US: BranchTip(own, behind=1),
        "fleets/x": BranchTip(behind=3),
    }
    assert arena.branches.tips([EU, US, "fleets/x"]) == tips
    arena.set(EU, second)
    arena.set("main", second)
    assert arena.branches.tips([EU, US, "fleets/x"]) == tips
    assert arena.branches.fetch() == second
    assert arena.branches.tips([EU]) == {EU: BranchTip(second, in_main=True)}


def test_a_server_that_is_away_is_an_error_and_the_mirror_keeps_its_facts(arena):
    first, second = line(arena, 2)
    arena.set(EU, first)
    arena.branches.fetch()
    arena.leave()
    with pytest.raises(SourceError):
        arena.branches.fetch()
    assert arena.branches.tips([EU]) == {EU: BranchTip(first, in_main=True, behind=1)}
    assert arena.branches.contains(second, first)
    with pytest.raises(SourceError):
        arena.branches.move([BranchMove(EU, first, second)])
    arena.come_back()
    assert arena.tip(EU) == first
    assert arena.branches.fetch() == second


def test_commits_are_known_once_they_are_fetched_also_after_their_branch_lost_them(arena):
    first, second, third = line(arena)
    other = arena.commit(second)
    arena.branches.fetch()
    assert arena.branches.contains(third, first)
    assert arena.branches.contains(first, first)
    assert not arena.branches.contains(first, third)
    assert not arena.branches.contains(other, first)
    assert not arena.branches.contains(third, UNKNOWN)
    assert not arena.branches.contains(UNKNOWN, first)
    arena.set("main", other)
    arena.branches.fetch()
    assert arena.branches.contains(other, first)
    assert not arena.branches.contains(other, third)
    assert arena.branches.contains(third, second)


def test_a_commit_has_a_summary_documents_and_what_it_rolls_back(arena):
    first = arena.commit(arena.commit())
    second = arena.commit(first, rolls_back=first)
    arena.set("main", second)
    arena.branches.fetch()
    summary = arena.branches.summary(second)
    assert summary.id == second
    assert summary.subject
    assert summary.author
    assert summary.time > 0
    assert [(file.name, file.content) for file in arena.branches.documents(second)] == [
        (DOCUMENT.name, DOCUMENT.content)
    ]
    assert arena.branches.undone(second) == first
    assert arena.branches.undone(first) == ""


def test_the_facts_of_an_unknown_commit_are_an_error(arena):
    line(arena, 1)
    arena.branches.fetch()
    with pytest.raises(SourceError):
        arena.branches.summary(UNKNOWN)
    with pytest.raises(SourceError):
        arena.branches.documents(UNKNOWN)
    with pytest.raises(SourceError):
        arena.branches.undone(UNKNOWN)


def test_rollbacks_after_a_commit_are_listed_the_newest_first(arena):
    bad = arena.commit()
    one = arena.commit(bad, rolls_back=bad)
    two = arena.commit(arena.commit(one), rolls_back=one)
    lost = arena.commit(two)
    arena.set("main", two)
    arena.branches.fetch()
    assert arena.branches.rollbacks(bad) == [(two, one), (one, bad)]
    assert arena.branches.rollbacks(one) == [(two, one)]
    assert arena.branches.rollbacks(two) == []
    assert arena.branches.rollbacks(None) == arena.branches.rollbacks(lost) == [(two, one), (one, bad)]


def test_the_last_commits_of_the_main_branch_show_their_ancestry(arena):
    first, second, third = line(arena, 3)
    other = arena.commit(first)
    arena.set(EU, other)
    arena.branches.fetch()
    found = arena.branches.recent(2)
    assert [each.commit for each in found.commits] == [arena.branches.summary(each) for each in (third, second)]
    assert [each.parents for each in found.commits] == [(second,), (first,)]
    assert found.find(second[:12]) == second
    assert [found.contains(third, each) for each in (third, second, first, other)] == [True, True, True, False]
    assert not found.contains(second, third)


def test_branches_move_forward_and_are_created(arena):
    first, second = line(arena, 2)
    arena.set(EU, first)
    arena.branches.fetch()
    results = arena.branches.move([BranchMove(EU, first, second), BranchMove(US, None, second)])
    assert outcomes(results) == dict.fromkeys((EU, US), MoveOutcome.MOVED)
    assert (arena.tip(EU), arena.tip(US)) == (second, second)
    assert arena.branches.move([]) == {}


def test_the_last_check_before_a_push_may_prevent_it(arena):
    first, second = line(arena, 2)
    arena.set(EU, first)
    arena.branches.fetch()
    called = []

    def prevent():
        called.append(arena.tip(EU))
        raise LockLostError("another promoter leads")

    with pytest.raises(LockLostError):
        arena.branches.move([BranchMove(EU, first, second), BranchMove(US, None, second)], prevent)
    assert (called, arena.tip(EU), arena.tip(US)) == ([first], first, None)
    arena.branches.move([], prevent)
    arena.branches.move([BranchMove(EU, second, first)], prevent)
    arena.branches.move([BranchMove(EU, first, second)], lambda: called.append(arena.tip(EU)))
    assert (called, arena.tip(EU)) == ([first, first], second)


def test_a_repeated_move_changes_nothing(arena):
    first, second = line(arena, 2)
    arena.set(EU, second)
    arena.branches.fetch()
    assert outcomes(arena.branches.move([BranchMove(EU, first, second)])) == {EU: MoveOutcome.MOVED}
    assert arena.tip(EU) == second


def test_a_branch_that_is_not_where_it_was_expected_loses_the_race_alone(arena):
    first, second, third = line(arena)
    arena.set(EU, first)
    arena.set(US, first)
    arena.branches.fetch()
    arena.set(EU, second)
    results = arena.branches.move([BranchMove(EU, first, third), BranchMove(US, first, third)])
    assert outcomes(results) == {EU: MoveOutcome.RACED, US: MoveOutcome.MOVED}
    assert results[EU].words
    assert (arena.tip(EU), arena.tip(US)) == (second, third)
    arena.set(EU, arena.commit(third))
    assert outcomes(arena.branches.move([BranchMove(EU, first, third)])) == {EU: MoveOutcome.RACED}


def test_a_move_is_refused_that_leads_back_or_beside_main_or_moves_main(arena):
    first, second, third = line(arena)
    own = arena.commit(second)
    arena.set(EU, second)
    arena.set(US, own)
    arena.branches.fetch()
    wrong = [BranchMove(EU, second, first), BranchMove("fleets/a", None, own), BranchMove(US, own, third)]
    results = arena.branches.move([*wrong, BranchMove("main", third, second), BranchMove("fleets/b", None, first)])
    assert outcomes(results) == {
        EU: MoveOutcome.REFUSED,
        "fleets/a": MoveOutcome.REFUSED,
        US: MoveOutcome.REFUSED,
        "main": MoveOutcome.REFUSED,
        "fleets/b": MoveOutcome.MOVED,
    }
    assert all(results[move.branch].words for move in wrong)
    assert (arena.tip(EU), arena.tip(US), arena.tip("main")) == (second, own, third)
    assert arena.tip("fleets/a") is None
