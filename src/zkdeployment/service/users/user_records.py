"""The nodes of users, and the reader for programs without the libraries of the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from zkdeployment.base.log import get_logger
from zkdeployment.base.names import NameKind, is_name
from zkdeployment.base.records import Key, Record, no_keys
from zkdeployment.service.users.user import User
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import encode
from zkdeployment.zookeeper.shared_nodes import WatchedNodes

if TYPE_CHECKING:
    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session


@dataclass(frozen=True, slots=True)
class UserRecord(Record):
    """A user and the hash of its key, which is empty for users that log in elsewhere.

    ``unknown`` are the properties that this version does not know.
    """

    user: Annotated[User, Key(flat=True)]
    key_hash: str = field(default="", repr=False)
    unknown: Mapping[str, Any] = field(default_factory=no_keys, repr=False)


def encode_user(record: UserRecord) -> bytes:
    """Encode the data of a user's node."""
    properties = record.to_json()
    del properties["name"]
    return encode(properties)


def decode_user(name: str, node: Node | None) -> UserRecord | None:
    """Decode the node of a user; ``None`` if it does not exist, or if it is damaged, which is logged."""
    if node is None:
        return None
    try:
        return UserRecord.from_json({**node.properties, "name": name})
    except ValueError as error:
        get_logger().warning("user-unreadable", user=name, error=str(error))
        return None


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

        The answer is current, and usually costs no request: the node is watched. The user is read again after a
        change, and after the connection was lost.
        """
        record = self.record(name)
        return None if record is None else record.user

    def record(self, name: str, *, cached: bool = True) -> UserRecord | None:
        """Return a user with the hash of its key; without ``cached`` the node is always read."""
        if not is_name(NameKind.USER, name):
            return None
        path = paths.user_path(name)
        return decode_user(name, self._nodes.get(path) if cached else self._session.get(path))
