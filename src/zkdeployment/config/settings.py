"""The settings of a configuration file: the table of ``[zkdeployment]``, and loading of all sections.

The tables of the other sections are in the modules ``settings`` of capabilities, which are imported only for files
with other sections and by the programs that need them.
"""

from __future__ import annotations

import os
import re
import socket
import stat
from dataclasses import field, replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from zkdeployment.base.errors import ConfigurationError, without_passwords
from zkdeployment.base.host import Identity, idle_role
from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.base.values import dataclass
from zkdeployment.config.forms import (
    ACL,
    COMMAND,
    FILE,
    ITEMS,
    METRICS_FILE,
    PAIRS,
    PATH,
    SECONDS,
    TEXT,
    WORDS,
    YES_NO,
    Form,
    Report,
    Section,
    SectionSettings,
    UnansweredError,
    checked,
    complete_acl,
    matching,
    number,
    one_of,
    parse,
    read_file,
    read_value,
    setting,
)
from zkdeployment.zookeeper.servers import Access, AclEntry, Servers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


T = TypeVar("T", bound=SectionSettings)

#: The configuration of a host.
SYSTEM_CONFIGURATION = Path("/etc/zkdeployment/zkdeployment.cfg")

DEFAULT_CONNECTION = "zookeeper:2181"

#: The labels of a host name have 63 characters at most, as Python cannot look up others.
_HOST = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,62}(?:\.[A-Za-z0-9_-]{1,63})*\.?"
_SERVER = re.compile(rf"(?:\[[0-9A-Fa-f:.]+\]|{_HOST})(?::(?P<port>[0-9]{{1,10}}))?")
_CHROOT = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._+:@~=-]+)+")
_CREDENTIALS = re.compile(r"[^\s:]+:\S+")
_MOST_CREDENTIALS = 1024

_MAIL_ADDRESS = r"[^\s,@]+(@[^\s,@]+)?(\s*,\s*[^\s,@]+(@[^\s,@]+)?)*"


def connection_problem(connection: str) -> str | None:
    """Return the reason why a connection string is invalid; ``None`` for a valid one."""
    servers, slash, chroot = connection.partition("/")
    for server in servers.split(","):
        problem = _server_problem(server, f"expected HOST:PORT[,HOST:PORT…][/CHROOT], found {connection!r}")
        if problem is not None:
            return problem
    if slash and chroot and _CHROOT.fullmatch(f"/{chroot}") is None:
        return f"expected a path like /chroot after the servers, found {'/' + chroot!r}"
    return None


def _server_problem(server: str, otherwise: str) -> str | None:
    """Return the reason why a server is invalid: ``otherwise``, unless only its port is out of range."""
    match = _SERVER.fullmatch(server)
    if match is None:
        return otherwise
    if match["port"] is not None and not 0 < int(match["port"]) < 65536:
        return f"expected a port from 1 to 65535 in {server!r}, found {match['port']}"
    return None


def _mail_server_problem(server: str) -> str | None:
    return _server_problem(server, f"expected HOST:PORT, found {server!r}")


def _external_text(text: str, report: Report) -> str | None:
    try:
        return read_value(text)
    except UnansweredError:
        raise
    except ConfigurationError as error:
        report(str(error))
        return None


def _host_id(text: str, report: Report) -> str | None:
    value = _external_text(text, report)
    problem = None if value is None else name_problem(NameKind.HOST_ID, value)
    if problem is None:
        return value
    report(problem)
    return None


def _role(text: str, report: Report) -> str | None:
    value = _external_text(text, report)
    idle = None if value is None else idle_role(value)
    role = value if idle is None else idle
    problem = None if role is None else name_problem(NameKind.ROLE, role)
    if problem is None:
        return value
    expected = "" if idle is None else "after lease:, expected the role of the host while it is not leased: "
    report(f"{expected}{problem}")
    return None


def _address(text: str, report: Report) -> str | None:
    try:
        ip_address(text)
    except ValueError:
        report(f"expected an IP address, found {text!r}")
        return None
    return text


def _checkout_sources(text: str, report: Report) -> tuple[str, ...] | None:
    """Return the prefixes of repositories that may be checked out; ``None`` for ``any``."""
    match text.split():
        case ["any"]:
            return None
        case ["none"]:
            return ()
        case prefixes:
            for prefix in prefixes:
                if "/" not in prefix and ":" not in prefix:
                    report(f"expected any, none or prefixes of URLs and paths, found {prefix!r}")
            return tuple(prefixes)


def _shown_sources(sources: tuple[str, ...] | None) -> list[str]:
    return ["any"] if sources is None else [without_passwords(each) for each in sources] or ["none"]


@dataclass(frozen=True, kw_only=True)
class Settings(SectionSettings):
    """The settings of a configuration file: the table of ``[zkdeployment]``, and the other sections.

    ``sections`` are the other sections by name, which ``of``, ``each_of`` and ``require`` return with their types.
    The ``require`` methods check values that only some verbs need. ``host_name`` is the name in the file, else the
    machine's own name. ``secret`` is the content of the file ``zookeeper_credentials``.
    """

    SECTION: ClassVar[str] = "zkdeployment"
    PLACE: ClassVar[int] = 0

    source: Path

    host_id: str | None = setting(Form(_host_id))
    """The unique id of the host: text, ``file:///path`` or ``http(s)://…``. Required by the agent and the monitor.

    Example: file:///etc/machine-id
    """

    host_name: str | None = setting(checked(partial(name_problem, NameKind.HOST_NAME)))
    """The unique name of the host. Default: the fully qualified name of the machine. A new host needs this key if
    its machine has no domain.

    Example: app1.example.com
    """

    role: str | None = setting(Form(_role))
    """The role of the host: text, ``file:///path`` or ``http(s)://…``. If the file is missing or the server
    answers 404, the host has no role. ``lease:IDLE`` makes a host that can be :doc:`leased
    <../operations/leases>`; ``IDLE`` is its role while it is not leased.

    Example: file:///etc/zkdeployment/role
    """

    run_directory: Path | None = setting(PATH)
    """The directory for the files ``status`` and ``host_version`` and for the agent's lock. Required by the agent
    and the monitor.

    Example: /var/run/zkdeployment
    """

    zookeeper: str = setting(checked(connection_problem), DEFAULT_CONNECTION)
    """The ZooKeeper servers, separated by commas, optionally followed by a chroot. The servers must be ZooKeeper
    3.6 or later.

    Example: zk1.example.com:2181,zk2.example.com:2181,zk3.example.com:2181/fleet
    """

    zookeeper_ca: Path | None = setting(FILE)
    """A file of certificates. With it connections are encrypted, and a server must present a certificate that one
    of these authorities signed for its name in ``zookeeper``.

    Example: /etc/zkdeployment/ca.pem
    """

    zookeeper_certificate: Path | None = setting(FILE)
    """The file of the client certificate that zkdeployment presents to servers that authenticate their clients.

    Example: /etc/zkdeployment/agent.pem
    """

    zookeeper_key: Path | None = setting(FILE)
    """The file of that certificate's key, without a passphrase. The file must not be accessible for everyone.

    Example: /etc/zkdeployment/agent.key
    """

    zookeeper_credentials: Path | None = setting(FILE)
    """A file with one line ``USER:PASSWORD``, an alternative to a client certificate. The file must not be
    accessible for everyone.

    Example: /etc/zkdeployment/zookeeper.credentials
    """

    zookeeper_plain_text: bool = setting(YES_NO, default=False)
    """``yes`` allows zkdeployment to send that password without ``zookeeper-ca``, over connections that are not
    encrypted.
    """

    zookeeper_acl: tuple[AclEntry, ...] = setting(ACL, ())
    """The access list of the nodes that zkdeployment creates (create, delete, read, write, administer), one entry
    per line: ``creator`` (the client that zkdeployment authenticates as), ``world:anyone``, ``digest:USER:HASH``,
    ``x509:SUBJECT``. Default: ``creator:cdrwa`` if the servers authenticate zkdeployment, otherwise
    ``world:anyone:cdrwa``.

    See :ref:`closing-zookeeper`.

    Example: creator:cdrwa
    """

    after: tuple[str, ...] = setting(COMMAND, ())
    """A command to run after each deployment. The command is split into words like a shell line, but no shell runs
    it.

    Example: /usr/bin/logger 'a deployment is done'
    """

    after_failure: tuple[str, ...] = setting(COMMAND, ())
    """A command to run after a deployment failed and the failure is reported. ``ZKDEPLOYMENT_STEP``,
    ``ZKDEPLOYMENT_ERROR`` and ``ZKDEPLOYMENT_VERSION`` (the revision) are in its environment.

    The command is split into words like ``after``. If the command fails, the agent logs that; the outcome of the
    deployment does not change.

    Example: /usr/local/bin/page-somebody
    """

    root: Path = setting(PATH, Path("/"))
    """The directory that is used in place of ``/`` on this host. Only one agent may use it."""

    address: str | None = setting(Form(_address))
    """The IP address that the host publishes. Default: the local address of its connection to ZooKeeper.

    Example: 192.0.2.7
    """

    tags: tuple[str, ...] = setting(ITEMS, ())
    """Tags of the host, separated by commas. Strategies select hosts by them.

    Example: control, ssd
    """

    labels: Mapping[str, str] = setting(PAIRS, dict[str, str]())
    """Labels of the host with their values. Strategies select hosts by them.

    Example: site=ams, tier=web
    """

    rack: str | None = setting(TEXT)
    """The name of the rack that holds the host. Strategies select hosts by it.

    Example: rack01
    """

    mailto: str | None = setting(matching(_MAIL_ADDRESS, "a mail address"))
    """The mail address that receives failures, with the last lines of the output.

    Example: ops@example.com
    """

    smtp: str = setting(checked(_mail_server_problem), "localhost:25")
    """The mail server."""

    script_timeout: float = setting(SECONDS, 0)
    """The number of seconds after which a script is terminated; 0: never."""

    stop_timeout: float = setting(SECONDS, 30)
    """The number of seconds that the current step may take after the agent is asked to stop. Then its script is
    terminated.

    The lock of the script's service is then kept for the host.
    """

    reboots: bool | None = setting(YES_NO)
    """Whether the agent reboots this host after updates of the operating system that need it, and for scripts that
    ask for it. Without reboots, the host reports that a reboot is due. Default: yes on a machine that systemd
    booted, with the root ``/``; otherwise no.
    """

    reboot_command: tuple[str, ...] = setting(COMMAND, ("systemctl", "reboot"))
    """The command that reboots this host. The command is split into words like ``after``.

    Example: /usr/sbin/shutdown -r now
    """

    lock_delay: float = setting(SECONDS, 60)
    """The number of seconds that the next lock holder waits for the script of a host that lost its ZooKeeper
    session; 0: do not wait.

    A kept lock does not depend on this number (:ref:`kept-locks`).
    """

    packages: str = setting(one_of("dnf", "none"), "dnf")
    """The package manager: ``dnf``, or ``none`` for hosts without RPM."""

    repositories: tuple[str, ...] = setting(WORDS, ())
    """For dnf: directories of ``.repo`` files, URLs, or ids of repositories to enable, separated by blanks.
    Default: those of the system.

    Example: /etc/zkdeployment/repos.d https://rpms.example.com/el9/
    """

    checkout_sources: tuple[str, ...] | None = setting(Form(_checkout_sources, _shown_sources))
    """The repositories from which hosts may check out software: prefixes of URLs or paths, separated by blanks;
    ``any``; or ``none``.

    Example: https://git.example.com/ git@git.example.com: /srv/git
    """

    publishers: Path | None = setting(PATH)
    """A file of the SSH keys of the syncers, in the format ALLOWED SIGNERS of ``ssh-keygen``. The agent then does
    nothing that is not in a publication signed by one of them (``publish-key``). Default: publications need no
    signature.

    On a host that can be leased, the agent then follows only leases signed by one of these keys (``lease-key`` in
    ``[pools]``). A change of the file takes effect without a reload.

    Example: /etc/zkdeployment/publishers
    """

    minimum_sequence: int = setting(number(2**53 - 1, "the sequence of a publication, a positive number"), 0)
    """With ``publishers``: the sequence of the oldest publication that the host deploys, as ``zkdeployment
    verify`` prints it. A host that has not verified any publication yet accepts no older one. Default: none.

    See :ref:`fresh-hosts`.

    Example: 1767225600
    """

    metrics: Path | None = setting(METRICS_FILE)
    """The file for the agent's metrics, for the textfile collector of Prometheus' node exporter. The name must end
    in ``.prom``.

    Example: /var/lib/node_exporter/textfile/zkdeployment-agent.prom
    """

    named: bool = False
    secret: str | None = field(default=None, repr=False)
    sections: Mapping[str, SectionSettings] = field(default_factory=dict)

    @property
    def access(self) -> Access:
        """The access to the ZooKeeper servers."""
        return Access(
            ca=self.zookeeper_ca,
            certificate=self.zookeeper_certificate,
            key=self.zookeeper_key,
            credentials=self.zookeeper_credentials,
            secret=self.secret,
            plain_text=self.zookeeper_plain_text,
            acl=self.zookeeper_acl,
        )

    @property
    def servers(self) -> Servers:
        """The ZooKeeper servers, with the access to them."""
        return Servers(self.zookeeper, self.access)

    @property
    def leasable(self) -> bool:
        """Whether leases decide the role of the host."""
        return self.role is not None and idle_role(self.role) is not None

    @property
    def identity(self) -> Identity | None:
        """The identity of this host, with its role while it is not leased; ``None`` without a ``host-id``."""
        if self.host_id is None:
            return None
        idle = None if self.role is None else idle_role(self.role)
        return Identity(self.host_id, self.host_name or self.host_id, self.role if idle is None else idle)

    def require_identity(self) -> Identity:
        """Return the identity of this host; raises ``ConfigurationError`` if the file does not specify it."""
        if self.identity is None:
            raise ConfigurationError(f"{self.source}: host-id not specified")
        return self.identity

    def require_run_directory(self) -> Path:
        """Return the run directory; raises ``ConfigurationError`` if the file does not specify it."""
        if self.run_directory is None:
            raise ConfigurationError(f"{self.source}: run-directory not specified")
        return self.run_directory

    def of(self, table: type[T]) -> T | None:
        """Return the settings of another section; ``None`` if the file does not have it."""
        found = self.sections.get(table.SECTION)
        return found if isinstance(found, table) else None

    def each_of(self, table: type[T]) -> dict[str, T]:
        """Return the settings of sections that a file may have several times, by their names."""
        found = ((name.partition(" ")[2], section) for name, section in self.sections.items())
        return {name: section for name, section in found if isinstance(section, table)}

    def given_or_default(self, table: type[T]) -> T | None:
        """Return the settings of another section, by default with the defaults of its keys.

        ``None`` if the file does not have a section that has required keys.
        """
        return self.of(table) or table.read(Section({}, authenticated=self.access.authenticated))

    def require(self, table: type[T]) -> T:
        """Return the same as ``given_or_default``; raises ``ConfigurationError`` instead of returning ``None``."""
        found = self.given_or_default(table)
        if found is None:
            problem = table.MISSING or f"the section [{table.SECTION}] not specified"
            raise ConfigurationError(f"{self.source}: {problem}")
        return found

    @classmethod
    def complete(cls, section: Section, values: dict[str, Any]) -> None:
        """Report problems of the host's name, of the access to ZooKeeper, and of its secret files."""
        values["named"] = "host-name" in section.texts
        if "host_id" in values and not values["named"]:
            values["host_name"] = name = machine_name()
            problem = name_problem(NameKind.HOST_NAME, name)
            if problem is not None:
                section.report("host-name", f"not specified, and the machine's own name is not usable: {problem}")
        _check_encryption(section, values)
        for key in ("zookeeper_key", "zookeeper_credentials"):
            _check_closed(section, key.replace("_", "-"), values.get(key))
        authenticated = "zookeeper_credentials" in values or "zookeeper_certificate" in values
        if "zookeeper_credentials" in values:
            values["secret"] = _secret(section, values["zookeeper_credentials"])
        complete_acl(replace(section, authenticated=authenticated), values, "zookeeper-acl")


def section_tables() -> dict[str, type[SectionSettings]]:
    """Return the tables of all sections by name, in the order of the manual."""
    from zkdeployment.base.features import installed  # noqa: PLC0415  agents need no features
    from zkdeployment.config.inventory import InventorySettings  # noqa: PLC0415  as above
    from zkdeployment.config.places import SettingsPlaces  # noqa: PLC0415  as above

    tables: list[type[SectionSettings]] = [Settings, InventorySettings]
    tables += (table for places in installed(SettingsPlaces) for table in places.sections())
    return {table.SECTION: table for table in sorted(tables, key=lambda table: table.PLACE)}


def load(path: Path, *, host: bool = True, sync: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of a configuration file; raises ``ConfigurationError`` with all problems.

    Raises ``UnansweredError`` if an address in the file has no answer at the moment.

    ``host=False`` omits ``identity``, for commands that concern only the fleet: the files and addresses that
    contain the host's id and role are not read. ``sync`` are values of ``[sync]`` that override the file.
    """
    texts, problems = parse(read_file(path), Settings, section_tables)
    main = texts.pop(Settings.SECTION, {})
    if sync:
        texts["sync"] = texts.get("sync", {}) | dict(sync)
    if not host:
        main = {key: text for key, text in main.items() if key not in _OF_HOST}
    try:
        settings = Settings(source=path, **Settings.values(Section(main, problems)))
    except UnansweredError as error:
        raise UnansweredError(f"{path}: {error}") from error
    if texts:
        settings = replace(
            settings, sections=_sections(texts, problems, authenticated=settings.access.authenticated)
        )
    problems += _shared_metrics(settings)
    if problems:
        raise ConfigurationError(
            "\n  ".join([f"{path}:", *problems]) if problems[1:] else f"{path}: {problems[0]}"
        )
    return settings


def _sections(
    texts: Mapping[str, Mapping[str, str]], problems: list[str], *, authenticated: bool
) -> dict[str, SectionSettings]:
    """Return the other sections of a file by their whole names, and add their problems."""
    sections: dict[str, SectionSettings] = {}
    for kind, table in section_tables().items():
        for name in (name for name in texts if name.partition(" ")[0] == kind and texts[name]):
            section = Section(texts[name], problems, authenticated)
            read = table.read(section)
            if read is not None:
                sections[name] = read
            elif table.IS_NAMED:
                problems += [f"{key} not specified in [{name}]" for key in table.lacking(section)]
    return sections


#: The keys about this host, which only the agent and the monitor need.
_OF_HOST = {"host-id", "host-name", "role"}


def machine_name() -> str:
    """Return the machine's own name, with the domain if DNS or ``/etc/hosts`` knows it."""
    return socket.getfqdn()


def _check_encryption(section: Section, values: Mapping[str, Any]) -> None:
    certificate, key = values.get("zookeeper_certificate"), values.get("zookeeper_key")
    if (certificate is None) != (key is None):
        section.report("zookeeper-certificate", "expected both this key and zookeeper-key, found only one of them")
    if "zookeeper_ca" in values:
        return
    if certificate is not None:
        section.report("zookeeper-certificate", "expected zookeeper-ca together with this key, found none")
    if "zookeeper_credentials" in values and not values.get("zookeeper_plain_text"):
        section.report(
            "zookeeper-credentials",
            "the password would cross the network unencrypted; expected zookeeper-ca, which enables encryption, or"
            " zookeeper-plain-text = yes in a network that is safe",
        )


def _check_closed(section: Section, key: str, file: Path | None) -> None:
    """Report a secret file that everyone can access."""
    if file is not None and (mode := stat.S_IMODE(file.stat().st_mode)) & stat.S_IRWXO:
        section.report(key, f"everyone has access to {file} (mode {mode:03o}); run chmod o-rwx {file}")


def _secret(section: Section, file: Path) -> str | None:
    """Return the only line of a credentials file."""
    with file.open("rb") as opened:
        secret = opened.read(_MOST_CREDENTIALS).decode("utf-8", errors="replace").strip()
    if _CREDENTIALS.fullmatch(secret) is None:
        section.report("zookeeper-credentials", f"expected one line USER:PASSWORD in {file}, found other content")
        return None
    return secret


def _shared_metrics(settings: Settings) -> Iterator[str]:
    """Yield a problem for each metrics file that several daemons would write."""
    files = [getattr(section, "metrics", None) for section in (settings, *settings.sections.values())]
    for file in {file for file in files if file is not None and files.count(file) > 1}:
        yield f"metrics: expected separate files for each daemon, found {file} twice"


def chosen_settings(config: Path | None) -> Settings:
    """Return the settings of a named configuration, else of the system's; raises ``ConfigurationError``."""
    return load(config or SYSTEM_CONFIGURATION, host=False)


def chosen_settings_if_any(config: Path | None) -> Settings | None:
    """Return the settings of a named configuration, else of the system's; ``None`` if that cannot be read."""
    return chosen_settings(config) if config or os.access(SYSTEM_CONFIGURATION, os.R_OK) else None


def find_servers(zookeeper: str | None, config: Path | None) -> Servers:
    """Return the ZooKeeper servers and the settings for access to them.

    The connection string is the first of: the option, the named configuration, ``ZC_ZK_CONNECTION_STRING``, the
    system's configuration, ``zookeeper:2181``. The settings for access are always from the configuration: the
    named one, else the system's. Raises ``ConfigurationError``.
    """
    inherited = None if config is not None else os.environ.get("ZC_ZK_CONNECTION_STRING")
    named = checked_connection(zookeeper, "--zookeeper")
    if named == "":  # perhaps an unset variable in a script: the default could be another fleet
        raise ConfigurationError("--zookeeper: expected HOST:PORT[,HOST:PORT…][/CHROOT], found nothing")
    given = named or checked_connection(inherited, "ZC_ZK_CONNECTION_STRING")
    settings = fleet_settings(config, required=not given)
    if settings is None:
        return Servers(given or DEFAULT_CONNECTION)
    configured = settings.servers
    return replace(configured, connection=given) if given else configured


def fleet_settings(config: Path | None, *, required: bool = False) -> Settings | None:
    """Return the settings of the named configuration, or else of the system's, without those of this host.

    ``None`` if the file does not exist, unless it is named and ``required``. Raises ``ConfigurationError``.
    """
    if (config is None or not required) and not _exists(config or SYSTEM_CONFIGURATION, required=required):
        return None
    return load(config or SYSTEM_CONFIGURATION, host=False)


def checked_connection(connection: str | None, where: str) -> str | None:
    """Return a connection string unchanged; raises ``ConfigurationError`` if it is malformed.

    ``where`` names the origin of the connection string in the error.
    """
    problem = connection_problem(connection) if connection else None
    if problem is not None:
        raise ConfigurationError(f"{where}: {problem}")
    return connection


def named_configuration() -> Path | None:
    """Return the path in ``ZKDEPLOYMENT_CONFIG``, ``None`` without it."""
    named = os.environ.get("ZKDEPLOYMENT_CONFIG")
    return Path(named) if named else None


def _exists(config: Path, *, required: bool) -> bool:
    """Return whether a configuration exists; an unreadable one counts only if it is ``required``."""
    if not required:
        return os.access(config, os.R_OK)
    try:
        return config.exists()
    except PermissionError:  # the directory is not accessible, which the reader of the file reports
        return True
