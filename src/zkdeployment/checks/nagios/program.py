"""A Nagios that runs on this machine: its object definitions, trials of them, and reloads.

A trial uses a directory that Nagios never reads when it starts, so a bridge that is killed during a verification
leaves nothing in Nagios' configuration.
"""

from __future__ import annotations

import bisect
import contextlib
import errno
import itertools
import os
import re
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.errors import NagiosError, ProgramError
from zkdeployment.base.machine import files as durable
from zkdeployment.base.machine import process
from zkdeployment.base.values import dataclass
from zkdeployment.checks.nagios.files import (
    NagiosObjectFile,
    instance_of_file,
    is_object_file,
    is_shared_file,
    is_temporary_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


_LARGEST = 4 << 20

#: Arguments may be secret: only the owner and the group have access.
_PROGRAM = 0o750
_DEFINITION = 0o640


class NagiosObjectDirectory:
    """The bridge's files in ``directory``, recognised by their names; other files are not touched.

    All methods raise ``NagiosError``.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[str, NagiosObjectFile] = {}

    def names(self) -> frozenset[str]:
        """Return the names of the files."""
        with self._errors("read"):
            self._directory.mkdir(mode=0o750, exist_ok=True)
            return frozenset(file.name for file in self._directory.iterdir() if is_object_file(file.name))

    def read(self) -> Mapping[str, NagiosObjectFile]:
        """Return the files by name."""
        known = {}
        for name in self.names():
            with self._errors("read"):
                file = self._directory / name
                content = durable.read(file, _LARGEST)
                if content is not None:
                    executable = file.stat().st_mode & 0o777 == _PROGRAM
                    known[name] = NagiosObjectFile(content.decode("utf-8", errors="replace"), executable)
        self._known = known
        return dict(known)

    def write(self, files: Mapping[str, NagiosObjectFile]) -> None:
        """Make ``files`` the definitions in the directory, each replaced atomically.

        Scripts that are no longer used stay until ``clean``, because Nagios may still run them.
        """
        # Scripts are written before definitions, and hosts and contacts before services; all are removed in the
        # reverse order. Therefore Nagios accepts the files that a killed bridge leaves behind.
        for name in sorted(files, key=lambda name: (not files[name].executable, not is_shared_file(name), name)):
            if self._known.get(name) != files[name]:
                self._replace(name, files[name])
        for name in sorted(self._known.keys() - files.keys(), key=lambda name: (is_shared_file(name), name)):
            if not name.endswith(".sh"):
                self._remove(name)

    def written(self) -> Mapping[str, float]:
        """Return when the definition of each check was written, by instance, in seconds since the epoch."""
        with self._errors("read"):
            times = {file.name: file.stat().st_mtime for file in self._directory.glob("check-*.cfg")}
        instances = {name: instance_of_file(name) for name in times}
        return {instance: times[name] for name, instance in instances.items() if instance is not None}

    def clean(self, files: Mapping[str, NagiosObjectFile]) -> None:
        """Remove all files of the bridge but ``files``, including those that a killed bridge left behind."""
        for name in sorted(self.names() - files.keys()):
            self._remove(name)
        with self._errors("read"):
            leftovers = [file.name for file in self._directory.iterdir() if is_temporary_file(file.name)]
        for name in leftovers:
            self._remove(name)

    def _replace(self, name: str, file: NagiosObjectFile) -> None:
        mode = _PROGRAM if file.executable else _DEFINITION
        # A crash of the machine may lose files without harm, because the bridge writes missing files again.
        with self._errors("write"):
            durable.replace(self._directory / name, file.text.encode(), mode=mode, sync=False)
            if name in self._known:
                # Nagios keeps the result of the former definition, and records the time of a result only in
                # seconds.
                later = time.time() + 1.0
                os.utime(self._directory / name, (later, later))
        self._known[name] = file

    def _remove(self, name: str) -> None:
        with self._errors("remove files in"):
            (self._directory / name).unlink(missing_ok=True)
        self._known.pop(name, None)

    @contextlib.contextmanager
    def _errors(self, act: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            place = error.filename or self._directory
            raise NagiosError(f"cannot {act} {place}: {error.strerror}; see objects in [nagios]") from error


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
    """A command that verifies definitions in a directory that Nagios does not read when it starts."""

    command: Sequence[str]
    definitions: Path
    objects: Path
    _starts: Sequence[int]
    _names: Sequence[str]

    def located(self, output: str) -> str:
        """Return the output of the command, with the paths of the trial replaced by the final ones."""
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
    """Return a main configuration with ``directory`` in place of ``objects``; ``None`` if it lacks ``objects``.

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


#: Seconds. Nagios needs about a second for 10,000 services.
_TIMEOUT = 120.0

_LARGEST_STATUS = 512 << 20


class LocalNagios:
    """Nagios, with its ``plugins`` directory and the commands that ``verify`` and ``reload`` its configuration.

    The definitions of the bridge are in ``objects``. If a word of ``verify`` names the main configuration, new
    definitions are verified in a copy of the configuration. Otherwise they are verified in their directory, whose
    former content is restored afterwards. Without a ``command_file`` external commands are dropped; without a
    ``status_file`` there is no status. All methods raise ``NagiosError``.
    """

    def __init__(
        self,
        *,
        objects: Path,
        plugins: Path,
        verify: Sequence[str],
        reload: Sequence[str],
        command_file: Path | None,
        status_file: Path | None,
    ) -> None:
        self._objects = objects
        self._plugins = plugins
        self._verify = verify
        self._reload = reload
        self._command_file = command_file
        self._status_file = status_file
        self._read_at: tuple[int, int] | None = None

    def has_plugin(self, name: str) -> bool:
        """Whether Nagios can run the plugin of this bare name."""
        plugin = self._plugins / name
        return plugin.is_file() and os.access(plugin, os.X_OK)

    def verify(self, files: Mapping[str, NagiosObjectFile]) -> str | None:
        """Return the output of Nagios about its configuration with ``files`` as the definitions of the bridge.

        Return ``None`` if the configuration is valid. The files in the directory do not change.
        """
        with configuration_trial(self._verify, self._objects, files) as trial:
            if trial is None:
                return self._verify_in_place(files)
            output = self._verified(trial.command)
            return None if output is None else trial.located(output)

    def _verify_in_place(self, files: Mapping[str, NagiosObjectFile]) -> str | None:
        directory = NagiosObjectDirectory(self._objects)
        before = directory.read()
        try:
            directory.write(files)
            return self._verified(self._verify)
        finally:
            directory.write(before)

    def _verified(self, command: Sequence[str]) -> str | None:
        completed = self._run(command, "verify")
        if completed.status < 0:
            raise NagiosError(f"{command[0]} was ended by signal {-completed.status} while it verified")
        return f"{completed.stdout}\n{completed.stderr}" if completed.status else None

    def reload(self) -> None:
        """Make Nagios read its configuration again."""
        completed = self._run(self._reload, "reload")
        try:
            completed.check()
        except ProgramError as error:
            raise NagiosError(f"Nagios was not reloaded: {error}; see reload in [nagios]") from error

    def submit(self, commands: Iterable[str]) -> None:
        """Pass external commands to Nagios."""
        if self._command_file is None:
            return
        try:
            descriptor = os.open(self._command_file, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                for command in commands:
                    os.write(descriptor, f"{command}\n".encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            reason = "Nagios does not read it" if error.errno == errno.ENXIO else error.strerror
            raise NagiosError(
                f"cannot pass commands to Nagios through {self._command_file}: {reason}; see command-file in"
                " [nagios]"
            ) from error

    def read_status(self) -> str | None:
        """Return the text of the status file; ``None`` if it is missing or has not changed since the last call."""
        if self._status_file is None:
            return None
        try:
            with self._status_file.open("rb") as file:
                status = os.fstat(file.fileno())
                identity = status.st_ino, status.st_mtime_ns
                if identity == self._read_at:
                    return None
                text = file.read(_LARGEST_STATUS).decode("utf-8", errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise NagiosError(
                f"cannot read {self._status_file}: {error.strerror}; see status-file in [nagios]"
            ) from error
        self._read_at = identity
        return text

    def _run(self, argv: Sequence[str], key: str) -> process.Completed:
        try:
            return process.run(argv, timeout=_TIMEOUT)
        except ProgramError as error:
            raise NagiosError(f"{error}; see {key} in [nagios]") from error
