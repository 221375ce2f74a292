"""The outcome of a commit, as a response."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


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
