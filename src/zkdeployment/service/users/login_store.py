"""Logins in ZooKeeper: verification of keys, throttling and records of failed attempts, and login sessions."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConflictError, UnreachableError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.calls import SharedCall
from zkdeployment.fleet.views.history import FailedLogin, LoginProblem
from zkdeployment.service.users.logins import (
    LONGEST_WAIT,
    FailureCount,
    LoginSession,
    after_failure,
    after_success,
    begin_login,
    kept_counts,
    seconds_to_wait,
    sessions_to_end,
    throttled_address,
)
from zkdeployment.service.users.user import LoginRefusal, User
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.guarded_nodes import make_guarded
from zkdeployment.zookeeper.nodes import Node, encode
from zkdeployment.zookeeper.shared_nodes import WatchedNodes
from zkdeployment.zookeeper.transactions import Create, Delete, Operation, Set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zkdeployment.base.json_values import Value
    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.service.users.external_logins import ExternalUser
    from zkdeployment.service.users.key_hashes import KeyHasher
    from zkdeployment.service.users.user_store import ZooKeeperUsers
    from zkdeployment.zookeeper.servers import AclEntry
    from zkdeployment.zookeeper.session import Session


LOGINS = f"{paths.OURS}/logins"
LOGIN_SESSIONS = f"{LOGINS}/sessions"
LOGIN_THROTTLE = f"{LOGINS}/throttle"
FAILED_LOGINS = f"{LOGINS}/failed"

#: The number of attempts to write while other services write to the same nodes.
_THROTTLE_ATTEMPTS = 10

#: The most counts in a node; there are 256 nodes.
_COUNTS = 64

#: The number of hexadecimal digits of a digest that name the node, and that name a count.
_NODE_DIGITS, _DIGITS = 2, 24

#: The number of clients that have to wait and that a service remembers.
_REMEMBERED = 1000

#: Seconds that a client has to wait if other services change the same counts all the time.
_BUSY = 1.0


class LoginThrottle:
    """The counts of failed logins below ``/zkdeployment/logins/throttle``, by digests of clients' addresses."""

    def __init__(self, session: Session, acl: tuple[AclEntry, ...]) -> None:
        self._session, self._acl = session, acl
        self._waits: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def known_wait(self, address: str, now: float) -> float:
        """Return the seconds that a client still has to wait, as far as this service knows; sends no request."""
        with self._lock:
            wait = self._waits.get(throttled_address(address), 0.0) - now
        return wait if 0 < wait <= LONGEST_WAIT else 0.0  # a longer wait: the clock was set back

    def claim(self, address: str, now: float) -> float:
        """Count an attempt as failed, in advance; return 0, or the seconds to wait if it is not accepted.

        Attempts at the same time at any services are counted one after the other.
        """
        wait = 0.0

        def count(failures: FailureCount | None) -> FailureCount | None:
            nonlocal wait
            wait = seconds_to_wait(failures, now)
            return failures if wait > 0 else after_failure(failures, now)

        if not self._change(address, now, count):
            return _BUSY
        if wait > 0:
            self._remember_wait(address, now + wait)
        return wait

    def release(self, address: str, now: float) -> None:
        """Withdraw the claim of an attempt that succeeded."""
        self._change(address, now, after_success)

    def _remember_wait(self, address: str, until: float) -> None:
        with self._lock:
            self._waits[throttled_address(address)] = until
            if len(self._waits) > _REMEMBERED:
                self._waits.popitem(last=False)

    def _change(
        self, address: str, now: float, change: Callable[[FailureCount | None], FailureCount | None]
    ) -> bool:
        """Apply ``change`` to the count of an address; return whether it was applied in time."""
        key = _digest(throttled_address(address))
        path = f"{LOGIN_THROTTLE}/{key[:_NODE_DIGITS]}"
        for _ in range(_THROTTLE_ATTEMPTS):
            node = self._session.get(path)
            counts = _decode_counts(node)
            before = counts.pop(key, None)
            after = change(before)
            if after == before:
                return True
            try:
                self._session.commit(
                    self._writing(path, node, counts if after is None else {**counts, key: after}, now)
                )
            except ConflictError:
                make_parents(self._session, self._acl, LOGIN_THROTTLE)
                continue
            return True
        return False

    def _writing(self, path: str, node: Node | None, counts: dict[str, FailureCount], now: float) -> Operation:
        kept = kept_counts(counts, now, _COUNTS)
        data = encode({key: [count.count, count.last] for key, count in kept.items()})
        return Create(path, data, acl=self._acl) if node is None else Set(path, data, node.version)


def guard_logins(session: Session, acl: tuple[AclEntry, ...]) -> None:
    """Create the nodes of logins; raises ``RefusedError`` if ``acl`` does not guard them."""
    make_guarded(session, acl, (LOGINS, LOGIN_SESSIONS, LOGIN_THROTTLE, FAILED_LOGINS))


def make_parents(session: Session, acl: tuple[AclEntry, ...], path: str) -> None:
    """Create ``/zkdeployment/logins`` and the node at ``path`` below it, if they are missing."""
    session.ensure(paths.OURS)
    for missing in _missing(session, [LOGINS, path]):
        try:
            session.commit(Create(missing, acl=acl))
        except ConflictError:
            continue  # another service created it


def _missing(session: Session, wanted: list[str]) -> Iterable[str]:
    return [path for path, node in zip(wanted, session.get_many(wanted), strict=True) if node is None]


def _digest(address: str) -> str:
    return hashlib.sha256(f"address:{address}".encode()).hexdigest()[:_DIGITS]


def _decode_counts(node: Node | None) -> dict[str, FailureCount]:
    """Decode the counts in a node; malformed counts are omitted."""
    counts: dict[str, FailureCount] = {}
    for key, value in ({} if node is None else node.properties).items():
        match value:
            case [int(count), int(last) | float(last)]:
                counts[key] = FailureCount(count, last)
            case _:
                continue
    return counts


#: The number of failed logins that are kept.
_KEPT = 200

#: The number of attempts to write while other services write to the node; of an attack, enough logins are recorded
#: anyway.
_ATTEMPTS = 3


def read_failed_logins(session: Session) -> tuple[FailedLogin, ...]:
    """Return the latest failed logins, oldest first."""
    return tuple(map(FailedLogin.from_json, _recorded(session.get(FAILED_LOGINS))))


def record_failed_login(session: Session, acl: tuple[AclEntry, ...], failed: FailedLogin) -> None:
    """Record a failed login; the oldest ones are dropped."""
    for _ in range(_ATTEMPTS):
        node = session.get(FAILED_LOGINS)
        data = encode({"failed": [*[*_recorded(node), failed.to_json()][-_KEPT:]]})
        try:
            if node is None:
                make_parents(session, acl, FAILED_LOGINS)
                continue
            session.commit(Set(FAILED_LOGINS, data, node.version))
        except ConflictError:
            continue
        return
    get_logger().warning("failed-login-not-recorded", attempts=_ATTEMPTS)


def _recorded(node: Node | None) -> list[dict[str, Value]]:
    """Return the recorded failed logins, with the keys that only other versions know."""
    listed = None if node is None else node.properties.get("failed")
    return [login for login in listed if isinstance(login, dict)] if isinstance(listed, list) else []


_TOKEN_BYTES = 32
#: Characters; no token is longer.
_LONGEST_TOKEN = 100

#: Seconds that a request waits for ZooKeeper's answer to another one.
_SESSION_PATIENCE = 2.0


class LoginSessions:
    """The login sessions below ``/zkdeployment/logins/sessions``."""

    def __init__(self, session: Session, acl: tuple[AclEntry, ...]) -> None:
        self._session, self._acl = session, acl
        self._nodes = WatchedNodes(session)
        self._synced: SharedCall[None] = SharedCall(patience=_SESSION_PATIENCE, late=_late)

    def begin(self, user: User, now: float) -> str:
        """Create a login session and return its token; remove expired ones and the oldest of too many."""
        make_parents(self._session, self._acl, LOGIN_SESSIONS)
        self._make_room(user, now)
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        path = _path(token)
        try:
            self._session.commit(Create(path, encode(begin_login(user, now).to_json()), acl=self._acl))
        except UnreachableError:
            if self._session.get(path) is None:
                raise
        return token

    def find(self, token: str) -> LoginSession | None:
        """Return the login session of a token; ``None`` if it does not exist.

        A session that another service began a moment ago is found: the server that this service asks may lag
        behind.
        """
        if not _is_token(token):
            return None
        login = _decode_login_session(self._nodes.get(_path(token)))
        if login is not None:
            return login
        self._synced.get(self._session.sync)
        return _decode_login_session(self._nodes.get(_path(token)))

    def end(self, token: str) -> None:
        """Remove the login session of a token, if there is one."""
        if _is_token(token):
            self._remove(_path(token))

    def _make_room(self, user: User, now: float) -> None:
        names = self._session.children(LOGIN_SESSIONS) or []
        nodes = self._session.get_many(f"{LOGIN_SESSIONS}/{name}" for name in names)
        sessions = {name: _decode_login_session(node) for name, node in zip(names, nodes, strict=True)}
        for name in sessions_to_end(sessions, user.name, now):
            self._remove(f"{LOGIN_SESSIONS}/{name}")

    def _remove(self, path: str) -> None:
        with contextlib.suppress(ConflictError):  # another service removed it
            self._session.commit(Delete(path))
        self._nodes.forget(path)


def _late(seconds: float) -> UnreachableError:
    return UnreachableError(f"ZooKeeper has not answered for {seconds:g} s; try again")


def _path(token: str) -> str:
    return f"{LOGIN_SESSIONS}/{hashlib.sha256(token.encode('ascii')).hexdigest()}"


def _is_token(token: str) -> bool:
    return token.isascii() and 0 < len(token) <= _LONGEST_TOKEN


def _decode_login_session(node: Node | None) -> LoginSession | None:
    """Decode the node of a login session; ``None`` if it does not exist, or if it is malformed."""
    return None if node is None else LoginSession.if_valid(node.properties)


#: Seconds between two keys from addresses that have to wait, and the most seconds that a key waits for its turn.
_GAP = 0.1
_PATIENCE = 1.0


class _Pace:
    """Gives threads a turn every ``_GAP`` seconds, in the order in which they ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0.0

    def wait(self) -> bool:
        """Return at the caller's turn; return ``False`` at once if the turn would come too late."""
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next)
            if turn - now > _PATIENCE:
                return False
            self._next = turn + _GAP
        time.sleep(turn - now)
        return True


class ZooKeeperLogins:
    """Verification of keys, throttling of failed attempts, and the login sessions of people, through one session.

    All services share the throttling and the login sessions, so that any of them can answer.
    """

    def __init__(
        self, session: Session, acl: tuple[AclEntry, ...], users: ZooKeeperUsers, hasher: KeyHasher, clock: Clock
    ) -> None:
        from zkdeployment.service.users.key_hashes import VerifiedKeys  # noqa: PLC0415  the verb audit lacks argon2

        self._session, self._acl, self._users, self._hasher, self._clock = session, acl, users, hasher, clock
        self._throttle = LoginThrottle(session, acl)
        self._sessions = LoginSessions(session, acl)
        self._verified, self._pace = VerifiedKeys(), _Pace()
        self._refused: set[str] = set()

    def verify_again(self, name: str, key: str) -> User | LoginRefusal | None:
        """Return the result of ``verify`` for a key that this service verified before; ``None`` for other keys.

        The answer needs no request to ZooKeeper while the user does not change, and is never slowed down. The
        first refusal of a key that was valid is left to ``verify``, which records it.
        """
        if name not in self._verified:
            return None
        record = self._users.record(name)
        if record is None or not self._verified.matches(name, key, record.key_hash):
            return None
        verdict = self._judge(record.user)
        if isinstance(verdict, User):
            self._refused.discard(name)
        return None if isinstance(verdict, LoginRefusal) and name not in self._refused else verdict

    def verify(self, name: str, key: str, address: str) -> User | LoginRefusal:
        """Return the user of this name if the key is right, else why the login is refused.

        ``address`` is the client's. Failed attempts are counted for the address. After too many, further attempts
        are slowed down, and a right key from the same address may have to wait for a moment. An unknown name takes
        as long as a wrong key. ``name`` and ``key`` may be any text.
        """
        known = self.verify_again(name, key)
        if known is not None:
            return known
        now = self._clock.now()
        wait = self._throttle.known_wait(address, now)
        return self._verify_throttled(name, key, wait) if wait > 0 else self._verify(name, key, address, now)

    def admit(self, external: ExternalUser, address: str) -> User | LoginRefusal:
        """Return the user who logged in elsewhere, or why the login is refused, which is recorded.

        The user is added at its first login, and has its present role after each. A name that belongs to a user
        with a key, or to another person elsewhere, is refused.
        """
        outcome = self._users.admit(external)
        return outcome if isinstance(outcome, User) else self._failed(external.name, address, outcome)

    def begin_session(self, user: User) -> str:
        """Begin a login session of a user and return its token, which is stored nowhere; the oldest may end."""
        return self._sessions.begin(user, self._clock.now())

    def session_user(self, token: str) -> User | None:
        """Return the user of a login session; ``None`` if the session has ended.

        A session ends when it expires, when it is ended, and when its user is retired or gets another key. The
        user is as current as that of ``ZooKeeperUsers.user``. ``token`` may be any text.
        """
        login = self._sessions.find(token)
        if login is None:
            return None
        user = self._users.user(login.user)
        if user is not None and login.key_number > user.key_number:
            # The session began with a newer key than the cached one.
            record = self._users.record(login.user, cached=False)
            user = None if record is None else record.user
        if user is not None and login.belongs_to(user, self._clock.now()):
            return user
        self._sessions.end(token)
        return None

    def end_session(self, token: str) -> None:
        """End a login session, if there is one of this token."""
        self._sessions.end(token)

    def failed_logins(self) -> tuple[FailedLogin, ...]:
        """Return the latest failed logins, oldest first."""
        return read_failed_logins(self._session)

    def _verify(self, name: str, key: str, address: str, now: float) -> User | LoginRefusal:
        wait = self._throttle.claim(address, now)
        if wait > 0:
            get_logger().warning("login-throttled", address=address, seconds=wait)
            return self._verify_throttled(name, key, wait)
        # The node is always read, so that a name that does not exist takes the same time.
        record = self._users.record(name, cached=False)
        if not self._hasher.matches(key, None if record is None else record.key_hash or None) or record is None:
            return self._failed(record.user.name if record is not None else None, address, LoginProblem.WRONG)
        self._throttle.release(address, now)
        self._verified.remember(name, key, record.key_hash)
        verdict = self._judge(record.user)
        if isinstance(verdict, LoginRefusal):
            self._refused.add(name)
            return self._failed(record.user.name, address, verdict.problem)
        return verdict

    def _verify_throttled(self, name: str, key: str, wait: float) -> User | LoginRefusal:
        """Verify a key from an address that has to wait, where another person may be guessing keys.

        Few keys a second are compared for all these addresses together; a key whose turn is far off is refused.
        """
        if not self._pace.wait():
            return LoginRefusal(LoginProblem.THROTTLED, wait)
        record = self._users.record(name, cached=False)
        if not self._hasher.matches(key, None if record is None else record.key_hash or None) or record is None:
            return LoginRefusal(LoginProblem.THROTTLED, wait)
        self._verified.remember(name, key, record.key_hash)
        return self._judge(record.user)

    def _failed(self, user: str | None, address: str, problem: LoginProblem) -> LoginRefusal:
        get_logger().warning("login-failed", user=user, address=address, problem=problem.value)
        record_failed_login(self._session, self._acl, FailedLogin(self._clock.now(), user, address, problem))
        return LoginRefusal(problem)

    def _judge(self, user: User) -> User | LoginRefusal:
        """Return a user whose key is right, unless the user is retired or the key has expired."""
        if user.is_retired:
            return LoginRefusal(LoginProblem.RETIRED)
        if user.key_has_expired(self._clock.now()):
            return LoginRefusal(LoginProblem.EXPIRED)
        return user
