"""``zkdeployment rollout simulate``: the order and the outcome of a rollout without a fleet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich import box
from rich.console import Group
from rich.table import Table

from zkdeployment.cli.shared.console import console_for, styled
from zkdeployment.cli.shared.options import emit, output_option
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.documents.facts import read_facts
from zkdeployment.documents.reading import read_documents
from zkdeployment.errors import ConfigurationError
from zkdeployment.model.source_files import SourceFile
from zkdeployment.rollout.groups import unmatched_selectors
from zkdeployment.rollout.permission import Phase
from zkdeployment.rollout.simulation import Faults, simulate, summarize
from zkdeployment.rollout.state_machine import GroupVerdict, HostProgress, Rollout

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import RenderableType

    from zkdeployment.documents.collection import Documents
    from zkdeployment.model.host import Facts
    from zkdeployment.model.strategy import Strategy

_COLOURS = {GroupVerdict.SUCCESS: "green", GroupVerdict.FAILED: "red"}


@click.command(name="simulate")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--strategy", "name", metavar="NAME", help="The strategy to simulate; default: the strategy in force."
)
@click.option(
    "--hosts",
    "inventory",
    metavar="HOSTS",
    required=True,
    help="A JSON or YAML file: host → {rack, tags, labels}.",
)
@click.option(
    "--prepare-fails", metavar="HOST", multiple=True, help="A host whose preparation fails. May be repeated."
)
@click.option(
    "--deploy-fails", metavar="HOST", multiple=True, help="A host whose deployment fails. May be repeated."
)
@click.option(
    "--times-out",
    metavar="GROUP:PHASE",
    multiple=True,
    help="A group whose phase prepare or deploy times out. May be repeated.",
)
@output_option
def command(
    *,
    files: tuple[Path, ...],
    name: str | None,
    inventory: str,
    prepare_fails: tuple[str, ...],
    deploy_fails: tuple[str, ...],
    times_out: tuple[str, ...],
    output: str,
) -> None:
    """Show the order and the outcome of a rollout, without a fleet.

    FILE is a YAML file with strategy documents. The exit code is 0 for every outcome of the rollout, 1 if the
    documents are invalid.

    \b
    Example:
      zkdeployment rollout simulate strategy.yaml --hosts hosts.yaml --deploy-fails app1 --times-out web:prepare
    """
    documents = read_documents(SourceFile(str(file), _read(file)) for file in files)
    problems = [str(problem) for problem in (documents.errors if name is None else documents.problems)]
    strategy = None if problems else _choose(documents, name)
    if strategy is None:
        problems = problems or [_missing(documents, name)]
        _show_problems(problems, output)
        raise click.exceptions.Exit(1)
    hosts = _read_hosts(inventory)
    faults = Faults(
        _check_names(prepare_fails, hosts, "host"),
        _check_names(deploy_fails, hosts, "host"),
        _phases(times_out, strategy),
    )
    rollout = simulate(strategy, hosts, faults)
    warnings = unmatched_selectors(strategy, hosts)
    for warning in warnings:
        echo(f"warning: {warning}", err=True)
    if output == "table":
        console_for(stderr=False).print(_render(rollout))
    else:
        emit({"valid": True, "errors": [], "warnings": [*warnings], **summarize(rollout)}, output)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {file}: {error.strerror}") from error


def _choose(documents: Documents, name: str | None) -> Strategy | None:
    """Return the strategy of this name; without a name, the strategy that the syncer would publish."""
    return documents.strategy() if name is None else documents.strategies.get(name)


def _missing(documents: Documents, name: str | None) -> str:
    expected = "a strategy" if name is None else f"the strategy {name}"
    return f"expected {expected}, found: {', '.join(sorted(documents.strategies)) or 'none'}"


def _read_hosts(inventory: str) -> Mapping[str, Facts]:
    """Return the facts of hosts from a file, or from JSON that was given instead of a file's name."""
    if inventory.lstrip().startswith("{"):
        return read_facts("--hosts", inventory.encode())
    return read_facts(inventory, _read(Path(inventory)))


def _check_names(names: Iterable[str], known: Iterable[str], kind: str) -> frozenset[str]:
    """Return the names; raises ``UsageError`` for a name that is not known."""
    expected = frozenset(known)
    for name in names:
        if name not in expected:
            raise click.UsageError(f"there is no {kind} {name}; expected one of: {', '.join(sorted(expected))}")
    return frozenset(names)


def _phases(values: Iterable[str], strategy: Strategy) -> frozenset[tuple[str, Phase]]:
    phases = set()
    for value in values:
        group, _, phase = value.rpartition(":")
        if phase not in {known.value for known in Phase}:
            raise click.UsageError(f"--times-out {value}: expected GROUP:prepare or GROUP:deploy")
        _check_names([group], (known.name for known in strategy.groups), "group")
        phases.add((group, Phase(phase)))
    return frozenset(phases)


def _show_problems(problems: list[str], output: str) -> None:
    if output == "table":
        for problem in problems:
            echo(problem, err=True)
    else:
        emit({"valid": False, "errors": problems}, output)


def _render(rollout: Rollout) -> RenderableType:
    """Return the groups in the order of the rollout, groups that never began last, and the hosts by state."""
    table = Table("GROUP", "CRITICAL", "HOSTS", "PREPARE", "DEPLOY", "REASON", box=box.SIMPLE_HEAD)
    never_begun = [group.name for group in rollout.strategy.groups if group.name not in rollout.order]
    for name in (*rollout.order, *never_begun):
        course = rollout.progress[name]
        table.add_row(
            styled(name),
            "critical" if rollout.strategy.group(name).critical else "-",
            str(len(rollout.members[name])),
            *(styled(course.verdicts[phase].value, style=_COLOURS[course.verdicts[phase]]) for phase in Phase),
            styled(course.reason),
        )
    states = []
    for state in HostProgress:
        hosts = [name for name, progress in rollout.hosts.items() if progress is state]
        if hosts:
            states.append(styled(f"{state.value}: {', '.join(hosts)}"))
    return Group(table, *states, styled(f"result: {rollout.result.value}", style="bold"))
