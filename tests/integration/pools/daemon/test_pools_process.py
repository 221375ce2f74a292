"""The program ``zkdeployment pools`` with real playbooks and real machines: killed, continued and ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil
import pytest

from support.pools.playbooks import made_machines, write_playbooks
from support.pools.ssh_nodes import make_key, running_ssh_nodes
from support.pools.workers import PoolFleet
from support.waiting import wait_until
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.pools.acts.sessions import SessionActor, retire_session
from zkdeployment.pools.opening import pool_adapters
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[object]:
    with running_ssh_nodes(tmp_path / "nodes", 2) as nodes:
        yield nodes


def playbooks_of(place: Path) -> list[psutil.Process]:
    """Return the programs of Ansible that run playbooks in a directory."""
    found = []
    for program in psutil.process_iter(["cmdline", "cwd"]):  # both at once, because programs may end meanwhile
        words = program.info["cmdline"] or []
        if any("ansible-playbook" in word for word in words) and program.info["cwd"] == str(place):
            found.append(program)
    return found


@pytest.mark.nightly
def test_a_worker_that_is_killed_or_ended_leaves_nothing_behind(zookeeper, machines, tmp_path):
    books = tmp_path / "books"
    pool = {"fill-level": 1, "mechanism": write_playbooks(books, machines)}
    config = tmp_path / "pools.cfg"
    config.write_text(
        f"[zkdeployment]\nzookeeper = {zookeeper}\nroot = {tmp_path}\n"
        f"[pools]\nssh-key = {machines.key}\nssh-config = {machines.configuration}\ninterval = 1m\n"
    )

    @contextmanager
    def worker(failpoints: str = "") -> Iterator[subprocess.Popen[bytes]]:
        argv = [sys.executable, "-m", "zkdeployment", "pools", str(config)]
        env = {**os.environ, "ZKDEPLOYMENT_FAILPOINTS": failpoints}
        with (tmp_path / "log").open("ab") as log, subprocess.Popen(argv, env=env, stdout=log, stderr=log) as run:
            try:
                yield run
            finally:
                run.kill()

    public = make_key(tmp_path / "tenant")
    with PoolFleet(zookeeper, SystemClock()) as fleet, Session(zookeeper) as session:
        fleet.publish(json.dumps({"nodepools": {"concrete": {"cloud": pool}}}))
        tenant = fleet.add_tenant(1, key=public)
        with worker("before:end-to-provision=kill") as killed:
            assert killed.wait() == -signal.SIGKILL
        assert (fleet.states("cloud"), made_machines(books)) == (["provisioning"], [1])
        with worker() as second:
            wait_until(lambda: fleet.states("cloud") == ["ready"], "the node of the killed worker")
            assert made_machines(books) == [1]
            lent = fleet.request(tenant, cloud=1)
            wait_until(lambda: fleet.states("cloud") == ["deployed", "ready"], "the session, and another node")
            node = next(node for node in machines.nodes if node.address == fleet.store.node(1).ipaddr)
            assert machines.login(node, tmp_path / "tenant", "true").status == 0
            (books / "gate").unlink()
            adapters = pool_adapters(session)
            retire_session(lent.id, adapters, SessionActor("root@adm"))
            wait_until(lambda: playbooks_of(books), "the playbook that waits")
            second.send_signal(signal.SIGTERM)
            assert second.wait() == 0
        assert playbooks_of(books) == []
        assert fleet.store.node(1).state.value == "deprovisioning"
        assert machines.login(node, tmp_path / "tenant", "true").status != 0
        (books / "gate").touch()
        with worker():
            wait_until(lambda: fleet.states() == ["ready"], "the end of the session, and another node")
        assert made_machines(books) == list(fleet.store.read().nodes)
        assert fleet.store.node(1).state.value == "done"
        assert "Traceback" not in (tmp_path / "log").read_text()


def test_the_playbook_of_a_killed_worker_is_dead_long_before_another_worker_can_begin_it(zookeeper, tmp_path):
    (tmp_path / "p.yml").write_text(
        f"- hosts: localhost\n  gather_facts: false\n  tasks: [shell: echo $$ >{tmp_path}/pid && exec sleep 600]\n"
    )
    ansible = {"topdir": str(tmp_path), "provision": {"playbook": "p.yml"}}
    pool = {"fill-level": 1, "mechanism": {"type": "ansible", "ansible": ansible}}
    config = tmp_path / "pools.cfg"
    config.write_text(f"[zkdeployment]\nzookeeper = {zookeeper}\nroot = {tmp_path}\n[pools]\ninterval = 1m\n")
    with PoolFleet(zookeeper, SystemClock()) as fleet:
        fleet.publish(json.dumps({"nodepools": {"concrete": {"cloud": pool}}}))
        with subprocess.Popen([sys.executable, "-m", "zkdeployment", "pools", str(config)]) as worker:
            pid = tmp_path / "pid"
            wait_until(lambda: pid.exists() and pid.read_text(), "the playbook")
            task = psutil.Process(int(pid.read_text()))
            worker.kill()
        wait_until(lambda: not task.is_running(), "the end of the playbook")
        assert fleet.store.read().claimed == {1}
