"""``zkdeployment checks create`` and ``delete``: commits that change check configurations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.acts.check_configurations import create_checks, delete_check
from zkdeployment.cli.checks.files import read_check_documents
from zkdeployment.cli.shared.operator_options import current_user, reason_option
from zkdeployment.cli.shared.options import configured_repository, emit, output_option, zookeeper_options
from zkdeployment.cli.shared.publication_wait import PublicationWait, wait_options
from zkdeployment.cli.shared.terminal import echo, echo_lines
from zkdeployment.wiring.commits import open_commits, terminal_author
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from zkdeployment.cli.shared.publication_wait import WaitOptions
    from zkdeployment.model.commits import CommitOutcome
    from zkdeployment.model.servers import Servers
    from zkdeployment.ports.commits import TreeCommits

_wait_options = wait_options("the commit is published")
_dry_run_option = click.option("-n", "--dry-run", is_flag=True, help="Print the change; commit nothing.")


@click.command(name="create")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@reason_option(required=False)
@_dry_run_option
@_wait_options
@output_option
@zookeeper_options
def create(
    *, connection: Servers, file: Path, reason: str, dry_run: bool, waits: WaitOptions, output: str
) -> None:
    """Add the check configurations and the monitoring systems in FILE to the tree's branch.

    Each document gets a file of its own at the top of the repository. The command prints the id of the commit when
    the repository has accepted it. The exit code is 3 if there is another document of the same name, 1 if FILE or
    the tree with it has errors.

    The documents take effect when a syncer publishes the commit; --wait waits for that.

    \b
    Example:
      zkdeployment checks create front-http.yaml --reason 'the shop is live'
      zkdeployment checks create front-http.yaml --wait --timeout 60
      zkdeployment checks create front-http.yaml --dry-run
    """
    documents = read_check_documents(file)
    contents = {(kind, name): entry.content for (kind, (name,)), entry in sorted(documents.entries.items())}
    _check_combination(waits, dry_run=dry_run)
    with _open_repository() as commits:
        author = terminal_author(current_user())
        outcome = create_checks(commits, contents, author, reason, dry_run=dry_run)
        _report(outcome, output, dry_run=dry_run)
        _await_publication(outcome, commits, connection, waits)


@click.command(name="delete")
@click.argument("name")
@reason_option(required=False)
@_dry_run_option
@_wait_options
@output_option
@zookeeper_options
def delete(*, connection: Servers, name: str, reason: str, dry_run: bool, waits: WaitOptions, output: str) -> None:
    """Remove a check configuration from the tree's branch, so that all its instances are undeployed.

    The command prints the id of the commit when the repository has accepted it. The exit code is 3 if there is no
    check NAME.

    \b
    Example:
      zkdeployment checks delete front-http --reason 'the shop is closed'
      zkdeployment checks delete front-http --wait --timeout 60
    """
    _check_combination(waits, dry_run=dry_run)
    with _open_repository() as commits:
        outcome = delete_check(commits, name, terminal_author(current_user()), reason, dry_run=dry_run)
        _report(outcome, output, dry_run=dry_run)
        _await_publication(outcome, commits, connection, waits)


def _check_combination(waits: WaitOptions, *, dry_run: bool) -> None:
    if waits.waits and dry_run:
        raise click.UsageError("expected --dry-run or --wait, found both: nothing is pushed")


def _open_repository() -> AbstractContextManager[TreeCommits]:
    return open_commits(configured_repository(click.get_current_context().params["config"]))


def _await_publication(
    outcome: CommitOutcome, commits: TreeCommits, connection: Servers, waits: WaitOptions
) -> None:
    """Wait until the commit is published, if the options ask for it."""
    if not waits.waits:
        return
    with open_operator(connection) as operator:
        wait = PublicationWait(operator, commits, waits.timeout, advice="'zkdeployment status'")
        sequence = wait.until_published(str(outcome.commit))
    echo(f"published as {sequence}", err=True)


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
