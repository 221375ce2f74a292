"""Templates in values that nodes, tenants and playbooks wrote: no name and no value of a node may have one."""

from __future__ import annotations

from collections.abc import Mapping

from zkdeployment.pools.reasons import shown

#: What begins an expression, a statement or a comment of Jinja.
_BEGINNINGS = ("{{", "{%", "{#")


def template_problem(value: object) -> str | None:
    """Return why a value may not be stored with a node: a text or a key in it, at any depth, is a template.

    Playbooks would evaluate it with the rights of the worker. Return ``None`` for a value without templates.
    """
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, Mapping):
            left += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple):
            left += item
        elif isinstance(item, str) and any(beginning in item for beginning in _BEGINNINGS):
            return f"expected plain text without {{{{, {{% and {{#, found {shown(item)}"
    return None
