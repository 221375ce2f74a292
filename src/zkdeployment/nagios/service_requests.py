"""Requests of the bridge to the service, and its answers, for many instances at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

T = TypeVar("T")

#: The most instances of a request, as the service accepts them.
MOST_INSTANCES = 500

#: The most bytes of the reasons in a request, whose body may have 1 MiB.
_LARGEST = 500_000

#: The most characters of a reason: the service keeps no more of it.
LONGEST_REASON = 1000


@dataclass(frozen=True, slots=True)
class FetchedDetails:
    """The details of instances, each with its task; ``failed`` are reasons for which others were not fetched.

    Instances that are in neither have nothing to deploy. Both are keyed by instance.
    """

    details: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAnswer:
    """The outcome of a deployment; ``problem`` is why it failed, empty if it succeeded."""

    instance: str
    config_id: str | None
    problem: str = ""

    @property
    def size(self) -> int:
        """The bytes of the reason."""
        return len(self.problem[:LONGEST_REASON].encode(errors="replace"))

    def to_json(self) -> dict[str, str]:
        """Return the answer as the service expects it."""
        body = {"result": "failed" if self.problem else "success", "reason": self.problem[:LONGEST_REASON]}
        return body if self.config_id is None else body | {"config_id": self.config_id}


def request_parts(items: Iterable[T], size: Callable[[T], int] = lambda _: 0) -> Iterator[list[T]]:
    """Yield items in parts of which each fits into a request; ``size`` returns the bytes of an item."""
    part: list[T] = []
    total = 0
    for item in items:
        total += size(item)
        if part and (len(part) == MOST_INSTANCES or total > _LARGEST):
            yield part
            part, total = [], size(item)
        part.append(item)
    if part:
        yield part
