"""The ports of host pools: the keys of tenants on nodes, and the playbooks that make and remove nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zkdeployment.documents.pools.values import AnsibleMechanism, Playbook


class TenantKeys(Protocol):
    """The keys of tenants on nodes. All methods may be called from any thread; they raise ``ProgramError``."""

    def write(self, address: str, key: str) -> None:
        """Make a node admit a tenant's key instead of that of any earlier tenant."""

    def remove(self, address: str) -> None:
        """Take the tenant's key off a node and end the tenant's connections; other keys stay."""


class PlaybookRunner(Protocol):
    """Ansible. The method may be called from any thread."""

    def run(
        self,
        mechanism: AnsibleMechanism,
        playbook: Playbook,
        values: Mapping[str, Any],
        nodes: Sequence[Mapping[str, Any]],
    ) -> object:
        """Run a playbook for nodes, given as ``duffy_in``, and return the last value of its fact ``duffy_out``.

        ``values`` are those of the pool, for the templates in the playbook's variables. Raises ``ProgramError`` if
        the playbook fails, exceeds its time limit, or does not set the fact.
        """
