"""Reads which installed packages the configuration of a host's dnf holds: ``excludepkgs`` and versionlock."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from zkdeployment.agent.packages.installed_packages import configuration_files, configured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from zkdeployment.base.inventory import Package, Packages

#: The lists of versionlock for dnf 4 and dnf 5, below the root.
_LOCKS_4 = "etc/dnf/plugins/versionlock.list"
_LOCKS_5 = "etc/dnf/versionlock.toml"

#: A package with its version as the program of dnf 4 writes it to the list, with the epoch.
_VERSION = re.compile(r"(?P<name>\S+)-\d+:[^-\s]+-[^-\s]+")


def held_packages(root: Path, installed: Packages) -> Mapping[str, str]:
    """Return the names of the installed packages that dnf below ``root`` does not change, each with the reason.

    dnf 4 runs without its plugins, so a lock on several versions, as ``php-8.1.*``, holds the installed one.
    """
    held: dict[str, str] = {}
    for names, reason in _holds(root, installed):
        for name in names:
            held.setdefault(name, reason)
    return dict(sorted(held.items()))


def excluded_builds(root: Path, installed: Packages) -> Sequence[str]:
    """Return the patterns of builds that versionlock of dnf 4 excludes, without those of installed packages."""
    patterns = (line.removeprefix("!") for line in _lines_4(root) if line.startswith("!"))
    return [each for each in patterns if not _named(each, installed) and not _locked(each, installed)]


def _holds(root: Path, installed: Packages) -> Iterator[tuple[Iterable[str], str]]:
    """Yield the names of held packages, each time with the reason."""
    for file in configuration_files(root):
        for key in ("excludepkgs", "exclude"):
            for pattern in configured(file, key):
                yield _matching(installed, pattern, _whole_names), f"{key} in /{file.relative_to(root)}"
    for line in _lines_4(root):
        pattern = line.removeprefix("!")
        names = _named(pattern, installed)
        if not names and not line.startswith("!"):
            names = _locked(pattern, installed) or _locked_elsewhere(pattern, installed)
        yield names, f"versionlock in /{_LOCKS_4}"
    for entry in _entries_5(root):
        yield _locked_5(entry, installed), f"versionlock in /{_LOCKS_5}"


def _lines_4(root: Path) -> Iterator[str]:
    """Yield the lines of the list for dnf 4; those with an exclamation mark exclude a package or a build."""
    for line in _text(root / _LOCKS_4).splitlines():
        if pattern := line.partition("#")[0].strip():
            yield pattern


def _entries_5(root: Path) -> Iterable[Mapping[str, Any]]:
    try:
        entries: Iterable[Mapping[str, Any]] = tomllib.loads(_text(root / _LOCKS_5)).get("packages", ())
    except tomllib.TOMLDecodeError:
        return ()  # dnf itself reports the errors of its configuration
    return entries


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


def _named(pattern: str, installed: Packages) -> Sequence[str]:
    """Return the packages that a pattern without a version matches, such as java-17-openjdk."""
    return _matching(installed, pattern, lambda package: (package.name, f"{package.name}.{package.arch}"))


def _locked(pattern: str, installed: Packages) -> Sequence[str]:
    """Return the packages whose installed version a pattern of versionlock matches."""
    return _matching(installed, pattern, _versions)


def _locked_elsewhere(pattern: str, installed: Packages) -> Sequence[str]:
    """Return the packages that are locked to another version than the installed one."""
    match = _VERSION.fullmatch(pattern)
    return () if match is None else _named(match["name"], installed)


def _locked_5(entry: Mapping[str, Any], installed: Packages) -> Sequence[str]:
    """Return the packages that an entry for dnf 5 locks to the installed version; dnf 5 obeys all others itself.

    An entry without conditions holds the package at any version.
    """
    versions = [
        str(condition.get("value")).removeprefix("0:")
        for condition in entry.get("conditions", ())
        if condition.get("key") == "evr" and condition.get("comparator") in {"=", "=="}
    ]
    return [
        name
        for name in _named(str(entry.get("name", "")), installed)
        if "conditions" not in entry
        or any(package.evr.removeprefix("0:") in versions for package in installed[name])
    ]


def _whole_names(package: Package) -> Iterable[str]:
    """Return the names that excludepkgs may have: a name, a name with an architecture, or a full name."""
    return package.name, f"{package.name}.{package.arch}", package.nevra


def _versions(package: Package) -> Iterable[str]:
    """Return the names with a version that versionlock may have."""
    for epoch in (f"{package.epoch}:", *([] if package.epoch else [""])):
        name = f"{package.name}-{epoch}{package.version}"
        yield from (name, f"{name}-{package.release}", f"{name}-{package.release}.{package.arch}")


def _matching(installed: Packages, pattern: str, names_of: Callable[[Package], Iterable[str]]) -> Sequence[str]:
    """Return the names of the installed packages of which one of ``names_of`` matches a pattern."""
    return [
        name
        for name, packages in installed.items()
        if any(fnmatchcase(each, pattern) for package in packages for each in names_of(package))
    ]
