"""The option ``--wait`` of acts on intents: until the commit is published and all affected hosts are done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.cli.intent.reading import read_reports, require_record
from zkdeployment.cli.shared.publication_wait import PublicationWait, wait_options
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.documents.intents.values import subject_text
from zkdeployment.errors import RefusedError, ZkdeploymentError
from zkdeployment.fleet.requests import publication_obstacles
from zkdeployment.intents.progress import instance_progress
from zkdeployment.intents.resources import instance_resources
from zkdeployment.model.cluster import ClusterState

if TYPE_CHECKING:
    from zkdeployment.cli.shared.publication_wait import WaitOptions
    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.intents.progress import InstanceProgress
    from zkdeployment.ports.commits import TreeCommits
    from zkdeployment.ports.operator import OperatorAdapters

#: How many readings in a row have to find the fleet stopped.
_STOPPED_READINGS = 4

#: The options ``--wait`` and ``--timeout`` of acts on intents; the verb receives ``waits``.
intent_wait_options = wait_options("the commit is published and all affected hosts are done")


def report(
    commit: str,
    subject: IntentSubject,
    operator: OperatorAdapters,
    commits: TreeCommits,
    waits: WaitOptions,
    *,
    is_active: bool | None,
) -> None:
    """Print the commit of an act; then wait for its effects, or print what delays its publication.

    ``is_active`` is whether the act deploys or undeploys services; ``None`` if it concerns no host.
    """
    echo(commit)
    if not waits.waits:
        for obstacle in publication_obstacles(operator.fleet.snapshot(), commit):
            echo(f"not published yet: {obstacle}", err=True)
        return
    advice = f"'zkdeployment intent status {subject_text(subject)}'"
    wait = PublicationWait(operator, commits, waits.timeout, advice=advice)
    sequence = wait.until_published(commit)
    echo(f"published as {sequence}", err=True)
    if is_active is not None:
        progress = _wait_until_done(wait, operator, subject, is_active=is_active)
        echo(f"done: {progress.done} deployments", err=True)
        if progress.unseen:
            echo(f"not waited for, because these hosts were never seen: {progress.never_seen}", err=True)


def _wait_until_done(
    wait: PublicationWait, operator: OperatorAdapters, subject: IntentSubject, *, is_active: bool
) -> InstanceProgress:
    """Return the progress when all known hosts have deployed or undeployed the newest instance."""
    stopped = 0
    while True:
        record = require_record(operator, subject)
        if record.state.is_active is not is_active:
            raise RefusedError(f"{subject_text(subject)} is {record.state.value} now: another act ended the wait")
        rows = instance_resources(record.instances[-1], read_reports(operator, record.instances[-1]))
        progress = instance_progress(rows, is_active=is_active)
        if progress.failed:
            raise ZkdeploymentError(f"{progress.failures}; 'zkdeployment status' shows the errors")
        if not progress.waiting:
            return progress
        fleet = operator.fleet.snapshot()
        is_stopped = fleet.cluster is not None and fleet.cluster.state is ClusterState.STOPPED
        stopped = stopped + 1 if is_stopped else 0
        if stopped >= _STOPPED_READINGS:  # the hosts that failed have reported that by now
            reasons = "; ".join(map(str, fleet.stops))
            raise RefusedError(f"the fleet is stopped ({reasons}); not done yet: {progress.awaited}")
        wait.pause(progress.awaited)
