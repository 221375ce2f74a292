"""The governance of services: which are deployed, withheld and left, and why; without a feature, none is governed.

``section`` has what a feature decides with it. ``LeftService`` is a service that left governance.
"""

# ruff: noqa: ARG002  the methods of an empty governance ignore their arguments

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.publication import LeftService, Published, Targets
    from zkdeployment.base.source_files import Problem
    from zkdeployment.publishing.signing.standing import SigningRecord
    from zkdeployment.publishing.targets.compiler import ServiceTarget


@dataclass(frozen=True, slots=True)
class Governor:
    """The document that withholds a service: its subject, its state, and the participle of the act to come."""

    subject: tuple[str, ...]
    state: str
    act: str


class Governance:
    """Documents that govern services, and services that ``left`` their governance; this class has neither."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    @property
    def left(self) -> tuple[LeftService, ...]:
        """The services that left governance."""
        return ()

    @property
    def size(self) -> int:
        """The number of documents that govern services."""
        return 0

    def withheld(self, whole: Targets) -> frozenset[ServiceTarget]:
        """Return the services of the ``whole`` tree's targets that are not deployed."""
        return frozenset()

    def with_groups(self, targets: Targets) -> Targets:
        """Return the targets with the groups that failures stop instead of the fleet."""
        return targets

    def ungoverned_problems(self, paths: Collection[str], whole: Targets) -> Iterable[Problem]:
        """Return an error for each service at or below one of the paths that lacks governance for some target."""
        return ()


NO_GOVERNANCE = Governance()


@dataclass(frozen=True, slots=True)
class StandingGovernance:
    """The present governance: the documents of ``revision``, and the services that left governance."""

    revision: Revision | None = None
    left: tuple[LeftService, ...] = ()


def standing_list(published: Published, signed: SigningRecord | None) -> tuple[Revision | None, str | None]:
    """Return the revision of the publication that stands, and the digest of its left services if it is known."""
    if signed is not None and signed.sequence:
        return signed.revision, signed.left
    return published.revision or published.ordered, published.left
