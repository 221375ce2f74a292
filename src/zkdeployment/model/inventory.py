"""What a host has: packages, the scripts under ``/opt``, the markers under ``/etc``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.model.deployment import Deployment  # noqa: TC001  the field types of public dataclasses
from zkdeployment.model.host import Identity  # noqa: TC001  the same
from zkdeployment.model.strategy import Facts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from zkdeployment.model.host import Host


@dataclass(frozen=True, slots=True, order=True)
class Package:
    """One installed or available package, exactly."""

    name: str
    epoch: int
    version: str
    release: str
    arch: str

    def __str__(self) -> str:
        return self.nevra

    @property
    def nevra(self) -> str:
        """Name-epoch:version-release.arch as dnf writes it: an epoch of 0 is left out."""
        epoch = f"{self.epoch}:" if self.epoch else ""
        return f"{self.name}-{epoch}{self.version}-{self.release}.{self.arch}"

    @property
    def evr(self) -> str:
        """Epoch, version and release as a version that names this package exactly, an epoch of 0 included."""
        return f"{self.epoch}:{self.version}-{self.release}"


#: The whole package database, by name. A name with several packages is legal (kernels) or the mark of an
#: interrupted transaction.
Packages: TypeAlias = "Mapping[str, tuple[Package, ...]]"


@dataclass(frozen=True, slots=True)
class Marker:
    """A deployment that is recorded on the host, and the files in ``/etc/APPLICATION`` that record it.

    ``files`` are base names: the ``.deployed`` file and what older tools left beside it (spelled with commas,
    ``.script`` notes). ``package`` is ``None`` when no file says which package owns the deployment; ``version``
    is that package's version (not the tree's revision).
    """

    deployment: Deployment
    application: str
    package: str | None = None
    subtype: str | None = None
    script: str | None = None
    version: str | None = None
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a host has, read once a cycle.

    ``scripts`` maps each name under ``/opt`` that has a deploy script to that script's path.
    ``directories`` are all names under ``/opt``, ``controllers`` those with a role controller's start script.
    ``managed`` maps each package that the agent installed and has not yet fully removed to its application: it
    is written before the first change, so that what a crash left half-removed is still known to be ours.
    ``checkouts`` maps each name under ``/opt`` that was checked out to the version remembered in it.
    ``applications`` are the directories under ``/etc`` of managed, marked or checked out applications.
    ``lost_scripts`` are the installed packages whose deploy script or role controller's script is missing or
    damaged, by the account of the package database. ``originals`` maps each package that the system had before a
    deployment changed it to the version to put back (``EPOCH:VERSION-RELEASE``).
    """

    packages: Packages = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    directories: frozenset[str] = frozenset()
    markers: tuple[Marker, ...] = ()
    managed: Mapping[str, str] = field(default_factory=dict)
    checkouts: Mapping[str, str] = field(default_factory=dict)
    applications: frozenset[str] = frozenset()
    controllers: frozenset[str] = frozenset()
    lost_scripts: frozenset[str] = frozenset()
    originals: Mapping[str, str] = field(default_factory=dict)

    @property
    def deployed_packages(self) -> Packages:
        """The installed packages that have a script, or had one because they are or were deployed."""
        marked = {marker.package or marker.application for marker in self.markers}
        names = {*self.scripts, *self.controllers, *self.managed, *marked} - self.checkouts.keys()
        return {name: self.packages[name] for name in sorted(names & self.packages.keys())}


@dataclass(frozen=True, slots=True)
class KnownHost:
    """A host and what it last published of itself, under ``/zkdeployment/inventory``; that outlives its session.

    ``inventory`` is ``None`` when what it has is unknown; ``unknown`` says why. ``time`` is when that was written,
    in seconds since the epoch. ``tags``, ``labels`` and ``rack`` are those of its configuration.
    """

    identity: Identity
    inventory: Inventory | None = None
    time: float = 0.0
    unknown: str = ""
    tags: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    rack: str | None = None

    @property
    def facts(self) -> Facts:
        """What selectors of a strategy ask of it."""
        return Facts(self.rack, frozenset(self.tags), self.labels, self.identity.name)


def absent_hosts(known: Iterable[KnownHost], hosts: Collection[Host]) -> tuple[KnownHost, ...]:
    """Return the known hosts that are not registered, but for those whose name a registered host has now."""
    ids = {host.identity.id for host in hosts}
    names = {host.identity.name for host in hosts}
    return tuple(one for one in known if one.identity.id not in ids and one.identity.name not in names)
