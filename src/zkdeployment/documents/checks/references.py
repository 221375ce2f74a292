"""The references of check configurations to the tree and to monitoring systems, and their placeholders."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.documents.checks.kinds import CHECK, SYSTEM, argument_faults
from zkdeployment.documents.forms import one_of
from zkdeployment.model.problem import Problem, Severity

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from zkdeployment.documents.collection import DocumentEntry, Documents


def check_problems(documents: Documents, nodes: Container[str] | None) -> Iterator[Problem]:
    """Yield the problems of configurations whose object is no node of the tree, or whose system does not exist.

    ``nodes`` are the paths of the tree; ``None`` if the documents are checked without a tree. An unknown
    placeholder is a warning: the configuration is published, but has no instances.
    """
    for (kind, _), entry in documents.entries.items():
        if kind == CHECK.name:
            yield from _problems(entry, documents, nodes)


def _problems(entry: DocumentEntry, documents: Documents, nodes: Container[str] | None) -> Iterator[Problem]:
    configuration = entry.value
    if configuration.path and nodes is not None and configuration.path not in nodes:
        message = f"there is no node {configuration.path}; expected the path of a node of the tree"
        yield entry.problem(("data", "object"), message)
    systems = [name for (name,) in documents.of(SYSTEM)]
    # A document with problems may be the system.
    if configuration.monitoring not in systems and not documents.problems:
        expected = one_of(systems) if systems else "a MonitoringSystem of that name"
        message = f"there is no monitoring system {configuration.monitoring}; expected {expected}"
        yield entry.problem(("data", "monitoring"), message)
    for way, message in argument_faults(entry.content):
        yield replace(entry.problem(way, message), severity=Severity.WARNING)
