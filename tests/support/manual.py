"""The manual's pages: the commands that they show, and a shell to type them into.

In a ``console`` block a line behind ``$`` is a command for the sandbox, one behind ``#`` for a real host; ``>``
continues it. What follows is what it prints, with ``...`` for what differs. Its exit status is 0, unless the next
command is ``echo $?``.
"""

from __future__ import annotations

import contextlib
import doctest
import re
import subprocess
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HERE = Path(__file__).resolve().parents[2]
MANUAL = HERE / "etc" / "manual"

#: The names of all pages, as ``operations/index``.
PAGES = sorted(str(page.relative_to(MANUAL).with_suffix("")) for page in MANUAL.rglob("*.rst"))

_STATUS = "echo $?"
_LOOSELY = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a page, its prompt (``$`` or ``#``), its output, and its exit status."""

    place: str
    prompt: str
    text: str
    output: str
    status: int = 0

    def prints(self, printed: str) -> bool:
        """Whether this is the output that the page shows; a page without output accepts any."""
        shown = re.sub(r"\s*\.\.\.\s*", "...", self.output)
        return not shown or doctest.OutputChecker().check_output(shown, printed, _LOOSELY)


def blocks(page: str, language: str) -> Iterator[tuple[int, str]]:
    """Yield a page's code blocks in a language, each with the number of its first line."""
    lines = (MANUAL / f"{page}.rst").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if line.strip() != f".. code-block:: {language}":
            continue
        indent = len(line) - len(line.lstrip())
        end = number + 1
        while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" " * (indent + 1))):
            end += 1
        yield number + 3, textwrap.dedent("\n".join(lines[number + 1 : end])).strip("\n")


def commands(page: str) -> list[Command]:
    """Return the commands of a page, in order."""
    commands: list[Command] = []
    for first, block in blocks(page, "console"):
        shown: list[Command] = []
        for number, line in enumerate(block.splitlines(), first):
            prompt, _, text = line.partition(" ")
            if prompt in {"$", "#"}:
                shown.append(Command(f"{page}.rst:{number}", prompt, text, ""))
                continue
            if not shown:
                raise ValueError(f"{page}.rst:{number}: expected a command, behind $ or #, not {line!r}")
            last = shown.pop()
            if prompt == ">" and not last.output:
                last = Command(last.place, last.prompt, f"{last.text}\n{text}", "")
            else:
                last = Command(last.place, last.prompt, last.text, f"{last.output}{line}\n")
            shown.append(last)
        commands += _with_status(shown)
    return commands


@dataclass(frozen=True, slots=True)
class Step:
    """A command that a page gives to ``machines``, or a file with the content ``text`` that it shows for them."""

    machines: tuple[str, ...]
    command: Command | None = None
    file: str = ""
    text: str = ""


def steps(page: str) -> list[Step]:
    """Return the steps of a page in which the comment ``.. on: MACHINES`` precedes each block."""
    lines = (MANUAL / f"{page}.rst").read_text(encoding="utf-8").splitlines()
    on = {number: line.split()[2:] for number, line in enumerate(lines, 1) if line.startswith(".. on: ")}

    def machines(line: int) -> tuple[str, ...]:
        return tuple(on[max(number for number in on if number < line)])

    found = {
        first: Step(machines(first), file=caption.partition(": ")[2], text=f"{text.strip()}\n")
        for language in ("ini", "sh")
        for first, block in blocks(page, language)
        for caption, _, text in [block.partition("\n")]
    }
    for command in commands(page):
        line = int(command.place.rpartition(":")[2])
        found[line] = Step(machines(line), command)
    return [found[line] for line in sorted(found)]


def _with_status(shown: list[Command]) -> Iterator[Command]:
    for entry, after in zip(shown, [*shown[1:], None], strict=True):
        asked = after is not None and after.text == _STATUS
        status = int(after.output) if after is not None and asked else 0
        yield Command(entry.place, entry.prompt, entry.text, entry.output, status)


class Shell:
    """An interactive bash; after a command that starts a shell, input goes to that shell."""

    _MARK = "--- that was all, with status "

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.directory = directory
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, text: str) -> tuple[str, int]:
        """Run a command; return its output and its exit status, which ``$?`` keeps."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{text}\n_was=$?; printf '\\n{self._MARK}%s\\n' $_was; (exit $_was)\n")
        self._process.stdin.flush()
        printed: list[str] = []
        for line in self._process.stdout:
            if line.startswith(self._MARK):
                return "".join(printed).removesuffix("\n"), int(line.removeprefix(self._MARK))
            printed.append(line)
        raise EOFError(f"the shell ended in {text!r}: {''.join(printed)}")

    def show(self, command: Command) -> None:
        """Run a command of the manual; fail the test if output or exit status differ from the page."""
        printed, status = self.run(command.text)
        assert (status, command.prints(printed)) == (command.status, True), (
            f"{command.place}: {command.text}\nexit status {status}, expected {command.status}; expected:\n"
            f"{command.output}\nprinted:\n{printed}"
        )

    def close(self) -> None:
        """End the shell and all shells within."""
        with contextlib.suppress(BrokenPipeError):  # the shell has already ended
            self._process.communicate()
