"""The bodies of answers about the fleet and its hosts.

The values are encoded by the pure rooms; these models describe them.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Revision = str | int
Properties = dict[str, Any]


class Described(BaseModel):
    """A JSON object with these keys; a later version may add keys, as in all output."""

    model_config = ConfigDict(extra="allow")


class LeasedBody(Described):
    """The present lease of a host: the role of its pool, and the number of the lease."""

    role: str
    number: int


class HostStatusBody(Described):
    """A host; times are in seconds since the epoch. ``lease`` is the idle role of a host that can be leased."""

    id: str
    name: str
    role: str | None
    state: Literal["converged", "behind", "deploying", "failed", "absent", "excluded", "unknown"]
    version: Revision | None
    former: Revision | None
    wanted: Revision | None
    step: str | None
    steps: list[int] | None
    error: str | None
    since: float | None
    expected: bool
    lease: str | None
    leased: LeasedBody | None


class StopBody(Described):
    """A failure of a host (``host``, ``name``, ``revision``), or a stop or hold of an operator (``by``)."""

    step: str
    reason: str
    time: float
    host: Annotated[str, Field(default=None)]
    name: Annotated[str, Field(default=None)]
    revision: Annotated[Revision, Field(default=None)]
    by: Annotated[str, Field(default=None)]


class RequestBody(Described):
    """An operator's request for a publication."""

    by: str
    reason: str
    time: float
    age_limit: float
    error: str | None


class RefusalBody(Described):
    """The tip of the branch that the syncer refuses to publish."""

    revision: str | int
    problems: list[str]
    time: float


class DaemonFailureBody(Described):
    """A daemon whose cycles fail for an unexpected reason."""

    daemon: str
    by: str
    message: str
    since: float


class GroupStopBody(Described):
    """The stop of a deployment intent group: the failure of a host in the publication with this sequence."""

    group: str
    sequence: int
    host: str
    name: str
    revision: Revision
    step: str
    reason: str
    time: float


class StatusBody(Described):
    """The status of the fleet, or of one host."""

    schema_: Annotated[Literal["zkdeployment/status/v1"], Field(alias="schema")]
    version: Revision | bool | None
    cluster: Literal["running", "stopped", "held", "importing"] | None
    wanted: Revision | None
    converged: bool
    summary: str
    rollout: str | None
    warnings: list[str]
    stopped: list[str]
    stops: list[StopBody]
    stops_recorded: int
    request: RequestBody | None
    refusal: RefusalBody | None
    failures: list[DaemonFailureBody]
    group_stops: list[GroupStopBody]
    hosts: list[HostStatusBody]


class ContenderBody(Described):
    """The holder of a lock, or a host that waits for it."""

    identity: str
    host: str | None
    since: float
    registered: bool | None


class LockBody(Described):
    """A lock; ``left``: the host that worked under it has lost it; ``kept``: it is kept for the holder."""

    kind: Literal["service", "role", "syncer"]
    name: str
    path: str
    holder: ContenderBody | None
    waiting: list[ContenderBody]
    work: Properties | None
    left: bool
    kept: bool


class LocksBody(Described):
    """All locks, the urgent ones first."""

    schema_: Annotated[Literal["zkdeployment/locks/v1"], Field(alias="schema")]
    locks: list[LockBody]


class DeploymentBody(Described):
    """One deployment of a service on a host."""

    number: int
    version: str | None
    state: Literal["deployed", "pending", "outdated", "missing", "leftover", "unknown", "absent"]


class ServiceHostBody(Described):
    """A host with deployments of a service; ``n`` is the wanted number of instances."""

    id: str
    name: str
    role: str | None
    state: str
    n: int
    deployments: list[DeploymentBody]


class ServiceBody(Described):
    """A service: the wanted version, its hosts, targets without a host, and registered instances."""

    path: str
    package: str
    version: str | None
    as_wanted: bool
    unmatched: list[str]
    hosts: list[ServiceHostBody]
    providers: dict[str, Properties] | None


class ServicesBody(Described):
    """The services at and below a path."""

    schema_: Annotated[Literal["zkdeployment/services/v1"], Field(alias="schema")]
    wanted: Revision | None
    as_wanted: bool
    services: list[ServiceBody]


class ServiceHealth(BaseModel):
    """The service and its connection to ZooKeeper work."""

    model_config = ConfigDict(extra="forbid")

    zookeeper: Literal["reachable"] = "reachable"
