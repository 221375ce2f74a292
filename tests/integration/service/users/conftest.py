"""Users and logins of two services, on a real ZooKeeper."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from support.waiting import ManualClock
from zkdeployment.service.users.key_hashes import KeyHasher
from zkdeployment.service.users.login_store import ZooKeeperLogins
from zkdeployment.service.users.user_store import ZooKeeperUsers


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
