"""``zkdeployment completion`` and ``version``: the verbs about the program itself."""

import click
from click.shell_completion import get_completion_class

from zkdeployment.cli.terminal import echo

_PROGRAM = "zkdeployment"


@click.command(name="completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete verbs, options and files after 'zkdeployment'.

    \b
    Example:
      zkdeployment completion bash > /etc/bash_completion.d/zkdeployment
      zkdeployment completion zsh > /usr/share/zsh/site-functions/_zkdeployment
      zkdeployment completion fish > ~/.config/fish/completions/zkdeployment.fish
    """
    completion = get_completion_class(shell)
    if completion is None:
        raise click.UsageError(f"click has no completion for {shell}")
    variable = f"_{_PROGRAM.upper()}_COMPLETE"
    click.echo(completion(context.find_root().command, {}, _PROGRAM, variable).source())


@click.command(name="version")
def print_version() -> None:
    """Print the version of this program.

    \b
    Example:
      zkdeployment version
    """
    from importlib.metadata import version  # noqa: PLC0415  the other verb starts faster without it

    echo(f"zkdeployment {version('zkdeployment')}")
