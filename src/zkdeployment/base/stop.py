"""Stops: the reasons why the fleet, or one group, is stopped or held; kept in ZooKeeper until it is resumed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, ClassVar

from zkdeployment.base.cluster import Revision, short
from zkdeployment.base.deployment import DeploymentFailure
from zkdeployment.base.errors import without_secrets
from zkdeployment.base.records import APART, OMITTED, Key, Record
from zkdeployment.base.text import printable_lines
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zkdeployment.base.act import Act

HOLD = "hold"

#: The author of the stop after a failed rollout; operators are ``USER@HOST``.
COORDINATOR = "the coordinator"


@dataclass(frozen=True)
class Stop(Record):
    """A failure that stopped the fleet, or an operator's ``stop`` or ``hold``.

    ``time`` is in seconds since the epoch. A failure names the host, the revision and the step. An operator's act
    has the operator in ``by``, ``stop`` or ``hold`` in ``step``, and no host. ``replaced`` is the number of older
    stops that are no longer kept because this stop took their place. ``repaired`` is not recorded: it is set where
    the host that failed is known to have the published revision now, although the fleet is still stopped.
    """

    is_lenient: ClassVar[bool] = True
    host_id: Annotated[str, Key("host", omit=True)] = "?"
    host_name: Annotated[str, Key("name", omit=True)] = "?"
    revision: Annotated[Revision, OMITTED] = "?"
    step: str = "?"
    reason: str = "?"
    time: float = 0.0
    by: Annotated[str | None, OMITTED] = None
    replaced: Annotated[int, APART] = 0
    repaired: Annotated[bool, OMITTED] = False

    def __str__(self) -> str:
        if self.by is not None:
            return f"{'held' if self.is_hold else 'stopped'} by {self.by}: {self.reason}"
        where = f"{self.host_name} ({self.host_id})"
        where = f"{where} is repaired: it" if self.repaired else where
        return f"{where} failed at {self.step} of {short(self.revision)}: {self.reason}"

    @property
    def is_hold(self) -> bool:
        """Whether the stop is an operator's hold, during which the syncer still publishes."""
        return self.by is not None and self.step == HOLD

    @property
    def is_failure(self) -> bool:
        """Whether the stop is a failure, and not the intention of an operator."""
        return self.by is None or self.by == COORDINATOR

    @property
    def is_open_failure(self) -> bool:
        """Whether the stop is a failure that is not repaired."""
        return self.is_failure and not self.repaired

    @property
    def key(self) -> str:
        """The unique key of the stop: the host's id, or ``~`` (which no host id begins with) and the operator."""
        return self.host_id if self.by is None else f"~{self.by}"

    @classmethod
    def of_operator(cls, act: Act) -> Stop:
        """Return the stop of an operator's ``stop`` or ``hold``."""
        return cls(step=act.what, reason=act.reason, time=act.time, by=act.by)


def operators_stop(stops: Iterable[Stop]) -> Stop | None:
    """Return the stop of an operator, if there is one: neither a recovery nor a retry passes such a stop."""
    return next((stop for stop in stops if not stop.is_failure), None)


#: The largest size of the kept end of an output, in bytes.
MAX_OUTPUT_BYTES = 20 * 1024


@dataclass(frozen=True)
class FailureOutput(Record):
    """The end of the output of the script with which a host failed at ``time``, in seconds since the epoch.

    ``text`` contains no secrets, and no control characters but line feeds and tabs. ``file`` is the file with the
    whole output on the host, empty if the agent did not name it.
    """

    is_lenient: ClassVar[bool] = True
    host_id: Annotated[str, APART]
    revision: Revision
    step: str
    time: float
    text: Annotated[str, Key("output")] = ""
    file: str = ""


#: The directory of the outputs of scripts, below the root of a host.
OUTPUTS_DIRECTORY = "var/log/zkdeployment"


def output_place(output: FailureOutput | None) -> str:
    """Return where the whole output of a script is on its host, as the end of a sentence."""
    return f"in {output.file}" if output is not None and output.file else f"under /{OUTPUTS_DIRECTORY}"


_LINE_END = re.compile(rb"[\r\n]")


def end_of_output(output: bytes, most: int) -> str:
    """Return the end of an output without secrets, at ``most`` this many bytes of printable lines.

    If the output is longer, an incomplete first line is omitted, because it may lack the word by which a secret is
    recognised. A carriage return ends a line, too: programs show their progress with it.
    """
    start = max(0, len(output) - most)
    if start:
        line_end = _LINE_END.search(output, start - 1)
        start = len(output) if line_end is None else line_end.end()
    shown = printable_lines(without_secrets(output[start:].decode("utf-8", errors="replace")))
    return shown.encode("utf-8")[-most:].decode("utf-8", errors="ignore")


#: The most lines of an output that a host shows with its error, and the most characters of each.
_LAST_LINES, _LONGEST_LINE = 10, 200


def last_lines(output: str) -> str | None:
    """Return the last lines of an output, without blank ones and the ends of long ones; ``None`` without any."""
    lines = [line for line in output.splitlines() if line.strip()]
    return "\n".join(line[:_LONGEST_LINE] for line in lines[-_LAST_LINES:]) or None


#: The largest size of the shown end of the output of a running script, in bytes.
MAX_LIVE_BYTES = 4 * 1024


@dataclass(frozen=True)
class LiveOutput(FailureOutput):
    """The end of the output that a running script had at ``time``; otherwise as ``FailureOutput``."""


@dataclass(frozen=True, slots=True)
class GroupStop(Record):
    """The failure of a host that stopped a group; ``group`` is the subject, as in ``p1/store/v1/shop``.

    ``sequence`` is that of the publication in which the host failed. The stop only withholds steps: hosts skip the
    group's steps until a publication changes the group, or an operator resumes it.
    """

    is_lenient: ClassVar[bool] = True
    group: Annotated[str, APART]
    sequence: int
    stop: Annotated[Stop, Key(flat=True)]

    def __str__(self) -> str:
        return f"group {self.group} is stopped: {self.stop}"


@dataclass(frozen=True, slots=True)
class LackingGroup(Record):
    """The services of a stopped group that a host lacks, although the host has the publication.

    ``services`` are the paths of the services whose steps the host skipped or failed at. ``failed`` is the
    failure of this host.
    """

    is_lenient: ClassVar[bool] = True
    services: frozenset[str] = frozenset()
    failed: Annotated[DeploymentFailure | None, OMITTED] = None


def services_of(lacking: Mapping[str, LackingGroup]) -> frozenset[str]:
    """Return the services of all groups that a host lacks."""
    return frozenset(service for one in lacking.values() for service in one.services)


def lacking_from_json(value: object) -> dict[str, LackingGroup]:
    """Return the services that a host lacks, by group; empty for any value but a mapping."""
    if not isinstance(value, dict):
        return {}
    return {str(group): LackingGroup.from_json(lacking) for group, lacking in value.items()}
