"""Records the steps that hosts show, and exports finished publications as traces over OTLP/HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.errors import LockLostError, UnreachableError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.http import HttpClient, HttpError
from zkdeployment.fleet.feed.feed_thread import FeedThread
from zkdeployment.fleet.traces.spans import StepTime, Trace, otlp_requests, publication_trace
from zkdeployment.fleet.views.history import acts_during
from zkdeployment.fleet.views.status import HostState
from zkdeployment.fleet.webhooks.sender import retry_delay
from zkdeployment.publishing.store.history import read_history
from zkdeployment.strategies.store.records import read_attempts
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.contender_lock import ContenderLock
from zkdeployment.zookeeper.transactions import Check, Set, TransactionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from zkdeployment.fleet.feed.feed import ZooKeeperFeed
    from zkdeployment.fleet.feed.fleet_assembly import FleetReading
    from zkdeployment.publishing.records import PublicationRecord
    from zkdeployment.zookeeper.session import Session

#: The publications whose steps are kept, the steps of a host, and the steps of all hosts of a publication.
_PUBLICATIONS = 5
_STEPS_OF_A_HOST = 200
_STEPS = 100_000


class StepRecorder:
    """Follows ``feed`` and keeps the steps of hosts, with the times at which ZooKeeper got them.

    A host that is away for a reboot has the step ``rebooting``, since the host recorded the reboot. A step that is
    shorter than a reading of the fleet may be missing.
    """

    def __init__(self, feed: ZooKeeperFeed) -> None:
        self._feed = feed
        self._lock = threading.Lock()
        self._steps: dict[int, dict[str, list[StepTime]]] = {}
        self._counts: Counter[int] = Counter()
        self._number = -1

    def start(self) -> None:
        """Begin to record."""
        self._feed.subscribe(self.record)

    def close(self) -> None:
        """Do nothing: the feed ends the subscription when it closes."""

    def record(self) -> None:
        """Record the steps of the present reading; does not wait."""
        try:
            reading = self._feed.snapshot().reading
        except UnreachableError:
            return  # the feed closes before its first reading
        with self._lock:
            if reading.number == self._number:
                return
            self._number = reading.number
            self._record(reading)

    def steps(self, sequence: int) -> Mapping[str, tuple[StepTime, ...]]:
        """Return the recorded steps of a publication by host id, at least one for each host."""
        with self._lock:
            return {host: tuple(steps) for host, steps in self._steps.get(sequence, {}).items()}

    def _record(self, reading: FleetReading) -> None:
        sequence = reading.fleet.since
        hosts = self._steps.get(sequence, {})
        for host in reading.fleet.hosts:
            known = hosts.get(host.identity.id)
            if known is not None or host.step is not None:
                step = host.step if host.deploying is not None else None
                self._add(sequence, host.identity.id, step, host.since or 0.0)
        for host_id, reboot in reading.fleet.expected_back.items():
            step = f"{HostState.REBOOTING.value}, {reboot.return_text}"
            self._add(sequence, host_id, step, reboot.since, reboot.deadline)
        for old in sorted(self._steps)[:-_PUBLICATIONS]:
            del self._steps[old], self._counts[old]

    def _add(
        self, sequence: int, host_id: str, step: str | None, time: float, deadline: float | None = None
    ) -> None:
        """Note the step of a host if it differs from the last one."""
        hosts = self._steps.setdefault(sequence, {})
        steps = hosts.get(host_id, [])
        last = steps[-1] if steps else None
        if last is not None and last.ended is None:
            if last.step == step:
                return
            steps[-1] = replace(last, ended=max(time, last.begun))
        is_full = len(steps) >= _STEPS_OF_A_HOST or self._counts[sequence] >= _STEPS
        if step is not None and not is_full:
            hosts[host_id] = [*steps, StepTime(step, time, deadline=deadline)]
            self._counts[sequence] += 1


#: Seconds between two reads of the history.
_INTERVAL = 2.0

#: The publications among which those are found that are not exported yet.
_RECENT = 50

#: Seconds for a request.
_TIMEOUT = 10.0

#: Answers after which the protocol allows another attempt.
_RETRYABLE = frozenset({429, 502, 503, 504})


class TraceExporter(FeedThread):
    """Exports each publication to ``url`` when it is over: converged, or replaced by one that concerns hosts.

    The node of the election keeps the last exported sequence. The first service without such a record begins with
    the present publication. A receiver that does not answer is asked again.
    """

    NAME = "traces"

    def __init__(  # noqa: PLR0913  the adapters of an exporter
        self,
        url: str,
        *,
        site: str,
        feed: ZooKeeperFeed,
        recorder: StepRecorder,
        session: Session,
        identity: str,
        ca: Path | None = None,
    ) -> None:
        self._election = ContenderLock(session, paths.TRACES, identity)
        super().__init__(feed, self._election)
        self._url, self._site, self._recorder = url, site, recorder
        self._session = session
        self._http = HttpClient(ca)
        self._failures, self._due = 0, 0.0

    def _work(self) -> float:
        """Export the publications that are over, and return the seconds until the next attempt."""
        if time.monotonic() < self._due:
            return _INTERVAL
        over = self._feed.snapshot().reading.last_over
        last = self._exported()
        if last is None:
            self._note(max(0, over))
        elif last < over:
            self._session.sync()  # the records are not older than the reading: all results of hosts are there
            records = read_history(self._session, _RECENT)
            for record in sorted(records, key=lambda record: record.sequence):
                if last < record.sequence <= over:
                    if not record.is_repetition and not self._export(self._trace(record, records)):
                        break
                    self._note(record.sequence)
            else:
                self._note(over)
        return _INTERVAL

    def _trace(self, record: PublicationRecord, records: Sequence[PublicationRecord]) -> Trace:
        return publication_trace(
            record,
            read_attempts(self._session, record.sequence),
            self._recorder.steps(record.sequence),
            acts_during(records, record, self._feed.acts()),
            is_over=True,
        )

    def _export(self, trace: Trace) -> bool:
        """Send a trace; return whether the publication needs no further attempt."""
        log = get_logger().bind(sequence=trace.sequence)
        for body in otlp_requests(trace, site=self._site):
            problem, pause = send_trace(self._http, self._url, body)
            if problem and pause is not None:
                self._failures += 1
                if self._failures == 1:
                    log.warning("trace-not-exported", reason=problem)
                self._due = time.monotonic() + max(retry_delay(self._failures), pause)
                return False
            if problem:
                log.warning("trace-refused", reason=problem)
                return True
        self._failures = 0
        log.info("trace-exported", trace=trace.id, spans=len(trace.spans))
        return True

    def _exported(self) -> int | None:
        """Return the sequence of the last exported publication; ``None`` if none was recorded."""
        node = self._session.get(paths.TRACES)
        sequence = None if node is None else node.properties.get("exported")
        return sequence if isinstance(sequence, int) else None

    def _note(self, sequence: int) -> None:
        """Record an exported publication; raises ``LockLostError`` if this service is no longer elected."""
        node = self._election.path
        if node is None:
            raise LockLostError("this service is not elected to export traces")
        try:
            self._session.commit(Check(node, 0), Set(paths.TRACES, json.dumps({"exported": sequence}).encode()))
        except TransactionError as error:
            raise LockLostError("another service was elected to export traces: the session expired") from error


def send_trace(client: HttpClient, url: str, body: bytes) -> tuple[str, float | None]:
    """Send one request of OTLP; return the problem (empty: none) and the pause before a later attempt.

    The pause is in seconds, as the receiver asks for, or ``None`` if no later attempt may succeed.
    """
    headers = {"Content-Type": "application/json"}
    try:
        answer = client.request("POST", url, timeout=_TIMEOUT, most=0, body=body, headers=headers)
    except HttpError as error:
        return f"the receiver cannot be reached: {error}", 0.0
    return answer.problem, answer.retry_after(time.time()) if answer.status in _RETRYABLE else None
