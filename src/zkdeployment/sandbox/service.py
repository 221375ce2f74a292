"""The service of a sandbox: its port, its admin, and other users."""

from __future__ import annotations

import time

from zkdeployment.base.act import Act
from zkdeployment.sandbox.layout import SandboxService
from zkdeployment.sandbox.zookeeper import free_port
from zkdeployment.service.users.opening import open_users
from zkdeployment.service.users.user import NewUser, Role
from zkdeployment.zookeeper.servers import Servers

_ADMIN = "sandbox"


def new_service(zookeeper: str) -> SandboxService:
    """Return a service on a free port, with a new admin."""
    return SandboxService(free_port(), _ADMIN, _add_user(zookeeper, _ADMIN, Role.ADMIN))


def add_viewer(zookeeper: str, name: str) -> str:
    """Add a user who may only read, and return its key."""
    return _add_user(zookeeper, name, Role.VIEWER)


def add_monitoring_system(zookeeper: str, name: str) -> str:
    """Add the user of a monitoring system, and return its key."""
    return _add_user(zookeeper, name, Role.MONITORING)


def _add_user(zookeeper: str, name: str, role: Role) -> str:
    act = Act("the sandbox", f"user add {name}", "", time.time())
    with open_users(Servers(zookeeper), ()) as users:
        return users.add(NewUser(name=name, role=role), act).key
