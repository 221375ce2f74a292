"""Measures metrics of Prometheus for the analyses of rollouts, in threads beside the leading coordinator.

The coordinator names the measurements that are due, and receives the answers that have arrived; it never waits for
a server. Each server has its own thread. A server that does not answer delays neither grants nor other servers.
"""

from __future__ import annotations

import json
import queue
import re
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.clock import Clock, SystemClock
from zkdeployment.base.machine.http import (
    HttpAnswer,
    HttpClient,
    HttpError,
    RedirectError,
    TooLargeError,
    TooSlowError,
)
from zkdeployment.publishing.store.assignments import read_targets
from zkdeployment.publishing.store.hosts import read_inventories
from zkdeployment.publishing.store.live_tree import ZooKeeperLiveTree
from zkdeployment.publishing.targets.services import unchecked_assignments
from zkdeployment.rollouts.settings import MetricsSettings
from zkdeployment.strategies.analysis import AnalysisMetric, Reading
from zkdeployment.strategies.criteria import OutsideCriterion
from zkdeployment.strategies.group_analysis import (
    ANALYSIS,
    MetricAnswer,
    MetricKey,
    MetricRequest,
    due_requests,
    is_open,
)
from zkdeployment.strategies.queries import QueryVariables, UnresolvedError, resolve, variables_in
from zkdeployment.strategies.strategy import MemberKind
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path

    from zkdeployment.base.publication import Targets
    from zkdeployment.config.settings import Settings
    from zkdeployment.strategies.state import RolloutState
    from zkdeployment.zookeeper.session import Session

#: The most bytes of an answer, and of a file with a token or with headers.
_MOST_BYTES = 1 << 20
_MOST_SECRET = 1 << 16

_MOST_REDIRECTS = 3

#: A token, and the name and the value of a header. Errors of the HTTP client would show invalid values.
_TOKEN = re.compile(r"[\x21-\x7e]+")
_HEADER = re.compile(r"[A-Za-z0-9-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")

#: The most seconds between the time of an answer and the present.
_OLDEST = 300.0

#: The most characters of a server's own words in a reason.
_LONGEST = 200


class NoDataError(ZkdeploymentError):
    """A query has no value; the text states why. ``is_silent`` means that the server did not answer."""

    def __init__(self, reason: str, *, is_silent: bool = False) -> None:
        super().__init__(reason)
        self.is_silent = is_silent


class Sample(NamedTuple):
    """The value of a query, and its time on the server's clock in seconds since the epoch."""

    value: float
    time: float


class MetricsServer:
    """A server of metrics, used by one thread at a time."""

    def __init__(self, settings: MetricsSettings) -> None:
        self._settings = settings
        self._url = f"{settings.url}/api/v1/query"
        self._http = HttpClient(settings.ca, settings.certificate)

    @property
    def graph(self) -> str:
        """The address of the server's own graphs; empty if none is configured."""
        return self._settings.graph_url or ""

    def query(self, query: str, at: float | None = None) -> Sample:
        """Return the sample of a query, at a time in seconds since the epoch or at present.

        Raises ``NoDataError``.
        """
        fields = {"query": query, "timeout": f"{self._settings.timeout:.3f}"}
        if at is not None:
            fields["time"] = f"{at:.3f}"
        sample = _sample(self._post(urlencode(fields).encode()))
        away = abs(time.time() - sample.time)
        if at is None and not away <= _OLDEST:  # also if the time is NaN
            raise NoDataError(f"the answer is of another time: {away:.0f} s away from now")
        return sample

    def _post(self, body: bytes) -> HttpAnswer:
        try:
            return self._http.request(
                "POST",
                self._url,
                timeout=self._settings.timeout,
                most=_MOST_BYTES,
                headers=self._headers(),
                body=body,
                redirects=_MOST_REDIRECTS,
                attempts=2,  # the server may close a kept connection at this moment
            )
        except TooSlowError as error:
            raise NoDataError(
                f"the server did not answer within {self._settings.timeout:g} s", is_silent=True
            ) from error
        except TooLargeError as error:
            raise NoDataError(f"the answer is larger than {_MOST_BYTES} bytes; aggregate the query") from error
        except RedirectError as error:
            raise NoDataError(f"the answer of {self._settings.url} cannot be used: {error}") from error
        except HttpError as error:
            raise NoDataError(f"cannot reach {self._settings.url}: {error}", is_silent=True) from error

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if self._settings.headers_file is not None:
            for line in _secret(self._settings.headers_file).splitlines():
                name, colon, value = line.partition(":")
                if not colon or not _HEADER.fullmatch(name.strip()) or not _HEADER_VALUE.fullmatch(value.strip()):
                    raise NoDataError(f"expected lines NAME: VALUE in {self._settings.headers_file}")
                headers[name.strip()] = value.strip()
        if self._settings.token_file is not None:
            token = _secret(self._settings.token_file)
            if not _TOKEN.fullmatch(token):
                raise NoDataError(f"expected one word of ASCII characters in {self._settings.token_file}")
            headers["Authorization"] = f"Bearer {token}"
        return headers


def _secret(file: Path) -> str:
    """Return the content of a file with a token or with headers; raises ``NoDataError``."""
    try:
        with file.open("rb") as opened:
            content = opened.read(_MOST_SECRET + 1)
        text = content.decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NoDataError(
            f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}"
        ) from error
    if not text or len(content) > _MOST_SECRET or "\0" in text:
        raise NoDataError(f"expected text of at most {_MOST_SECRET} bytes in {file}, found {len(content)} bytes")
    return text


def _sample(found: HttpAnswer) -> Sample:
    """Return the number in an answer; raises ``NoDataError``."""
    try:
        answer: Any = json.loads(found.content)
        if answer["status"] != "success":
            words = f"{answer.get('errorType', 'error')}: {answer.get('error', 'no reason given')}"
            raise NoDataError(f"the server refused the query: {_short(words)}")
        kind, result = answer["data"]["resultType"], answer["data"]["result"]
        match kind:
            case "vector":
                sample = _only(result)["value"]
            case "scalar":
                sample = result
            case _:
                raise NoDataError(f"the query returned a {_short(str(kind))}; expected one number")
        return Sample(float(sample[1]), float(sample[0]))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError) as error:
        answered = f"the server answered with status {found.status} and {_kind(found.content)}"
        raise NoDataError(f"{answered}; expected the API of Prometheus") from error


def _only(result: list[Any]) -> Any:
    if not result:
        raise NoDataError("the result is empty: no series matches")
    if len(result) > 1:
        raise NoDataError(f"the result has {len(result)} series; expected one: aggregate them, as with sum()")
    return result[0]


def _kind(content: bytes) -> str:
    return "no content" if not content.strip() else "text that is no answer to a query"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


#: Seconds for which the values of variables are used again.
_FRESH = 5.0

#: Seconds between two wake-ups of the coordinator while a server still answers other queries.
_PAUSE = 0.5

#: Queries in a row that a server may not answer before it counts as silent for all queries that wait.
_MOST_SILENT = 2


class VariableReader:
    """Reads the values of variables from ZooKeeper; used by the threads of all servers."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[float, QueryVariables]] = {}

    def read(self, request: MetricRequest) -> QueryVariables:
        """Return the values of the variables that the metrics of a group use; raises ``ZkdeploymentError``."""
        if request.variables is not None:
            return request.variables
        key, now = request.key[:2], self._clock.monotonic()
        with self._lock:
            if key not in self._known or now - self._known[key][0] > _FRESH:
                self._known = {key: (now, self._read(request))}
            return self._known[key][1]

    def _read(self, request: MetricRequest) -> QueryVariables:
        used = frozenset[str]().union(*(variables_in(metric.query) for metric in request.metrics))
        compared = "others" in used or any(metric.uses("others") for metric in request.metrics)
        variables = QueryVariables(revision=(str(request.revision),) if "revision" in used else ())
        if request.kind is MemberKind.FLEET:
            return replace(
                variables, hosts=tuple(sorted(request.hosts)), other_hosts=tuple(sorted(request.others))
            )
        if not used & {"instances", "hosts", "others", "service"}:
            return variables
        hosts = self._hosts(request.hosts)
        others = self._hosts(request.others) if compared else {}
        if "hosts" in used:
            names, other_names = (_names(host for host, _ in each.values()) for each in (hosts, others))
            variables = replace(variables, hosts=names, other_hosts=other_names)
        if used & {"instances", "others", "service"}:
            everyone = {**hosts, **others}
            services = services_of([host for host, _ in everyone.values()], self._targets(everyone))
            own = frozenset[str]().union(*(services[host] for host in hosts))
            variables = replace(variables, service=tuple(sorted(own)) if "service" in used else ())
            providers = ZooKeeperLiveTree(self._session).providers(frozenset[str]().union(*services.values()))
            placed = instances_by_host(providers, everyone)
            variables = replace(variables, instances=_of(placed, hosts), others=_of(placed, others))
        return variables

    def _hosts(self, ids: Collection[str]) -> dict[str, tuple[Identity, str | None]]:
        """Return the identity and the address of hosts by id, of absent hosts only the identity."""
        names = sorted(ids)
        nodes = self._session.get_many(f"{paths.HOSTS}/{name}" for name in names)
        present = [
            Host.from_properties(name, node.properties)
            for name, node in zip(names, nodes, strict=True)
            if node is not None
        ]
        found = {host.identity.id: (host.identity, host.address) for host in present}
        absent = read_inventories(self._session, [name for name in names if name not in found])
        return found | {each.identity.id: (each.identity, None) for each in absent}

    def _targets(self, hosts: Mapping[str, tuple[Identity, str | None]]) -> Targets:
        names = {name for identity, _ in hosts.values() for name in identity.target_names}
        return read_targets(self._session, (paths.target_path(name).rpartition("/")[2] for name in sorted(names)))


def services_of(hosts: Iterable[Identity], targets: Targets) -> dict[str, frozenset[str]]:
    """Return the paths of the services that each host deploys, by host id."""
    return {
        host.id: frozenset(assignment.path for assignment in unchecked_assignments(host, targets))
        for host in hosts
    }


def instances_by_host(
    providers: Mapping[str, Mapping[str, Mapping[str, object]]],
    hosts: Mapping[str, tuple[Identity, str | None]],
) -> dict[str, frozenset[str]]:
    """Return the addresses of the registered instances by host id.

    An instance belongs to the host that its property ``host`` names by id or name; without it, to the host with
    the address or the name before its port.
    """
    by_name: dict[object, str] = {}
    for host_id, (identity, address) in hosts.items():
        if address is not None:
            by_name.setdefault(address, host_id)
        by_name |= {identity.name: host_id, host_id: host_id}
    found: dict[str, set[str]] = {}
    for instances in providers.values():
        for name, properties in instances.items():
            place = properties.get("host") or name.rpartition(":")[0].strip("[]") or name
            host = by_name.get(place) if isinstance(place, str) else None
            if host is not None:
                found.setdefault(host, set()).add(name)
    return {host: frozenset(names) for host, names in found.items()}


def _names(hosts: Iterable[Identity]) -> tuple[str, ...]:
    return tuple(sorted(host.name for host in hosts))


def _of(placed: Mapping[str, frozenset[str]], hosts: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(frozenset[str]().union(*(placed.get(host, frozenset()) for host in hosts))))


def take_reading(
    server: MetricsServer, request: MetricRequest, read_variables: Callable[[MetricRequest], QueryVariables]
) -> tuple[Reading, QueryVariables | None, bool]:
    """Return the reading of a server, the values of the query's variables, and whether the server was silent."""
    try:
        variables = read_variables(request)
    except ZkdeploymentError as error:
        return Reading(None, str(error)), None, False
    query, other, other_problem = request.metric.query, None, ""
    sample, problem, silent = _query(server, query, variables, request.time)
    if request.metric.uses("others") and not silent:
        if request.others:
            at = request.time if sample is None else sample.time  # the others are compared at the same moment
            other, other_problem, _ = _query(server, query, variables.of_others(), at)
        else:
            other_problem = "all other hosts have the revision"
    value, others = (None if found is None else found.value for found in (sample, other))
    return Reading(value, problem, others, other_problem), variables, silent


def _query(
    server: MetricsServer, query: str, variables: QueryVariables, at: float | None
) -> tuple[Sample | None, str, bool]:
    """Return a sample, the reason for which it is missing, and whether the server was silent."""
    try:
        return server.query(resolve(query, variables), at), "", False
    except UnresolvedError as error:
        return None, str(error), False
    except NoDataError as error:
        return None, str(error), error.is_silent


class ServerThread:
    """Measures with one server, one request after the other; ``answered`` receives each answer."""

    def __init__(
        self,
        name: str,
        server: MetricsServer,
        read_variables: Callable[[MetricRequest], QueryVariables],
        clock: Clock,
        answered: Callable[[MetricRequest, MetricAnswer | None, bool], None],
    ) -> None:
        self._name = name
        self._server = server
        self._read_variables = read_variables
        self._clock = clock
        self._answered = answered
        self._requests: queue.SimpleQueue[tuple[float, MetricRequest] | None] = queue.SimpleQueue()
        self._silent, self._silent_since, self._reason = 0, 0.0, ""
        self._thread = threading.Thread(target=self._run, name=f"metrics-{name}", daemon=True)

    def start(self) -> None:
        """Begin to answer requests; does not wait."""
        self._thread.start()

    def close(self) -> None:
        """End after the request in progress; does not wait."""
        self._requests.put(None)

    def submit(self, request: MetricRequest) -> None:
        """Add a request; does not wait."""
        self._requests.put((self._clock.monotonic(), request))

    def _run(self) -> None:
        while (entry := self._requests.get()) is not None:
            submitted, request = entry
            try:
                answer = self._answer(submitted, request)
            except Exception as error:  # noqa: BLE001  a defect of the program must not end the measurements
                get_logger().error("measurement-failed", metric=request.metric.name, reason=repr(error))
                answer = self._without(request, f"the coordinator failed: {type(error).__name__}")
            self._answered(request, answer, self._requests.empty())

    def _answer(self, submitted: float, request: MetricRequest) -> MetricAnswer | None:
        """Return the answer; a server that is silent for others at this moment is not asked."""
        if request.is_ahead:
            try:
                ahead = self._read_variables(request)
            except ZkdeploymentError:
                return None  # the variables are then read later
            return MetricAnswer(request.at, request.asked, self._clock.now(), Reading(), variables=ahead)
        if self._silent >= _MOST_SILENT and submitted <= self._silent_since:
            return self._without(request, self._reason)
        reading, variables, silent = take_reading(self._server, request, self._read_variables)
        if silent:
            self._silent, self._silent_since = self._silent + 1, self._clock.monotonic()
            self._reason = reading.problem
        else:
            self._silent = 0
        return MetricAnswer(
            request.at, request.asked, self._clock.now(), reading, self._name, variables, self._server.graph
        )

    def _without(self, request: MetricRequest, reason: str) -> MetricAnswer:
        reading = Reading(None, reason)
        return MetricAnswer(request.at, request.asked, self._clock.now(), reading, self._name)


class MetricMeasurements:
    """The measurements in progress, and the answers that the rollout does not contain yet.

    ``wake`` (which must not block) is called when answers have arrived.
    """

    def __init__(
        self,
        servers: Mapping[str, MetricsServer],
        read_variables: Callable[[MetricRequest], QueryVariables],
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self._wake = wake
        self._woken = 0.0
        self._pending: set[tuple[str, ...]] = set()
        self._answers: dict[MetricKey, MetricAnswer] = {}
        self._threads = {
            name: ServerThread(name, server, read_variables, clock, self._answered)
            for name, server in servers.items()
        }

    def start(self) -> None:
        """Start the threads of the servers; does not wait."""
        for thread in self._threads.values():
            thread.start()

    def close(self) -> None:
        """End the threads after their requests in progress; does not wait."""
        for thread in self._threads.values():
            thread.close()

    def read(self, state: RolloutState, now: float) -> Mapping[MetricKey, MetricAnswer]:
        """Return the answers for a rollout, and ask for the measurements that are due."""
        requests = due_requests(state, now)
        with self._lock:
            self._answers = {key: each for key, each in self._answers.items() if is_open(state, key, each)}
            known = self._pending | {key[:3] for key in self._answers}
            new = [request for request in requests if request.key[:3] not in known]
            for request in new:
                thread, problem = self._server_of(request.metric)
                if thread is not None:
                    self._pending.add(request.key[:3])
                    thread.submit(request)
                elif not request.is_ahead:
                    self._answers[request.key] = MetricAnswer(request.at, now, now, Reading(None, problem))
            return dict(self._answers)

    def _server_of(self, metric: AnalysisMetric) -> tuple[ServerThread | None, str]:
        name, problem = chosen_server(metric, self._threads)
        return self._threads.get(name), problem

    def _answered(
        self,
        request: MetricRequest,
        answer: MetricAnswer | None,
        is_last: bool,  # noqa: FBT001
    ) -> None:
        with self._lock:
            self._pending.discard(request.key[:3])
            if answer is None:
                return
            self._answers[request.key] = answer
            if request.is_ahead:
                return  # the next cycle records the variables
            due = is_last or self._clock.monotonic() - self._woken >= _PAUSE
            if due:
                self._woken = self._clock.monotonic()
        if due:
            self._wake()


def chosen_server(metric: AnalysisMetric, names: Collection[str]) -> tuple[str, str]:
    """Return the name of the server for a metric, or an empty name and the reason without one."""
    known = ", ".join(sorted(names))
    if metric.server in names or (not metric.server and len(names) == 1):
        return metric.server or known, ""
    if not names:
        return "", "no server of metrics is configured; add [metrics NAME] to the coordinator's configuration"
    if metric.server:
        return "", f"the coordinator's configuration has no [metrics {metric.server}]; expected one of: {known}"
    return "", f"several servers of metrics are configured; add to the metric server: with one of: {known}"


def analysis_criterion(
    settings: Settings, session: Session, _lead: Callable[[], str | None], wake: Callable[[], None]
) -> OutsideCriterion:
    """Return the criterion ``analysis``, which asks the servers of the configuration."""
    clock = SystemClock()
    measurements = MetricMeasurements(
        metrics_servers(settings.each_of(MetricsSettings)), VariableReader(session, clock).read, clock, wake
    )
    return OutsideCriterion(ANALYSIS, measurements.start, measurements.close, measurements.read)


def metrics_servers(settings: Mapping[str, MetricsSettings]) -> dict[str, MetricsServer]:
    """Return the servers of metrics by name."""
    return {name: MetricsServer(each) for name, each in settings.items()}
