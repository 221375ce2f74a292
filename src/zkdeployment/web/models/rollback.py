"""The request of a rollback, and its result."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from zkdeployment.web.models.acts import ActRequest

#: The longest wait for a syncer, in seconds: a request keeps a thread of the service.
_LONGEST_WAIT = 300.0


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
