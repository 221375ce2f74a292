"""The progress of an act: which resources of an instance are done, failed, or still waited for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.intents.resource_status import RsyncStatus
from zkdeployment.model.listing import listing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zkdeployment.intents.resources import ResourceRow

#: The resources that a message names.
_NAMED = 10

#: What each status means for a wait.
_REASONS = {
    RsyncStatus.PENDING: "pending",
    RsyncStatus.RETRYING: "its host is absent",
    RsyncStatus.APPLIED: "still deployed",
    RsyncStatus.TERMINATED: "not deployed",
    RsyncStatus.FAILED: "failed",
}


@dataclass(frozen=True, slots=True)
class InstanceProgress:
    """The resources of an instance after an act: how many are done, and which have failed or are waited for.

    ``unseen`` are not done because their hosts were never seen; nothing waits for these.
    """

    done: int
    failed: tuple[ResourceRow, ...]
    waiting: tuple[ResourceRow, ...]
    unseen: tuple[ResourceRow, ...] = ()

    @property
    def awaited(self) -> str:
        """The resources that are waited for, with the reasons, in one line."""
        return _named(self.waiting)

    @property
    def never_seen(self) -> str:
        """The resources whose hosts were never seen, in one line."""
        return listing([row.name for row in self.unseen], _NAMED)

    @property
    def failures(self) -> str:
        """The resources that failed, in one line."""
        return _named(self.failed)


def instance_progress(rows: Iterable[ResourceRow], *, is_active: bool) -> InstanceProgress:
    """Return the progress of an instance that is to be deployed (``is_active``) or undeployed.

    Resources of absent hosts are waited for, those of hosts that were never seen are not. Resources that exist
    only in reality do not count.
    """
    wanted = RsyncStatus.APPLIED if is_active else RsyncStatus.TERMINATED
    # An update in place also undeploys what is not wanted any more.
    done = {wanted, RsyncStatus.TERMINATED}
    counted = [row for row in rows if row.rsync is not None]
    unfinished = [row for row in counted if row.rsync not in done and row.rsync is not RsyncStatus.FAILED]
    return InstanceProgress(
        sum(row.rsync in done for row in counted),
        tuple(row for row in counted if row.rsync is RsyncStatus.FAILED),
        tuple(row for row in unfinished if row.was_host_seen),
        tuple(row for row in unfinished if not row.was_host_seen),
    )


def _named(rows: Sequence[ResourceRow]) -> str:
    return listing([f"{row.name} ({_REASONS[row.rsync]})" for row in rows if row.rsync is not None], _NAMED)
