"""The page of a commit and the commits that wait, from literals."""

from dataclasses import replace

import pytest

from support.builders import make_host
from support.strategies import active_rollout, advanced_rollout, begun_rollout, ended_rollout
from zkdeployment.base.act import Act
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.deployment import HostResult
from zkdeployment.base.publication import Origin
from zkdeployment.base.stop import GroupStop, Stop
from zkdeployment.fleet.views.requests import Job, JobState
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import fleet_status
from zkdeployment.publishing.records import CommitSummary, PublicationRecord, PublicationSummary, Refusal
from zkdeployment.service.views.commits import CommitFacts, commit_view, waiting_commits
from zkdeployment.service.views.fleet import Tone

NOW = 10_000.0
COMMIT = CommitSummary("c" * 40, "Ada Byron <ada@x>", "hello 9.9", 9_000.0)
RUNNING = FleetSnapshot(
    Cluster("b" * 40),
    "b" * 40,
    hosts=(make_host("h1", "b" * 40), make_host("h2", "b" * 40)),
    targets=frozenset({"h1", "h2"}),
    since=8,
)
BEHIND = replace(RUNNING, hosts=(make_host("h1", "b" * 40), make_host("h2", "a" * 40)))
ROLLING = replace(BEHIND, strategy="deployment-strategy", governed=True, coordinator="c1", rollout=begun_rollout())


def view(job, snapshot=RUNNING, publication=None):
    return commit_view(CommitFacts(job, COMMIT, snapshot, fleet_status(snapshot), publication), NOW)


def published(sequence=8, **fields):
    origin = Origin("Ada Byron <ada@x>", "hello 9.9", 9_000.0)
    return PublicationSummary.of(PublicationRecord("c" * 40, 9_500.0, sequence, origin=origin, **fields))


def results(*done, **failed):
    ended = {name: HostResult(name, name, 9_600.0, 1.0) for name in done}
    return ended | {name: HostResult(name, name, 9_600.0, 1.0, error) for name, error in failed.items()}


def stages(found):
    return [(stage.name, stage.state) for stage in found.stages]


@pytest.mark.parametrize(
    ("snapshot", "outlook"),
    [
        (RUNNING, "published in the next cycle of the syncer"),
        (BEHIND, "published when all hosts have the present revision"),
        (ROLLING, "published when this rollout ends"),
        (
            replace(RUNNING, cluster=Cluster(None)),
            "published when the fleet is resumed with the tip of the branch",
        ),
    ],
)
def test_waiting_commits_name_what_they_wait_for(snapshot, outlook):
    found = waiting_commits([COMMIT], snapshot)
    assert (found.title, found.reason) == ("1 commit waits", outlook)
    (commit,) = found.commits
    assert (commit.subject, commit.author, commit.href) == ("hello 9.9", "Ada Byron", f"/commits/{COMMIT.id}")


def test_of_many_waiting_commits_the_newest_are_named():
    four = waiting_commits([COMMIT] * 4, RUNNING)
    assert (four.title, len(four.commits), four.more) == ("4 commits wait", 3, True)
    assert waiting_commits([COMMIT] * 10, RUNNING).title == "10 or more commits wait"


def test_without_commits_and_with_a_refused_tip_nothing_waits():
    assert waiting_commits([], RUNNING) is None
    assert waiting_commits([COMMIT], replace(RUNNING, refusal=Refusal(COMMIT.id, ("a.zk:2",)))) is None


def test_a_commit_that_waits_says_why_and_can_be_published():
    found = view(Job(COMMIT.id, JobState.PENDING), BEHIND)
    assert (found.tone, found.may_publish) == (Tone.HALTED, True)
    assert found.headline == "Waits: published when all hosts have the present revision"
    assert stages(found) == [
        ("Pushed", "done"),
        ("Checked", "later"),
        ("Published", "now"),
        ("Rollout", "later"),
        ("Converged", "later"),
    ]


def test_a_refused_commit_shows_its_problems_with_their_places():
    job = Job(COMMIT.id, JobState.FAILED, problems=("a.zk:2:3: no version",), refused="d" * 40)
    found = view(job)
    assert (found.tone, found.headline, found.problems) == (Tone.BAD, "Refused", ("a.zk:2:3: no version",))
    assert found.stages[1].text == "refused by the syncer with dddddddddddd, which contains it"
    assert stages(found)[1] == ("Checked", "failed")


def test_a_commit_under_way_is_in_a_group_and_on_some_hosts():
    at = active_rollout(advanced_rollout(begun_rollout(), until="control-nodes"), done=["ctl1"])
    found = view(Job(COMMIT.id, JobState.PROCESSED, 8), replace(ROLLING, rollout=at), published())
    assert (found.tone, found.headline, found.done, found.expected) == (
        Tone.BUSY,
        "Converged on 1 of 2 hosts",
        1,
        2,
    )
    assert stages(found)[-2:] == [("Rollout", "now"), ("Converged", "now")]
    assert found.stages[3].text.startswith("in group 3 of ")
    assert "control-nodes (preparing)" in found.stages[3].text


def test_a_commit_on_all_hosts_has_converged_and_its_rollout_is_over():
    snapshot = replace(ROLLING, hosts=RUNNING.hosts, rollout=ended_rollout(begun_rollout()))
    found = view(Job(COMMIT.id, JobState.PROCESSED, 8), snapshot, published())
    assert (found.tone, found.headline) == (Tone.GOOD, "Converged on all hosts")
    assert stages(found)[-2:] == [("Rollout", "done"), ("Converged", "done")]


def test_a_commit_that_failed_on_a_host_or_is_stopped_is_not_under_way():
    failed = replace(BEHIND, hosts=(make_host("h1", "b" * 40), replace(make_host("h2", "a" * 40), error="boom")))
    assert view(Job(COMMIT.id, JobState.PROCESSED, 8), failed, published()).headline == "Failed on 1 host"
    stopped = view(Job(COMMIT.id, JobState.PROCESSED, 8), replace(BEHIND, cluster=Cluster(None)), published())
    assert (stopped.tone, stopped.headline) == (Tone.HALTED, "The fleet is stopped; on 1 of 2 hosts")


def test_a_commit_that_failed_in_a_stopped_group_has_not_converged():
    stop = GroupStop("p1/store/v1/shop", 8, Stop("h1", "app1", "b" * 40, "deploy /shop 0", "exit 1", 5.0))
    found = view(Job(COMMIT.id, JobState.PROCESSED, 8), replace(RUNNING, group_stops=(stop,)), published())
    assert (found.tone, found.headline) == (Tone.BAD, "Group p1/store/v1/shop is stopped")
    assert stages(found)[-1] == ("Converged", "failed")
    former = replace(RUNNING, group_stops=(replace(stop, sequence=7),))
    assert view(Job(COMMIT.id, JobState.PROCESSED, 8), former, published()).tone is Tone.GOOD


def test_a_commit_of_documents_only_has_converged_at_once():
    found = view(Job(COMMIT.id, JobState.PROCESSED, 8), BEHIND, published(since=5))
    assert (found.tone, found.headline) == (Tone.GOOD, "Published")


@pytest.mark.parametrize(
    ("former", "tone", "headline"),
    [
        (published(hosts=2, results=results("h1", "h2")), Tone.GOOD, "Published, and replaced since"),
        (published(hosts=300, results=results("h1", "h2")), Tone.HALTED, "Superseded before all hosts were done"),
        (published(hosts=2, results=results("h1", h2="boom")), Tone.BAD, "Failed on 1 host"),
        (published(since=5), Tone.GOOD, "Published"),
        (None, Tone.UNKNOWN, "Published; the record of its hosts is gone"),
    ],
)
def test_a_former_commit_shows_its_outcome(former, tone, headline):
    snapshot = replace(RUNNING, since=9)
    facts = CommitFacts(Job(COMMIT.id, JobState.PROCESSED, 8), None, snapshot, fleet_status(snapshot), former)
    found = commit_view(facts, NOW)
    assert (found.tone, found.headline, found.subject) == (tone, headline, "")


def test_a_commit_is_not_converged_while_its_rollout_waits_or_no_host_has_it():
    rollout = replace(
        ROLLING, hosts=RUNNING.hosts, coordinator="c1", rollout=replace(begun_rollout(), revision="b" * 40)
    )
    paused = replace(rollout, rollout=replace(rollout.rollout, paused=Act("ann", "pause", "", 9_900.0)))
    found = [
        view(Job(COMMIT.id, JobState.PROCESSED, 8), each, published())
        for each in (rollout, paused, replace(RUNNING, hosts=(), targets=frozenset()))
    ]
    assert [(each.tone, each.headline) for each in found] == [
        (Tone.BUSY, "Converged on 2 of 2 hosts"),
        (Tone.HALTED, "The rollout is paused; on 2 of 2 hosts"),
        (Tone.UNKNOWN, "No hosts are registered"),
    ]
