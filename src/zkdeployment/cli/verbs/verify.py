"""``zkdeployment verify``: checks the signed publication of the whole fleet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.cli.options import emit, output_option, zookeeper_options
from zkdeployment.cli.terminal import echo
from zkdeployment.config.settings import SYSTEM_CONFIGURATION, chosen_settings
from zkdeployment.fleet.store.signed_fleet import Verification, verify_fleet

if TYPE_CHECKING:
    from zkdeployment.zookeeper.servers import Servers

_ADVICE = "name the file of keys with --publishers FILE"


@click.command(name="verify")
@click.option(
    "--publishers",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The keys that may sign publications, as ssh-keygen's ALLOWED SIGNERS.  [default: of the configuration]",
)
@output_option
@zookeeper_options
@click.pass_context
def command(context: click.Context, connection: Servers, publishers: Path | None, output: str) -> None:
    """Check that ZooKeeper holds exactly the publication that a publisher signed.

    Checked are the signature, the cluster version, the sequence, the strategy, every bucket and every target, and
    the resolved properties of every service in the live tree. Each difference is listed. Nothing is changed. The
    exit code is 0 without a difference, else 1.

    \b
    Example:
      zkdeployment verify
      zkdeployment verify --publishers /etc/zkdeployment/publishers -o json
    """
    file = publishers or _configured_publishers(context.params["config"])
    verification = verify_fleet(connection, file.absolute())
    if output != "table":
        emit(_to_json(verification), output, schema="verify")
    else:
        _print(verification)
    raise click.exceptions.Exit(1 if verification.deviations else 0)


def _configured_publishers(config: Path | None) -> Path:
    try:
        publishers = chosen_settings(config).publishers
    except ConfigurationError as error:
        raise ConfigurationError(f"{error}; {_ADVICE}") from error
    if publishers is None:
        raise ConfigurationError(f"{config or SYSTEM_CONFIGURATION}: publishers not specified; {_ADVICE}")
    return publishers


def _print(verification: Verification) -> None:
    signer, statement = verification.signer, verification.statement
    if signer is not None and statement is not None:
        echo(f"signed by {signer.name} ({signer.fingerprint})")
        echo(f"revision {statement.revision}, sequence {statement.sequence}")
        echo(f"compared: {verification.targets} targets, {verification.services} services")
    for deviation in verification.deviations:
        echo(str(deviation))
    count = len(verification.deviations)
    echo("everything matches the signed publication" if not count else f"differences: {count}", err=True)


def _to_json(verification: Verification) -> dict[str, object]:
    signer, statement = verification.signer, verification.statement
    return {
        "signer": None if signer is None else {"name": signer.name, "key": signer.fingerprint},
        "revision": None if statement is None else statement.revision,
        "sequence": None if statement is None else statement.sequence,
        "since": None if statement is None else statement.since,
        "targets": verification.targets,
        "services": verification.services,
        "differences": [
            {"subject": deviation.subject, "expected": deviation.expected, "found": deviation.found}
            for deviation in verification.deviations
        ],
    }
