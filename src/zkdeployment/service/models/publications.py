"""The bodies of answers about publications, rollouts and plans, for the description of the API."""

from typing import Annotated, Any, Literal

from pydantic import Field

from zkdeployment.service.models.fleet import Described, Revision


class PublicationSummaryBody(Described):
    """A publication with the numbers of hosts that are done and failed."""

    revision: Revision
    time: float
    sequence: int
    since: int
    author: str | None
    subject: str | None
    committed: float | None
    signer: str | None
    forced_by: str | None
    reason: str | None
    hosts: int
    excluded: int
    done: int
    failed: int
    ended: float | None


class HistoryBody(Described):
    """The last publications, the newest first."""

    schema_: Annotated[Literal["zkdeployment/history/v1"], Field(alias="schema")]
    publications: list[PublicationSummaryBody]


class FailureBody(Described):
    """The failure of a host: the step of a publication, and the instance ``n`` of a service or the packages."""

    sequence: int
    step: str
    path: str | None
    n: int | None
    packages: list[str]


class ResultBody(Described):
    """The result of a publication on a host."""

    id: str
    name: str
    time: float
    seconds: float
    error: str | None
    failed: FailureBody | None


class ActBody(Described):
    """An act of an operator."""

    by: str
    what: str
    reason: str
    time: float


class RolloutGroupBody(Described):
    """A group of a rollout; ``hosts`` maps the id of each host to its state."""

    name: str
    critical: bool
    state: Literal["waiting", "preparing", "deploying", "baking", "success", "failed"]
    depends_on: list[str]
    successful: int
    failed: int
    total: int
    words: str
    hosts: dict[str, str]


class AttemptBody(Described):
    """A rollout; ``counts`` are numbers of hosts by state, ``errors`` are keyed by host id."""

    id: str
    revision: Revision
    strategy: str
    state: str
    words: str
    coordinator: bool
    begun: float
    moved: float
    ended: float | None
    groups: list[RolloutGroupBody]
    counts: dict[str, int]
    errors: dict[str, str]
    acts: list[str]
    warnings: list[str]


class RolloutBody(AttemptBody):
    """The rollout of the published revision."""

    schema_: Annotated[Literal["zkdeployment/rollout/v1"], Field(alias="schema")]


class PublicationBody(PublicationSummaryBody):
    """A publication with the results of hosts, the acts of operators until the next one, and its rollouts."""

    schema_: Annotated[Literal["zkdeployment/publication/v1"], Field(alias="schema")]
    left_out: int
    results: list[ResultBody]
    acts: list[ActBody]
    rollouts: list[AttemptBody]


class PlannedHostBody(Described):
    """The forecast of a host: its steps in order, and the deployments that are not run again."""

    id: str
    name: str
    role: str | None
    outlook: str
    absent: bool
    lease: str | None
    reason: str | None
    steps: list[dict[str, Any]]
    unchanged: list[str]


class PlannedTreeBody(Described):
    """The paths of nodes that would be created, updated and deleted."""

    create: list[str]
    update: list[str]
    delete: list[str]


class PlannedDocumentBody(Described):
    """A document beside the tree that changes."""

    change: str
    kind: str
    subject: list[str]


class PackageProblemBody(Described):
    """A finding about the packages that a publication newly wants: ``error`` or ``warning``."""

    severity: str
    path: str | None
    message: str


class PackageCheckBody(Described):
    """The check of packages: how many newly wanted ones were looked up, and what was found."""

    checked: int
    problems: list[PackageProblemBody]


class CheckDifferenceBody(Described):
    """The effect of a publication on check instances: at most 1,000 of each kind, and how many there are."""

    counts: dict[Literal["added", "changed", "removed"], int]
    added: list[dict[str, Any]]
    changed: list[dict[str, Any]]
    removed: list[dict[str, Any]]
    errors: list[dict[str, Any]]


class PlanBody(Described):
    """The forecast of a publication."""

    schema_: Annotated[Literal["zkdeployment/plan/v1"], Field(alias="schema")]
    revision: Revision | None
    changes: bool
    summary: str
    tree: PlannedTreeBody
    hosts: list[PlannedHostBody]
    strategy: dict[str, Any] | None
    documents: list[PlannedDocumentBody]
    order: dict[str, Any] | None
    warnings: list[str]
    packages: PackageCheckBody | None
    checks: CheckDifferenceBody
