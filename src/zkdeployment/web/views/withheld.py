"""Services that are not deployed because of the state of their intents, with links to these intents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.documents.intents.values import ClusterIntents, subject_text
from zkdeployment.planning.targets.governance import governing_intents
from zkdeployment.web.views.links import intent_page, service_page

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from zkdeployment.documents.intents.values import Intent
    from zkdeployment.model.host import Identity
    from zkdeployment.planning.targets.withheld import ServiceTarget

#: The most services that a page lists.
_MOST = 50


@dataclass(frozen=True, slots=True)
class WithheldService:
    """A service that is withheld from a target, until ``subject`` is instantiated or applied (``act``)."""

    path: str
    href: str
    target: str
    subject: str
    intent: str
    act: str


@dataclass(frozen=True, slots=True)
class WithheldServices:
    """Withheld services, and how many ``more`` there are."""

    services: tuple[WithheldService, ...]
    more: int = 0


def withheld_services_view(
    withheld: Iterable[ServiceTarget], intents: Collection[Intent], text: str = ""
) -> WithheldServices:
    """Return the withheld services whose path contains a text, sorted by path and target."""
    chosen = sorted(pair for pair in withheld if text.casefold() in pair[0].casefold())
    return _view(chosen[:_MOST], len(chosen) - _MOST, intents)


def withheld_of_service(
    withheld: Iterable[ServiceTarget], intents: Collection[Intent], path: str
) -> WithheldServices:
    """Return the targets from which a service is withheld."""
    chosen = sorted(pair for pair in withheld if pair[0] == path)
    return _view(chosen[:_MOST], len(chosen) - _MOST, intents)


def withheld_of_host(
    withheld: Iterable[ServiceTarget], intents: Collection[Intent], identity: Identity
) -> WithheldServices:
    """Return the services that are withheld from a host."""
    names = {identity.role} if identity.role is not None else set(identity.target_names)
    chosen = sorted(pair for pair in withheld if pair[1] in names)
    return _view(chosen[:_MOST], len(chosen) - _MOST, intents)


def _view(chosen: Collection[ServiceTarget], more: int, intents: Collection[Intent]) -> WithheldServices:
    governing = governing_intents(intents, chosen)
    services = (_service(pair, governing) for pair in chosen if pair in governing)
    return WithheldServices(tuple(services), max(0, more))


def _service(pair: ServiceTarget, governing: Mapping[ServiceTarget, Intent]) -> WithheldService:
    intent = governing[pair]
    return WithheldService(
        path=pair[0],
        href=service_page(pair[0]),
        target=pair[1],
        subject=subject_text(intent.subject),
        intent=intent_page(intent.subject),
        act="applied" if isinstance(intent, ClusterIntents) else "instantiated",
    )
