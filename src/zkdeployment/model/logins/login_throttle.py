"""Slows down guessing of keys: how long clients at an address wait after failed logins.

Failures are not counted by user name: who guesses the key of a user must not keep the user out.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Seconds after the last failure when failures are forgotten.
FORGOTTEN_AFTER = 900.0

#: Client addresses of IPv6 are counted by network: one client has many.
_NETWORK_BITS = 64


#: Failures without a wait: many people may share one address. The wait doubles with each further failure.
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

    The other failures stay: who has one key could clear them at will.
    """
    if failures is None or failures.count <= 1:
        return None
    return FailureCount(failures.count - 1, failures.last)


def is_forgotten(failures: FailureCount, now: float) -> bool:
    """Return whether failures no longer count; also if their time is in a future that no clock explains."""
    return abs(now - failures.last) >= FORGOTTEN_AFTER


def kept_counts(counts: Mapping[str, FailureCount], now: float, limit: int) -> dict[str, FailureCount]:
    """Return at most ``limit`` counts that are not forgotten.

    The present ones (``last`` is ``now``) precede, then the highest: a flood of others displaces none of them.
    """
    valid = {key: failures for key, failures in counts.items() if not is_forgotten(failures, now)}
    by_importance = sorted(valid, key=lambda key: (valid[key].last >= now, valid[key]), reverse=True)
    return {key: valid[key] for key in by_importance[:limit]}


def throttled_address(address: str) -> str:
    """Return what failures of a client are counted for: its address, for IPv6 its network."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(ip_network((parsed, _NETWORK_BITS), strict=False))
    return str(parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else parsed)
