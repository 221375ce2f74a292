"""``zkdeployment checks create`` and ``delete``: commits that change check configurations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.acts.check_configurations import create_checks, delete_check
from zkdeployment.cli.checks.files import read_check_documents
from zkdeployment.cli.shared.operator_options import current_user, reason_option
from zkdeployment.cli.shared.options import configured_repository, emit, output_option, repository_option
from zkdeployment.cli.shared.terminal import echo, echo_lines
from zkdeployment.wiring.commits import open_commits, terminal_author

if TYPE_CHECKING:
    from zkdeployment.model.commits import CommitOutcome


_dry_run_option = click.option("-n", "--dry-run", is_flag=True, help="Print the change; commit nothing.")


@click.command(name="create")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@reason_option(required=False)
@_dry_run_option
@output_option
@repository_option
def create(*, file: Path, reason: str, dry_run: bool, output: str, config: Path | None) -> None:
    """Add the check configurations and the monitoring systems in FILE to the tree's branch.

    Each document gets a file of its own at the top of the repository. The command prints the id of the commit when
    the repository has accepted it. The exit code is 3 if there is another document of the same name, 1 if FILE or
    the tree with it has errors.

    \b
    Example:
      zkdeployment checks create front-http.yaml --reason 'the shop is live'
      zkdeployment checks create front-http.yaml --dry-run
    """
    documents = read_check_documents(file)
    contents = {(kind, name): entry.content for (kind, (name,)), entry in sorted(documents.entries.items())}
    with open_commits(configured_repository(config)) as commits:
        author = terminal_author(current_user())
        outcome = create_checks(commits, contents, author, reason, dry_run=dry_run)
    _report(outcome, output, dry_run=dry_run)


@click.command(name="delete")
@click.argument("name")
@reason_option(required=False)
@_dry_run_option
@output_option
@repository_option
def delete(*, name: str, reason: str, dry_run: bool, output: str, config: Path | None) -> None:
    """Remove a check configuration from the tree's branch, so that all its instances are undeployed.

    The command prints the id of the commit when the repository has accepted it. The exit code is 3 if there is no
    check NAME.

    \b
    Example:
      zkdeployment checks delete front-http --reason 'the shop is closed'
    """
    with open_commits(configured_repository(config)) as commits:
        outcome = delete_check(commits, name, terminal_author(current_user()), reason, dry_run=dry_run)
    _report(outcome, output, dry_run=dry_run)


def _report(outcome: CommitOutcome, output: str, *, dry_run: bool) -> None:
    if output != "table":
        emit({"job": outcome.commit, "changed": outcome.changed, "diff": outcome.diff}, output, schema="commit")
        return
    if not outcome.changed:
        echo("nothing changes: the tip of the branch has these documents already", err=True)
    if dry_run:
        echo_lines(outcome.diff.rstrip("\n"))
    else:
        echo(str(outcome.commit))
