"""Reads the publication for one cycle of the agent; ``agent_cycle`` decides what follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.daemons.agent.cycle_machine import CycleEvent
from zkdeployment.daemons.agent.reporting.failure_reporter import reason
from zkdeployment.daemons.failpoints import failpoints
from zkdeployment.daemons.watermark import Watermark
from zkdeployment.errors import HostFilesError, UntrustedError
from zkdeployment.model.deployment import DeploymentFailure
from zkdeployment.model.publication import Published

if TYPE_CHECKING:
    from zkdeployment.daemons.agent.agent_adapters import AgentAdapters
    from zkdeployment.daemons.agent.reporting.host_reporting import HostReporting
    from zkdeployment.daemons.agent.trusted_publications import TrustedPublications
    from zkdeployment.model.cluster import Cluster, Revision

#: The step in which a host fails that does not trust a publication.
VERIFICATION = "verify the publication"


class PublicationReader:
    """Reads the last publication and remembers it before the host changes anything.

    A host with publishers accepts only a publication that one of them signed.
    """

    def __init__(self, adapters: AgentAdapters, reporting: HostReporting) -> None:
        self._adapters = adapters
        self._reporting = reporting
        self._watermark = Watermark(adapters.run)

    def read(self, cluster: Cluster | None) -> Published | CycleEvent:
        """Return the last publication, or the event that ends the cycle if the host must not act on it.

        The cause of such an event is reported before. Raises ``StalePublicationError`` if ZooKeeper has lost a
        publication that this host knows.
        """
        if self._adapters.trusted is None:
            published = self._reporting.retry.retry_until_reachable(self._adapters.fleet.published)
            self._watermark.check(published)
            self._watermark.note(published)
        elif cluster is None or cluster.revision is None:
            return Published()  # nothing may start
        else:
            verified = self._read_trusted(self._adapters.trusted, cluster.revision)
            if isinstance(verified, CycleEvent):
                return verified
            published = verified
        self._reporting.refusal.clear_refusal()
        return published

    def _read_trusted(self, trusted: TrustedPublications, revision: Revision) -> Published | CycleEvent:
        """Return the signed publication; stop the fleet if ZooKeeper does not hold what a publisher signed."""
        identity = self._reporting.host.identity
        try:
            published = self._reporting.retry.retry_until_reachable(lambda: trusted.published(identity, revision))
            with failpoints("remember-publication"):
                trusted.remember(published)
        except UntrustedError as error:
            self._reporting.failures.fail(revision, DeploymentFailure(0, VERIFICATION), error)
            return CycleEvent.PUBLICATION_UNTRUSTED
        except HostFilesError as error:
            self._reporting.refusal.refuse(reason(error))
            return CycleEvent.DEFECT_MET
        return published
