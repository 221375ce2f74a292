"""Composition of the worker of host pools: its session, its mechanisms and its tasks."""

from __future__ import annotations

import contextlib
import os
import socket
import uuid
from functools import partial
from typing import TYPE_CHECKING

from zkdeployment.base.daemon.control import Control
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.cli.process import arm_failpoints
from zkdeployment.fleet.daemon_failures import FailureRecord
from zkdeployment.pools import paths as pool_paths
from zkdeployment.pools.daemon import NodeTasks, PoolWorker, TaskRuns
from zkdeployment.pools.documents import AnsibleMechanism, Mechanism, RoleMechanism
from zkdeployment.pools.mechanisms.ansible import (
    AnsibleNodes,
    AnsiblePlaybooks,
    SshTenantKeys,
    end_abandoned_playbooks,
)
from zkdeployment.pools.mechanisms.role_nodes import RoleNodes
from zkdeployment.pools.opening import lease_signer
from zkdeployment.pools.rules.work import idle_leases, recorded_leases
from zkdeployment.pools.settings import PoolsSettings
from zkdeployment.pools.store.leases import LeaseKeys, ZooKeeperLeases
from zkdeployment.pools.store.sources import ZooKeeperPoolSources
from zkdeployment.pools.store.store import ZooKeeperPlaybookLog, ZooKeeperPools
from zkdeployment.publishing.keys import LEASES, PublisherKeysFile
from zkdeployment.zookeeper.servers import AclEntry
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from zkdeployment.config.settings import Settings
    from zkdeployment.pools.opening import PoolMechanism
    from zkdeployment.pools.rules.work import PoolFacts

_SESSION = 15.0  # seconds


@contextlib.contextmanager
def build_pool_worker(settings: Settings) -> Iterator[tuple[PoolWorker, Control]]:
    """Yield the worker and its control; no server is contacted before the worker runs."""
    arm_failpoints(settings)
    session = Session(settings.servers, session_timeout=_SESSION, create_chroot=True)
    clock, pools = SystemClock(), settings.require(PoolsSettings)
    control = Control(clock)
    session.on_change(control.wake)
    store = ZooKeeperPools(session)
    leases = ZooKeeperLeases(session, lease_keys(settings, clock.now))
    # Playbooks print secrets of providers, which hosts need not read.
    private = (AclEntry("auth", "", "cdrwa"),) if settings.servers.access.acl else ()
    log = ZooKeeperPlaybookLog(session, private)
    playbooks = AnsiblePlaybooks(
        is_stopped=lambda: tasks.must_end,
        permitted=lambda: worker.permitted(),  # noqa: PLW0108  the worker is made below
        record=lambda run: log.add(run, lambda: store.take_ids(1)[0]),
    )
    keys = SshTenantKeys(pools.ssh_key, pools.ssh_config, pools.authorized_keys, is_stopped=lambda: tasks.must_end)
    mechanisms: Mapping[type[Mechanism], PoolMechanism] = {
        AnsibleMechanism: AnsibleNodes(playbooks, keys, clock),
        RoleMechanism: RoleNodes(leases, clock, lambda: tasks.must_end, playbooks),
    }
    runs = TaskRuns(mechanisms, clock, lambda: tasks.must_end)
    tasks = NodeTasks(store, runs, wake=control.wake, is_stopped=lambda: control.stopping)
    end_abandoned_playbooks()
    worker = PoolWorker(
        store,
        ZooKeeperPoolSources(session, control.wake),
        runs,
        tasks,
        control,
        name=f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}",
        connect=session.open,
        connection=lambda: session.link,
        pulse=partial(session.get, pool_paths.POOLS),
        session_timeout=_SESSION,
        interval=pools.interval,
        clock=clock,
        notifier=SystemdNotifier(),
        record_failure=FailureRecord(session, "worker of the pools").write,
        renew_leases=partial(_renew_leases, leases),
    )
    try:
        yield worker, control
    finally:
        if not tasks.busy:  # else a playbook may still run, and the claims stay until the session expires
            session.close()


def _renew_leases(leases: ZooKeeperLeases, facts: PoolFacts) -> None:
    leases.renew(partial(recorded_leases, facts))
    leases.restore(idle_leases(facts))


def lease_keys(settings: Settings, now: Callable[[], float]) -> LeaseKeys | None:
    """Return the keys of leases, ``None`` if leases are not signed; raises as ``lease_signer`` does."""
    own = lease_signer(settings)
    publishers = settings.publishers
    others = None if publishers is None else PublisherKeysFile(publishers, LEASES, "no worker signed the lease")
    return None if own is None else LeaseKeys(own, now, others)
