"""Properties of nodes that the compilation reads, and the checks that all kinds of nodes share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.deployment import Rerun
from zkdeployment.base.errors import TreeError
from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.base.source_files import Correction, Problem
from zkdeployment.tree.links import property_value, resolved_properties
from zkdeployment.tree.values import PROPERTY_LINK, Tree, properties_digest

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from zkdeployment.base.json_values import Value

    T = TypeVar("T")


#: The longest path of a service: file names contain it with the instance's number (255 bytes on Linux).
MAX_PATH = 200


def has_property(tree: Tree, path: str, name: str) -> bool:
    """Whether a node has a property, itself or as a property link."""
    properties = tree.properties(path) or {}
    return name in properties or name + PROPERTY_LINK in properties


def read_property(tree: Tree, path: str, name: str) -> Value:
    """Return an existing property, through property links; raises ``LinkError``."""
    properties = tree.properties(path) or {}
    return properties[name] if name in properties else property_value(tree.properties, path, name)


def needed_digest(tree: Tree, path: str, rerun: Rerun, *, with_properties: bool) -> str | None:
    """Return the digest of a node's resolved properties, if one is needed; raises ``TreeError``."""
    if not with_properties and rerun is not Rerun.CHANGED:
        return None
    try:
        return properties_digest(resolved_properties(tree.properties, path))
    except TreeError as error:
        needed_for = "rerun = 'changed'" if rerun is Rerun.CHANGED else "a signed publication"
        raise TreeError(f"{needed_for} needs the values of all property links: {error}") from error


def check_path(value: Value) -> str:
    """Return a service node's path; raises ``TreeError`` if files and locks cannot be named after it."""
    if not isinstance(value, str) or not value.startswith("/"):
        raise TreeError(f"path is {shown(value)}, expected the path of a service node")
    for part in value[1:].split("/"):
        check_name(NameKind.SERVICE, part)
    if len(value) > MAX_PATH:
        raise TreeError(f"path has {len(value)} characters, at most {MAX_PATH} fit into the names of its files")
    return value


def check_name(kind: NameKind, value: Value) -> str:
    """Return a name; raises ``TreeError`` unless it is a valid name of that kind."""
    if not isinstance(value, str):
        raise TreeError(f"{kind.value} is {shown(value)}, expected text")
    problem = name_problem(kind, value)
    if problem is not None:
        raise TreeError(problem)
    return value


def shown(value: object) -> str:
    """Return a value for a message, shortened and in ASCII."""
    try:
        text = ascii(value)
    except ValueError:  # the number has more digits than Python converts
        return "a very long number"
    return text if len(text) <= 60 else text[:57] + "..."


class NodeReader:
    """Reads the properties of a node, and notes all ``problems`` of them."""

    def __init__(self, tree: Tree, path: str) -> None:
        self._tree = tree
        self._path = path
        self._given = tree.properties(path) or {}
        self.problems: list[Problem] = []

    def attempt(self, read: Callable[[], T]) -> T | None:
        """Return the result of a function; ``None`` if it raises ``TreeError``, which becomes a problem."""
        try:
            return read()
        except TreeError as error:
            self.add(str(error))
            return None

    def required(self, name: str, check: Callable[[Value], T]) -> T | None:
        """Return the checked value of a property that exists; ``None`` if it is invalid."""
        return self.attempt(lambda: check(read_property(self._tree, self._path, name)))

    def optional(self, name: str, check: Callable[[Value], T]) -> T | None:
        """Return the checked value of a property; ``None`` if it is missing or invalid."""
        if name not in self._given and name + PROPERTY_LINK not in self._given:
            return None
        return self.required(name, check)

    def add(self, message: str, correction: Correction | None = None) -> None:
        """Note a problem of the node."""
        self.problems.append(Problem(message, path=self._path, correction=correction))
