"""Logins: keys are verified, failed attempts are throttled and recorded, people get login sessions."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from zkdeployment.adapters.key_hashes import VerifiedKeys
from zkdeployment.adapters.zookeeper.users.failed_logins import read_failed_logins, record_failed_login
from zkdeployment.adapters.zookeeper.users.login_sessions import LoginSessions
from zkdeployment.adapters.zookeeper.users.throttle import LoginThrottle
from zkdeployment.log import get_logger
from zkdeployment.model.logins.login import FailedLogin
from zkdeployment.model.user import LoginProblem, LoginRefusal, User

if TYPE_CHECKING:
    from zkdeployment.adapters.key_hashes import KeyHasher
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.adapters.zookeeper.users.store import ZooKeeperUsers
    from zkdeployment.model.logins.external import ExternalUser
    from zkdeployment.model.servers import AclEntry
    from zkdeployment.ports.process import Clock

#: Seconds between two keys from addresses that have to wait, and for which a key waits for its turn at most.
_GAP = 0.1
_PATIENCE = 1.0


class _Pace:
    """Gives turns, one every ``_GAP`` seconds, in the order in which threads ask."""

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
        self._session, self._acl, self._users, self._hasher, self._clock = session, acl, users, hasher, clock
        self._throttle = LoginThrottle(session, acl)
        self._sessions = LoginSessions(session, acl)
        self._verified, self._pace = VerifiedKeys(), _Pace()

    def verify_again(self, name: str, key: str) -> User | LoginRefusal | None:
        """Return what ``verify`` returns for a right key that was verified here before; ``None`` for others.

        The answer needs no request to ZooKeeper while the user does not change, and is never slowed down.
        """
        if name not in self._verified:
            return None
        record = self._users.record(name)
        if record is None or not self._verified.matches(name, key, record.key_hash):
            return None
        return self._judge(record.user)

    def verify(self, name: str, key: str, address: str) -> User | LoginRefusal:
        """Return the user of this name if the key is right, else why the login is refused.

        ``address`` is the client's. Failed attempts are counted for the address; too many are slowed down, and a
        right key from the same address may then have to wait for a moment. An unknown name takes as long as a
        wrong key. ``name`` and ``key`` may be any text.
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
        """Return the user of a login session; ``None`` if the session has ended, for whatever reason.

        A session ends when it expires, when it is ended, and when its user is retired or gets another key. The
        user is read as fresh as ``ZooKeeperUsers.user`` reads it. ``token`` may be any text.
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
        # The node is read in any case, so that a name that does not exist takes as long.
        record = self._users.record(name, cached=False)
        if not self._hasher.matches(key, None if record is None else record.key_hash or None) or record is None:
            return self._failed(record.user.name if record is not None else None, address, LoginProblem.WRONG)
        self._throttle.release(address, now)
        self._verified.remember(name, key, record.key_hash)
        verdict = self._judge(record.user)
        if isinstance(verdict, LoginRefusal):
            return self._failed(record.user.name, address, verdict.problem)
        return verdict

    def _verify_throttled(self, name: str, key: str, wait: float) -> User | LoginRefusal:
        """Accept the right key also from an address that has to wait: another person may guess there.

        Few keys a second are compared for all these addresses together; keys whose turn is far off are refused.
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
