"""Commit statuses follow from the state of the fleet, and have the form that each forge documents."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from support.builders import make_host
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.stop import GroupStop, Stop
from zkdeployment.fleet.feed.fleet_assembly import FleetReading
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.webhooks.commit_status import (
    CommitState,
    CommitStatus,
    Forge,
    ForgeRepository,
    changed_statuses,
    commit_statuses,
    is_set_already,
    status_request,
)
from zkdeployment.publishing.records import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

OLD, NEW, TIP = "a" * 40, "b" * 40, "c" * 40


def statuses(*hosts: Any, version: Any = NEW, **fields: Any) -> list[tuple[str, CommitState, str]]:
    fleet = FleetSnapshot(Cluster(version), NEW, hosts=hosts, **fields)
    return [(one.commit, one.state, one.description) for one in commit_statuses(FleetReading(fleet, sequence=7))]


def hosts(done: int, total: int) -> list[Any]:
    return [make_host(number, NEW if number < done else OLD) for number in range(total)]


@pytest.mark.parametrize(
    ("done", "total", "state", "description"),
    [
        (0, 3, CommitState.PUBLISHED, "published for 3 hosts"),
        (1, 3, CommitState.ROLLING_OUT, "rolling out 30 %"),
        (4, 10, CommitState.ROLLING_OUT, "rolling out 40 %"),
        (99, 100, CommitState.ROLLING_OUT, "rolling out 90 %"),
        (1, 100, CommitState.ROLLING_OUT, "rolling out 0 %"),
        (3, 3, CommitState.CONVERGED, "converged: 3 hosts"),
        (1, 1, CommitState.CONVERGED, "converged: 1 host"),
    ],
)
def test_the_status_of_a_commit_is_the_share_of_hosts_that_have_it(done, total, state, description):
    assert statuses(*hosts(done, total)) == [(NEW, state, description)]


def test_a_failure_names_the_host_and_its_error():
    failed = [make_host(1, OLD, error="no space"), make_host(2, OLD, error="no space")]
    assert statuses(*failed, version=None) == [(NEW, CommitState.FAILED, "failed on app1 and 1 more: no space")]


def test_a_host_that_the_fleet_does_not_wait_for_is_no_failure():
    leasable = make_host(9, OLD, error="no space", idle_role="spare")
    assert statuses(*hosts(2, 2), leasable) == [(NEW, CommitState.CONVERGED, "converged: 2 hosts")]


def test_a_stop_by_an_operator_is_a_failure_without_a_host():
    assert statuses(*hosts(1, 2), version=None) == [(NEW, CommitState.FAILED, "stopped with 1 of 2 hosts")]


def test_a_stopped_group_is_a_failure_although_all_hosts_have_the_revision():
    stop = GroupStop("p1/store/v1/shop", 7, Stop("h1", "app1", NEW, "deploy /shop 0", "exit 1", 5.0))
    description = f"failed: {stop}"
    assert statuses(*hosts(2, 2), group_stops=(stop,), since=7) == [(NEW, CommitState.FAILED, description)]
    (later,) = statuses(*hosts(2, 2), group_stops=(stop,), since=8)
    assert later[1] is CommitState.CONVERGED


def test_the_status_of_a_version_that_was_set_by_hand_names_no_publication():
    fleet = FleetSnapshot(Cluster(OLD), NEW, hosts=(make_host(1, OLD),))
    (found,) = commit_statuses(FleetReading(fleet, sequence=7))
    assert (found.commit, found.state, found.sequence) == (OLD, CommitState.CONVERGED, 0)


def test_a_refused_tip_has_a_status_beside_the_wanted_commit():
    found = statuses(*hosts(2, 2), refusal=Refusal(TIP, ("main.zk:1:1: wrong", "more")))
    assert found[1:] == [(TIP, CommitState.REFUSED, "refused: main.zk:1:1: wrong")]


def test_revisions_of_subversion_have_no_status():
    fleet = FleetSnapshot(Cluster(7), 7, hosts=(make_host(1, 7),))
    assert commit_statuses(FleetReading(fleet)) == ()


def changed(*known: CommitStatus, present: Sequence[CommitStatus]) -> list[tuple[str, str]]:
    found = changed_statuses(present, {status.commit: status for status in known})
    return [(status.commit, status.description) for status in found]


@pytest.mark.parametrize(
    ("former", "state", "sequence", "is_sent"),
    [
        (CommitState.PUBLISHED, CommitState.PUBLISHED, 7, False),
        (CommitState.PUBLISHED, CommitState.ROLLING_OUT, 7, True),
        (CommitState.ROLLING_OUT, CommitState.PUBLISHED, 7, False),
        (CommitState.ROLLING_OUT, CommitState.CONVERGED, 7, True),
        (CommitState.ROLLING_OUT, CommitState.FAILED, 7, True),
        (CommitState.CONVERGED, CommitState.CONVERGED, 7, False),
        (CommitState.CONVERGED, CommitState.ROLLING_OUT, 7, False),
        (CommitState.CONVERGED, CommitState.FAILED, 7, True),
        (CommitState.CONVERGED, CommitState.CONVERGED, 8, True),
        (CommitState.FAILED, CommitState.ROLLING_OUT, 7, True),
        (CommitState.FAILED, CommitState.FAILED, 7, False),
        (CommitState.FAILED, CommitState.FAILED, 8, True),
        (CommitState.REFUSED, CommitState.REFUSED, 7, True),
    ],
)
def test_hosts_that_join_or_leave_cost_no_status(former, state, sequence, is_sent):
    known, status = CommitStatus(NEW, former, "before", 7), CommitStatus(NEW, state, "after", sequence)
    assert changed(known, present=[status]) == ([(NEW, "after")] if is_sent else [])


def test_hosts_that_come_and_go_cost_no_status_while_the_fleet_rolls_out_or_is_stopped():
    readings = [(NEW, 3), (NEW, 4), (NEW, 3), (NEW, 0), (NEW, 4), (NEW, 5), (None, 5), (None, 4), (NEW, 5)]
    known: dict[str, CommitStatus] = {}
    sent = []
    for version, done in readings:
        fleet = FleetSnapshot(Cluster(version), NEW, hosts=hosts(done, 10))
        for status in changed_statuses(commit_statuses(FleetReading(fleet, sequence=7)), known):
            known[status.commit] = status
            sent.append(status.description)
    shares = [f"rolling out {share} %" for share in (30, 40, 50)]
    assert sent == [*shares, "stopped with 5 of 10 hosts", "rolling out 50 %"]


def test_the_failure_of_a_host_is_news_after_a_stop_and_not_the_other_way_round():
    stopped = FleetSnapshot(Cluster(None), NEW, hosts=hosts(5, 10))
    failed = replace(stopped, hosts=[*hosts(5, 9), make_host(9, OLD, error="no space")])
    ((stop,), (failure,)) = (commit_statuses(FleetReading(fleet, sequence=7)) for fleet in (stopped, failed))
    assert (failure.is_news_after(stop), stop.is_news_after(failure)) == (True, False)


@pytest.mark.parametrize(
    ("state", "is_replaced"),
    [(state, state in {CommitState.PUBLISHED, CommitState.ROLLING_OUT}) for state in CommitState],
)
def test_a_commit_that_is_replaced_while_it_rolls_out_has_an_end(state, is_replaced):
    known, wanted = CommitStatus(OLD, state, "before", 7), CommitStatus(NEW, CommitState.PUBLISHED, "new", 8)
    replaced = [(OLD, f"replaced by {NEW[:12]}")] if is_replaced else []
    assert changed(known, present=[wanted]) == [*replaced, (NEW, "new")]
    refused = CommitStatus(TIP, CommitState.REFUSED, "refused: wrong")
    assert changed(known, present=[refused]) == [(TIP, "refused: wrong")]


STATUS = CommitStatus(NEW, CommitState.ROLLING_OUT, "rolling out 40 %", 7)

SITE = {"token": "secret", "site": "https://deploy.example", "fleet": "eu-1"}

REPOSITORIES = {
    Forge.GITHUB: "https://api.github.com/repos/example/tree",
    Forge.GITLAB: "https://gitlab.example.com/api/v4/projects/42",
    Forge.GITEA: "https://git.example.com/api/v1/repos/ops/tree",
}


@pytest.mark.parametrize(
    ("forge", "body", "header"),
    [
        (Forge.GITHUB, {"state": "pending", "context": "zkdeployment/eu-1"}, ("Authorization", "Bearer secret")),
        (Forge.GITLAB, {"state": "running", "name": "zkdeployment/eu-1"}, ("PRIVATE-TOKEN", "secret")),
        (Forge.GITEA, {"state": "pending", "context": "zkdeployment/eu-1"}, ("Authorization", "token secret")),
    ],
)
def test_requests_have_the_form_of_the_forge(forge, body, header):
    repository = ForgeRepository(forge, REPOSITORIES[forge])
    url, sent, headers = status_request(repository, STATUS, **SITE)
    assert url == f"{REPOSITORIES[forge]}/statuses/{NEW}"
    expected = {"description": "rolling out 40 %", "target_url": "https://deploy.example/history/7"}
    assert json.loads(sent) == body | expected
    assert headers[header[0]] == header[1]


@pytest.mark.parametrize("state", list(CommitState))
@pytest.mark.parametrize("forge", list(Forge))
def test_each_state_is_one_that_the_forge_documents(forge, state):
    documented = {
        Forge.GITHUB: {"error", "failure", "pending", "success"},
        Forge.GITLAB: {"pending", "running", "success", "failed", "canceled", "skipped"},
        Forge.GITEA: {"pending", "success", "error", "failure", "warning", "skipped"},
    }
    repository = ForgeRepository(forge, REPOSITORIES[forge])
    _, sent, _ = status_request(repository, CommitStatus(NEW, state, "x"), **SITE)
    assert json.loads(sent)["state"] in documented[forge]


def test_the_statuses_of_two_fleets_for_one_commit_stand_beside_each_other():
    repository = ForgeRepository(Forge.GITHUB, REPOSITORIES[Forge.GITHUB])
    contexts = {
        json.loads(status_request(repository, STATUS, **{**SITE, "fleet": fleet})[1])["context"]
        for fleet in ("eu-1", "us-1")
    }
    assert contexts == {"zkdeployment/eu-1", "zkdeployment/us-1"}


def test_long_descriptions_are_cut_to_the_length_that_the_forge_accepts():
    long = CommitStatus(NEW, CommitState.FAILED, "failed\n" * 100)
    for forge, most in ((Forge.GITHUB, 140), (Forge.GITLAB, 255), (Forge.GITEA, 255)):
        _, sent, _ = status_request(ForgeRepository(forge, "https://x"), long, **SITE)
        description = json.loads(sent)["description"]
        assert len(description) == most
        assert description.endswith("…")
        assert "\n" not in description


def test_gitlab_refuses_a_state_that_the_commit_has_already():
    answer = b'{"message": "Cannot transition status via :run from :running"}'
    assert is_set_already(ForgeRepository(Forge.GITLAB, "https://x"), 400, answer)
    assert not is_set_already(ForgeRepository(Forge.GITLAB, "https://x"), 400, b'{"message": "bad"}')
    assert not is_set_already(ForgeRepository(Forge.GITHUB, "https://x"), 400, answer)
