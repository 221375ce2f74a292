"""The references of check configurations to the tree and to monitoring systems, and their placeholders."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.source_files import Problem, Severity
from zkdeployment.checks.documents.groups import CHECK_GROUP
from zkdeployment.checks.documents.kinds import CHECK, SYSTEM, argument_faults
from zkdeployment.checks.documents.on_call import ON_CALL
from zkdeployment.documents.forms import one_of

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator

    from zkdeployment.documents.collection import DocumentEntry, Documents


def check_problems(
    documents: Documents, nodes: Container[str] | None, systems: Iterable[str] = (), checks: Collection[str] = ()
) -> Iterator[Problem]:
    """Yield the problems of documents of checks that name a node, a monitoring system or a check that is missing.

    ``nodes`` are the paths of the tree; ``None`` if the documents are checked without a tree. ``systems`` and
    ``checks`` are further monitoring systems and configurations, besides those of the documents. An unknown
    placeholder is a warning: the configuration is published, but has no instances.
    """
    known = sorted({*systems, *(name for (name,) in documents.of(SYSTEM))})
    for (kind, _), entry in documents.entries.items():
        if kind == CHECK.name:
            yield from _object_problems(entry, nodes)
            # The system may be defined by a document with problems.
            if not documents.problems:
                yield from _system_problems(entry, known)
            for way, message in argument_faults(entry.content):
                yield replace(entry.problem(way, message), severity=Severity.WARNING)
        if kind in {ON_CALL.name, CHECK_GROUP.name}:
            yield from _object_problems(entry, nodes)
        if kind == CHECK_GROUP.name and not documents.problems:
            yield from _group_problems(entry, sorted({*checks, *(name for (name,) in documents.of(CHECK))}))
    yield from _duty_problems(documents)


def _group_problems(entry: DocumentEntry, checks: Collection[str]) -> Iterator[Problem]:
    for number, name in enumerate(entry.value.checks):
        if name not in checks:
            expected = one_of(checks) if checks else "a CheckConfiguration of that name"
            message = f"there is no check {name}; expected {expected}"
            yield entry.problem(("data", "checks", number), message)


def _duty_problems(documents: Documents) -> Iterator[Problem]:
    """Yield a problem for each duty whose node already has a duty."""
    first: dict[str, str] = {}
    for (kind, _), entry in documents.entries.items():
        if kind == ON_CALL.name:
            duty = entry.value
            former = first.setdefault(duty.path, duty.name)
            if former != duty.name:
                message = f"{duty.path or '/'} has the on-call duty {former} already; keep one of them"
                yield entry.problem(("data", "object"), message)


def _object_problems(entry: DocumentEntry, nodes: Container[str] | None) -> Iterator[Problem]:
    path = entry.value.path
    if path and nodes is not None and path not in nodes:
        message = f"there is no node {path}; expected the path of a node of the tree"
        yield entry.problem(("data", "object"), message)


def _system_problems(entry: DocumentEntry, systems: Collection[str]) -> Iterator[Problem]:
    name = entry.value.monitoring
    if name not in systems:
        expected = one_of(systems) if systems else "a MonitoringSystem of that name"
        message = f"there is no monitoring system {name}; expected {expected}"
        yield entry.problem(("data", "monitoring"), message)
