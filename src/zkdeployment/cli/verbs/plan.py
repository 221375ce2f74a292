"""``zkdeployment plan``: the steps that hosts would take if a tree were published."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from rich.console import Group, RenderableType
from rich.padding import Padding

from zkdeployment.agent.rules.availability import PackageFindings
from zkdeployment.cli.files import (
    NO_REPOSITORIES,
    chosen_repositories,
    is_whole_tree,
    open_repositories,
    read_trees,
    repositories_option,
    with_ordered_text,
)
from zkdeployment.cli.options import configured_revision, emit, output_option, zookeeper_options
from zkdeployment.cli.tables import console_for, styled
from zkdeployment.cli.terminal import echo
from zkdeployment.fleet.operator import open_operator
from zkdeployment.fleet.package_check import with_package_check
from zkdeployment.fleet.views.forecast import (
    Forecast,
    HostForecast,
    Outlook,
    Prediction,
    PredictionBasis,
    predict,
    with_additions,
)
from zkdeployment.fleet.views.plan_text import (
    HEADINGS,
    host_names,
    order_lines,
    outlook_reason,
    plan_title,
    short_text,
)
from zkdeployment.publishing.rules.review import Review, review
from zkdeployment.publishing.section import section

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.source_files import SourceFile
    from zkdeployment.zookeeper.servers import Servers

_CHANGES = 4
_COLOURS = {Outlook.FAILS: "red", Outlook.CHANGES: "cyan", Outlook.UNKNOWN: "magenta"}


@click.command(name="plan")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--revision", metavar="REV", help="A branch or a commit of the configured repository.")
@click.option(
    "--host", "hosts", metavar="HOST", multiple=True, help="Only this host (id or name). May be repeated."
)
@click.option(
    "--short",
    is_flag=True,
    help="The short form, for a comment on a merge request: hosts with equal steps in one group.",
)
@repositories_option
@output_option
@zookeeper_options
def command(  # noqa: PLR0917  options are arguments
    connection: Servers,
    paths: tuple[str, ...],
    revision: str | None,
    hosts: tuple[str, ...],
    short: bool,
    repositories: tuple[str, ...],
    output: str,
) -> None:
    """Show what hosts would do if a tree were published: their steps, with packages, scripts, locks and reasons.

    The tree is that of PATH (files, a directory with *.zk and *.zkx files, or a revision of the git repository
    around the current directory, pushed or not), of REV, or of the tip of the configured branch. With a strategy,
    the order of its groups is shown, too, and with checks what happens to their instances. The plans are based on
    the inventories that hosts report; the plan of a host without an inventory is unknown. Nothing is changed. The
    exit code is 0 if nothing would change, 4 if something would change, 1 if the tree has errors, breaks the life
    cycle of an intent, or a host would fail, 3 if --host names no host that is registered, has reported an
    inventory or is named in the tree.

    With --repositories, or repositories in [sync] of the configuration, the packages that the tree newly wants are
    looked up, and the transactions of hosts are resolved on paper. A package that hosts could not install gives
    exit code 1.

    \b
    Example:
      zkdeployment plan tree/
      zkdeployment plan HEAD
      zkdeployment plan --revision my-branch --short
      zkdeployment plan --repositories /etc/yum.repos.d tree/
      zkdeployment plan --host app1.example.com -o json
    """
    if paths and revision is not None:
        raise click.UsageError("expected PATH or --revision, found both")
    planned_revision, files = _read(paths, revision)
    reviewed = _reviewed(files)
    keeps_strategy = bool(paths) and not reviewed.documents.files and not is_whole_tree(paths)
    with open_operator(connection) as operator:
        basis = operator.prediction_basis()
        refusals = () if keeps_strategy else section().expected_refusals(operator.session, reviewed)
    basis = with_ordered_text(basis, _config())
    for refusal in refusals:
        echo(f"the syncer would refuse this: {refusal}", err=True)
    predicted = predict(
        reviewed,
        basis,
        revision=planned_revision,
        title=", ".join(paths),
        selected=hosts,
        keeps_strategy=keeps_strategy,
    )
    predicted = _checked(predicted, basis, repositories)
    predicted = with_additions(predicted, reviewed, basis)
    for warning in predicted.warnings:
        echo(warning, err=True)
    refused = bool(refusals) or not _can_install(predicted)
    _print(predicted, output, short=short, every=bool(hosts))
    if refused or predicted.forecast.with_outlook(Outlook.FAILS):
        raise click.exceptions.Exit(1)
    raise click.exceptions.Exit(_CHANGES if predicted.changes else 0)


def _read(paths: Sequence[str], name: str | None) -> tuple[Revision | None, Sequence[SourceFile]]:
    if paths:
        return None, read_trees(paths)
    return configured_revision(_config(), name)


def _checked(predicted: Prediction, basis: PredictionBasis, given: Sequence[str]) -> Prediction:
    """Return the prediction with the findings about packages, if there are repositories.

    A notice at a terminal reports missing repositories; comments on merge requests omit the notice.
    """
    repositories = chosen_repositories(given, _config())
    if repositories:
        with open_repositories(repositories) as opened:
            return with_package_check(predicted, basis, opened)
    if sys.stderr is not None and sys.stderr.isatty():
        echo(f"the packages are not checked: {NO_REPOSITORIES}", err=True)
    return predicted


def _can_install(predicted: Prediction) -> bool:
    """Print the findings about packages; return whether the syncer would accept them."""
    findings = predicted.packages or PackageFindings()
    for problem in findings.warnings:
        echo(str(problem), err=True)
    for problem in findings.errors:
        echo(f"the syncer would refuse this: {problem}", err=True)
    return not findings.errors


def _config() -> Path | None:
    config: Path | None = click.get_current_context().params["config"]
    return config


def _reviewed(files: Sequence[SourceFile]) -> Review:
    """Return the review of files; if they have errors, print them and end the command with exit code 1."""
    reviewed = review(files)
    if reviewed.errors:
        for problem in reviewed.problems:
            echo(str(problem), err=True)
        raise click.exceptions.Exit(1)
    return reviewed


def _print(predicted: Prediction, output: str, *, short: bool, every: bool) -> None:
    if output != "table":
        emit(predicted.to_json(), output, schema="plan")
        return
    lines = predicted.lines
    if short:
        for line in short_text(predicted):
            echo(line)
        return
    console_for(stderr=False).print(_render(predicted.forecast, every=every), soft_wrap=True)
    for line in (*([""] if lines else []), *lines):
        echo(line)


def _render(prediction: Forecast, *, every: bool) -> RenderableType:
    """Return the summary, and each group of hosts with equal plans and their steps.

    Without ``every``, only hosts that would change are shown with their steps.
    """
    parts: list[RenderableType] = [styled(plan_title(prediction), style="bold")]
    for outlook, heading in HEADINGS.items():
        for group in prediction.groups(outlook):
            parts.append(styled(""))
            parts.append(
                styled(f"{host_names(group)}: {heading}{outlook_reason(group)}", style=_COLOURS.get(outlook, ""))
            )
            if every or outlook is Outlook.CHANGES:
                parts += _steps(group[0])
            if group[0].unchanged:
                parts.append(styled(f"      {group[0].unchanged}"))
    parts += (styled(line) for line in order_lines(prediction))
    return Group(*parts)


def _steps(host: HostForecast) -> Iterator[RenderableType]:
    for number, (line, action) in enumerate(host.lines, 1):
        yield styled(f"{number:4}. {line}")
        if action:
            yield Padding(styled(action, style="dim"), (0, 0, 0, 6), expand=False)
