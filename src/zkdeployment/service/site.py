"""The site as browsers see it, and the limits of each client."""

from __future__ import annotations

from dataclasses import field

from zkdeployment.base.values import dataclass
from zkdeployment.service.users.external_logins import TrustedProxies

#: The colours of fleets; the style sheet defines each for light and dark screens.
COLOURS = ("none", "red", "orange", "green", "teal", "blue", "purple", "grey")

#: The name of a fleet without a name of its own.
UNNAMED = "zkdeployment"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """The most connections of an address, including its event streams, and the most event streams of a user."""

    connections_per_address: int = 250
    streams_per_user: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The public side of the service.

    ``hosts`` are the names and addresses, without ports, under which browsers reach the service. ``authority`` is
    the host with its port, if any, of the URL that people use. ``encrypted`` is whether that URL begins with
    ``https``. The service believes the headers of ``proxies``. ``limits`` apply to each client. ``name`` and
    ``colour`` are those of the fleet.
    """

    hosts: frozenset[str]
    authority: str
    encrypted: bool = False
    proxies: TrustedProxies = field(default_factory=TrustedProxies)
    limits: ClientLimits = field(default_factory=ClientLimits)
    name: str = UNNAMED
    colour: str = "none"

    @property
    def url(self) -> str:
        """The URL that people use, without a path."""
        return f"{'https' if self.encrypted else 'http'}://{self.authority}"
