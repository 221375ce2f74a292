"""The users of the service: one node for each, which holds a hash of the key and never the key.

Programs without the libraries of the service use this module, too.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, fields, replace
from typing import TYPE_CHECKING, Annotated, Any

from zkdeployment.base.act import Act
from zkdeployment.base.errors import ConflictError, RefusedError, UnreachableError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.clock import Clock, SystemClock
from zkdeployment.base.machine.program import service_libraries
from zkdeployment.base.names import NameKind, is_name, name_problem
from zkdeployment.base.records import Key, Record, no_keys
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.store.audit import recording
from zkdeployment.fleet.views.history import LoginProblem
from zkdeployment.service.users.user import IssuedKey, NewUser, User
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.guarded_nodes import make_guarded
from zkdeployment.zookeeper.nodes import Node, encode
from zkdeployment.zookeeper.session import Session, verb_session
from zkdeployment.zookeeper.shared_nodes import WatchedNodes
from zkdeployment.zookeeper.transactions import Create, Operation, Set

if TYPE_CHECKING:
    from zkdeployment.service.users.external_logins import ExternalUser
    from zkdeployment.service.users.key_hashes import KeyHasher
    from zkdeployment.zookeeper.servers import AclEntry, Servers


USERS = f"{paths.OURS}/users"

#: A child that keeps the node of the users from being removed before there is a user. Its name is no user's.
_KEEPER = f"{USERS}/.keep"


def user_path(name: str) -> str:
    """Return the path of a user; the name must be valid."""
    return f"{USERS}/{name}"


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
        self.session = session
        self._nodes = WatchedNodes(session)

    def users(self) -> tuple[User, ...]:
        """Return all users, retired ones included, by id."""
        names = [name for name in self.session.children(USERS) or () if is_name(NameKind.USER, name)]
        nodes = self.session.get_many(user_path(name) for name in names)
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
        path = user_path(name)
        return decode_user(name, self._nodes.get(path) if cached else self.session.get(path))


#: The number of attempts to write while other processes write to the same nodes.
_ATTEMPTS = 20

_LAST_ID = "last_id"


@dataclass(frozen=True, slots=True)
class _Change:
    """The new record of a user, and the operations that write it."""

    record: UserRecord
    operations: list[Operation]


class ZooKeeperUsers(ZooKeeperUserReader):
    """The users below ``/zkdeployment/users``, through one session.

    Each change is recorded as an act in the transaction that makes it. ``acl`` is the access list of the
    nodes; without entries they have that of the session.
    """

    def __init__(self, session: Session, acl: tuple[AclEntry, ...], hasher: KeyHasher, clock: Clock) -> None:
        super().__init__(session)
        self._acl, self._hasher, self._clock = acl, hasher, clock

    def add(self, new: NewUser, act: Act) -> IssuedKey:
        """Add a user and return it with its key; raises ``RefusedError`` if the name is taken or invalid."""
        problem = name_problem(NameKind.USER, new.name)
        if problem is not None:
            raise RefusedError(f"cannot add the user: {problem}")
        key = str(uuid.uuid4())
        return IssuedKey(self._create(new, self._hasher.hash(key), None, act), key)

    def reset_key(
        self, name: str, act: Act, *, key_expires_at: float | None = None, key: str | None = None
    ) -> IssuedKey:
        """Replace a user's key and return both; the old key and all login sessions of the user end at once.

        ``key`` is the new key, a UUID, if an admin chose it.

        Raises ``RefusedError`` if there is no such user, or if it is retired.
        """
        key = key or str(uuid.uuid4())
        key_hash = self._hasher.hash(key)

        def reset(record: UserRecord) -> UserRecord:
            if record.user.identity is not None:
                raise RefusedError(
                    f"the user {name} has no key: it logs in elsewhere; retire it if it is to be logged out"
                )
            user = replace(record.user, key_number=record.user.key_number + 1, key_expires_at=key_expires_at)
            return replace(record, user=user, key_hash=key_hash)

        return IssuedKey(self._change(name, reset, act), key)

    def retire(self, name: str, act: Act) -> User:
        """Retire a user permanently; its key and its login sessions end at once.

        Raises ``RefusedError`` if there is no such user, or if it is retired already.
        """
        return self._change(
            name, lambda record: replace(record, user=replace(record.user, retired_at=self._now())), act
        )

    def update(self, name: str, change: Callable[[User], User], act: Act) -> User:
        """Replace a user by ``change`` of it and return the result; ``change`` may be called several times.

        The id, the name and the key stay. Raises ``RefusedError`` if there is no such user, or if it is retired.
        """

        def updated(record: UserRecord) -> UserRecord:
            before = record.user
            user = replace(change(before), id=before.id, name=before.name, key_number=before.key_number)
            user = replace(user, identity=before.identity)
            return replace(record, user=user)

        return self._change(name, updated, act)

    def admit(self, external: ExternalUser) -> User | LoginProblem:
        """Return the user who logged in elsewhere: added at the first login, with its present role at each."""
        name, act_by = external.name, external.identity.partition(" ")[0]
        record = self.record(name)
        if record is None:
            act = Act(act_by, f"add user {name} ({external.role.value}), who logged in elsewhere", "", self._now())
            with contextlib.suppress(RefusedError):  # another service has added the user in the meantime
                return self._create(NewUser(name=name, role=external.role), "", external.identity, act)
            record = self.record(name)
        if record is None or record.user.identity != external.identity:
            return LoginProblem.TAKEN
        if record.user.is_retired:
            return LoginProblem.RETIRED
        if record.user.role is external.role:
            return record.user
        act = Act(act_by, f"give user {name} the role {external.role.value}", "", self._now())
        return self.update(name, lambda user: replace(user, role=external.role), act)

    def _create(self, new: NewUser, key_hash: str, identity: str | None, act: Act) -> User:
        path = user_path(new.name)

        def adding() -> _Change:
            counter, taken = self.session.get_many([USERS, path])
            if taken is not None:
                raise RefusedError(
                    f"there is a user {new.name} already, or there was one; expected a name that was never used:"
                    " 'zkdeployment user list' shows all, 'zkdeployment user reset-key' replaces a lost key"
                )
            given = {each.name: getattr(new, each.name) for each in fields(new)}
            user = User(id=self._next_id(counter), created_at=self._now(), identity=identity, **given)
            record = UserRecord(user, key_hash)
            return _Change(
                record,
                [
                    self._counting(counter, user.id),
                    Create(path, encode_user(record), acl=self._acl),
                    recording(self.session, act),
                ],
            )

        return self._commit(adding).user

    def _now(self) -> float:
        return self._clock.now()

    def _next_id(self, counter: Node | None) -> int:
        last = 0 if counter is None else counter.properties.get(_LAST_ID)
        if not isinstance(last, int):  # the counter is damaged
            last = max((user.id for user in self.users()), default=0)
        return last + 1

    def _counting(self, counter: Node | None, number: int) -> Operation:
        if counter is not None:
            return Set(USERS, encode({**counter.properties, _LAST_ID: number}), counter.version)
        self.session.ensure(paths.OURS)
        return Create(USERS, encode({_LAST_ID: number}), acl=self._acl)

    def _change(self, name: str, change: Callable[[UserRecord], UserRecord], act: Act) -> User:
        path = user_path(name)

        def changing() -> _Change:
            node = self.session.get(path) if is_name(NameKind.USER, name) else None
            record = decode_user(name, node)
            if node is None or record is None:
                raise RefusedError(f"there is no user {name!a}; 'zkdeployment user list' shows all users")
            if record.user.is_retired:
                raise RefusedError(f"the user {name} is retired permanently; add a user with another name")
            changed = change(record)
            return _Change(changed, [Set(path, encode_user(changed), node.version), recording(self.session, act)])

        return self._commit(changing).user

    def _commit(self, build: Callable[[], _Change]) -> UserRecord:
        """Commit a change and return the new record; each attempt reads again and builds the change anew."""
        for _ in range(_ATTEMPTS):
            change = build()
            try:
                self.session.commit(*change.operations)
            except ConflictError:
                continue
            except UnreachableError:
                if not self._was_made(change):
                    raise
            # The watch does this, too, but possibly only after this method has returned.
            self._nodes.forget(user_path(change.record.user.name))
            return change.record
        raise ConflictError(
            f"the user was not changed: others changed users during each of {_ATTEMPTS} attempts; try again"
        )

    def _was_made(self, change: _Change) -> bool:
        """Return whether a change whose answer was lost was made."""
        return self.record(change.record.user.name, cached=False) == change.record


def guard_users(session: Session, acl: tuple[AclEntry, ...]) -> None:
    """Create the node of the users; raises ``RefusedError`` if ``acl`` does not guard it."""
    make_guarded(session, acl, (USERS, _KEEPER))


@contextlib.contextmanager
def open_users(servers: Servers, acl: tuple[AclEntry, ...], *, guards: bool = True) -> Iterator[ZooKeeperUsers]:
    """Connect to ZooKeeper and return the users; ``acl`` is for their new nodes. Raises ``UnreachableError``.

    With ``guards``, raises ``RefusedError`` as ``guard_users`` does. Raises ``ConfigurationError`` if the
    libraries of the service are not installed.
    """
    with service_libraries():
        from zkdeployment.service.users.key_hashes import KeyHasher  # noqa: PLC0415  hosts do not have these libraries
    with verb_session(servers) as session:
        if guards:
            guard_users(session, acl)
        yield ZooKeeperUsers(session, acl, KeyHasher(), SystemClock())
