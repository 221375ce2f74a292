"""Changes of check instances in which a bucket that cannot be written delays no other, and is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zkdeployment.adapters.zookeeper.checks.instances import (
        ChangedInstance,
        InstanceChange,
        ZooKeeperCheckInstances,
    )


class IsolatedChanges:
    """Changes ``instances``, and keeps the reasons for which some of them were not written."""

    def __init__(self, instances: ZooKeeperCheckInstances) -> None:
        self._instances = instances
        self._reasons: dict[str, str] = {}
        self._recorded: Mapping[str, str] | None = None

    def __bool__(self) -> bool:
        """Whether instances wait that could not be written."""
        return bool(self._reasons)

    def change(self, instances: Collection[str], change: InstanceChange) -> Mapping[str, ChangedInstance]:
        """Change instances and return those that were written.

        Raises what ``ZooKeeperCheckInstances.change`` raises.
        """
        failed: dict[str, str] = {}
        written = self._instances.change(instances, change, failed.update)
        for instance in written:
            self._reasons.pop(instance, None)
        for reason in sorted({*failed.values()} - {*self._reasons.values()}):
            get_logger().error("check-instances-unwritten", reason=reason)
        self._reasons |= failed
        return written

    def record(self) -> None:
        """Record the reasons, if others are recorded."""
        if self._reasons != self._recorded:
            self._instances.record_unwritten(self._reasons)
            self._recorded = dict(self._reasons)

    def forget(self) -> None:
        """Forget everything: all instances are about to be compared."""
        self._reasons.clear()
        self._recorded = None
