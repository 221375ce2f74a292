"""A dnf 4 that has tested a transaction and waits for the order to make it, so that one change starts dnf once.

The program ``dnf_program/zkdeployment_install.py`` waits a limited time, without any lock. If no dnf waits for a
transaction any longer, another dnf replays it, which takes more time. With dnf 4, the program makes both, so that
both print the same report, and ``DnfCommand.check`` judges each transaction of each dnf. While the program waits,
it runs other commands that change nothing, such as to fetch the files for a rollback.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zkdeployment.agent.packages import failures
from zkdeployment.agent.packages.command import INSTALL_COMMAND, read_output
from zkdeployment.base.inventory import Package
from zkdeployment.base.log import get_logger
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from zkdeployment.agent.packages.command import DnfCommand
    from zkdeployment.base.machine.process import Conversation
    from zkdeployment.base.packages import Item

#: The exit status of the program if it changed nothing although dnf reports no error.
_NOT_BEGUN = 75

_ORDER = b"commit\n"

#: The program's answer to the order, before it changes anything.
_BEGUN = b"begun\n"

#: Seconds in which a dnf that is no longer needed has to end.
_PATIENCE = 10.0

_log = get_logger()


@dataclass(frozen=True)
class _Waiting:
    """A dnf that waits for the order, and the packages that its transaction installs and removes.

    ``advisories`` is the number of security advisories that the host lacks after an update of the system.
    """

    directory: Path
    conversation: Conversation
    installed: frozenset[Package]
    removed: frozenset[Package]
    advisories: int | None

    @property
    def output(self) -> str:
        """The output of dnf."""
        return read_output(_output(self.directory))


class HeldDnf:
    """Holds at most one dnf process, which the directory of its downloads identifies."""

    def __init__(self, dnf: DnfCommand) -> None:
        self._dnf = dnf
        self._waiting: _Waiting | None = None

    def can_prepare(self, directory: Path) -> bool:
        """Whether a dnf may wait for the order: the transaction of another directory may be waiting already."""
        waiting = self._waiting
        return waiting is None or waiting.directory == directory or not waiting.conversation.is_running

    def prepare(
        self, directory: Path, arguments: Sequence[str], specs: Sequence[str], remove: Collection[Package] = ()
    ) -> frozenset[Package] | None:
        """Resolve, download, check and test a transaction; return the packages that dnf removes or replaces.

        dnf stays waiting if it ``can_prepare``, unless the packages ``remove`` are to be removed. Return ``None``
        without an effect if this version of dnf cannot report its transaction, or if an upgrade of zkdeployment
        during a deployment has moved the program. Raises the ``PackageError`` of ``failures.explain``.
        """
        if not self._dnf.can_converse:
            return None
        is_free = self.can_prepare(directory)
        if is_free:
            self.release()
        removals = [f"--remove={package.nevra}" for package in sorted(remove)]
        prepared = self._dnf.retry_while_offline(
            lambda: self._prepare(directory, [*arguments, INSTALL_COMMAND, *removals, *specs])
        )
        if prepared is None:
            return None
        if is_free and not remove:
            self._waiting = prepared
        else:
            prepared.conversation.end(_PATIENCE)
        return prepared.removed

    def _prepare(self, directory: Path, arguments: Sequence[str]) -> _Waiting | None:
        conversation = self._dnf.converse(*arguments, output=_output(directory))
        line = self._dnf.listen(conversation)
        if line is None:
            status = conversation.close()
            printed = read_output(_output(directory))
            if status != _NOT_BEGUN:
                raise self._dnf.explain(status, printed)
            _log.warning("packages-dnf-not-held", reason=printed[-1000:])
            return None
        report = json.loads(line)
        installed, removed = (frozenset(Package(*row) for row in report[key]) for key in ("installed", "removed"))
        return _Waiting(directory, conversation, installed, removed, report["advisories"])

    def advisories(self, directory: Path) -> int | None:
        """Return the number of advisories that the host lacks after the update of the dnf that waits, if known."""
        waiting = self._waiting
        return None if waiting is None or waiting.directory != directory else waiting.advisories

    def run(self, *arguments: str) -> bool:
        """Run a command that changes no package in the dnf that waits; return whether it succeeded.

        Return ``False`` without an effect if no dnf waits. Raises ``PackageError`` if dnf takes too long.
        """
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return False
        answer = self._dnf.ask(waiting.conversation, *arguments)
        if answer is None:
            waiting.conversation.end(_PATIENCE)
            return False
        self._waiting = waiting
        return answer

    def confirm(self, directory: Path, changes: Collection[Item]) -> bool:
        """Return whether a dnf waits to make exactly these changes; end a dnf that would make other changes."""
        waiting = self._waiting
        if waiting is None or waiting.directory != directory:
            return False
        installed = frozenset(item.after for item in changes if item.after is not None)
        removed = frozenset(item.before for item in changes if item.before is not None)
        if installed == waiting.installed and removed == waiting.removed:
            return True
        self.release()
        return False

    def commit(self, directory: Path) -> bool:
        """Order the transaction and return ``True`` when it has been made.

        Return ``False`` if no dnf waits for this order, or if dnf certainly changed nothing: its waiting time had
        passed, it was killed before it began, or it failed early. Raises the ``PackageError`` of
        ``DnfCommand.check``.
        """
        waiting = self._waiting
        if waiting is None or waiting.directory != directory:
            return False
        self._waiting = None
        waiting.conversation.send(_ORDER)
        status, answer = waiting.conversation.wait()
        printed = waiting.output
        if answer != _BEGUN or (status > 0 and not failures.has_begun(printed)):
            _log.info("packages-dnf-not-begun", reason=_reason(status, printed))
            return False
        self._dnf.check(status, printed)
        return True

    def release(self, directory: Path | None = None) -> None:
        """End the dnf that waits for the order, if there is one; with ``directory``, only that directory's dnf."""
        waiting = self._waiting
        if waiting is not None and directory in {None, waiting.directory}:
            waiting.conversation.end(_PATIENCE)
            self._waiting = None


def _reason(status: int, printed: str) -> str:
    """Return why a dnf ended before it began."""
    if status == _NOT_BEGUN:
        return printed.strip().rpartition("\n")[2]
    return str(failures.explain(status, printed))


def _output(directory: Path) -> Path:
    return directory / "output.txt"
