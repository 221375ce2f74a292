"""The instances in service as a file of a load balancer: a template for any program, or Envoy's form.

The load balancer checks a new file before it loads the file. A file that the check refuses is replaced by the one
before.
"""

from __future__ import annotations

import ipaddress
import json
import shlex
import shutil
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zkdeployment.base.errors import (
    ConfigurationError,
    HostFilesError,
    LinkError,
    ProgramError,
    UnreachableError,
    error_message,
)
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import files, process
from zkdeployment.base.machine.program import service_libraries
from zkdeployment.base.text import printable
from zkdeployment.providers.discovery import split_address
from zkdeployment.providers.selection import ProviderSelection, select_providers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from fractions import Fraction
    from pathlib import Path

    from zkdeployment.providers.reader import ZooKeeperProviderReader

#: Seconds that the check and the reload of a load balancer may take, each.
_LIMIT = 60.0

#: Seconds until the file is compared with the list again: at most, and after a failure.
_MOST_SECONDS = 15.0
_RETRY = 1.0

#: Seconds for the thread to end, which may be reloading the load balancer.
_CLOSING = _LIMIT

#: The form of an assignment in Envoy's API.
_ASSIGNMENT = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"


@dataclass(frozen=True, slots=True)
class BalancedServer:
    """A server of a load balancer: an instance in service, with the texts in its properties in one line."""

    address: str
    host: str
    port: int
    properties: Mapping[str, Any]


def servers_of(selection: ProviderSelection) -> tuple[tuple[BalancedServer, ...], tuple[str, ...]]:
    """Return the instances in service by address, and the problems of instances whose address is not HOST:PORT.

    An address could otherwise add words to a configuration, because the instance chooses it.
    """
    servers, problems = [], []
    for address in selection.addresses:
        try:
            host, port = split_address(address)
        except ValueError as error:
            problems.append(f"instance {printable(address)} of {selection.path} is no server: {error}")
            continue
        properties = {
            printable(name): printable(value) if isinstance(value, str) else value
            for name, value in selection.providers[address].items()
        }
        servers.append(BalancedServer(f"{host}:{port}", host, port, properties))
    return tuple(servers), tuple(problems)


def envoy_endpoints(selection: ProviderSelection) -> tuple[bytes, tuple[str, ...]]:
    """Return the file of Envoy's endpoint discovery, and the problems of omitted instances.

    The name of the cluster is that of the list. Servers need IP addresses, because Envoy resolves no names here.
    """
    servers, problems = servers_of(selection)
    endpoints = []
    for server in servers:
        try:
            address = str(ipaddress.ip_address(server.host.strip("[]")))
        except ValueError:
            problems += (f"instance {server.address} of {selection.path} is no endpoint: expected an IP address",)
            continue
        place = {"socket_address": {"address": address, "port_value": server.port}}
        endpoints.append({"endpoint": {"address": place}})
    name = selection.path.rpartition("/")[2]
    resource = {"@type": _ASSIGNMENT, "cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]}
    answer = {"version_info": printable(selection.version or ""), "resources": [resource]}
    return f"{json.dumps(answer, indent=2)}\n".encode(), problems


def template_renderer(file: Path) -> Callable[[ProviderSelection], tuple[bytes, tuple[str, ...]]]:
    """Return the function that renders a template of Jinja, and returns the problems of omitted instances.

    The template has ``servers``, ``version`` and ``path``. Raises ``ConfigurationError`` for an invalid template;
    the function raises ``ProgramError``.
    """
    with service_libraries():
        from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError  # noqa: PLC0415  few filters need it
        from jinja2.sandbox import SandboxedEnvironment  # noqa: PLC0415  as above
    options: Any = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    environment = SandboxedEnvironment(undefined=StrictUndefined, **options)
    try:
        template = environment.from_string(file.read_text(encoding="utf-8"))
    except TemplateSyntaxError as error:
        raise ConfigurationError(f"{file}:{error.lineno}: the template is invalid: {error.message}") from error
    except OSError as error:
        raise ConfigurationError(f"cannot read the template {file}: {error.strerror}") from error
    except UnicodeError as error:
        raise ConfigurationError(f"cannot read the template {file}: expected UTF-8, found {error}") from error

    def render(selection: ProviderSelection) -> tuple[bytes, tuple[str, ...]]:
        servers, problems = servers_of(selection)
        version = printable(selection.version or "")
        try:
            text = template.render(servers=servers, version=version, path=selection.path)
        except (TemplateError, TypeError, ValueError, ArithmeticError) as error:
            raise ProgramError(f"cannot render the template {file}: {error}; correct it") from error
        return text.encode(), problems

    return render


class CheckedFile:
    """A file that another program has loaded; ``check`` and ``reload`` are commands, which may be empty.

    While a new file is checked, the former one is kept beside it, as ``.NAME.before``, which is empty if no file
    existed: if this process is killed meanwhile, the next one begins with the former file.
    """

    def __init__(self, file: Path, check: Sequence[str] = (), reload: Sequence[str] = ()) -> None:
        self._file, self._check, self._reload = file, check, reload
        self._before = file.with_name(f".{file.name}.before")
        self._loaded: bytes | None = None

    def load(self, content: bytes) -> bool:
        """Replace the file, check it and reload the program; return false if the program has loaded this content.

        Raises ``ProgramError`` if the check fails, after the former file was restored, and if the reload fails;
        the next call tries again. Raises ``HostFilesError`` if the file cannot be written.
        """
        if content == self._loaded:
            return False
        self._loaded = None
        try:
            self._replace(content)
        except OSError as error:
            raise HostFilesError(
                f"cannot write {self._file}: {error.strerror}; make its directory writable"
            ) from error
        if self._reload:
            process.run(self._reload, timeout=_LIMIT).check()
        self._loaded = content
        return True

    def _replace(self, content: bytes) -> None:
        self._restore()
        former = self._file.read_bytes() if self._file.exists() else None
        if former != content:
            files.replace(self._before, former or b"")
            files.replace(self._file, content)
        try:
            if self._check:
                process.run(self._check, timeout=_LIMIT).check()
        except ProgramError as error:
            self._restore()
            raise ProgramError(f"the new {self._file} is not used: {error}") from error
        self._before.unlink(missing_ok=True)

    def _restore(self) -> None:
        """Restore the former file, or its absence, if the check of the present file did not succeed."""
        if self._before.exists() and self._before.stat().st_size:
            self._before.replace(self._file)
        elif self._before.exists():
            self._file.unlink(missing_ok=True)
            self._before.unlink()


def command(text: str) -> tuple[str, ...]:
    """Return the words of a command; raises ``ConfigurationError`` if its program does not exist."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigurationError(f"cannot read the command {text!a}: {error}") from error
    if not words or shutil.which(words[0]) is None:
        raise ConfigurationError(f"cannot run {text!a}: expected a program in the path or with its path")
    return tuple(words)


class BalancerFile:
    """Keeps the file of a load balancer equal to the list at ``path``, in a thread of its own.

    The file stays while ZooKeeper or the list is away. ``wake`` must be called when the list may have changed.
    """

    def __init__(
        self,
        reader: ZooKeeperProviderReader,
        path: str,
        majority: Fraction,
        render: Callable[[ProviderSelection], tuple[bytes, tuple[str, ...]]],
        file: CheckedFile,
    ) -> None:
        self._reader, self._path, self._majority = reader, path, majority
        self._render, self._file = render, file
        self._changed, self._closed = threading.Event(), threading.Event()
        self._problems: tuple[str, ...] = ()
        self._thread = threading.Thread(target=self._run, name="balancer-file", daemon=True)

    def start(self) -> None:
        """Begin to keep the file."""
        self._thread.start()

    def wake(self) -> None:
        """Compare the file with the list now; never blocks."""
        self._changed.set()

    def close(self) -> None:
        """Keep the file no longer."""
        self._closed.set()
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSING)

    def _run(self) -> None:
        while not self._closed.is_set():
            self._changed.clear()
            pause = _MOST_SECONDS
            try:
                problems = self._update()
            except (ProgramError, HostFilesError) as error:
                problems = (error_message(error),)
            except (UnreachableError, LinkError, ConfigurationError) as error:
                problems, pause = (error_message(error),), _RETRY
            except Exception:  # noqa: BLE001  the next attempt may succeed
                get_logger().exception("balancer-file-failed")
                problems = ("a defect of the program",)
            if problems and problems != self._problems:
                get_logger().warning("balancer-file-incomplete", path=self._path, reason=problems[0])
            self._problems = problems
            if not self._closed.is_set():
                self._changed.wait(pause)

    def _update(self) -> tuple[str, ...]:
        """Make the file equal to the list; return the problems of instances that it lacks."""
        self._reader.follow(self._path)
        selection = select_providers(self._reader.read(self._path), None, self._majority)
        content, problems = self._render(selection)
        if self._file.load(content):
            servers = len(selection.providers) - len(problems)
            get_logger().info("balancer-loaded", path=self._path, version=selection.version, servers=servers)
        return problems
