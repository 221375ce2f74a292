"""``zkdeployment version``: the version of the program."""

from importlib.metadata import version

import click

from zkdeployment.cli.terminal import echo


@click.command(name="version")
def command() -> None:
    """Print the version of this program.

    \b
    Example:
      zkdeployment version
    """
    echo(f"zkdeployment {version('zkdeployment')}")
