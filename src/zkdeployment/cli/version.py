"""``zkdeployment version``."""

from importlib.metadata import version

import click


@click.command(name="version")
def command() -> None:
    """Print the version of this program.

    \b
    Example:
      zkdeployment version
    """
    click.echo(f"zkdeployment {version('zkdeployment')}")
