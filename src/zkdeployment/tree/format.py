"""The canonical text of trees: equal trees have equal texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.model.tree import PROPERTY_LINK, SYMBOLIC_LINK
from zkdeployment.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.model.tree import Properties, Tree, Value


def format_tree(tree: Tree) -> str:
    """Return a tree as text that parses as the same tree.

    The order in each node is: properties, property links, symbolic links, children, each sorted. A live tree may
    contain names and link targets that the language does not allow. Their unprintable characters are escaped, so
    that each of them stays on its line.
    """
    return "".join(f"{line}\n" for line in _lines(tree))


def format_property(name: str, value: Value) -> str:
    """Return a property or a link as a line of a tree text."""
    if _is_link(name):
        return printable(f"{name} {value}")
    return f"{printable(name)} = {format_value(value)}"


def format_value(value: Value) -> str:
    """Return a value as a literal, with the keys of dicts sorted."""
    match value:
        case dict():
            items = (f"{key!r}: {format_value(value[key])}" for key in sorted(value))
            return f"{{{', '.join(items)}}}"
        case list():
            return f"[{', '.join(format_value(item) for item in value)}]"
        case _:
            return repr(value)


def _lines(tree: Tree) -> Iterator[str]:
    # Not recursive: a live tree may be deeper than the limit of texts.
    waiting = [f"/{name}" for name in reversed(tree.children(""))]
    while waiting:
        path = waiting.pop()
        properties = tree.nodes[path]
        indent = "  " * (path.count("/") - 1)
        yield indent + _heading(path, properties)
        for name in sorted(properties, key=_property_order):
            if name != "type" or not _is_short_type(properties[name]):
                yield f"{indent}  {format_property(name, properties[name])}"
        waiting.extend(f"{path}/{name}" for name in reversed(tree.children(path)))


def _heading(path: str, properties: Properties) -> str:
    name = printable(path.rpartition("/")[2])
    type_ = properties.get("type")
    return f"/{name} : {type_}" if _is_short_type(type_) else f"/{name}"


def _is_short_type(value: Value) -> bool:
    """Whether a type can be written in the line of its node."""
    return isinstance(value, str) and value != "" and value == value.strip() and value.isprintable()


def _is_link(name: str) -> bool:
    return name.endswith((SYMBOLIC_LINK, PROPERTY_LINK))


def _property_order(name: str) -> tuple[int, str]:
    return (2 if name.endswith(SYMBOLIC_LINK) else 1 if name.endswith(PROPERTY_LINK) else 0), name
