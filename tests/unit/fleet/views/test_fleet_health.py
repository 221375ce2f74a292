from dataclasses import replace
from functools import partial

import pytest
from nagiosplugin import Range

from support.builders import make_contender, make_host, make_known_host, make_role_lock, make_service_lock
from support.strategies import (
    active_rollout,
    advanced_rollout,
    begun_rollout,
    ended_rollout,
    group,
    plain_hosts,
    strategy,
)
from zkdeployment.base.act import Act, Decision, DecisionForm
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.host import Host, Identity, Leased
from zkdeployment.base.lock import Lock, LockedWork, LockKind
from zkdeployment.base.stop import COORDINATOR, GroupStop, Stop
from zkdeployment.checks.documents import CheckGroup
from zkdeployment.checks.rules.findings import CheckGroupState
from zkdeployment.checks.rules.listing import CheckSummary, SystemBacklog, check_alarms
from zkdeployment.fleet.daemon_failures import DaemonFailure
from zkdeployment.fleet.views.fleet_health import MonitoredFleet, fleet_health
from zkdeployment.fleet.views.health import Health, HealthLimits
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.pools.documents import NodePool, RoleMechanism
from zkdeployment.pools.rules.listing import PoolsStatus, PoolView, pool_alarms
from zkdeployment.publishing.records import SyncerReport
from zkdeployment.strategies.analysis import (
    AnalysisMetric,
    GroupAnalysis,
    MetricProgress,
    MetricStage,
    parse_comparison,
)
from zkdeployment.strategies.state import Ending
from zkdeployment.strategies.strategy import Pace

NOW = 100_000.0
FAILURE = Stop("h2", "app2", "r2", "deploy /web 0", "exit | status\n 1", NOW - 300)
OPERATOR = Stop.of_operator(Act("ann@adm1", "stop", "it smells", NOW - 60))


RUNNING = Cluster("r2")
NO_CHECKS, NO_POOLS = CheckSummary(), PoolsStatus()


def host(number=1, version="r2", **fields):
    return make_host(number, version, fields.pop("role", None), **fields)


def contender(number, minutes):
    return make_contender(number, NOW - 60 * minutes)


def service(minutes):
    return make_service_lock(contender(1, minutes))


def role(number, minutes):
    return make_role_lock(contender(number, minutes))


def judge(cluster, *hosts, minutes=20.0, locks=(), syncer=None, checks=NO_CHECKS, pools=NO_POOLS, **more):
    snapshot = FleetSnapshot(cluster, "r2", NOW - 60 * minutes, hosts=hosts, **more)
    limits = HealthLimits(Range("15"), Range("30"))
    alarms = (partial(check_alarms, checks), partial(pool_alarms, pools))
    fleet = MonitoredFleet(snapshot, locks, syncer, alarms)
    return fleet_health(fleet, now=NOW, limits=limits)


CONVERGED = "Converged at r2, set 20 min ago: 1 host"


@pytest.mark.parametrize(
    ("verdict", "health", "line"),
    [
        (judge(RUNNING, host()), 0, CONVERGED),
        (judge(RUNNING), 0, "No hosts are registered; published is r2"),
        (judge(None), 3, "Nothing was published yet, or ZooKeeper was wiped: there is no /hosts"),
        (
            judge(
                RUNNING,
                host(1),
                host(2, "r1", since=5.0, step="deploy /web 0"),
                host(3, "r1", since=6.0),
                minutes=4,
            ),
            0,
            "2 hosts behind r2 for 4 min; slowest: app2 (deploy /web 0)",
        ),
        (
            judge(RUNNING, host(2, "r1", deploying="r2")),
            1,
            "1 host behind r2 for 20 min, more than 15 min; slowest: app2 (not begun)",
        ),
        (
            judge(RUNNING, host(1, "r1", registered=NOW - 120), host(2, "r1", registered=NOW - 60), minutes=9999),
            0,
            "2 hosts behind r2 for 2 min; slowest: app1 (not begun)",
        ),
        (
            judge(RUNNING, host(2, "r1"), minutes=30.2),
            2,
            "1 host behind r2 for 30 min, more than 30 min; slowest: app2 (not begun)",
        ),
        (
            judge(Cluster(None), host(), stops=(Stop.of_operator(Act(COORDINATOR, "stop", "failed", NOW - 60)),)),
            2,
            "ALL STOP: stopped by the coordinator: failed (1 min ago)",
        ),
        (judge(Cluster(None), host()), 2, "ALL STOP: the cluster version was set to null"),
        (
            judge(Cluster(None), host(), host(2, "r1", error="exit status 1"), stops=(FAILURE, OPERATOR)),
            2,
            (
                "ALL STOP: app2 (h2) failed at deploy /web 0 of r2: exit / status 1 (5 min ago), "
                "stopped by ann@adm1: it smells (1 min ago)"
            ),
        ),
        (
            judge(Cluster(None), host(), stops=(OPERATOR,)),
            1,
            "ALL STOP: stopped by ann@adm1: it smells (1 min ago)",
        ),
        (
            judge(Cluster(False), host(2, "r1"), minutes=99),
            1,
            "Cluster is held: the cluster version was set to false",
        ),
        (
            judge(Cluster(False), host(), stops=(Stop.of_operator(Act("ann@adm1", "hold", "rack 7", NOW)),)),
            1,
            "Cluster is held by ann@adm1: rack 7 (0 s ago)",
        ),
        (judge(RUNNING, host(2, "r1", error="no foo"), minutes=1), 2, "1 host failed: app2: no foo"),
        (judge(Cluster("r1", importing="r2"), host()), 1, "the publication of r2 is incomplete after 20 min"),
        (
            judge(Cluster("r1", importing="r2"), host(), minutes=30.2),
            2,
            "the publication of r2 is incomplete after 30 min",
        ),
        (
            judge(RUNNING, host(), locks=[service(16), service(1)]),
            1,
            "the lock of /web has been held by app1 (h1) for 16 min (more than 15)",
        ),
        (
            judge(RUNNING, host(), locks=[role(1, 5), role(9, 5)]),
            1,
            "the lock of role db has been held by app9 (h9) for 5 min (not registered)",
        ),
        (judge(RUNNING, host(), locks=[make_role_lock()]), 0, CONVERGED),
        (
            judge(
                RUNNING,
                host(),
                locks=[
                    Lock(
                        LockKind.SERVICE,
                        "/web",
                        "/agent-locks/web",
                        work=LockedWork("h9", "app9", "deploy /web 0", NOW - 300, kept=True),
                    )
                ],
            ),
            1,
            "the lock of /web has been held by app9 (h9) for 5 min (not registered)",
        ),
        (
            judge(
                RUNNING,
                host(),
                absent=(make_known_host(8), make_known_host(9)),
                targets=frozenset({"app9"}),
            ),
            1,
            "1 host absent: app9",
        ),
        (
            judge(RUNNING, host(role="web"), targets=frozenset({"web", "app7", "h1"})),
            1,
            "no host runs what the tree deploys to app7",
        ),
        (
            judge(RUNNING, host(), syncer=SyncerReport("syncer on s1", "done", 60, NOW - 40 * 60)),
            2,
            "syncer silent for 40 min (last: syncer on s1)",
        ),
        (judge(RUNNING, host(), syncer=SyncerReport("syncer on s1", "done", 3600, NOW - 3600)), 0, CONVERGED),
        (
            judge(
                RUNNING, host(), syncer=SyncerReport("s1", "cannot reach the repository", 60, NOW, NOW - 40 * 60)
            ),
            2,
            "the tree's repository was last read 40 min ago: cannot reach the repository",
        ),
        (judge(RUNNING, host(), syncer=SyncerReport("s1", "done", 3600, NOW, NOW - 3600)), 0, CONVERGED),
        (
            judge(RUNNING, host(2, "r1", error="no foo"), locks=[service(16)]),
            2,
            "1 host failed: app2: no foo; the lock of /web has been held by app1 (h1) for 16 min (more than 15)",
        ),
        (
            judge(RUNNING, *(host(number, "r1", error="x") for number in range(5))),
            2,
            "5 hosts failed: app0: x, app1: x, app2: x and 2 more",
        ),
    ],
)
def test_the_most_severe_problem_comes_first(verdict, health, line):
    assert (verdict.health, verdict.line) == (Health(health), line)


def test_the_fleet_is_counted():
    verdict = judge(
        RUNNING,
        host(1),
        host(2, "r1", deploying="r2"),
        host(3, error="x"),
        absent=(make_known_host(9),),
        targets=frozenset({"h9"}),
    )
    measures = {measure.name: measure.value for measure in verdict.measures}
    assert measures == {"hosts": 4, "converged": 1, "behind": 1, "failed": 1, "absent": 1, "lag": 1200}
    assert judge(RUNNING, host()).measures[-1].value == 0


MEASURED = strategy(
    replace(
        group("x"),
        pace=Pace(bake_time=60.0, analysis=(AnalysisMetric("errors", "up", parse_comparison("<= 1")),)),
    )
)
REQUIRING = strategy(replace(group("x"), require_hosts=2))


FAILING = DaemonFailure("syncer", "adm1 (process 7)", "KeyError: 'topdir'", NOW - 60)


def test_a_daemon_that_fails_in_each_cycle_is_a_warning_at_once_and_critical_after_the_limit():
    verdict = judge(RUNNING, host(), failures=(FAILING,))
    line = "the syncer adm1 (process 7) has failed in each cycle for 1 min: KeyError: 'topdir'"
    assert (verdict.health, verdict.line) == (Health.WARNING, line)
    verdict = judge(RUNNING, host(), failures=(replace(FAILING, since=NOW - 3600),))
    assert verdict.health is Health.CRITICAL


def test_a_stopped_group_is_critical_and_names_the_act_that_ends_its_stop():
    stop = Stop("h1", "app1", "r2", "deploy /a 0", "boom", NOW - 60)
    verdict = judge(RUNNING, host(), group_stops=(GroupStop("p1/store/v1/shop", 7, stop),))
    line = (
        "group p1/store/v1/shop is stopped: app1 (h1) failed at deploy /a 0 of r2: boom (1 min ago); publish a"
        " change of the group, or 'zkdeployment intent resume p1/store/v1/shop --reason TEXT'"
    )
    assert (verdict.health, verdict.line) == (Health.CRITICAL, line)


def judge_rollout(state, *, coordinator="ops1 (process 7)", minutes=20.0):
    late = host(1, "r1", deploying="r2", step="deploy /web 0")
    fields = {
        "strategy": "deployment-strategy",
        "governed": True,
        "rollout": state,
        "coordinator": coordinator,
    }
    return judge(RUNNING, late, minutes=minutes, **fields)


def begun(minutes):
    """Return a rollout in its first group, with its last change so many minutes ago."""
    state = active_rollout(begun_rollout(begun=NOW - 3600))
    return replace(state, active_phase=replace(state.active_phase, last_progress=NOW - 60 * minutes))


def baking(*, bake_time):
    """Return a rollout whose only group has waited for 29 minutes since its last change."""
    only = strategy(replace(group("x"), pace=Pace(bake_time=bake_time)))
    since = NOW - 29 * 60
    state = active_rollout(begun_rollout(only, plain_hosts("a"), begun=NOW - 3600), done=["a"], baking=since)
    return replace(state, active_phase=replace(state.active_phase, last_progress=since))


PAUSED = Act("ann@ops", "rollout pause", "latency is up", NOW - 60)


@pytest.mark.parametrize(
    ("verdict", "health", "line"),
    [
        pytest.param(
            judge_rollout(begun(2), minutes=50),
            0,
            "rollout 7-1 is at group monitoring-nodes, last change 2 min ago",
            id="in progress: waiting hosts are not slow",
        ),
        pytest.param(
            judge_rollout(begun(16), minutes=50),
            1,
            "rollout 7-1 is at group monitoring-nodes, last change 16 min ago",
            id="slow",
        ),
        pytest.param(
            judge_rollout(baking(bake_time=1800), minutes=50),
            0,
            "rollout 7-1 is at group x, last change 29 min ago",
            id="waits for the bake time",
        ),
        pytest.param(
            judge_rollout(baking(bake_time=1800), minutes=50, coordinator=None),
            1,
            "the rollout of r2 has made no progress for 29 min: no coordinator runs",
            id="no coordinator during the bake time",
        ),
        pytest.param(
            judge_rollout(baking(bake_time=600), minutes=50),
            1,
            "rollout 7-1 is at group x, last change 29 min ago",
            id="the bake time was over long ago",
        ),
        pytest.param(
            judge_rollout(begun(31), minutes=50, coordinator=None),
            2,
            "the rollout of r2 has made no progress for 31 min: no coordinator runs",
            id="no coordinator",
        ),
        pytest.param(
            judge_rollout(None, minutes=16),
            1,
            "the rollout of r2 has made no progress for 16 min: the rollout has not begun",
            id="not begun",
        ),
        pytest.param(
            judge_rollout(
                ended_rollout(advanced_rollout(begun_rollout(), "ctl1", "ctl2")), minutes=31, coordinator=None
            ),
            2,
            "the rollout of r2 has made no progress for 31 min: no coordinator runs",
            id="failed, resumed, no coordinator",
        ),
        pytest.param(
            judge_rollout(ended_rollout(begun_rollout(), Ending.ABORTED), minutes=16),
            1,
            "the rollout of r2 has made no progress for 16 min: the rollout has not begun",
            id="aborted, resumed, not begun",
        ),
        pytest.param(
            judge_rollout(begun_rollout(begun=NOW - 3600, waiting="web waits for its window"), minutes=60),
            0,
            "rollout 7-1 waits: web waits for its window",
            id="waits for a window",
        ),
        pytest.param(
            judge_rollout(
                begun_rollout(
                    begun=NOW - 60, waiting="x requires hosts", strategy=REQUIRING, hosts=plain_hosts("a")
                ),
                minutes=1,
            ),
            1,
            "rollout 7-1: group x has waited for a decision for 1 min: it requires 2 registered hosts, found 1;"
            " 'zkdeployment rollout promote x --reason TEXT' continues",
            id="required hosts are absent",
        ),
        pytest.param(
            judge_rollout(
                begun_rollout(
                    begun=NOW - 60,
                    strategy=MEASURED,
                    hosts=plain_hosts("a"),
                    analyses={"x": GroupAnalysis({"errors": MetricProgress(MetricStage.OVERDUE)})},
                ),
                minutes=1,
            ),
            1,
            "rollout 7-1: group x has waited for a decision for 1 min: its metrics do not decide: no measurement"
            " of metric errors passed: it was never measured;"
            " 'zkdeployment rollout promote x --reason TEXT' continues",
            id="metrics have no data",
        ),
        pytest.param(
            judge_rollout(begun_rollout(begun=NOW - 120, paused=PAUSED), minutes=50),
            1,
            "rollout 7-1: the rollout has waited for a decision for 1 min: rollout pause by ann@ops: latency is"
            " up; 'zkdeployment rollout resume' continues",
            id="paused",
        ),
        pytest.param(
            judge_rollout(ended_rollout(advanced_rollout(begun_rollout(), "two1")), minutes=1),
            1,
            "rollout 7-1 of r2: success with failures; 8 hosts: 7 succeeded, 1 failed"
            "; group compute-nodes-2 failed (prepare: 0 of 1 hosts"
            " successful (0 %), expected at least 50 %); failed: two1",
            id="over with failures",
        ),
        pytest.param(
            judge_rollout(ended_rollout(advanced_rollout(begun_rollout())), minutes=16),
            1,
            "1 host behind r2 for 16 min, more than 15 min; slowest: app1 (deploy /web 0)",
            id="over: late hosts are slow",
        ),
    ],
)
def test_a_rollout_is_judged_by_its_last_change(verdict, health, line):
    assert (verdict.health, verdict.line) == (health, line)


def test_hosts_in_no_group_leave_a_finished_rollout_healthy():
    rollout = ended_rollout(advanced_rollout(begun_rollout(strategy(group("one", hosts="a")), plain_hosts("az"))))
    has = Host(Identity("a", "app1"), version="r2")
    excluded = Host(Identity("z", "app2"), version="r1", deploying="r2", step="waits to prepare")
    verdict = judge(RUNNING, has, excluded, minutes=99, strategy="s", governed=True, rollout=rollout)
    assert (verdict.health, verdict.line) == (
        Health.OK,
        "Converged at r2, set 1 h 39 min ago: 1 host, and 1 host excluded",
    )
    measures = {measure.name: measure.value for measure in verdict.measures}
    assert measures == {"hosts": 1, "converged": 1, "behind": 0, "failed": 0, "absent": 0, "lag": 0}


def systems(fetched, since, failed=0, unheard=None):
    waiting = frozenset({"a", "b"}) if since is not None else frozenset()
    failures = frozenset(map(str, range(failed)))
    backlog = SystemBacklog(
        "nagios1",
        None,
        None if fetched is None else NOW - 60 * fetched,
        open=waiting,
        failed=failures,
        waiting_since=None if since is None else NOW - 60 * since,
        unheard_since=None if unheard is None else NOW - 60 * unheard,
    )
    return CheckSummary((backlog,))


@pytest.mark.parametrize(
    ("checks", "health", "line"),
    [
        (systems(None, None), Health.OK, CONVERGED),
        (systems(1000, None), Health.OK, CONVERGED),  # nothing waits
        (systems(1000, 14), Health.OK, CONVERGED),  # it is not late yet
        (systems(1, 14), Health.OK, CONVERGED),  # it works at them
        (
            systems(1, 1000),
            Health.CRITICAL,
            "monitoring system nagios1: 2 check instances waiting, the first for 16 h",
        ),
        (systems(1, None, unheard=14), Health.OK, CONVERGED),  # it is not late yet
        (
            systems(1, None, unheard=20),
            Health.WARNING,
            "monitoring system nagios1 has reported no results for 20 min",
        ),
        (
            systems(1, None, unheard=40),
            Health.CRITICAL,
            "monitoring system nagios1 has reported no results for 40 min",
        ),
        (
            systems(1000, 20),
            Health.WARNING,
            "monitoring system nagios1 has fetched nothing for 20 min: 2 check instances waiting",
        ),
        (
            systems(None, 40),
            Health.CRITICAL,
            "monitoring system nagios1 has fetched nothing for 40 min: 2 check instances waiting",
        ),
        (
            systems(1, None, failed=1),
            Health.WARNING,
            "monitoring system nagios1 could not deploy or remove 1 check instance",
        ),
        (
            CheckSummary(groups=(CheckGroupState(CheckGroup("web", "/web", 2), 1, (), ("/web 0 on h",)),)),
            Health.CRITICAL,
            "check group web: deployments of /web that are OK: 1 of 2, expected at least 2; not OK: /web 0 on h",
        ),
        (
            CheckSummary(unwritten={"0ab": "it is damaged", "0ac": "it is damaged", "0ad": "it is too large"}),
            Health.WARNING,
            "check instances cannot be written: it is damaged, it is too large",
        ),
    ],
)
def test_a_monitoring_system_that_leaves_checks_waiting_or_is_silent_or_failed_is_a_problem(checks, health, line):
    verdict = judge(RUNNING, host(), checks=checks)
    assert (verdict.health, verdict.line) == (health, line)


def test_a_check_group_that_only_lacks_hosts_in_maintenance_is_named_and_is_no_problem():
    group = CheckGroupState(CheckGroup("web", "/web", 2), 1, in_maintenance=("/web 0",))
    verdict = judge(RUNNING, host(), checks=CheckSummary(groups=(group,)))
    assert verdict.health is Health.OK
    assert verdict.line == (
        "check group web: deployments of /web that are OK: 1 of 2, expected at least 2; in maintenance: /web 0"
    )


def test_alarms_of_pools_are_part_of_the_verdict():
    pools = PoolsStatus((PoolView(pool=NodePool("web", RoleMechanism("spare", "ci"), 1), states={}),))
    verdict = judge(RUNNING, host(), pools=pools)
    assert (verdict.health, verdict.line) == (Health.WARNING, "no worker of the pools runs")


def test_hosts_that_can_be_leased_are_neither_late_nor_absent_and_their_failures_are_warnings():
    idle = host(2, idle_role="spare", leased=Leased("spare", 1), role="spare")
    changing = host(3, idle_role="spare", role="ci", deploying="r2", step="deploy /web 0")
    gone = make_known_host(9, role="ci", idle_role="spare")
    targets = frozenset({"ci", "spare"})
    fine = judge(RUNNING, host(), idle, changing, absent=(gone,), targets=targets)
    assert (fine.health, fine.line) == (0, "Converged at r2, set 20 min ago: 2 hosts")
    failed = judge(RUNNING, host(), host(4, idle_role="spare", role="ci", error="no disk"), targets=targets)
    assert (failed.health, failed.line) == (1, "1 host that can be leased failed: app4: no disk")
    unknown = judge(RUNNING, host(), idle, targets=frozenset({"ci", "app7.example.com"}))
    assert unknown.line == "no host runs what the tree deploys to app7.example.com"


def test_decisions_for_which_features_wait_are_a_warning_with_their_begin_and_verb():
    form = DecisionForm("approve", "Approve")
    due = [Decision(f"intent {name}", "it is new", NOW - 120, f"approve {name}", form) for name in "abcd"]
    verdict = judge(Cluster("r2"), make_host("h1", "r2"), decisions=tuple(due))

    assert verdict.health is Health.WARNING
    assert verdict.line.startswith(
        "intent a has waited for a decision for 2 min: it is new; 'approve a' continues, intent b has"
    )
    assert verdict.line.endswith(" and 1 more")
