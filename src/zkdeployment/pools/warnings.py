"""Warnings of tenants before their sessions expire."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.pools.tenant_session import TenantSession

#: Seconds before the end of a session at which its tenant is warned. Sessions that are shorter than twice that are
#: warned of after half of their time.
WARNING = 1800.0


def warning_time(session: TenantSession) -> float:
    """Return when the tenant of a session is to be warned."""
    return session.expires_at - min(WARNING, (session.expires_at - session.created_at) / 2)


def due_warnings(sessions: Iterable[TenantSession], now: float) -> tuple[TenantSession, ...]:
    """Return the sessions whose tenants are to be warned now, in their state after the warning."""
    return tuple(
        replace(session, warned_expiry=session.expires_at)
        for session in sessions
        if session.is_active and not session.is_warned and warning_time(session) <= now < session.expires_at
    )


def next_warning(sessions: Iterable[TenantSession], now: float) -> float | None:
    """Return when the next warning after ``now`` is due; ``None`` if no session waits for one."""
    times = (warning_time(session) for session in sessions if not session.is_warned)
    return min((time for time in times if time > now), default=None)
