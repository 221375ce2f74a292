import pytest

from zkdeployment.fleet.snapshot import Snapshot
from zkdeployment.fleet.why import Cause, why
from zkdeployment.model.act import Act
from zkdeployment.model.cluster import Cluster
from zkdeployment.model.host import Host, Identity
from zkdeployment.model.inventory import KnownHost
from zkdeployment.model.lock import Contender, Lock, LockKind
from zkdeployment.model.stop import Stop
from zkdeployment.model.work import LockedWork

NOW = 10_000.0
MINE = "app1 (h1)"
FAILURE = Stop("h2", "app2", "r2", "deploy /web 0", "exit status 1", NOW - 300)
OPERATOR = Stop.of_operator(Act("ann@adm1", "stop", "it smells", NOW - 60))
HOLD = Stop.of_operator(Act("ann@adm1", "hold", "rack 7", NOW - 60))


def host(number=1, **fields):
    fields.setdefault("version", "r1")
    return Host(Identity(f"h{number}", f"app{number}"), **fields)


def contender(number, seconds):
    return Contender(f"app{number} (h{number})", NOW - seconds, f"/n/{number}", f"h{number}")


def service(*contenders, work=None):
    return Lock(LockKind.SERVICE, "/web", "/agent-locks/web", contenders, work, "/zkdeployment/busy/web")


def role(*contenders):
    return Lock(LockKind.ROLE, "db", "/role-locks/db", contenders)


def explain(cluster, *hosts, locks=(), asked="h1", **more):
    snapshot = Snapshot(cluster=cluster, published="r2", changed=NOW - 120, hosts=hosts, **more)
    return why(snapshot, locks, asked, now=NOW)


RUNNING = Cluster("r2")
DEPLOYING = host(deploying="r2", step="wait for the lock of /web", steps=(2, 7), since=NOW - 30)


@pytest.mark.parametrize(
    ("answer", "cause", "sentence"),
    [
        (
            explain(RUNNING, host(version="r2")),
            Cause.CONVERGED,
            f"{MINE} is at the cluster version r2: nothing to explain.",
        ),
        (
            explain(RUNNING, host(version="r2"), asked="app1"),
            Cause.CONVERGED,
            f"{MINE} is at the cluster version r2: nothing to explain.",
        ),
        (explain(None, host()), Cause.UNPUBLISHED, "Nothing was published yet: there is no /hosts."),
        (explain(RUNNING, host(error="no foo 1.4")), Cause.FAILED, f"{MINE} failed: no foo 1.4"),
        (explain(Cluster(None), host(error="no foo 1.4")), Cause.FAILED, f"{MINE} failed: no foo 1.4"),
        (
            explain(Cluster(None), host()),
            Cause.STOPPED,
            "The fleet is stopped: somebody set the cluster version to null by hand 2 min ago.",
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
            "The fleet is held: somebody set the cluster version to false by hand 2 min ago.",
        ),
        (
            explain(Cluster("r1", importing="r2"), host()),
            Cause.IMPORTING,
            "The publication of r2 was interrupted; hosts start when a syncer has finished it.",
        ),
        (
            explain(RUNNING, DEPLOYING, locks=[service(contender(2, 180), contender(1, 40))]),
            Cause.LOCK,
            f"{MINE} waits for the lock of /web, which app2 (h2) has for 3 min.",
        ),
        (
            explain(RUNNING, DEPLOYING, locks=[role(contender(2, 7200), contender(1, 40))]),
            Cause.LOCK,
            f"{MINE} waits for the lock of role db, which app2 (h2) has for 2 h.",
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
            explain(
                RUNNING,
                host(deploying="r2", step="deploy /web 0", steps=(2, 7), since=NOW - 30),
                locks=[service(contender(1, 40), work=LockedWork("h1", "app1", "deploy /web 0", NOW - 50))],
            ),
            Cause.WORKING,
            f"{MINE} is on its way to r2: 2 of 7 steps done, now at: deploy /web 0 (last news 30 s ago).",
        ),
        (
            explain(RUNNING, host(deploying="r2")),
            Cause.WORKING,
            f"{MINE} is on its way to r2: just begun.",
        ),
        (
            explain(RUNNING, host()),
            Cause.IDLE,
            f"{MINE} is registered, but has not begun with r2, wanted for 2 min.",
        ),
        (
            explain(RUNNING, asked="h9"),
            Cause.UNKNOWN,
            "Nobody knows a host h9: none of that id or name is registered, or is named by the tree.",
        ),
        (
            explain(RUNNING, asked="h9", targets=frozenset({"h9"})),
            Cause.ABSENT,
            "h9 is not registered: its agent does not run, or does not reach ZooKeeper.",
        ),
        (
            explain(RUNNING, asked="app9", absent=(KnownHost(Identity("h9", "app9"), time=NOW - 3600),)),
            Cause.ABSENT,
            "app9 (h9) is not registered: its agent does not run, or does not reach ZooKeeper.",
        ),
    ],
)
def test_the_first_line_is_the_answer(answer, cause, sentence):
    assert (answer.cause, answer.sentence) == (cause, sentence)


def test_who_was_told_just_now_begins_any_moment():
    answer = why(Snapshot(RUNNING, "r2", NOW - 3, hosts=(host(version=None),)), [], "h1", now=NOW)
    assert answer.sentence == f"{MINE} begins with r2 any moment."
    assert answer.facts == ("it has no version yet",)


def test_a_host_without_a_version_is_explained_by_the_one_that_it_had():
    half = host(version=None, former="r2")
    answer = why(Snapshot(RUNNING, "r2", NOW - 3, hosts=(half,)), [], "h1", now=NOW)
    assert answer.cause is not Cause.CONVERGED
    assert answer.facts == ("it has no version: a deployment changed what it had of r2, and is not complete",)


def test_a_wait_names_the_place_and_what_the_holder_does():
    lock = service(
        contender(2, 180),
        contender(3, 90),
        contender(1, 40),
        work=LockedWork("h2", "app2", "deploy /web 0", NOW - 170),
    )
    answer = explain(RUNNING, DEPLOYING, locks=[lock])
    assert answer.facts == (
        "it is number 2 of 2 in the queue, for 40 s",
        "the holder is at deploy /web 0",
    )
    assert answer.advice == ("'zkdeployment why h2' says what the holder is doing",)


@pytest.mark.parametrize(
    ("others", "fact"), [((), "the holder is not registered"), ((host(2, error="x"),), "the holder failed")]
)
def test_a_role_lock_that_nobody_gives_back_says_how_to_free_it(others, fact):
    answer = explain(RUNNING, DEPLOYING, *others, locks=[role(contender(2, 7200), contender(1, 40))])
    assert fact in answer.facts
    assert "zkdeployment locks release db --reason TEXT" in answer.advice[-1]


def test_a_holder_at_work_under_a_roles_lock_says_at_what():
    other = host(2, deploying="r2", step="change packages")
    answer = explain(RUNNING, DEPLOYING, other, locks=[role(contender(2, 60), contender(1, 40))])
    assert answer.facts[-1] == "the holder is at: change packages"


def test_a_stop_names_all_that_failed_and_where_to_look():
    answer = explain(Cluster(None), host(version="r2"), stops=(OPERATOR, FAILURE))
    assert answer.facts == ("stopped by ann@adm1: it smells (1 min ago)", "it has what was published last, r2")
    assert answer.advice[0] == "'zkdeployment why h2' says more; the cause is there"


def test_a_failed_host_is_told_where_it_failed():
    mine = Stop("h1", "app1", "r2", "deploy /web 0", "exit status 1", NOW - 300)
    answer = explain(Cluster(None), host(error="exit status 1"), stops=(mine, OPERATOR))
    assert answer.facts == (
        "it failed at deploy /web 0 of r2, 5 min ago",
        "it has r1; published is r2",
        "stopped by ann@adm1: it smells (1 min ago)",
    )


def test_a_host_that_gave_the_lock_of_its_role_away_is_out_of_service_until_it_is_through():
    answer = explain(RUNNING, host(error="exit status 1"), out_of_service={"h1": "web"})
    assert answer.cause is Cause.FAILED
    assert answer.facts[-1] == (
        "it is out of service: it gave the lock of role web to the other hosts of the role, and"
        " 'ending-deployments' does not run before its next deployment is through"
    )
    for other in (
        explain(RUNNING, host(version="r2"), out_of_service={"h1": "web"}),
        explain(RUNNING, host(error="boom"), out_of_service={"h2": "web"}),
    ):
        assert not any("out of service" in fact for fact in other.facts)


@pytest.mark.parametrize(("number", "words"), [(2, "app2, app3"), (40, "40 other hosts")])
def test_hosts_that_failed_in_the_same_way_are_one_fact(number, words):
    stops = [
        Stop(f"h{one}", f"app{one}", "r2", "deploy /web 0", "no foo", NOW - 300) for one in range(1, number + 2)
    ]
    answer = explain(Cluster(None), host(error="no foo"), stops=stops)
    assert answer.facts[-1] == f"{words} failed in the same way"


def test_a_publication_under_way_names_the_syncer():
    holder = Lock(
        LockKind.SYNCER, "/hosts-lock", "/hosts-lock", (Contender("syncer on s1", NOW - 5, "/hosts-lock/x"),)
    )
    answer = explain(Cluster("r1", importing="r2"), host(), locks=[holder])
    assert answer.sentence == "r2 is being published; hosts start when all of it is in ZooKeeper."
    assert answer.facts == ("syncer on s1 is at it since 5 s",)


def test_a_dead_host_is_explained_by_what_it_left():
    locks = [
        role(contender(9, 7200), contender(1, 40)),
        service(contender(1, 40), contender(9, 30), work=LockedWork("h9", "app9", "deploy /web 0", NOW - 50)),
    ]
    stop = Stop("h9", "app9", "r2", "deploy /web 0", "exit status 1", NOW - 300)
    answer = explain(Cluster(None), asked="h9", locks=locks, stops=(stop, OPERATOR))
    assert answer.cause is Cause.ABSENT
    assert answer.facts == (
        "app9 (h9) failed at deploy /web 0 of r2: exit status 1 (5 min ago)",
        "it still has the lock of role db, since 2 h; 1 other waits",
        "it was at deploy /web 0 50 s ago",
        "it still waits for the lock of /web, since 30 s; 1 other waits",
    )
    assert answer.to_json()["cause"] == "absent"
