"""The body of each response that reports an error."""

from pydantic import BaseModel, ConfigDict


class ErrorDetail(BaseModel):
    """An error: what happened, what was expected and found, and what to do."""

    model_config = ConfigDict(extra="forbid")

    detail: str
