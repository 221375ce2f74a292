"""The contract of the services of fleets, for real services and their client, and for those of the simulation."""

from contextlib import contextmanager

import pytest

from simulation.promotions import PromotionOptions, PromotionWorld, SimulatedServices
from support.proxy import Proxy
from support.publishing import Publishing
from support.service import running_service
from support.waiting import UNLIMITED, wait_until
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.config.settings import load
from zkdeployment.promotion import services
from zkdeployment.promotion.records import DryRun, FleetState
from zkdeployment.promotion.services import FleetServices, ServiceClient, act_everywhere
from zkdeployment.service.users.user import Role

HOSTS = 4


def tree(version):
    names = "".join(f"    /h{number}\n" for number in range(HOSTS))
    return f"/hello : shop\n  version = '{version}'\n  /deploy\n{names}"


class RealArena:
    """One fleet with its service, which the promoter knows by two names: the first one behind a proxy."""

    first, second = "eu-1", "us-1"

    def __init__(self, directory, publishing, service, proxy) -> None:
        self._publishing = publishing
        self._proxy = proxy
        self._versions = 0
        self.addresses = {self.first: f"http://{proxy.address}", self.second: service.url}
        for role in (Role.VIEWER, Role.OPERATOR):
            tokens = directory / role.value
            tokens.mkdir()
            login = f"{':'.join(service.add_user(role))} 127.0.0.1"
            for name in self.addresses:
                (tokens / name).write_text(login)
                (tokens / name).chmod(0o600)
        self._operator = ServiceClient(directory / Role.OPERATOR.value)
        client = ServiceClient(directory / Role.VIEWER.value)
        self.services = FleetServices(client, SystemClock(), lambda: None, interval=0.01)

    def publish(self, converged=HOSTS):
        commit = self.commit()
        self._publishing.sync(force=True)
        for number in range(HOSTS):
            version = commit if number < converged else None
            self._publishing.register(f"h{number}", version, f"h{number}.example", since=1000.0)
        return commit

    def commit(self):
        self._versions += 1
        return self._publishing.push(tree(f"1.{self._versions}"))

    def bad_commit(self):
        return self._publishing.push(tree("2.0") + "nonsense\n")

    def stop(self):
        (outcome,) = act_everywhere(self._operator, {"us-1": self.addresses["us-1"]}, "stop", "a storm")
        assert outcome.problem == ""

    def leave(self):
        self._proxy.cut()

    def come_back(self):
        self._proxy.heal()

    def until(self, condition, awaited):
        wait_until(condition, awaited)


@contextmanager
def real_arena(directory, zookeeper, client):
    publishing = Publishing(directory, zookeeper, client)
    file = directory / "service.cfg"
    sync = f"[sync]\nurl = {publishing.repository.url}\ntree-directory = {directory}/mirror\n"
    file.write_text(f"[zkdeployment]\nzookeeper = {zookeeper}\n{sync}")
    publishing.push(tree("0.0"))
    with (
        pytest.MonkeyPatch.context() as patch,
        running_service(zookeeper, repository=load(file, host=False), call_timeout=UNLIMITED) as service,
    ):
        patch.setattr(services, "_REPORT", UNLIMITED)
        port = int(service.url.rpartition(":")[2])
        with Proxy("127.0.0.1", port) as proxy:
            yield RealArena(directory, publishing, service, proxy)


class SimulatedArena:
    """The services of two simulated fleets, of which both do the same."""

    first, second = "fleet0", "fleet1"

    def __init__(self) -> None:
        self._world = PromotionWorld(PromotionOptions(1, fleets=2, hosts=2 * HOSTS))
        self.services = SimulatedServices(self._world)
        self.addresses = dict.fromkeys(self._world.fleets, "https://service")

    def publish(self, converged=HOSTS):
        commit = self.commit()
        for fleet in self._world.fleets.values():
            fleet.published, fleet.converged = commit, converged
        return commit

    def commit(self):
        git = self._world.git
        git.branches["main"] = git.commit(git.branches["main"])
        return git.branches["main"]

    def bad_commit(self):
        while not self._world.dry_run(self.first, commit := self.commit()).refusal:
            pass
        return commit

    def stop(self):
        for fleet in self._world.fleets.values():
            fleet.is_stopped = True

    def leave(self):
        self._world.fleets[self.first].away = self._world.clock.time + 1000.0

    def come_back(self):
        self._world.fleets[self.first].away = -1.0

    def until(self, condition, awaited):
        for _ in range(20):
            self._world.clock.time += 1.0
            if condition():
                return
        raise AssertionError(awaited)


@pytest.fixture(params=["real", "simulated"])
def arena(request, tmp_path):
    if request.param == "simulated":
        yield SimulatedArena()
    else:
        zookeeper, client = request.getfixturevalue("zookeeper"), request.getfixturevalue("client")
        with real_arena(tmp_path, zookeeper, client) as opened:
            yield opened


def report(arena, name, is_wanted=lambda _: True):
    """Return the report of a fleet once it is the wanted one; both fleets are asked."""
    found = []

    def arrived():
        found.append(arena.services.reports(arena.addresses).get(name))
        return found[-1] is not None and is_wanted(found[-1])

    arena.until(arrived, f"the report of {name}")
    return found[-1]


def dry_run(arena, commit, is_wanted=lambda _: True):
    """Return the answer of the first fleet to a dry run of a commit, once it is the wanted one."""
    asked, found = {arena.first: arena.addresses[arena.first]}, []

    def arrived():
        found.append(arena.services.dry_runs(asked, commit).get(arena.first))
        return found[-1] is not None and is_wanted(found[-1])

    arena.until(arrived, "the answer to the dry run")
    return found[-1]


def test_a_service_has_no_report_before_it_has_answered(arena):
    arena.publish()
    assert arena.services.reports(arena.addresses) == {}
    assert report(arena, arena.first).read_at > 0
    arena.until(lambda: arena.services.reports(arena.addresses).keys() == arena.addresses.keys(), "both reports")


def test_a_service_that_is_no_longer_asked_is_forgotten(arena):
    arena.publish()
    report(arena, arena.first)
    one = {arena.second: arena.addresses[arena.second]}
    arena.until(lambda: arena.services.reports(one).keys() == one.keys(), "the other report")
    assert arena.first not in arena.services.reports(arena.addresses)
    report(arena, arena.first)


def test_a_fleet_without_a_publication_rolls_out(arena):
    found = report(arena, arena.first)
    assert (found.state, found.revision, found.converged) == (FleetState.ROLLING_OUT, None, 0)


def test_a_fleet_rolls_out_until_all_its_hosts_have_the_commit(arena):
    commit = arena.publish(converged=1)
    found = report(arena, arena.first, lambda found: found.revision == commit and found.hosts == HOSTS)
    assert (found.state, found.converged) == (FleetState.ROLLING_OUT, 1)
    commit = arena.publish()
    found = report(arena, arena.first, lambda found: found.state is FleetState.CONVERGED)
    assert (found.revision, found.hosts, found.converged, found.problem) == (commit, HOSTS, HOSTS, "")
    assert found.refused is None


def test_a_stopped_fleet_has_its_commit_and_a_problem(arena):
    commit = arena.publish(converged=1)
    arena.stop()
    found = report(arena, arena.first, lambda found: found.state is FleetState.STOPPED)
    assert found.revision == commit
    assert found.problem


def test_a_service_that_is_away_is_unreachable_and_delays_no_other(arena):
    arena.publish()
    report(arena, arena.first)
    arena.leave()
    found = report(arena, arena.first, lambda found: found.state is FleetState.UNREACHABLE)
    assert (found.revision, found.hosts, found.converged) == (None, 0, 0)
    assert found.problem
    report(arena, arena.second, lambda found: found.state is FleetState.CONVERGED)
    arena.come_back()
    report(arena, arena.first, lambda found: found.state is FleetState.CONVERGED)


def test_a_dry_run_is_answered_later_with_the_verdict_of_the_syncer(arena):
    arena.publish()
    good = arena.commit()
    assert arena.services.dry_runs(arena.addresses, good) == {}
    assert dry_run(arena, good) == DryRun()
    refused = dry_run(arena, arena.bad_commit())
    assert refused.refusal
    assert refused.problem == ""


def test_the_answers_about_another_commit_are_forgotten(arena):
    arena.publish()
    good = arena.commit()
    assert dry_run(arena, good).accepts
    assert arena.services.dry_runs({}, "") == {}
    assert arena.services.dry_runs(arena.addresses, good) == {}
    assert dry_run(arena, good).accepts


def test_a_dry_run_that_a_service_cannot_answer_has_a_problem(arena):
    arena.publish()
    good = arena.commit()
    arena.leave()
    answer = dry_run(arena, good)
    assert answer.problem
    assert (answer.refusal, answer.accepts) == ("", False)
