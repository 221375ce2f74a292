"""A host in maintenance: a real syncer, real agents and scripts, the verbs, and a real ZooKeeper."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from support.agents import called, wait_for_versions
from support.waiting import wait_until
from zkdeployment.agent.daemon.draining import DrainSupervision
from zkdeployment.agent.reporting.host_reporting import HostReporting
from zkdeployment.base.errors import PackageError
from zkdeployment.config.settings import load
from zkdeployment.fleet.store.audit import read_acts
from zkdeployment.programs.agent import build_agent
from zkdeployment.programs.main import main
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from support.agents import AgentHost, Fleet
    from support.publishing import Publishing
    from zkdeployment.base.plan import Undeploy

TREE = """
/shop
  /db : foo
    version = '{version}'
    /deploy
      /h1
      /h2
"""

ALONE = """
  /web : foo
    version = '{version}'
    /deploy
      /h2
"""

TWO = """
/shop
  /a : foo
    version = '1.0'
    /deploy
      /h1
  /b : foo
    version = '1.0'
    /deploy
      /h1
"""


@pytest.fixture
def run(fleet: Fleet, capsys: pytest.CaptureFixture[str]):
    def call(verb: str, *argv: str) -> tuple[int | str | None, str, str]:
        with pytest.raises(SystemExit) as end:
            main([verb, *argv, "-z", fleet.connection])
        printed = capsys.readouterr()
        return end.value.code, printed.out, printed.err

    return call


def holds(host: AgentHost) -> bool:
    return "step" not in host.node


def test_an_operator_takes_a_host_out_and_brings_it_back(fleet: Fleet, publishing: Publishing, run):
    h1, h2 = fleet.host("h1"), fleet.host("h2")
    first = publishing.push(TREE.format(version="1.0"))
    publishing.sync(force=True)
    with h1.agent(), h2.agent():
        for host in (h1, h2):
            host.wait_for_version(first)
        code, out, _ = run("cordon", "h2", "--until", "2h", "--reason", "new disk")
        assert code == 0
        assert "cordoned h2.example.com\n" in out

        for version in ("2.0", "1.0"):  # neither publication waits for the host
            revision = publishing.push(TREE.format(version=version))
            publishing.sync()
            h1.wait_for_version(revision)
        assert h2.node["version"] == first
        assert not [call for call in fleet.calls() if call.startswith("h2")][2:]
        code, out, _ = run("status")
        assert code == 0
        assert "in maintenance" in out
        code, out, _ = run("why", "h2")
        assert "is in maintenance until" in out
        assert "new disk" in out

        code, _, err = run("cordon", "h1", "--at-most", "1", "--reason", "also")
        assert code == 3
        assert "2 hosts would be in maintenance: expected at most 1; now h2.example.com is in maintenance" in err

        assert run("uncordon", "h2")[0] == 0
        h2.wait_for_version(revision)
        code, _, err = run("uncordon", "h2")
        assert code == 3
        assert "h2.example.com is not in maintenance" in err
    with Session(fleet.connection) as session:
        assert [act.what for act in read_acts(session)] == ["cordon h2 until 2h", "uncordon h2"]


def test_a_maintenance_ends_by_itself_and_the_agent_continues_at_that_time(
    fleet: Fleet, publishing: Publishing, run
):
    h1 = fleet.host("h1")
    first = publishing.push(TREE.format(version="1.0"))
    publishing.sync(force=True)
    with h1.agent():
        h1.wait_for_version(first)
        second = publishing.push(TREE.format(version="2.0"))
        begun = time.time()
        assert run("cordon", "h1", "--until", "20s", "--reason", "new disk")[0] == 0
        publishing.sync()
        assert h1.node["version"] == first
        h1.wait_for_version(second)  # far earlier than after the five minutes of a cycle
        assert time.time() >= begun + 20


def test_a_running_script_ends_and_nothing_new_begins(fleet: Fleet, publishing: Publishing, run):
    h1 = fleet.host("h1")
    block = h1.block()
    revision = publishing.push(TWO)
    publishing.sync(force=True)
    with h1.agent():
        wait_until(lambda: len(fleet.calls()) == 1, "the first script runs")
        assert run("cordon", "h1", "--reason", "new disk")[0] == 0
        block.unlink()
        wait_until(lambda: holds(h1), "the agent holds")
        assert len(fleet.calls()) == 2  # the begin and the end of one script
        assert run("uncordon", "h1")[0] == 0
        h1.wait_for_version(revision)


@pytest.mark.parametrize("verb", ["stop", "hold"])
def test_a_stop_of_one_host_is_refused_with_the_verb_for_it(run, verb: str):
    code, out, err = run(verb, "h2", "--reason", "new disk")
    assert (code, out) == (2, "")
    assert f"{verb} is for the whole fleet; cordon is for a host: zkdeployment cordon h2 --reason TEXT" in err
    assert err.count("NOT ") == 1


def test_a_host_in_maintenance_is_not_retried(fleet: Fleet, publishing: Publishing, run):
    h1 = fleet.host("h1")
    h1.fail("/shop/db 0")
    publishing.push(TREE.format(version="1.0"))
    publishing.sync(force=True)
    with h1.agent():
        h1.wait_for_error()
        wait_until(lambda: fleet.version is None, "the fleet stops")
        assert run("cordon", "h1", "--reason", "new disk")[0] == 0
        code, _, err = run("retry", "h1")
    assert code == 3
    assert "h1 cannot try again: it is in maintenance by" in err


def test_a_host_in_maintenance_releases_the_lock_that_other_hosts_wait_for(
    fleet: Fleet, publishing: Publishing, run, monkeypatch: pytest.MonkeyPatch
):
    h1, h2 = fleet.host("h1"), fleet.host("h2")
    block = h1.block()
    revision = publishing.push(TREE.format(version="1.0"))
    publishing.sync(force=True)

    def die(_reporting: HostReporting) -> None:
        if fleet.calls():
            raise KeyboardInterrupt

    with build_agent(load(h1.config), packages=h1.packages) as (agent, _), monkeypatch.context() as dying:
        dying.setattr(HostReporting, "tick", die)
        with pytest.raises(KeyboardInterrupt):
            agent.run_once()
    block.unlink()
    assert fleet.get("/zkdeployment/busy/shop,db")["kept"] is True
    assert run("cordon", "h1", "--reason", "new disk")[0] == 0
    with h1.agent(), h2.agent():
        h2.wait_for_version(revision)
        assert holds(h1)
    assert fleet.calls().count("h1 start /shop/db 0") == 1


def test_an_operator_drains_a_host_and_brings_it_back(fleet: Fleet, publishing: Publishing, run):
    h1, h2 = fleet.host("h1"), fleet.host("h2")
    first = publishing.push((TREE + ALONE).format(version="1.0"))
    publishing.sync(force=True)
    with h1.agent(), h2.agent():
        for host in (h1, h2):
            host.wait_for_version(first)
        assert run("cordon", "h2", "--drain", "--reason", "new kernel")[0] == 0
        wait_until(lambda: "kept" in fleet.get("/zkdeployment/maintenance/h2"), "the host is drained")
        assert fleet.get("/zkdeployment/maintenance/h2")["kept"] == {"/shop/web": "no other host runs it"}
        assert fleet.calls().count("h2 start -u /shop/db 0") == 1
        assert not [call for call in fleet.calls() if "-u" in call and "h2 " not in call]
        code, out, _ = run("status")
        assert code == 0
        assert "in maintenance, drained (keeps /shop/web: no other host runs it), by" in out

        second = publishing.push((TREE + ALONE).format(version="2.0"))
        publishing.sync()  # does not wait for the drained host, which still deploys nothing
        h1.wait_for_version(second)
        assert [call for call in fleet.calls() if call.startswith("h2")][-1].endswith("-u /shop/db 0")

        assert run("uncordon", "h2")[0] == 0
        h2.wait_for_version(second)
        assert [call for call in fleet.calls() if call.startswith("h2 start")][-1] in {
            "h2 start /shop/db 0",
            "h2 start /shop/web 0",
        }
    with Session(fleet.connection) as session:
        assert [act.what for act in read_acts(session)] == ["cordon h2 --drain", "uncordon h2"]


def test_a_drained_host_whose_packages_cannot_be_read_does_not_stop_the_fleet(
    fleet: Fleet, publishing: Publishing, run, monkeypatch: pytest.MonkeyPatch
):
    h1, h2 = fleet.host("h1"), fleet.host("h2")
    first = publishing.push(TREE.format(version="1.0"))
    publishing.sync(force=True)
    with h1.agent(), h2.agent() as drained:
        wait_for_versions([h1, h2], first)
        assert run("cordon", "h2", "--drain", "--reason", "new kernel")[0] == 0
        wait_until(lambda: "kept" in fleet.get("/zkdeployment/maintenance/h2"), "the host is drained")

        def locked() -> None:
            raise PackageError("rpm is locked")

        with monkeypatch.context() as broken:
            broken.setattr(h2.packages, "installed", locked)
            drained.wait_until_idle()
            assert h2.wait_for_error() == "rpm is locked"
            drained.wait_until_idle()
            shown = fleet.client.get("/hosts/h2")[1].version
            drained.wait_until_idle()
            assert fleet.client.get("/hosts/h2")[1].version == shown
        assert fleet.version == first
        drained.wait_until_idle()
        wait_until(lambda: "error" not in h2.node, "the error is gone")


def test_two_hosts_that_are_drained_at_once_keep_the_service_that_only_they_have(
    fleet: Fleet, publishing: Publishing, run
):
    h1, h2 = fleet.host("h1"), fleet.host("h2")
    first = publishing.push(TREE.format(version="1.0"))
    publishing.sync(force=True)
    with h1.agent(), h2.agent():
        for host in (h1, h2):
            host.wait_for_version(first)
        assert run("cordon", "h1", "h2", "--drain", "--reason", "new switch")[0] == 0
        for name in ("h1", "h2"):
            wait_until(lambda: "kept" in fleet.get(f"/zkdeployment/maintenance/{name}"), "the host is drained")  # noqa: B023
    assert not [call for call in fleet.calls() if "-u" in call]


def test_a_maintenance_of_the_other_host_prevents_the_undeployment_that_waits_for_the_lock(
    fleet: Fleet, publishing: Publishing, run, monkeypatch: pytest.MonkeyPatch
):
    h1, h2 = fleet.host("h1"), fleet.host("h2")
    first = publishing.push(TREE.format(version="1.0"))
    publishing.sync(force=True)
    with h1.agent(), h2.agent():
        for host in (h1, h2):
            host.wait_for_version(first)
    assert run("cordon", "h2", "--drain", "--reason", "new kernel")[0] == 0
    read = DrainSupervision.conditions

    def cordoned_meanwhile(supervision: DrainSupervision, step: Undeploy):
        found = read(supervision, step)
        run("cordon", "h1", "--drain", "--reason", "new kernel, too")
        return found

    monkeypatch.setattr(DrainSupervision, "conditions", cordoned_meanwhile)
    with h1.agent():
        h1.wait_for_version(first)  # else h2 may find no other host that runs the service
        with h2.agent():
            for host in ("h1", "h2"):
                wait_until(lambda: "kept" in fleet.get(f"/zkdeployment/maintenance/{host}"), "the host is drained")  # noqa: B023
    assert not [call for call in fleet.calls() if "-u" in call]


def test_a_failed_undeployment_stops_the_fleet_and_the_drain_continues_after_a_resume(
    fleet: Fleet, publishing: Publishing, run
):
    h1, h2 = fleet.host("h1"), fleet.host("h2")
    first = publishing.push(TREE.format(version="1.0"))
    publishing.sync(force=True)
    with h1.agent(), h2.agent():
        for host in (h1, h2):
            host.wait_for_version(first)
        failing = h2.fail("-u /shop/db 0")
        assert run("cordon", "h2", "--drain", "--reason", "new kernel")[0] == 0
        wait_until(lambda: fleet.version is None, "the fleet stops")
        assert "kept" not in fleet.get("/zkdeployment/maintenance/h2")
        code, _, err = run("retry", "h2")
        assert code == 3
        assert "h2 cannot try again: it is in maintenance, being drained, by" in err

        failing.unlink()
        assert run("resume", "--reason", "the script is repaired")[0] == 0
        wait_until(lambda: fleet.get("/zkdeployment/maintenance/h2").get("kept") == {}, "the host is drained")
        assert run("uncordon", "h2")[0] == 0
        h2.wait_for_version(first)


def deploy_and_change(fleet: Fleet, hosts: Sequence[AgentHost]) -> None:
    """Let the hosts deploy r1 and end their agents, then set the version r2."""
    fleet.set_version("r1")
    with ExitStack() as agents:
        for host in hosts:
            agents.enter_context(host.agent())
        wait_for_versions(hosts, "r1")
    fleet.journal.unlink()
    fleet.set_version("r2")


def test_a_drained_host_and_a_host_that_deploys_do_not_act_at_once_under_a_roles_controller(fleet: Fleet, run):
    fleet.controller("web", "ctl", "1.0")
    fleet.service("/shop/db", "foo", "1.0", web=1)
    h1, h2, h3 = hosts = [fleet.host(name, role="web") for name in ("h1", "h2", "h3")]
    deploy_and_change(fleet, hosts)
    block = h2.block()
    with h3.agent():
        h3.wait_for_version("r2")
        with h2.agent(), h1.agent():
            wait_until(lambda: fleet.calls()[-1] == "h2 start starting-deployments /roles/web", "h2 begins")
            assert run("cordon", "h1", "--drain", "--reason", "new kernel")[0] == 0

            def waits_to_undeploy() -> bool:
                node = h1.node
                return node.get("steps") == [0, 1] and "wait for the lock of role web" in node.get("step", "")

            wait_until(waits_to_undeploy, "h1 waits with its only step")
            block.unlink()
            h2.wait_for_version("r2")
            wait_until(lambda: fleet.get("/zkdeployment/maintenance/h1").get("kept") == {}, "the host is drained")
    assert fleet.calls()[-3:] == ["h2 end ending-deployments /roles/web", *called("-u /shop/db 0")]
    assert fleet.requests("web") == []


def test_a_drain_that_changed_nothing_releases_the_lock_of_its_role_when_the_agent_ends(fleet: Fleet, run):
    fleet.controller("web", "ctl", "1.0")
    fleet.service("/shop/db", "foo", "1.0", web=1, other=1)
    h1, h2, h3 = hosts = fleet.host("h1", role="web"), *(fleet.host(name, role="other") for name in ("h2", "h3"))
    deploy_and_change(fleet, hosts)
    block = h3.block()
    with h2.agent():
        h2.wait_for_version("r2")
        with h3.agent():
            wait_until(lambda: fleet.calls()[-1].startswith("h3 start"), "h3 begins")
            assert run("cordon", "h1", "--drain", "--reason", "new kernel")[0] == 0
            with h1.agent():
                wait_until(lambda: "wait for the lock of /shop/db" in h1.node.get("step", ""), "h1 waits")
                assert len(fleet.requests("web")) == 1
            assert fleet.requests("web") == []
            block.unlink()
            h3.wait_for_version("r2")


@pytest.mark.parametrize(
    "point",
    [
        "before:plan-drain",
        "before:lock",
        "before:give-up-version",
        "after:give-up-version",
        "before:undeploy",
        "before:unmark",
        "after:undeploy",
        "before:release",
        "after:release",
        "before:record-drain",
        "after:record-drain",
    ],
)
def test_an_agent_completes_the_drain_of_a_killed_agent(fleet: Fleet, publishing: Publishing, run, point: str):
    h1, h2 = fleet.host("h1"), fleet.host("h2")
    first = publishing.push(TREE.format(version="1.0"))
    publishing.sync(force=True)
    with h1.agent():
        with h2.agent():
            for host in (h1, h2):
                host.wait_for_version(first)
        assert run("cordon", "h2", "--drain", "--reason", "new kernel")[0] == 0
        with h2.process(failpoints=f"{point}=kill") as killed:
            assert killed.wait(60) == -signal.SIGKILL
        with h2.agent():
            wait_until(lambda: "kept" in fleet.get("/zkdeployment/maintenance/h2"), "the host is drained")
            assert h2.markers == []
            assert fleet.calls().count("h2 end -u /shop/db 0") >= 1
            assert run("uncordon", "h2")[0] == 0
            h2.wait_for_version(first)
    assert h2.markers == ["shop:db.0.deployed"]
    assert "h1 start -u /shop/db 0" not in fleet.calls()


PAIR = """
/shop
  /a : foo
    version = '{version}'
    /deploy
      /h1
      /h2
  /b : foo
    version = '{version}'
    /deploy
      /h1
      /h2
"""


def test_operators_interrupt_a_drain_between_two_services(fleet: Fleet, publishing: Publishing, run):
    h1, h2 = fleet.host("h1"), fleet.host("h2")
    revision = publishing.push(PAIR.format(version="1.0"))
    publishing.sync(force=True)

    @contextmanager
    def within_the_first_undeployment(*options: str) -> Iterator[None]:
        """Drain h2; its first undeployment lasts for the block."""
        h2.wait_for_version(revision)
        fleet.journal.unlink()
        block = h2.block()
        assert run("cordon", "h2", "--drain", *options, "--reason", "new kernel")[0] == 0
        wait_until(lambda: fleet.calls() == ["h2 start -u /shop/a 0"], "the first undeployment runs")
        yield
        block.unlink()

    def wait_until_drained() -> None:
        wait_until(lambda: fleet.get("/zkdeployment/maintenance/h2").get("kept") == {}, "the host is drained")

    with h1.agent():
        with h2.agent() as drained:
            wait_for_versions([h1, h2], revision)
            with within_the_first_undeployment():
                assert run("uncordon", "h2")[0] == 0
            h2.wait_for_version(revision)
            assert "h2 start -u /shop/b 0" not in fleet.calls()

            end = time.time() + 20
            with within_the_first_undeployment("--until", f"{datetime.fromtimestamp(end, UTC).isoformat()}"):
                wait_until(lambda: time.time() > end, "the maintenance is over")
            h2.wait_for_version(revision)
            assert "h2 start -u /shop/b 0" not in fleet.calls()

            with within_the_first_undeployment():
                assert run("stop", "--reason", "wait")[0] == 0
            wait_until(lambda: holds(h2) and "deploying" not in h2.node, "the host holds")
            assert fleet.calls() == called("-u /shop/a 0", host="h2")
            assert run("resume", "--reason", "continue")[0] == 0
            wait_until_drained()
            assert fleet.calls() == called("-u /shop/a 0", "-u /shop/b 0", host="h2")
            assert run("uncordon", "h2")[0] == 0

            with within_the_first_undeployment():
                revision = publishing.push(PAIR.format(version="2.0"))
                publishing.sync()
            h1.wait_for_version(revision)
            drained.wait_until_idle()  # the host kept the service while h1 was not at the revision
            wait_until_drained()
            assert [call for call in fleet.calls() if call.startswith("h2")] == called(
                "-u /shop/a 0", "-u /shop/b 0", host="h2"
            )
        assert run("forget", "h2", "--force", "--reason", "replaced")[0] == 0
        assert fleet.client.exists("/zkdeployment/maintenance/h2") is None
        with h2.agent():
            h2.wait_for_version(revision)
            assert h2.markers == ["shop:a.0.deployed", "shop:b.0.deployed"]


def test_a_service_whose_other_instance_is_down_is_kept_until_it_registers(
    fleet: Fleet, publishing: Publishing, run
):
    h1, h2 = fleet.host("h1"), fleet.host("h2")
    first = publishing.push(TREE.format(version="1.0"))
    publishing.sync(force=True)
    with h1.agent(), h2.agent() as drained:
        wait_for_versions([h1, h2], first)
        fleet.write("/shop/db/providers/h2:80", {"host": "h2", "deployment": "/shop/db 0"})
        assert run("cordon", "h2", "--drain", "--reason", "new kernel")[0] == 0
        wait_until(lambda: "kept" in fleet.get("/zkdeployment/maintenance/h2"), "the host is drained")
        assert fleet.get("/zkdeployment/maintenance/h2")["kept"] == {"/shop/db": "no other host runs it"}
        fleet.write("/shop/db/providers/h1:80", {"host": "h1", "deployment": "/shop/db 0"})
        drained.wait_until_idle()
        wait_until(lambda: fleet.get("/zkdeployment/maintenance/h2")["kept"] == {}, "the host is drained")
