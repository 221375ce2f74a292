"""Machines that pools lend: the keys of tenants that they admit, and the traces that tenants leave: none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulation.machine import Machine
    from zkdeployment.pools.rules.host_lease import HostBaseline

#: The role of a host that no tenant has, and that of a host that is ready or lent.
IDLE, LENT = "spare", "lent"

#: The share of the moments between reading a lease and writing its keys at which a host is frozen.
_FROZEN = 0.3


class MachineKeys:
    """Stands in for ``AuthorizedKeys``: the keys of tenants on a machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def admitted(self) -> Sequence[str]:
        """Return the keys of tenants."""
        return self._machine.tenant_keys

    def admit(self, keys: Sequence[str]) -> None:
        """Admit exactly these keys."""
        if tuple(keys) != self._machine.tenant_keys:
            self._machine.write(lambda: self._machine.world.checks.leases.admitted(self._machine, tuple(keys)))

    def end_connections(self) -> None:
        """Do nothing: a connection of a tenant has no effect here."""


class MachineBaseline:
    """The file with the facts from before a lease."""

    def __init__(self) -> None:
        self._value: HostBaseline | None = None

    def load(self) -> HostBaseline | None:
        """Return the facts."""
        return self._value

    def save(self, value: HostBaseline) -> None:
        """Replace the facts."""
        self._value = value

    def clear(self) -> None:
        """Remove the facts."""
        self._value = None


class MachineTraces:
    """Stands in for ``HostTraces``: tenants leave no traces, but to look for them takes time."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.baseline = MachineBaseline()

    def keep_access(self) -> None:
        """Take the time of a write, during which the host may be frozen."""
        world = self._machine.world
        process = self._machine.process()
        world.take_time(0.0, 0.2)
        if world.faults.are_active and world.chance.random() < _FROZEN:
            world.trace(f"{self._machine.name} is frozen beside its keys")
            world.network.freeze(process, world.chance.uniform(20.0, 150.0))
            world.take_time(0.0, 0.2)
            world.take_time(5.0, 10.0)  # of a slow disk: by then, the host could know what it missed
        process.check()

    def restore_access(self) -> None:
        """Take the time of a write."""
        self._machine.world.take_time(0.0, 0.2)

    def facts(self) -> frozenset[str]:
        """Return no facts."""
        self._machine.world.take_time(0.2, 10.0)
        return frozenset()
