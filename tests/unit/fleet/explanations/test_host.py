from dataclasses import replace

import pytest

from support.builders import make_contender, make_host, make_known_host
from support.builders import make_role_lock as role
from support.builders import make_service_lock as service
from zkdeployment.base.act import Act
from zkdeployment.base.cluster import Cluster, Retry
from zkdeployment.base.host import Identity, Leased
from zkdeployment.base.lock import Contender, Lock, LockedWork, LockKind
from zkdeployment.base.stop import FailureOutput, Stop
from zkdeployment.fleet.explanations.explanation import Cause
from zkdeployment.fleet.explanations.host import HostSnapshot, explain_host
from zkdeployment.fleet.views.snapshot import FleetSnapshot

NOW = 10_000.0
MINE = "app1 (h1)"
FAILURE = Stop("h2", "app2", "r2", "deploy /web 0", "exit status 1", NOW - 300)
OPERATOR = Stop.of_operator(Act("ann@adm1", "stop", "it smells", NOW - 60))
HOLD = Stop.of_operator(Act("ann@adm1", "hold", "rack 7", NOW - 60))


def host(number=1, **fields):
    fields.setdefault("version", "r1")
    return make_host(number, **fields)


def contender(number, seconds):
    return make_contender(number, NOW - seconds)


def explain(cluster, *hosts, locks=(), name="h1", published="r2", **more):
    snapshot = FleetSnapshot(cluster=cluster, published=published, changed=NOW - 120, hosts=hosts, **more)
    return explain_host(HostSnapshot(snapshot, locks), name, now=NOW)


RUNNING = Cluster("r2")
KEPT = LockedWork("h2", "app2", "deploy /web 0", NOW - 200, kept=True)
DEPLOYING = host(deploying="r2", step="wait for the lock of /web", steps=(2, 7), since=NOW - 30)


@pytest.mark.parametrize(
    ("explanation", "cause", "sentence"),
    [
        (
            explain(RUNNING, host(version="r2")),
            Cause.CONVERGED,
            f"{MINE} is at the cluster version r2: nothing to explain.",
        ),
        (
            explain(RUNNING, host(version="r2"), name="app1"),
            Cause.CONVERGED,
            f"{MINE} is at the cluster version r2: nothing to explain.",
        ),
        (
            explain(None, host()),
            Cause.UNPUBLISHED,
            "Nothing was published yet, or ZooKeeper was wiped: there is no /hosts.",
        ),
        (explain(RUNNING, host(error="no foo 1.4")), Cause.FAILED, f"{MINE} failed: no foo 1.4"),
        (explain(Cluster(None), host(error="no foo 1.4")), Cause.FAILED, f"{MINE} failed: no foo 1.4"),
        (
            explain(Cluster(None), host()),
            Cause.STOPPED,
            "The fleet is stopped: the cluster version was set to null by hand 2 min ago.",
        ),
        (
            explain(Cluster(None), host(), stops=(FAILURE, OPERATOR)),
            Cause.STOPPED,
            "The fleet is stopped: app2 (h2) failed at deploy /web 0 of r2: exit status 1 (5 min ago).",
        ),
        (
            explain(Cluster(None), host(), stops=(OPERATOR,)),
            Cause.STOPPED,
            "The fleet was stopped by ann@adm1: it smells (1 min ago).",
        ),
        (
            explain(Cluster(False), host(), stops=(HOLD, FAILURE)),
            Cause.HELD,
            "The fleet was held by ann@adm1: rack 7 (1 min ago).",
        ),
        (
            explain(Cluster(False), host()),
            Cause.HELD,
            "The fleet is held: the cluster version was set to false by hand 2 min ago.",
        ),
        (
            explain(Cluster("r1", importing="r2"), host()),
            Cause.IMPORTING,
            "The publication of r2 was interrupted; hosts start when a syncer has completed it.",
        ),
        (
            explain(RUNNING, DEPLOYING, locks=[service(contender(2, 180), contender(1, 40))]),
            Cause.LOCK,
            f"{MINE} waits for the lock of /web, which app2 (h2) has held for 3 min.",
        ),
        (
            explain(RUNNING, DEPLOYING, locks=[role(contender(2, 7200), contender(1, 40))]),
            Cause.LOCK,
            f"{MINE} waits for the lock of role db, which app2 (h2) has held for 2 h.",
        ),
        (
            explain(
                RUNNING,
                DEPLOYING,
                locks=[service(contender(1, 40), work=LockedWork("h2", "app2", "deploy /web 0", NOW - 50))],
            ),
            Cause.LOCK,
            f"{MINE} waits because app2 (h2) lost the lock of /web in the middle of a script.",
        ),
        (
            explain(RUNNING, DEPLOYING, locks=[service(contender(1, 40), work=KEPT)]),
            Cause.LOCK,
            f"{MINE} waits for the lock of /web, which app2 (h2) has held for 3 min.",
        ),
        (
            explain(
                RUNNING,
                host(deploying="r2", step="deploy /web 0", steps=(2, 7), since=NOW - 30),
                locks=[service(contender(1, 40), work=LockedWork("h1", "app1", "deploy /web 0", NOW - 50))],
            ),
            Cause.WORKING,
            f"{MINE} is deploying r2: 2 of 7 steps done, now at: deploy /web 0 (last change 30 s ago).",
        ),
        (
            explain(RUNNING, host(deploying="r2")),
            Cause.WORKING,
            f"{MINE} is deploying r2: just begun.",
        ),
        (
            explain(RUNNING, host()),
            Cause.IDLE,
            f"{MINE} is registered, but has not begun with r2 in 2 min.",
        ),
        (
            explain(RUNNING, host(registered=NOW - 1)),
            Cause.IDLE,
            f"{MINE} is about to begin with r2.",
        ),
        (
            explain(RUNNING, name="h9"),
            Cause.UNKNOWN,
            "There is no host h9: no registered host and no target in the tree has this id or name.",
        ),
        (
            explain(RUNNING, name="h9", targets=frozenset({"h9"})),
            Cause.ABSENT,
            "h9 is not registered: its agent does not run, or cannot reach ZooKeeper.",
        ),
        (
            explain(RUNNING, name="app9", absent=(make_known_host(9, time=NOW - 3600),)),
            Cause.ABSENT,
            "app9 (h9) is not registered: its agent does not run, or cannot reach ZooKeeper.",
        ),
    ],
)
def test_the_first_line_names_the_cause(explanation, cause, sentence):
    assert (explanation.cause, explanation.sentence) == (cause, sentence)


@pytest.mark.parametrize(
    ("file", "place"),
    [("/var/log/zkdeployment/web.log", "in /var/log/zkdeployment/web.log"), ("", "under /var/log/zkdeployment")],
)
@pytest.mark.parametrize("fields", [{}, {"idle_role": "idle"}])
def test_the_advice_on_a_failure_names_the_file_of_the_output(file, place, fields):
    fleet = FleetSnapshot(RUNNING, "r2", hosts=(host(error="exit status 1", **fields),))
    output = FailureOutput("h1", "r2", "deploy /web 0", NOW - 5, "boom", file)
    explanation = explain_host(HostSnapshot(fleet, output=output), "h1", now=NOW)
    assert explanation.advice[0] == f"on the host: the output is {place}"


def test_a_host_may_begin_some_seconds_after_the_publication():
    explanation = explain_host(
        HostSnapshot(FleetSnapshot(RUNNING, "r2", NOW - 3, hosts=(host(version=None),))), "h1", now=NOW
    )
    assert explanation.sentence == f"{MINE} is about to begin with r2."
    assert explanation.facts == ("the host has no version yet",)


def test_a_host_in_an_unfinished_deployment_is_explained_by_its_former_version():
    half = host(version=None, former="r2")
    explanation = explain_host(HostSnapshot(FleetSnapshot(RUNNING, "r2", NOW - 3, hosts=(half,))), "h1", now=NOW)
    assert explanation.cause is not Cause.CONVERGED
    assert explanation.facts == ("the host has no version: an unfinished deployment changed parts of r2",)


def test_a_wait_names_the_place_in_the_queue_and_the_step_of_the_holder():
    lock = service(
        contender(2, 180),
        contender(3, 90),
        contender(1, 40),
        work=LockedWork("h2", "app2", "deploy /web 0", NOW - 170),
    )
    explanation = explain(RUNNING, DEPLOYING, locks=[lock])
    assert explanation.facts == (
        "the host is number 2 of 2 in the queue and has waited for 40 s",
        "the holder is at deploy /web 0",
    )
    assert explanation.advice == ("'zkdeployment why h2' shows what the holder is doing",)


def test_the_holder_of_a_lock_does_not_wait_for_the_lock():
    assert explain(RUNNING, DEPLOYING, locks=[service(contender(1, 40), contender(2, 30))]).cause is Cause.WORKING


@pytest.mark.parametrize(
    ("others", "fact"), [((), "the holder is not registered"), ((host(2, error="x"),), "the holder failed")]
)
def test_the_lock_of_an_absent_or_failed_host_comes_with_the_command_that_releases_it(others, fact):
    explanation = explain(RUNNING, DEPLOYING, *others, locks=[role(contender(2, 7200), contender(1, 40))])
    assert fact in explanation.facts
    assert "zkdeployment locks release db --reason TEXT" in explanation.advice[-1]


def test_the_holder_of_a_role_lock_is_shown_with_its_step():
    holder = host(2, deploying="r2", step="change packages")
    explanation = explain(RUNNING, DEPLOYING, holder, locks=[role(contender(2, 60), contender(1, 40))])
    assert explanation.facts[-1] == "the holder is at: change packages"


def test_a_stop_names_all_failures_and_the_host_to_inspect():
    explanation = explain(Cluster(None), host(version="r2"), stops=(OPERATOR, FAILURE))
    assert explanation.facts == (
        "stopped by ann@adm1: it smells (1 min ago)",
        "the host has the last published revision, r2",
        "running services continue",
    )
    assert explanation.advice[0] == "the cause is on that host: 'zkdeployment why h2' explains it"


@pytest.mark.parametrize(
    ("retried", "succeeded", "fact"),
    [
        (
            host(2, version=None, former="r1", step="deploy /web 0"),
            False,
            "only app2 tries again, as an operator ordered",
        ),
        (host(2, version="r2"), True, "app2 is repaired; 'zkdeployment resume' continues"),
    ],
)
def test_a_host_that_tries_again_needs_no_other_retry_and_is_not_its_own_cause(retried, succeeded, fact):
    cluster = Cluster(None, retry=Retry("h2", "r2", succeeded=succeeded))
    explanation = explain(cluster, retried, stops=(FAILURE,), name="h2")
    assert explanation.facts[0] == fact
    assert [advice.target for advice in explanation.advice] == ["resume"]


@pytest.mark.parametrize(("version", "halt"), [(None, "stop"), (False, "hold")])
def test_a_halt_without_a_complete_publication_needs_a_new_one(version, halt):
    explanation = explain(Cluster(version), host(), published=None)
    assert explanation.advice[0].startswith(f"'zkdeployment resume --latest' ends the {halt}; no revision is")


@pytest.mark.parametrize("version", [None, False])
def test_a_failed_host_without_a_complete_publication_needs_a_new_one(version):
    failed = host(error="exit status 1")
    explanation = explain(Cluster(version), failed, published=None, stops=(replace(FAILURE, host_id="h1"),))
    (resume,) = (advice for advice in explanation.advice if "resume" in advice)
    assert resume == explain(Cluster(version), host(), published=None).advice[0]
    assert not any("retry" in advice for advice in explanation.advice)


def test_a_host_that_refuses_an_earlier_publication_waits_for_the_next_one_while_the_fleet_runs():
    explanation = explain(Cluster("r5"), host(version="r8", error="the store went back: ..."), published="r5")
    assert explanation.sentence == f"{MINE} failed: the store went back: ..."
    assert explanation.advice == (
        "on the host: the output is under /var/log/zkdeployment",
        "the host tries again with the next publication, or when its agent starts",
    )


def test_a_failed_host_is_explained_by_the_failed_step():
    own = Stop("h1", "app1", "r2", "deploy /web 0", "exit status 1", NOW - 300)
    explanation = explain(Cluster(None), host(error="exit status 1"), stops=(own, OPERATOR))
    assert explanation.facts == (
        "the host failed at deploy /web 0 of r2, 5 min ago",
        "the host has r1; the last published revision is r2",
        "stopped by ann@adm1: it smells (1 min ago)",
    )


def test_a_host_that_released_the_lock_of_its_role_early_is_out_of_service():
    explanation = explain(RUNNING, host(error="exit status 1"), out_of_service={"h1": "web"})
    assert explanation.cause is Cause.FAILED
    assert explanation.facts[-1] == (
        "the host is out of service: it released the lock of role web before it finished, and"
        " 'ending-deployments' runs only after the host's next successful deployment"
    )
    for other in (
        explain(RUNNING, host(version="r2"), out_of_service={"h1": "web"}),
        explain(RUNNING, host(error="boom"), out_of_service={"h2": "web"}),
    ):
        assert not any("out of service" in fact for fact in other.facts)


@pytest.mark.parametrize(("number", "hosts"), [(2, "app2, app3"), (40, "40 other hosts")])
def test_hosts_that_failed_in_the_same_way_are_one_fact(number, hosts):
    stops = [
        Stop(f"h{index}", f"app{index}", "r2", "deploy /web 0", "no foo", NOW - 300)
        for index in range(1, number + 2)
    ]
    explanation = explain(Cluster(None), host(error="no foo"), stops=stops)
    assert explanation.facts[-1] == f"{hosts} failed in the same way"


def test_a_publication_under_way_names_the_syncer():
    holder = Lock(
        LockKind.SYNCER, "/hosts-lock", "/hosts-lock", (Contender("syncer on s1", NOW - 5, "/hosts-lock/x"),)
    )
    explanation = explain(Cluster("r1", importing="r2"), host(), locks=[holder])
    assert explanation.sentence == "r2 is being published; hosts start when the publication is complete."
    assert explanation.facts == ("syncer on s1 has held the syncer's lock for 5 s",)


def test_an_absent_host_is_explained_by_the_traces_of_its_last_deployment():
    locks = [
        role(contender(9, 7200), contender(1, 40)),
        service(contender(1, 40), contender(9, 30), work=LockedWork("h9", "app9", "deploy /web 0", NOW - 50)),
    ]
    stop = Stop("h9", "app9", "r2", "deploy /web 0", "exit status 1", NOW - 300)
    explanation = explain(Cluster(None), name="h9", locks=locks, stops=(stop, OPERATOR))
    assert explanation.cause is Cause.ABSENT
    assert explanation.facts == (
        "app9 (h9) failed at deploy /web 0 of r2: exit status 1 (5 min ago)",
        "the host has held the lock of role db for 2 h; 1 other host waits for it",
        "the host was at deploy /web 0 50 s ago",
        "the host has waited for the lock of /web for 30 s; 1 other host waits for it",
    )
    assert explanation.to_json()["cause"] == "absent"


@pytest.mark.parametrize("targets", [frozenset(), frozenset({"web"})])
def test_the_name_of_a_role_is_answered_with_the_hosts_of_the_role(targets):
    absent = (make_known_host(2, role="web"),)
    explanation = explain(RUNNING, make_host(1, role="web"), absent=absent, name="web", targets=targets)
    assert explanation.cause is Cause.UNKNOWN
    assert explanation.sentence == "web is a role; name one of its hosts: app1, app2."
    assert explanation.advice == ("'zkdeployment status' lists all hosts by name and id",)


def test_only_a_host_with_records_is_to_be_forgotten():
    target = explain(RUNNING, name="h9", targets=frozenset({"h9"}))
    assert not any("forget" in advice for advice in target.advice)
    queued = explain(RUNNING, name="h9", locks=[service(contender(1, 40), contender(9, 30))])
    known = explain(RUNNING, name="h9", absent=(make_known_host(9),))
    for explanation in (queued, known):
        assert any("'zkdeployment forget h9'" in advice for advice in explanation.advice)


def leasable(**fields):
    return make_host(1, role="ci-web", idle_role="spare", **{"version": "r2", **fields})


def test_the_lease_of_a_host_is_among_the_facts():
    explained = explain(Cluster("r2"), leasable(leased=Leased("ci-web", 7)))
    assert (explained.cause, explained.facts) == (Cause.CONVERGED, ("leased to role ci-web (number 7)",))


def test_a_lease_that_waits_for_a_stopped_fleet_is_explained():
    step = "waits to take role ci-web (lease 7): the cluster is stopped"
    explained = explain(Cluster(None), leasable(step=step, leased=Leased("spare", 6)), stops=(OPERATOR,))
    assert explained.cause is Cause.STOPPED
    assert explained.facts[:2] == (f"the host {step}", "can be leased; has its idle role spare")


def test_a_failed_host_that_can_be_leased_stops_no_other_host():
    explained = explain(Cluster("r2"), leasable(error="no disk"))
    assert explained.sentence == f"{MINE} failed: no disk"
    assert "the host can be leased: its failure does not stop other hosts" in explained.facts
    assert "changes to role ci-web for its lease" in explained.facts


def test_a_host_that_can_be_leased_waits_for_the_end_of_the_rollout():
    waiting = leasable(
        version="r1", deploying="r2", step="waits to prepare: rollout 1-1 has not reached this host yet"
    )
    assert explain(Cluster("r2"), waiting).sentence == (
        f"{MINE} can be leased, so it is in no group: it follows when the rollout has ended."
    )


def test_a_wait_for_a_kept_lock_shows_whether_its_host_is_there_and_gives_advice():
    absent = explain(RUNNING, DEPLOYING, locks=[service(contender(1, 40), contender(3, 5), work=KEPT)])
    present = explain(RUNNING, DEPLOYING, host(2), locks=[service(contender(1, 40), work=KEPT)])
    assert absent.facts == (
        "the host is number 1 of 2 in the queue and has waited for 40 s",
        "the lock is kept for the holder, which has not completed deploy /web 0",
        "the holder is not registered: the lock stays kept until that host is back",
    )
    assert present.facts[1:] == absent.facts[1:2]
    assert absent.advice == (
        "'zkdeployment why h2' shows what the holder is doing",
        (
            "if the holder never comes back, or is in the way: make sure that its script does not run, then"
            " zkdeployment locks release /web --reason TEXT"
        ),
    )


def test_an_absent_host_is_found_by_its_id_before_another_one_by_its_name():
    absent = make_known_host(9, time=NOW - 3600)
    namesake = replace(make_known_host(8, time=NOW - 60), identity=Identity("h8", "h9"))
    assert explain(RUNNING, name="h9", absent=(namesake, absent)) == explain(RUNNING, name="h9", absent=(absent,))


def test_an_absent_host_for_which_a_lock_is_kept_is_explained_with_the_release():
    explanation = explain(RUNNING, host(), locks=[service(contender(1, 40), work=KEPT)], name="h2")
    assert explanation.cause is Cause.ABSENT
    assert "the host has held the lock of /web for 3 min; 1 other host waits for it" in explanation.facts
    assert explanation.advice[-1] == (
        "the lock of /web is kept for the host: if the host is gone for good, or its script does not run any more,"
        " zkdeployment locks release /web --reason TEXT"
    )
