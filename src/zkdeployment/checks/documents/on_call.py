"""Documents of on-call duties: the contacts for the checks of a node and of all services below it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from zkdeployment.base.names import NameKind
from zkdeployment.base.records import APART, Record
from zkdeployment.documents.forms import mapping_form, name_form
from zkdeployment.documents.kinds import DocumentKind
from zkdeployment.tree.values import parent_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.documents.forms import Fault

#: Values that no shell and no monitoring system interprets, because they become part of commands.
EMAIL_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9][A-Za-z0-9.-]{0,189}"
PHONE_PATTERN = r"\+?[0-9][0-9 -]{2,38}"

_MOST_CONTACTS = 20

_CONTACT = mapping_form(
    {"name": name_form(NameKind.PLAIN)},
    {
        "email": {
            "type": "string",
            "pattern": f"^{EMAIL_PATTERN}$",
            "description": "an address such as ann@example.com",
        },
        "phone": {
            "type": "string",
            "pattern": f"^{PHONE_PATTERN}$",
            "description": "a number such as +49 30 123456",
        },
    },
)

_FORM = mapping_form(
    {
        "metadata": mapping_form({"name": name_form(NameKind.PLAIN)}, {}),
        "data": mapping_form(
            {
                "object": {
                    "type": "string",
                    "pattern": r"^(/|(/[^/\s]+)+)$",
                    "description": "the path of a node, as in /p1/shop",
                },
                "contacts": {
                    "type": "array",
                    "items": _CONTACT,
                    "minItems": 1,
                    "maxItems": _MOST_CONTACTS,
                    "description": f"a list of 1 to {_MOST_CONTACTS} contacts",
                },
            },
            {},
        ),
    },
    {"schema": {}},
)


@dataclass(frozen=True, slots=True)
class OnCallContact(Record):
    """A person or a device that is notified by mail, by telephone, or by both."""

    omits_unset: ClassVar[bool] = True
    name: str
    email: str | None = None
    phone: str | None = None


@dataclass(frozen=True, slots=True)
class OnCall(Record):
    """An on-call duty for the node ``path``, empty for the root of the tree, and all nodes below it."""

    name: str
    path: Annotated[str, APART]
    contacts: tuple[OnCallContact, ...]


def on_call_of(duties: Mapping[str, OnCall], path: str) -> OnCall | None:
    """Return the duty for a node: that of the nearest node at or above it; ``duties`` are keyed by their nodes."""
    while True:
        if path in duties or not path:
            return duties.get(path)
        path = parent_path(path)


def _parse(value: Any) -> OnCall:
    data = value["data"]
    contacts = (OnCallContact(found["name"], found.get("email"), found.get("phone")) for found in data["contacts"])
    return OnCall(value["metadata"]["name"], data["object"].removesuffix("/"), tuple(contacts))


def _faults(value: Any) -> Iterator[Fault]:
    seen: set[str] = set()
    for number, contact in enumerate(value["data"]["contacts"]):
        name = contact["name"]
        if name in seen:
            yield ("data", "contacts", number, "name"), f"there is another contact {name}; keep one of them"
        seen.add(name)
        if "email" not in contact and "phone" not in contact:
            message = f"the contact {name} has neither email nor phone; expected one of them"
            yield ("data", "contacts", number), message


ON_CALL: DocumentKind[OnCall] = DocumentKind(
    name="on-call",
    schema="zkdeployment/OnCall/v1",
    form=_FORM,
    parse=_parse,
    subject=lambda value: (value["metadata"]["name"],),
    faults=_faults,
)
