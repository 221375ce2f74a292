"""The audit view: who acted on the fleet and on its users, and who failed to log in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.model.act import Act
    from zkdeployment.model.logins.login import FailedLogin
    from zkdeployment.model.tree import Value


@dataclass(frozen=True, slots=True)
class AuditRecords:
    """Acts of operators and failed logins, the newest first."""

    acts: tuple[Act, ...]
    failed_logins: tuple[FailedLogin, ...]

    def to_json(self) -> dict[str, Value]:
        """Return the records as the schema ``audit`` describes them."""
        return {
            "acts": [act.to_json() for act in self.acts],
            "failed_logins": [failed.to_json() for failed in self.failed_logins],
        }


def audit_records(
    acts: Sequence[Act], failed_logins: Sequence[FailedLogin], *, who: str = "", limit: int
) -> AuditRecords:
    """Return the newest ``limit`` records of each kind, by everybody or by one user or address (``who``).

    Acts by verbs are those of ``USER@HOST``; ``who`` may be the user alone. Both sequences are oldest first.
    """
    return AuditRecords(
        tuple(act for act in reversed(acts) if who in {"", act.by, act.by.partition("@")[0]})[:limit],
        tuple(login for login in reversed(failed_logins) if who in {"", login.user, login.address})[:limit],
    )
