"""Logins of people: login sessions, failed logins, and the throttle that slows down guessing of keys.

Failures are not counted by user name: a person who guesses the key of a user must not lock out the user.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING

from zkdeployment.base.durations import seconds_ahead
from zkdeployment.base.records import Record
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.service.users.user import User


#: Seconds after which a login session ends.
SESSION_SECONDS = 12 * 3600.0
#: The largest numbers of login sessions: of one user, and of all.
SESSIONS_OF_USER = 20
SESSIONS_OF_ALL = 2000


@dataclass(frozen=True, slots=True)
class LoginSession(Record):
    """The login session of a user; it is valid for the key that the user had when it began."""

    user: str
    user_id: int
    key_number: int
    created_at: float
    expires_at: float

    def belongs_to(self, user: User, now: float) -> bool:
        """Return whether ``user`` is logged in with this session, which is not from the future, at ``now``."""
        same = (self.user, self.user_id, self.key_number) == (user.name, user.id, user.key_number)
        is_valid = now < self.expires_at and not seconds_ahead(self.created_at, now)
        return same and not user.is_retired and not user.key_has_expired(now) and is_valid


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


#: Seconds after the last failure after which failures are forgotten.
FORGOTTEN_AFTER = 900.0

#: IPv6 addresses of clients are counted by network, because one client has many addresses.
_NETWORK_BITS = 64


#: The number of failures without a wait: many people may share one address. The wait doubles with each further
#: failure.
FREE_FAILURES = 20

#: The longest wait in seconds.
LONGEST_WAIT = 300.0


@dataclass(frozen=True, slots=True, order=True)
class FailureCount:
    """The number of failed logins in a row, and the time of the last one in seconds since the epoch."""

    count: int
    last: float


def seconds_to_wait(failures: FailureCount | None, now: float) -> float:
    """Return the seconds until another attempt is accepted; 0 if it is accepted at ``now``."""
    if failures is None or is_forgotten(failures, now) or failures.count < FREE_FAILURES:
        return 0.0
    pause: float = min(LONGEST_WAIT, 2.0 ** min(failures.count - FREE_FAILURES, 30))
    return min(pause, max(0.0, failures.last + pause - now))


def after_failure(failures: FailureCount | None, now: float) -> FailureCount:
    """Return the count after one more failure."""
    return FailureCount(1 if failures is None or is_forgotten(failures, now) else failures.count + 1, now)


def after_success(failures: FailureCount | None) -> FailureCount | None:
    """Return the count after an attempt that was counted as a failure in advance succeeded.

    The other failures stay: otherwise the owner of one key could clear them at will.
    """
    if failures is None or failures.count <= 1:
        return None
    return FailureCount(failures.count - 1, failures.last)


def is_forgotten(failures: FailureCount, now: float) -> bool:
    """Return whether failures no longer count. Failures whose time is far in the future do not count."""
    return abs(now - failures.last) >= FORGOTTEN_AFTER


def kept_counts(counts: Mapping[str, FailureCount], now: float, limit: int) -> dict[str, FailureCount]:
    """Return at most ``limit`` counts that are not forgotten.

    The present counts (``last`` is ``now``) come first, then the highest, so that a flood of other counts
    displaces none of these.
    """
    valid = {key: failures for key, failures in counts.items() if not is_forgotten(failures, now)}
    by_importance = sorted(valid, key=lambda key: (valid[key].last >= now, valid[key]), reverse=True)
    return {key: valid[key] for key in by_importance[:limit]}


def throttled_address(address: str) -> str:
    """Return the address for which failures of a client are counted; for IPv6 that is its network."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(ip_network((parsed, _NETWORK_BITS), strict=False))
    return str(parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else parsed)
