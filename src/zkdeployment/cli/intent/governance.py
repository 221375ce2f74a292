"""``zkdeployment intent adopt`` and ``release``: the acts by which governance begins and ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.acts.audited import ActAudit
from zkdeployment.acts.governance import ReleaseOrder, pending_releases, release_services
from zkdeployment.acts.intents import IntentOrder, adopt_files, adopt_intent, intent_order
from zkdeployment.cli.intent.approve import approval_key, key_option
from zkdeployment.cli.intent.reading import subject_argument
from zkdeployment.cli.intent.waiting import intent_wait_options, report
from zkdeployment.cli.shared.files import read_files
from zkdeployment.cli.shared.operator_options import current_user, reason_option
from zkdeployment.cli.shared.options import configured_repository, zookeeper_options
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.fleet.requests import publication_obstacles
from zkdeployment.wiring.approvals import approval_signer
from zkdeployment.wiring.commits import open_commits, terminal_author
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from zkdeployment.cli.shared.publication_wait import WaitOptions
    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.model.servers import Servers


@click.command(name="adopt")
@subject_argument
@reason_option(required=False)
@intent_wait_options
@click.option(
    "--work-tree",
    metavar="DIRECTORY",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Write approval and state into the documents of this directory instead of a commit.",
)
@key_option
@zookeeper_options
def adopt(
    *,
    connection: Servers,
    subject: IntentSubject,
    reason: str,
    waits: WaitOptions,
    work_tree: Path | None,
    key: Path | None,
) -> None:
    """Put services that are deployed under an intent, without any change on hosts.

    A new intent over deployed services would undeploy them, so its document is refused until the intent adopts
    them: the content is approved and the group is Instantiated (a cluster: Applied), in one commit. Services that
    are not deployed as the tip of the branch has them are refused, with exit code 3.

    With --work-tree, the document is changed in a directory, to be pushed with the state that it then has. Use it
    where a hook refuses the document before the adoption.

    \b
    Example:
      zkdeployment intent adopt p1/store/v1/shop --reason 'the shop needs approvals from now on' --work-tree .
      zkdeployment intent adopt p1/store/v1/shop --wait --timeout 60
    """
    if work_tree is not None:
        if waits.waits:
            raise click.UsageError("expected --work-tree or --wait, found both: nothing is pushed")
        sign = None if key is None else approval_signer(key, None)
        order = IntentOrder(subject=subject, author=terminal_author(current_user()), record=None, reason=reason)
        for name, text in adopt_files(read_files([str(work_tree)]), order, sign=sign).items():
            if text is not None:
                Path(name).write_bytes(text)
                echo(name)
        return
    settings = configured_repository(click.get_current_context().params["config"])
    sign = approval_key(key, settings)
    with open_operator(connection) as operator, open_commits(settings) as commits:
        order = intent_order(operator, subject, terminal_author(current_user()), reason, by=current_user())
        order = replace(order, deployed=operator.fleet.targets())
        outcome = adopt_intent(commits, order, sign=sign)
        report(str(outcome.commit), subject, operator, commits, waits, is_active=True)


@click.command(name="release")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@reason_option(required=True)
@key_option
@zookeeper_options
def release(*, connection: Servers, paths: tuple[str, ...], reason: str, key: Path | None) -> None:
    """Deploy services that left the governance of their intent as the tree has them.

    A service leaves governance when the document of its intent is removed, or does not name its path any more. The
    service then stays as published, deployed or not, until it is released or another intent governs it. PATH is
    the path of such a service; 'zkdeployment services' names them. The release covers the content at the tip of
    the branch. The command prints the id of the commit when the repository has accepted it.

    Where approvers are configured, a release needs the signature of one of them, like an approval. Where rules
    demand several people, each of them runs the command; it names the people whose approvals are missing, and
    nothing is released before.

    \b
    Example:
      zkdeployment intent release /p1/shop/front --reason 'the shop needs no approvals any more'
      zkdeployment intent release /p1/shop/front /p1/shop/db --reason 'they stay'
    """
    settings = configured_repository(click.get_current_context().params["config"])
    sign = approval_key(key, settings)
    with open_operator(connection) as operator, open_commits(settings) as commits:
        order = ReleaseOrder(
            paths=paths,
            left=operator.intents.left(),
            author=terminal_author(current_user()),
            reason=reason,
            audit=ActAudit(operator.acts, current_user(), reason),
        )
        outcome = release_services(commits, order, sign=sign)
        commit = str(outcome.commit)
        echo(commit)
        if not outcome.changed:
            echo("nothing changes: these services are released already", err=True)
        for lack in pending_releases(commits, outcome, paths):
            echo(lack, err=True)
        for obstacle in publication_obstacles(operator.fleet.snapshot(), commit):
            echo(f"not published yet: {obstacle}", err=True)
