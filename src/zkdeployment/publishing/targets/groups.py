"""The deployment intent groups whose failures stop only the group, by the nodes that they govern."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping


class GoverningGroups:
    """Groups by the paths of the nodes at and below which services belong to them.

    ``paths`` maps the subject of each group to its paths. Publications write them to ``/zkdeployment/groups``:
    the group of a service is known to hosts that should not have the service any more.
    """

    def __init__(self, paths: Mapping[str, Collection[str]]) -> None:
        self.paths = paths
        self._by_path: dict[str, str] = {}
        for subject, governed in paths.items():
            for path in governed:
                self._by_path.setdefault(path, subject)

    def __bool__(self) -> bool:
        return bool(self._by_path)

    def of(self, service: str) -> str | None:
        """Return the group of a service, ``None`` without one; wider paths take precedence."""
        return next((self._by_path[above] for above in paths_to(service) if above in self._by_path), None)


def paths_to(path: str) -> Iterator[str]:
    """Yield the paths of the nodes above a node, from the top, and then its own path."""
    end = path.find("/", 1)
    while end > 0:
        yield path[:end]
        end = path.find("/", end + 1)
    yield path
