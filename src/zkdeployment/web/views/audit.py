"""The page of the audit: who acted, and who failed to log in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.web.views.moments import moment

if TYPE_CHECKING:
    from zkdeployment.fleet.audit import AuditRecords
    from zkdeployment.web.views.moments import Moment

#: The most records of each kind on the page.
SHOWN = 100


@dataclass(frozen=True, slots=True)
class AuditedActRow:
    """An act; ``reason`` may be empty."""

    at: Moment | None
    by: str
    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class FailedLoginRow:
    """A failed login."""

    at: Moment | None
    user: str
    address: str
    problem: str


@dataclass(frozen=True, slots=True)
class AuditView:
    """The newest acts and failed logins; ``who`` is the user, operator or address that they are limited to."""

    who: str
    acts: tuple[AuditedActRow, ...]
    failed_logins: tuple[FailedLoginRow, ...]


def audit_view(records: AuditRecords, who: str, now: float) -> AuditView:
    """Return the page of these records at ``now``."""
    return AuditView(
        who=who,
        acts=tuple(AuditedActRow(moment(act.time, now), act.by, act.what, act.reason) for act in records.acts),
        failed_logins=tuple(
            FailedLoginRow(
                moment(failed.time, now), failed.user or "an unknown name", failed.address, failed.problem.value
            )
            for failed in records.failed_logins
        ),
    )
