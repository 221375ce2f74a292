"""The nodes of users, and the reader for programs without the libraries of the service."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zkdeployment.base.log import get_logger
from zkdeployment.base.names import NameKind, is_name
from zkdeployment.base.records import no_keys, unknown_keys
from zkdeployment.service.users.user import Role, User
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import encode
from zkdeployment.zookeeper.shared_nodes import WatchedNodes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.tree.values import Properties, Value
    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session


@dataclass(frozen=True, slots=True)
class UserRecord:
    """A user and the hash of its key, which is empty for users that log in elsewhere.

    ``unknown`` are the properties that this version does not know.
    """

    user: User
    key_hash: str = field(repr=False)
    unknown: Mapping[str, Any] = field(default_factory=no_keys, repr=False)


def encode_user(record: UserRecord) -> bytes:
    """Encode the data of a user's node."""
    properties = _properties(record.user, record.key_hash)
    return encode({**record.unknown, **{name: value for name, value in properties.items() if value is not None}})


def _properties(user: User, key_hash: str) -> dict[str, Value]:
    return {
        "id": user.id,
        "role": user.role.value,
        "created_at": user.created_at,
        "retired_at": user.retired_at,
        "key_hash": key_hash,
        "key_number": user.key_number,
        "key_expires_at": user.key_expires_at,
        "identity": user.identity,
        "paths": [*user.paths] or None,
        "ssh_key": user.ssh_key,
        "node_quota": user.node_quota,
        "session_lifetime": user.session_lifetime,
        "session_lifetime_max": user.session_lifetime_max,
    }


def decode_user(name: str, node: Node | None) -> UserRecord | None:
    """Decode the node of a user; ``None`` if it does not exist, or if it is damaged, which is logged."""
    if node is None:
        return None
    properties = node.properties
    try:
        user = User(
            id=_whole(properties, "id"),
            name=name,
            role=Role(properties.get("role")),
            created_at=_number(properties, "created_at"),
            retired_at=_number_or_none(properties, "retired_at"),
            key_number=_whole(properties, "key_number"),
            key_expires_at=_number_or_none(properties, "key_expires_at"),
            identity=_text_or_none(properties, "identity"),
            paths=_paths(properties),
            ssh_key=_text_or_none(properties, "ssh_key"),
            node_quota=None if properties.get("node_quota") is None else _whole(properties, "node_quota"),
            session_lifetime=_number_or_none(properties, "session_lifetime"),
            session_lifetime_max=_number_or_none(properties, "session_lifetime_max"),
        )
    except ValueError as error:
        get_logger().warning("user-unreadable", user=name, error=str(error))
        return None
    unknown = unknown_keys(properties, _properties(user, ""))
    return UserRecord(user, _text_or_none(properties, "key_hash") or "", unknown)


def _number(properties: Properties, name: str) -> float:
    value = properties.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name}: expected a number, found {type(value).__name__}")  # noqa: TRY004
    return value


def _number_or_none(properties: Properties, name: str) -> float | None:
    return None if properties.get(name) is None else _number(properties, name)


def _whole(properties: Properties, name: str) -> int:
    value = _number(properties, name)
    if not isinstance(value, int):
        raise ValueError(f"{name}: expected a whole number, found {value}")  # noqa: TRY004
    return value


def _paths(properties: Properties) -> tuple[str, ...]:
    """Return the paths to which a user is limited; a damaged record must not make the user unlimited."""
    value = properties.get("paths", [])
    if not isinstance(value, list) or not all(isinstance(path, str) and path[:1] == "/" for path in value):
        raise ValueError(f"paths: expected a list of paths of the tree, found {value!a}")
    return tuple(map(str, value))


def _text_or_none(properties: Properties, name: str) -> str | None:
    value = properties.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name}: expected a text, found {type(value).__name__}")
    return value


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
