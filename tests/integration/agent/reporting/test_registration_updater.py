"""The host's node during a script: its updates wait neither for ZooKeeper nor for another host."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from support.waiting import ManualClock
from support.zookeeper import renew_session
from zkdeployment.agent.files.run_directory import RunDirectory
from zkdeployment.agent.reporting.host_reporting import AgentEvents, HostPresence
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.host import Host, Identity
from zkdeployment.zookeeper.session import Session

HOST = Host(Identity(id="1", name="web1.example.com"), version="abc")


@pytest.mark.parametrize("rival", [HOST.identity, Identity("2", HOST.identity.name)], ids=["id", "name"])
def test_an_update_during_a_script_never_waits_for_another_host_with_the_same_id_or_name(
    zookeeper, tmp_path, rival
):
    clock = ManualClock()
    with Session(zookeeper) as session, Session(zookeeper) as other:
        adapters = SimpleNamespace(
            session=session,
            address=None,
            fleet=ZooKeeperFleet(session, patience=300),
            run=RunDirectory(tmp_path),
            clock=clock,
            trusted=None,
        )
        registration = HostPresence(HOST, adapters, Control(clock), AgentEvents())
        registration.register()
        renew_session(session)
        taken = ZooKeeperFleet(other)
        taken.register(replace(HOST, identity=rival, step="of the rival"))
        begun = time.monotonic()
        for step in range(3):
            registration.host = replace(HOST, step=f"deploy /a {step}")
            clock.time += 2
            registration.refresh_at_pace()
        assert time.monotonic() - begun < 200
        assert other.children("/hosts") == [rival.id]
        assert other.get(f"/hosts/{rival.id}").properties["step"] == "of the rival"
        taken.unregister()
        clock.time += 2
        registration.refresh_at_pace()
        node = other.get("/hosts/1")
        assert (node.owner, node.properties["step"]) == (session.id, "deploy /a 2")
