"""Decides the next change of its list from the list and the registered instances.

A change is one transaction, so that the list never holds two versions. The version in service is recorded in the
list itself; a filter that starts, or takes over, continues with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.errors import ConfigurationError, RefusedError
from zkdeployment.model.names import RESERVED
from zkdeployment.providers.selection import select_providers

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from fractions import Fraction

    from zkdeployment.model.tree import Properties
    from zkdeployment.providers.selection import ProviderList


@dataclass(frozen=True, slots=True)
class FilteredList:
    """The list that a filter keeps: address to properties.

    ``source`` is the path whose instances it holds, ``None`` while no filter has written the list. ``version`` is
    the version in service, ``None`` as long as no instance has registered.
    """

    source: str | None
    version: str | None
    providers: Mapping[str, Properties]


@dataclass(frozen=True, slots=True)
class FilterChange:
    """A change of the list: the version in service after it, and the instances to add, replace and remove."""

    version: str | None
    add: Mapping[str, Properties]
    replace: Mapping[str, Properties]
    remove: Collection[str]


def next_change(registered: ProviderList, filtered: FilteredList, majority: Fraction) -> FilterChange | None:
    """Return the change that makes the list equal to the instances in service; ``None`` if it is."""
    selection = select_providers(registered, filtered.version, majority)
    wanted, found = selection.providers, filtered.providers
    if filtered.source is not None and selection.version == filtered.version and wanted == found:
        return None
    return FilterChange(
        selection.version,
        add={address: wanted[address] for address in wanted.keys() - found.keys()},
        replace={
            address: wanted[address]
            for address in wanted.keys() & found.keys()
            if wanted[address] != found[address]
        },
        remove=found.keys() - wanted.keys(),
    )


def check_paths(source: str, output: str) -> None:
    """Raise ``ConfigurationError`` unless a filter may keep ``output``, whatever the tree is."""
    if output.count("/") < 2:
        raise ConfigurationError(
            f"{output} cannot hold the list: expected a node below a top-level node, such as /in-service/web"
        )
    if output.split("/")[1] in RESERVED:
        raise ConfigurationError(f"{output} cannot hold the list: /{output.split('/')[1]} belongs to zkdeployment")
    if f"{output}/".startswith(f"{source}/") or f"{source}/".startswith(f"{output}/"):
        raise ConfigurationError(
            f"{output} cannot hold the list: expected a node not at, above or below {source}, its input"
        )


def check_output(source: str, output: str, managed: Collection[str], filtered: FilteredList) -> None:
    """Raise ``RefusedError`` if the node at ``output`` is not free for a filter of ``source``.

    ``managed`` are the paths of the top-level nodes that the syncer manages.
    """
    top = f"/{output.split('/')[1]}"
    if top in managed:
        raise RefusedError(
            f"{output} cannot hold the list: the tree's repository manages {top}, so that a publication would"
            " remove the list; choose a path below another top-level node"
        )
    if filtered.source is None and filtered.providers:
        raise RefusedError(
            f"{output} cannot hold the list: it holds nodes that no filter wrote; choose another path, or remove"
            " these nodes"
        )
    if filtered.source is not None and filtered.source != source:
        raise RefusedError(
            f"{output} holds the list of a filter of {filtered.source}, not of {source}; choose another path, or"
            " remove the list"
        )
