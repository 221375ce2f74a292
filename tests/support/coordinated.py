"""A fleet for coordinators: a real ZooKeeper, simulated agents, and time that passes when a test says so."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from support.clocks import ManualClock
from support.metrics import probe_of
from zkdeployment.adapters.clock import SystemClock
from zkdeployment.adapters.systemd import SystemdNotifier
from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.adapters.zookeeper.client.transactions import Create, Delete, Set
from zkdeployment.adapters.zookeeper.publication.store import ZooKeeperPublications
from zkdeployment.adapters.zookeeper.rollout.acts import direct
from zkdeployment.adapters.zookeeper.rollout.records import decode_grant, encode_report, read_current, read_state
from zkdeployment.adapters.zookeeper.rollout.store import ZooKeeperRollouts
from zkdeployment.daemons.control import Control
from zkdeployment.daemons.coordinator.coordinator import Coordinator
from zkdeployment.model.act import Act
from zkdeployment.model.history import PublicationRecord
from zkdeployment.model.host import Host, Identity
from zkdeployment.model.publication import Publication, TreeChange
from zkdeployment.rollout.state import Directive, Ending, Grant, PhaseReport, RolloutState
from zkdeployment.rollout.state_machine import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from zkdeployment.model.strategy import Facts, Strategy


@dataclass
class CoordinatedFleet:
    """What coordinators and agents share. Agents do at once what they are granted.

    The ``failing`` (phase and host) report an error, the ``silent`` nothing. ``done`` is what was granted to whom,
    in order.
    """

    connection: str
    session: Session
    clock: ManualClock = field(default_factory=ManualClock)
    failing: set[tuple[str, str]] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    done: list[tuple[str, str, str]] = field(default_factory=list)

    def register(self, hosts: Mapping[str, Facts], version: str | None = None) -> None:
        """Let agents register."""
        for name, facts in hosts.items():
            identity = Identity(name, facts.name or name)
            host = Host(identity, version, tags=tuple(facts.tags), labels=facts.labels, rack=facts.rack)
            self.session.ensure(paths.HOSTS, encode({"version": "initial"}))
            self.session.commit(Create(f"{paths.HOSTS}/{name}", encode(host.properties()), ephemeral=True))

    def leave(self, host: str) -> None:
        """Let an agent end."""
        self.session.commit(Delete(f"{paths.HOSTS}/{host}"))

    def change(self, path: str, **properties: Any) -> None:
        """Set properties of a node."""
        node = self.session.get(path)
        assert node is not None
        self.session.commit(Set(path, encode(node.properties | properties)))

    def publish(self, revision: str, strategy: Strategy | None) -> None:
        """Publish a revision that changes nothing but the strategy."""
        store = ZooKeeperPublications(self.session)
        record = PublicationRecord(revision, self.clock.time)
        store.publish(
            Publication(
                revision,
                TreeChange(),
                {},
                expected=store.published_state().cluster,
                strategy=strategy,
                record=record,
            )
        )

    def act(self, directive: Directive, group: str | None = None, reason: str = "because") -> None:
        """Do what an operator's command does."""
        direct(
            self.session, directive, Act("ann@ops", f"rollout {directive.value}", reason, self.clock.time), group
        )

    def work(self) -> None:
        """Let every agent do what it was granted and has not done yet."""
        for host, grant in self.grants().items():
            if grant.phase is None or host in self.silent:
                continue
            path = paths.report_path(self.current, grant.phase.value, host)
            if self.session.get(path) is not None:
                continue
            self.done.append((grant.group, grant.phase.value, host))
            fails = (grant.phase.value, host) in self.failing
            report = PhaseReport(self.clock.time, "boom" if fails else None)
            if grant.phase is Phase.DEPLOY and not fails and self.session.get(f"{paths.HOSTS}/{host}"):
                self.change(f"{paths.HOSTS}/{host}", version=self.running.revision)
            self.session.commit(Create(path, encode_report(report)))

    @property
    def current(self) -> str:
        """The newest rollout."""
        found = read_current(self.session)
        assert found is not None
        return found

    @property
    def running(self) -> RolloutState:
        """Its state."""
        found = read_state(self.session)
        assert found is not None
        return found

    @property
    def version(self) -> object:
        """The cluster version."""
        node = self.session.get(paths.HOSTS)
        return node and node.properties["version"]

    def grants(self) -> dict[str, Grant]:
        """Return what stands in the grants' nodes."""
        above = paths.grants_path(self.current)
        found = {name: self.session.get(f"{above}/{name}") for name in self.session.children(above) or ()}
        return {unquote(name): decode_grant(node) for name, node in found.items() if node is not None}

    @contextmanager
    def coordinator(
        self,
        name: str = "one",
        reach: Callable[[str], None] = lambda _: None,
        *,
        live: bool = False,
        connect: Callable[[], None] | None = None,
        metrics: Path | None = None,
    ) -> Iterator[CoordinatorAtHand]:
        """Give a coordinator with a session of its own; its time stands still unless it is ``live``."""
        clock = SystemClock() if live else self.clock
        with Session(self.connection, session_timeout=6) as session:
            control = Control(clock)
            store = ZooKeeperRollouts(session, control.wake, identity=name, reach=reach)
            coordinator = Coordinator(
                store,
                clock,
                control,
                connect=connect or session.open,
                notifier=SystemdNotifier({}),
                probe=probe_of(session, metrics),
            )
            yield CoordinatorAtHand(coordinator, store, control)

    def wait(self, coordinator: Coordinator, seconds: float) -> None:
        """Let time pass, with a coordinator that looks now and then; agents do nothing meanwhile."""
        end = self.clock.time + seconds
        while self.clock.time < end:
            self.clock.time = min(end, self.clock.time + 15)
            coordinator.run_cycle()

    def run(self, coordinator: Coordinator, turns: int = 60) -> RolloutState:
        """Let coordinator and agents take turns until the rollout is over; return it."""
        for _ in range(turns):
            coordinator.run_cycle()
            if read_current(self.session) is not None:
                self.work()
                if self.running.ending not in {None, Ending.SUPERSEDED}:
                    coordinator.run_cycle()  # whatever follows the end
                    return self.running
        raise AssertionError(f"not over after {turns} turns: {self.running}")


@dataclass
class CoordinatorAtHand:
    """A coordinator and what it uses."""

    coordinator: Coordinator
    store: ZooKeeperRollouts
    control: Control

    def run_cycle(self) -> float:
        """Look once."""
        return self.coordinator.run_cycle()
