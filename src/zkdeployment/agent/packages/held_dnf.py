"""A dnf that tested a transaction and waits for the order to make it, so that one change starts dnf once.

The program ``dnf_program/zkdeployment_install.py`` waits a limited time, without any lock. The waiting dnf is a
short cut: a transaction for which no dnf waits any more is replayed by another dnf (``replay``), which takes
longer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zkdeployment.agent.packages import failures
from zkdeployment.base.inventory import Package
from zkdeployment.base.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from zkdeployment.agent.packages.command import DnfCommand
    from zkdeployment.base.machine.process import Conversation
    from zkdeployment.base.packages import Item

#: dnf's command line and one of its commands.
_PROGRAM = Path(__file__).parent / "dnf_program/zkdeployment_install.py"
COMMAND: Final = "zkdeployment-install"

#: The exit status of the program if it changed nothing although dnf reports no error.
_NOT_BEGUN = 75

_ORDER = b"commit\n"

#: The program's answer to the order, before it changes anything.
_BEGUN = b"begun\n"

#: Seconds that a dnf which is no longer needed has to end.
_PATIENCE = 10.0

_log = get_logger()


@dataclass(frozen=True)
class _Waiting:
    """A dnf that waits for the order, and the packages that its transaction installs and removes."""

    directory: Path
    conversation: Conversation
    installed: frozenset[Package]
    removed: frozenset[Package]

    @property
    def output(self) -> str:
        """The output of dnf."""
        return _output(self.directory).read_text(encoding="utf-8", errors="replace")


class HeldDnf:
    """Holds at most one dnf; which one is known by the directory of its downloads."""

    def __init__(self, dnf: DnfCommand) -> None:
        self._dnf = dnf
        self._waiting: _Waiting | None = None

    def can_prepare(self, directory: Path) -> bool:
        """Whether ``prepare`` is possible.

        The transaction of another directory may be waiting already. An upgrade of zkdeployment during a deployment
        may have moved the program.
        """
        waiting = self._waiting
        is_free = waiting is None or waiting.directory == directory or not waiting.conversation.is_running
        return is_free and self._dnf.has_interpreter and _PROGRAM.exists()

    def prepare(self, directory: Path, arguments: Sequence[str], specs: Sequence[str]) -> bool:
        """Resolve, download, check and test an installation, and keep dnf waiting.

        Return false, with nothing done, if this version of dnf cannot wait. Raises the ``PackageError`` of
        ``failures.explain``.
        """
        self.release()
        return self._dnf.retry_while_offline(lambda: self._prepare(directory, [*arguments, COMMAND, *specs]))

    def _prepare(self, directory: Path, arguments: Sequence[str]) -> bool:
        conversation = self._dnf.converse(_PROGRAM, *arguments, output=_output(directory))
        line = self._dnf.listen(conversation)
        if line is None:
            status = conversation.close()
            printed = _output(directory).read_text(encoding="utf-8", errors="replace")
            if status != _NOT_BEGUN:
                raise failures.explain(status, printed)
            _log.warning("packages-dnf-not-held", reason=printed[-1000:])
            return False
        report = json.loads(line)
        installed, removed = (frozenset(Package(*row) for row in report[key]) for key in ("installed", "removed"))
        self._waiting = _Waiting(directory, conversation, installed, removed)
        return True

    def confirm(self, directory: Path, changes: Collection[Item]) -> bool:
        """Return whether a dnf waits to make exactly these changes; end a dnf that would make others."""
        waiting = self._waiting
        if waiting is None or waiting.directory != directory:
            return False
        installed = frozenset(item.after for item in changes if item.after is not None)
        removed = frozenset(item.before for item in changes if item.before is not None)
        if installed == waiting.installed and removed == waiting.removed:
            return True
        self.release()
        return False

    def commit(self, directory: Path) -> str | None:
        """Order the transaction and return all output of dnf when the transaction has been made.

        Return ``None`` if no dnf waits for this order, or if dnf certainly changed nothing: because its time was
        over, because it was killed before it began, or because it failed early. Raises the ``PackageError`` of
        ``failures.explain``.
        """
        waiting = self._waiting
        if waiting is None or waiting.directory != directory:
            return None
        self._waiting = None
        waiting.conversation.send(_ORDER)
        status, answer = waiting.conversation.wait()
        printed = waiting.output
        if answer != _BEGUN or (status > 0 and not failures.has_begun(printed)):
            _log.info("packages-dnf-not-begun", reason=_reason(status, printed))
            return None
        if status:
            raise failures.explain(status, printed)
        return printed

    def release(self, directory: Path | None = None) -> None:
        """End the dnf that waits for the order, if there is one; with ``directory``, only if it belongs there."""
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
