"""Services that are not deployed because of their intents, which they may have left, with links to these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.documents.intents.values import ClusterIntents, subject_text
from zkdeployment.planning.targets.governance import governing_intents
from zkdeployment.web.views.links import intent_page, service_page

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from zkdeployment.documents.intents.values import Intent
    from zkdeployment.model.host import Identity
    from zkdeployment.model.publishing.left_service import LeftService
    from zkdeployment.planning.targets.withheld import ServiceTarget

#: The most services that a page lists.
_MOST = 50


@dataclass(frozen=True, slots=True)
class WithheldService:
    """A service that is withheld from a target, until ``subject`` is instantiated or applied (``act``).

    ``intent`` is the page of the subject; ``None``: the service left the governance of ``subject``, and ``act`` is
    what deploys it.
    """

    path: str
    href: str
    target: str
    subject: str
    intent: str | None
    act: str


@dataclass(frozen=True, slots=True)
class WithheldReading:
    """The services that are withheld, the published intents, and the services that left governance."""

    withheld: Collection[ServiceTarget] = frozenset()
    intents: Collection[Intent] = ()
    left: Collection[LeftService] = ()


@dataclass(frozen=True, slots=True)
class WithheldServices:
    """Withheld services, and how many ``more`` there are."""

    services: tuple[WithheldService, ...]
    more: int = 0


def withheld_services_view(reading: WithheldReading, text: str = "") -> WithheldServices:
    """Return the withheld services whose path contains a text, sorted by path and target."""
    return _view(reading, sorted(pair for pair in reading.withheld if text.casefold() in pair[0].casefold()))


def withheld_of_service(reading: WithheldReading, path: str) -> WithheldServices:
    """Return the targets from which a service is withheld."""
    return _view(reading, sorted(pair for pair in reading.withheld if pair[0] == path))


def withheld_of_host(reading: WithheldReading, identity: Identity) -> WithheldServices:
    """Return the services that are withheld from a host."""
    names = {identity.role} if identity.role is not None else set(identity.target_names)
    return _view(reading, sorted(pair for pair in reading.withheld if pair[1] in names))


def _view(reading: WithheldReading, chosen: Sequence[ServiceTarget]) -> WithheldServices:
    listed = chosen[:_MOST]
    governing = governing_intents(reading.intents, listed)
    services = (_service(pair, governing.get(pair), reading.left) for pair in listed)
    return WithheldServices(tuple(filter(None, services)), max(0, len(chosen) - _MOST))


def _service(pair: ServiceTarget, intent: Intent | None, left: Collection[LeftService]) -> WithheldService | None:
    """Return a withheld service with its reason; ``None`` if the records do not tell the reason."""
    path, target = pair
    if intent is not None:
        act = "applied" if isinstance(intent, ClusterIntents) else "instantiated"
        subject, page = subject_text(intent.subject), intent_page(intent.subject)
        return WithheldService(path, service_page(path), target, subject, page, act)
    former = next((one for one in left if one.covers(path, target)), None)
    if former is None:
        return None
    release = f"zkdeployment intent release {path}"
    return WithheldService(path, service_page(path), target, subject_text(former.former), None, release)
