"""Inventories: the packages of a host, the scripts under ``/opt``, the markers in ``/etc``; order of versions."""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.base.deployment import Deployment  # noqa: TC001  the field types of public dataclasses
from zkdeployment.base.host import Facts, Host, Identity
from zkdeployment.base.system import HostSystem  # noqa: TC001
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


@dataclass(frozen=True, slots=True, order=True)
class Package:
    """One installed or available package, with its exact version."""

    name: str
    epoch: int
    version: str
    release: str
    arch: str

    def __str__(self) -> str:
        return self.nevra

    @property
    def nevra(self) -> str:
        """Name-epoch:version-release.arch as dnf writes it: an epoch of 0 is omitted."""
        epoch = f"{self.epoch}:" if self.epoch else ""
        return f"{self.name}-{epoch}{self.version}-{self.release}.{self.arch}"

    @property
    def evr(self) -> str:
        """The exact version of the package, ``EPOCH:VERSION-RELEASE``, including an epoch of 0."""
        return f"{self.epoch}:{self.version}-{self.release}"


#: The whole package database, by name. A name may have several packages: for two architectures, several versions
#: of a kernel, or the remains of an interrupted transaction.
Packages: TypeAlias = "Mapping[str, tuple[Package, ...]]"

_SEGMENT = re.compile(r"~|\^|[0-9]+|[A-Za-z]+")


def version_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that orders versions and releases as rpm does (rpm-version(7), rpmvercmp).

    Separators only separate. Segment by segment, a tilde comes before the end, the end before a caret, a caret
    before letters, letters before numbers; numbers are compared by value, letters as text.
    """
    key = []
    for segment in _SEGMENT.findall(text):
        if segment == "~":
            key.append((0, 0, ""))
        elif segment == "^":
            key.append((2, 0, ""))
        elif segment.isdigit():
            digits = segment.lstrip("0")
            key.append((4, len(digits), digits))
        else:
            key.append((3, 0, segment))
    return (*key, (1, 0, ""))


@dataclass(frozen=True, slots=True)
class Marker:
    """A deployment that is recorded on the host, with the files in ``/etc/APPLICATION`` that record it.

    ``files`` are base names: the ``.deployed`` file and the files of older tools beside it (spelled with commas,
    ``.script`` notes). ``package`` is ``None`` when no file names the package that owns the deployment;
    ``version`` is the version of that package (not the revision of the tree). ``sequence`` is that of the
    publication in which it was deployed; ``None`` if it was deployed for a version that was set by hand, and in
    markers of older tools. ``group`` is that of its assignment.

    Only the marker of a service with ``rerun = 'changed'`` records the inputs of its deployment: ``properties`` is
    the digest of its properties, ``packages`` are its installed packages with their exact versions, and
    ``identity`` is that of the host. The record is removed before the deployment runs again, so a deployment that
    failed or was interrupted has no record.
    """

    deployment: Deployment
    application: str
    package: str | None = None
    subtype: str | None = None
    script: str | None = None
    version: str | None = None
    files: tuple[str, ...] = ()
    sequence: int | None = None
    properties: str | None = None
    packages: tuple[str, ...] = ()
    identity: Identity | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """The software and the deployments of a host, read once in each cycle.

    ``scripts`` maps each name under ``/opt`` that has a deploy script to that script's path. ``directories`` are
    all names under ``/opt``, ``controllers`` those with a role controller's start script. ``managed`` maps each
    package that the agent installed and has not yet fully removed to its application. The registry of managed
    packages is written before the first change, so that a package that is half removed after a crash is still
    known as managed. ``checkouts`` maps the name of each checkout under ``/opt`` to the version that is recorded
    in it. ``applications`` are the directories under ``/etc`` of applications that are managed, marked or checked
    out. ``lost_scripts`` are the installed packages whose deploy script or role controller's script is missing or
    damaged according to the package database. ``installonly`` are the installed packages of which dnf keeps
    several versions at the same time, such as kernels. ``originals`` maps each package that was on the system
    before a deployment changed it to its original version (``EPOCH:VERSION-RELEASE``), which is restored later.
    ``deployments_started`` means that a role controller's ``starting-deployments`` was called, and that no
    ``ending-deployments`` has succeeded since.
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
    installonly: frozenset[str] = frozenset()
    originals: Mapping[str, str] = field(default_factory=dict)
    deployments_started: bool = False

    @property
    def deployed_packages(self) -> Packages:
        """The installed packages that have a script, or had one when they were deployed."""
        marked = {marker.package or marker.application for marker in self.markers}
        names = {*self.scripts, *self.controllers, *self.managed, *marked} - self.checkouts.keys()
        return {name: self.packages[name] for name in sorted(names & self.packages.keys())}


@dataclass(frozen=True, slots=True)
class KnownHost:
    """A host, as its last record under ``/zkdeployment/inventory`` describes it.

    The record outlives the host's session.

    ``inventory`` is ``None`` when it cannot be read; ``unknown`` is the reason. ``time`` is when the record was
    written, in seconds since the epoch. ``tags``, ``labels`` and ``rack`` are those of the host's configuration.
    ``address`` is the host's, and ``completed`` the sequence of the last publication that it deployed completely.
    ``idle_role`` is that of a host that can be leased. ``system`` is the operating system of a host that updated
    it for a system node.
    """

    identity: Identity
    inventory: Inventory | None = None
    time: float = 0.0
    unknown: str = ""
    tags: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    rack: str | None = None
    address: str | None = None
    completed: int | None = None
    idle_role: str | None = None
    system: HostSystem | None = None

    @property
    def facts(self) -> Facts:
        """The facts that a strategy's selectors match."""
        is_leasable = self.idle_role is not None
        return Facts(self.rack, frozenset(self.tags), self.labels, self.identity.name, is_leasable=is_leasable)


def absent_hosts(known: Iterable[KnownHost], hosts: Collection[Host]) -> tuple[KnownHost, ...]:
    """Return the known hosts that are not registered, except those whose name a registered host has now."""
    ids = {host.identity.id for host in hosts}
    names = {host.identity.name for host in hosts}
    return tuple(host for host in known if host.identity.id not in ids and host.identity.name not in names)
