"""The progress of an act: finished, failed and awaited parts."""

from __future__ import annotations

import pytest

from zkdeployment.intents.rules.reality import ClusterStatus, RsyncStatus
from zkdeployment.intents.rules.resources import ResourceRow, instance_progress


def row(host: str, status: RsyncStatus | None) -> ResourceRow:
    return ResourceRow("front", "web", "Deployment", f"{host}:/p1/front.0", status, ClusterStatus.PRESENT)


def test_deployments_are_waited_for_until_they_are_applied_also_those_of_absent_hosts() -> None:
    progress = instance_progress(
        [
            row("h1", RsyncStatus.APPLIED),
            row("h2", RsyncStatus.RETRYING),
            row("h3", RsyncStatus.PENDING),
            row("h4", None),
        ],
        is_active=True,
    )
    assert progress.done == 1
    assert progress.awaited == "h2:/p1/front.0 (its host is absent), h3:/p1/front.0 (pending)"
    assert progress.failed == ()


@pytest.mark.parametrize("is_active", [True, False])
def test_hosts_that_were_never_seen_are_named_and_not_waited_for(*, is_active: bool) -> None:
    unseen = row("h9", RsyncStatus.RETRYING)._replace(was_host_seen=False)
    progress = instance_progress([unseen, row("h2", RsyncStatus.RETRYING)], is_active=is_active)
    assert [waiting.name for waiting in progress.waiting] == ["h2:/p1/front.0"]
    assert progress.not_awaited == ("not waited for, because these hosts were never seen: h9:/p1/front.0",)


@pytest.mark.parametrize("is_active", [True, False])
def test_hosts_in_maintenance_are_named_and_not_waited_for(*, is_active: bool) -> None:
    away = row("h9", RsyncStatus.RETRYING)._replace(is_host_in_maintenance=True)
    progress = instance_progress([away, row("h2", RsyncStatus.RETRYING)], is_active=is_active)
    assert [waiting.name for waiting in progress.waiting] == ["h2:/p1/front.0"]
    assert progress.not_awaited == ("not waited for, because these hosts are in maintenance: h9:/p1/front.0",)


def test_a_failure_is_named() -> None:
    progress = instance_progress([row("h1", RsyncStatus.FAILED), row("h2", RsyncStatus.APPLIED)], is_active=True)
    assert progress.failures == "h1:/p1/front.0 (failed)"
    assert progress.waiting == ()


def test_a_removal_by_an_update_is_done_when_the_service_is_undeployed() -> None:
    rows = [row("h1", RsyncStatus.APPLIED), row("h2", RsyncStatus.TERMINATED)]
    assert instance_progress(rows, is_active=True).done == 2


def test_a_termination_waits_until_nothing_is_deployed() -> None:
    rows = [row("h1", RsyncStatus.TERMINATED), row("h2", RsyncStatus.APPLIED), row("h3", RsyncStatus.PENDING)]
    progress = instance_progress(rows, is_active=False)
    assert progress.done == 1
    assert progress.awaited == "h2:/p1/front.0 (still deployed), h3:/p1/front.0 (pending)"
