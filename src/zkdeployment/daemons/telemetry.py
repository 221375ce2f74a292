"""What the daemons remember for their metrics, and when they write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.metrics import (
    AgentFacts,
    CoordinatorFacts,
    Ended,
    Process,
    Publishing,
    Result,
    SyncerFacts,
    agent_metrics,
    coordinator_metrics,
    is_current,
    syncer_metrics,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zkdeployment.adapters.metrics_file import MetricsFile
    from zkdeployment.daemons.syncer import Report
    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.host import Host
    from zkdeployment.model.link import Link
    from zkdeployment.ports import Clock
    from zkdeployment.rollout.running import Running

#: What a look at the repository comes to unless it fails.
_PUBLISHED, _UNCHANGED = "published", "unchanged"

#: What a coordinator's look comes to unless it fails.
_LED, _QUEUED = "led", "queued"

_PACE = 10.0  # seconds between two signs of life while something goes on


class Probe:
    """What a daemon of any kind tells of its process, and where it tells it.

    ``version`` is that of the program, ``link`` tells of the connection to ZooKeeper.
    """

    def __init__(self, file: MetricsFile, clock: Clock, link: Callable[[], Link], version: str) -> None:
        self._link = link
        self._version = version
        self._started = clock.now()
        self.file = file
        self.clock = clock

    def process(self, *, up: bool) -> Process:
        """Return what is true of the process now."""
        return Process(self._version, self._started, self.clock.now(), up, self._link())


class AgentTelemetry:
    """What an agent's metrics are about."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._clock = probe.clock
        self._cluster: Cluster | None = None
        self._looked: float | None = None
        self._current: bool | None = None
        self._since: float | None = None
        self._begun: tuple[float, float] | None = None  # by the wall's clock and by the one that measures
        self._last: Ended | None = None
        self._ended = dict.fromkeys(Result, 0)
        self._due = 0.0

    def look(self, cluster: Cluster | None) -> None:
        """Note the cluster version as it was read just now."""
        self._cluster, self._looked = cluster, self._clock.now()

    def begin(self) -> None:
        """Note that a deployment begins."""
        self._begun = self._clock.now(), self._clock.monotonic()

    def end(self, result: Result) -> None:
        """Note how the deployment under way ended, if there is one."""
        if self._begun is None:
            return
        self._last = Ended(result, self._clock.now(), self._clock.monotonic() - self._begun[1])
        self._ended[result] += 1
        self._begun = None

    def beat(self, host: Host) -> None:
        """Write, unless that was done a moment ago."""
        if self._clock.monotonic() >= self._due:
            self.write(host)

    def write(self, host: Host, *, up: bool = True) -> None:
        """Write all metrics; ``up`` says whether the agent goes on."""
        self._due = self._clock.monotonic() + _PACE
        process = self._probe.process(up=up)
        current = is_current(host, self._cluster)
        if current is not self._current:
            self._current, self._since = current, process.now
        facts = AgentFacts(
            process=process,
            host=host,
            cluster=self._cluster,
            looked=self._looked,
            since=None if current is None else self._since,
            begun=None if self._begun is None else self._begun[0],
            last=self._last,
            ended=self._ended,
        )
        self._probe.file.write(agent_metrics(facts))


class SyncerTelemetry:
    """What the metrics of a syncer that follows a branch are about; ``failures`` is what a look may come to."""

    def __init__(self, probe: Probe, failures: Iterable[str]) -> None:
        self._probe = probe
        self._looks = dict.fromkeys((_PUBLISHED, _UNCHANGED, *failures), 0)
        self._begun = 0.0
        self._fetched: float | None = None
        self._published: Revision | None = None
        self._waiting: float | None = None
        self._last: Publishing | None = None

    def begin(self) -> None:
        """Note that a look at the repository begins."""
        self._begun = self._probe.clock.monotonic()

    def succeed(self, report: Report, fetched: float | None) -> None:
        """Note that the branch's tip is published now."""
        self._fetched, self._published, self._waiting = fetched, report.revision, None
        if report.draft is None:
            self._looks[_UNCHANGED] += 1
            return
        self._looks[_PUBLISHED] += 1
        clock, change = self._probe.clock, report.draft.publication.change
        nodes = len(change.create) + len(change.update) + len(change.delete)
        self._last = Publishing(time=clock.now(), seconds=clock.monotonic() - self._begun, nodes=nodes)

    def fail(self, failure: str, fetched: float | None) -> None:
        """Note a look that came to nothing; if the repository could be read then, something waits in it."""
        if fetched != self._fetched and self._waiting is None:
            self._waiting = fetched
        self._fetched = fetched
        self._looks[failure] += 1

    def write(self, interval: float, *, up: bool = True) -> None:
        """Write all metrics; ``up`` says whether the syncer goes on."""
        facts = SyncerFacts(
            process=self._probe.process(up=up),
            interval=interval,
            looks=self._looks,
            fetched=self._fetched,
            published=self._published,
            waiting=self._waiting,
            last=self._last,
        )
        self._probe.file.write(syncer_metrics(facts))


class CoordinatorTelemetry:
    """What a coordinator's metrics are about; ``failures`` is what a look may come to."""

    def __init__(self, probe: Probe, failures: Iterable[str]) -> None:
        self._probe = probe
        self._looks = dict.fromkeys((_LED, _QUEUED, *failures), 0)
        self._leads = False
        self._running: Running | None = None
        self._due = 0.0

    def lead(self, running: Running | None) -> None:
        """Note a look of the one that leads, and the newest rollout, if there is one to lead."""
        self._leads, self._running = True, running
        self._looks[_LED] += 1

    def show(self, running: Running) -> None:
        """Note what became of the newest rollout."""
        self._running = running

    def queue(self) -> None:
        """Note that another coordinator leads."""
        self._leads, self._running = False, None
        self._looks[_QUEUED] += 1

    def fail(self, failure: str, *, leads: bool) -> None:
        """Note a look that came to nothing, and whether the lead is kept all the same."""
        self._leads = leads
        self._running = self._running if leads else None
        self._looks[failure] += 1

    def beat(self) -> None:
        """Write, unless that was done a moment ago."""
        if self._probe.clock.monotonic() >= self._due:
            self.write()

    def write(self, *, up: bool = True) -> None:
        """Write all metrics; ``up`` says whether the coordinator goes on."""
        self._due = self._probe.clock.monotonic() + _PACE
        process = self._probe.process(up=up)
        facts = CoordinatorFacts(
            process=process, leads=self._leads and up, looks=self._looks, running=self._running if up else None
        )
        self._probe.file.write(coordinator_metrics(facts))
