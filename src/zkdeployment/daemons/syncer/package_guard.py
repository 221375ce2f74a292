"""The guard against packages that hosts could not install: refuses a publication before hosts find out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.acts.package_check import check_packages
from zkdeployment.errors import PackageError, RefusedError
from zkdeployment.log import get_logger
from zkdeployment.planning.availability.findings import refusal_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from zkdeployment.adapters.packages.host_repositories import DnfHostRepositories
    from zkdeployment.adapters.zookeeper.publication.store import ZooKeeperPublications
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.planning.published_state import PublicationSnapshot
    from zkdeployment.planning.publishing import Draft

#: The seconds that one check may take: the syncer holds the lock of publications meanwhile.
_BUDGET = 60.0


class PackageGuard:
    """Checks publications to ``store`` against the ``repositories`` of hosts.

    A warning, such as an unreachable repository, is logged once until it has ended.
    """

    def __init__(self, store: ZooKeeperPublications, repositories: DnfHostRepositories) -> None:
        self._store = store
        self._repositories = repositories
        self._warned: frozenset[str] = frozenset()

    def check(self, snapshot: PublicationSnapshot, tip: Revision, draft: Draft) -> None:
        """Raise ``RefusedError`` if hosts could not install the packages that a draft newly wants.

        Whatever keeps the packages from being checked is a warning.
        """

        def read_hosts(targets: Collection[str]) -> Sequence[KnownHost]:
            identities = (host for host in snapshot.known if not set(host.published_names).isdisjoint(targets))
            return self._store.inventories([host.id for host in identities])

        before = draft.baseline.ordered
        absent = {host.identity.id for host in snapshot.absent}
        try:
            repositories = self._repositories.within(_BUDGET)
            findings = check_packages(repositories, draft.targets, before, read_hosts, absent)
        except PackageError as error:
            self._warn([f"the packages of publications are not checked: {error}"])
            return
        if findings.checked:
            self._warn(map(str, findings.warnings))
        refusal = refusal_of(tip, findings)
        if refusal is not None:
            raise RefusedError(refusal)

    def _warn(self, warnings: Iterable[str]) -> None:
        """Log the warnings that the last check did not have."""
        current = frozenset(warnings)
        for warning in sorted(current - self._warned):
            get_logger().warning("packages-not-checked", reason=warning)
        self._warned = current
