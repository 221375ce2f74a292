"""Check configurations and their instances, as requests and responses."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from zkdeployment.web.models.fleet import Described


class CheckMetadata(BaseModel):
    """The name of a check configuration."""

    model_config = ConfigDict(extra="forbid")

    name: str


class CheckDocument(BaseModel):
    """A check configuration; the manual describes the keys of `data`."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    schema_: Annotated[Literal["zkdeployment/CheckConfiguration/v1"], Field(alias="schema")] = (
        "zkdeployment/CheckConfiguration/v1"
    )
    metadata: CheckMetadata
    data: dict[str, Any]


class ListedCheck(Described):
    """A published check configuration."""

    name: str
    object: str
    inheritance: bool
    children_only: bool
    monitoring: str
    command: str
    interval: int


class ListedSystem(Described):
    """A published monitoring system; one without a callback polls."""

    name: str
    callback: str | None


class OnCallContactBody(Described):
    """A person or a device that is notified; what is not given is missing."""

    name: str
    email: str | None = None
    phone: str | None = None


class OnCallBody(Described):
    """A published on-call duty for a node of the tree and all nodes below it."""

    name: str
    object: str
    contacts: list[OnCallContactBody]


class ChecksBody(Described):
    """The published check configurations and monitoring systems, by name, and the on-call duties, by node."""

    schema_: Annotated[Literal["zkdeployment/checks/v1"], Field(alias="schema")]
    checks: list[ListedCheck]
    monitoring: list[ListedSystem]
    on_call: list[OnCallBody]


class CheckErrorBody(Described):
    """A reason for which instances of a check have no details; `instances` is their number."""

    path: str
    message: str
    instances: int


class CheckBody(Described):
    """A published check: its document, how many instances it wants, those that exist by state, and its errors."""

    schema_: Annotated[Literal["zkdeployment/check/v1"], Field(alias="schema")]
    name: str
    document: dict[str, Any]
    wanted: int
    states: dict[str, int]
    errors: list[CheckErrorBody]


class CheckResultBody(Described):
    """The last result of a check; times are in seconds since the epoch.

    `config_id` is the configuration that ran, if the monitoring system reports it.
    """

    state: Literal["ok", "warning", "critical", "unknown"]
    output: str
    since: float
    reported: float
    checked: float | None
    config_id: str | None


class CheckDriftEntry(Described):
    """A check that a monitoring system runs in another configuration than the deployed one.

    `expected` is null if the system should not run the check; the keys of the instance are null if it is unknown.
    Results of `reported` have been dropped from `since` until `seen`, in seconds since the epoch.
    """

    id: str
    monitoring: str
    check: str | None
    path: str | None
    number: int | None
    host: str | None
    name: str | None
    reported: str | None
    expected: str | None
    since: float
    seen: float


class CheckDriftBody(Described):
    """Differences between what monitoring systems run and what is deployed there."""

    schema_: Annotated[Literal["zkdeployment/check-drift/v1"], Field(alias="schema")]
    drift: list[CheckDriftEntry]


class CheckInstanceBody(Described):
    """A check instance; `changed` is when it entered its state, in seconds since the epoch."""

    id: str
    check: str
    path: str
    number: int
    host: str
    name: str
    attributes: dict[str, Any]
    monitoring: str
    state: str
    version: int | None
    reason: str
    changed: float | None
    update_available: bool
    deleted: bool
    result: CheckResultBody | None


class CheckVersionBody(Described):
    """A version of a check instance: its state, and the details that the monitoring system gets."""

    version: int
    config_id: str
    state: str
    monitoring: str
    publication: int
    reason: str
    created: float | None
    changed: float | None
    details: dict[str, Any]


class CheckInstanceView(CheckInstanceBody):
    """A check instance with all its versions."""

    schema_: Annotated[Literal["zkdeployment/check-instance/v1"], Field(alias="schema")]
    current: int | None
    notified: float | None
    configurations: list[CheckVersionBody]


class CheckInstancesBody(Described):
    """Check instances, by check, service, host and number."""

    schema_: Annotated[Literal["zkdeployment/check-instances/v1"], Field(alias="schema")]
    instances: list[CheckInstanceBody]


class AllowedRemovalBody(Described):
    """Until when the bridge of a monitoring system may remove many unknown checks, in seconds since the epoch."""

    schema_: Annotated[Literal["zkdeployment/allowed-removal/v1"], Field(alias="schema")]
    monitoring: str
    until: float


class SystemBacklogBody(Described):
    """A monitoring system: its last contacts, and how many instances wait for it or have failed."""

    name: str
    callback: str | None
    fetched: float | None
    reported: float | None
    backlog: int
    flagged: int
    open: int
    failed: int
    waiting_since: float | None
    unheard_since: float | None


class GroupStateBody(Described):
    """A check group: how many of its deployments are OK; some of the others are listed."""

    name: str
    object: str
    at_least: int
    level: Literal["warning", "critical"]
    state: Literal["ok", "pending", "warning", "critical"]
    total: int
    ok: int
    pending: list[str]
    failing: list[str]


class CheckSummaryBody(Described):
    """All monitoring systems, by name.

    `unwritten` has the reasons for which instances could not be written, by the beginning of their identifiers.
    """

    schema_: Annotated[Literal["zkdeployment/checks-summary/v1"], Field(alias="schema")]
    monitoring: list[SystemBacklogBody]
    unwritten: dict[str, str]
    groups: list[GroupStateBody]
