"""Queries of the status of an intent: the output, and filters for apps, clusters and resources."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from zkdeployment.documents.intents.values import subject_text
from zkdeployment.errors import ConfigurationError
from zkdeployment.intents.resources import DEPLOYMENT_KIND

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from zkdeployment.documents.intents.values import Intent, IntentSubject
    from zkdeployment.intents.resources import ResourceRow

#: Sequences of publications have far fewer digits.
_LONGEST_ID = 18


class StatusOutput(Enum):
    """How much of the resources the status shows."""

    SUMMARY = "summary"
    ALL = "all"
    DETAIL = "detail"
    RSYNC = "rsync"


@dataclass(frozen=True, slots=True)
class StatusQuery:
    """The part of a status that is shown. Values of one filter are alternatives, different filters combine.

    ``resources`` are names of resources, paths of nodes, and patterns of either, as ``_selects`` takes them.
    ``instance`` is the id of an instance; ``lists_instances`` asks for the list of instances instead.
    """

    output: StatusOutput = StatusOutput.ALL
    apps: frozenset[str] = frozenset()
    clusters: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    instance: int | None = None
    lists_instances: bool = False

    def select(self, rows: Iterable[ResourceRow], known: Collection[IntentSubject]) -> tuple[ResourceRow, ...]:
        """Return the rows that the filters admit; the output rsync has nothing that exists only in reality.

        ``known`` are the clusters of Cluster documents, by which ``PROVIDER+NAME`` is understood.
        """
        names = frozenset(name for provider, name in known if f"{provider}+{name}" in self.clusters)
        clusters = self.clusters | names
        has_all = self.output is not StatusOutput.RSYNC
        return tuple(
            row
            for row in rows
            if (not self.apps or row.app in self.apps)
            and (not clusters or row.cluster in clusters)
            and (not self.resources or any(_selects(wanted, row) for wanted in self.resources))
            and (has_all or row.rsync is not None)
        )


def _selects(wanted: str, row: ResourceRow) -> bool:
    """Whether a filter selects a resource.

    A filter is the name of the resource, the path of its service or of a node above, or a pattern of the name or
    of the path, in which ``*`` stands for any text and ``?`` for one character.
    """
    path = _service_path(row)
    if row.name == wanted or f"{path}/".startswith(f"{wanted.rstrip('/')}/"):
        return True
    return any(character in wanted for character in "*?[") and (
        fnmatchcase(row.name, wanted) or fnmatchcase(path, wanted)
    )


def _service_path(row: ResourceRow) -> str:
    """Return the path in the name of a resource: ``HOST:PATH.N`` of a deployment; that of a provider is a path."""
    if row.kind != DEPLOYMENT_KIND:
        return row.name
    return row.name[row.name.find(":/") + 1 :].rpartition(".")[0]


def read_query(parameters: Mapping[str, Sequence[str]]) -> StatusQuery:
    """Return the query that parameters describe; raises ``ConfigurationError`` for malformed ones."""
    for name in ("output", "app", "cluster", "resource"):
        if any(not value.strip() for value in parameters.get(name, ())):
            raise ConfigurationError(f"{name} is empty: expected a value; leave {name} out to select everything")
    instances = parameters.get("instance", ())
    return StatusQuery(
        output=_output(parameters.get("output", ())),
        apps=frozenset(parameters.get("app", ())),
        clusters=frozenset(parameters.get("cluster", ())),
        resources=frozenset(parameters.get("resource", ())),
        instance=_instance(instances),
        lists_instances=any(not value for value in instances),
    )


def require_apps(query: StatusQuery, intent: Intent) -> None:
    """Raise ``ConfigurationError`` if a query names an app that the intent lacks.

    An unknown cluster or resource is no error.
    """
    if unknown := sorted(query.apps - intent.apps.keys()):
        subject, names = subject_text(intent.subject), ", ".join(sorted(intent.apps))
        raise ConfigurationError(f"{subject} has no app {', '.join(unknown)}; expected one of: {names}")


def _output(values: Sequence[str]) -> StatusOutput:
    names = [output.value for output in StatusOutput]
    if len(set(values)) > 1 or any(value not in names for value in values):
        raise ConfigurationError(f"output is {', '.join(values)}: expected one of: {', '.join(names)}")
    return StatusOutput(values[0]) if values else StatusOutput.ALL


def _instance(values: Sequence[str]) -> int | None:
    given = {value for value in values if value}
    if not given:
        return None
    if len(given) > 1 or not all(
        value.isascii() and value.isdigit() and len(value) <= _LONGEST_ID for value in given
    ):
        raise ConfigurationError(
            f"instance is {', '.join(sorted(given))}: expected the id of one instance, a number"
        )
    return int(given.pop())
