"""Ports to the users of the service and to their logins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.model.act import Act
    from zkdeployment.model.logins.external import ExternalUser
    from zkdeployment.model.logins.login import FailedLogin
    from zkdeployment.model.user import IssuedKey, LoginRefusal, NewUser, User


class UserReader(Protocol):
    """The users of the service, to be read."""

    def users(self) -> tuple[User, ...]:
        """Return all users, retired ones included, by id."""

    def user(self, name: str) -> User | None:
        """Return a user; ``None`` if there is none of this name.

        The answer is fresh, and usually costs no request: the node is watched. It is read again after a change,
        and after the connection was lost.
        """


class UserStore(UserReader, Protocol):
    """The users of the service. Each change is recorded as an act in the transaction that makes it."""

    def add(self, new: NewUser, act: Act) -> IssuedKey:
        """Add a user and return it with its key; raises ``RefusedError`` if the name is taken or invalid."""

    def reset_key(
        self, name: str, act: Act, *, expires_at: float | None = None, key: str | None = None
    ) -> IssuedKey:
        """Replace a user's key and return both; the old key and all login sessions of the user end at once.

        ``key`` is the new key, a UUID, if an admin chose it.

        Raises ``RefusedError`` if there is no such user, or if it is retired.
        """

    def retire(self, name: str, act: Act) -> User:
        """Retire a user permanently; its key and its login sessions end at once.

        Raises ``RefusedError`` if there is no such user, or if it is retired already.
        """

    def update(self, name: str, change: Callable[[User], User], act: Act) -> User:
        """Replace a user by ``change`` of it and return the result; ``change`` may be called several times.

        The id, the name and the key stay. Raises ``RefusedError`` if there is no such user, or if it is retired.
        """


class LoginStore(Protocol):
    """Logins: verification of keys, throttling of failed attempts, and the login sessions of people.

    All services share the throttling and the login sessions, so that it does not matter which one is asked.
    """

    def verify_again(self, name: str, key: str) -> User | LoginRefusal | None:
        """Return what ``verify`` returns for a right key that was verified here before; ``None`` for others.

        The answer needs no request to ZooKeeper while the user does not change, and is never slowed down.
        """

    def verify(self, name: str, key: str, address: str) -> User | LoginRefusal:
        """Return the user of this name if the key is right, else why the login is refused.

        ``address`` is the client's. Failed attempts are counted for the address; too many are slowed down, and a
        right key from the same address may then have to wait for a moment. An unknown name takes as long as a
        wrong key. ``name`` and ``key`` may be any text.
        """

    def admit(self, external: ExternalUser, address: str) -> User | LoginRefusal:
        """Return the user who logged in elsewhere, or why the login is refused, which is recorded.

        The user is added at its first login, and has its present role after each. A name that belongs to a user
        with a key, or to another person elsewhere, is refused.
        """

    def begin_session(self, user: User) -> str:
        """Begin a login session of a user and return its token, which is stored nowhere; the oldest may end."""

    def session_user(self, token: str) -> User | None:
        """Return the user of a login session; ``None`` if the session has ended, for whatever reason.

        A session ends when it expires, when it is ended, and when its user is retired or gets another key. The
        user is read as fresh as ``UserStore.user`` reads it. ``token`` may be any text.
        """

    def end_session(self, token: str) -> None:
        """End a login session, if there is one of this token."""

    def failed_logins(self) -> tuple[FailedLogin, ...]:
        """Return the latest failed logins, oldest first."""
