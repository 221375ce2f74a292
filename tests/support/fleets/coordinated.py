"""Fleets with a rollout in a real ZooKeeper: under a real coordinator, or under a test that acts as one."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from kazoo.exceptions import NodeExistsError

from support.metrics import probe_of
from support.strategies import advanced_rollout, begun_rollout, ended_rollout
from support.waiting import ManualClock
from zkdeployment.base.act import Act
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.fleet.operator import operator_adapters
from zkdeployment.fleet.store.cluster_control import direct
from zkdeployment.publishing.acts.commits import Author
from zkdeployment.publishing.records import Publication, PublicationRecord
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.rollouts.daemon import Coordinator, RecoverySteps
from zkdeployment.rollouts.store import ZooKeeperRollouts
from zkdeployment.strategies.daemon import LeaderAdapters
from zkdeployment.strategies.permission import Grant, Phase, PhaseReport
from zkdeployment.strategies.state import Directive, Ending, RolloutState
from zkdeployment.strategies.store.agent_records import decode_grant, encode_report
from zkdeployment.strategies.store.records import FencedLead, encode_state, read_current, read_state
from zkdeployment.strategies.strategy import MemberKind
from zkdeployment.tree.values import TreeChange
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import encode
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Create, Delete, Set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from support.agents import Fleet
    from zkdeployment.base.host import Facts
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits
    from zkdeployment.strategies.criteria import OutsideCriterion
    from zkdeployment.strategies.strategy import Strategy


@dataclass
class CoordinatedFleet:
    """The ZooKeeper session and the clock that coordinators and simulated agents share.

    ``failing`` pairs of phase and host report an error, ``silent`` hosts report nothing. ``done`` lists group,
    phase and host of every executed grant, in order.
    """

    connection: str
    session: Session
    clock: ManualClock = field(default_factory=ManualClock)
    failing: set[tuple[str, str]] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    done: list[tuple[str, str, str]] = field(default_factory=list)

    def register(self, hosts: Mapping[str, Facts], version: str | None = None) -> None:
        """Register hosts, as their agents would."""
        for name, facts in hosts.items():
            identity = Identity(name, facts.name or name)
            host = Host(identity, version, tags=tuple(facts.tags), labels=facts.labels, rack=facts.rack)
            self.session.ensure(paths.HOSTS, encode({"version": "initial"}))
            self.session.commit(Create(f"{paths.HOSTS}/{name}", encode(host.properties()), ephemeral=True))

    def leave(self, host: str) -> None:
        """Remove a host's registration, as the end of its session would."""
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
        """Record an operator's act, as the commands of ``zkdeployment rollout`` do."""
        direct(
            self.session, directive, Act("ann@ops", f"rollout {directive.value}", reason, self.clock.time), group
        )

    def work(self) -> None:
        """Execute the grant of every host that is not silent and has not reported yet."""
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
                self.change(f"{paths.HOSTS}/{host}", version=self.running.revision, sequence=self.running.sequence)
            self.session.commit(Create(path, encode_report(report)))

    @property
    def current(self) -> str:
        """The id of the newest rollout."""
        current = read_current(self.session)
        assert current is not None
        return current

    @property
    def running(self) -> RolloutState:
        """The state of the newest rollout."""
        state = read_state(self.session)
        assert state is not None
        return state

    @property
    def version(self) -> object:
        """The cluster version."""
        node = self.session.get(paths.HOSTS)
        return node and node.properties["version"]

    def grants(self) -> dict[str, Grant]:
        """Return every host's grant, from the nodes of the newest rollout."""
        above = paths.grants_path(self.current)
        nodes = {name: self.session.get(f"{above}/{name}") for name in self.session.children(above) or ()}
        return {unquote(name): decode_grant(node) for name, node in nodes.items() if node is not None}

    @contextmanager
    def coordinator(
        self,
        name: str = "one",
        reach: Callable[[str], None] = lambda _: None,
        *,
        live: bool = False,
        connect: Callable[[], None] | None = None,
        metrics: Path | None = None,
        commits: TreeCommits | None = None,
        criteria: Sequence[OutsideCriterion] = (),
    ) -> Iterator[CoordinatorHandle]:
        """Yield a coordinator with a session of its own; a ``live`` coordinator uses the system's clock.

        With ``commits`` the coordinator rolls back if the strategy requires it.
        """
        clock = SystemClock() if live else self.clock
        with Session(self.connection, session_timeout=6) as session:
            control = Control(clock)
            lead = FencedLead(session, MemberKind.HOST, reach, identity=name)
            store = ZooKeeperRollouts(session, lead, control.wake)
            recovery = None
            if commits is not None:
                recovery = RecoverySteps(
                    operator=operator_adapters(session),
                    open_commits=lambda: nullcontext(commits),
                    author=Author("coordinator", "coordinator@here"),
                    check=control.check,
                )
            adapters = LeaderAdapters(
                lead=lead,
                clock=clock,
                control=control,
                notifier=SystemdNotifier({}),
                probe=probe_of(session, metrics),
                connect=connect or session.open,
                criteria=criteria,
            )
            yield CoordinatorHandle(Coordinator(store, adapters, recovery), store, control)

    @contextmanager
    def coordinating(self, **options: Any) -> Iterator[None]:
        """Run a live coordinator on a thread; ``options`` are those of ``coordinator``."""
        with self.coordinator(live=True, **options) as daemon:
            thread = threading.Thread(target=daemon.coordinator.run)
            thread.start()
            try:
                yield
            finally:
                daemon.control.stop()
                thread.join(60)

    def wait(self, coordinator: Coordinator, seconds: float) -> None:
        """Advance the clock, with a coordinator cycle every 15 seconds; hosts execute nothing."""
        end = self.clock.time + seconds
        while self.clock.time < end:
            self.clock.time = min(end, self.clock.time + 15)
            coordinator.run_cycle()

    def run(self, coordinator: Coordinator, turns: int = 60) -> RolloutState:
        """Alternate coordinator cycles and hosts until the rollout has ended; return its state."""
        for _ in range(turns):
            coordinator.run_cycle()
            if read_current(self.session) is not None:
                self.work()
                if self.running.ending not in {None, Ending.SUPERSEDED}:
                    coordinator.run_cycle()  # acts after the end
                    return self.running
        raise AssertionError(f"not over after {turns} turns: {self.running}")


@dataclass
class CoordinatorHandle:
    """A coordinator with its store and its control."""

    coordinator: Coordinator
    store: ZooKeeperRollouts
    control: Control

    def run_cycle(self) -> float:
        """Run one cycle."""
        return self.coordinator.run_cycle()


class ScriptedRollout:
    """A rollout of ``revision``, whose records the test writes; a syncer may have ``published`` the revision."""

    def __init__(self, fleet: Fleet, revision: str, *, sequence: int = 1, published: bool = False) -> None:
        self._client = fleet.client
        self._sequence = sequence
        self.id = ""
        if published:
            return
        publication = {"version": None, "sequence": sequence, "strategy": "played", "ordered": revision}
        self._put(paths.TARGETS, publication)
        fleet.set_version(revision)

    def begin(self, attempt: int = 1) -> None:
        """Begin an attempt without grants."""
        self.id = f"{self._sequence}-{attempt}"
        for name in ("grants", "reports", "acts"):
            self._client.ensure_path(f"{paths.rollout_path(self.id)}/{name}")
        self._put(paths.ROLLOUTS, {"current": self.id})

    def grant(self, phase: str, host: str = "h1") -> None:
        """Grant a phase to a host."""
        self._put(paths.grant_path(self.id, host), {"phase": phase, "group": "some", "reason": ""})

    def withdraw(self, reason: str, host: str = "h1") -> None:
        """Withdraw a host's grant."""
        self._put(paths.grant_path(self.id, host), {"phase": None, "group": "some", "reason": reason})

    def end(self) -> None:
        """End the rollout as a failure would, without withdrawing the grants."""
        self._put(paths.ROLLOUTS, {"current": self.id, "over": True})

    def complete(self) -> None:
        """End the rollout as one whose groups all succeeded."""
        state = ended_rollout(advanced_rollout(begun_rollout()))
        self._client.set(paths.rollout_path(self.id), encode_state(replace(state, sequence=self._sequence)))

    def reports(self) -> dict[str, str | None]:
        """Return the reported error, or ``None`` for success, by ``PHASE:HOST``."""
        place = f"{paths.rollout_path(self.id)}/reports"
        return {
            name: json.loads(self._client.get(f"{place}/{name}")[0])["error"]
            for name in sorted(self._client.get_children(place))
        }

    def _put(self, path: str, value: object) -> None:
        """Set a node's value; a new node never exists without it, because agents may be reading it."""
        data = json.dumps(value).encode()
        try:
            self._client.create(path, data, makepath=True)
        except NodeExistsError:
            self._client.set(path, data)
