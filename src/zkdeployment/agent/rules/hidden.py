"""Describes wanted packages that dnf does not find, and packages of repositories that dnf hides.

dnf hides excluded packages, and those of module streams that are not enabled. The package manager of a host and
the check before a publication use the same sentences.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from zkdeployment.base.packages import select
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zkdeployment.base.inventory import Package, Packages

#: The solver's words for a hidden package.
_FILTERED = re.compile(r"package (\S+) (?:from \S+ )?is filtered out by \w+ filtering")


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why dnf hides a package, and what to do: ``cause`` and ``advice`` continue a sentence about the package."""

    cause: str
    advice: str


def exclusion(place: str) -> Obstacle:
    """Return the obstacle of a package that is excluded in a place of dnf's configuration."""
    cause = f", which is excluded by excludepkgs or includepkgs of {place}"
    return Obstacle(cause, "; allow the package there, or correct the version in the tree")


def kept_by_update() -> Obstacle:
    """Return the obstacle of a package that an update of the operating system must not change."""
    cause = ", which the update must not change: exclude or dnf's configuration names it, or a service has it"
    return Obstacle(cause, "; exclude the packages that require it, too")


def disabled_streams(streams: Collection[str]) -> Obstacle:
    """Return the obstacle of a package of module streams that are not enabled, such as ``tools:2``."""
    cause = ", which is only in a module stream that is not enabled"
    if not streams:
        return Obstacle(cause, "; enable that stream, or correct the version in the tree")
    advice = f"; enable it with 'dnf module enable {min(streams)}', or correct the version in the tree"
    return Obstacle(f"{cause} ({' and '.join(sorted(streams))})", advice)


@dataclass(frozen=True, slots=True)
class Lack:
    """A sentence about a wanted package that dnf does not find; ``advice`` continues the sentence."""

    sentence: str
    advice: str

    def __str__(self) -> str:
        return self.sentence + self.advice


def lacks(
    available: Collection[Package],
    want: Mapping[str, str | None],
    hidden: Mapping[Package, Obstacle],
    *,
    arch: str = "",
    installed: Packages = MappingProxyType({}),
) -> tuple[Lack, ...]:
    """Return the lack of each name in ``want`` that no ``available`` package satisfies at its version.

    ``hidden`` are the other packages of the repositories. ``arch`` and ``installed`` are as for ``select``.
    """
    chosen, _ = select(available, want, arch=arch, installed=installed)
    wanted = {name: version for name, version in want.items() if name not in chosen}
    found, missing = select([*available, *hidden], wanted, arch=arch, installed=installed)
    concealed = sorted(package for same in found.values() for package in same if package in hidden)
    return (
        *(Lack(sentence, "; publish it, or correct the version in the tree") for sentence in missing),
        *(_hidden(package, hidden[package]) for package in concealed),
    )


def _hidden(package: Package, obstacle: Obstacle) -> Lack:
    return Lack(f"a repository has {package}{obstacle.cause}", obstacle.advice)


def filtered(text: str) -> frozenset[str]:
    """Return the full names of the hidden packages in a message of the solver."""
    return frozenset(_FILTERED.findall(text))


def with_obstacles(text: str, hidden: Mapping[Package, Obstacle]) -> str:
    """Return a message of the solver with the obstacles of the ``hidden`` packages that it names."""
    named = filtered(text)
    concerned = sorted(package for package in hidden if package.nevra in named)
    return "; ".join([text, *(str(_hidden(package, hidden[package])) for package in concerned)])
