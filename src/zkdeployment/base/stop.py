"""Stops: the reasons why the fleet, or one group, is stopped or held; kept in ZooKeeper until it is resumed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import short
from zkdeployment.base.deployment import DeploymentFailure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.base.act import Act
    from zkdeployment.base.cluster import Revision
    from zkdeployment.tree.values import Properties, Value

HOLD = "hold"

#: The author of the stop after a failed rollout; operators are ``USER@HOST``.
COORDINATOR = "the coordinator"


@dataclass(frozen=True)
class Stop:
    """A failure that stopped the fleet, or an operator's ``stop`` or ``hold``.

    ``time`` is in seconds since the epoch. A failure names the host, the revision and the step. An operator's act
    has the operator in ``by``, ``stop`` or ``hold`` in ``step``, and no host. ``replaced`` is the number of older
    stops that are no longer kept because this stop took their place.
    """

    host_id: str
    host_name: str
    revision: Revision
    step: str
    reason: str
    time: float
    by: str | None = None
    replaced: int = 0

    def __str__(self) -> str:
        if self.by is not None:
            return f"{'held' if self.is_hold else 'stopped'} by {self.by}: {self.reason}"
        where = f"{self.host_name} ({self.host_id})"
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
    def key(self) -> str:
        """The unique key of the stop: the host's id, or ``~`` (which no host id begins with) and the operator."""
        return self.host_id if self.by is None else f"~{self.by}"

    def properties(self) -> dict[str, Value]:
        """Return the properties of the stop's node."""
        if self.by is not None:
            return {"by": self.by, "step": self.step, "reason": self.reason, "time": self.time}
        return {
            "host": self.host_id,
            "name": self.host_name,
            "revision": self.revision,
            "step": self.step,
            "reason": self.reason,
            "time": self.time,
        }

    @classmethod
    def from_properties(cls, properties: Properties) -> Stop:
        """Return the stop that a node describes; missing values read as unknown."""
        revision = properties.get("revision")
        time = properties.get("time")
        by = properties.get("by")
        return cls(
            host_id=str(properties.get("host", "?")),
            host_name=str(properties.get("name", "?")),
            revision=revision if isinstance(revision, str | int) else "?",
            step=str(properties.get("step", "?")),
            reason=str(properties.get("reason", "?")),
            time=float(time) if isinstance(time, int | float) else 0.0,
            by=by if isinstance(by, str) else None,
        )

    @classmethod
    def of_operator(cls, act: Act) -> Stop:
        """Return the stop of an operator's ``stop`` or ``hold``."""
        return cls("?", "?", "?", act.what, act.reason, act.time, by=act.by)


#: The largest size of the kept end of an output, in bytes.
MAX_OUTPUT_BYTES = 20 * 1024


@dataclass(frozen=True)
class FailureOutput:
    """The end of the output of the script with which a host failed at ``time``, in seconds since the epoch.

    ``text`` contains no secrets, and no control characters but line feeds and tabs.
    """

    host_id: str
    revision: Revision
    step: str
    time: float
    text: str

    def properties(self) -> dict[str, Value]:
        """Return the properties of the output's node."""
        return {"revision": self.revision, "step": self.step, "time": self.time, "output": self.text}

    @classmethod
    def from_properties(cls, host_id: str, properties: Properties) -> FailureOutput:
        """Return the output that a node describes; missing values read as unknown."""
        revision, time = properties.get("revision"), properties.get("time")
        return cls(
            host_id,
            revision=revision if isinstance(revision, str | int) else "?",
            step=str(properties.get("step", "?")),
            time=float(time) if isinstance(time, int | float) else 0.0,
            text=str(properties.get("output", "")),
        )


@dataclass(frozen=True, slots=True)
class GroupStop:
    """The failure of a host that stopped a group; ``group`` is the subject, as in ``p1/store/v1/shop``.

    ``sequence`` is that of the publication in which the host failed. The stop only withholds: hosts skip the
    group's steps until a publication changes the group, or an operator resumes it.
    """

    group: str
    sequence: int
    stop: Stop

    def __str__(self) -> str:
        return f"group {self.group} is stopped: {self.stop}"

    def properties(self) -> dict[str, Value]:
        """Return the properties of the stop's node."""
        return {**self.stop.properties(), "sequence": self.sequence}

    @classmethod
    def from_properties(cls, group: str, properties: Properties) -> GroupStop:
        """Return the stop that a node describes; missing values read as unknown."""
        sequence = properties.get("sequence")
        stop = replace(Stop.from_properties(properties), by=None)
        return cls(group, sequence if isinstance(sequence, int) else 0, stop)


@dataclass(frozen=True, slots=True)
class LackingGroup:
    """The services of a stopped group that a host lacks, although the host has the publication.

    ``services`` are the paths of the services whose steps the host skipped or failed at. ``failed`` is the
    failure of this host.
    """

    services: frozenset[str] = frozenset()
    failed: DeploymentFailure | None = None

    def to_json(self) -> dict[str, Value]:
        """Return the value in the host's node and in its file."""
        failed = {} if self.failed is None else {"failed": self.failed.properties()}
        return {"services": [*sorted(self.services)], **failed}

    @classmethod
    def from_json(cls, value: object) -> LackingGroup:
        """Return what ``to_json`` encoded; malformed values read as not set."""
        match value:
            case {"services": list(services), **others}:
                failed = DeploymentFailure.from_properties(others.get("failed"))
                return cls(frozenset(map(str, services)), failed)
            case _:
                return cls()


def services_of(lacking: Mapping[str, LackingGroup]) -> frozenset[str]:
    """Return the services of all groups that a host lacks."""
    return frozenset(service for one in lacking.values() for service in one.services)


def lacking_from_json(value: object) -> dict[str, LackingGroup]:
    """Return what a host lacks, by group; nothing for anything but a mapping."""
    if not isinstance(value, dict):
        return {}
    return {str(group): LackingGroup.from_json(lacking) for group, lacking in value.items()}
