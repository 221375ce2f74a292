"""The instances in service as a file of a load balancer: a template for any program, or Envoy's form.

The load balancer checks a new file before it loads the file. If the check refuses the file, the instances to which
it objects are omitted. A file that the check refuses for another reason is replaced by the one before.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import shlex
import shutil
import stat
import threading
import time
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

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
from zkdeployment.base.machine.halving import find_acceptable
from zkdeployment.base.machine.program import service_libraries
from zkdeployment.base.text import printable, printable_value
from zkdeployment.base.values import dataclass
from zkdeployment.providers.discovery import split_address, whole_number
from zkdeployment.providers.haproxy import ReloadNeededError, SocketUnusableError
from zkdeployment.providers.selection import ProviderSelection, select_providers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from fractions import Fraction
    from pathlib import Path

    from zkdeployment.base.json_values import Properties
    from zkdeployment.providers.haproxy_socket import RunningServers
    from zkdeployment.providers.reader import ZooKeeperProviderReader

#: Seconds that the check and the reload of a load balancer may take, each.
_LIMIT = 60.0

#: The most seconds until the file is compared with the list again, and the seconds after a failure.
_MOST_SECONDS = 15.0
_RETRY = 1.0

#: Seconds for the thread to end, which may be reloading the load balancer.
_CLOSING = _LIMIT

#: The form of an assignment in Envoy's API.
_ASSIGNMENT = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"


#: The most instances that are omitted because the check refuses them, and the largest share of all instances. With
#: more, the check refuses something else. Seconds until an omitted instance is checked again.
_MOST_OMITTED = 10
_LARGEST_SHARE = 0.5
_OMISSION = 300.0


#: The largest weight of HAProxy; other load balancers permit it, too.
_LARGEST_WEIGHT = 256


class UnusableContentError(ProgramError):
    """A template cannot be rendered with these servers, or the check of the load balancer refuses the file."""


@dataclass(frozen=True, slots=True)
class BalancedServer:
    """A server of a load balancer: an instance in service, with the texts in its properties in one line.

    ``name`` is the address without brackets, which HAProxy does not accept in names. A server with the weight 0
    gets no new connections.
    """

    address: str
    name: str
    host: str
    port: int
    properties: Mapping[str, Any]
    weight: int = 1


#: The servers of a file, and the problems of omitted instances.
FoundServers: TypeAlias = "tuple[tuple[BalancedServer, ...], tuple[str, ...]]"


def servers_of(selection: ProviderSelection, weight: str | None = None) -> FoundServers:
    """Return the instances in service by address, each server once, and the problems of instances.

    An address has to be HOST:PORT: an instance chooses it, and could otherwise add words to a configuration.
    ``weight`` is the property with the weight; an instance with a wrong one has the weight 1.
    """
    found: list[tuple[str, BalancedServer]] = []
    problems: list[str] = []
    for address in selection.addresses:
        try:
            server = _server(address, selection.providers[address])
        except ValueError as error:
            problems.append(f"instance {printable(address)} of {selection.path} is no server: {error}")
            continue
        try:
            server = replace(server, weight=_weight(selection.providers[address], weight))
        except ValueError as error:
            problems.append(f"instance {address} of {selection.path} has the weight {server.weight}: {error}")
        found.append((address, server))
    owners: dict[tuple[str, int], str] = {}
    servers = []
    for address, server in sorted(found, key=lambda entry: entry[0] != entry[1].address):
        owner = owners.setdefault((server.host.lower(), server.port), address)
        if owner == address:
            servers.append(server)
        else:
            problems.append(
                f"instance {address} of {selection.path} is omitted: instance {owner} is the same server"
            )
    return tuple(sorted(servers, key=attrgetter("address"))), tuple(problems)


def _server(address: str, properties: Properties) -> BalancedServer:
    """Return the server at an address; raises ``ValueError`` with what was expected."""
    host, port = split_address(address)
    try:
        shown = printable_value(properties)
    except RecursionError:
        raise ValueError("expected properties with less depth") from None
    return BalancedServer(f"{host}:{port}", f"{host.strip('[]')}:{port}", host, port, shown)


def _weight(properties: Properties, key: str | None) -> int:
    """Return the weight in a property, 1 without one; raises ``ValueError`` with what was expected."""
    value = None if key is None else properties.get(key)
    return 1 if value is None else whole_number(value, 0, _LARGEST_WEIGHT, "a number", f"the property {key}")


@dataclass(frozen=True, slots=True)
class BalancerForm:
    """The form of a file: the ``servers`` that it can have, and the content of a file with some of them.

    ``render`` raises ``UnusableContentError``.
    """

    servers: Callable[[ProviderSelection], FoundServers]
    render: Callable[[ProviderSelection, Sequence[BalancedServer]], bytes]


def _endpoints_of(selection: ProviderSelection, weight: str | None) -> FoundServers:
    """Return the servers with an IP address, because Envoy resolves no names here."""
    servers, problems = servers_of(selection, weight)
    endpoints = []
    for server in servers:
        try:
            ipaddress.ip_address(server.host.strip("[]"))
        except ValueError:
            problems += (f"instance {server.address} of {selection.path} is no endpoint: expected an IP address",)
        else:
            endpoints.append(server)
    return tuple(endpoints), problems


def _render_endpoints(selection: ProviderSelection, servers: Sequence[BalancedServer]) -> bytes:
    endpoints = [
        {
            "endpoint": {
                "address": {"socket_address": {"address": server.host.strip("[]"), "port_value": server.port}}
            },
            **_envoy_weight(server.weight),
        }
        for server in servers
    ]
    name = selection.path.rpartition("/")[2]
    resource = {"@type": _ASSIGNMENT, "cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]}
    answer = {"version_info": printable(selection.version or ""), "resources": [resource]}
    return f"{json.dumps(answer, indent=2)}\n".encode()


def _envoy_weight(weight: int) -> dict[str, Any]:
    """Return the keys of an endpoint for a weight: Envoy knows no weight 0, and 1 is the default."""
    if weight == 0:
        return {"health_status": "DRAINING"}
    return {} if weight == 1 else {"load_balancing_weight": weight}


def envoy_form(weight: str | None = None) -> BalancerForm:
    """Return the file of Envoy's endpoint discovery; ``weight`` as in ``servers_of``.

    The name of the cluster is that of the list.
    """
    return BalancerForm(partial(_endpoints_of, weight=weight), _render_endpoints)


def template_form(file: Path, weight: str | None = None) -> BalancerForm:
    """Return the form of a template of Jinja, which has ``servers``, ``version`` and ``path``.

    ``weight`` is as in ``servers_of``. Raises ``ConfigurationError`` for an invalid template.
    """
    with service_libraries():
        from jinja2 import StrictUndefined, TemplateSyntaxError  # noqa: PLC0415  few filters need it
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
    except Exception as error:  # a template can raise any error
        raise ConfigurationError(f"cannot compile the template {file}: {_described(error)}; correct it") from error

    def render(selection: ProviderSelection, servers: Sequence[BalancedServer]) -> bytes:
        version, path = printable(selection.version or ""), printable(selection.path)
        try:
            text: str = template.render(servers=servers, version=version, path=path)
            return text.encode()
        except Exception as error:  # a template can raise any error
            message = f"cannot render the template {file}: {_described(error)}; correct it"
            raise UnusableContentError(message) from error

    return BalancerForm(partial(servers_of, weight=weight), render)


def _described(error: Exception) -> str:
    return printable(f"{type(error).__name__}: {error}")


#: The access rights of a new file; a present one keeps its own.
_MODE = 0o644


class CheckedFile:
    """A file that another program has loaded; ``check`` and ``reload`` are commands, which may be empty.

    While a new file is checked, the former one is kept beside it, as ``.NAME.before``; ``.NAME.absent`` if no file
    existed. If this process is killed meanwhile, the next one begins with the former file.

    ``running`` are the servers of HAProxy, if they can be changed without a reload. The first file of a process is
    always reloaded, because the process does not know which one HAProxy has loaded.
    """

    def __init__(
        self,
        file: Path,
        check: Sequence[str] = (),
        reload: Sequence[str] = (),
        running: RunningServers | None = None,
    ) -> None:
        self._file, self._check, self._reload, self._running = file, check, reload, running
        self._before = file.with_name(f".{file.name}.before")
        self._absent = file.with_name(f".{file.name}.absent")
        self._loaded: bytes | None = None

    def verify(self, content: bytes) -> None:
        """Check this content, and restore the former file; raises what ``load`` raises."""
        with self._errors():
            self._replace(content)
            self._restore()

    def load(self, content: bytes) -> bool:
        """Replace the file, check it and load it; return false if the program has loaded this content.

        Raises ``UnusableContentError`` if the check refuses the file, and another ``ProgramError`` if the check
        does not run to its end, both after the former file was restored, and if the reload fails; the next call
        tries again. Raises ``HostFilesError`` if the file cannot be written.
        """
        loaded, self._loaded = self._loaded, None
        if content == loaded and (self._running is None or self._running.restore(content)):
            self._loaded = content
            return False
        try:
            with self._errors():
                former = self._replace(content)
                self._before.unlink(missing_ok=True)
                self._absent.unlink(missing_ok=True)
        except ProgramError:
            self._loaded = loaded
            raise
        if loaded in {None, content} or former != loaded or not self._is_changed(content):
            self._run_reload(content)
        self._loaded = content
        return True

    def _is_changed(self, content: bytes) -> bool:
        """Return whether the running servers could be changed without a reload."""
        if self._running is None:
            return False
        try:
            self._running.change(content)
        except ReloadNeededError as error:
            level = logging.WARNING if isinstance(error, SocketUnusableError) else logging.INFO
            get_logger().log(level, "balancer-reloading", file=str(self._file), reason=str(error))
            return False
        return True

    def _run_reload(self, content: bytes) -> None:
        if self._running is not None:
            self._running.begin_reload(content)
        if self._reload:
            process.run(self._reload, timeout=_LIMIT).check()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise HostFilesError(
                f"cannot write {self._file}: {error.strerror}; make its directory writable"
            ) from error

    def _replace(self, content: bytes) -> bytes | None:
        """Replace and check the file, and return the former one."""
        self._restore()
        former, mode = None, _MODE
        if self._file.exists():
            former, mode = self._file.read_bytes(), stat.S_IMODE(self._file.stat().st_mode)
        if former != content:
            files.replace(self._absent if former is None else self._before, former or b"", mode=mode)
            files.replace(self._file, content, mode=mode)
        error_class: type[ProgramError] = ProgramError
        try:
            if self._check:
                done = process.run(self._check, timeout=_LIMIT)
                error_class = UnusableContentError if done.status > 0 else ProgramError
                done.check()
        except ProgramError as error:
            self._restore()
            raise error_class(f"the new {self._file} is not used: {error}") from error
        return former

    def _restore(self) -> None:
        """Restore the former file, or its absence, if the check of the present file did not succeed."""
        if self._before.exists():
            self._before.replace(self._file)
        elif self._absent.exists():
            self._file.unlink(missing_ok=True)
            self._absent.unlink()


def command(text: str) -> tuple[str, ...]:
    """Return the words of a command; raises ``ConfigurationError`` if its program does not exist."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigurationError(f"cannot read the command {text!a}: {error}") from error
    if not words or shutil.which(words[0]) is None:
        raise ConfigurationError(f"cannot run {text!a}: expected a program in the path or with its path")
    return tuple(words)


class _Omission(NamedTuple):
    """A server that a file lacks, because the check refuses it, until it is checked again."""

    server: BalancedServer
    problem: str
    until: float


class _FruitlessSearch(NamedTuple):
    """Servers among which too many were refused, and the time until which they are not searched again."""

    servers: Sequence[BalancedServer]
    until: float


class LoadedServers(NamedTuple):
    """The result of ``ServersFile.load``: whether the file is new, the number of its servers, and the problems."""

    is_new: bool
    servers: int
    problems: tuple[str, ...]


class ServersFile:
    """A file with the servers that the check of its load balancer accepts.

    ``is_closed`` ends a search for refused servers; ``monotonic`` returns the seconds of a clock.
    """

    def __init__(
        self,
        form: BalancerForm,
        file: CheckedFile,
        is_closed: Callable[[], bool] = lambda: False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._form, self._file = form, file
        self._is_closed, self._monotonic = is_closed, monotonic
        self._omitted: tuple[_Omission, ...] = ()
        self._fruitless = _FruitlessSearch((), 0.0)

    def load(self, selection: ProviderSelection) -> LoadedServers:
        """Load the file with all servers that the check accepts, and return the problems of the others.

        Raises what ``CheckedFile.load`` raises; then the former file stays.
        """
        servers, problems = self._form.servers(selection)
        now = self._monotonic()
        self._omitted = tuple(found for found in self._omitted if found.until > now and found.server in servers)
        omitted = [found.server for found in self._omitted]
        given: Sequence[BalancedServer] = [server for server in servers if server not in omitted]
        try:
            is_new = self._file.load(self._form.render(selection, given))
        except UnusableContentError:
            accepted = self._search(selection, given)
            if accepted is None:
                raise
            is_new = self._file.load(self._form.render(selection, accepted))
            given = accepted
        return LoadedServers(is_new, len(given), (*problems, *(found.problem for found in self._omitted)))

    def _search(
        self, selection: ProviderSelection, servers: Sequence[BalancedServer]
    ) -> Sequence[BalancedServer] | None:
        """Omit the servers that the check refuses, and return the others; ``None`` if the servers are no cause."""
        now = self._monotonic()
        most = min(_MOST_OMITTED, int(_LARGEST_SHARE * len(servers)))
        if not most or (servers == self._fruitless.servers and now < self._fruitless.until):
            return None
        found = find_acceptable(servers, lambda part: self._objection(selection, part), most)
        if len(found.rejected) > most:
            self._fruitless = _FruitlessSearch(servers, now + _OMISSION)
            return None
        self._omitted += tuple(
            _Omission(
                server, f"instance {server.address} of {selection.path} is omitted: {words}", now + _OMISSION
            )
            for server, words in found.rejected
        )
        return found.accepted

    def _objection(self, selection: ProviderSelection, servers: Sequence[BalancedServer]) -> str | None:
        if self._is_closed():
            raise ProgramError("the filter ends during the search for servers that the check refuses")
        try:
            self._file.verify(self._form.render(selection, servers))
        except UnusableContentError as error:
            return error_message(error)
        return None


class BalancerFile:
    """Keeps the file of a load balancer equal to the list at ``path``, in a thread of its own.

    The file stays while ZooKeeper or the list is away. ``wake`` must be called when the list may have changed.
    """

    def __init__(
        self,
        reader: ZooKeeperProviderReader,
        path: str,
        majority: Fraction,
        form: BalancerForm,
        file: CheckedFile,
    ) -> None:
        self._reader, self._path, self._majority = reader, path, majority
        self._changed, self._closed = threading.Event(), threading.Event()
        self._file = ServersFile(form, file, self._closed.is_set)
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
            for problem in problems:
                if problem not in self._problems and not self._closed.is_set():
                    get_logger().warning("balancer-file-incomplete", path=self._path, reason=problem)
            self._problems = problems
            if not self._closed.is_set():
                self._changed.wait(pause)

    def _update(self) -> tuple[str, ...]:
        """Make the file equal to the list; return the problems of instances that it lacks."""
        self._reader.follow(self._path)
        selection = select_providers(self._reader.read(self._path), None, self._majority)
        loaded = self._file.load(selection)
        if loaded.is_new:
            version = selection.version
            get_logger().info("balancer-loaded", path=self._path, version=version, servers=loaded.servers)
        return loaded.problems
