"""The addresses of pages; names of hosts, services and groups are quoted."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.documents.intents.values import IntentSubject


def host_page(host_id: str) -> str:
    """Return the address of the page of a host."""
    return f"/hosts/{quote(host_id, safe='')}"


def service_page(path: str) -> str:
    """Return the address of the page of a service; ``path`` begins with a slash."""
    return f"/services{quote(path)}"


def publication_page(sequence: int) -> str:
    """Return the address of the page of a publication."""
    return f"/history/{sequence}"


def intent_page(subject: IntentSubject) -> str:
    """Return the address of the page of a group or a cluster, which differ in the number of names."""
    return "/".join(("/intents", *(quote(name, safe="") for name in subject)))


def act_page(name: str, back: str = "", **values: str) -> str:
    """Return the address of the form of an act; ``back`` is the page to which the form returns."""
    return with_query(f"/acts/{name}", {**values, "back": back})


def with_query(path: str, values: Mapping[str, str]) -> str:
    """Return an address with those of the values that are not empty as its query."""
    query = urlencode({name: value for name, value in values.items() if value})
    return f"{path}?{query}" if query else path


def with_job(address: str, commit: str) -> str:
    """Return the address of a page that shows the state of an act's commit."""
    path, _, query = address.partition("?")
    kept = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != "job"]
    return f"{path}?{urlencode([*kept, ('job', commit)])}"
