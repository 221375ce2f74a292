"""Reads the tree files that verbs of ``tree`` are given, and refuses files with errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment.cli.shared.terminal import echo
from zkdeployment.model.problem import Severity
from zkdeployment.tree.layers import merge
from zkdeployment.tree.lint import lint, tree_files
from zkdeployment.tree.parse import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zkdeployment.model.problem import Problem
    from zkdeployment.model.source_files import SourceFile
    from zkdeployment.model.tree import Tree
    from zkdeployment.tree.layers import MergedTree


def parse_files(files: Sequence[SourceFile]) -> Tree:
    """Return the merged tree of files; links may lead to nodes that only the live tree has."""
    parsed = [parse_bytes(file.name, file.content) for file in tree_files(files)]
    merged = merge(parsed)
    refuse_errors([problem for file in parsed for problem in file.problems] + list(merged.problems))
    return merged.tree


def check_files(files: Sequence[SourceFile]) -> MergedTree:
    """Return the merged tree of files that the syncer would accept."""
    linted = lint(files)
    refuse_errors(linted.problems)
    return linted.merged


def refuse_errors(problems: Iterable[Problem]) -> None:
    """Print the problems on standard error; end the command with exit code 1 if one of them is an error."""
    errors = 0
    for problem in problems:
        echo(str(problem), err=True)
        errors += problem.severity is Severity.ERROR
    if errors:
        raise click.exceptions.Exit(1)
