"""The page that finds anything by a text: hosts, services, commits that wait, publications, pages and acts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import short
from zkdeployment.service.views.frame import (
    ActLink,
    Tab,
    commit_page,
    host_page,
    publication_page,
    service_page,
    with_query,
)
from zkdeployment.service.views.hosts import HostQuery

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zkdeployment.base.publication import Targets
    from zkdeployment.fleet.views.status import FleetStatus
    from zkdeployment.publishing.records import CommitSummary, PublicationRecord

#: The most links of a kind.
_MOST = 8


@dataclass(frozen=True, slots=True)
class FoundLink:
    """A page or a form that was found, with what distinguishes it."""

    name: str
    href: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class FoundGroup:
    """The found links of a kind; ``more`` others are on the page ``href``."""

    title: str
    links: tuple[FoundLink, ...]
    more: int = 0
    href: str = ""


def find(  # noqa: PLR0913  the kinds of matches
    text: str,
    status: FleetStatus,
    targets: Targets,
    records: Sequence[PublicationRecord],
    tabs: Iterable[Tab],
    acts: Iterable[ActLink],
    *,
    waiting: Iterable[CommitSummary] = (),
) -> tuple[FoundGroup, ...]:
    """Return the matches of a text, acts and pages first; an empty text matches these and the failed hosts.

    ``records`` are the last publications, ``waiting`` the commits that are not published.
    """
    text = " ".join(text.split())
    words = text.casefold()
    hosts = HostQuery(text=text)
    found = (
        _group("Acts", (FoundLink(act.label, act.href) for act in acts if words in act.label.casefold())),
        _group("Pages", (FoundLink(tab.name, tab.href) for tab in tabs if words in tab.name.casefold())),
        _group(
            "Hosts",
            (
                FoundLink(host.name, host_page(host.id), host.error or host.state.value)
                for host in hosts.select(status.hosts)
                if words or host.error
            ),
            hosts.address,
        ),
        _group("Services", _services(words, targets), with_query("/services", {"text": text})),
        _group("Commits that wait", _commits(words, waiting)),
        _group("Publications", _publications(words, records), "/history"),
    )
    return tuple(group for group in found if group.links)


def _group(title: str, links: Iterable[FoundLink], href: str = "") -> FoundGroup:
    listed = tuple(links)
    return FoundGroup(title, listed[:_MOST], max(0, len(listed) - _MOST) if href else 0, href)


def _services(words: str, targets: Targets) -> Iterator[FoundLink]:
    packages = {each.path: each.package for group in targets.values() for each in group if each.system is None}
    for path, package in sorted(packages.items()):
        if words and words in f"{path} {package}".casefold():
            yield FoundLink(path, service_page(path), package)


def _commits(words: str, waiting: Iterable[CommitSummary]) -> Iterator[FoundLink]:
    for commit in waiting:
        if words and words in f"{commit.id} {commit.subject} {commit.author}".casefold():
            yield FoundLink(commit.subject or short(commit.id), commit_page(commit.id), short(commit.id))


def _publications(words: str, records: Sequence[PublicationRecord]) -> Iterator[FoundLink]:
    for record in records:
        origin = record.origin
        subject, author = ("", "") if origin is None else (origin.subject, origin.author)
        if words and words in f"{record.revision} {subject} {author}".casefold():
            yield FoundLink(
                subject or short(record.revision), publication_page(record.sequence), short(record.revision)
            )
