"""Values that many tests need, with the fields that most of them do not care about.

Values of a feature stand in modules beside this one, because the frames' tests run without any feature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Package
from zkdeployment.base.lock import Contender, Lock, LockedWork, LockKind
from zkdeployment.service.users.user import Role, User

if TYPE_CHECKING:
    from zkdeployment.base.cluster import Revision


def make_identity(host: int | str, role: str | None = None) -> Identity:
    """Return the identity of a host: ``7`` is h7 with the name app7, and ``h7`` has the name h7.example.com."""
    if isinstance(host, int):
        return Identity(f"h{host}", f"app{host}", role)
    return Identity(host, f"{host}.example.com", role)


def make_host(
    host: int | str = 1, version: Revision | None = None, role: str | None = None, **fields: Any
) -> Host:
    """Return a registered host with the identity of ``make_identity``."""
    return Host(make_identity(host, role), version, **fields)


def make_known_host(
    host: int | str = 1, inventory: Inventory | None = None, role: str | None = None, **fields: Any
) -> KnownHost:
    """Return a host that has published an inventory, with the identity of ``make_identity``."""
    return KnownHost(make_identity(host, role), inventory, **fields)


def make_package(
    name: str, version: str = "1", release: str = "1", *, epoch: int = 0, arch: str = "noarch"
) -> Package:
    """Return a package."""
    return Package(name, epoch, version, release, arch)


def make_inventory(*packages: Package, **fields: Any) -> Inventory:
    """Return an inventory with one version of each of these packages."""
    return Inventory({package.name: (package,) for package in packages}, **fields)


def make_contender(host: int | str, since: float) -> Contender:
    """Return a host that holds a lock, or waits for it, since a time."""
    identity = make_identity(host)
    return Contender(f"{identity.name} ({identity.id})", since, f"/node/{identity.id}", identity.id)


def make_service_lock(*contenders: Contender, path: str = "/web", work: LockedWork | None = None) -> Lock:
    """Return the lock of a service."""
    name = path[1:].replace("/", ",")
    return Lock(LockKind.SERVICE, path, f"/agent-locks/{name}", contenders, work, f"/zkdeployment/busy/{name}")


def make_role_lock(*contenders: Contender, role: str = "db") -> Lock:
    """Return the lock of a role."""
    return Lock(LockKind.ROLE, role, f"/role-locks/{role}", contenders)


def make_user(name: str = "ann", role: Role = Role.OPERATOR, **fields: Any) -> User:
    """Return a user of the service."""
    return User(**{"id": 1, "created_at": 0.0, **fields}, name=name, role=role)
