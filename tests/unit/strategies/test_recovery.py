"""The recovery after a failed rollout."""

from __future__ import annotations

from itertools import product

import pytest

from support.strategies import group
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.host import Facts
from zkdeployment.base.publication import Published
from zkdeployment.base.stop import COORDINATOR, Stop, operators_stop
from zkdeployment.strategies import state_machine
from zkdeployment.strategies.permission import Phase
from zkdeployment.strategies.progress import (
    RECOVERY_TRANSITIONS,
    RecoveryEvent,
    end,
    is_recovery_pending,
    recover,
    settle_recovery,
)
from zkdeployment.strategies.state import (
    Ending,
    Recovery,
    RecoveryStage,
    RolloutSnapshot,
    RolloutState,
    state_from_json,
    state_to_json,
)
from zkdeployment.strategies.state_machine import Task
from zkdeployment.strategies.strategy import OnFailure, Strategy

FINAL = {RecoveryStage.PUBLISHED, RecoveryStage.REFUSED}


def failed(on_failure: OnFailure, *, critical: bool = True, ending: Ending = Ending.COMPLETED) -> RolloutState:
    canary = group("canary", critical=critical, percent_successful=100)
    rollout = state_machine.begin(Strategy("s", (canary,), on_failure=on_failure), {"a": Facts()})
    rollout = state_machine.record(rollout, Task("canary", Phase.PREPARE, ("a",)), ())
    return end(RolloutState(7, 1, "c" * 40, rollout, begun=1.0), ending, 2.0)


def test_the_failure_of_a_critical_group_begins_the_recovery_that_the_strategy_asks_for() -> None:
    assert failed(OnFailure.ROLLBACK).recovery == Recovery(RecoveryStage.DUE)
    assert failed(OnFailure.STOP).recovery is None
    assert failed(OnFailure.ROLLBACK, critical=False).recovery is None


@pytest.mark.parametrize("ending", [Ending.ABORTED, Ending.SUPERSEDED])
def test_no_other_end_begins_a_recovery(ending: Ending) -> None:
    assert failed(OnFailure.ROLLBACK, ending=ending).recovery is None


def test_the_table_leads_from_each_stage_to_an_end() -> None:
    for stage, event in product(RecoveryStage, RecoveryEvent):
        assert ((stage, event) in RECOVERY_TRANSITIONS) <= (stage not in FINAL)
    assert set(RECOVERY_TRANSITIONS.values()) >= FINAL


def test_the_commit_is_kept_and_a_state_survives_its_encoding() -> None:
    state = recover(failed(OnFailure.ROLLBACK), RecoveryEvent.COMMITTED, commit="d" * 40)
    assert state_from_json(state_to_json(state)) == state
    published = recover(state, RecoveryEvent.PUBLISHED)
    assert published.recovery == Recovery(RecoveryStage.PUBLISHED, "d" * 40)
    refused = recover(state, RecoveryEvent.REFUSED, reason="stopped")
    assert str(refused.recovery) == "not rolled back: stopped"
    with pytest.raises(KeyError):
        recover(published, RecoveryEvent.COMMITTED)


@pytest.mark.parametrize(
    ("version", "published", "expected"),
    [
        (None, Published(sequence=7), True),
        (None, Published(sequence=8, since=7), True),
        (None, Published(sequence=8, since=8), False),
        (None, Published(sequence=8), False),
        (False, Published(sequence=7), False),
        ("c" * 40, Published(sequence=7), False),
    ],
)
def test_a_recovery_is_pending_while_the_fleet_is_stopped_in_the_publication_or_in_one_that_repeats_it(
    version: str | bool | None, published: Published, expected: bool
) -> None:
    found = RolloutSnapshot(Cluster(version), published, failed(OnFailure.ROLLBACK))
    assert is_recovery_pending(found) is expected


def test_a_finished_recovery_is_not_pending() -> None:
    state = recover(failed(OnFailure.ROLLBACK), RecoveryEvent.REFUSED, reason="no")
    assert not is_recovery_pending(RolloutSnapshot(Cluster(None), Published(sequence=7), state))


@pytest.mark.parametrize(
    ("cluster", "ordered", "expected"),
    [
        (Cluster(None), "d" * 40, None),
        (Cluster(False), "d" * 40, None),
        (Cluster("c" * 40, importing="d" * 40), "c" * 40, None),
        (Cluster("d" * 40), "d" * 40, "rolled back by dddd"),
        (
            Cluster("e" * 40),
            "e" * 40,
            "not rolled back: dddd is committed, but the fleet continues with eeeeeeeeeeee",
        ),
    ],
)
def test_a_recovery_without_the_coordinator_ends_when_hosts_may_deploy_again(
    cluster: Cluster, ordered: str, expected: str | None
) -> None:
    state = recover(failed(OnFailure.ROLLBACK), RecoveryEvent.COMMITTED, commit="d" * 40)
    settled = settle_recovery(RolloutSnapshot(cluster, Published(sequence=8, ordered=ordered), state))
    assert (settled and str(settled.recovery).replace("d" * 40, "dddd")) == expected


def test_a_finished_recovery_does_not_end_again() -> None:
    state = recover(failed(OnFailure.ROLLBACK), RecoveryEvent.REFUSED, reason="no")
    assert settle_recovery(RolloutSnapshot(Cluster("c" * 40), Published(sequence=7), state)) is None


def test_only_the_stop_of_an_operator_keeps_a_recovery_from_ending_it() -> None:
    by_coordinator = Stop("?", "?", "?", "stop", "failed", 1.0, by=COORDINATOR)
    by_host = Stop("a", "a", "r", "deploy", "boom", 1.0)
    by_ann = Stop("?", "?", "?", "stop", "mine", 1.0, by="ann@ops")
    assert operators_stop([by_coordinator, by_host]) is None
    assert operators_stop([by_coordinator, by_ann]) is by_ann
