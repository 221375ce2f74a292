"""Finds problems that one part of a tree shows without the other parts: a misplaced ``n``, a link as a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.model.problem import Problem, Severity
from zkdeployment.model.tree import SYMBOLIC_LINK, parent_path
from zkdeployment.planning.services import has_property

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.model.tree import Nodes, Tree
    from zkdeployment.tree.part_links import PartLinks


@dataclass(frozen=True, slots=True)
class PartCheck:
    """The problems of a ``part`` of a tree: those of ``nodes``, and those of ``links``, each with its link."""

    part: Nodes
    nodes: tuple[Problem, ...]
    links: tuple[tuple[tuple[str, str], str], ...]


def check_parts(
    tree: Tree, links: Mapping[str, PartLinks], known: Mapping[str, PartCheck]
) -> dict[str, PartCheck]:
    """Return the problems of each part of a tree, by its path; ``known`` ones of unchanged parts are reused."""
    return {
        top: before
        if (before := known.get(top)) is not None and before.part is part
        else PartCheck(part, tuple(_misplaced(tree, part)), tuple(_linked_targets(tree, links[top].links)))
        for top, part in tree.parts.items()
    }


def _linked_targets(tree: Tree, links: Iterable[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield an error for each symbolic link in place of a target: only nodes are targets."""
    for path, name in links:
        if name == f"deploy{SYMBOLIC_LINK}":
            service, place = path, "deploy"
        elif name.endswith(SYMBOLIC_LINK) and path.endswith("/deploy"):
            service, place = parent_path(path), f"deploy/{name.removesuffix(SYMBOLIC_LINK)}"
        else:
            continue
        if has_property(tree, service, "type"):
            yield (path, name), f"{place} of a service must be a node, not a link"


def _misplaced(tree: Tree, part: Nodes) -> Iterator[Problem]:
    """Yield a warning for each misplaced ``n`` and each node that is named like ``deploy`` but in capitals."""
    for path in [path for path in part if path[-7:].lower() == "/deploy"]:  # few are left
        name = path[-7:]
        if name == "/deploy" and not part[path]:
            continue
        if not has_property(tree, parent_path(path), "type") or has_property(tree, path, "type"):
            continue
        if name != "/deploy":
            message = f"{name} is not read; a service is deployed by its child /deploy, in small letters"
            yield Problem(message, path=path, severity=Severity.WARNING)
        elif has_property(tree, path, "n"):
            message = "n of a deploy node is not read; set n on each target below the node"
            yield Problem(message, path=path, severity=Severity.WARNING)
