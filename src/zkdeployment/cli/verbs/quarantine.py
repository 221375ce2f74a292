"""``zkdeployment quarantine``: forbidden versions, as documents in the tree's branch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from zkdeployment.base.errors import without_passwords
from zkdeployment.cli.operator_options import current_user, reason_option
from zkdeployment.cli.options import (
    configured_repository,
    configured_revision,
    emit,
    output_option,
    repository_option,
)
from zkdeployment.cli.tables import ResponsiveTable, console_for, styled
from zkdeployment.cli.terminal import echo, echo_lines
from zkdeployment.documents.reading import document_files, read_documents
from zkdeployment.publishing.acts.opening import open_commits, terminal_author
from zkdeployment.publishing.acts.quarantine import add_quarantine, new_record, remove_quarantine
from zkdeployment.publishing.rules.quarantines import QUARANTINE, Quarantine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from zkdeployment.publishing.acts.commits import CommitOutcome


@click.group(name="quarantine")
def command() -> None:
    """Forbid a version of a package in the whole fleet, allow it again, or list the forbidden versions.

    A quarantine is a document in the tree's branch. While it is there, lint, the hooks, plan and the syncer refuse
    a tree that wants the version, with who put it into quarantine, when and why.

    \b
    Example:
      zkdeployment quarantine add hello 1.3 --reason 'loses sessions'
      zkdeployment quarantine list
      zkdeployment quarantine remove hello 1.3 --reason 'it was the network'
    """


@command.command(name="add")
@click.argument("name")
@click.argument("version")
@reason_option(required=True)
@click.option("-n", "--dry-run", is_flag=True, help="Print the change; commit nothing.")
@repository_option
def add(name: str, version: str, reason: str, dry_run: bool, config: Path | None) -> None:
    """Put a version into quarantine.

    NAME is a package, an application, a patch or the repository of checkouts. A VERSION without a release matches
    all its releases. The command prints the id of the commit when the repository has accepted it. The exit code is
    3 while the tip of the branch wants the version: change the tree first, or use rollback --quarantine.

    \b
    Example:
      zkdeployment quarantine add hello 1.3 --reason 'loses sessions'
      zkdeployment quarantine add hello 1.3-2 --reason 'built from the wrong branch' --dry-run
    """
    _commit(add_quarantine, name, version, reason, dry_run=dry_run, config=config)


@command.command(name="remove")
@click.argument("name")
@click.argument("version")
@reason_option(required=True)
@click.option("-n", "--dry-run", is_flag=True, help="Print the change; commit nothing.")
@repository_option
def remove(name: str, version: str, reason: str, dry_run: bool, config: Path | None) -> None:
    """End the quarantine of a version, which a later change may then want.

    The command prints the id of the commit when the repository has accepted it. The exit code is 3 if there is no
    such quarantine.

    \b
    Example:
      zkdeployment quarantine remove hello 1.3 --reason 'it was the network'
    """
    _commit(remove_quarantine, name, version, reason, dry_run=dry_run, config=config)


@command.command(name="list")
@output_option
@repository_option
def list_quarantines(output: str, config: Path | None) -> None:
    """List the quarantines at the tip of the tree's branch.

    \b
    Example:
      zkdeployment quarantine list
      zkdeployment quarantine list -o json
    """
    _, files = configured_revision(config)
    quarantines = read_documents(document_files(files)).of(QUARANTINE)
    found = [quarantine for _, quarantine in sorted(quarantines.items())]
    if output != "table":
        emit({"quarantines": [_to_json(quarantine) for quarantine in found]}, output, schema="quarantines")
        return
    rows = [tuple(map(styled, entry.values())) for entry in map(_to_json, found)]
    table = ResponsiveTable(("NAME", "VERSION", "SINCE", "BY", "REASON"), rows, whole=("NAME", "VERSION"))
    console_for(stderr=False).print(table)


def _commit(
    act: Callable[..., CommitOutcome], name: str, version: str, reason: str, *, dry_run: bool, config: Path | None
) -> None:
    settings = configured_repository(config)
    with open_commits(settings) as commits:
        author = terminal_author(current_user())
        outcome = act(commits, new_record(name, version, reason, author, time.time()), author, dry_run=dry_run)
    if not outcome.changed:
        echo("nothing changes: the tip of the branch has that quarantine already", err=True)
    if dry_run:
        echo_lines(outcome.diff.rstrip("\n"))
    else:
        echo(str(outcome.commit))


def _to_json(quarantine: Quarantine) -> dict[str, str]:
    return {
        "name": without_passwords(quarantine.name),
        "version": quarantine.version,
        "since": quarantine.time,
        "by": quarantine.by,
        "reason": quarantine.reason,
    }
