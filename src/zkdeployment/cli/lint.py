"""``zkdeployment lint``: checks of tree files and documents, also as a git hook."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.cli.shared.files import read_trees
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.intents.revisions import change_problems, has_intents
from zkdeployment.model.problem import Severity
from zkdeployment.planning.review import Review, lifting_problems, review
from zkdeployment.tree.lint import sort_problems
from zkdeployment.wiring.approvals import local_approvals
from zkdeployment.wiring.repository import read_documents_of, read_local_revision, read_push, read_staged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.intents.life_cycle import IntentSnapshot
    from zkdeployment.model.problem import Problem
    from zkdeployment.model.source_files import SourceFile
    from zkdeployment.ports.approvals import ApprovalVerifier


@click.command("lint")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option(
    "--strict",
    is_flag=True,
    help="Fail on warnings, too; warn of critical groups without require_hosts.",
)
@click.option(
    "--hook", is_flag=True, help="Check the commit or push in progress: as git's pre-commit or pre-receive hook."
)
@click.option(
    "-b",
    "--branch",
    metavar="BRANCH",
    help="With --hook: the tree's branch; pushes to other branches are not checked.",
)
@click.option(
    "--since",
    metavar="REV",
    help="Check the change from REV, too, as the hooks do. Without PATH, the commit HEAD is checked.",
)
@click.option(
    "--approvers",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="With --hook or --since: the keys whose signatures approve intents, in ssh-keygen's format.",
)
@click.option(
    "--allowed-signers",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="With --approvers: the keys that sign commits. Nobody approves what the same person signed.",
)
def command(
    paths: tuple[str, ...],
    *,
    strict: bool,
    hook: bool,
    branch: str | None,
    since: str | None,
    approvers: Path | None,
    allowed_signers: Path | None,
) -> None:
    """Check tree files and documents, such as strategies, quarantines and intents.

    PATH is a file, a directory with *.zk and *.zkx files (and documents in *.yaml and *.yml files), or a revision
    of the git repository around the current directory. All files are checked together as one tree. Problems are
    printed as FILE:LINE:COLUMN: MESSAGE; the exit code is 1 if there are errors.

    With --hook, git calls this command: before a commit, it checks the index; before git accepts a push (lines OLD
    NEW REF on standard input), it checks the new tips of the branches. A checked branch cannot be deleted.
    A change that removes a quarantine and wants the version at once is refused, and so is a change that breaks the
    life cycle of an intent. Where there are no hooks, --since asks the same.

    \b
    Example:
      zkdeployment lint tree/
      zkdeployment lint --strict web.zk database.zk overrides.zkx strategy.yaml
      zkdeployment lint HEAD~1
      zkdeployment lint --since origin/main
      exec zkdeployment lint --hook --branch main      # in hooks/pre-receive
    """
    if hook and (paths or since is not None):
        raise click.UsageError("expected no PATH with --hook" if paths else "expected no --since with --hook")
    if not hook and not paths and since is None:
        raise click.UsageError("expected a PATH, found none")
    if branch is not None and not hook:
        raise click.UsageError("expected --hook with --branch")
    if approvers is not None and not hook and (since is None or paths):
        raise click.UsageError("expected --hook, or --since without PATH, with --approvers")
    if allowed_signers is not None and approvers is None:
        raise click.UsageError("expected --approvers with --allowed-signers")
    approvals = None if approvers is None else local_approvals(approvers, allowed_signers)
    if hook:
        valid = _check_hook(branch, approvals, strict=strict)
    elif paths:
        valid = _check(read_trees(paths), strict, () if since is None else read_local_revision(since))
    else:
        before = read_local_revision(since or "HEAD")
        valid = _check(read_local_revision("HEAD"), strict, before, _objection(approvals, "HEAD"))
    if not valid:
        raise click.exceptions.Exit(1)


def _check(
    files: Sequence[SourceFile],
    strict: bool,
    before: Sequence[SourceFile] = (),
    objection: Callable[[IntentSnapshot], str | None] | None = None,
) -> bool:
    """Print all problems of a tree and of its change from the files ``before``; return whether it is valid."""
    reviewed = review(files)
    advice = reviewed.documents.advice if strict else ()
    changes = (*lifting_problems(reviewed, before), *change_problems(before, reviewed, objection))
    problems = sort_problems([*reviewed.problems, *reviewed.spare_strategies, *changes, *advice])
    for problem in problems:
        echo(str(problem))
    echo(_summary(reviewed, problems, len(files)), err=True)
    return not (problems if strict else any(problem.severity is Severity.ERROR for problem in problems))


def _objection(approvals: ApprovalVerifier | None, commit: str) -> Callable[[IntentSnapshot], str | None] | None:
    """Return the function that objects to approvals in a commit; ``None`` if they need no signature."""
    return None if approvals is None else lambda snapshot: approvals.objection(snapshot, commit)


def _check_hook(branch: str | None, approvals: ApprovalVerifier | None, *, strict: bool) -> bool:
    """Check the commit or push in progress; return whether git may accept it."""
    pushed = read_push(sys.stdin)
    if pushed is None:
        return _check(read_staged(), strict, _files_before("HEAD"))
    valid = True
    for push in pushed:
        if branch not in (None, push.branch):
            continue
        if push.commit is None:
            echo(f"the branch {push.branch} cannot be deleted: it contains the tree", err=True)
            valid = False
        else:
            echo(f"branch {push.branch} at {push.commit}:", err=True)
            before = () if push.before is None else _files_before(push.before)
            files, objection = read_local_revision(push.commit), _objection(approvals, push.commit)
            valid = _check(files, strict, before, objection) and valid
    return valid


def _files_before(commit: str) -> Sequence[SourceFile]:
    """Return the files that a change is judged by: the tree is read only if documents govern it."""
    documents = read_documents_of(commit)
    return read_local_revision(commit) if has_intents(documents) else documents


def _summary(reviewed: Review, problems: Sequence[Problem], files: int) -> str:
    warnings = sum(problem.severity is Severity.WARNING for problem in problems)
    counts = (
        _count(files, "file"),
        _count(len(reviewed.linted.tree), "node"),
        _count(len(problems) - warnings, "error"),
        _count(warnings, "warning"),
    )
    return ", ".join(counts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
