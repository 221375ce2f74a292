"""``zkdeployment checks preview``: the instances that a check configuration would make."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.checks.basis import checked_hosts
from zkdeployment.checks.preview import CheckPreview, PreviewBasis, preview_checks
from zkdeployment.checks.views import check_errors, preview_to_json
from zkdeployment.cli.checks.files import read_check_documents
from zkdeployment.cli.shared.console import console_for, styled
from zkdeployment.cli.shared.options import configured_revision, emit, output_option, zookeeper_options
from zkdeployment.cli.shared.responsive_table import ResponsiveTable
from zkdeployment.cli.shared.terminal import echo, echo_lines
from zkdeployment.documents.checks.kinds import CHECK, SYSTEM
from zkdeployment.documents.checks.on_call import ON_CALL
from zkdeployment.errors import TreeError
from zkdeployment.planning.review import review
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.text import Text

    from zkdeployment.checks.basis import CheckedHost
    from zkdeployment.checks.spawning import WantedInstance
    from zkdeployment.documents.collection import Documents
    from zkdeployment.model.servers import Servers
    from zkdeployment.ports.operator import OperatorAdapters


@click.command(name="preview")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--revision",
    metavar="REV",
    help="A branch or a commit of the configured repository, in place of the published tree.",
)
@output_option
@zookeeper_options
def command(*, connection: Servers, file: Path, revision: str | None, output: str) -> None:
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
        table = ResponsiveTable(headings, map(_cells, found.instances), whole=("ID", "PATH"), numbers=("NUMBER",))
        console_for(stderr=False).print(table, soft_wrap=True)
    for error in check_errors(found.instances):
        echo(f"{error.path}: {error.message}", err=True)
    echo_lines("1 instance" if len(found.instances) == 1 else f"{len(found.instances)} instances", err=True)


def _preview(documents: Documents, basis: PreviewBasis, revision: str | None) -> CheckPreview:
    """Return the preview; an error names the revision that the documents were compared with."""
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


def _cells(wanted: WantedInstance) -> tuple[Text | str, ...]:
    key, configuration = wanted.key, wanted.check.configuration
    if wanted.faults:
        check = styled("; ".join(wanted.faults), "red")
    else:
        arguments = wanted.check.arguments_for(wanted.host, key.number)
        check = styled(shlex.join((configuration.command, *arguments)))
    return wanted.id, styled(key.path), str(key.number), wanted.host.identity.name, wanted.system, check
