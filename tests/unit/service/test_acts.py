"""The forms of acts show the effects of an act, and why it is not possible now."""

from dataclasses import replace

import pytest

from support.strategies import advanced_rollout, begun_rollout, ended_rollout
from zkdeployment.base.act import Act
from zkdeployment.base.cluster import Cluster, Retry
from zkdeployment.base.deployment import DeploymentFailure, HostResult
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.lock import Contender, Lock, LockedWork, LockKind
from zkdeployment.base.stop import Stop
from zkdeployment.fleet.views.locks import plan_release
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import fleet_status
from zkdeployment.publishing.records import Origin, PublicationRecord, Refusal
from zkdeployment.rollouts.acts import AbortRollout, PauseRollout, PromoteGroup, rollout_acts
from zkdeployment.service.acts import (
    ACTS,
    PublishFleet,
    ReleaseLock,
    ResumeFleet,
    RetryHost,
    act_link,
    fleet_acts,
    fleet_situation,
    retry_link,
)
from zkdeployment.service.pages.live_page import rollback_link
from zkdeployment.service.users.user import Role, User
from zkdeployment.strategies.state import Directive, Ending, RolloutAct
from zkdeployment.strategies.views import directive_situation

NOW = 10_000.0
ANN = User(id=1, name="ann", role=Role.OPERATOR, created_at=0.0)
HOSTS = (
    Host(Identity("h1", "h1"), "r1", deploying="r2"),
    Host(Identity("h2", "h2"), None, error="boom"),
    Host(Identity("h3", "h3"), "r2"),
)
STOP = Stop("h2", "h2", "r2", "deploy /shop/web 0", "boom", 9_990.0)


def snapshot(version, *, stops=()):
    cluster = version if version is None else Cluster(*version)
    return FleetSnapshot(cluster, published="r2", hosts=HOSTS, stops=stops)


def form(name, version, *, stops=()):
    found = snapshot(version, stops=stops)
    (act,) = (each for each in ACTS if name == each.NAME)
    return act().form((found, fleet_status(found)))


@pytest.mark.parametrize(
    ("version", "labels"),
    [
        (None, []),
        (("r2",), ["Hold", "Stop"]),
        (("r1", "r2"), ["Stop"]),
        ((None,), ["Resume"]),
        ((False,), ["Resume", "Stop"]),
    ],
)
def test_the_fleet_page_offers_the_acts_that_the_state_permits(version, labels):
    assert [link.label for link in fleet_acts(snapshot(version), "/?state=failed", ANN)] == labels


def test_another_retry_names_the_one_that_it_ends():
    found = FleetSnapshot(Cluster(None, retry=Retry("h1", "r2")), published="r2", hosts=HOSTS)
    ends = "The retry of h1 ends."
    assert ends in RetryHost(host="h2").consequences((found, HOSTS[1]))
    assert ends not in RetryHost(host="h1").consequences((found, HOSTS[0]))


@pytest.mark.parametrize(
    ("retry", "labels"),
    [
        (Retry("h1", "r2"), ["Resume", "Stop"]),
        (Retry("h9", "r2"), ["Resume", "Stop"]),
        (Retry("h3", "r2", succeeded=True), ["Resume"]),
    ],
)
def test_a_stop_is_offered_while_one_host_of_a_stopped_fleet_tries_again(retry, labels):
    found = FleetSnapshot(Cluster(None, retry=retry), published="r2", hosts=HOSTS)
    assert [link.label for link in fleet_acts(found, "/", ANN)] == labels


@pytest.mark.parametrize(("version", "labels"), [(("r2",), ["Stop"]), ((None,), []), ((False,), ["Stop"])])
def test_an_operator_with_paths_is_offered_only_the_stop_of_the_fleet(version, labels):
    bob = replace(ANN, paths=("/shop",))

    assert [link.label for link in fleet_acts(snapshot(version), "/", bob)] == labels


def test_a_viewer_is_offered_no_act():
    assert fleet_acts(snapshot(("r2",)), "/", replace(ANN, role=Role.VIEWER)) == ()


def test_an_act_leads_back_to_the_view_from_which_it_was_opened():
    hold, _ = fleet_acts(snapshot(("r2",)), "/?state=failed&page=2", ANN)

    assert hold.href == "/acts/hold?back=%2F%3Fstate%3Dfailed%26page%3D2"


def test_a_stop_shows_how_many_hosts_deploy():
    found = form("stop", ("r2",))

    assert found.consequences[0].startswith("1 host is deploying now. They finish")
    assert (found.kind, found.reason_required, found.objection) == ("danger", False, "")


def test_a_resumption_lists_the_hosts_that_retry_and_offers_the_tip_of_the_branch():
    found = form("resume", (None,), stops=(STOP,))

    assert found.consequences == (
        "Hosts continue with revision r2: 2 hosts will deploy it.",
        "1 failed host tries again.",
        "1 recorded stop is removed.",
    )
    assert [option.name for option in found.options] == ["latest"]
    assert not found.reason_required


def test_without_a_complete_publication_a_resumption_publishes_first_and_no_host_is_retried():
    found = replace(snapshot((None,), stops=(STOP,)), published=None)
    status = fleet_status(found)
    first = "No revision is completely published: publish the tip of the branch first."
    assert ResumeFleet().consequences((found, status))[0] == first
    assert RetryHost(host="h2").objection((found, HOSTS[1])).startswith("No revision is wholly published")
    assert retry_link(found, status, "/", ANN) == ()
    assert retry_link(replace(found, published="r2"), status, "/", ANN) != ()


@pytest.mark.parametrize(("version", "ended"), [((None,), "stop"), ((False,), "hold")])
def test_a_publication_that_ends_a_stop_or_a_hold_says_so_first(version, ended):
    found = form("publish", version, stops=(Stop.of_operator(Act("bob", ended, "a test", 9_990.0)),))

    assert found.objection == ""
    assert found.consequences[:2] == (
        f"The {ended} of the fleet ends, and hosts deploy the new revision.",
        "1 recorded stop is removed.",
    )


def test_a_commit_that_was_published_meanwhile_is_not_published_again():
    found = snapshot(("r2",))
    facts = found, fleet_status(found)

    waiting = PublishFleet(commit="r3").form(facts)
    assert (waiting.objection, waiting.fields) == ("", (("commit", "r3"),))
    assert PublishFleet(commit="r2").form(facts).objection.startswith("r2 is published already")


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("stop", None),
        ("hold", None),
        ("hold", (None,)),
        ("hold", ("r1", "r2")),
        ("resume", ("r2",)),
        ("resume", None),
        ("publish", None),
    ],
)
def test_an_impossible_act_has_a_reason(name, version):
    assert form(name, version).objection


def test_guards_are_overridden_only_with_a_publication():
    ResumeFleet(latest=True, allow_rewind=True).check()
    with pytest.raises(ValueError, match="expected latest with allow_rewind"):
        ResumeFleet(allow_rewind=True).check()


def test_a_rollout_offers_the_directives_that_it_accepts():
    paused = replace(begun_rollout(), paused=Act("ann", "rollout pause", "looking", 9_000.0))

    assert [link.label for link in rollout_acts(begun_rollout(), "/rollout")] == [
        "Pause the rollout",
        "Abort the rollout",
    ]
    assert [link.label for link in rollout_acts(paused, "/rollout")] == ["Resume the rollout", "Abort the rollout"]
    assert rollout_acts(ended_rollout(begun_rollout(), Ending.SUPERSEDED), "/rollout") == ()


def test_forms_of_rollouts_carry_their_group_and_objections():
    promoted = PromoteGroup(group="ntp-node").form(begun_rollout())

    assert promoted.fields == (("group", "ntp-node"),)
    assert "ntp-node" in promoted.objection
    assert AbortRollout().form(begun_rollout()).objection == ""
    assert PauseRollout().form(None).objection == "There is no rollout at present."


def test_the_release_of_a_lock_names_the_loser_the_successor_and_the_risk():
    contenders = tuple(Contender(f"h{n} (h{n})", 9_000.0, f"/n/{n}", f"h{n}") for n in (1, 2))
    work = LockedWork("h1", "h1", "deploy /shop/web 0", 9_500.0)
    lock = Lock(LockKind.SERVICE, "/shop/web", "/agent-locks/shop,web", contenders, work, "/busy")

    release = ReleaseLock(name="/shop/web")
    found = release.form(plan_release(lock, FleetSnapshot(hosts=HOSTS), now=NOW))

    assert found.consequences[0].startswith("h1 (h1) loses the lock")
    assert found.consequences[1] == "h2 (h2) acquires the lock next."
    assert "8 min" in found.options[0].explanation
    assert release.form(plan_release(replace(lock, work=None), FleetSnapshot(hosts=HOSTS), now=NOW)).options == ()


def publication(revision, sequence, *, failed=0, subject="", results=3):
    outcomes = [HostResult(f"h{n}", f"h{n}", 100.0, 10.0, "boom" if n < failed else None) for n in range(results)]
    origin = Origin("Jane <jane@example.com>", subject, 50.0)
    found = {outcome.host_id: outcome for outcome in outcomes}
    return PublicationRecord(revision * 40, 60.0, sequence, origin=origin, hosts=results, results=found)


def no_attempts(_sequence):
    return ()


def test_a_failure_suggests_the_rollback_to_the_last_revision_that_succeeded():
    failing, before = publication("c", 3, failed=1, subject="Web 1.3"), publication("b", 2, failed=2)
    good = publication("a", 1, subject="Web 1.2: the cart shows prices with tax")
    stopped = snapshot((None,), stops=(STOP,))
    status = fleet_status(stopped)
    (link,) = rollback_link((failing, before, good), no_attempts, stopped, status, "/")

    assert link.label == "Roll back to “Web 1.2: the cart shows prices…”"
    assert link.href == "/acts/rollback?sequence=1&now=yes&back=%2F"
    assert rollback_link((failing, before), no_attempts, stopped, status, "/") == ()
    whole = replace(status, hosts=tuple(host for host in status.hosts if host.error is None))
    assert rollback_link((failing, good), no_attempts, stopped, whole, "/") == ()
    rolled = publication("b", 2, subject=f"Roll back to {'a' * 12}: it burns")
    (again,) = rollback_link((failing, rolled, good), no_attempts, stopped, status, "/")
    assert (again.label, "sequence=2" in again.href) == (link.label, True)


def test_the_suggested_rollback_judges_by_rollouts_and_undoes_only_a_refused_push():
    failing, tolerated, good = publication("c", 3, failed=1), publication("b", 2, failed=1), publication("a", 1)
    attempts = {2: (ended_rollout(advanced_rollout(begun_rollout())),)}
    stopped = snapshot((None,), stops=(STOP,))

    def sequence(records, found):
        (link,) = rollback_link(records, lambda of: attempts.get(of, ()), found, fleet_status(found), "/")
        return link.href.partition("?")[2].partition("&")[0]

    assert sequence((failing, tolerated, good), stopped) == "sequence=2"
    assert sequence((tolerated, good), stopped) == "sequence=1"
    assert sequence((tolerated, good), replace(stopped, refusal=Refusal("d" * 40, ("wrong",)))) == "sequence=2"


def test_a_host_that_refuses_an_earlier_publication_suggests_no_rollback():
    records = publication("c", 3), publication("a", 1)
    refusing = Host(Identity("h1", "h1"), "r8", error="the store went back: ...")
    running = FleetSnapshot(Cluster("r5"), published="r5", hosts=(refusing,))
    assert rollback_link(records, no_attempts, running, fleet_status(running), "/") == ()
    failed = replace(running, hosts=(replace(refusing, failed=DeploymentFailure(3, "deploy /shop/web 0")),))
    assert rollback_link(records, no_attempts, failed, fleet_status(failed), "/") != ()


def test_an_aborted_rollout_suggests_the_rollback_and_its_resumption_states_the_abort():
    abort = Act("ann@ops", "rollout abort", "web 1.3 loses sessions", 80.0)
    acts = (RolloutAct(Directive.ABORT, abort, None, 0),)
    state = replace(ended_rollout(begun_rollout(), Ending.ABORTED), acts=acts)
    stopped = replace(snapshot((None,), stops=(STOP,)), rollout=state)
    status = fleet_status(stopped)
    whole = replace(status, hosts=tuple(host for host in status.hosts if host.error is None))
    good = publication("a", 1, subject="Web 1.2")
    (link,) = rollback_link((publication("c", 3), good), no_attempts, stopped, whole, "/")
    assert link.label == "Roll back to “Web 1.2”"
    assert ResumeFleet().consequences((stopped, whole))[0] == (
        f"The rollout 7-1 of r2 was aborted ({abort}); it begins again at the first group."
    )


def test_links_to_forms_exist_for_acts_that_the_user_may_perform():
    link = act_link("release", "/hosts/h1", ANN, lock="/shop/web")
    assert link is not None
    assert (link.label, link.href) == ("Release the lock", "/acts/release?lock=%2Fshop%2Fweb&back=%2Fhosts%2Fh1")
    assert act_link("no-such-act", "/", ANN) is None
    assert act_link("resume", "/", replace(ANN, role=Role.VIEWER)) is None


def test_the_situation_of_a_fleet_is_its_state_its_revision_and_its_stops():
    assert fleet_situation(snapshot(None)) == "nothing is published"
    assert fleet_situation(snapshot(("r2",))) == "the fleet is running at r2"
    failure = "h2 (h2) failed at deploy /shop/web 0 of r2: boom"
    assert fleet_situation(snapshot((None,), stops=(STOP,))) == f"the fleet is stopped at r2 ({failure})"
    many = fleet_situation(snapshot((None,), stops=(STOP,) * 5))
    assert many == f"the fleet is stopped at r2 ({failure}; {failure}; {failure}) and 2 more stops"


def test_the_situation_of_a_rollout_is_its_state_and_that_of_the_group():
    state = begun_rollout()
    group = state.rollout.strategy.groups[-1].name
    situation = directive_situation(state, Directive.PROMOTE, group)
    assert situation.startswith(f"the rollout {state.id} of ")
    assert situation.endswith(f" is under way, and its group {group} is waiting")
    paused = replace(state, paused=Act("bob", "rollout pause", "latency", 1.0))
    assert " is paused (rollout pause by bob" in directive_situation(paused, Directive.RESUME)
    assert directive_situation(state, Directive.ABORT, "unknown") == directive_situation(state, Directive.ABORT)


def test_a_pause_is_safe_in_every_situation():
    assert directive_situation(begun_rollout(), Directive.PAUSE) == ""
    assert directive_situation(None, Directive.RESUME) == ""
