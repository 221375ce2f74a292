"""``zkdeployment lint``: check tree files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.cli.files import read_files
from zkdeployment.errors import ConfigurationError, SourceError
from zkdeployment.model.problem import Severity
from zkdeployment.planning.review import Review, review

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.model.publication import SourceFile


@click.command("lint")
@click.argument("paths", metavar="PATH…", nargs=-1, required=True)
@click.option("--strict", is_flag=True, help="Let warnings fail, too.")
def command(paths: tuple[str, ...], *, strict: bool) -> None:
    """Check tree files.

    PATH is a file, a directory with *.zk and *.zkx files, or a revision of the git repository around the current
    directory. All files given are checked as one tree. Problems are printed as FILE:LINE:COLUMN: MESSAGE; the
    exit code is 1 if there are errors.

    \b
    Example:
      zkdeployment lint tree/
      zkdeployment lint --strict web.zk database.zk overrides.zkx
      zkdeployment lint HEAD~1
    """
    files = [file for path in paths for file in _read(path)]
    found = review(files)
    for problem in found.problems:
        click.echo(str(problem))
    click.echo(_summary(found, len(files)), err=True)
    if found.errors or (strict and found.problems):
        raise click.exceptions.Exit(1)


def _read(name: str) -> Sequence[SourceFile]:
    """Read a file, a directory or, where there is neither of that name, a git revision."""
    if Path(name).exists() or name.endswith((".zk", ".zkx")):
        return read_files([name])
    from zkdeployment.adapters.git import revision_files  # noqa: PLC0415  slow to import, seldom needed

    try:
        return revision_files(Path.cwd(), name)
    except SourceError as error:
        raise ConfigurationError(
            f"{name} is neither a file nor a directory, and as a git revision: {error}"
        ) from error


def _summary(found: Review, files: int) -> str:
    warnings = sum(problem.severity is Severity.WARNING for problem in found.problems)
    counts = (
        _count(files, "file"),
        _count(len(found.linted.tree), "node"),
        _count(len(found.errors), "error"),
        _count(warnings, "warning"),
    )
    return ", ".join(counts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
