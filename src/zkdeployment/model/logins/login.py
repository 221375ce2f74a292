"""Login sessions of people, and failed logins: values, and which login sessions end when a new one begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.model.user import LoginProblem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.tree import Properties, Value
    from zkdeployment.model.user import User

#: Seconds after which a login session ends.
SESSION_SECONDS = 12 * 3600.0
#: The largest numbers of login sessions: of one user, and of all.
SESSIONS_OF_USER = 20
SESSIONS_OF_ALL = 2000


@dataclass(frozen=True, slots=True)
class LoginSession:
    """The login session of a user; it is valid for the key that the user had when it began."""

    user: str
    user_id: int
    key_number: int
    created_at: float
    expires_at: float

    def belongs_to(self, user: User, now: float) -> bool:
        """Return whether ``user`` is logged in with this session at ``now``."""
        same = (self.user, self.user_id, self.key_number) == (user.name, user.id, user.key_number)
        return same and not user.is_retired and not user.key_has_expired(now) and now < self.expires_at


def begin_login(user: User, now: float) -> LoginSession:
    """Return a new login session."""
    return LoginSession(user.name, user.id, user.key_number, now, now + SESSION_SECONDS)


def sessions_to_end(sessions: Mapping[str, LoginSession | None], user: str, now: float) -> list[str]:
    """Return the names of login sessions that end before ``user`` begins another one.

    These are expired and unreadable (``None``) ones, and the oldest ones beyond the largest numbers.
    """
    valid = {name: one for name, one in sessions.items() if one is not None and now < one.expires_at}
    by_age = sorted(valid, key=lambda name: valid[name].created_at)
    own = [name for name in by_age if valid[name].user == user]
    ended = set(own[: max(0, len(own) - SESSIONS_OF_USER + 1)])
    left = [name for name in by_age if name not in ended]
    ended.update(left[: max(0, len(left) - SESSIONS_OF_ALL + 1)])
    return sorted(sessions.keys() - valid.keys() | ended)


@dataclass(frozen=True, slots=True)
class FailedLogin:
    """A failed login; ``user`` is ``None`` if there is no user of the given name, which may be a misplaced key."""

    time: float
    user: str | None
    address: str
    problem: LoginProblem

    def to_json(self) -> dict[str, Value]:
        """Return the form of the failed login that is stored in ZooKeeper and shown in the audit view."""
        return {"time": self.time, "user": self.user, "address": self.address, "problem": self.problem.value}

    @classmethod
    def from_json(cls, properties: Properties) -> FailedLogin:
        """Return the failed login stored in ``properties``; missing or malformed values read as unknown."""
        time, user, problem = (properties.get(name) for name in ("time", "user", "problem"))
        return cls(
            time=float(time) if isinstance(time, int | float) else 0.0,
            user=user if isinstance(user, str) else None,
            address=str(properties.get("address", "?")),
            problem=next((each for each in LoginProblem if each.value == problem), LoginProblem.WRONG),
        )
