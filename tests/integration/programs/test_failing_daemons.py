"""A daemon whose cycles end with an unexpected error: operators see it until a cycle succeeds."""

from __future__ import annotations

import threading
from fractions import Fraction
from functools import partial

import pytest

from support.repository import Repository
from support.waiting import wait_until
from zkdeployment.checks.daemon import CheckJob
from zkdeployment.config.settings import load
from zkdeployment.fleet.daemon_failures import FailureRecord
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.pools.daemon import PoolWorker
from zkdeployment.pools.program import build_pool_worker
from zkdeployment.programs.syncer import build_follower
from zkdeployment.providers.filter import ZooKeeperFilter, build_filter
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.rollouts.daemon import Coordinator
from zkdeployment.rollouts.program import build_coordinator
from zkdeployment.zookeeper.session import Session


@pytest.fixture
def settings(zookeeper, tmp_path):
    repository = Repository(tmp_path / "repository")
    repository.commit({"shop.zk": "/shop\n  /web\n"})
    file = tmp_path / "tools.cfg"
    file.write_text(
        f"[zkdeployment]\nzookeeper = {zookeeper}\n"
        f"[sync]\nurl = {repository.directory}\ntree-directory = {tmp_path}/tree\n"
        "[checks]\ninterval = 1\n"
    )
    return load(file, host=False)


def _filter(settings):
    return build_filter(settings.servers, "/shop/providers", "/shop/filtered", Fraction(1, 2))


@pytest.mark.parametrize(
    ("build", "owner", "method", "daemon"),
    [
        (build_follower, Syncer, "sync", "syncer"),
        (build_coordinator, Coordinator, "_work", "coordinator"),
        (build_coordinator, CheckJob, "run", "job of the checks"),
        (build_pool_worker, PoolWorker, "_work", "worker of the pools"),
        (_filter, ZooKeeperFilter, "registered", "filter of providers"),
    ],
)
def test_a_daemon_with_a_defect_is_in_the_status_until_a_cycle_succeeds(
    build, owner, method, daemon, settings, zookeeper, monkeypatch
):
    def fail(*_args):
        raise KeyError("topdir")

    with Session(zookeeper) as session, build(settings) as (running, control):
        session.ensure("/shop/providers")
        fleet = ZooKeeperFleetReader(session)
        run = partial(running.run, 0.5) if build is build_follower else running.run
        with monkeypatch.context() as patched:
            patched.setattr(owner, method, fail)
            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            wait_until(lambda: fleet.snapshot().failures, "the failure in the snapshot")
            (failure,) = fleet.snapshot().failures
            assert (failure.daemon, failure.message) == (daemon, "unexpected KeyError: 'topdir'; see the log")
        wait_until(lambda: not fleet.snapshot().failures, "a snapshot without a failure")
        control.stop()
        thread.join(30)
        assert not thread.is_alive()


def test_the_failure_of_a_daemon_ends_with_the_daemon(zookeeper):
    with Session(zookeeper) as session:
        with Session(zookeeper) as ending:
            record = FailureRecord(ending, "syncer", identity="adm1 (process 7)")
            record.write("KeyError: 'a'")
            record.write("KeyError: 'b'")
            (failure,) = ZooKeeperFleetReader(session).snapshot().failures
            assert (failure.by, failure.message) == ("adm1 (process 7)", "KeyError: 'b'")
        assert ZooKeeperFleetReader(session).snapshot().failures == ()
