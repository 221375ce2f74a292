"""Agents under a rollout strategy; the test plays the coordinator. Real ZooKeeper, scripts and files."""

import email
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import Popen

import pytest

from support.agents import AgentHost, Fleet, put_script, wait_for_versions
from support.fleets.coordinated import ScriptedRollout
from support.waiting import wait_until
from support.web.servers import MailServer
from support.zookeeper import through
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.base.deployment import DeploymentFailure
from zkdeployment.base.host import Host
from zkdeployment.base.stop import Stop
from zkdeployment.strategies.permission import Failure, Phase, RolloutPart

FOO_0 = ["h1 start /who/myfoo 0", "h1 end /who/myfoo 0"]
FOO_1 = ["h1 start /who/myfoo 1", "h1 end /who/myfoo 1"]
GOOD = {"deploy:h1": None, "prepare:h1": None}


@pytest.fixture
def host(fleet: Fleet) -> AgentHost:
    """A host with two wanted deployments of foo."""
    fleet.service("/who/myfoo", "foo", "1.0", h1=2)
    return fleet.host("h1")


@pytest.fixture
def rollout(fleet: Fleet) -> ScriptedRollout:
    """A rollout of r1 that has begun."""
    played = ScriptedRollout(fleet, "r1")
    played.begin()
    return played


def shows(host: AgentHost, message: str) -> bool:
    """Return whether the host's status file and node both contain the message."""
    return message in host.status and message in host.node.get("step", "")


def wait_for(host: AgentHost, message: str) -> None:
    wait_until(lambda: shows(host, message), message)
    assert Host.from_properties(host.id, host.node).is_waiting


def wait_for_report(rollout: ScriptedRollout, name: str) -> None:
    wait_until(lambda: name in rollout.reports(), f"the report {name}")


def grant_both_phases(rollout: ScriptedRollout, host: AgentHost, version: str = "r1") -> None:
    """Grant both phases to a host, and wait for its report of the second phase."""
    rollout.grant("prepare", host.id)
    wait_for_report(rollout, f"prepare:{host.id}")
    rollout.grant("deploy", host.id)
    wait_for_report(rollout, f"deploy:{host.id}")
    assert host.has_finished(version)


def test_a_host_that_has_the_revision_reports_each_phase_as_soon_as_it_is_granted(fleet, host, rollout):
    with host.agent():
        grant_both_phases(rollout, host)
        rollout.begin(attempt=2)
        rollout.grant("prepare")
        fleet.set_version("r1")  # wakes the agent
        wait_for_report(rollout, "prepare:h1")
        rollout.grant("deploy")
        wait_for_report(rollout, "deploy:h1")
    assert fleet.calls() == FOO_0 + FOO_1


def test_a_host_waits_for_a_grant_in_each_phase_and_changes_nothing_before_the_second(fleet, host):
    rollout = ScriptedRollout(fleet, "r1")
    with host.agent():
        wait_for(host, "waits to prepare: no rollout of this publication is under way")
        assert host.node["deploying"] == "r1"
        rollout.begin()
        wait_for(host, "waits to prepare: rollout 1-1 has not reached this host yet")
        assert rollout.reports() == {}
        rollout.grant("prepare")
        wait_for(host, "waits to deploy: rollout 1-1 has granted it only to prepare, with group some")
        assert rollout.reports() == {"prepare:h1": None}
        assert (host.packages.installed(), fleet.calls(), host.markers) == ({}, [], [])
        rollout.grant("deploy")
        wait_for_report(rollout, "deploy:h1")
        assert rollout.reports() == GOOD
        assert host.has_finished("r1")
        assert {"deploying", "step", "steps", "error"}.isdisjoint(host.node)
    assert fleet.calls() == FOO_0 + FOO_1
    assert len(host.packages.commits) == 1


def test_grants_of_a_rollout_that_stopped_the_fleet_are_void(fleet, host, rollout):
    rollout.grant("deploy")
    rollout.end()
    with host.agent():
        wait_for(host, "waits to prepare: no rollout of this publication is under way")
        rollout.begin(attempt=2)
        grant_both_phases(rollout, host)
    assert fleet.calls() == FOO_0 + FOO_1


def test_a_host_with_an_empty_plan_reports_both_phases(fleet, rollout):
    host = fleet.host("h2")
    with host.agent():
        wait_for(host, "rollout 1-1 has not reached this host yet")
        grant_both_phases(rollout, host)
    assert fleet.calls() == []


def test_a_failed_preparation_fails_only_the_host_which_stays_failed_after_a_restart(fleet, host, rollout):
    fleet.service("/who/mybar", "bar", "9.9", h1=1)
    with host.agent():
        rollout.grant("prepare")
        wait_for_report(rollout, "prepare:h1")
        assert "bar" in rollout.reports()["prepare:h1"]
        assert host.node["error"] == rollout.reports()["prepare:h1"]
        assert fleet.client.exists("/zkdeployment/stops/h1") is None
    fleet.service("/who/mybar", "bar", "1.0", h1=1)
    with host.agent():
        wait_until(lambda: "bar" in host.node.get("error", ""), "it shows its error again")
        assert host.status == "error"
        assert "deploying" not in host.node
        rollout.begin(attempt=2)
        wait_for(host, "rollout 1-2 has not reached this host yet")
        assert "error" not in host.node
        grant_both_phases(rollout, host)
    assert fleet.version == "r1"


def test_a_failure_that_an_agent_could_not_report_is_reported_by_the_next_agent(fleet, host, rollout):
    rollout.grant("prepare")
    rollout.grant("deploy")
    host.lasting.mkdir(parents=True)
    stop = Stop("h1", "h1.example.com", "r1", "deploy /who/myfoo 0", "it failed and could not say so", 1.0)
    failed = DeploymentFailure(1, stop.step, "/who/myfoo", 0)
    failure = Failure(stop, failed, RolloutPart("1-1", Phase.DEPLOY))
    (host.lasting / "failure").write_text(json.dumps(failure.to_json()))
    with host.agent():
        wait_for_report(rollout, "deploy:h1")
        assert host.node["error"] == rollout.reports()["deploy:h1"] == "it failed and could not say so"
        rollout.begin(attempt=2)
        wait_for(host, "rollout 1-2 has not reached this host yet")
        assert not (host.lasting / "failure").exists()
    assert fleet.version == "r1"
    assert fleet.calls() == []


def test_a_failing_script_is_reported_with_the_hosts_node_and_the_fleet_continues(fleet):
    with MailServer() as server:
        host = fleet.host("h1", mailto="ops@example.com", smtp=server.address)
        fleet.service("/who/myfoo", "foo", "1.0", h1=1, h2=1)
        rollout = ScriptedRollout(fleet, "r1")
        rollout.begin()
        other = fleet.host("h2")
        failing = host.fail("/who/myfoo 0")
        with host.agent(), other.agent():
            rollout.grant("prepare")
            wait_for_report(rollout, "prepare:h1")
            rollout.grant("deploy")
            wait_for_report(rollout, "deploy:h1")
            report = fleet.client.exists("/zkdeployment/rollouts/1-1/reports/deploy:h1")
            assert fleet.client.exists("/hosts/h1").mzxid == report.czxid
            assert "exit status 3" in rollout.reports()["deploy:h1"]
            assert host.node["error"] == rollout.reports()["deploy:h1"]
            assert host.node["version"] is None
            assert fleet.version == "r1"
            grant_both_phases(rollout, other)
            failing.unlink()
            fleet.set_version("r2")  # by hand: without the strategy
            wait_for_versions([host, other], "r2")
        server.join()
    text = email.message_from_string(server.message).get_payload(decode=True).decode()
    assert "The fleet continues: rollout 1-1" in text
    assert "stopped" not in text
    assert fleet.calls()[:2] == ["h1 start /who/myfoo 0", "h1 fail /who/myfoo 0"]


def test_a_host_whose_grant_is_withdrawn_stops_before_its_next_step(fleet, host, rollout):
    block = host.block()
    with host.agent():
        rollout.grant("prepare")
        wait_for_report(rollout, "prepare:h1")
        rollout.grant("deploy")
        wait_until(fleet.calls, "the first script")
        rollout.withdraw("1 of 2 hosts did not end within 60 s")
        block.unlink()
        why = "rollout 1-1 continues without this host: 1 of 2 hosts did not end within 60 s"
        wait_until(lambda: host.node.get("error") == why and host.status == "error", "it stands aside")
        assert rollout.reports() == {"prepare:h1": None}
        assert fleet.version == "r1"
        rollout.begin(attempt=2)
        grant_both_phases(rollout, host)
    assert fleet.calls() == FOO_0 + FOO_0 + FOO_1


def test_hosts_of_a_large_fleet_spread_their_reads_at_the_start_of_a_rollout(fleet, host, monkeypatch):
    asked = []

    def uniform(low, high):
        asked.append((low, high))
        return low

    monkeypatch.setattr("zkdeployment.base.daemon.cycles.random.uniform", uniform)
    rollout = ScriptedRollout(fleet, "r1")
    transaction = fleet.client.transaction()
    for number in range(1049):
        transaction.create(f"/hosts/other{number}", b"{}")
    transaction.commit()
    with host.agent():
        wait_for(host, "no rollout")
        before = len(asked)
        rollout.begin()
        wait_for(host, "rollout 1-1 has not reached this host yet")
        assert (0, 1.0) in asked[before:]
        before = len(asked)
        rollout.grant("prepare")
        wait_for(host, "waits to deploy")
    assert (0, 1.0) not in asked[before:]


@pytest.mark.parametrize("phase", ["prepare", "deploy"])
def test_a_waiting_host_follows_the_cluster_version(fleet, rollout, phase):
    host = fleet.host("h1", after="/bin/sh -c 'echo hook >> $ZKDEPLOYMENT_ROOT/../../journal'")
    with host.agent():
        if phase == "deploy":
            rollout.grant("prepare")
        wait_for(host, f"waits to {phase}")
        for version in (None, False):
            fleet.set_version(version)
            wait_until(lambda: "deploying" not in host.node, f"it gives up at {version}")
            fleet.set_version("r1")
            wait_for(host, f"waits to {phase}")
        assert fleet.calls() == []
        later = ScriptedRollout(fleet, "r1", sequence=2)  # the same revision is published again
        later.begin()
        wait_for(host, "waits to prepare: rollout 2-1 has not reached this host yet")
        grant_both_phases(later, host)
    assert fleet.calls() == ["hook"]


def test_an_agent_that_restarts_between_the_phases_continues_and_reports_no_phase_twice(fleet, host, rollout):
    with host.agent():
        rollout.grant("prepare")
        wait_for(host, "waits to deploy")
        reported = fleet.client.exists("/zkdeployment/rollouts/1-1/reports/prepare:h1")
    assert fleet.get("/hosts/h1") == {}
    with host.agent():
        wait_for(host, "waits to deploy")
        rollout.grant("deploy")
        wait_for_report(rollout, "deploy:h1")
    assert fleet.client.exists("/zkdeployment/rollouts/1-1/reports/prepare:h1") == reported
    assert len(host.packages.commits) == 1


def test_a_host_prepares_again_in_an_attempt_that_begins_right_after_its_report(host, rollout, monkeypatch):
    def reach(place: str) -> None:
        if place == "after:report-prepare" and rollout.id == "1-1":
            rollout.begin(attempt=2)

    monkeypatch.setattr("zkdeployment.base.daemon.failpoints.reach", reach)
    rollout.grant("prepare")
    with host.agent():
        wait_for(host, "waits to prepare: rollout 1-2 has not reached this host yet")
        grant_both_phases(rollout, host)
    assert rollout.reports() == GOOD


def test_packages_that_changed_between_the_phases_are_prepared_again(host, rollout):
    with host.agent():
        rollout.grant("prepare")
        wait_for(host, "waits to deploy")
        (other,) = [
            package for package in host.packages.available if (package.name, package.version) == ("bar", "1.0")
        ]
        host.packages.put(other)
        rollout.grant("deploy")
        wait_for_report(rollout, "deploy:h1")
    assert rollout.reports() == GOOD
    assert sorted(host.packages.installed()) == ["bar", "foo"]


def test_a_role_controller_changes_in_the_second_phase_and_missing_packages_fail_the_first(fleet):
    host = fleet.host("h1", role="web")
    fleet.controller("web", "ctl", "1.0")
    fleet.service("/who/myfoo", "foo", "9.9", web=1)
    rollout = ScriptedRollout(fleet, "r1")
    rollout.begin()
    with host.agent():
        rollout.grant("prepare")
        wait_for_report(rollout, "prepare:h1")
        assert "foo" in rollout.reports()["prepare:h1"]
        fleet.service("/who/myfoo", "foo", "1.0", web=1)
        rollout.begin(attempt=2)
        rollout.grant("prepare")
        wait_for(host, "waits to deploy")
        assert host.packages.installed() == {}
        rollout.grant("deploy")
        wait_for_report(rollout, "deploy:h1")
        assert rollout.reports() == GOOD
    assert sorted(host.packages.installed()) == ["ctl", "foo"]
    assert [call.split()[2] for call in fleet.calls()[::2]] == [
        "starting-deployments",
        "/who/myfoo",
        "ending-deployments",
    ]


def test_hosts_of_a_group_still_share_the_lock_of_their_service(fleet, rollout):
    hosts = [fleet.host(name) for name in ("h1", "h2")]
    fleet.service("/who/myfoo", "foo", "1.0", h1=1, h2=1)
    with hosts[0].agent(), hosts[1].agent():
        for phase in ("prepare", "deploy"):
            for host in hosts:
                rollout.grant(phase, host.id)
            for host in hosts:
                wait_for_report(rollout, f"{phase}:{host.id}")
    first, second = fleet.calls()[:2], fleet.calls()[2:]
    assert sorted([first, second]) == [
        [f"{name} start /who/myfoo 0", f"{name} end /who/myfoo 0"] for name in ("h1", "h2")
    ]


def test_a_waiting_host_registers_again_after_an_outage_of_zookeeper_and_continues(fleet, rollout, proxy):
    host = fleet.host("h1", zookeeper=through(proxy, fleet.connection))
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    with host.agent(session_timeout=4):
        rollout.grant("prepare")
        wait_for(host, "waits to deploy")
        proxy.cut()
        wait_until(lambda: fleet.get("/hosts/h1") == {}, "its session is over")
        wait_until(lambda: host.status == "wait for ZooKeeper", "it says so")
        rollout.grant("deploy")
        proxy.heal()
        wait_for_report(rollout, "deploy:h1")
        assert host.has_finished("r1")
    assert fleet.calls() == FOO_0


def test_a_publication_between_two_reads_is_never_deployed_without_its_strategy(fleet, host):
    rollouts = []

    def followed(read):
        def read_and_publish(*arguments):
            state = read(*arguments)
            if not rollouts:
                rollouts.append(ScriptedRollout(fleet, "r1"))
            return state

        return read_and_publish

    with host.agent() as agent:
        host.wait_for_version("initial")
        store = agent.agent._adapters.fleet
        store.published, store.cluster = followed(store.published), followed(store.cluster)
        fleet.set_version("initial", touched=True)
        wait_for(host, "waits to prepare")
    assert len(rollouts) == 1
    assert fleet.calls() == []


def test_a_version_without_a_strategy_is_deployed_without_reading_a_rollout(fleet, host, rollout, monkeypatch):
    asked = []
    monkeypatch.setattr(ZooKeeperFleet, "permission", lambda *arguments, **_: asked.append(arguments))
    fleet.set_version("r9")  # by hand
    with host.agent():
        host.wait_for_version("r9")
    assert asked == []
    assert rollout.reports() == {}


# As a process


@contextmanager
def running(host: AgentHost, *options: str, failpoints: str = "") -> Iterator[Popen[bytes]]:
    """Run a host's agent as a process; its software is installed."""
    put_script(host.root, "foo")
    with host.process(*options, failpoints=failpoints) as agent:
        yield agent


@pytest.mark.parametrize(
    "point",
    [
        "at:gate",
        "before:plan",
        "before:report-prepare",
        "after:report-prepare",
        "at:gate@2",
        "before:deploy@2",
        "before:record",
        "after:record",
    ],
)
def test_an_agent_completes_the_rollout_phases_of_a_killed_agent(fleet, host, rollout, point):
    with running(host, failpoints=f"{point}=kill") as agent:

        def came_to(moment) -> bool:
            return agent.poll() is not None or moment()

        wait_until(lambda: came_to(lambda: "waits to prepare" in host.status), "it waits")
        rollout.grant("prepare")
        wait_until(lambda: came_to(lambda: "prepare:h1" in rollout.reports()), "it prepares")
        if "prepare:h1" in rollout.reports():
            wait_until(lambda: came_to(lambda: "waits to deploy" in host.status), "it waits again")
            rollout.grant("deploy")
        assert agent.wait() == -signal.SIGKILL
        assert "deploy:h1" not in rollout.reports()
    with running(host):
        wait_for_report(rollout, "prepare:h1")
        rollout.grant("deploy")
        wait_for_report(rollout, "deploy:h1")
        assert host.has_finished("r1")
    assert rollout.reports() == GOOD
    assert host.markers == ["who:myfoo.0.deployed", "who:myfoo.1.deployed"]
    assert {FOO_0[1], FOO_1[1]} <= set(fleet.calls())
    assert fleet.version == "r1"


@pytest.mark.usefixtures("rollout")
def test_a_waiting_agent_reloads_its_configuration_and_can_be_stopped(fleet, host):
    with running(host) as agent:
        wait_for(host, "waits to prepare")
        with host.config.open("a") as config:
            config.write("tags = ssd\n")
        agent.send_signal(signal.SIGHUP)
        wait_until(lambda: host.node.get("tags") == ["ssd"] and shows(host, "waits to prepare"), "new")
        agent.send_signal(signal.SIGTERM)
        assert agent.wait() == 0
    assert fleet.get("/hosts/h1") == {}
    assert fleet.calls() == []


def test_an_agent_that_runs_once_waits_for_its_grants_and_then_ends(host, rollout):
    with running(host, "-1") as agent:
        wait_for(host, "waits to prepare")
        agent.send_signal(signal.SIGHUP)  # has no effect in a single run
        rollout.grant("deploy")
        assert agent.wait() == 0
    assert rollout.reports() == GOOD
    assert json.loads((host.run / "host_version").read_text()) == "r1"


def test_an_agent_that_runs_once_on_a_failed_host_fails_immediately(fleet, host, rollout):
    host.fail("/who/myfoo 0")
    rollout.grant("deploy")
    for _ in range(2):
        with running(host, "-1") as agent:
            assert agent.wait() == 1
    assert fleet.calls() == ["h1 start /who/myfoo 0", "h1 fail /who/myfoo 0"]
    assert "exit status 3" in rollout.reports()["deploy:h1"]
    assert fleet.version == "r1"


START, END = "starting-deployments /roles/web", "ending-deployments /roles/web"


@pytest.fixture
def role(fleet: Fleet) -> list[AgentHost]:
    """Two hosts of a role with a controller and one service."""
    fleet.controller("web", "ctl", "1.0")
    fleet.service("/who/myfoo", "foo", "1.0", web=1)
    return [fleet.host(name, role="web") for name in ("h1", "h2")]


def marks(fleet: Fleet) -> list[str]:
    """Return the hosts that are out of service."""
    return fleet.client.get_children("/zkdeployment/out-of-service")


def fail_with_the_roles_lock(fleet: Fleet, rollout: ScriptedRollout, host: AgentHost) -> None:
    """Grant both phases to a host that fails, and wait until it holds the role lock after its failure."""
    rollout.grant("deploy", host.id)
    wait_for_report(rollout, f"deploy:{host.id}")
    assert fleet.requests("web")[0]["requestor"] == host.id


def test_a_failed_host_keeps_its_role_lock_until_the_rollout_continues_without_it(fleet, role):
    rollout = ScriptedRollout(fleet, "r1")
    rollout.begin()
    first, second = role
    failing = first.fail("/who/myfoo 0")
    with first.agent():
        fail_with_the_roles_lock(fleet, rollout, first)
        with second.agent():
            rollout.grant("deploy", "h2")
            wait_until(lambda: "wait for the lock of role web, held by h1" in second.status, "h2 waits")
            assert marks(fleet) == []
            rollout.withdraw("it failed", "h1")
            wait_for_report(rollout, "deploy:h2")
        assert rollout.reports()["deploy:h2"] is None
        assert fleet.requests("web") == []
        assert marks(fleet) == ["h1"]
        assert f"h1 start {END}" not in fleet.calls(), "what failed does not go back into service"
        failing.unlink()
        rollout.begin(attempt=2)
        grant_both_phases(rollout, first)
    assert fleet.calls()[-2:] == [f"h1 start {END}", f"h1 end {END}"]
    assert marks(fleet) == []


def test_a_failed_host_hands_its_role_lock_on_after_a_restart(fleet, role):
    rollout = ScriptedRollout(fleet, "r1")
    rollout.begin()
    first, _ = role
    first.fail("/who/myfoo 0")
    with first.agent():
        fail_with_the_roles_lock(fleet, rollout, first)
    rollout.withdraw("it failed", "h1")
    with first.agent():
        wait_until(lambda: fleet.requests("web") == [], "the lock is handed on")
    assert marks(fleet) == ["h1"]


def test_a_waiting_host_releases_the_role_lock_of_a_former_revision(fleet, role):
    rollout = ScriptedRollout(fleet, "r1")
    rollout.begin()
    first, second = role
    first.fail("/who/myfoo 0")
    with first.agent():
        fail_with_the_roles_lock(fleet, rollout, first)
        newer = ScriptedRollout(fleet, "r2", sequence=2)
        newer.begin()
        with second.agent():
            grant_both_phases(newer, second, "r2")
    assert marks(fleet) == ["h1"]
