"""Users and logins of two services, on a real ZooKeeper."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from support.clocks import ManualClock
from zkdeployment.adapters.key_hashes import KeyHasher
from zkdeployment.adapters.zookeeper.users.logins import ZooKeeperLogins
from zkdeployment.adapters.zookeeper.users.store import ZooKeeperUsers


@dataclass
class Service:
    users: ZooKeeperUsers
    logins: ZooKeeperLogins
    clock: ManualClock


@pytest.fixture(scope="session")
def hasher():
    return KeyHasher()


@pytest.fixture
def service_with(hasher):
    def build(session, acl=()):
        clock = ManualClock()
        users = ZooKeeperUsers(session, acl, hasher, clock)
        return Service(users, ZooKeeperLogins(session, acl, users, hasher, clock), clock)

    return build


@pytest.fixture
def service(session, service_with):
    return service_with(session)


@pytest.fixture
def other_service(other, service_with):
    return service_with(other)
