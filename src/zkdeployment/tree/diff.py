"""The difference between two trees, as a value and as lines of text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zkdeployment.model.publishing.tree_change import TreeChange
from zkdeployment.model.tree import SYMBOLIC_LINK, Tree
from zkdeployment.tree.format import format_property, format_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.model.tree import Properties, Value

_SHOWN = 200

#: Types whose equal values have the same JSON. Not so floats, because -0.0 equals 0.0.
_PLAIN = frozenset({str, int, bool, type(None)})


def diff(old: Tree, new: Tree) -> TreeChange:
    """Return the change that turns ``old`` into ``new``; parts that both trees share are not compared."""
    create: dict[str, Properties] = {}
    update: dict[str, Properties] = {}
    delete: set[str] = set()
    for top in {**new.parts, **old.parts}:
        before, after = old.parts.get(top, {}), new.parts.get(top, {})
        if before is after:
            continue
        for path, properties in after.items():
            if path not in before:
                create[path] = properties
            elif (before[path] or properties) and not stored_alike(before[path], properties):
                update[path] = properties
        delete |= before.keys() - after.keys()
    return TreeChange(create, update, frozenset(delete))


def apply_change(tree: Tree, change: TreeChange) -> Tree:
    """Return the tree after a change."""
    kept = {path: properties for path, properties in tree.nodes.items() if path not in change.delete}
    return Tree({**kept, **change.create, **change.update})


def stored_alike(old: Value | Properties, new: Value | Properties) -> bool:
    """Whether two values have the same JSON: 1, 1.0 and true are equal in Python, but not in JSON."""
    if old is new or old != new:
        return old is new
    if isinstance(old, dict) and isinstance(new, dict) and _is_plain(old, new):
        return True
    return repr(old) == repr(new) or json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)


def _is_plain(old: Properties, new: Properties) -> bool:
    """Whether the types alone prove that equal properties have the same JSON: a fast test that mostly succeeds."""
    for name, value in new.items():  # a loop is fastest, and this runs for each node of the tree
        if type(value) not in _PLAIN or type(value) is not type(old[name]):
            return False
    return True


def describe_change(change: TreeChange, old: Tree) -> Iterator[str]:
    """Yield one line for each effect of a change on ``old``: nodes in tree order, then their properties."""
    for path in sorted({*change.create, *change.update, *change.delete}, key=lambda path: path.split("/")):
        if path in change.delete:
            yield f"delete {path}"
            continue
        if path in change.create:
            yield f"add {path}"
        new = change.create[path] if path in change.create else change.update[path]
        for line in _describe_properties(old.properties(path) or {}, new):
            yield f"{path} {line}"


def _describe_properties(old: Properties, new: Properties) -> Iterator[str]:
    for name in sorted({*old, *new}):
        kind = "link" if name.endswith(SYMBOLIC_LINK) else "property"
        if name not in new:
            yield f"remove {kind} {_shortened(format_property(name, old[name]))}"
        elif name not in old:
            yield f"add {kind} {_shortened(format_property(name, new[name]))}"
        elif not stored_alike(old[name], new[name]):
            was, becomes = _shortened(format_value(old[name])), _shortened(format_value(new[name]))
            yield f"change {kind} {name} from {was} to {becomes}"


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
