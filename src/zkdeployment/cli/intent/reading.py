"""Reads intents for the verbs: the last publication, the tip of the branch, and the resources of an instance."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from zkdeployment.cli.shared.options import configured_revision
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.config.find_servers import SYSTEM_CONFIGURATION, find_servers
from zkdeployment.config.load import load
from zkdeployment.documents.intents.kinds import CLUSTER
from zkdeployment.documents.intents.values import parse_subject, subject_text
from zkdeployment.errors import ConfigurationError, NotFoundError, SourceError, ZkdeploymentError
from zkdeployment.intents.overview import find_overview, intent_overviews
from zkdeployment.intents.reading import intent_snapshots
from zkdeployment.planning.review import review
from zkdeployment.wiring.approvals import approval_rules
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from zkdeployment.config.sync import SyncSettings
    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.intents.approval_rules import ApprovalRule
    from zkdeployment.intents.instances import IntentInstance, IntentRecord
    from zkdeployment.intents.life_cycle import IntentSnapshot
    from zkdeployment.intents.overview import IntentOverview
    from zkdeployment.intents.reality import FleetReports
    from zkdeployment.ports.operator import OperatorAdapters


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
            subjects = [subject_text(record.intent.subject) for record in operator.intents.records()]
    except ZkdeploymentError:
        return []
    return [CompletionItem(subject) for subject in subjects if subject.startswith(incomplete)]


def read_overviews(operator: OperatorAdapters) -> Sequence[IntentOverview]:
    """Return all intents, with the tip of the branch if the configuration names a repository.

    A repository that cannot be read is reported on standard error.
    """
    records = operator.intents.records()
    config = click.get_current_context().params["config"]
    return intent_overviews(records, _tip_snapshots(config), _approval_rules(config))


def read_overview(operator: OperatorAdapters, subject: IntentSubject) -> IntentOverview:
    """Return an intent as ``read_overviews`` does, with all instances; raises ``NotFoundError``."""
    record = operator.intents.record(subject)
    config = click.get_current_context().params["config"]
    records = () if record is None else (record,)
    return find_overview(intent_overviews(records, _tip_snapshots(config), _approval_rules(config)), subject)


def require_record(operator: OperatorAdapters, subject: IntentSubject) -> IntentRecord:
    """Return what publications recorded about an intent; raises ``NotFoundError`` if it was never published."""
    record = operator.intents.record(subject)
    if record is None:
        raise NotFoundError(
            f"no publication has an intent {subject_text(subject)}: expected one of those that"
            " 'zkdeployment intent list' shows; a document that was pushed just now is there after the next"
            " publication"
        )
    return record


def read_reports(operator: OperatorAdapters, instance: IntentInstance) -> FleetReports:
    """Return what hosts and providers report about the services of an instance."""
    services = {service.assignment.path for service in instance.services}
    clusters = operator.fleet.documents().of(CLUSTER)
    return replace(operator.fleet.reports(services), clusters=frozenset(clusters))


def _sync_settings(config: Path | None) -> SyncSettings | None:
    if config is None and not SYSTEM_CONFIGURATION.exists():
        return None
    return load(config or SYSTEM_CONFIGURATION, host=False).sync


def _approval_rules(config: Path | None) -> tuple[ApprovalRule, ...] | None:
    """Return the rules of approvals, if the configuration has some that can be read."""
    sync = _sync_settings(config)
    try:
        return None if sync is None else approval_rules(sync)
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
