"""System nodes: the operating systems that targets want, and their conflicts with services.

The checks are used on trees, and again on published entries. How a host updates is decided in ``agent``.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from itertools import permutations
from typing import TYPE_CHECKING

from zkdeployment.base.errors import TreeError
from zkdeployment.base.names import NameKind
from zkdeployment.base.source_files import Correction, Problem
from zkdeployment.base.system import REBOOT_TIMEOUT, SYSTEM, Extent, RebootRule, WantedSystem
from zkdeployment.publishing.targets.properties import (
    NodeReader,
    check_name,
    check_path,
    has_property,
    read_property,
    shown,
)
from zkdeployment.tree.checkout import is_checkout
from zkdeployment.tree.values import PROPERTY_LINK, SYMBOLIC_LINK, Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.deployment import Assignment
    from zkdeployment.base.json_values import Value


#: The prefix of the names that the system nodes of targets have in ``Targets``.
SYSTEMS = f"/{SYSTEM}/"

#: The properties of a system node.
SYSTEM_PROPERTIES = ("release", "update", "exclude", "reboot", "generation", "reboot_timeout")

#: The words for the packages that an update changes, beside lists of names.
EXTENTS: Mapping[str, Extent] = {"all": "all", "security": "security", "none": "none"}

#: The properties of service nodes that a system node must not have.
_OF_SERVICES = frozenset({"version", "patches", "rerun", "deploy_after", "undeploy", "registers", "n"})

#: The longest reboot, in seconds: a day.
_LONGEST = 86400

#: The highest generation; a larger number is a typing error.
_MAX_GENERATION = 10**9

#: A name of packages in which ``*``, ``?`` and ``[…]`` match as in file names.
_PATTERN = re.compile(r"(?:[A-Za-z0-9*?]|\[[A-Za-z0-9!.-]+\])(?:[A-Za-z0-9._+*?-]|\[[A-Za-z0-9!._+-]+\]){0,127}")


def system_target(name: str) -> str:
    """Return the name that the system nodes of a target have in ``Targets``."""
    return SYSTEMS + name


def is_system(tree: Tree, path: str) -> bool:
    """Whether a node is a system node, valid or not."""
    if not has_property(tree, path, "type"):
        return False
    try:
        value = read_property(tree, path, "type")
    except TreeError:
        return False
    return isinstance(value, str) and value.split()[:1] == [SYSTEM]


def read_system(tree: Tree, path: str) -> tuple[WantedSystem | None, tuple[Problem, ...]]:
    """Return the operating system that a system node wants, or ``None``, and all problems of the node."""
    reader = NodeReader(tree, path)
    reader.attempt(lambda: check_path(path))
    reader.required("type", _check_type)
    for name in sorted(tree.properties(path) or ()):
        if not name.endswith(SYMBOLIC_LINK):
            _check_known(reader, name.removesuffix(PROPERTY_LINK))
    release = reader.optional("release", check_release)
    if not has_property(tree, path, "release"):
        reader.add("no release: expected the name of a snapshot of the repositories, like release = '2026-11-20'")
    update = reader.optional("update", check_update) or "all"
    exclude = reader.optional("exclude", check_exclude) or ()
    reboot = reader.optional("reboot", check_reboot) or RebootRule.IF_NEEDED
    generation = reader.optional("generation", check_generation) or 1
    timeout = reader.optional("reboot_timeout", check_timeout) or REBOOT_TIMEOUT
    if reader.problems or release is None:
        return None, tuple(reader.problems)
    return WantedSystem(path, release, update, exclude, reboot, generation, timeout), ()


def _check_type(value: Value) -> None:
    if value != SYSTEM:
        raise TreeError(f"type is {shown(value)}, expected {SYSTEM} alone: an operating system has no subtype")


def _check_known(reader: NodeReader, name: str) -> None:
    """Note a problem of a property that a system node must not have."""
    if name in {"type", *SYSTEM_PROPERTIES}:
        return
    if name in _OF_SERVICES:
        reader.add(
            f"{name} is a property of services, but the type {SYSTEM} is reserved for operating systems of hosts:"
            f" remove {name}, or set the type to the name of a package"
        )
        return
    import difflib  # noqa: PLC0415  agents start without it

    near = difflib.get_close_matches(name, SYSTEM_PROPERTIES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(SYSTEM_PROPERTIES)}"
    correction = Correction(name, near[0]) if near else None
    reader.add(f"{name} is not a property of a system node; {hint}", correction)


def check_release(value: Value) -> str:
    """Return a release; raises ``TreeError`` unless it is text that is safe in a URL."""
    if not isinstance(value, str):
        raise TreeError(f"release is {shown(value)}, expected text like '2026-11-20'")
    if not value:
        raise TreeError("release is empty, expected text like '2026-11-20'")
    return check_name(NameKind.RELEASE, value)


def check_update(value: Value) -> Extent:
    """Return which packages an update changes; raises ``TreeError`` for another word or a bad pattern."""
    if isinstance(value, str) and value in EXTENTS:
        return EXTENTS[value]
    if not isinstance(value, list) or not value:
        raise TreeError(f"update is {shown(value)}, expected 'all', 'security', 'none' or a list of packages")
    return tuple(check_pattern("update", pattern) for pattern in value)


def check_exclude(value: Value) -> tuple[str, ...]:
    """Return the patterns of packages that no update changes; raises ``TreeError`` unless they are a list."""
    if not isinstance(value, list):
        raise TreeError(f"exclude is {shown(value)}, expected a list of packages like ['postgresql*']")
    return tuple(check_pattern("exclude", pattern) for pattern in value)


def check_pattern(name: str, value: Value) -> str:
    """Return a pattern of package names in the property ``name``; raises ``TreeError`` for another value."""
    if isinstance(value, str) and _PATTERN.fullmatch(value):
        return value
    raise TreeError(
        f"{name} holds {shown(value)}, expected names of packages like 'bash', in which *, ? and [a-z] may stand"
        " for other characters"
    )


def check_reboot(value: Value) -> RebootRule:
    """Return when a host reboots; raises ``TreeError`` for another word."""
    for rule in RebootRule:
        if value == rule.value:
            return rule
    raise TreeError(f"reboot is {shown(value)}, expected 'if needed', 'always' or 'never'")


def check_generation(value: Value) -> int:
    """Return a generation; raises ``TreeError`` unless it is a whole number from 1."""
    return _check_number("generation", value, _MAX_GENERATION)


def check_timeout(value: Value) -> int:
    """Return the seconds that a reboot may take; raises ``TreeError`` unless they are from 1 to a day."""
    return _check_number("reboot_timeout", value, _LONGEST, " of seconds")


def _check_number(name: str, value: Value, highest: int, unit: str = "") -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= highest:
        return value
    raise TreeError(f"{name} is {shown(value)}, expected a whole number{unit} from 1 to {highest}")


def system_from_json(value: Value) -> WantedSystem:
    """Return the operating system with a JSON form, after all checks; raises ``TreeError``."""
    try:
        system = WantedSystem.from_json(value)
    except ValueError as error:
        raise TreeError(f"a published system node cannot be read: {error}; publish again") from error
    check_path(system.path)
    check_release(system.release)
    check_update(system.update if isinstance(system.update, str) else [*system.update])
    check_exclude([*system.exclude])
    check_generation(system.generation)
    check_timeout(system.timeout)
    return system


def system_conflicts(systems: Sequence[Assignment], software: Iterable[Assignment]) -> Iterator[Problem]:
    """Yield the conflicts of the system nodes of one host with each other, and with its services and controller.

    Two system nodes give two problems, so that both places are reported.
    """
    for one, other in permutations(systems, 2):
        if one.path != other.path:
            message = f"{one.path} and {other.path} are system nodes of the same host; expected one at most"
            yield Problem(message, path=one.path)
    if not systems:
        return
    deployed = {package: service.path for service in software for package in _packages(service)}
    for entry in systems:
        for package, path in sorted(deployed.items()):
            yield from _package_problems(entry, package, path)


def _packages(service: Assignment) -> Iterator[str]:
    """Yield the names of the packages that a service installs."""
    if service.n and not is_checkout(service.version):
        yield service.package
        yield from service.patches


def _package_problems(entry: Assignment, package: str, path: str) -> Iterator[Problem]:
    """Yield why a system node must not name the package of the service at ``path``."""
    system = entry.system
    if system is None:
        return
    for pattern in system.exclude:
        if fnmatchcase(package, pattern):
            message = f"exclude holds {pattern}, but {path} deploys {package} on the same host; remove one of them"
            yield Problem(message, path=entry.path)
    if not isinstance(system.update, str) and package in system.update:
        message = (
            f"update holds {package}, but {path} deploys {package} on the same host, and an update changes no"
            f" package of a service; remove {package} from update"
        )
        yield Problem(message, path=entry.path)
