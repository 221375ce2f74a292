"""The kinds of documents of groups, of clusters with network intents, and of releases of left services."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.documents.forms import Fault, form_faults
from zkdeployment.documents.kinds import DocumentKind, document_kind
from zkdeployment.intents.documents.values import (
    ClusterIntents,
    DeploymentIntentGroup,
    Intent,
    IntentState,
    ServiceRelease,
    subject_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def _group_faults(value: Any) -> Iterator[Fault]:
    """Return a fault for a group that needs an approval and has none."""
    state = value["data"]["state"]
    if state != IntentState.CREATED.value and "approval" not in value["data"]:
        subject = subject_text(GROUP.subject(value))
        yield (
            ("data", "state"),
            f"{state} needs the key approval; expected Created, and 'zkdeployment intent approve {subject}'",
        )
    yield from _path_faults(value, "apps")


def _path_faults(value: Any, key: str) -> Iterator[Fault]:
    """Return a fault for a document without paths, and for each path that is given twice or below another one."""
    if not value["data"][key]:
        yield ("data", key), "expected at least one name with a path, found none: nothing would be governed"
    given: dict[str, str] = {}
    entries = [
        (name, number, path) for name, paths in value["data"][key].items() for number, path in enumerate(paths)
    ]
    for name, number, path in entries:
        above = next((other for other in given if f"{path}/".startswith(f"{other}/")), None)
        below = next((other for other in given if f"{other}/".startswith(f"{path}/")), None)
        other = above or below
        if other is not None:
            yield ("data", key, name, number), f"{path} and {other} of {given[other]} overlap; keep one of them"
        given.setdefault(path, name)


GROUP: DocumentKind[DeploymentIntentGroup] = document_kind(
    DeploymentIntentGroup,
    "intent",
    faults=_group_faults,
    telltale_keys=("composite-app", "composite-profile"),
)

CLUSTER: DocumentKind[ClusterIntents] = document_kind(
    ClusterIntents,
    "cluster",
    faults=lambda value: _path_faults(value, "network-intents"),
    telltale_keys=("network-intents",),
)

RELEASE: DocumentKind[ServiceRelease] = document_kind(ServiceRelease, "release", place=("metadata", "path"))

DOCUMENT_KINDS: tuple[DocumentKind[Any], ...] = (GROUP, CLUSTER, RELEASE)


def intent_of_document(document: Mapping[str, Any]) -> Intent:
    """Return the group or the cluster of a document; raises ``ValueError`` if its form is not valid."""
    kind: DocumentKind[Any] = CLUSTER if document.get("schema") == CLUSTER.schema else GROUP
    for _, message in form_faults(document, kind.form):
        raise ValueError(message)
    intent: Intent = kind.parse(document)
    return intent
