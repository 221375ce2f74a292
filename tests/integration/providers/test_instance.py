"""Instances of services as ephemeral nodes."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest
from kazoo.exceptions import NoNodeError
from structlog.testing import capture_logs

from support.waiting import wait_until
from support.zookeeper import through
from zkdeployment.base.errors import ConfigurationError, ConflictError, LinkError
from zkdeployment.providers.instance import Provider, Registration, build_instance
from zkdeployment.zookeeper.servers import Servers
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from zkdeployment.zookeeper.transactions import Operation

PATH = "/shop/web/providers"


def test_an_instance_is_registered_once_below_the_target_of_links(session, client):
    client.create(PATH, makepath=True)
    client.create("/alias", b'{"web ->": "/shop/web"}')
    provider = Provider(session, "/alias/web/providers", "app1:80")
    provider.check()
    assert provider.register({"pid": 7}).path == f"{PATH}/app1:80"
    before = session.get(f"{PATH}/app1:80")
    assert (before.owner, before.properties) == (session.id, {"pid": 7})
    provider.register({"pid": 7})
    assert session.get(f"{PATH}/app1:80") == before
    provider.unregister()
    provider.unregister()
    assert client.get_children(PATH) == []


def test_an_instance_that_was_never_registered_is_not_unregistered(session, client):
    client.create(PATH, makepath=True)
    client.create(f"{PATH}/app1:80")
    Provider(session, PATH, "app1:80").unregister()
    assert client.get_children(PATH) == ["app1:80"]


def test_the_later_of_two_processes_has_the_address_until_it_ends(session, other, client):
    client.create(PATH, makepath=True)
    early, late, changed = Provider(other, PATH, "app1:80"), Provider(session, PATH, "app1:80"), threading.Event()
    first = early.register({"pid": 1}, lambda _: changed.set())
    taken = late.register({"pid": 2})
    assert (taken.is_own, taken.node.owner, taken.replaced) == (True, session.id, first.node)
    assert changed.wait(30)
    changed.clear()
    displaced = early.register({"pid": 1}, lambda _: changed.set())
    assert (displaced.is_own, displaced.node) == (False, taken.node)
    assert late.register({"pid": 2}) == Registration(taken.path, taken.node)
    late.unregister()
    assert changed.wait(30)
    again = early.register({"pid": 1})
    assert (again.is_own, again.node.owner, again.replaced) == (True, other.id, None)
    late.unregister()
    assert client.get_children(PATH) == ["app1:80"]


def test_an_instance_replaces_the_node_of_its_own_former_session(zookeeper, session, client):
    client.create(PATH, makepath=True)
    with Session(zookeeper) as former:
        provider = Provider(former, PATH, "app1:80")
        provider.register({"pid": 1})
        provider._session = session
        again = provider.register({"pid": 1})
        assert (again.is_own, again.node.owner, again.replaced) == (True, session.id, None)


def test_a_missing_path_is_an_error(session):
    provider = Provider(session, "/nowhere", "app1:80")
    with pytest.raises(LinkError, match="there is no node /nowhere"):
        provider.check()
    with pytest.raises(LinkError, match="there is no node /nowhere"):
        provider.register({})


@pytest.mark.parametrize("address", ["", "a/b", "..", "a\0b"])
def test_an_address_that_is_not_a_valid_node_name_is_refused(session, address):
    with pytest.raises(ConfigurationError):
        Provider(session, PATH, address)


def test_a_registration_that_conflicts_in_every_attempt_is_an_error(session, client):
    client.create(PATH, makepath=True)

    def refuse(*_operations: Operation):
        raise ConflictError("disturbed")

    session.commit = refuse
    with pytest.raises(ConflictError, match="another process registered it during each of 10 attempts"):
        Provider(session, PATH, "app1:80").register({})


def test_a_program_outlives_an_outage_in_which_several_clients_are_replaced(zookeeper, client, proxy, monkeypatch):
    hasty = partial(Session, call_timeout=0.2, close_timeout=0.5, patience=0.3)
    monkeypatch.setattr("zkdeployment.providers.instance.Session", hasty)
    client.create(PATH, makepath=True)
    node, servers, statuses = f"{PATH}/app1:80", Servers(through(proxy, zookeeper)), []

    def read():
        """Return the data of the node and the transaction that created it; ``None`` between two sessions."""
        with suppress(NoNodeError):
            data, stat = client.get(node)
            return data, stat.czxid
        return None

    def replaced():
        return [line["event"] for line in logs].count("zookeeper-client-replaced")

    with capture_logs() as logs, build_instance(servers, PATH, "app1:80", ["sleep", "1000"]) as instance:
        thread = threading.Thread(target=lambda: statuses.append(instance.provide({})))
        thread.start()
        found = []
        wait_until(lambda: found.append(read()) or found[-1], "the node")
        before, created = found[-1]
        proxy.cut()
        wait_until(lambda: replaced() >= 3, "the third new client")
        proxy.heal()
        wait_until(lambda: (new := read()) and new[0] == before and new[1] != created, "the new node")
        instance.end(signal.SIGTERM)
        thread.join()
    assert statuses == [128 + signal.SIGTERM]
    assert "displaced-another-instance" not in [line["event"] for line in logs]
