"""The targets that hosts were last ordered to deploy, even if the live tree has changed since."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container

    from zkdeployment.model.publication import Targets


def completed_targets(live: Targets, published: Targets, files: Container[str]) -> Targets:
    """Return the targets of the last complete publication.

    Services at the paths in ``files`` are as in the ``published`` text: the live tree may have parts of an
    interrupted publication. Other services, which are in no file, are as in the live tree.
    """
    return {
        name: (
            *published.get(name, ()),
            *(assignment for assignment in live.get(name, ()) if assignment.path not in files),
        )
        for name in {*published, *live}
    }


def common_targets(first: Targets, second: Targets) -> Targets:
    """Return what both targets have: each service with the smaller number of instances."""
    common = {}
    for name in first.keys() & second.keys():
        others = {assignment.path: assignment for assignment in second[name]}
        common[name] = tuple(
            min(assignment, others[assignment.path], key=lambda either: either.n)
            for assignment in first[name]
            if assignment.path in others
        )
    return common
