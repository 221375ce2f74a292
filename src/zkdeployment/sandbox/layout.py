"""The hosts and the files of a sandbox: their paths, its description, and the text of configuration files."""

from __future__ import annotations

import configparser
import io
import json
import math
import os
import re
import shlex
import tempfile
import time
from dataclasses import asdict, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import platformdirs

from zkdeployment.agent.packages.dnf import Dnf
from zkdeployment.agent.rules.rebooting import newest_kernel
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.machine import files as durable
from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.base.values import dataclass
from zkdeployment.documents.reading import read_host_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def default_directory() -> Path:
    """Return the default directory of a sandbox; raises ``ConfigurationError`` if the user has no home."""
    try:
        return Path(platformdirs.user_state_dir("zkdeployment", appauthor=False)) / "sandbox"
    except RuntimeError as error:
        raise ConfigurationError(
            "the user has no home for a sandbox; specify its directory with -d DIR"
        ) from error


class Layout:
    """The paths of a sandbox; ``directory`` is absolute. Each daemon has a directory of its name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.description = directory / "sandbox.json"  # describes the sandbox, and marks the directory as one
        self.lock = directory / "lock"  # held by a command that changes the sandbox
        self.config = (
            directory / "sandbox.cfg"
        )  # of the tools, and of daemons except agents and the bridge of Nagios
        self.tree = directory / "tree.git"  # the bare repository of the tree
        self.mirror = directory / "push.git"  # the repository from which the sandbox pushes
        self.repository = directory / "rpm"  # the RPM repository, its keys and its definition
        self.syncer = directory / "syncer"
        self.syncer_tree = self.syncer / "tree"  # apart from that of the tools, so that ``sync`` works manually
        self.nagios = directory / "nagios"  # Nagios and its bridge
        self.promoter = directory / "promoter"  # the promoter, if the sandbox is the home of several fleets
        self.tokens = self.promoter / "tokens"  # its keys, each in a file with the name of the fleet
        self.operator_tokens = directory / "operator-tokens"  # the keys of operators of the fleets

    def server(self, number: int) -> Path:
        """Return the directory of a ZooKeeper server."""
        return self.directory / f"zookeeper{number}"

    def fleet(self, name: str) -> Path:
        """Return the directory of another fleet's sandbox, of which this sandbox is the home."""
        return self.directory / "fleets" / name

    def host(self, host_id: str) -> HostLayout:
        """Return the paths of a host."""
        return HostLayout(self.directory / "hosts" / host_id)


#: The running kernel of a host without a package of a kernel.
_NO_KERNEL = "none"


class HostLayout:
    """The paths of one host; ``root`` stands for ``/``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.root = directory / "root"
        self.run = directory / "run"
        self.config = directory / "agent.cfg"

    def boot(self) -> None:
        """Give the host the boot id, the time and the running kernel of a new boot.

        Packages that were installed within the same second count as older than the boot.
        """
        has_packages = (self.root / "var/lib/rpm").exists()
        kernel = (newest_kernel(Dnf(self.root, ()).installed()) if has_packages else None) or _NO_KERNEL
        booted = math.ceil(time.time())
        init = self.root / "proc" / "1"
        init.mkdir(parents=True, exist_ok=True)
        os.utime(init, (booted, booted))
        for name, text in (
            ("sys/kernel/random/boot_id", str(uuid4())),
            ("sys/kernel/osrelease", kernel),
            ("uptime", f"{booted}.00 0.00"),  # the begin of process 1 alone decides
        ):
            file = self.root / "proc" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            durable.replace(file, f"{text}\n".encode())


@dataclass(frozen=True, slots=True)
class SandboxService:
    """The service of a sandbox: the port that it listens on, and an admin of it with its key."""

    port: int
    user: str
    key: str = field(repr=False)

    @property
    def url(self) -> str:
        """The address of the service."""
        return f"http://127.0.0.1:{self.port}"


@dataclass(frozen=True, slots=True)
class SandboxDescription:
    """The parts of a sandbox, as stored in its directory.

    ``ports`` maps the numbers of ZooKeeper servers to ports for clients, for the other servers, and for elections.
    ``branch`` is the branch that people push, ``follows`` the one that the syncer follows, by default the same.
    ``home`` is the directory of the sandbox whose repositories this one uses. ``fleets`` are the names of the
    fleets of which this sandbox is the home, itself included.
    """

    hosts: tuple[Host, ...]
    ports: Mapping[int, tuple[int, int, int]]
    syncer: bool
    branch: str = "main"
    service: SandboxService | None = None
    follows: str | None = None
    home: str | None = None
    fleets: tuple[str, ...] = ()

    @property
    def zookeeper(self) -> str:
        """The connection string."""
        return ",".join(f"127.0.0.1:{client}" for client, _, _ in self.ports.values())

    def save(self, file: Path) -> None:
        """Write the description to ``file`` atomically."""
        content = {
            "hosts": {host.identity.id: host.properties() for host in self.hosts},
            "ports": self.ports,
            "syncer": self.syncer,
            "branch": self.branch,
            "service": None if self.service is None else asdict(self.service),
            "follows": self.follows,
            "home": self.home,
            "fleets": self.fleets,
        }
        write_private(file, json.dumps(content, indent=2) + "\n")

    @classmethod
    def load(cls, file: Path) -> SandboxDescription:
        """Return the description in ``file``; raises ``ConfigurationError`` if it is missing or damaged."""
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            return cls(
                hosts=tuple(Host.from_properties(*item) for item in content["hosts"].items()),
                ports={int(number): tuple(ports) for number, ports in content["ports"].items()},
                syncer=bool(content["syncer"]),
                branch=str(content["branch"]),
                service=SandboxService(**content["service"]) if content.get("service") else None,
                follows=content.get("follows"),
                home=content.get("home"),
                fleets=tuple(content.get("fleets", ())),
            )
        except FileNotFoundError as error:
            raise ConfigurationError(
                f"there is no sandbox in {file.parent}; start one with: zkdeployment sandbox up -d {file.parent}"
            ) from error
        except OSError as error:
            raise ConfigurationError(f"cannot read {file}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigurationError(
                f"{file} is damaged; remove the sandbox with: zkdeployment sandbox down -d {file.parent}"
            ) from error


def agent_configuration(
    place: HostLayout, host: Host, *, zookeeper: str, repositories: Path, reboot: Sequence[str]
) -> str:
    """Return the text of a host's configuration; ``reboot`` is the command that reboots the host."""
    return _ini(
        {
            "zkdeployment": {
                "host-id": host.identity.id,
                "host-name": host.identity.name,
                "role": host.identity.role,
                "run-directory": str(place.run),
                "zookeeper": zookeeper,
                "root": str(place.root),
                "tags": ", ".join(host.tags),
                "labels": ", ".join(f"{key}={value}" for key, value in host.labels.items()),
                "rack": host.rack,
                "lock-delay": "5",
                "packages": "dnf",
                "repositories": str(repositories),
                "reboots": "yes",
                "reboot-command": shlex.join(reboot),
            }
        }
    )


def tools_configuration(layout: Layout, description: SandboxDescription, url: str) -> str:
    """Return the text of the configuration of the tools and of all daemons but agents and the bridge of Nagios.

    ``url`` is the address of the tree's repository.
    """
    service, follows = description.service, description.follows
    sections: dict[str, Mapping[str, str | None]] = {
        "zkdeployment": {"zookeeper": description.zookeeper, "run-directory": str(layout.syncer)},
        "sync": {
            "url": url,
            "branch": follows or description.branch,
            "contained-in": None if follows is None else description.branch,
            "tree-directory": str(layout.directory / "tree"),
            "interval": "1",
        },
        "checks": {"interval": "2"},
        "server": {"listen": None if service is None else f"127.0.0.1:{service.port}"},
    }
    if description.fleets:
        sections["promote"] = {
            "url": url,
            "branch": description.branch,
            "directory": str(layout.promoter / "tree"),
            "token-directory": str(layout.tokens),
            "operator-token-directory": str(layout.operator_tokens),
            "interval": "1",
        }
    return _ini(sections)


def nagios_configuration(values: Mapping[str, str], *, root: Path) -> str:
    """Return the text of the configuration of a bridge with these values of ``[nagios]``."""
    return _ini({"zkdeployment": {"root": str(root)}, "nagios": values})


def _ini(sections: Mapping[str, Mapping[str, str | None]]) -> str:
    parser = configparser.ConfigParser(interpolation=None)
    for section, values in sections.items():
        parser[section] = {key: value for key, value in values.items() if value}
    text = io.StringIO()
    parser.write(text)
    return text.getvalue()


def write_private(file: Path, text: str) -> None:
    """Replace a file atomically; only the owner has access."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    with os.fdopen(descriptor, "w", encoding="utf-8") as temporary:
        temporary.write(text)
        temporary.flush()
        os.fsync(temporary.fileno())
    Path(name).replace(file)


def log_tail(log: Path, lines: int = 5) -> str:
    """Return the last lines of a log as one line for a message."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "no output"
    printed: Sequence[str] = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(printed[-lines:]) or "no output"


#: Names of other members of a sandbox, for ``sandbox stop`` and ``sandbox start``.
_OTHER_MEMBERS = re.compile(r"syncer|coordinator|promoter|server|pools|nagios|zookeeper\d+")

#: The limit of agents on one machine; a larger number is probably a mistake.
MAX_HOSTS = 1000


def read_hosts(text: str) -> tuple[Host, ...]:
    """Return the hosts that ``text`` specifies: a number of hosts, or the path of a file.

    Raises ``ConfigurationError``.
    """
    if text.isascii() and text.isdigit():
        return numbered(int(text))
    try:
        document = read_host_document(text, Path(text).read_bytes())
    except OSError as error:
        raise ConfigurationError(
            f"--hosts: expected a number of hosts or a readable file, found {text}: {error.strerror}"
        ) from error
    values: Any = document.value
    if not values:
        raise ConfigurationError(f"{text}: expected a mapping of host ids to {{name, role, tags, labels, rack}}")
    hosts = tuple(
        _host("{}:{}:{}: {}".format(text, *document.place((host_id,)), host_id), host_id, facts or {})
        for host_id, facts in values.items()
    )
    _check_names(text, hosts)
    return hosts


def numbered(count: int) -> tuple[Host, ...]:
    """Return ``count`` hosts ``host1`` (``host1.sandbox``) and so on; raises ``ConfigurationError``."""
    if not 1 <= count <= MAX_HOSTS:
        raise ConfigurationError(f"--hosts: expected 1 to {MAX_HOSTS} hosts, found {count}")
    return tuple(Host(Identity(f"host{number}", f"host{number}.sandbox")) for number in range(1, count + 1))


def _host(where: str, host_id: str, values: Mapping[str, Any]) -> Host:
    name = values.get("name") or f"{host_id}.sandbox"
    role = values.get("role") or None
    problem = (
        name_problem(NameKind.HOST_ID, host_id)
        or (
            f"{host_id} is the name of another member of the sandbox"
            if _OTHER_MEMBERS.fullmatch(host_id)
            else None
        )
        or name_problem(NameKind.HOST_NAME, name)
        or (name_problem(NameKind.ROLE, role) if role else None)
    )
    if problem:
        raise ConfigurationError(f"{where}: {problem}")
    return Host(
        Identity(host_id, name, role),
        tags=tuple(values.get("tags") or ()),
        labels=values.get("labels") or {},
        rack=values.get("rack") or None,
    )


def _check_names(where: str, hosts: Sequence[Host]) -> None:
    seen: dict[str, str] = {}
    for host in hosts:
        other = seen.setdefault(host.identity.name, host.identity.id)
        if other != host.identity.id:
            raise ConfigurationError(
                f"{where}: {other} and {host.identity.id} have the same name {host.identity.name}"
            )
