"""Documents of check groups: how many deployments at and below a node have to be OK."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from zkdeployment.base.names import NameKind
from zkdeployment.documents.forms import mapping_form, name_form
from zkdeployment.documents.kinds import DocumentKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.documents.forms import Fault


class GroupLevel(Enum):
    """The severity of the alarm of a check group."""

    WARNING = "warning"
    CRITICAL = "critical"


_NAME = name_form(NameKind.PLAIN)

_FORM = mapping_form(
    {
        "metadata": mapping_form({"name": _NAME}, {}),
        "data": mapping_form(
            {
                "object": {
                    "type": "string",
                    "pattern": r"^(/|(/[^/\s]+)+)$",
                    "description": "the path of a node, as in /p1/shop",
                },
                "at_least": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 1_000_000,
                    "description": "a whole number of deployments, at least 1",
                },
            },
            {
                "checks": {
                    "type": "array",
                    "items": _NAME,
                    "minItems": 1,
                    "description": "a list of names of check configurations",
                },
                "level": {
                    "enum": [level.value for level in GroupLevel],
                    "description": f"one of: {', '.join(level.value for level in GroupLevel)}",
                },
            },
        ),
    },
    {"schema": {}},
)


@dataclass(frozen=True, slots=True)
class CheckGroup:
    """A group: at least ``at_least`` deployments of services at and below ``path`` have to be OK.

    ``path`` is empty for the root of the tree. ``checks`` are the configurations that count; if empty, all count.
    """

    name: str
    path: str
    at_least: int
    checks: tuple[str, ...] = ()
    level: GroupLevel = GroupLevel.CRITICAL


def _parse(value: Any) -> CheckGroup:
    data = value["data"]
    return CheckGroup(
        value["metadata"]["name"],
        data["object"].removesuffix("/"),
        int(data["at_least"]),
        tuple(data.get("checks", ())),
        GroupLevel(data.get("level", GroupLevel.CRITICAL.value)),
    )


def _faults(value: Any) -> Iterator[Fault]:
    names = value["data"].get("checks", ())
    for number, name in enumerate(names):
        if name in names[:number]:
            yield ("data", "checks", number), f"{name} is listed twice; keep one of them"


CHECK_GROUP: DocumentKind[CheckGroup] = DocumentKind(
    name="check-group",
    schema="zkdeployment/CheckGroup/v1",
    form=_FORM,
    parse=_parse,
    subject=lambda value: (value["metadata"]["name"],),
    faults=_faults,
)
