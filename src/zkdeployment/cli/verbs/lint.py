"""``zkdeployment lint``: checks of tree files and documents, also as a git hook."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.source_files import Problem, Severity, SourceFile
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.cli.files import (
    NO_REPOSITORIES,
    chosen_repositories,
    governed_paths,
    governed_paths_option,
    open_repositories,
    read_trees,
    repositories_option,
)
from zkdeployment.cli.terminal import echo
from zkdeployment.documents.reading import document_files, read_documents
from zkdeployment.fleet.package_check import check_packages
from zkdeployment.publishing.acts.opening import (
    is_local_revision,
    read_documents_of,
    read_local_revision,
    read_push,
    read_staged,
)
from zkdeployment.publishing.rules.review import Review, lint_problems, place, review
from zkdeployment.publishing.section import ApprovalObjection, ApprovalVerifier, CommitObjection, section
from zkdeployment.tree.lint import sort_problems

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    help="With --approvers: the keys that sign commits. The signer of a content cannot approve it.",
)
@click.option(
    "--approval-rules",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="With --approvers: the rules of approvals, as approval-rules in [sync].",
)
@governed_paths_option
@click.option("--packages", is_flag=True, help="Check that repositories have the packages and patches, too.")
@repositories_option
@click.option(
    "--config",
    metavar="FILE",
    envvar="ZKDEPLOYMENT_CONFIG",
    type=click.Path(path_type=Path),
    help="A configuration with governed-paths and repositories in [sync].  [env: ZKDEPLOYMENT_CONFIG]",
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
    approval_rules: Path | None,
    governed: tuple[str, ...],
    packages: bool,
    repositories: tuple[str, ...],
    config: Path | None,
) -> None:
    """Check tree files and documents, such as strategies, quarantines and intents.

    PATH is a file, a directory with *.zk and *.zkx files (and documents in *.yaml and *.yml files), or a revision
    of the git repository around the current directory. All files are checked together as one tree. Problems are
    printed as FILE:LINE:COLUMN: MESSAGE; the exit code is 1 if there are errors.

    With --hook, git calls this command: before a commit, it checks the index; before git accepts a push (lines OLD
    NEW REF on standard input), it checks the new tips of the branches. A checked branch cannot be deleted.
    A change that removes a quarantine and wants the version at once is refused, and so is a change that breaks the
    life cycle of an intent. Where there are no hooks, --since asks the same.

    With --governed-path, services at and below these paths need an intent, as the syncer demands with
    governed-paths.

    With --packages, the repositories are asked for each package and patch at its version; with --hook or --since,
    only for those that the change wants anew. Whether a host has a version already, and whether packages fit
    together on it, is left to 'zkdeployment plan' and the syncer. An unreachable repository is a warning.

    \b
    Example:
      zkdeployment lint tree/
      zkdeployment lint HEAD~1
      zkdeployment lint --governed-path /p1 --governed-path /net tree/
      zkdeployment lint --since origin/main
      zkdeployment lint --packages --repositories /etc/yum.repos.d tree/
      exec zkdeployment lint --hook --branch main      # in hooks/pre-receive
    """
    _check_options(paths, hook=hook, branch=branch, since=since, approvers=approvers)
    if approvers is None and (allowed_signers or approval_rules) is not None:
        raise click.UsageError("expected --approvers with --allowed-signers and --approval-rules")
    if repositories and not packages:
        raise click.UsageError("expected --packages with --repositories")
    approvals = section().local_approvals(approvers, allowed_signers, approval_rules)
    asked = _repositories(repositories, config) if packages else ()
    rules = _Rules(strict, asked, governed or governed_paths(config))
    if hook:
        valid = _check_hook(branch, approvals, rules)
    elif paths:
        valid = _check(read_trees(paths), rules, () if since is None else read_local_revision(since))
    else:
        before = read_local_revision(since or "HEAD")
        valid = _check(read_local_revision("HEAD"), rules, before, _objection(approvals, "HEAD"))
    if not valid:
        raise click.exceptions.Exit(1)


def _check_options(
    paths: tuple[str, ...], *, hook: bool, branch: str | None, since: str | None, approvers: Path | None
) -> None:
    """Raise ``UsageError`` if the options do not name exactly one tree to check."""
    if hook and (paths or since is not None):
        raise click.UsageError("expected no PATH with --hook" if paths else "expected no --since with --hook")
    if not hook and not paths and since is None:
        raise click.UsageError("expected a PATH, found none")
    if branch is not None and not hook:
        raise click.UsageError("expected --hook with --branch")
    if approvers is not None and not hook and (since is None or paths):
        raise click.UsageError("expected --hook, or --since without PATH, with --approvers")


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules of a check: with ``repositories``, the packages, too. ``strict``: warnings are errors.

    Services at and below the ``governed`` paths need an intent.
    """

    strict: bool
    repositories: tuple[str, ...]
    governed: tuple[str, ...] = ()


def _repositories(given: Sequence[str], config: Path | None) -> tuple[str, ...]:
    """Return the chosen repositories; raises ``ConfigurationError`` without any."""
    repositories = chosen_repositories(given, config)
    if not repositories:
        raise ConfigurationError(NO_REPOSITORIES)
    return repositories


def _check(
    files: Sequence[SourceFile],
    rules: _Rules,
    before: Sequence[SourceFile] = (),
    objection: ApprovalObjection = None,
) -> bool:
    """Print all problems of a tree and of its change from the files ``before``; return whether it is valid."""
    reviewed = review(files)
    advice = reviewed.documents.advice if rules.strict else ()
    problems = lint_problems(reviewed, before, objection, rules.governed)
    if rules.repositories and not reviewed.errors:
        with open_repositories(rules.repositories) as repositories:
            findings = check_packages(repositories, reviewed.targets, review(before).targets)
        problems += (place(problem, reviewed.linted) for problem in findings.problems)
    problems = sort_problems([*problems, *advice])
    for problem in problems:
        echo(str(problem))
    if rules.repositories and reviewed.errors:
        echo("the packages are not checked: no repository is asked while the tree has errors", err=True)
    echo(_summary(reviewed, problems, len(files)), err=True)
    return not (problems if rules.strict else any(problem.severity is Severity.ERROR for problem in problems))


def _objection(approvals: ApprovalVerifier | None, commit: str) -> ApprovalObjection:
    """Return the objections to approvals in a commit; ``None`` if approvals need no signature."""
    return None if approvals is None else CommitObjection(approvals, commit)


def _check_hook(branch: str | None, approvals: ApprovalVerifier | None, rules: _Rules) -> bool:
    """Check the commit or push in progress; return whether git may accept it."""
    pushed = read_push(sys.stdin)
    if pushed is None:
        staged = read_staged()
        return _check(staged, rules, _files_before("HEAD", rules, staged))
    valid = True
    for push in pushed:
        if branch not in (None, push.branch):
            continue
        if push.commit is None:
            echo(f"the branch {push.branch} cannot be deleted: it contains the tree", err=True)
            valid = False
        else:
            echo(f"branch {push.branch} at {push.commit}:", err=True)
            files, objection = read_local_revision(push.commit), _objection(approvals, push.commit)
            before = () if push.before is None else _files_before(push.before, rules, files)
            valid = _check(files, rules, before, objection) and valid
    return valid


def _files_before(commit: str, rules: _Rules, files: Sequence[SourceFile]) -> Sequence[SourceFile]:
    """Return the files before a change, with which ``files`` are compared.

    The tree is read only if documents govern it before or after the change, or for a check of packages. The result
    is empty if the commit does not exist.
    """
    documents = read_documents_of(commit)
    is_judged = _governs(documents) or ((rules.repositories or _governs(files)) and is_local_revision(commit))
    return read_local_revision(commit) if is_judged else documents


def _governs(files: Sequence[SourceFile]) -> bool:
    """Whether documents among these files govern services; trees without them need not be compared."""
    return bool(section().governance(read_documents(document_files(files))))


def _summary(reviewed: Review, problems: Sequence[Problem], files: int) -> str:
    warnings = sum(problem.severity is Severity.WARNING for problem in problems)
    counts = (
        counted(files, "file"),
        counted(len(reviewed.linted.tree), "node"),
        counted(len(problems) - warnings, "error"),
        counted(warnings, "warning"),
    )
    return ", ".join(counts)
