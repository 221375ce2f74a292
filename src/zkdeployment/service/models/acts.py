"""Requests of acts on the fleet, what was recorded of them, the audit, and the outcomes of commits."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from zkdeployment.base.act import MAX_REASON_LENGTH, Act, sanitize
from zkdeployment.base.cluster import Revision
from zkdeployment.fleet.views.history import AuditRecords
from zkdeployment.publishing.records import GuardOverrides

#: The longest wait for a syncer, in seconds: a request keeps a thread of the service.
_LONGEST_WAIT = 300.0


def _given(reason: str) -> str:
    if not sanitize(reason):
        raise ValueError("the reason is empty: expected a few words")
    return reason


OptionalReason = Annotated[
    str, Field(max_length=MAX_REASON_LENGTH, description="The reason, which is shown to all operators.")
]
Reason = Annotated[OptionalReason, Field(min_length=1), AfterValidator(_given)]


class ActRequest(BaseModel):
    """An act, with the reason for it."""

    model_config = ConfigDict(extra="forbid")

    reason: Reason


class ReasonedRequest(BaseModel):
    """An act that needs no reason."""

    model_config = ConfigDict(extra="forbid")

    reason: OptionalReason = ""


class ResumeRequest(ReasonedRequest):
    """The end of a stop or a hold.

    With ``latest``, a syncer first publishes the tip of the branch; the answer waits for it, at most ``timeout``
    seconds.
    """

    latest: bool = False
    timeout: Annotated[float, Field(ge=0, le=_LONGEST_WAIT)] = 60.0
    allow_rewind: bool = False
    allow_mass_removal: bool = False
    allow_package_problems: bool = False

    @model_validator(mode="after")
    def _overrides_need_a_publication(self) -> Self:
        if not self.latest and self.overrides != GuardOverrides():
            raise ValueError(
                "expected latest with allow_rewind, allow_mass_removal or allow_package_problems: without it"
                " nothing is published"
            )
        return self

    @property
    def overrides(self) -> GuardOverrides:
        """The guards that the publication overrides."""
        return GuardOverrides(self.allow_rewind, self.allow_mass_removal, self.allow_package_problems)


class PromoteRequest(ActRequest):
    """The promotion of a group of the present rollout."""

    group: Annotated[str, Field(min_length=1, max_length=200)]


class ReleaseRequest(ActRequest):
    """The release of the lock of a service, named by its path, or of a role.

    With ``force``, the lock is released even while its holder works under it.
    """

    name: Annotated[str, Field(min_length=1, max_length=2000)]
    force: bool = False


class RecordedAct(BaseModel):
    """The record of an act: who did what, why, and when (seconds since the epoch)."""

    model_config = ConfigDict(extra="forbid")

    by: str
    what: str
    reason: str
    time: float

    @classmethod
    def of(cls, act: Act) -> "RecordedAct":
        """Return the model of an act."""
        return cls(by=act.by, what=act.what, reason=act.reason, time=act.time)


class ResumedFleet(BaseModel):
    """The end of a stop or a hold: the revision that hosts deploy now."""

    model_config = ConfigDict(extra="forbid")

    act: RecordedAct
    revision: Revision


class DirectedRollout(BaseModel):
    """A directive to the coordinator: the rollout that it concerns, and whether a coordinator runs."""

    model_config = ConfigDict(extra="forbid")

    act: RecordedAct
    rollout: str
    coordinator: bool


class AuditedAct(BaseModel):
    """An act of an operator."""

    model_config = ConfigDict(extra="forbid")

    by: str = Field(description="The user of the service, or USER@HOST for a verb.")
    what: str
    reason: str
    time: float = Field(description="Seconds since the epoch.")


class RejectedLogin(BaseModel):
    """A failed login."""

    model_config = ConfigDict(extra="forbid")

    time: float = Field(description="Seconds since the epoch.")
    user: str | None = Field(description="The user; null if there is no user of the given name.")
    address: str
    problem: str


class AuditAnswer(BaseModel):
    """The acts of operators and the failed logins, the newest first."""

    model_config = ConfigDict(extra="forbid")

    schema_: Literal["zkdeployment/audit/v1"] = Field("zkdeployment/audit/v1", alias="schema")
    acts: list[AuditedAct]
    failed_logins: list[RejectedLogin]

    @classmethod
    def of(cls, records: AuditRecords) -> "AuditAnswer":
        """Return the answer with these records."""
        return cls.model_validate(records.to_json())


class CommitJob(BaseModel):
    """A commit: whether it was published or refused, the sequence of its first publication, or the problems.

    ``refused`` is the tip that was refused, which is the commit or contains it.
    """

    model_config = ConfigDict(extra="forbid")

    job: str
    state: Literal["pending", "processed", "failed"]
    sequence: int | None
    problems: list[str]
    refused: str | None


class RollbackRequest(ActRequest):
    """A rollback to a revision, by default to the last successful revision before the current one.

    With ``now``, a syncer publishes the commit at once; the answer waits for it, at most ``timeout`` seconds.
    ``quarantine`` puts each version that the undone commits introduced into quarantine. ``dry_run`` commits
    nothing.
    """

    revision: Annotated[str | None, Field(pattern="^[0-9a-f]{4,64}$")] = None
    now: bool = False
    quarantine: bool = False
    dry_run: bool = False
    timeout: Annotated[float, Field(ge=0, le=_LONGEST_WAIT)] = 60.0


class UndoneCommit(BaseModel):
    """A commit that a rollback undoes; ``time`` is in seconds since the epoch."""

    model_config = ConfigDict(extra="forbid")

    revision: str
    author: str
    subject: str
    time: float


class CommittedAct(BaseModel):
    """An act that is a commit: ``job`` is the commit, or ``null`` for a dry run.

    ``changed`` is false if the tip of the branch is as wanted already; ``job`` is then the tip. ``diff`` is the
    change as git prints it. ``obstacles`` are the reasons why the commit is not published yet.
    """

    model_config = ConfigDict(extra="forbid")

    job: str | None
    changed: bool
    diff: str
    undone: list[UndoneCommit]
    obstacles: list[str]
