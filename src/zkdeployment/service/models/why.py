"""The body of the answer that explains the state of a host."""

from typing import Annotated, Literal

from pydantic import Field

from zkdeployment.checks.models import CheckInstanceBody
from zkdeployment.service.models.fleet import Described


class FailureOutputBody(Described):
    """The end of the output of the script with which a host failed."""

    revision: str | int
    step: str
    time: float
    output: str


class WhyBody(Described):
    """The reason for which a host is not at the cluster version."""

    schema_: Annotated[Literal["zkdeployment/why/v1"], Field(alias="schema")]
    cause: str
    answer: str
    facts: list[str]
    advice: list[str]
    output: FailureOutputBody | None
    checks: list[CheckInstanceBody]
