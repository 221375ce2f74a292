"""Sessions that ended and nodes that are done, kept for a year.

A directory has the records of a thousand consecutive ids, so that no list of names becomes too long for ZooKeeper.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client.transactions import Delete, TransactionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session

_IN_DIRECTORY = 1000

#: Records that are removed in one transaction.
_REMOVED_TOGETHER = 200


def record_path(above: str, number: int) -> str:
    """Return the path of a record among those of its thousand."""
    return f"{_directory(above, number)}/{number}"


class EndedRecords:
    """The records below one node."""

    def __init__(self, session: Session, above: str) -> None:
        self._session = session
        self._above = above
        self._known: set[str] = set()

    def ensure_directory(self, number: int) -> None:
        """Create the directory of a record unless it exists."""
        path = _directory(self._above, number)
        if path not in self._known:
            self._session.ensure(path)
            self._known.add(path)

    def forget_directories(self) -> None:
        """Forget which directories exist: another process may have removed empty ones."""
        self._known.clear()

    def read(self) -> Iterator[tuple[str, Node]]:
        """Yield the path and the node of each record."""
        for directory in self._directories():
            found = self._paths(directory)
            nodes = zip(found, self._session.get_many(found), strict=True)
            yield from ((path, node) for path, node in nodes if node is not None)

    def paths(self) -> Sequence[str]:
        """Return the paths of all records, those with the smallest ids first."""
        return [path for directory in self._directories() for path in self._paths(directory)]

    def newest(self, count: int) -> Sequence[tuple[str, Node]]:
        """Return the paths and the nodes of the records with the largest ids, newest first."""
        found: list[str] = []
        for directory in reversed(self._directories()):
            found += reversed(self._paths(directory))
            if len(found) >= count:
                break
        nodes = zip(found[:count], self._session.get_many(found[:count]), strict=True)
        return [(path, node) for path, node in nodes if node is not None]

    def remove(self, is_old: Callable[[str, Node], bool]) -> int:
        """Remove the records for which ``is_old`` is true, and directories without records; return how many."""
        removed, directories = 0, self._directories()
        for directory in directories:
            found = self._paths(directory)
            nodes = zip(found, self._session.get_many(found), strict=True)
            old = [path for path, node in nodes if node is not None and is_old(path, node)]
            for start in range(0, len(old), _REMOVED_TOGETHER):
                batch = old[start : start + _REMOVED_TOGETHER]
                with contextlib.suppress(TransactionError):  # another process removes them
                    self._session.commit(*(Delete(path) for path in batch))
                    removed += len(batch)
            if len(old) == len(found) and directory != directories[-1]:
                with contextlib.suppress(TransactionError):
                    self._session.commit(Delete(directory))
        self.forget_directories()
        return removed

    def _directories(self) -> Sequence[str]:
        """Return the directories, the oldest first."""
        names = (name for name in self._session.children(self._above) or () if name.isdecimal())
        return [f"{self._above}/{name}" for name in sorted(names, key=int)]

    def _paths(self, directory: str) -> list[str]:
        names = (name for name in self._session.children(directory) or () if name.isdecimal())
        return [f"{directory}/{name}" for name in sorted(names, key=int)]


def _directory(above: str, number: int) -> str:
    return f"{above}/{number // _IN_DIRECTORY}"
