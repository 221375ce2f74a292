"""A Nagios that runs on this machine."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from zkdeployment.adapters import process
from zkdeployment.adapters.nagios.object_directory import NagiosObjectDirectory
from zkdeployment.adapters.nagios.trial import configuration_trial
from zkdeployment.errors import NagiosError, ProgramError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from zkdeployment.nagios.object_files import NagiosObjectFile

#: Seconds. Nagios needs about a second for 10,000 services.
_TIMEOUT = 120.0

_LARGEST_STATUS = 512 << 20


class LocalNagios:
    """Nagios, with its ``plugins`` directory and the commands that ``verify`` and ``reload`` its configuration.

    Its definitions of the bridge are in ``objects``. They are verified in a copy of the configuration if a word of
    ``verify`` names the main configuration. Otherwise they are verified in their directory, and then restored.
    Without a ``command_file`` external commands are dropped; without a ``status_file`` there is no status.
    All methods raise ``NagiosError``.
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
        """Return what Nagios prints about its configuration with ``files`` as the definitions of the bridge.

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
        """Return the text of the status file; ``None`` without one, or if it is as at the last call."""
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
