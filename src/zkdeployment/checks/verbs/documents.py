"""``zkdeployment checks``: list, show, create, delete, preview, simulate, diff, and the duties on call."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich import box
from rich.table import Table

from zkdeployment.base.errors import ConfigurationError, TreeError
from zkdeployment.base.source_files import DOCUMENT_SUFFIXES, SourceFile
from zkdeployment.base.text import counted
from zkdeployment.checks.documents import CHECK, ON_CALL, SYSTEM, CheckConfiguration, OnCall, on_call_of
from zkdeployment.checks.opening import open_checks
from zkdeployment.checks.rules.listing import InstanceFilter, state_counts
from zkdeployment.checks.rules.simulation import SimulatedStep, play, read_simulation
from zkdeployment.checks.rules.spawning import CheckedHost, WantedInstance, checked_hosts
from zkdeployment.checks.user_acts import create_checks, delete_check, new_check_documents
from zkdeployment.checks.views.wanted import (
    CheckDifference,
    CheckPreview,
    PreviewBasis,
    check_errors,
    check_to_json,
    configurations_to_json,
    duties_to_json,
    instances_of,
    planned_difference,
    preview_checks,
    preview_to_json,
    shown_command,
)
from zkdeployment.cli.files import with_ordered_text
from zkdeployment.cli.operator_options import current_user, reason_option
from zkdeployment.cli.options import (
    configured_repository,
    configured_revision,
    emit,
    node_path,
    output_option,
    yaml_text,
    zookeeper_options,
)
from zkdeployment.cli.publication_wait import PublicationWait, WaitOptions, wait_options
from zkdeployment.cli.tables import ResponsiveTable, console_for, styled
from zkdeployment.cli.terminal import echo, echo_lines
from zkdeployment.fleet.operator import OperatorAdapters, open_operator
from zkdeployment.fleet.views.forecast import predict
from zkdeployment.publishing.acts.opening import open_commits, terminal_author
from zkdeployment.publishing.rules.review import review

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from rich.text import Text

    from zkdeployment.documents.collection import Documents
    from zkdeployment.publishing.acts.commits import CommitOutcome
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits
    from zkdeployment.zookeeper.servers import Servers


def read_check_documents(file: Path) -> Documents:
    """Return the documents in a file; raises ``ConfigurationError``, and ``TreeError`` with all faults."""
    if not file.name.endswith(DOCUMENT_SUFFIXES):
        raise ConfigurationError(f"{file} is not a document: expected a file that ends in .yaml or .yml")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {file}: {error.strerror}") from error
    return new_check_documents(SourceFile(str(file), content))


@click.command(name="list")
@output_option
@zookeeper_options
def list_checks(connection: Servers, output: str) -> None:
    """List the published check configurations; with -o json also the monitoring systems and on-call duties.

    \b
    Example:
      zkdeployment checks list
      zkdeployment checks list -o json
    """
    with open_operator(connection) as operator:
        documents = operator.fleet.documents()
    checks, duties = documents.of(CHECK).values(), documents.of(ON_CALL).values()
    if output != "table":
        emit(configurations_to_json(checks, documents.of(SYSTEM).values(), duties), output, schema="checks")
    elif checks:
        rows = (_listing_cells(found) for found in sorted(checks, key=lambda found: found.name))
        headings = ("NAME", "OBJECT", "MONITORING", "COMMAND", "INTERVAL")
        table = ResponsiveTable(headings, rows, whole=("NAME", "OBJECT"), numbers=("INTERVAL",))
        console_for(stderr=False).print(table, soft_wrap=True)
    else:
        echo("no check is published; create one with 'zkdeployment checks create FILE'", err=True)


@click.command(name="show")
@click.argument("name")
@output_option
@zookeeper_options
def show(connection: Servers, name: str, output: str) -> None:
    """Show a published check configuration, how many instances are in which state, and its errors.

    An error is the reason for which instances have no details, or cannot be written: these stay unchanged, and
    new ones are not made.
    The exit code is 3 if no check NAME is published.

    \b
    Example:
      zkdeployment checks show front-http
      zkdeployment checks show front-http -o json
    """
    with open_checks(connection) as checks:
        document = checks.document(name)
        wanted = instances_of(checks.sources.read().basis, name)
        states = state_counts(checks.select(InstanceFilter(check=name)))
        unwritten = checks.instances.unwritten()
    if output != "table":
        emit(check_to_json(document, wanted, states, unwritten), output, schema="check")
        return
    echo_lines(yaml_text(dict(document)).rstrip("\n"))
    echo("")
    counts = ", ".join(f"{count} {state}" for state, count in states.items())
    echo(f"instances: {len(wanted)} wanted; {counts or 'none made yet'}")
    for error in check_errors(wanted, unwritten):
        echo(f"error: {error.path}: {error.message} (instances: {error.instances})")


def _listing_cells(found: CheckConfiguration) -> tuple[Text | str, ...]:
    return found.name, styled(found.path or "/"), found.monitoring, found.command, f"{found.interval} s"


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
    """Wait until the commit is published, if the options request that."""
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


@click.command(name="preview")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--revision",
    metavar="REV",
    help="A branch or a commit of the configured repository, in place of the published tree.",
)
@output_option
@zookeeper_options
def preview(*, connection: Servers, file: Path, revision: str | None, output: str) -> None:
    """Show the instances that the check configurations in FILE would make.

    They are computed for the published tree, or for the tree of REV, and for all known hosts, absent ones
    included. FILE holds new documents, or changed ones of checks that exist. Nothing is changed. The exit code is
    1 if FILE has errors.

    \b
    Example:
      zkdeployment checks preview front-http.yaml
      zkdeployment checks preview front-http.yaml --revision staging -o json
    """
    documents = read_check_documents(file)
    with open_operator(connection) as operator:
        hosts = checked_hosts(operator.fleet.snapshot().hosts, operator.fleet.known_hosts())
        basis = _published(operator, hosts) if revision is None else _of_revision(revision, hosts)
    found = _preview(documents, basis, revision)
    for warning in found.warnings:
        echo(warning, err=True)
    if output != "table":
        emit(preview_to_json(found.instances), output, schema="check-preview")
        return
    if found.instances:
        headings = ("ID", "PATH", "NUMBER", "HOST", "MONITORING", "CHECK")
        table = ResponsiveTable(
            headings, map(_preview_cells, found.instances), whole=("ID", "PATH"), numbers=("NUMBER",)
        )
        console_for(stderr=False).print(table, soft_wrap=True)
    for error in check_errors(found.instances):
        echo(f"{error.path}: {error.message}", err=True)
    echo_lines(counted(len(found.instances), "instance"), err=True)


def _preview(documents: Documents, basis: PreviewBasis, revision: str | None) -> CheckPreview:
    """Return the preview; an error names the revision with which the documents were compared."""
    try:
        return preview_checks(documents, basis)
    except TreeError as error:
        if revision is not None:
            raise
        raise TreeError(
            f"{error}\ncompared with the published documents and tree; a commit counts when a syncer has published"
            " it, or with --revision BRANCH"
        ) from error


def _published(operator: OperatorAdapters, hosts: Mapping[str, CheckedHost]) -> PreviewBasis:
    documents = operator.fleet.documents()
    systems = frozenset(name for (name,) in documents.of(SYSTEM))
    duties = tuple(documents.of(ON_CALL).values())
    checks = frozenset(name for (name,) in documents.of(CHECK))
    return PreviewBasis(operator.tree.live_tree().tree, operator.fleet.targets(), systems, hosts, duties, checks)


def _of_revision(name: str, hosts: Mapping[str, CheckedHost]) -> PreviewBasis:
    """Return the basis at a revision of the configured repository, whose errors are printed."""
    _, files = configured_revision(click.get_current_context().params["config"], name)
    reviewed = review(files)
    if reviewed.errors:
        for problem in reviewed.problems:
            echo(str(problem), err=True)
        raise click.exceptions.Exit(1)
    systems = frozenset(name for (name,) in reviewed.documents.of(SYSTEM))
    duties = tuple(reviewed.documents.of(ON_CALL).values())
    checks = frozenset(name for (name,) in reviewed.documents.of(CHECK))
    return PreviewBasis(reviewed.linted.tree, reviewed.targets, systems, hosts, duties, checks)


def _preview_cells(wanted: WantedInstance) -> tuple[Text | str, ...]:
    key, configuration = wanted.key, wanted.check.configuration
    if wanted.faults:
        check = styled("; ".join(wanted.faults), "red")
    else:
        arguments = wanted.check.arguments_for(wanted.host, key.number)
        check = styled(shlex.join((configuration.command, *arguments)))
    return wanted.id, styled(key.path), str(key.number), wanted.host.identity.name, wanted.system, check


_DIFFERENT = 4


@click.command(name="diff")
@click.argument("revision", metavar="[REV]", required=False)
@output_option
@zookeeper_options
def diff(*, connection: Servers, revision: str | None, output: str) -> None:
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
        table = ResponsiveTable(headings, _diff_rows(difference), whole=("", "CHECK", "PATH"), numbers=("NUMBER",))
        console_for(stderr=False).print(table, soft_wrap=True)
    for line in difference.describe():
        echo(line, err=True)


def _diff_rows(difference: CheckDifference) -> Iterator[tuple[Text | str, ...]]:
    """Yield a row for each instance, and two rows for a changed one: its present and its new value."""
    for found in difference.added:
        yield _diff_cells("+", "green", found)
    for before, after in difference.changed:
        yield _diff_cells("-", "red", before)
        yield _diff_cells("+", "green", after)
    for found in difference.removed:
        yield _diff_cells("-", "red", found)


def _diff_cells(mark: str, colour: str, found: WantedInstance) -> tuple[Text | str, ...]:
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


@click.command(name="on-call")
@click.argument("path", metavar="[PATH]", required=False, callback=node_path)
@output_option
@zookeeper_options
def on_call(*, connection: Servers, path: str | None, output: str) -> None:
    """Show the published on-call duties; with PATH the one for this node of the tree.

    The duty for a node is that of the nearest node at or above it.

    \b
    Example:
      zkdeployment checks on-call
      zkdeployment checks on-call /p1/shop/front -o json
    """
    with open_operator(connection) as operator:
        duties = {duty.path: duty for duty in operator.fleet.documents().of(ON_CALL).values()}
    found = duties.values() if path is None else [on_call_of(duties, path.rstrip("/"))]
    shown = sorted((duty for duty in found if duty is not None), key=lambda duty: duty.path)
    if output != "table":
        emit({"on_call": duties_to_json(shown)}, output, schema="checks-on-call")
    elif shown:
        table = ResponsiveTable(("DUTY", "OBJECT", "CONTACT", "EMAIL", "PHONE"), _rows(shown), whole=("OBJECT",))
        console_for(stderr=False).print(table, soft_wrap=True)
    else:
        echo("no on-call duty applies: the templates of monitoring systems name the contacts", err=True)


def _rows(duties: Iterable[OnCall]) -> Iterator[tuple[Text | str, ...]]:
    for duty in duties:
        for contact in duty.contacts:
            yield (
                styled(duty.name),
                styled(duty.path or "/"),
                styled(contact.name),
                styled(contact.email or "-"),
                styled(contact.phone or "-"),
            )


_COLOURS = {"ok": "green", "not found": "yellow", "conflict": "yellow"}


@click.command(name="simulate")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@output_option
def command(*, file: Path, output: str) -> None:
    """Play events on one check instance, without a fleet and without ZooKeeper.

    FILE is a JSON or YAML file with the start of the instance and the events. Each step of the output has the
    answer to its event and the instance afterwards.

    \b
    Example:
      zkdeployment checks simulate events.json
      zkdeployment checks simulate events.yaml -o json
    """
    steps = list(play(read_simulation(str(file), _read(file))))
    if output == "table":
        console_for(stderr=False).print(_render(steps))
    else:
        emit({"steps": [step.to_json() for step in steps]}, output)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {file}: {error.strerror}") from error


def _render(steps: Iterable[SimulatedStep]) -> Table:
    """Return a row for each step; the current version is marked."""
    table = Table("EVENT", "ANSWER", "REPLY", "POKED", "UPDATE", "DELETED", "VERSIONS", box=box.SIMPLE_HEAD)
    for step in steps:
        instance = step.instance
        versions = (
            [
                f"{found.version}{'*' if found.version == instance.current else ''} {found.state.value}"
                for found in instance.configurations
            ]
            if instance is not None
            else []
        )
        table.add_row(
            step.event,
            styled(step.answer, style=_COLOURS[step.answer]),
            _reply(step),
            _mark(step.poked),
            _mark(instance is not None and instance.update_available),
            _mark(instance is not None and instance.deleted),
            ", ".join(versions) or "-",
        )
    table.caption = "* the current version"
    return table


def _reply(step: SimulatedStep) -> str:
    if isinstance(step.reply, dict):
        return str(step.reply["task"])
    return "-" if step.reply is None else "listed" if step.reply else "not listed"


def _mark(value: bool) -> str:
    return "yes" if value else "-"
