"""Observations of a fleet from outside.

Times are seconds since the boot of the machine, which no step of the clock changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.base.publication import OrderEntry, Targets

#: What scripts are called for: the two of deploy scripts, and the two of role controllers.
DEPLOY, UNDEPLOY = "deploy", "undeploy"
STARTING, ENDING = "starting-deployments", "ending-deployments"


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A call of a script; ``package`` is the version of the package that the script is from.

    ``text`` is the property ``text`` in the script's file of verified properties; ``-`` without a file.
    """

    host: str
    action: str
    path: str
    number: int
    package: str
    revision: str
    text: str
    pid: int

    @property
    def is_bracket(self) -> bool:
        """Whether this is a call of a role controller."""
        return self.action in {STARTING, ENDING}

    @property
    def words(self) -> str:
        """The call as the reports of failures name it."""
        return f"{self.action} {self.path}" if self.is_bracket else f"{self.path} {self.number}"

    def __str__(self) -> str:
        undo = "-u " if self.action == UNDEPLOY else ""
        return f"{undo}{self.words} of {self.revision[:12]} on {self.host} (process {self.pid})"


@dataclass(frozen=True, slots=True)
class ScriptBegan:
    """A script began."""

    time: float
    call: ScriptCall


@dataclass(frozen=True, slots=True)
class ScriptEnded:
    """A script ended, by itself or because it was killed."""

    time: float
    call: ScriptCall
    killed: bool = False


@dataclass(frozen=True, slots=True)
class ScriptFailed:
    """A script is about to end with the exit status of a failure."""

    time: float
    call: ScriptCall
    status: int

    @property
    def message(self) -> str:
        """The part of each report that names this failure."""
        return f"{self.call.words} failed with exit status {self.status}"


@dataclass(frozen=True, slots=True)
class HostWentDown:
    """A host calls its reboot command for a step of ``revision``; ``path`` is the node that needs the reboot."""

    time: float
    host: str
    path: str
    revision: str


@dataclass(frozen=True, slots=True)
class HostBooted:
    """A host has booted, or operators have declared it dead."""

    time: float
    host: str


@dataclass(frozen=True, slots=True)
class RebootsSeen:
    """The reboots that are recorded in ZooKeeper: by host, the boot before and whether the failure is reported.

    ``stopped`` is whether that failure took effect: the fleet was stopped, the failure reported to a rollout, or
    the publication replaced. It is ``None`` if that cannot be seen any more, or without a failure.
    """

    time: float
    boots: Mapping[str, tuple[str, bool]]
    stopped: Mapping[str, bool | None]


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """The cluster version, and the stops on record with it.

    The state was current at some moment between ``since`` and ``time``. ``written`` is the transaction that wrote
    it: while that is the same, the state was the same. ``stops`` is ``None`` if stops and version were not read
    at the same state. ``retry`` is the host that an operator lets try again while the fleet is stopped, with the
    revision.
    """

    since: float
    time: float
    version: str | None
    written: int
    stops: tuple[str, ...] | None = ()
    retry: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ReportsSeen:
    """The failures in ZooKeeper: pairs of a host and a text."""

    time: float
    reports: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class PublicationSeen:
    """A publication, all of which was read at one state of ZooKeeper.

    ``texts`` are the properties ``text`` of the service nodes of its tree. ``since`` is the last sequence that
    changed something for hosts. ``order`` are its services for which hosts wait, by path, and ``ordered`` is the
    transaction that wrote this order.
    """

    time: float
    revision: str
    targets: Targets
    texts: Mapping[str, str]
    since: int = 0
    order: Mapping[str, OrderEntry] = field(default_factory=dict)
    ordered: int = 0


@dataclass(frozen=True, slots=True)
class RegistrationsSeen:
    """The registered hosts at some moment after ``since``, with the transactions that registered them."""

    since: float
    created: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Attacked:
    """An attacker wrote content to ZooKeeper that no syncer published."""

    time: float


@dataclass(frozen=True, slots=True)
class VersionClaimed:
    """The state of a host whose file claims that it has completely deployed a revision.

    ``marked`` are the instances with a marker, ``packages`` the versions of the packages of services, and
    ``system`` the names and versions of those of the operating system.
    """

    time: float
    host: str
    revision: str
    marked: frozenset[tuple[str, int]]
    packages: Mapping[str, str] = field(default_factory=dict)
    system: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class AgentEnded:
    """An agent was killed or ended; ``kept`` is the failure that its host keeps on disk."""

    time: float
    host: str
    kept: str = ""


@dataclass(frozen=True, slots=True)
class AgentThawed:
    """A frozen agent continues."""

    time: float
    host: str


@dataclass(frozen=True, slots=True)
class UnexpectedErrorLogged:
    """A daemon logged an error outside ``zkdeployment.base.errors``: a defect of the program."""

    time: float
    daemon: str
    error: str


#: The words of ``zkdeployment.base.errors.error_message`` for a defect, or a stack trace that is in no log record.
_UNEXPECTED = re.compile(
    r"unexpected \w+: [^\n]*?; see the log|^Traceback \(most recent call last\)", re.MULTILINE
)

Observation = (
    ScriptBegan
    | ScriptEnded
    | ScriptFailed
    | HostWentDown
    | HostBooted
    | RebootsSeen
    | ClusterSeen
    | ReportsSeen
    | PublicationSeen
    | RegistrationsSeen
    | Attacked
    | VersionClaimed
    | AgentEnded
    | AgentThawed
    | UnexpectedErrorLogged
)


def read_record(line: str) -> ScriptBegan | ScriptEnded | ScriptFailed | HostWentDown:
    """Return the observation in a line of the record; raises ``ValueError`` for other lines.

    A line is: event, seconds since boot, host, action, path, number, version of the package, revision, text,
    process id, and exit status.
    """
    event, time, host, action, path, number, package, revision, text, pid, status = line.split()
    call = ScriptCall(host, action, path, int(number), package, revision, text, int(pid))
    match event:
        case "begin":
            return ScriptBegan(float(time), call)
        case "end":
            return ScriptEnded(float(time), call)
        case "fail":
            return ScriptFailed(float(time), call, int(status))
        case "down":
            return HostWentDown(float(time), host, path, revision)
    raise ValueError(f"expected begin, end, fail or down, found {event}")


def unexpected_errors(text: str) -> list[str]:
    """Return the errors in a daemon's log that the program does not expect."""
    return sorted(set(_UNEXPECTED.findall(text)))
