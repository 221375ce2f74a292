"""Trials: a copy of Nagios' main configuration that reads definitions from a hidden directory beside the bridge's.

Nagios itself never reads that directory: a bridge that is killed while Nagios verifies leaves nothing in Nagios'
configuration.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.errors import NagiosError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zkdeployment.nagios.object_files import NagiosObjectFile

#: Nagios skips hidden files and directories in a directory of definitions.
_DIRECTORY = ".trial"
_MAIN = "main"
_DEFINITIONS = "definitions.cfg"
_LARGEST_MAIN = 4 << 20
_MODE = 0o640

#: The keys of the main configuration whose values are paths.
_PATH_KEY = re.compile(r".*_(?:file|dir|path|socket)")


@dataclass(frozen=True, slots=True)
class ConfigurationTrial:
    """A command that verifies definitions where Nagios does not read them when it starts."""

    command: Sequence[str]
    definitions: Path
    objects: Path
    _starts: Sequence[int]
    _names: Sequence[str]

    def located(self, output: str) -> str:
        """Return the output of the command with the places that the definitions will have."""
        pattern = rf"{re.escape(str(self.definitions))}(',? (?:starting )?on line )(\d+)"
        return re.sub(pattern, self._place, output)

    def _place(self, match: re.Match[str]) -> str:
        line = int(match[2])
        position = max(0, bisect.bisect_right(self._starts, line) - 1)
        return f"{self.objects / self._names[position]}{match[1]}{line - self._starts[position] + 1}"


@contextlib.contextmanager
def configuration_trial(
    command: Sequence[str], objects: Path, files: Mapping[str, NagiosObjectFile]
) -> Iterator[ConfigurationTrial | None]:
    """Yield a trial of ``files``; ``None`` if the command does not name the main configuration.

    The main configuration is a file that names ``objects`` as a directory of definitions. Raises ``NagiosError``
    if the files of the trial cannot be written.
    """
    directory = objects / _DIRECTORY
    found = _main_configuration(command, objects, directory)
    if found is None:
        yield None
        return
    position, text = found
    definitions = {name: file.text for name, file in sorted(files.items()) if not file.executable}
    lengths = [text.count("\n") for text in definitions.values()]
    starts = [*itertools.accumulate(lengths, initial=1)][:-1]
    try:
        objects.mkdir(mode=0o750, exist_ok=True)
        directory.mkdir(mode=0o750, exist_ok=True)
        durable.replace(directory / _MAIN, text.encode(errors="surrogateescape"), mode=_MODE, sync=False)
        durable.replace(directory / _DEFINITIONS, "".join(definitions.values()).encode(), mode=_MODE, sync=False)
    except OSError as error:
        place = error.filename or directory
        raise NagiosError(f"cannot write {place}: {error.strerror}; see objects in [nagios]") from error
    try:
        words = [*command[:position], str(directory / _MAIN), *command[position + 1 :]]
        yield ConfigurationTrial(words, directory / _DEFINITIONS, objects, starts, [*definitions])
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _main_configuration(command: Sequence[str], objects: Path, directory: Path) -> tuple[int, str] | None:
    """Return the position of the main configuration in a command, and its text with another directory."""
    for position, word in enumerate(command[1:], start=1):
        file = Path(word)
        with contextlib.suppress(OSError):
            content = durable.read(file.resolve(), _LARGEST_MAIN) if file.is_file() else None
            text = None if content is None else content.decode(errors="surrogateescape")
            copy = None if text is None else _copied(text, file.absolute().parent, objects, directory)
            if copy is not None:
                return position, copy
    return None


def _copied(text: str, above: Path, objects: Path, directory: Path) -> str | None:
    """Return a main configuration with ``directory`` instead of ``objects``; ``None`` if it does not name these.

    Relative paths become absolute, because they count from the directory of the main configuration.
    """
    lines, is_named = [], False
    for line in text.split("\n"):
        key, separator, value = (part.strip() for part in line.partition("="))
        if not (separator and value and _PATH_KEY.fullmatch(key)):
            lines.append(line)
            continue
        path = above / value
        if key == "cfg_dir" and path.resolve() == objects.resolve():
            path, is_named = directory, True
        lines.append(f"{key}={path}")
    return "\n".join(lines) if is_named else None
