"""The promoter with a real ZooKeeper, a real git repository, and services behind a real HTTP server."""

import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from support.fleets.staged import CANARY, REST, staged_fleets, staged_group
from support.waiting import wait_until
from zkdeployment.base.act import Act
from zkdeployment.base.daemon.failpoints import VARIABLE
from zkdeployment.base.errors import LockLostError, RefusedError, SourceError
from zkdeployment.promotion import store
from zkdeployment.promotion.records import PROMOTION_ROLLBACK_TRAILER, FleetState
from zkdeployment.promotion.store import release, withhold
from zkdeployment.publishing.acts.commits import ROLLBACK_TRAILER
from zkdeployment.strategies.state import Directive
from zkdeployment.strategies.state_machine import RolloutResult
from zkdeployment.strategies.store.records import FencedLead, read_leader
from zkdeployment.strategies.strategy import MemberKind
from zkdeployment.strategies.views import RolloutProgressState, rollout_state
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.contender_lock import contenders
from zkdeployment.zookeeper.transactions import Delete, Set


@pytest.fixture
def fleets(tmp_path, zookeeper, session):
    with staged_fleets(tmp_path, zookeeper, session, "eu-1", "us-1", "us-2") as staged:
        yield staged


def test_a_revision_goes_through_all_fleets_group_by_group(fleets):
    commit = fleets.push(CANARY, REST)
    seen = []
    with fleets.promoter() as running:

        def has_ended():
            tips = [name for name, tip in fleets.branches().items() if tip == commit]
            if not seen or seen[-1] != tips:
                seen.append(tips)
            return fleets.records.state is not None and fleets.promotion.ended is not None

        running.until(has_ended, "the promotion has ended")
        running.until(fleets.have_converged, "the fleets have converged")
    assert rollout_state(fleets.promotion) is RolloutProgressState.SUCCESS
    assert seen[-1] == ["eu-1", "us-1", "us-2"]
    assert ["us-1", "us-2"] not in seen
    assert [tips for tips in seen if "us-1" in tips and "eu-1" not in tips] == []
    records = fleets.records
    (entry,) = records.history
    assert (entry.revision, entry.subject, entry.result) == (commit, "a change", "success")
    assert entry.reached.keys() == {"eu-1", "us-1", "us-2"}
    assert records.report.main == commit
    assert records.report.problem == ""


def test_a_bad_revision_stays_in_the_canary(fleets):
    good = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended(good)
        fleets.fleets["eu-1"].state = FleetState.STOPPED
        fleets.fleets["eu-1"].problem = "no repository has the package hello 9.9"
        bad = fleets.change("/bad")
        state = running.until_ended(bad)
    assert state.rollout.result is RolloutResult.FAILED
    assert state.errors == {"eu-1": "the fleet was stopped: no repository has the package hello 9.9"}
    assert fleets.branches() == {"eu-1": bad, "us-1": good, "us-2": good}


def test_newer_commits_wait_and_the_newest_of_them_comes_next(fleets):
    first = fleets.push(CANARY, REST)
    fleets.fleets["eu-1"].state = FleetState.ROLLING_OUT
    with fleets.promoter() as running:
        running.until(lambda: fleets.branch("eu-1") == first, "the canary has the revision")
        fleets.change("/second")
        third = fleets.change("/third")
        running.cycles()
        assert fleets.promotion.revision == first
        fleets.fleets["eu-1"].state = None
        running.until_ended(third)
    assert [entry.revision for entry in fleets.records.history] == [third, first]


def rollback_of(bad, good):
    return f"Revert a change\n\n{PROMOTION_ROLLBACK_TRAILER}: {bad}\n{ROLLBACK_TRAILER}: {good}"


def test_a_rollback_supersedes_the_promotion_and_comes_first_to_the_bad_fleets(fleets):
    slow = CANARY | {"bake_time": "1h"}
    good = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended(good)
        bad = fleets.push(slow, REST)
        running.until(lambda: fleets.branch("eu-1") == bad, "the canary has the revision")
        rollback = fleets.push(CANARY, REST, message=rollback_of(bad, good))
        newer = fleets.change("/newer")
        running.until_ended(newer)
    history = fleets.records.history
    assert [(entry.revision, entry.result, entry.rolls_back) for entry in history] == [
        (newer, "success", ""),
        (rollback, "success", bad),
        (bad, "superseded", ""),
        (good, "success", ""),
    ]
    assert [(name, new) for name, _, new in fleets.moves()][3:6] == [
        ("eu-1", bad),
        ("eu-1", rollback),
        ("us-1", rollback),
    ]


@pytest.mark.nightly
def test_a_commit_with_the_trailers_of_a_rollback_and_other_content_waits_like_any_other(fleets):
    good = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended(good)
        fleets.fleets["eu-1"].state = FleetState.ROLLING_OUT
        change = fleets.change("/change")
        running.until(lambda: fleets.branch("eu-1") == change, "the canary has the revision")
        copied = fleets.change("/evil", message=rollback_of(change, good))
        running.cycles(10)
        assert fleets.promotion.revision == change
        fleets.fleets["eu-1"].state = None
        running.until_ended(copied)
    assert [entry.rolls_back for entry in fleets.records.history] == ["", "", ""]
    assert [name for name, _, new in fleets.moves() if new == copied] == ["eu-1", "us-1", "us-2"]


@pytest.mark.nightly
def test_a_bad_revision_goes_no_further_while_its_rollback_cannot_begin(fleets):
    good = fleets.push(CANARY, REST, tree="/good")
    with fleets.promoter() as running:
        running.until_ended(good)
        fleets.fleets["eu-1"].state = FleetState.ROLLING_OUT
        bad = fleets.change("/bad")
        running.until(lambda: fleets.branch("eu-1") == bad, "the canary has the revision")
        broken = fleets.push(staged_group("canary", "nowhere"), tree="/good", message=rollback_of(bad, good))
        running.until(lambda: "is to supersede" in fleets.promotion.waiting, "the promotion is halted")
        fleets.fleets["eu-1"].state = None
        running.cycles()
        assert fleets.promotion.waiting == f"{broken[:12]} is to supersede the promotion"
        assert fleets.branches() == {"eu-1": bad, "us-1": good, "us-2": good}


def diverged(name, tip):
    """Return the failure of a fleet whose branch has diverged."""
    return (
        f"its branch has diverged from the main branch at {tip[:12]}; bring the change into the main branch, then"
        f" run 'zkdeployment promote reset {name}'"
    )


def test_a_fleet_with_a_commit_of_its_own_gets_nothing_until_its_branch_is_reset(fleets):
    good = fleets.push(CANARY, staged_group("rest", tag="us"))
    with fleets.promoter() as running:
        running.until_ended(good)
        own = fleets.own_commit("eu-1")
        next_one = fleets.change("/next")
        state = running.until_ended(next_one)
        assert state.errors == {"eu-1": diverged("eu-1", own)}
        assert fleets.branches() == {"eu-1": own, "us-1": next_one, "us-2": next_one}
        standing = fleets.records.standings["eu-1"]
        assert standing.state is FleetState.DIVERGED
        assert "zkdeployment promote reset eu-1" in standing.problem
        fleets.set_branch("eu-1", good)
        fleets.act(Directive.RESUME)
        running.until(lambda: fleets.promotion.attempt == 2, "the promotion is tried again")
        running.until_ended(next_one)
    assert rollout_state(fleets.promotion) is RolloutProgressState.SUCCESS
    assert fleets.branches() == dict.fromkeys(fleets.fleets, next_one)


@pytest.mark.nightly
def test_a_main_branch_that_is_rewritten_ends_the_promotion_of_a_lost_commit(fleets):
    good = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended(good)
        fleets.fleets["eu-1"].state = FleetState.ROLLING_OUT
        lost = fleets.change("/lost")
        running.until(lambda: fleets.branch("eu-1") == lost, "the canary has the revision")
        clone = fleets.repository.clone
        clone.git("reset", "--quiet", "--hard", good)
        other = clone.commit({"tree.zk": "/other"})
        clone.git("push", "--quiet", "--force", "origin", "main")
        fleets.fleets["eu-1"].state = None
        state = running.until_ended(other)
        assert state.errors == {"eu-1": diverged("eu-1", lost)}
    assert fleets.records.history[1].result == "superseded"
    assert fleets.branches() == {"eu-1": lost, "us-1": good, "us-2": good}


@pytest.mark.nightly
def test_documents_with_errors_promote_nothing_and_keep_what_runs(fleets):
    good = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended(good)
        bad = fleets.push(staged_group("canary", "nowhere"))
        running.until(lambda: fleets.records.report.problem, "the promoter reports the problem")
        running.cycles()
        assert fleets.records.report.problem.startswith(f"the documents of {bad[:12]} have errors:")
        assert "there is no group nowhere" in fleets.records.report.problem
        assert fleets.branches() == dict.fromkeys(fleets.fleets, good)
        mended = fleets.push(CANARY, REST)
        running.until_ended(mended)
        assert fleets.records.report.problem == ""


@pytest.mark.nightly
def test_a_repository_without_the_documents_promotes_nothing(fleets):
    fleets.change("/nothing")
    with fleets.promoter() as running:
        running.until(lambda: fleets.records.report, "the promoter reports")
        assert "expected a document zkdeployment/Fleets/v1" in fleets.records.report.problem
        assert fleets.records.state is None


def test_a_freeze_lets_nothing_begin_and_says_so(fleets):
    today = datetime.now(UTC)
    freeze = {
        "from": f"{today - timedelta(days=1):%Y-%m-%d}",
        "to": f"{today + timedelta(days=2):%Y-%m-%d}",
        "reason": "holidays",
    }
    fleets.push(CANARY, REST, freezes=[freeze])
    with fleets.promoter() as running:
        running.until(
            lambda: (
                (fleets.records.report or None)
                and fleets.records.report.waiting.startswith("promotions are frozen until ")
            ),
            "the promoter waits",
        )
        running.cycles()
        assert fleets.records.report.waiting.startswith("promotions are frozen until ")
        assert fleets.records.state is None
        melted = fleets.push(CANARY, REST)
        running.until_ended(melted)
        assert fleets.records.report.waiting == ""


def test_a_dry_run_that_refuses_the_revision_moves_no_branch(fleets):
    good = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended(good)
        fleets.fleets["eu-1"].refusals = ("the repository has no package hello 9.9",)
        bad = fleets.change("/bad")
        state = running.until_ended(bad)
        assert state.errors == {
            "eu-1": f"its syncer would refuse {bad[:12]}: the repository has no package hello 9.9"
        }
        assert fleets.branches() == dict.fromkeys(fleets.fleets, good)
        fleets.fleets["eu-1"].refusals = ()
        fleets.act(Directive.RESUME)
        running.until(
            lambda: fleets.branches() == dict.fromkeys(fleets.fleets, bad), "the second attempt succeeds"
        )


def pin(fleets, name, revision="", until=None):
    store.pin(fleets.session, name, Act("op", "pin", "why", 1.0), revision=revision, until=until)


def test_promotions_up_to_a_pin_reach_the_fleet_and_later_ones_do_not(fleets):
    good = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended(good)
        middle = fleets.change("/middle")
        running.until(lambda: fleets.records.report.main == middle, "the promoter has read the commit")
        pin(fleets, "us-1", middle)
        running.until_ended(middle)
        newer = fleets.change("/newer")
        running.until_ended(newer)
        assert fleets.branches() == {"eu-1": newer, "us-1": middle, "us-2": newer}
        assert "us-1" not in fleets.promotion.rollout.hosts


def test_a_pin_ends_by_itself_and_the_fleet_joins(fleets):
    good = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended(good)
        pin(fleets, "us-1", until=time.time() + 3600)
        newer = fleets.change("/newer")
        state = running.until_ended(newer)
        assert (fleets.branch("us-1"), "us-1" in state.rollout.hosts) == (good, False)
        pin(fleets, "us-1", until=time.time() + 1)
        running.until(lambda: fleets.branch("us-1") == newer, "the fleet joins late")
        assert fleets.records.orders.pins == {}


@pytest.mark.parametrize("moment", ["before:record", "after:record", "before:lead"])
def test_a_pin_that_arrives_during_a_cycle_stops_the_push(fleets, moment):
    """The promoter has granted the branch, or is about to push it, when an operator pins the fleet."""
    good = fleets.push(staged_group("all"))
    pinned = []

    def reach(place):
        state = fleets.records.state
        is_next = state is not None and state.revision != good and not pinned
        if place == moment and is_next and (place == "before:lead" or fleets.moves() == first):
            pinned.append(place)
            pin(fleets, "us-1")

    first = []
    with fleets.promoter(reach) as running:
        running.until_ended(good)
        first = fleets.moves()
        newer = fleets.change("/newer")
        running.until_ended(newer)
    assert pinned == [moment]
    assert fleets.branches() == {"eu-1": newer, "us-1": good, "us-2": newer}


def test_a_pin_behind_the_branch_is_named_and_moves_nothing(fleets):
    good = fleets.push(staged_group("all"))
    with fleets.promoter() as running:
        running.until_ended(good)
        pin(fleets, "us-1")
        newer = fleets.change("/newer")
        running.until_ended(newer)
        fleets.set_branch("us-1", newer)  # as a push does that had begun before the pin
        running.until(lambda: fleets.records.standings["us-1"].tip == newer, "the promoter sees the branch")
        problem = fleets.records.standings["us-1"].problem
        assert problem.startswith(
            f"branch fleets/us-1 was at {newer[:12]} already when the fleet was pinned to {good[:12]}"
        )
        last = fleets.change("/last")
        running.until_ended(last)
    assert fleets.branches() == {"eu-1": last, "us-1": newer, "us-2": last}


def choose(fleets, commit):
    return store.choose(fleets.session, commit, Act("op", "run promotions from", "why", 1.0))


def test_a_rollback_ends_the_choice_of_a_commit_unless_it_was_there_before(fleets):
    good = fleets.push(CANARY, REST, tree="/good")
    with fleets.promoter() as running:
        running.until_ended(good)
        fleets.fleets["us-1"].stays = good
        bad = fleets.change("/bad")
        running.until(lambda: fleets.branch("eu-1") == bad, "the canary has the revision")
        middle = fleets.change("/middle")
        newer = fleets.change("/newer")
        running.until(lambda: fleets.records.report.main == newer, "the promoter has read the commits")
        choose(fleets, middle)
        fleets.fleets["us-1"].stays = None
        running.until_ended(middle)
        running.cycles()
        assert set(fleets.branches().values()) == {middle}
        rollback = fleets.change("/good", message=rollback_of(bad, good))
        running.until_ended(rollback)
        assert fleets.records.choice is None
        after, last = fleets.change("/after"), fleets.change("/last")
        running.until_ended(last)
        assert after
    assert [entry.chosen for entry in fleets.records.history if entry.revision == middle] == ["chosen by op: why"]
    assert set(fleets.branches().values()) == {last}


def test_a_chosen_commit_that_main_has_lost_is_not_promoted(fleets):
    good = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended(good)
        fleets.fleets["eu-1"].refusals = ("no package",)
        lost = fleets.change("/lost")
        running.until_ended(lost)
        fleets.act(Directive.RESUME)
        clone = fleets.repository.clone
        clone.git("reset", "--quiet", "--hard", good)
        store.choose(fleets.session, lost, Act("op", "run promotions from", "why", 1.0), confirmed=True)
        other = clone.commit({"tree.zk": "/other"})
        clone.git("push", "--quiet", "--force", "origin", "main")
        fleets.fleets["eu-1"].refusals = ()
        running.until(lambda: "the main branch has lost it" in fleets.records.report.problem, "it is reported")
        running.cycles()
        assert set(fleets.branches().values()) == {good}
        store.follow(fleets.session, Act("op", "follow", "why", 2.0))
        running.until_ended(other)
    assert set(fleets.branches().values()) == {other}


def test_a_service_that_lies_about_its_commit_is_no_success(fleets):
    commit = fleets.push(CANARY, REST)
    liar = {
        "schema": "zkdeployment/fleet/v1",
        "state": "converged",
        "revision": commit,
        "hosts": 3,
        "converged": 3,
    }
    fleets.fleets["eu-1"].answer = liar
    fleets.repository.hook("update", "case $1 in refs/heads/fleets/*) sleep 3600;; esac")
    fleets.repository.hook("update", 'case $1 in refs/heads/fleets/eu-1) echo "closed today"; exit 1;; esac')
    with fleets.promoter() as running:
        state = running.until_ended()
    assert state.rollout.result is RolloutResult.FAILED
    assert state.errors == {"eu-1": "the git server refused the push to fleets/eu-1: closed today"}
    assert fleets.branches() == {"eu-1": "", "us-1": "", "us-2": ""}


@pytest.mark.nightly
def test_a_service_that_reports_a_foreign_commit_is_named_in_its_standing(fleets):
    first = fleets.push(CANARY, REST)
    second = fleets.change("/second")
    for name in fleets.fleets:
        fleets.set_branch(name, first)
    fleets.fleets["us-1"].stays = second
    with fleets.promoter() as running:
        fleets.fleets["eu-1"].state = FleetState.ROLLING_OUT

        def is_named():
            standing = fleets.records.standings.get("us-1")
            return standing and "does not contain; does the fleet's syncer follow" in standing.problem

        running.until(is_named, "the standing names the foreign commit")


def test_a_service_that_is_away_blocks_its_group_and_no_other_fleet(fleets):
    commit = fleets.push(CANARY, REST)
    fleets.fleets["us-2"].is_away = True
    with fleets.promoter() as running:
        running.until(lambda: fleets.branch("eu-1") == commit, "the canary has the revision")
        running.until(lambda: fleets.records.standings["us-2"].state is FleetState.UNREACHABLE, "us-2 is away")
        running.cycles()
        assert "ZooKeeper is away" in fleets.records.standings["us-2"].problem
        assert fleets.branch("us-1") == ""
        fleets.fleets["us-2"].is_away = False
        running.until_ended(commit)
    assert fleets.branches() == dict.fromkeys(fleets.fleets, commit)


def test_a_lost_race_is_read_again_and_is_no_failure(fleets):
    good = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended(good)
    middle = fleets.change("/middle")
    newest = fleets.change("/newest")
    raced = []

    def race(place):
        if place == "before:push" and not raced:
            raced.append(place)
            fleets.set_branch("eu-1", middle)

    with fleets.promoter(race) as running:
        running.until_ended(newest)
    assert raced
    assert rollout_state(fleets.promotion) is RolloutProgressState.SUCCESS
    assert fleets.branches() == dict.fromkeys(fleets.fleets, newest)


@pytest.mark.nightly
def test_a_branch_that_the_server_cannot_lock_is_named_and_not_pushed_all_the_time(fleets):
    good = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended(good)
    newest = fleets.change("/newest")
    lock = fleets.repository.bare / "refs" / "heads" / "fleets" / "eu-1.lock"
    lock.touch()
    with fleets.promoter() as running:
        running.until(lambda: fleets.records.standings["eu-1"].problem, "the reason is recorded")
        problem = fleets.records.standings["eu-1"].problem
        assert problem.startswith(
            "the git server could not move fleets/eu-1: error: cannot lock ref 'refs/heads/flee"
        )
        assert "eu-1.lock': File exists" in problem
        running.promoter._most = 5.0
        assert [running.promoter.run_cycle() for _ in range(2)] == [5.0, 5.0]
        lock.unlink()
        running.until_ended(newest)
    assert fleets.records.standings["eu-1"].problem == ""
    assert rollout_state(fleets.promotion) is RolloutProgressState.SUCCESS


@pytest.mark.nightly
def test_a_denied_push_does_not_keep_the_standings_of_fleets_from_the_records(fleets):
    good = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended(good)

    def deny(place):
        if place == "before:push":
            raise SourceError("cannot push: Permission denied (publickey)")

    fleets.change("/newest")
    with fleets.promoter(deny) as running:
        running.until(lambda: "Permission denied" in (fleets.records.report.problem or ""), "the push is denied")
        fleets.fleets["us-1"].state, fleets.fleets["us-1"].problem = FleetState.HELD, "a storm"
        running.until(lambda: fleets.records.standings["us-1"].state is FleetState.HELD, "the fleet is held")


def test_operators_pause_promote_and_abort(fleets):
    commit = fleets.push(CANARY, REST | {"manual": True})
    with fleets.promoter() as running:
        running.until(lambda: fleets.branch("eu-1") == commit, "the canary has the revision")
        running.until(lambda: "promote promote rest" in fleets.promotion.waiting, "the group waits")
        fleets.act(Directive.PAUSE)
        fleets.act(Directive.PROMOTE, "rest")
        running.until(lambda: fleets.promotion.waiting == "paused by op", "the promotion is paused")
        running.cycles()
        assert fleets.branch("us-1") == ""
        fleets.act(Directive.RESUME)
        running.until_ended(commit)
        newer = fleets.push(CANARY, REST | {"manual": True})
        running.until(lambda: fleets.branch("eu-1") == newer, "the canary has the next revision")
        fleets.act(Directive.ABORT)
        running.until_ended(newer)
        running.cycles()
    assert rollout_state(fleets.promotion) is RolloutProgressState.ABORTED
    assert fleets.branches() == {"eu-1": newer, "us-1": commit, "us-2": commit}


def test_a_pause_at_the_end_of_a_promotion_holds_the_next_one_until_operators_resume_it(fleets):
    first = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended(first)
        fleets.act(Directive.PAUSE)
        running.until(lambda: fleets.promotion.paused, "the promotion is paused")
        newer = fleets.change("/newer")
        running.until(lambda: fleets.records.report.waiting, "the next promotion waits")
        assert fleets.records.report.waiting == (
            "promotions are paused by op: why; 'zkdeployment promote resume' ends that"
        )
        running.cycles()
        assert fleets.branches() == dict.fromkeys(fleets.fleets, first)
        fleets.act(Directive.RESUME)
        running.until_ended(newer)
        running.until(lambda: not fleets.records.report.waiting, "nothing waits any more")
    assert fleets.branches() == dict.fromkeys(fleets.fleets, newer)


def test_a_pause_that_arrives_when_the_next_promotion_is_about_to_begin_holds_it(fleets):
    first = fleets.push(CANARY, REST)
    newer = []

    def reach(place):
        if place == "before:begin" and newer and fleets.promotion.paused is None:
            fleets.act(Directive.PAUSE)

    with fleets.promoter(reach) as running:
        running.until_ended(first)
        newer.append(fleets.change("/newer"))
        running.until(lambda: fleets.records.report.waiting, "the next promotion waits")
    assert (fleets.promotion.revision, fleets.promotion.paused.by) == (first, "op")


def test_acts_that_a_promotion_does_not_allow_are_refused(fleets):
    with pytest.raises(RefusedError, match="there is no promotion"):
        fleets.act(Directive.PAUSE)
    fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended()
    with pytest.raises(RefusedError, match="the promotion 1-1 is not paused"):
        fleets.act(Directive.RESUME)


def test_a_withheld_fleet_gets_nothing_until_it_is_released(fleets):
    act = Act("op", "withhold us-1", "repairs", 5.0)
    withhold(fleets.session, "us-1", act)
    commit = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended(commit)
        assert fleets.branches() == {"eu-1": commit, "us-1": "", "us-2": commit}
        assert fleets.records.standings["us-1"].withheld == act
        with pytest.raises(RefusedError, match="the fleet us-1 is withheld already: withhold us-1 by op: repairs"):
            withhold(fleets.session, "us-1", act)
        with pytest.raises(RefusedError, match="there is no fleet us-9; expected one of: eu-1, us-1, us-2"):
            withhold(fleets.session, "us-9", act)
        release(fleets.session, "us-1", Act("op", "release us-1"))
        running.until(lambda: fleets.branch("us-1") == commit, "the released fleet joins")
        with pytest.raises(RefusedError, match="the fleet us-1 is not withheld"):
            release(fleets.session, "us-1", act)


@pytest.mark.nightly
def test_a_fleet_that_gets_another_name_stays_withheld_by_its_branch(fleets):
    act = Act("op", "withhold us-1", "repairs", 5.0)
    first = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended(first)
        withhold(fleets.session, "us-1", act)
        shutil.copy(fleets.tokens / "us-1", fleets.tokens / "us-9")
        commit = fleets.push(CANARY, REST, renamed={"us-1": "us-9"})
        running.until_ended(commit)
        assert fleets.branches() == {"eu-1": commit, "us-1": first, "us-2": commit}
        assert fleets.records.standings["us-9"].withheld == act
        with pytest.raises(RefusedError, match="the fleet us-9 is withheld already"):
            withhold(fleets.session, "us-9", act)
        release(fleets.session, "us-9", Act("op", "release us-9"))
        running.until(lambda: fleets.branch("us-1") == commit, "the released fleet joins")


def test_a_git_server_that_is_away_halts_the_promotion_with_the_reason(fleets):
    good = fleets.push(CANARY, REST)
    bare = fleets.repository.bare
    with fleets.promoter() as running:
        running.until_ended(good)
        fleets.fleets["eu-1"].state = FleetState.ROLLING_OUT
        commit = fleets.change("/next")
        running.until(lambda: fleets.branch("eu-1") == commit, "the canary has the revision")
        bare.rename(bare.with_name("away"))
        fleets.fleets["eu-1"].answer = fleets_report(commit)
        for name in ("us-1", "us-2"):
            fleets.fleets[name].answer = fleets_report(good)
        running.until(
            lambda: "the git server cannot be read" in fleets.promotion.waiting, "the promotion is halted"
        )
        assert fleets.records.report.problem
        bare.with_name("away").rename(bare)
        for fleet in fleets.fleets.values():
            fleet.answer, fleet.state = None, None
        running.until_ended(commit)
    assert fleets.branches() == dict.fromkeys(fleets.fleets, commit)


def fleets_report(commit):
    return {
        "schema": "zkdeployment/fleet/v1",
        "state": "converged",
        "revision": commit,
        "hosts": 3,
        "converged": 3,
    }


class KilledError(BaseException):
    """The promoter was killed."""


class Deaths:
    """Kills promoters at each place, the first, third, fifth and seventh time that they reach it."""

    def __init__(self) -> None:
        self.reached = {}
        self.places = []

    def __call__(self, place: str) -> None:
        self.reached[place] = self.reached.get(place, 0) + 1
        if self.reached[place] in {1, 3, 5, 7}:
            self.places.append(place)
            raise KilledError


def check_moves(fleets, order):
    """Check all pushes: no branch moves backwards, or to a commit that is not in main; groups come in order."""
    ask = fleets.repository.ask
    for _, old, new in fleets.moves():
        assert ask("merge-base", "main", new) == new
        assert set(old) == {"0"} or ask("merge-base", old, new) == old
    tips = dict.fromkeys(fleets.fleets, "")
    for name, _, new in fleets.moves():
        for before in order.get(name, ()):
            assert tips[before], f"{name} came before {before}"
            assert ask("merge-base", tips[before], new) == new, f"{name} came before {before}"
        tips[name] = new


@pytest.mark.parametrize(
    "death", ["before:pins", "after:pins", "after:begin", "after:record", "before:push", "after:push"]
)
def test_a_successor_respects_a_pin_that_came_after_the_death_of_its_predecessor(fleets, death):
    good = fleets.push(staged_group("all"))
    with fleets.promoter() as running:
        running.until_ended(good)
    pin(fleets, "us-2", until=0.5)
    newer = fleets.change("/newer")

    def die(place):
        if place == death:
            raise KilledError

    with fleets.promoter(die) as dying, pytest.raises(KilledError):
        dying.until(lambda: False, "the end of the promoter")
    pin(fleets, "us-1")
    with fleets.promoter() as successor:
        successor.until_ended(newer)
        successor.cycles()
    expected = newer if death == "after:push" else good
    assert fleets.branches() == {"eu-1": newer, "us-1": expected, "us-2": newer}
    assert [*fleets.records.orders.pins] == ["fleets/us-1"]


@pytest.mark.parametrize("death", ["before:begin", "after:begin", "after:record", "before:push", "after:push"])
def test_a_successor_promotes_a_chosen_commit_after_the_death_of_its_predecessor(fleets, death):
    good = fleets.push(staged_group("all"))
    with fleets.promoter() as running:
        running.until_ended(good)
        fleets.fleets["eu-1"].state = FleetState.ROLLING_OUT
        middle = fleets.change("/middle")
        running.until(lambda: fleets.branch("eu-1") == middle, "the fleets have the revision")
        chosen, newer = fleets.change("/chosen"), fleets.change("/newer")
        running.until(lambda: fleets.records.report.main == newer, "the promoter has read the commits")
        choose(fleets, chosen)
    fleets.fleets["eu-1"].state = None

    def die(place):
        state = fleets.records.state
        begins = state.ended is not None or state.revision == chosen
        if place == death and begins:
            raise KilledError

    with fleets.promoter(die) as dying, pytest.raises(KilledError):
        dying.until(lambda: False, "the end of the promoter")
    with fleets.promoter() as successor:
        successor.until_ended(chosen)
        successor.cycles()
    assert set(fleets.branches().values()) == {chosen}
    assert [entry.revision for entry in fleets.records.history] == [chosen, middle, good]


@pytest.mark.nightly
def test_a_rollback_passes_a_diverged_fleet_which_joins_after_its_reset(fleets):
    """The promoters are killed at each write and push."""
    good = fleets.push(CANARY, REST, tree="/good")
    with fleets.promoter() as running:
        running.until_ended(good)
        bad = fleets.change("/bad")
        running.until_ended(bad)
    own = fleets.own_commit("eu-1")
    fleets.set_branch("us-2", good)
    rollback = fleets.change("/good", message=rollback_of(bad, good))
    deaths = Deaths()

    def run_until(condition):
        while not condition():
            try:
                with fleets.promoter(deaths) as running:
                    running.cycles(20)
            except KilledError:
                pass

    run_until(lambda: fleets.promotion.revision == rollback and fleets.promotion.ended is not None)
    assert rollout_state(fleets.promotion) is RolloutProgressState.SUCCESS
    assert fleets.branches() == {"eu-1": own, "us-1": rollback, "us-2": rollback}
    assert [(name, new) for name, _, new in fleets.moves()][-2:] == [("us-1", rollback), ("us-2", rollback)]
    assert fleets.promotion.rollout.order == ("rollback", "canary", "rest")
    assert "eu-1" not in fleets.promotion.rollout.hosts
    standing = fleets.records.standings["eu-1"]
    assert standing.problem.endswith("the rollback is in the main branch; run 'zkdeployment promote reset eu-1'")
    fleets.set_branch("eu-1", bad)
    run_until(lambda: fleets.branch("eu-1") == rollback)
    run_until(lambda: "eu-1" in fleets.records.history[0].reached)
    assert rollout_state(fleets.promotion) is RolloutProgressState.SUCCESS
    assert len(fleets.moves()) == len(set(fleets.moves()))


def test_promoters_that_are_killed_at_each_write_and_push_reach_the_same_result(fleets):
    first = fleets.push(CANARY, REST)
    deaths, commits = Deaths(), [first]
    while True:
        state = fleets.records.state
        if state is not None and state.ended is not None and state.revision == commits[-1]:
            if len(commits) == 2:
                break
            fleets.fleets["eu-1"].state = FleetState.STOPPED
            commits.append(fleets.change("/bad"))
        try:
            with fleets.promoter(deaths) as running:
                running.cycles(20)
        except KilledError:
            pass
    assert {place.partition(":")[2] for place in deaths.places} >= {"begin", "record", "push", "fleets", "report"}
    assert {place.partition(":")[0] for place in deaths.places if place.endswith(":push")} == {"before", "after"}
    assert fleets.promotion.rollout.result is RolloutResult.FAILED
    assert fleets.branches() == {"eu-1": commits[1], "us-1": first, "us-2": first}
    assert len(fleets.moves()) == len(set(fleets.moves())) == 4
    check_moves(fleets, {"us-1": ["eu-1"], "us-2": ["eu-1"]})
    assert [entry.result for entry in fleets.records.history] == ["failed", "success"]


def test_a_promoter_that_lost_its_lead_neither_writes_nor_pushes(fleets):
    commit = fleets.push(CANARY, REST)
    lost = []

    def lose(place):
        if place == "before:lead" and not lost:
            lost.append(place)
            (leader,) = contenders(fleets.session, paths.PROMOTERS)
            fleets.session.commit(Delete(leader.node))

    with fleets.promoter(lose) as running:
        running.until(lambda: lost, "the promoter is about to push")
        assert fleets.moves() == []
        running.until_ended(commit)


def test_a_promoter_that_regains_the_lead_decides_on_new_answers(fleets):
    commit = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended(commit)
        running.until(fleets.have_converged, "the fleets have converged")
        running.promoter._services._interval = 3600.0  # no service is asked again by itself
        running.until(lambda: not running.promoter._services._busy, "all requests have ended")
        fleets.fleets["eu-1"].state = FleetState.HELD
        running.cycles()
        assert fleets.records.standings["eu-1"].state is FleetState.CONVERGED
        (leader,) = contenders(fleets.session, paths.PROMOTERS)
        fleets.session.commit(Delete(leader.node))
        running.until(lambda: fleets.records.standings["eu-1"].state is FleetState.HELD, "the new answer counts")


def test_a_promoter_that_was_frozen_before_its_push_undoes_nothing_afterwards(fleets):
    first = fleets.push(CANARY, REST)
    newer = []

    def freeze(place):
        if place == "before:push" and not newer:
            (leader,) = contenders(fleets.session, paths.PROMOTERS)
            fleets.session.commit(Delete(leader.node))
            with fleets.promoter(directory="other") as other:
                other.until_ended(first)
                newer.append(fleets.change("/newer"))
                other.until_ended(newer[0])

    with fleets.promoter(freeze) as running:
        running.until(lambda: newer, "the promoter was frozen")
        running.cycles()
    assert fleets.branches() == dict.fromkeys(fleets.fleets, newer[0])
    assert len(fleets.moves()) == 6
    check_moves(fleets, {"us-1": ["eu-1"], "us-2": ["eu-1"]})


def test_writes_of_a_promoter_without_the_lead_are_refused(fleets):
    with pytest.raises(LockLostError, match="this promoter does not lead any more"):
        FencedLead(fleets.session, MemberKind.FLEET).confirm()


def test_a_promotion_that_cannot_be_read_is_begun_again(fleets):
    commit = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        state = running.until_ended(commit)
        path = paths.rollout_path(state.id, paths.PROMOTIONS)
        fleets.session.commit(Set(path, b"{}"))
        running.until(lambda: fleets.records.state is not None, "another promotion begins")
        assert (running.until_ended(commit).sequence, fleets.promotion.attempt) == (2, 1)


@pytest.mark.nightly
def test_promotions_that_are_lost_leave_their_history_and_their_numbers(fleets):
    first = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        path = paths.rollout_path(running.until_ended(first).id, paths.PROMOTIONS)
        fleets.session.commit(Delete(paths.acts_path("1-1", paths.PROMOTIONS)), Delete(path))
        fleets.session.commit(Set(paths.PROMOTIONS, b""))
        running.until(lambda: fleets.records.state is not None, "another promotion begins")
        assert running.until_ended(first).id == "2-1"
    assert [entry.id for entry in fleets.records.history] == ["2-1", "1-1"]


@pytest.mark.nightly
def test_the_history_keeps_the_last_promotions(fleets, monkeypatch):
    monkeypatch.setattr(store, "HISTORY_LIMIT", 2)
    with fleets.promoter() as running:
        commits = []
        for _ in range(3):
            commits.append(fleets.push(CANARY, REST))
            running.until_ended(commits[-1])
        running.until(lambda: len(fleets.records.history) == 2, "the oldest entry is removed")
    assert [entry.revision for entry in fleets.records.history] == commits[:0:-1]
    assert fleets.session.children(paths.PROMOTIONS) == [fleets.promotion.id]


def test_a_second_promoter_takes_over_from_a_killed_one_and_ends_on_request(fleets, tmp_path, zookeeper):
    commit = fleets.push(CANARY, REST)
    config = tmp_path / "zkdeployment.cfg"

    def promote(name, **environment):
        config.write_text(
            f"[zkdeployment]\nzookeeper = {zookeeper}\nroot = {tmp_path}\n[promote]\n"
            f"url = {fleets.repository.bare}\ndirectory = {tmp_path / name}\n"
            f"token-directory = {fleets.tokens}\ninterval = 0.2\n"
        )
        return subprocess.Popen(
            [sys.executable, "-m", "zkdeployment", "promote", "run", str(config)],
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    first = promote("one", **{VARIABLE: "before:push=kill"})
    assert first.wait() == -signal.SIGKILL
    assert fleets.moves() == []
    second = promote("two")
    try:
        wait_until(lambda: fleets.records.state and fleets.promotion.ended, "the promotion has ended")
        assert read_leader(fleets.session, MemberKind.FLEET) is not None
    finally:
        second.send_signal(signal.SIGTERM)
        log, _ = second.communicate()
        first.stdout.close()
    assert second.returncode == 0
    assert "promotion-ended" in log
    assert "branch-moved" in log
    assert f"promotion 1-1 of {commit[:12]}: success; 3 fleets: 3 succeeded" in log
    assert read_leader(fleets.session, MemberKind.FLEET) is None
    check_moves(fleets, {"us-1": ["eu-1"], "us-2": ["eu-1"]})


@pytest.mark.nightly
def test_a_mirror_without_an_answer_of_the_git_server_is_a_problem_of_the_promoter(fleets):
    fleets.push(CANARY, REST)
    bare = fleets.repository.bare
    bare.rename(bare.with_name("away"))
    with fleets.promoter() as running:
        running.until(lambda: fleets.records.report, "the promoter reports")
        assert fleets.records.report.problem
        assert (fleets.records.state, fleets.records.report.main) == (None, None)
