"""The difference of two contents, as lines for people and as data for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from zkdeployment.model.tree import Tree
from zkdeployment.planning.targets.content import changed_keys
from zkdeployment.tree.diff import describe_change, diff

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.planning.targets.content import IntentContent


def content_difference(old: IntentContent, new: IntentContent) -> Iterator[str]:
    """Yield one line for each changed key of the document, then for each change of the nodes.

    The nodes have the values that their links lead to.
    """
    for key in changed_keys(old, new):
        was, becomes = (json.dumps(content.description.get(key)) for content in (old, new))
        yield f"change {key} from {was} to {becomes}"
    before = Tree(old.nodes)
    yield from describe_change(diff(before, Tree(new.nodes)), before)


def difference_to_json(old: IntentContent, new: IntentContent) -> dict[str, Any]:
    """Return the changed keys of the document with both values, and the created, updated and deleted nodes."""
    change = diff(Tree(old.nodes), Tree(new.nodes))
    return {
        "document": {
            key: {"before": old.description.get(key), "after": new.description.get(key)}
            for key in changed_keys(old, new)
        },
        "create": change.create,
        "update": change.update,
        "delete": sorted(change.delete),
    }
