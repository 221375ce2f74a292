"""``zkdeployment checks diff``: which check instances a revision adds, changes and removes."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from zkdeployment.checks.difference import planned_difference, shown_command
from zkdeployment.cli.shared.console import console_for, styled
from zkdeployment.cli.shared.options import configured_revision, emit, output_option, zookeeper_options
from zkdeployment.cli.shared.ordered_text import with_ordered_text
from zkdeployment.cli.shared.responsive_table import ResponsiveTable
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.planning.prediction import predict
from zkdeployment.planning.review import review
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from zkdeployment.checks.difference import CheckDifference
    from zkdeployment.checks.spawning import WantedInstance
    from zkdeployment.model.servers import Servers

_DIFFERENT = 4


@click.command(name="diff")
@click.argument("revision", metavar="[REV]", required=False)
@output_option
@zookeeper_options
def command(*, connection: Servers, revision: str | None, output: str) -> None:
    """Show which check instances a revision adds, changes and removes, compared with the published tree.

    REV is a branch or a commit of the configured repository, by default the tip of its branch. A changed instance
    is removed from its monitoring system and deployed again, after its host has deployed the service. Nothing is
    changed. The exit code is 0 if there are no differences, 4 if there are, 1 if the tree of REV has errors.

    \b
    Example:
      zkdeployment checks diff my-branch
      zkdeployment checks diff my-branch -o json
    """
    config = click.get_current_context().params["config"]
    found, files = configured_revision(config, revision)
    reviewed = review(files)
    if reviewed.errors:
        for problem in reviewed.problems:
            echo(str(problem), err=True)
        raise click.exceptions.Exit(1)
    with open_operator(connection) as operator:
        basis = with_ordered_text(operator.prediction_basis(), config)
    predicted = predict(reviewed, basis, revision=found, title=str(found))
    difference = planned_difference(reviewed, basis, predicted)
    if output != "table":
        emit(difference.to_json(), output, schema="check-diff")
    else:
        _print(difference)
    raise click.exceptions.Exit(_DIFFERENT if difference else 0)


def _print(difference: CheckDifference) -> None:
    if difference:
        headings = ("", "CHECK", "PATH", "NUMBER", "HOST", "MONITORING", "COMMAND")
        table = ResponsiveTable(headings, _rows(difference), whole=("", "CHECK", "PATH"), numbers=("NUMBER",))
        console_for(stderr=False).print(table, soft_wrap=True)
    for line in difference.describe():
        echo(line, err=True)


def _rows(difference: CheckDifference) -> Iterator[tuple[Text | str, ...]]:
    """Yield a row for each instance; a changed one has two, its present and its new value."""
    for found in difference.added:
        yield _cells("+", "green", found)
    for before, after in difference.changed:
        yield _cells("-", "red", before)
        yield _cells("+", "green", after)
    for found in difference.removed:
        yield _cells("-", "red", found)


def _cells(mark: str, colour: str, found: WantedInstance) -> tuple[Text | str, ...]:
    key = found.key
    chosen = "".join(f" {name}={value}" for name, value in key.attributes)
    return (
        styled(mark, colour),
        styled(f"{key.check}{chosen}"),
        styled(key.path),
        str(key.number),
        styled(found.host.identity.name),
        found.system,
        styled(shlex.join(shown_command(found))),
    )
