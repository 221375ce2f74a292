"""The guard against packages that hosts could not install: refuses a publication before hosts find out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.acts.package_check import check_packages
from zkdeployment.errors import PackageError, RefusedError
from zkdeployment.log import get_logger
from zkdeployment.planning.availability.findings import refusal_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.publication import Published, Targets
    from zkdeployment.planning.published_state import PublicationSnapshot
    from zkdeployment.planning.publishing import Draft
    from zkdeployment.planning.review import Review
    from zkdeployment.ports.host_repositories import HostRepositories
    from zkdeployment.ports.publication import PublicationStore


class PackageGuard:
    """Checks publications to ``store`` against the ``repositories`` of hosts.

    ``published_text`` returns the text of a published revision. A warning, such as an unreachable repository, is
    logged once until it has ended.
    """

    def __init__(
        self,
        store: PublicationStore,
        repositories: HostRepositories,
        published_text: Callable[[Published], Review | None],
    ) -> None:
        self._store = store
        self._repositories = repositories
        self._published_text = published_text
        self._warned: frozenset[str] = frozenset()

    def check(self, snapshot: PublicationSnapshot, tip: Revision, draft: Draft) -> None:
        """Raise ``RefusedError`` if hosts could not install the packages that a draft newly wants.

        Whatever keeps the packages from being checked is a warning.
        """

        def read_hosts(targets: Collection[str]) -> Sequence[KnownHost]:
            identities = (host for host in snapshot.known if not set(host.published_names).isdisjoint(targets))
            return self._store.inventories([host.id for host in identities])

        before = self._targets_before(snapshot, draft)
        absent = {host.identity.id for host in snapshot.absent}
        try:
            findings = check_packages(self._repositories, draft.targets, before, read_hosts, absent)
        except PackageError as error:
            self._warn([f"the packages of publications are not checked: {error}"])
            return
        if findings.checked:
            self._warn(map(str, findings.warnings))
        refusal = refusal_of(tip, findings)
        if refusal is not None:
            raise RefusedError(refusal)

    def _targets_before(self, snapshot: PublicationSnapshot, draft: Draft) -> Targets:
        """Return the targets of the last complete publication.

        If one was interrupted, the live tree has parts of it that were never published: the services of the files
        are then those of the published text.
        """
        live = draft.baseline.targets
        if snapshot.cluster is None or snapshot.cluster.importing is None:
            return live
        complete = snapshot.published.revision or snapshot.published.ordered
        last = self._published_text(replace(snapshot.published, revision=complete))
        if last is None and complete is not None:
            return live  # the text cannot be read any more
        published = {} if last is None else last.targets
        files = draft.reviewed.linted.tree.nodes
        return {
            name: (
                *published.get(name, ()),
                *(assignment for assignment in live.get(name, ()) if assignment.path not in files),
            )
            for name in {*published, *live}
        }

    def _warn(self, warnings: Iterable[str]) -> None:
        """Log the warnings that the last check did not have."""
        current = frozenset(warnings)
        for warning in sorted(current - self._warned):
            get_logger().warning("packages-not-checked", reason=warning)
        self._warned = current
