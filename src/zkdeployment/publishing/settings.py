"""The settings of the syncer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from zkdeployment.base.values import dataclass
from zkdeployment.config.addresses import branch_problem
from zkdeployment.config.forms import (
    METRICS_FILE,
    PATH,
    POSITIVE_SECONDS,
    REQUIRED,
    TEXT,
    WORDS,
    Form,
    Report,
    Section,
    SectionSettings,
    checked,
    number,
    setting,
)

if TYPE_CHECKING:
    from pathlib import Path


# The path of a node, or the root.
_NODE_PATH = re.compile(r"/|(/[^/\s]+)+")


def paths_problem(text: str) -> str | None:
    """Return the problem of a list of paths of nodes; ``None`` for a valid list."""
    wrong = [path for path in text.split() if not _NODE_PATH.fullmatch(path)]
    return f"expected paths of nodes, separated by blanks, as in /p1 /net, found {wrong[0]!r}" if wrong else None


def _node_paths(text: str, report: Report) -> tuple[str, ...]:
    if problem := paths_problem(text):
        report(problem)
    return tuple(text.split())


@dataclass(frozen=True, kw_only=True)
class SyncSettings(SectionSettings):
    """The settings of the syncer: the table of ``[sync]``."""

    SECTION: ClassVar[str] = "sync"
    PLACE: ClassVar[int] = 10
    MISSING: ClassVar[str] = "url and tree-directory not specified in [sync]"

    url: str = setting(TEXT, REQUIRED)
    """The repository of the tree: any URL that git can clone, or a directory of a Subversion repository
    (``svn://``, ``svn+ssh://``, ``svn:https://…``, or ``file://`` of a Subversion repository). Required by the
    syncer.

    Example: git@git.example.com:ops/tree.git
    """

    branch: str | None = setting(checked(branch_problem))
    """The branch to follow (git only). Default: the default branch of the repository.

    Example: production
    """

    contained_in: str | None = setting(checked(branch_problem))
    """A branch of the repository that has to contain what is published from ``branch`` (git only): who moves
    ``branch`` can then only choose among the commits of that branch. Default: ``branch`` alone decides.

    A fleet under promotion follows its own branch, which the promoter moves (:ref:`promoted-branches`). The one
    exception are the fleet's own rollbacks: commits whose files are those that ``zkdeployment rollback`` writes,
    signed if ``allowed-signers`` is set.

    Example: main
    """

    tree_directory: Path = setting(PATH, REQUIRED)
    """The directory for the mirror of the repository, used by nothing else. The systemd unit may write only here.
    Required by the syncer.

    Example: /var/lib/zkdeployment/syncer/tree
    """

    interval: float = setting(POSITIVE_SECONDS, 60.0)
    """The number of seconds between two fetches of ``zkdeployment sync --interval``."""

    allowed_signers: Path | None = setting(PATH)
    """A file of SSH keys (the format ALLOWED SIGNERS of ``ssh-keygen``) or of OpenPGP keys (as ``gpg --armor
    --export`` writes them). Only commits signed by one of these keys are published (git only). To retire a key,
    remove it from the file.

    Example: /etc/zkdeployment/allowed_signers
    """

    approvers: Path | None = setting(PATH)
    """A file of SSH keys, in the format ALLOWED SIGNERS of ``ssh-keygen``. Approvals of :doc:`intents
    <../intents>` then count only with a signature by one of these keys, made by another person than the one who
    signed the commit that brought the content (git only). Default: approvals need no signature.

    The syncer reads the file, and so do the service, the coordinator and the verbs that commit acts.

    Example: /etc/zkdeployment/approvers
    """

    approval_rules: Path | None = setting(PATH)
    """A file of rules for these approvals, one a line: ``PATH NUMBER DAYS NAME…``, as in ``/p1 2 30
    alice@example.com bob@example.com``. Default: one approval by any of the ``approvers``, without a limit.

    The rules state how many approvers have to approve which paths, who of them may, and how long an approval
    counts (:ref:`approval-rules`).

    Example: /etc/zkdeployment/approval-rules
    """

    governed_paths: tuple[str, ...] = setting(Form(_node_paths), ())
    """Paths of nodes, separated by blanks; ``/`` stands for all services. Every service at and below them needs an
    :doc:`intent <../intents>`, or nothing is published. Default: services need no intent.

    ``lint`` checks the same with ``--governed-path``, or with ``--config``.

    Example: /p1 /net
    """

    push_url: str | None = setting(TEXT)
    """The repository that acts which are commits are pushed to, such as those of ``zkdeployment rollback`` (git
    only). Default: ``url``.

    The service, the coordinator and the verbs use this repository, which has to be the one that the syncer
    reads, or its upstream.

    Example: git@git.example.com:ops/tree.git
    """

    push_key: Path | None = setting(PATH)
    """The SSH private key for ``push-url``. Default: the keys of the user.

    Example: /etc/zkdeployment/push_key
    """

    signing_key: Path | None = setting(PATH)
    """The file of the SSH private key or the OpenPGP secret key, without a passphrase, that signs these commits.
    With ``allowed-signers`` such acts need this key.

    Example: /etc/zkdeployment/signing_key
    """

    publish_key: Path | None = setting(PATH)
    """The file of the SSH private key, without a passphrase, that signs each publication. Only the syncer's user
    may read the file. Default: publications are not signed.

    See :doc:`../operations/signing`.

    Example: /etc/zkdeployment/publish_key
    """

    repositories: tuple[str, ...] = setting(WORDS, ())
    """Where hosts get their packages from, separated by blanks: directories of ``.repo`` files, URLs, ids of
    repositories to enable, or the path of a configuration of dnf. The syncer then refuses a revision with packages
    that no repository has, or that some hosts could not install. The check needs dnf 4, or dnf 5 and
    python3-libdnf5. Default: packages are not checked before a publication.

    The exclusions and repositories of a configuration of dnf then count. ``plan`` and ``lint --packages`` check
    the same. The repositories of the syncer's own machine are not used unless they are named. See
    :ref:`packages-before-publication`.

    Example: /etc/zkdeployment/repositories
    """

    history: int = setting(number(99999, "a number from 1 to 99999"), 500)
    """The number of publications that the history keeps."""

    metrics: Path | None = setting(METRICS_FILE)
    """The file for the metrics of a syncer that follows the branch: ``….prom``. The file must differ from the
    agent's, and the syncer's user must be able to write to the directory.

    Example: /var/lib/node_exporter/textfile/zkdeployment-syncer.prom
    """

    @classmethod
    def complete(cls, section: Section, values: dict[str, Any]) -> None:
        """Report rules for approvals without approvers, and a branch that contains itself."""
        if "contained_in" in values and values["contained_in"] == values.get("branch"):
            section.report("contained-in", "expected another branch than branch, found the same")
        if "approval_rules" in values and "approvers" not in section.texts:
            section.report("approval-rules", "expected approvers beside it, found none: no approvals are verified")


SECTIONS = (SyncSettings,)
