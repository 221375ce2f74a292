"""Requests of acts on the fleet, what was recorded of them, the audit, and the outcomes of commits."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from zkdeployment.base.act import MAX_REASON_LENGTH, sanitize
from zkdeployment.fleet.views.history import AuditRecords


def _given(reason: str) -> str:
    if not sanitize(reason):
        raise ValueError("the reason is empty: expected a few words")
    return reason


OptionalReason = Annotated[
    str, Field(max_length=MAX_REASON_LENGTH, description="The reason, which is shown to all operators.")
]
Reason = Annotated[OptionalReason, Field(min_length=1), AfterValidator(_given)]


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
