"""The audit view as JSON."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from zkdeployment.fleet.audit import AuditRecords


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
