"""Reads which installed packages the configuration of a host's dnf holds: ``excludepkgs`` and versionlock."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from zkdeployment.agent.packages.installed_packages import configuration_files, configured

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from zkdeployment.base.inventory import Package, Packages

#: The lists of versionlock for dnf 4 and dnf 5, below the root.
_LOCKS_4 = "etc/dnf/plugins/versionlock.list"
_LOCKS_5 = "etc/dnf/versionlock.toml"

#: A line of the list for dnf 4: a name, often with a version, a release and an architecture.
_LOCK = re.compile(r"!?(?P<name>\S+?)(?:-(?:\d+:)?[^-\s]+-[^-\s]+)?\s*")


def held_packages(root: Path, installed: Packages) -> Mapping[str, str]:
    """Return the names of the installed packages that dnf below ``root`` does not change, each with the reason."""
    held: dict[str, str] = {}
    for pattern, reason in _patterns(root):
        for name, packages in installed.items():
            if any(_matches(package, pattern) for package in packages):
                held.setdefault(name, reason)
    return dict(sorted(held.items()))


def _patterns(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the patterns of held packages, each with the reason."""
    for file in configuration_files(root):
        for key in ("excludepkgs", "exclude"):
            for pattern in configured(file, key):
                yield pattern, f"{key} in /{file.relative_to(root)}"
    for place, read in ((_LOCKS_4, _locked_4), (_LOCKS_5, _locked_5)):
        if (root / place).exists():
            for name in read((root / place).read_text(encoding="utf-8", errors="replace")):
                yield name, f"versionlock in /{place}"


def _locked_4(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if (match := _LOCK.fullmatch(line.partition("#")[0])) is not None:
            yield match["name"]


def _locked_5(text: str) -> Iterator[str]:
    try:
        entries = tomllib.loads(text).get("packages", ())
    except tomllib.TOMLDecodeError:
        return  # dnf itself reports the errors of its configuration
    for entry in entries:
        yield str(entry.get("name", ""))


def _matches(package: Package, pattern: str) -> bool:
    """Whether a pattern of dnf's configuration matches a name, a name with an architecture, or a full name."""
    names = (package.name, f"{package.name}.{package.arch}", package.nevra)
    return any(fnmatchcase(name, pattern) for name in names)
