"""The client of the services of fleets: their reports, dry runs of commits, and acts on all fleets at once.

A service may be away, slow or hostile, and it belongs to another fleet. Its redirects are not followed, and it
delays no other fleet: each request has a thread of its own. Each mistake of a service becomes one sentence.
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections import deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from urllib.parse import quote

from zkdeployment.base.act import sanitize
from zkdeployment.base.errors import ConfigurationError, ServiceError, ZkdeploymentError, without_secrets
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.files import read_secret
from zkdeployment.base.machine.http import (
    EncryptionError,
    HttpAnswer,
    HttpClient,
    HttpError,
    RedirectError,
    TooLargeError,
    TooSlowError,
    address_of,
    basic_login,
    client_encryption,
)
from zkdeployment.base.records import Record, invalid
from zkdeployment.base.text import printable
from zkdeployment.base.values import dataclass
from zkdeployment.config.addresses import LOOPBACK
from zkdeployment.promotion.records import DryRun, FleetReport, FleetState

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.promotion.streams import EventStreams

#: Seconds that a service has for a report, for a dry run, which may resolve packages, and for an act.
_REPORT = 5.0
_DRY_RUN = 120.0
_ACT = 30.0

#: Seconds that a syncer has to publish the tip of its branch.
_PUBLICATION = 60.0

#: The most bytes of an answer.
_MOST_BYTES = 1 << 18

#: The most characters of a service's own words in a sentence.
_LONGEST = 1000

#: The most hosts of a fleet, and seconds since ZooKeeper confirmed a report that is believed.
_MOST_HOSTS = 1_000_000
_OLDEST = 60.0

#: Requests of a kind at a time.
_REPORTS_AT_ONCE = 64
_DRY_RUNS_AT_ONCE = 16

#: Seconds between two requests for a report that events cause.
_BETWEEN_EVENTS = 1.0

_REVISION = re.compile(r"[A-Za-z0-9]{1,64}")

#: A key, and the host or the host and port of the only service to which it is sent.
_KEY = re.compile(r"(?P<login>[^:\s]+:\S+)\s+(?P<host>\S+)")

#: Seconds after which a dry run without an answer is asked for again.
_AGAIN = 10.0


class FleetService(NamedTuple):
    """The service of a fleet, and its address."""

    fleet: str
    url: str


@dataclass(frozen=True, slots=True)
class ServiceAnswer:
    """The answer of a service: its status, its headers and its JSON."""

    status: int
    headers: Mapping[str, str]
    body: Any = None


class ServiceClient:
    """Sends requests to the services of fleets, from any thread; each is one attempt within a time limit.

    ``ca`` is a file of the certificates that may sign those of the services, by default those of the system.
    ``tokens`` is a directory with a file for each fleet: one line, ``USER:KEY HOST``. The key is sent to no other
    host, also if the document of the fleets names one. The files are read for each request, so that keys can be
    replaced. Raises ``ConfigurationError`` if ``ca`` cannot be used.
    """

    def __init__(self, tokens: Path, ca: Path | None = None) -> None:
        self._tokens = tokens
        #: The encryption of connections, which accepts only certificates of ``ca``.
        self.encryption = _authorities(ca)
        self._http = HttpClient(encryption=self.encryption)

    def close(self) -> None:
        """Close the connections that are kept for further requests."""
        self._http.close()

    def request(
        self,
        method: str,
        service: FleetService,
        path: str,
        timeout: float,
        *,
        tag: str = "",
        body: Mapping[str, Any] | None = None,
    ) -> ServiceAnswer:
        """Return an answer with an object in JSON, or 304 if the content still has this ``tag``.

        Raises ``ServiceError``.
        """
        url = service.url
        headers = {**self.credentials(service), "Accept": "application/json", "Content-Type": "application/json"}
        if tag:
            headers["If-None-Match"] = tag
        try:
            answer = self._http.request(
                method,
                f"{url.rstrip('/')}{path}",
                timeout=timeout,
                most=_MOST_BYTES,
                headers=headers,
                body=None if body is None else json.dumps(body).encode(),
            )
        except EncryptionError as error:
            raise ServiceError(
                f"the certificate of the service at {url} is not accepted: {error}; renew it, or correct ca in"
                " [promote]"
            ) from error
        except TooSlowError as error:
            raise ServiceError(f"the service at {url} did not answer within {timeout:g} s") from error
        except RedirectError as error:
            raise ServiceError(
                f"the answer of the service at {url} cannot be used: {error}; write its own address into the"
                " document of the fleets"
            ) from error
        except TooLargeError as error:
            raise ServiceError(
                f"the answer of the service at {url} cannot be used: {error}; is it the service of a fleet?"
            ) from error
        except HttpError as error:
            raise ServiceError(f"cannot reach the service at {url}: {error}") from error
        return self._checked(service, answer)

    def credentials(self, service: FleetService) -> dict[str, str]:
        """Return the header with the key of a fleet; raises ``ServiceError``."""
        fleet, url = service
        try:
            address = address_of(url)
        except ValueError as error:
            raise ServiceError(f"expected https://… as the service of {fleet}, found {url}") from error
        if address.scheme != "https" and address.host not in LOOPBACK:
            raise ServiceError(
                f"the key of {fleet} would cross the network unencrypted: expected https://… as the fleet's"
                f" service, found {url}"
            )
        file = self._tokens / fleet
        try:
            line = read_secret(file)
        except ConfigurationError as error:
            raise ServiceError(f"no key for the service of {fleet}: {error}") from error
        if (match := _KEY.fullmatch(line)) is None:
            raise ServiceError(
                f"no key for the service of {fleet}: expected USER:KEY and the host of the service in {file}, as"
                " in promoter:KEY deploy.eu-1.example.com"
            )
        if match["host"].lower() not in {address.host, address.authority}:
            raise ServiceError(
                f"the key in {file} is not sent to {url}: it is for {sanitize(match['host'])}; correct the"
                " document of the fleets, or the host in the file if the service has moved"
            )
        return basic_login(match["login"])

    def _checked(self, service: FleetService, answer: HttpAnswer) -> ServiceAnswer:
        """Return an answer with JSON, or 304; raises ``ServiceError`` for others."""
        fleet, url = service
        status, headers, content = answer.status, answer.headers, answer.content
        body = None
        if content.strip():
            try:
                body = json.loads(content)
            except (ValueError, RecursionError):
                body = None
        if status in {401, 403}:
            raise ServiceError(
                f"the service at {url} refuses the key in {self._tokens / fleet} (status {status}):"
                f" {_detail(body)}; write USER:KEY of a user with enough rights into the file"
            )
        if status != 304 and not isinstance(body, dict):
            kind = sanitize(headers.get("Content-Type", ""))[:100] or "no content"
            raise ServiceError(
                f"the service at {url} answered with status {status} and {kind} instead of an object in JSON: is"
                " it the service of a fleet?"
            )
        return ServiceAnswer(status, headers, body)


def _authorities(ca: Path | None) -> ssl.SSLContext:
    """Return the authorities that may sign certificates, which are read once."""
    try:
        return client_encryption(ca)
    except OSError as error:
        raise ConfigurationError(f"ca: expected certificates in {ca}: {error.strerror or error}") from error


def _detail(body: Any) -> str:
    """Return the sentence in the body of an error."""
    detail = body.get("detail") if isinstance(body, dict) else None
    return without_secrets(sanitize(str(detail)))[:_LONGEST] if detail else "it gives no reason"


def _unexpected(url: str, answer: ServiceAnswer) -> ServiceError:
    """Return the error for an answer with a status that is not the expected one."""
    return ServiceError(f"the service at {url} answered with status {answer.status}: {_detail(answer.body)}")


def _check_schema(url: str, answer: ServiceAnswer, schema: str) -> None:
    if answer.status != 200:
        raise _unexpected(url, answer)
    expected, found = f"zkdeployment/{schema}/v1", answer.body.get("schema")
    if found != expected:
        raise ServiceError(
            f"the service at {url} answered in another form: expected {expected}, found"
            f" {sanitize(str(found))[:100]}; is its version as new as that of the promoter?"
        )


@dataclass(frozen=True, slots=True)
class _Read:
    """The last report of a service, and the tag with which it is asked whether it still holds."""

    report: FleetReport
    tag: str = ""


def _read_report(client: ServiceClient, service: FleetService, last: _Read | None, now: float) -> _Read:
    """Return the report of a service; raises ``ServiceError``."""
    url = service.url
    answer = client.request("GET", service, "/api/v1/fleet", _REPORT, tag="" if last is None else last.tag)
    age = _age(answer.headers)
    if age > _OLDEST:
        raise ServiceError(
            f"the service at {url} reports its fleet of {age:g} s ago: expected at most {_OLDEST:g} s; check its"
            " connection to ZooKeeper"
        )
    read_at = now - age
    if answer.status == 304 and last is not None:
        return replace(last, report=replace(last.report, read_at=read_at))
    _check_schema(url, answer, "fleet")
    try:
        report = _checked_report(FleetReport.from_json(answer.body, read_at=read_at))
    except ValueError as error:
        raise ServiceError(f"the service at {url} sent an invalid report: {sanitize(str(error))}") from error
    return _Read(report, answer.headers.get("ETag", ""))


def _checked_report(report: FleetReport) -> FleetReport:
    """Return a report with texts for people; raises ``ValueError`` for a report that no fleet can have."""
    if report.state in {FleetState.UNREACHABLE, FleetState.DIVERGED}:
        raise invalid("a state of the fleet itself", report.state.value)
    if not 0 <= report.converged <= report.hosts <= _MOST_HOSTS:
        raise invalid(f"at most {_MOST_HOSTS} hosts", f"{report.converged} of {report.hosts}")
    for revision in (report.revision, report.refused):  # a fleet that has published nothing yet has no commit
        if revision is not None and not _REVISION.fullmatch(revision):
            raise invalid("a revision", revision)
    by, problem = (without_secrets(sanitize(text)) for text in (report.by, report.problem))
    return replace(report, by=by, problem=problem)


def _age(headers: Mapping[str, str]) -> float:
    """Return the seconds since the service confirmed its report."""
    age = headers.get("Age", "")
    return float(age) if re.fullmatch(r"[0-9]{1,9}", age) else 0.0


def ask_dry_run(client: ServiceClient, service: FleetService, commit: str) -> DryRun:
    """Return whether the syncer of a fleet would publish a commit; raises ``ServiceError`` without an answer."""
    url, path = service.url, f"/api/v1/plan/refusals?revision={quote(commit, safe='')}"
    answer = client.request("GET", service, path, _DRY_RUN)
    _check_schema(url, answer, "refusals")
    refusals = answer.body.get("refusals")
    if not isinstance(refusals, list) or answer.body.get("revision") != commit:
        raise ServiceError(f"the service at {url} answered about something other than {commit}")
    return DryRun("; ".join(without_secrets(sanitize(str(each))) for each in refusals)[:_LONGEST])


@dataclass(frozen=True, slots=True)
class FleetPlan(Record):
    """The plan of a ``revision`` as the next one of a fleet, which the service of the fleet made.

    ``published`` is its present revision, ``diff`` has a line for each effect of the change from there, ``lines``
    are the short form of the plan. ``changes`` is whether anything would change.
    """

    is_lenient: ClassVar[bool] = True
    revision: str = ""
    published: str | None = None
    changes: bool = False
    diff: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


def ask_plan(client: ServiceClient, service: FleetService, commit: str) -> FleetPlan:
    """Return the plan of a commit in a fleet; raises ``ServiceError`` without an answer."""
    url = service.url
    answer = client.request("GET", service, f"/api/v1/plan/short?revision={quote(commit, safe='')}", _DRY_RUN)
    _check_schema(url, answer, "plan-short")
    plan = FleetPlan.from_json(answer.body)
    if plan.revision != commit:
        raise ServiceError(f"the service at {url} answered about something other than {commit}")
    diff, lines = (tuple(without_secrets(printable(each)) for each in part) for part in (plan.diff, plan.lines))
    return replace(plan, diff=diff, lines=lines)


class _DryRunKey(NamedTuple):
    """The dry run of a commit for one promotion, which a service is asked for."""

    service: FleetService
    commit: str
    promotion: str


class _Threads:
    """Runs jobs, each in a thread, at most ``most`` at once."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._running = 0

    def run(self, *jobs: Callable[[], None]) -> None:
        """Run jobs soon, after those that could not begin yet; does not wait."""
        with self._lock:
            self._waiting.extend(jobs)
            self._start()

    def _start(self) -> None:
        """Start threads for waiting jobs; jobs remain waiting while the system can start no thread."""
        while self._waiting and self._running < self._most:
            job = self._waiting[0]
            try:
                threading.Thread(target=self._work, args=(job,), name=self._name, daemon=True).start()
            except RuntimeError as error:
                get_logger().error("request-failed", reason=str(error))
                return
            self._waiting.popleft()
            self._running += 1

    def _work(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as error:  # noqa: BLE001  a defect of the program must not end the requests to other fleets
            get_logger().error("request-failed", reason=repr(error))
        finally:
            with self._lock:
                self._running -= 1
                self._start()


class FleetServices:
    """The last reports of services, and their answers to dry runs, which threads of their own fetch.

    Each service is asked for a report every ``interval`` seconds, and after events of ``streams``. ``wake``, which
    must not block, is called when an answer differs from the last one. No method waits for a service. Answers to
    requests of an earlier generation, from before ``forget``, do not count.
    """

    def __init__(
        self,
        client: ServiceClient,
        clock: Clock,
        wake: Callable[[], None],
        *,
        interval: float,
        streams: EventStreams | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._wake = wake
        self._interval = interval
        self._streams = streams
        self._lock = threading.Lock()
        self._reading = _Threads("fleet-report", _REPORTS_AT_ONCE)
        self._trying = _Threads("fleet-dry-run", _DRY_RUNS_AT_ONCE)
        self._generation = 0
        self._asked: dict[FleetService, float] = {}
        self._reads: dict[FleetService, _Read] = {}
        #: The requests under way, each with its generation.
        self._busy: set[tuple[int, FleetService | _DryRunKey]] = set()
        self._dry_runs: dict[_DryRunKey, tuple[float, DryRun]] = {}
        if streams is not None:
            streams.subscribe(self._ask, self._lacking)

    @property
    def open_streams(self) -> int:
        """The number of open event streams."""
        return 0 if self._streams is None else self._streams.open

    def forget(self) -> None:
        """Forget all answers, also those to the requests under way."""
        with self._lock:
            self._generation += 1
            self._asked, self._reads, self._dry_runs = {}, {}, {}

    def reports(self, services: Mapping[str, str]) -> Mapping[str, FleetReport]:
        """Return the last report of each service by fleet, and ask for those that are due.

        ``services`` are the addresses of all services by fleet. A service that has not answered yet has no report.
        """
        now = self._clock.monotonic()
        known = [FleetService(*each) for each in services.items()]
        with self._lock:
            self._reads = {each: self._reads[each] for each in known if each in self._reads}
            self._asked = {each: self._asked[each] for each in known if each in self._asked}
            for service in sorted(known, key=self._is_unreachable):  # those that answer come first
                is_due = now - self._asked.get(service, -math.inf) >= self._interval
                if is_due and not self._is_busy(service):
                    self._start_reading(service, now)
            self._reading.run()
            if self._streams is not None:  # a stream begins after a first answer, and ends with the last one
                self._streams.follow([each for each in self._reads if not self._is_unreachable(each)])
            return {service.fleet: read.report for service, read in self._reads.items()}

    def dry_runs(self, services: Mapping[str, str], commit: str, promotion: str = "") -> Mapping[str, DryRun]:
        """Return the answers to the dry runs of a commit by fleet, and ask the other services.

        An answer without a verdict has a ``problem``, and the service is asked again after a while. Answers about
        other commits, or for another attempt, whose id is that of its ``promotion``, are forgotten.
        """
        now = self._clock.monotonic()
        known = [_DryRunKey(FleetService(*each), commit, promotion) for each in services.items()]
        with self._lock:
            self._dry_runs = {key: each for key, each in self._dry_runs.items() if key[1:] == (commit, promotion)}
            for key in known:
                answered, answer = self._dry_runs.get(key, (0.0, None))
                is_due = answer is None or (answer.problem and now - answered >= _AGAIN)
                if is_due and not self._is_busy(key):
                    self._busy.add((self._generation, key))
                    self._trying.run(partial(self._try, key, self._generation))
            self._trying.run()
            answers = {key.service.fleet: self._dry_runs.get(key) for key in known}
        return {fleet: each[1] for fleet, each in answers.items() if each is not None}

    def _ask(self, service: FleetService) -> bool:
        """Ask for a report after an event, and return whether that was possible now."""
        now = self._clock.monotonic()
        with self._lock:
            if self._is_busy(service) or now - self._asked.get(service, now) < _BETWEEN_EVENTS:
                return False
            self._start_reading(service, now)
            return True

    def _start_reading(self, service: FleetService, now: float) -> None:
        self._asked[service] = now
        self._busy.add((self._generation, service))
        self._reading.run(partial(self._read, service, self._reads.get(service), self._generation))

    def _is_busy(self, request: FleetService | _DryRunKey) -> bool:
        return (self._generation, request) in self._busy

    def _lacking(self, service: FleetService) -> int:
        """Return the number of hosts that had not converged; 1 during a request, because any may be the last."""
        with self._lock:
            read = self._reads.get(service)
            return 1 if read is None or self._is_busy(service) else read.report.hosts - read.report.converged

    def _is_unreachable(self, service: FleetService) -> bool:
        read = self._reads.get(service)
        return read is not None and read.report.state is FleetState.UNREACHABLE

    def _read(self, service: FleetService, last: _Read | None, generation: int) -> None:
        read = _Read(_unreachable("the promoter failed; see its log"))
        try:
            read = _read_report(self._client, service, last, self._clock.now())
        except ZkdeploymentError as error:
            read = _Read(_unreachable(error))
        finally:
            with self._lock:
                self._busy.discard((generation, service))
                before, is_current = self._reads.get(service), generation == self._generation
                if is_current:
                    self._reads[service] = read
        if is_current and (before is None or replace(before.report, read_at=read.report.read_at) != read.report):
            self._wake()

    def _try(self, key: _DryRunKey, generation: int) -> None:
        answer = DryRun(problem="the promoter failed; see its log")
        try:
            answer = ask_dry_run(self._client, key.service, key.commit)
        except ZkdeploymentError as error:
            answer = DryRun(problem=str(error))
        finally:
            with self._lock:
                self._busy.discard((generation, key))
                if generation == self._generation:
                    self._dry_runs[key] = (self._clock.monotonic(), answer)
        self._wake()


def _unreachable(problem: object) -> FleetReport:
    return FleetReport(FleetState.UNREACHABLE, problem=str(problem))


@dataclass(frozen=True, slots=True)
class FleetActOutcome:
    """The outcome of an act at one fleet: ``problem`` is why it was not performed, or empty."""

    fleet: str
    problem: str = ""


def act_everywhere(
    client: ServiceClient, services: Mapping[str, str], act: str, reason: str, *, latest: bool = False
) -> tuple[FleetActOutcome, ...]:
    """Perform ``stop``, ``hold`` or ``resume`` at all services at once; return the outcomes in their order.

    With ``latest``, which only ``resume`` takes, each syncer first publishes the tip of its branch. The call takes
    as long as the slowest service, at most half a minute, and with ``latest`` a minute more.
    """
    body: dict[str, object] = {"reason": reason}
    limit = _ACT
    if latest:
        body |= {"latest": True, "timeout": _PUBLICATION}
        limit += _PUBLICATION
    outcomes: dict[str, FleetActOutcome] = {}

    def perform(fleet: str, url: str) -> None:
        try:
            answer = client.request("POST", FleetService(fleet, url), f"/api/v1/{act}", limit, body=body)
            problem = "" if answer.status == 200 else str(_unexpected(url, answer))
        except Exception as error:  # noqa: BLE001  a defect of the program must not hide the outcomes of other fleets
            problem = str(error) or repr(error)
        outcomes[fleet] = FleetActOutcome(fleet, problem)

    threads = []
    for each in services.items():
        thread = threading.Thread(target=perform, args=each, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            outcomes[each[0]] = FleetActOutcome(each[0], f"cannot start a thread: {error}")
        else:
            threads.append(thread)
    for thread in threads:
        thread.join()
    return tuple(outcomes[fleet] for fleet in services)
