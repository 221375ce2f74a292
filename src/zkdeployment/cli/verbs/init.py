"""``zkdeployment init``: the files of a tree repository to begin with."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from zkdeployment.cli.terminal import echo_lines

#: The files of a new repository.
BEGINNING = Path(__file__).parents[1] / "beginning"

_NEXT = """\
{directory} has a service, a strategy, hooks, and checks for pre-commit, GitHub, Gitea and GitLab.
These commands lead to a first deployment. The page "First deployment" of the manual explains them.

in {directory}, after you have adapted site.zk:
  zkdeployment lint --strict .
  git init --initial-branch=main
  git add --all
  git commit --message="A first tree"
  git push ssh://git@GIT-SERVER/srv/git/tree.git main

on each machine with a daemon, as root:
  zkdeployment config check /etc/zkdeployment/zkdeployment.cfg

on one machine, as root:
  systemctl enable --now zkdeployment-syncer zkdeployment-coordinator

on each host of the fleet, as root:
  systemctl enable --now zkdeployment-agent

on any of these machines, as root:
  zkdeployment status --wait"""


@click.command(name="init")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
def command(directory: Path) -> None:
    """Write the files of a tree repository to begin with, and print the commands that lead to a first deployment.

    DIR must not exist, or be an empty directory. The files are a tree with a service, a strategy, hooks for the
    git server, a configuration of pre-commit, and workflows of forges that check each push. 'zkdeployment lint'
    accepts them.

    \b
    Example:
      zkdeployment init tree
    """
    if directory.resolve() == Path.cwd():
        raise click.BadParameter("expected the name of a new directory, found the current one")
    try:
        _write(directory.resolve())
    except OSError as error:
        raise click.BadParameter(
            f"cannot write {directory}: expected an empty directory or none, below a directory that exists, found:"
            f" {error.strerror}"
        ) from error
    echo_lines(_NEXT.format(directory=directory))


def _write(directory: Path) -> None:
    """Write all files or none, because the complete directory is renamed. Raises ``OSError``."""
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}.") as scratch:
        written = Path(scratch) / "written"
        for file in sorted(file for file in BEGINNING.rglob("*") if file.is_file()):
            place = written / file.relative_to(BEGINNING)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.read_bytes())
            if place.parent.name == "hooks":
                place.chmod(place.stat().st_mode | 0o111)
        written.rename(directory)
