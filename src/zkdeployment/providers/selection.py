"""Split updates: decides which version of a service is in service, and the next change by a filter.

The version in service changes only when another version has a majority of the instances. Reading the instances
belongs to ``reader``.

A change is one transaction, so that the list never holds two versions. The version in service is recorded in the
list itself; a filter that starts, or takes over, continues with it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConfigurationError, RefusedError
from zkdeployment.base.inventory import version_key
from zkdeployment.base.names import RESERVED
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zkdeployment.base.json_values import Properties, Value


#: The version of instances that have no property ``version``.
NO_VERSION = ""

#: The percentage of the instances that another version needs.
DEFAULT_MAJORITY = "60%"

_PERCENTAGE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%?")
_HALF, _ALL = 50, 100

#: Versions that are compared by their numbers. Commit ids, for example, have no order.
_NUMBERED = re.compile(r"[0-9]+(?:[.~^_+-][A-Za-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class RegisteredProvider:
    """A registered instance: its properties; ``born`` is the transaction that registered it."""

    properties: Properties
    born: int

    @property
    def version(self) -> str:
        """The version as text; ``NO_VERSION`` without one."""
        return provider_version(self.properties)


@dataclass(frozen=True, slots=True)
class ProviderList:
    """The registered instances at ``path``, by address.

    If a filter keeps this list, ``source`` is the path whose instances it filters, and ``kept`` the version in
    service that it recorded.
    """

    path: str
    providers: Mapping[str, RegisteredProvider]
    source: str | None = None
    kept: str | None = None


@dataclass(frozen=True, slots=True)
class ProviderSelection:
    """The version in service of the instances at ``path``, and the instances of it and of other versions.

    ``version`` is ``None`` as long as no instance has registered, and empty for instances without a version.
    ``providers`` and ``others`` map addresses to properties.
    """

    path: str
    version: str | None
    providers: Mapping[str, Properties]
    others: Mapping[str, Properties]

    @property
    def addresses(self) -> tuple[str, ...]:
        """The sorted addresses of the instances in service."""
        return tuple(sorted(self.providers))

    @property
    def counts(self) -> str:
        """A sentence with the version in service and the number of instances of each version."""
        if self.version is None:
            return f"no instance has registered at {self.path}"
        total = len(self.providers) + len(self.others)
        counted = Counter(provider_version(properties) for properties in self.others.values())
        unused = [f"{version or 'no version'} ({count})" for version, count in sorted(counted.items())]
        share = f"{len(self.providers)} of {total} instances"
        rest = f"; not in service: {', '.join(unused)}" if unused else ""
        return f"in service at {self.path}: {self.version or 'no version'}, {share}{rest}"

    @property
    def summary(self) -> str:
        """A sentence with the counts and the addresses in service."""
        return f"{self.counts}: {', '.join(self.addresses)}" if self.providers else self.counts

    def to_json(self) -> dict[str, Value]:
        """Return the selection for programs."""
        return {
            "path": self.path,
            "version": self.version,
            "providers": {address: dict(self.providers[address]) for address in self.addresses},
            "others": {address: dict(self.others[address]) for address in sorted(self.others)},
        }


def provider_version(properties: Properties) -> str:
    """Return the version in an instance's properties as text; ``NO_VERSION`` without one."""
    value = properties.get("version")
    if value is None:
        return NO_VERSION
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def parse_majority(text: str) -> Fraction:
    """Return a percentage such as ``60%``; raises ``ConfigurationError`` unless it is over 50 and at most 100."""
    match = _PERCENTAGE.fullmatch(text.strip())
    majority = None if match is None else Fraction(match[1])
    if majority is None or not _HALF < majority <= _ALL:
        raise ConfigurationError(
            f"{text!a} is not a majority: expected more than 50% and at most 100%, such as {DEFAULT_MAJORITY}"
        )
    return majority


def select_providers(listed: ProviderList, last: str | None, majority: Fraction) -> ProviderSelection:
    """Return the instances in service; ``last`` is the version used last, ``None`` at first.

    In the list of a filter, the version in service is the one that the filter recorded.
    """
    version = listed.kept
    if listed.source is None:
        version = version_in_service(listed.providers, last, majority)
    chosen: dict[str, Properties] = {}
    others: dict[str, Properties] = {}
    for address, provider in listed.providers.items():
        (chosen if provider.version == version else others)[address] = provider.properties
    return ProviderSelection(listed.path, version, chosen, others)


def version_in_service(
    providers: Mapping[str, RegisteredProvider], last: str | None, majority: Fraction
) -> str | None:
    """Return the version used last, until another one has ``majority`` percent of the instances.

    Without a last version, return the version with most instances; of several, the newest. ``None`` without
    instances.
    """
    counts = Counter(provider.version for provider in providers.values())
    if last is None:
        most = max(counts.values(), default=0)
        return _newest([version for version, count in counts.items() if count == most], providers)
    needed = majority * len(providers)
    return next((version for version, count in counts.items() if version != last and count * _ALL >= needed), last)


def _newest(versions: Collection[str], providers: Mapping[str, RegisteredProvider]) -> str | None:
    """Return the highest version; if not all of them have an order, the one of the last registered instance."""
    if all(_NUMBERED.fullmatch(version) for version in versions):
        return max(versions, key=lambda version: (version_key(version), version), default=None)
    latest: dict[str, int] = {}
    for provider in providers.values():
        latest[provider.version] = max(provider.born, latest.get(provider.version, 0))
    return max(versions, key=lambda version: (latest[version], version))


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
    """Raise ``ConfigurationError`` unless a filter may keep ``output`` with any tree."""
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
