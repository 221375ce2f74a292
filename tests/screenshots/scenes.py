"""Fleets as photographs show them: three sizes, and each in the states that people meet."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from screenshots.intents import intent_records
from zkdeployment.base.deployment import HostResult
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.source_files import SourceFile
from zkdeployment.fleet.traces.spans import StepTime
from zkdeployment.strategies import state_machine
from zkdeployment.strategies.permission import Phase, PhaseReport
from zkdeployment.strategies.progress import end, start
from zkdeployment.strategies.state import ActivePhase, Ending, RolloutFacts
from zkdeployment.strategies.state_machine import next_task
from zkdeployment.strategies.strategy import Criteria, Group, Pace, ParallelLimit, Selector, Strategy
from zkdeployment.tree.lint import lint

if TYPE_CHECKING:
    from support.fleets.written import WrittenFleet
    from zkdeployment.strategies.state import RolloutState

OLD = "c1fb3efd0f9151e8ac7e5b0dd6f2a1c4b3e2d1f0"
NEW = "4f2a9c17b0d14e6f8a2b3c4d5e6f708192a3b4c5"

_ERROR = "exit status 1: fatal: bind 0.0.0.0 port 25: Address already in use"
_OUTPUT = """\
unpacking mail-relay 1.3
stopping mail-relay 1.2 (process 3141)
checking the queue: 0 messages
starting mail-relay 1.3
fatal: bind 0.0.0.0 port 25: Address already in use"""

#: The most hosts of a publication whose results a record has; the record of a larger one only counts them.
_MOST_RESULTS = 4000

_ROLES = ("web", "shop", "mail", "db")


class Scene(Enum):
    """The states of a fleet that are photographed."""

    CONVERGED = "converged"
    ROLLING = "rolling"
    STOPPED = "stopped"
    AWAY = "away"  # ZooKeeper is away


@dataclass(frozen=True)
class Plot:
    """A fleet of a size in a scene, at a time."""

    size: int
    scene: Scene
    now: float

    @property
    def identities(self) -> list[Identity]:
        """The hosts."""
        if self.size < 10:
            return [Identity(f"host{n}", f"host{n}.example.com", "web") for n in range(1, self.size + 1)]
        return [
            Identity(
                f"i-{n:05x}", f"{_ROLES[n * 4 // self.size]}{n:05}.ams.example.com", _ROLES[n * 4 // self.size]
            )
            for n in range(self.size)
        ]

    @property
    def strategy(self) -> Strategy | None:
        """The strategy of larger fleets: two canaries, then one role after the other."""
        if self.size < 10:
            return None
        canaries = frozenset(identity.name for identity in self.identities[:2])
        previous, groups = "canaries", [_group("canaries", Selector(names=canaries), critical=True)]
        for role in _ROLES:
            names = frozenset(identity.name for identity in self.identities if identity.role == role) - canaries
            groups.append(
                _group(role, Selector(names=names), previous, critical=role == "web", manual=role == "db")
            )
            previous = role
        return Strategy("canaries-first", tuple(groups))

    @property
    def strategy_document(self) -> str:
        """The document of the strategy of larger fleets."""
        assert self.strategy is not None
        groups = [
            {
                "name": group.name,
                "critical": group.critical,
                "depends_on": list(group.depends_on),
                "selectors": [{"node_names": sorted(selector.names)} for selector in group.selectors],
                "success_criteria": {"percent_successful_nodes": group.criteria.percent_successful},
                "max_parallel": "5%",
                "bake_time": group.pace.bake_time,
                "manual": group.pace.manual,
            }
            for group in self.strategy.groups
        ]
        name = self.strategy.name
        return "\n---\n".join(
            json.dumps({"schema": f"shipyard/{kind}/v1", "metadata": {"name": name}, "data": data})
            for kind, data in (
                ("DeploymentConfiguration", {"deployment_strategy": name}),
                ("DeploymentStrategy", {"groups": groups}),
            )
        )

    @property
    def tree(self) -> str:
        """The text of the tree."""
        if self.size < 10:
            return _SMALL_TREE
        return _TREE

    @property
    def service(self) -> str:
        """The service that hosts deploy at the moment."""
        return "/shop/web" if self.size < 10 else "/mail/relay"

    @property
    def age(self) -> float:
        """Seconds since the last publication."""
        return 260.0 if self.scene in {Scene.ROLLING, Scene.STOPPED} else 5_400.0

    @property
    def done(self) -> int:
        """The number of hosts that have the new revision."""
        share = {Scene.ROLLING: 0.62, Scene.STOPPED: 0.62}.get(self.scene, 1.0)
        return max(1, int(self.size * share))

    def hosts(self) -> list[Host]:
        """Return the registered hosts."""
        hosts = []
        for place, identity in enumerate(self.identities):
            host = Host(identity, NEW, rack=f"rack{place % 12 + 1:02}")
            if place >= self.done:
                host = replace(host, version=OLD)
                if place < self.done + max(1, self.size // 50) and self.scene is Scene.ROLLING:
                    step = f"deploy {self.service} 0"
                    host = replace(host, version=None, former=OLD, deploying=NEW, step=step, steps=(2, 5))
            hosts.append(host)
        return [host for place, host in enumerate(hosts) if not self.is_absent(place)]

    def is_absent(self, place: int) -> bool:
        """Return whether the host at a place is not registered."""
        return self.size > 10 and self.scene in {Scene.ROLLING, Scene.STOPPED} and place % 97 == 41

    def _finished(self, place: int) -> float:
        """Return when the host at a place had the new revision: one host after the other."""
        return self.now - self.age + 50 + 180 * place / max(1, self.done)

    def steps(self) -> dict[str, tuple[StepTime, ...]]:
        """Return the steps that hosts showed since the last publication, by host id; every third host waited."""
        found: dict[str, tuple[StepTime, ...]] = {}
        deploy, lock = (
            f"deploy {self.service} 0",
            f"wait for the lock of {self.service}, held by {{0.name}} ({{0.id}})",
        )
        identities = self.identities
        for place, identity in enumerate(identities[: self.done]):
            end = self._finished(place)
            begun = end - 30 if place % 3 else end - 18
            wait = StepTime(lock.format(identities[place - 1]), end - 30, begun)
            found[identity.id] = (
                StepTime("change packages", end - 41, end - 30),
                *((wait,) if place % 3 == 0 and place else ()),
                StepTime(deploy, begun, end),
            )
        active = [host.identity for host in self.hosts() if host.deploying]
        behind = [host.identity for host in self.hosts() if host.version == OLD]
        for place, identity in enumerate(active):
            found[identity.id] = (
                StepTime("change packages", self.now - 44 + place % 9, self.now - 30),
                StepTime(deploy, self.now - 30),
            )
        for identity in behind[:2] if active else ():
            found[identity.id] = (StepTime(lock.format(active[0]), self.now - 26),)
        return found

    def write(self, fleet: WrittenFleet) -> None:
        """Write the fleet into ZooKeeper."""
        registered = self.hosts()
        fleet.register(*(replace(host, version=None, former=None, deploying=None) for host in registered))
        results = [
            HostResult(identity.id, identity.name, self.now - 80_000, 41.0 + len(identity.name) % 7)
            for identity in (self.identities if self.size <= _MOST_RESULTS else ())
        ]
        former = fleet.publish(
            OLD,
            self.tree.replace("1.3", "1.2"),
            subject="Web 1.2: the cart shows prices with tax",
            author="Sam Okafor <sam@example.com>",
            results=results,
            hosts=self.size,
            age=90_000,
            left_out=self.size - len(results),
        )
        sequence = fleet.publish(
            NEW,
            self.tree,
            subject="Web 1.3: sessions survive a restart",
            results=[
                replace(result, time=self._finished(place)) for place, result in enumerate(results[: self.done])
            ],
            hosts=self.size,
            strategy=self.strategy,
            age=self.age,
            left_out=0 if results else self.done,
        )
        hosts = [replace(host, completed=sequence if host.version == NEW else None) for host in registered]
        fleet.register(*hosts)
        at = self.now - 600
        fleet.report(*self.identities[: self.done], at=at, installed=True)
        fleet.report(*self.identities[self.done :], version="1.2", at=at)
        tree = lint([SourceFile("a.zk", self.tree.encode())]).tree
        fleet.record(*intent_records(tree, sequence, former, self.now) if self.size == 300 else ())
        if self.strategy is not None:
            fleet.begin_rollout(self._rollout(self.strategy, sequence, self.now - self.age))
        step = f"deploy {self.service} 0"
        if self.scene is Scene.STOPPED:
            for host in hosts[self.done : self.done + (1 if self.size < 10 else 2)]:
                failed = replace(host, version=None, former=OLD, error=_ERROR, output=_OUTPUT)
                fleet.fail(failed, step, _ERROR, NEW)
        if self.scene is Scene.ROLLING:
            active = [host.identity for host in hosts if host.deploying]
            waiting = [host.identity for host in hosts if host.version == OLD][:2]
            fleet.hold_lock(self.service, active[0], *waiting, step=step)

    def _rollout(self, strategy: Strategy, sequence: int, begun: float) -> RolloutState:
        present = {host.identity.id: host.facts for host in self.hosts()}
        observation = RolloutFacts(now=begun, present=present)
        state = start(strategy, observation, sequence=sequence, attempt=1, revision=NEW)
        current = frozenset(host.identity.id for host in self.hosts() if host.version == NEW)
        while (task := next_task(state.rollout)) is not None and current.issuperset(task.hosts):
            state = replace(state, rollout=state_machine.record(state.rollout, task, sorted(task.hosts)))
        if task is None:
            return end(state, Ending.COMPLETED, self.now - 4_000)
        if task.phase is Phase.PREPARE:
            state = replace(state, rollout=state_machine.record(state.rollout, task, sorted(task.hosts)))
            task = next_task(state.rollout)
            assert task is not None
        active = {host.identity.id for host in self.hosts() if host.deploying}
        reports = {host: PhaseReport(self.now - 90) for host in current.intersection(task.hosts)}
        granted = dict.fromkeys(active.intersection(task.hosts) | reports.keys(), self.now - 100)
        return replace(
            state,
            active_phase=ActivePhase(task, self.now - 200, self.now - 12, granted, reports),
            coordinated_at=self.now,
        )


def _group(name: str, selector: Selector, *after: str, critical: bool = False, manual: bool = False) -> Group:
    pace = Pace(max_parallel=ParallelLimit(5, percent=True), bake_time=60.0, manual=manual)
    criteria = Criteria(percent_successful=95)
    return Group(name, critical, depends_on=after, selectors=(selector,), criteria=criteria, pace=pace)


_SMALL_TREE = """
/shop
  /web : shop-web
    version = '1.3'
    port = 8080
    /providers
    /deploy
      /web
  /cart : shop-cart
    version = '2.0.4'
    /providers
    /deploy
      /web
        n = 2
"""

_TREE = """
/shop
  /web : shop-web
    version = '1.3'
    port = 8080
    workers = 12
    /providers
    /deploy
      /web
  /cart : shop-cart
    version = '2.0.4'
    /providers
    /deploy
      /shop
        n = 2
  /search : shop-search
    version = '5.11'
    /providers
    /deploy
      /shop
/mail
  /relay : postfix-relay
    version = '3.7'
    /deploy
      /mail
/data
  /customers : patroni
    version = '4.0'
    /providers
    /deploy
      /db
"""
