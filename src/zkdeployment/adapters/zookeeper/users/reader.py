"""Reads the users of the service. Programs without the libraries of the service use only this part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.users.user_records import UserRecord, decode_user
from zkdeployment.adapters.zookeeper.users.watched_nodes import WatchedNodes
from zkdeployment.model.names import NameKind, is_name

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.user import User


class ZooKeeperUserReader:
    """The users below ``/zkdeployment/users``, through one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._nodes = WatchedNodes(session)

    def users(self) -> tuple[User, ...]:
        """Return all users, retired ones included, by id."""
        names = [name for name in self._session.children(paths.USERS) or () if is_name(NameKind.USER, name)]
        nodes = self._session.get_many(paths.user_path(name) for name in names)
        records = (decode_user(name, node) for name, node in zip(names, nodes, strict=True))
        return tuple(sorted((record.user for record in records if record is not None), key=lambda user: user.id))

    def user(self, name: str) -> User | None:
        """Return a user; ``None`` if no user has this name.

        The answer is fresh, and usually costs no request: the node is watched. The user is read again after a
        change, and after the connection was lost.
        """
        record = self.record(name)
        return None if record is None else record.user

    def record(self, name: str, *, cached: bool = True) -> UserRecord | None:
        """Return a user with the hash of its key; without ``cached`` the node is read in any case."""
        if not is_name(NameKind.USER, name):
            return None
        path = paths.user_path(name)
        return decode_user(name, self._nodes.get(path) if cached else self._session.get(path))
