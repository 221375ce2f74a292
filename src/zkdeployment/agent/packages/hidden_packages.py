"""Asks dnf again about packages that it does not find, without the settings that hide packages of repositories.

The answers name the setting. Nothing is changed. The sentences about hidden packages belong in ``rules.hidden``.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from zkdeployment.agent.packages.installed_packages import QUERY, parse
from zkdeployment.agent.rules.hidden import Obstacle, disabled_streams, exclusion
from zkdeployment.base.errors import PackageError
from zkdeployment.base.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from zkdeployment.agent.packages.command import DnfCommand
    from zkdeployment.base.inventory import Package

#: The options that make dnf ignore a kind of settings; dnf 4 knows ``all``, dnf 5 knows ``*``.
_WITHOUT_MAIN_EXCLUDES = "--setopt=disable_excludes=main"
_WITHOUT_EXCLUDES = "--setopt=disable_excludes=all,*"
_WITHOUT_MODULES = "--setopt=*.module_hotfixes=1"

_QUERY = QUERY.replace("\n", "\t%{repoid}\n")

_log = get_logger()


def hidden_packages(
    dnf: DnfCommand, specs: Collection[str], visible: Collection[Package] = (), options: Sequence[str] = ()
) -> Mapping[Package, Obstacle]:
    """Return the packages that repositories have and dnf hides, each with its obstacle.

    ``specs`` are names or full names of packages, ``visible`` are those that dnf finds, ``options`` are for each
    call of dnf. A failure of dnf is logged: then nothing is known to be hidden.
    """
    if not specs:
        return {}
    try:
        return _Search(dnf, specs, options).find(visible)
    except PackageError as error:
        _log.warning("packages-hidden-unknown", packages=sorted(specs), reason=str(error))
        return {}


class _Search:
    """Searches packages by their names or full names, with more and more of dnf's settings ignored."""

    def __init__(self, dnf: DnfCommand, specs: Collection[str], options: Sequence[str]) -> None:
        self._dnf = dnf
        self._specs = sorted(specs)
        self._options = options

    def find(self, visible: Collection[Package]) -> Mapping[Package, Obstacle]:
        """Return the packages that are not ``visible``."""
        origins = self._origins(_WITHOUT_EXCLUDES, _WITHOUT_MODULES)
        hidden = origins.keys() - set(visible)
        if not hidden:
            return {}
        not_in_main = self._origins(_WITHOUT_MAIN_EXCLUDES).keys()
        not_excluded = self._origins(_WITHOUT_EXCLUDES).keys()
        streams = self._streams() if hidden - not_excluded else {}
        obstacles = {}
        for package in hidden:
            if package in not_in_main:
                obstacles[package] = exclusion("dnf's main configuration")
            elif package in not_excluded:
                obstacles[package] = exclusion(f"the repository {origins[package]}")
            else:
                obstacles[package] = disabled_streams(streams.get(_artifact(package), ()))
        return obstacles

    def _origins(self, *lifted: str) -> Mapping[Package, str]:
        """Return the packages that dnf finds with these options, each with the id of its repository."""
        rows = self._dnf.run(*self._options, *lifted, "repoquery", "--available", f"--qf={_QUERY}", *self._specs)
        found = {}
        for row in rows.splitlines():
            package, _, repository = row.rpartition("\t")
            found.update(dict.fromkeys(parse(package), repository))
        return {package: origin for package, origin in found.items() if package.arch not in {"src", "nosrc"}}

    def _streams(self) -> Mapping[str, Collection[str]]:
        """Return the module streams of all packages, by the names of packages in metadata of modules."""
        streams: dict[str, set[str]] = defaultdict(set)
        field = name = stream = ""
        for line in self._dnf.run(*self._options, "module", "info", "*").splitlines():
            key, _, value = line.partition(": ")
            field = key.strip() or field  # a field continues on lines without a name
            words = value.split()
            if not words:
                continue
            if field == "Name":
                name = words[0]
            elif field == "Stream":
                stream = words[0]
            elif field == "Artifacts":
                streams[words[0]].add(f"{name}:{stream}")
        return streams


def _artifact(package: Package) -> str:
    return f"{package.name}-{package.epoch}:{package.version}-{package.release}.{package.arch}"
