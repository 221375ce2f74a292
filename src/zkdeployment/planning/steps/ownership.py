"""Decides which packages of a host the agent may remove, and which it registers as managed.

Packages that others installed are neither removed nor registered. Nor is the agent's own package ever removed:
nothing would bring the agent back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.model.names import AGENT_PACKAGE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from zkdeployment.model.inventory import Inventory


def removable_packages(candidates: Iterable[str], inventory: Inventory) -> frozenset[str]:
    """Return the candidates that are registered as managed or are installed packages, without the agent's own."""
    packages = inventory.managed.keys() | inventory.packages.keys()
    return frozenset(name for name in candidates if name in packages and name != AGENT_PACKAGE)


def packages_to_register(
    applications: Mapping[str, str], installed: Collection[str], removed: Collection[str]
) -> dict[str, str]:
    """Return the packages, by name with their applications, that a transaction installs or removes.

    Without a package manager (``packages = none``) a transaction installs nothing: others provide the packages.
    """
    return {
        name: application for name, application in applications.items() if name in installed or name in removed
    }
