"""Small fleets whose runs follow choices: what a search explores, and a file replays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulation.chosen_schedule import FROZEN, ChosenNetwork
from simulation.daemon_processes import coordinator_daemon, syncer_daemon
from simulation.green import Event
from simulation.group_stops import GROUPS
from simulation.operators import Operators
from simulation.repository import ServicePlan
from simulation.scenarios import BESIDE
from simulation.world import Options, World
from support.strategies import canary_first
from zkdeployment.fleet.operator import operator_adapters
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import encode
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Set

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simulation.machine import Machine
    from simulation.races import Step
    from simulation.scenarios import Scenario

#: Seconds after which an operator acts on a fleet that does not converge, and on one that is stopped.
_REPAIR, _RESUME = 400.0, 60.0


class SmallOperators(Operators):
    """The operator of a small fleet, whose session is open before anything else happens."""

    def __init__(self, world: SmallWorld, scenario: Scenario) -> None:
        super().__init__(world)
        self._scenario = scenario
        self._orders: list[str] = []
        self._ordered = Event(world.network.scheduler)

    def push_first(self) -> None:
        """Push the first tree."""
        targets = {f"h{number}": 1 for number in range(self._scenario.hosts)}
        for number in range(self._scenario.services):
            self._plan.services[number] = ServicePlan("1.0", dict(targets))
        if self._world.theme.group_stops:
            self._plan.stopping = frozenset(GROUPS)
        if self._scenario.ordered:
            self._plan.services[1].after = (0,)
        if self._scenario.governed:
            self._plan.strategy = canary_first({"node_tags": ["canary"]})
            for number in range(1, self._scenario.services):
                self._plan.services[number].rerun = "changed"
        self._push()

    def work(self) -> None:
        """Perform one act after another."""
        with Session("zk1:2181", session_timeout=10.0, create_chroot=True) as session:
            self._session, self._adapters = session, operator_adapters(session)
            while True:
                self._ordered.wait()
                self._ordered.clear()
                while self._orders:
                    act = getattr(self, f"_{self._orders.pop(0).replace(' ', '_')}")
                    self.attempt(act)

    def stopped(self) -> None:
        """Do nothing at once."""

    def order(self, act: str) -> None:
        """Let the operator perform an act."""
        self._orders.append(act)
        self._ordered.set()

    def find_obstacle(self) -> str | None:
        """Return why the fleet has not converged."""
        self.obstacle = self._find_obstacle() or ""
        return self.obstacle or None

    def _push_version(self) -> None:
        """Push another version of the first service."""
        self._plan.services[0].version = "2.0"
        self._push()

    def _correct(self) -> None:
        """Change the node of the first service by hand, and publish the tip again."""
        self._change_by_hand("/s0/app")
        self._resume_latest()

    def _version_by_hand(self) -> None:
        """Set the version null by hand, and keep the other properties."""
        hosts = self._session.get(paths.HOSTS)
        if hosts is not None:
            self._session.commit(Set(paths.HOSTS, encode({**hosts.properties, "version": None}), hosts.version))

    def _push_removal(self) -> None:
        """Push a tree without instances of the first service on the first host."""
        self._plan.services[0].targets.pop("h0")
        self._push()


class SmallWorld(World):
    """A small fleet whose steps follow ``choices`` and then a fixed order."""

    patience = 1800.0

    def __init__(
        self,
        scenario: Scenario,
        choices: Sequence[str],
        watch: Callable[[str], None] | None = None,
        history: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.scenario = scenario
        self.chosen = ChosenNetwork(scenario, choices, trace=self.trace)
        options = Options(0, scenario.hosts, scenario.services, faults=0.0, theme=scenario.theme)
        super().__init__(options, watch, history, self.chosen)
        self.operators = self._operators = SmallOperators(self, scenario)
        self.chosen.events = self._possible_events
        self.chosen.bring = self._bring
        self._acts = list(scenario.acts)
        self._acted = self.now

    @property
    def steps(self) -> list[Step]:
        """The steps of the run."""
        return self.chosen.steps

    def script_seconds(self) -> float:
        """Return how long a script takes."""
        return self.scenario.script

    def script_fails(self, machine: Machine) -> bool:
        """Decide whether a script fails."""
        return self.chosen.may_fail(machine.name)

    # Inside

    def _start(self) -> None:
        self.network.scheduler.spawn(self.new_process("operator"), self.operators.work)
        self.network.scheduler.run(self.now + 1.0, lambda: True)
        self.operators.push_first()
        self.daemons["syncer"] = syncer_daemon(self, "syncer")
        self.daemons["syncer"].start()
        if self.scenario.governed:
            self.daemons["coordinator"] = coordinator_daemon(self, "coordinator")
            self.daemons["coordinator"].start()
        for number in range(self.options.hosts):
            self.add_machine(number)

    def _possible_events(self) -> list[str]:
        """Return the next act, and the faults of agents whose scripts run."""
        running = [machine.name for machine in self.present_machines() if machine.running is not None]
        faults = [f"{name} {fault} beside its script" for name in running for fault in BESIDE]
        return [f"act {act}" for act in self._acts[:1]] + [
            fault for fault in faults if self.scenario.permits(fault, is_write=True)
        ]

    def _bring(self, event: str) -> None:
        """Bring an act or a fault."""
        if event.startswith("act "):
            self._perform_next()
            return
        daemon = self.daemons[event.split(maxsplit=1)[0]]
        process = daemon.process
        assert process is not None
        if "is terminated" in event:
            daemon.terminate()
        elif "a full disk" in event:
            disk = self.machines[daemon.name].disk
            disk.is_full = True
            self.network.scheduler.after(FROZEN, disk.empty)
        elif "is killed" in event:
            self.network.scheduler.kill(process)
        elif "loses" in event:
            self.network.expire(process)
        else:
            self.network.freeze(process, FROZEN)

    def _perform_next(self) -> None:
        self._operators.order(self._acts.pop(0))
        self._acted = self.now

    def _is_over(self) -> bool:
        """Whether the run is over; let the operator go on if the fleet waits for that."""
        if self.checks.violations:
            return True
        if not self._operators.find_obstacle():
            if not self._acts:
                self.operators.converged = True
                return True
            self._perform_next()
        elif self.now >= self._acted + (_RESUME if self.checks.is_stopped else _REPAIR):
            if self._acts:
                self._perform_next()
            else:
                self._operators.order("repair")
                self._acted = self.now
        self.chosen.scheduler.settle()  # type: ignore[attr-defined]
        return False
