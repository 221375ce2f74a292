"""Shared by the verbs about intents: the intents that they read, and the option ``--wait`` of acts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from zkdeployment.base.cluster import ClusterState
from zkdeployment.base.errors import (
    ConfigurationError,
    RefusedError,
    SourceError,
    ZkdeploymentError,
)
from zkdeployment.cli.options import configured_revision
from zkdeployment.cli.publication_wait import PublicationWait, WaitOptions, wait_options
from zkdeployment.cli.terminal import echo
from zkdeployment.config.settings import chosen_settings_if_any, find_servers
from zkdeployment.fleet.operator import OperatorAdapters, open_operator
from zkdeployment.fleet.views.requests import publication_obstacles
from zkdeployment.intents.documents import CLUSTER, IntentState, IntentSubject, parse_subject, subject_text
from zkdeployment.intents.rules.edits import find_intent
from zkdeployment.intents.rules.listing import ListedIntent, find_listed_intent, listed_intents
from zkdeployment.intents.rules.resources import InstanceProgress, instance_progress, instance_resources
from zkdeployment.intents.rules.revisions import intent_snapshots
from zkdeployment.intents.store import ZooKeeperIntents, read_reports
from zkdeployment.intents.verification import read_rules
from zkdeployment.publishing.rules.review import review
from zkdeployment.publishing.settings import SyncSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from zkdeployment.intents.acts.intents import IntentAdapters
    from zkdeployment.intents.rules.approvals import ApprovalRule
    from zkdeployment.intents.rules.instances import IntentInstance, IntentSnapshot
    from zkdeployment.intents.rules.reality import FleetReports
    from zkdeployment.publishing.acts.commits import CommitOutcome


def subject_argument(function: Callable[..., None]) -> Callable[..., None]:
    """Add the argument SUBJECT; the verb receives ``subject``, its names."""

    def read(_context: click.Context, _parameter: click.Parameter, text: str) -> IntentSubject:
        return parse_subject(text)

    argument = click.argument("subject", metavar="SUBJECT", callback=read, shell_complete=_complete_subject)
    return argument(function)


def _complete_subject(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the published intents, as completions."""
    try:
        with open_operator(find_servers(context.params.get("zookeeper"), None)) as operator:
            subjects = [subject_text(record.intent.subject) for record in operator.of(ZooKeeperIntents).records()]
    except ZkdeploymentError:
        return []
    return [CompletionItem(subject) for subject in subjects if subject.startswith(incomplete)]


def read_listed_intents(operator: OperatorAdapters) -> Sequence[ListedIntent]:
    """Return all intents, with the tip of the branch if the configuration names a repository.

    A repository that cannot be read is reported on standard error.
    """
    records = operator.of(ZooKeeperIntents).records()
    config = click.get_current_context().params["config"]
    return listed_intents(records, _tip_snapshots(config), _approval_rules(config))


def read_listed_intent(operator: OperatorAdapters, subject: IntentSubject) -> ListedIntent:
    """Return an intent as ``read_listed_intents`` does, with all instances; raises ``NotFoundError``."""
    record = operator.of(ZooKeeperIntents).record(subject)
    config = click.get_current_context().params["config"]
    records = () if record is None else (record,)
    return find_listed_intent(listed_intents(records, _tip_snapshots(config), _approval_rules(config)), subject)


def reports_of_instance(operator: OperatorAdapters, instance: IntentInstance) -> FleetReports:
    """Return the reports of hosts and providers about the services of an instance."""
    services = {service.assignment.path for service in instance.services}
    clusters = operator.fleet.documents().of(CLUSTER)
    return replace(read_reports(operator.session, services), clusters=frozenset(clusters))


def _sync_settings(config: Path | None) -> SyncSettings | None:
    settings = chosen_settings_if_any(config)
    return None if settings is None else settings.of(SyncSettings)


def _approval_rules(config: Path | None) -> tuple[ApprovalRule, ...] | None:
    """Return the rules of approvals, if the configuration has readable ones."""
    sync = _sync_settings(config)
    try:
        return None if sync is None else read_rules(sync.approval_rules)
    except ConfigurationError as error:
        echo(f"cannot read the rules of approvals, so approvals are not counted: {error}", err=True)
        return None


def _tip_snapshots(config: Path | None) -> Mapping[IntentSubject, IntentSnapshot]:
    if _sync_settings(config) is None:
        return {}
    try:
        _, files = configured_revision(config)
    except (SourceError, ConfigurationError) as error:
        echo(f"cannot read the tip of the branch, so only the last publication is shown: {error}", err=True)
        return {}
    reviewed = review(files)
    return intent_snapshots(reviewed.documents, reviewed.linted.tree)


#: The number of readings in a row that have to find the fleet stopped.
_STOPPED_READINGS = 4

#: The options ``--wait`` and ``--timeout`` of acts on intents; the verb receives ``waits``.
intent_wait_options = wait_options("the commit is published and all affected hosts are done")


def report(outcome: CommitOutcome, subject: IntentSubject, adapters: IntentAdapters, waits: WaitOptions) -> None:
    """Print the commit of an act; then wait for its effects, or print the obstacles of its publication.

    Hosts are awaited if the act leaves services deployed or ends them. An approval concerns no host, unless the
    group is instantiated: hosts then deploy the approved content in place.
    """
    operator, commit = adapters.operator, str(outcome.commit)
    state = find_intent(outcome.files, subject).intent.state
    echo(commit)
    if not waits.waits:
        for obstacle in publication_obstacles(operator.fleet.snapshot(), commit):
            echo(f"not published yet: {obstacle}", err=True)
        return
    advice = f"'zkdeployment intent status {subject_text(subject)}'"
    wait = PublicationWait(operator, adapters.commits, waits.timeout, advice=advice)
    sequence = wait.until_published(commit)
    echo(f"published as {sequence}", err=True)
    if state.is_active or state is IntentState.TERMINATED:
        progress = _wait_until_done(wait, operator, subject, is_active=state.is_active)
        echo(f"done: {progress.done} deployments", err=True)
        for sentence in progress.not_awaited:
            echo(sentence, err=True)


def _wait_until_done(
    wait: PublicationWait, operator: OperatorAdapters, subject: IntentSubject, *, is_active: bool
) -> InstanceProgress:
    """Return the progress when all known hosts have deployed or undeployed the newest instance, if any."""
    stopped = 0
    while True:
        record = operator.of(ZooKeeperIntents).require(subject)
        if record.state.is_active is not is_active:
            raise RefusedError(f"{subject_text(subject)} is {record.state.value} now: another act ended the wait")
        instance = record.instance()
        if instance is None:  # the act withdrew an instantiation that was never published
            return InstanceProgress(0, (), ())
        rows = instance_resources(instance, reports_of_instance(operator, instance))
        progress = instance_progress(rows, is_active=is_active)
        if progress.failed:
            raise ZkdeploymentError(f"{progress.failures}; 'zkdeployment status' shows the errors")
        if not progress.waiting:
            return progress
        fleet = operator.fleet.snapshot()
        is_stopped = fleet.cluster is not None and fleet.cluster.state is ClusterState.STOPPED
        stopped = stopped + 1 if is_stopped else 0
        if stopped >= _STOPPED_READINGS:  # the failed hosts have reported their failures by then
            reasons = "; ".join(map(str, fleet.stops))
            raise RefusedError(f"the fleet is stopped ({reasons}); not done yet: {progress.awaited}")
        wait.pause(progress.awaited)
