"""The tables of the sections for the syncer, the coordinator, the promoter, Nagios and host pools."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from zkdeployment.base.durations import duration_seconds
from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.config.forms import (
    COMMAND,
    LONGEST_WAIT,
    METRICS_FILE,
    PATH,
    POSITIVE_SECONDS,
    REQUIRED,
    TEXT,
    WORDS,
    Form,
    SectionSettings,
    checked,
    matching,
    number,
    setting,
)

if TYPE_CHECKING:
    from zkdeployment.config.forms import Report, Section

# Common names that git refuses for a branch; the final decision is that of ``git check-ref-format``.
_NOT_A_BRANCH = re.compile(r"^[-/.]|[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|[/.]$|\.lock(/|$)")

# The path of a node, or the root.
_NODE_PATH = re.compile(r"/|(/[^/\s]+)+")

#: A path that is the same in Nagios' files and for a shell.
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9._/+@:-]*")

_LISTEN = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9_][A-Za-z0-9._-]*)):(?P<port>\d{1,5})")

LOOPBACK = ("127.0.0.1", "localhost", "::1")

_TEMPLATE = matching(r"[A-Za-z0-9_][A-Za-z0-9._ -]{0,120}", "the name of a template of Nagios")


def _branch_problem(text: str) -> str | None:
    return f"expected the name of a branch, found {text!r}" if _NOT_A_BRANCH.search(text) else None


def paths_problem(text: str) -> str | None:
    """Return the problem of a list of paths of nodes; ``None`` for a valid list."""
    wrong = [path for path in text.split() if not _NODE_PATH.fullmatch(path)]
    return f"expected paths of nodes, separated by blanks, as in /p1 /net, found {wrong[0]!r}" if wrong else None


def _node_paths(text: str, report: Report) -> tuple[str, ...]:
    if problem := paths_problem(text):
        report(problem)
    return tuple(text.split())


def listen_problem(text: str) -> str | None:
    """Return why a listening address is invalid; ``None`` for a valid one."""
    match = _LISTEN.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        return f"expected ADDRESS:PORT, for example 127.0.0.1:8420 or [::]:8420, found {text!r}"
    if match["ipv6"] is not None:
        try:
            ipaddress.IPv6Address(match["ipv6"])
        except ValueError:
            return f"expected an IPv6 address in brackets, found {text!r}"
    return None


def split_listen(listen: str) -> tuple[str, int]:
    """Return the host and the port of a listening address without problems."""
    host, _, port = listen.rpartition(":")
    return host.strip("[]"), int(port)


def base_url_problem(text: str) -> str | None:
    """Return why the address of a service is invalid; ``None`` for a valid one."""
    expected = f"expected http://HOST[:PORT] or https://HOST[:PORT], found {text!r}"
    try:
        parts = urlsplit(text)
        has_place = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return expected
    has_more = parts.path not in {"", "/"} or parts.query or parts.fragment or parts.username is not None
    return None if parts.scheme in {"http", "https"} and has_place and not has_more else expected


def _base_url(text: str, report: Report) -> str | None:
    if problem := base_url_problem(text):
        report(problem)
    return text.rstrip("/") or None


def _plain_path(text: str, report: Report) -> Path | None:
    path = PATH.read(text, report)
    if path is None or _PLAIN_PATH.fullmatch(str(path)):
        return path
    report(f"expected a path of letters from a to z, digits and . _ + @ : - only, found {str(path)!r}")
    return None


def _file_on_nodes_problem(text: str) -> str | None:
    """Return why a path is not plain enough to become part of a command on the nodes."""
    if _PLAIN_PATH.fullmatch(text):
        return None
    return f"expected the absolute path of a file, of letters, digits and . _ + @ : - only, found {text!r}"


def _duration(text: str, report: Report) -> float | None:
    """Return the seconds of a duration above zero, of at most a year: a number, or text such as ``5m``."""
    is_number = re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text)
    seconds = float(text) if is_number else duration_seconds(text) or 0.0
    if 0 < seconds <= LONGEST_WAIT:
        return seconds
    report(f"expected seconds above 0, or a duration as in 5m, at most a year, found {text!r}")
    return None


BASE_URL = Form(_base_url)
LISTEN = checked(listen_problem)


@dataclass(frozen=True, kw_only=True)
class SyncSettings(SectionSettings):
    """The settings of the syncer: the table of ``[sync]``."""

    url: str = setting(TEXT, REQUIRED)
    """The repository of the tree: any URL that git can clone, or a directory of a Subversion repository
    (``svn://``, ``svn+ssh://``, ``svn:https://…``, or ``file://`` of a Subversion repository). Required by the
    syncer.

    Example: git@git.example.com:ops/tree.git
    """

    branch: str | None = setting(checked(_branch_problem))
    """The branch to follow (git only). Default: the default branch of the repository.

    Example: production
    """

    contained_in: str | None = setting(checked(_branch_problem))
    """A branch of the repository that has to contain what is published from ``branch`` (git only): who moves
    ``branch`` can then only choose among the commits of that branch. Default: ``branch`` alone decides.

    A fleet under promotion follows its own branch, which the promoter moves (:ref:`promoted-branches`). The one
    exception are the fleet's own rollbacks: commits whose files are those that ``zkdeployment rollback`` writes,
    signed if ``allowed-signers`` is set.

    Example: main
    """

    tree_directory: Path = setting(PATH, REQUIRED)
    """The directory for the mirror of the repository, used by nothing else. The systemd unit may write only here.
    Required by the syncer.

    Example: /var/lib/zkdeployment/syncer/tree
    """

    interval: float | None = setting(POSITIVE_SECONDS)
    """The number of seconds between two fetches of ``zkdeployment sync --interval``.

    Example: 60
    """

    allowed_signers: Path | None = setting(PATH)
    """A file of SSH keys (the format ALLOWED SIGNERS of ``ssh-keygen``) or of OpenPGP keys (as ``gpg --armor
    --export`` writes them). Only commits signed by one of these keys are published (git only). To retire a key,
    remove it from the file.

    Example: /etc/zkdeployment/allowed_signers
    """

    approvers: Path | None = setting(PATH)
    """A file of SSH keys, in the format ALLOWED SIGNERS of ``ssh-keygen``. Approvals of :doc:`intents
    <../intents>` then count only with a signature by one of these keys, made by another person than the one who
    signed the commit that brought the content (git only). Default: approvals need no signature.

    The syncer reads the file, and so do the service, the coordinator and the verbs that commit acts.

    Example: /etc/zkdeployment/approvers
    """

    approval_rules: Path | None = setting(PATH)
    """A file of rules for these approvals, one a line: ``PATH NUMBER DAYS NAME…``, as in ``/p1 2 30
    alice@example.com bob@example.com``. Default: one approval by any of the ``approvers``, without a limit.

    The rules state how many approvers have to approve which paths, who of them may, and how long an approval
    counts (:ref:`approval-rules`).

    Example: /etc/zkdeployment/approval-rules
    """

    governed_paths: tuple[str, ...] = setting(Form(_node_paths), ())
    """Paths of nodes, separated by blanks; ``/`` stands for all services. Every service at and below them needs an
    :doc:`intent <../intents>`, or nothing is published. Default: services need no intent.

    ``lint`` checks the same with ``--governed-path``, or with ``--config``.

    Example: /p1 /net
    """

    push_url: str | None = setting(TEXT)
    """The repository that acts which are commits are pushed to, such as those of ``zkdeployment rollback`` (git
    only). Default: ``url``.

    The service, the coordinator and the verbs use this repository, which has to be the one that the syncer
    reads, or its upstream.

    Example: git@git.example.com:ops/tree.git
    """

    push_key: Path | None = setting(PATH)
    """The SSH private key for ``push-url``. Default: the keys of the user.

    Example: /etc/zkdeployment/push_key
    """

    signing_key: Path | None = setting(PATH)
    """The file of the SSH private key or the OpenPGP secret key, without a passphrase, that signs these commits.
    With ``allowed-signers`` such acts need this key.

    Example: /etc/zkdeployment/signing_key
    """

    publish_key: Path | None = setting(PATH)
    """The file of the SSH private key, without a passphrase, that signs each publication. Only the syncer's user
    may read the file. Default: publications are not signed.

    See :doc:`../operations/signing`.

    Example: /etc/zkdeployment/publish_key
    """

    repositories: tuple[str, ...] = setting(WORDS, ())
    """Where hosts get their packages from, separated by blanks: directories of ``.repo`` files, URLs, ids of
    repositories to enable, or the path of a configuration of dnf. The syncer then refuses a revision with packages
    that no repository has, or that some hosts could not install. The check needs dnf 4, or dnf 5 and
    python3-libdnf5. Default: packages are not checked before a publication.

    The exclusions and repositories of a configuration of dnf then count. ``plan`` and ``lint --packages`` check
    the same. The repositories of the syncer's own machine are not used unless they are named. See
    :ref:`packages-before-publication`.

    Example: /etc/zkdeployment/repositories
    """

    history: int = setting(number(99999, "a number from 1 to 99999"), 500)
    """The number of publications that the history keeps."""

    metrics: Path | None = setting(METRICS_FILE)
    """The file for the metrics of a syncer that follows the branch: ``….prom``. The file must differ from the
    agent's, and the syncer's user must be able to write to the directory.

    Example: /var/lib/node_exporter/textfile/zkdeployment-syncer.prom
    """

    @classmethod
    def complete(cls, section: Section, values: dict[str, Any]) -> None:
        """Report rules for approvals without approvers, and a branch that contains itself."""
        if "contained_in" in values and values["contained_in"] == values.get("branch"):
            section.report("contained-in", "expected another branch than branch, found the same")
        if "approval_rules" in values and "approvers" not in section.texts:
            section.report("approval-rules", "expected approvers beside it, found none: no approvals are verified")


@dataclass(frozen=True, kw_only=True)
class CoordinateSettings(SectionSettings):
    """The settings of the coordinator: the table of ``[coordinate]``."""

    metrics: Path | None = setting(METRICS_FILE)
    """The file for the coordinator's metrics. The name must end in ``.prom``. The coordinator's user must be able
    to write the file.

    Example: /var/lib/node_exporter/textfile/zkdeployment-coordinator.prom
    """


def _api_url(text: str, report: Report) -> str | None:
    """Return the address of an API, which may be below a path."""
    try:
        parts = urlsplit(text)
        plain = f"{parts.scheme}://{parts.netloc}"
        is_valid = base_url_problem(plain) is None and not parts.query and not parts.fragment
    except ValueError:
        is_valid = False
    if is_valid:
        return text.rstrip("/")
    report(f"expected http://HOST[:PORT][/PATH] or https://HOST[:PORT][/PATH], found {text!r}")
    return None


_API_URL = Form(_api_url)


@dataclass(frozen=True, kw_only=True)
class MetricsSettings(SectionSettings):
    """The settings of a server of metrics: the table of ``[metrics NAME]``."""

    url: str = setting(_API_URL, REQUIRED)
    """The address of the server: Prometheus, or another one with its API ``/api/v1/query``, such as Thanos, Mimir
    or VictoriaMetrics. Required.

    A path is the part before ``/api/v1``.

    Example: https://prometheus.example.com:9090
    """

    ca: Path | None = setting(PATH)
    """A file with the certificates of the authorities that may sign the server's certificate. Default: those of
    the system.

    Example: /etc/zkdeployment/metrics-ca.pem
    """

    certificate: Path | None = setting(PATH)
    """A file with the coordinator's own certificate and its key, for servers that ask for one.

    Example: /etc/zkdeployment/metrics.pem
    """

    token_file: Path | None = setting(PATH)
    """A file with a token, which is sent as ``Authorization: Bearer …``. The file is read for each query, so that
    a token can be replaced.

    Example: /etc/zkdeployment/metrics-token
    """

    headers_file: Path | None = setting(PATH)
    """A file of further headers, one ``NAME: VALUE`` a line, such as the tenant of Mimir.

    Example: /etc/zkdeployment/metrics-headers
    """

    timeout: float = setting(POSITIVE_SECONDS, 10.0)
    """The number of seconds in which the server has to answer a query. Later, the measurement has no data."""

    graph_url: str | None = setting(_API_URL)
    """The address at which people reach the server's own page of graphs. The page of a rollout then links each
    query to its graph.

    Example: https://prometheus.example.com:9090
    """

    @classmethod
    def complete(cls, section: Section, values: dict[str, Any]) -> None:
        """Report a token that would cross the network unencrypted."""
        parts = urlsplit(values.get("url", ""))
        if parts.scheme == "http" and parts.hostname not in LOOPBACK and "token_file" in values:
            section.report("token-file", "the token would cross the network unencrypted; expected url = https://…")


@dataclass(frozen=True, kw_only=True)
class PromoteSettings(SectionSettings):
    """The settings of the promoter and of acts on all fleets: the table of ``[promote]``."""

    url: str = setting(TEXT, REQUIRED)
    """The repository with the main branch and the branches of the fleets: any URL that git can clone. Required by
    the promoter.

    Example: git@git.example.com:ops/tree.git
    """

    branch: str = setting(checked(_branch_problem), "main")
    """The main branch, whose commits are promoted and whose documents name the fleets and their groups."""

    directory: Path = setting(PATH, REQUIRED)
    """The directory for the mirror of the repository, used by nothing else. Required by the promoter.

    Example: /var/lib/zkdeployment/promoter/tree
    """

    identity: Path | None = setting(PATH)
    """The SSH private key that may move the branches of fleets. Default: the keys of the user.

    The git server should restrict this key with the hook of :ref:`promoted-branches`.

    Example: /etc/zkdeployment/promoter_key
    """

    token_directory: Path = setting(PATH, REQUIRED)
    """A directory with one file for each fleet, with the fleet's name: one line ``USER:KEY HOST``, of a user with
    the role ``viewer`` of the fleet's service, and the host of that service. The files must not be accessible for
    everyone. Required by the promoter.

    The files are read for each request, so that keys can be replaced. A key is sent only to its host, always
    encrypted: who may change the address in the document of the fleets cannot lead it elsewhere. ``HOST:PORT``
    also demands the port.

    Example: /etc/zkdeployment/fleets
    """

    operator_token_directory: Path | None = setting(PATH)
    """A directory of the same form, with users that have the role ``operator``, for ``zkdeployment fleets stop``
    and its kind. The promoter does not need these keys, and its user should not be able to read them.

    Example: /root/fleets
    """

    ca: Path | None = setting(PATH)
    """A file with the certificates of the authorities that may sign the certificates of the fleets' services.
    Default: those of the system.

    Example: /etc/zkdeployment/fleets-ca.pem
    """

    interval: float = setting(POSITIVE_SECONDS, 10.0)
    """The number of seconds between two requests to the service of each fleet, and between two fetches of the
    repository.
    """

    metrics: Path | None = setting(METRICS_FILE)
    """The file for the promoter's metrics. The name must end in ``.prom``. The promoter's user must be able to
    write the file.

    Example: /var/lib/node_exporter/textfile/zkdeployment-promoter.prom
    """

    @classmethod
    def complete(cls, section: Section, values: dict[str, Any]) -> None:  # noqa: ARG003  as for other sections
        """Report missing keys."""
        report_missing(cls, section, "promote")


def report_missing(table: type[SectionSettings], section: Section, name: str) -> None:
    """Report the required keys of a table that a section lacks."""
    for key, row in table.rows().items():
        if row.default is REQUIRED and not section.texts.get(key):
            section.report(key, f"not specified in [{name}]")


@dataclass(frozen=True, kw_only=True)
class ChecksSettings(SectionSettings):
    """The settings of checks that are rolled out to monitoring systems: the table of ``[checks]``."""

    interval: float = setting(POSITIVE_SECONDS, 20.0)
    """The number of seconds between two turns of the life cycle of check instances, which the leading coordinator
    runs.

    A turn without a change reads two nodes for each monitoring system with a callback, and two more, for any
    number of instances. A coordinator that takes over reads all instances once: with 100,000 of them its memory
    grows from 50 MB to 110 MB, with a peak of 135 MB.
    """


@dataclass(frozen=True, kw_only=True)
class NagiosSettings(SectionSettings):
    """The settings of the Nagios bridge: the table of ``[nagios]``."""

    server: str = setting(BASE_URL, REQUIRED)
    """The URL of the service: ``https://HOST[:PORT]``.

    Example: https://deploy.example.com
    """

    user: str = setting(checked(partial(name_problem, NameKind.USER)), REQUIRED)
    """The user of the service, with the role ``monitoring``. Its name is the name of the monitoring system.

    Example: nagios1
    """

    key_file: Path = setting(PATH, REQUIRED)
    """The file with the user's API key, one line. The file must not be accessible for everyone.

    Example: /etc/zkdeployment/nagios.key
    """

    objects: Path = setting(Form(_plain_path), REQUIRED)
    """The directory for definitions of hosts and services, used by nothing else; ``nagios.cfg`` names it with
    ``cfg_dir``.

    The bridge keeps its scripts there, too. The user of Nagios must be able to read the directory. Files get the
    group of the directory if its setgid bit is set.

    Example: /etc/nagios/zkdeployment
    """

    plugins: Path = setting(Form(_plain_path), Path("/usr/lib64/nagios/plugins"))
    """The directory of the plugins.

    The command of a check is the name of a file in this directory.
    """

    host_template: str = setting(_TEMPLATE, "generic-host")
    """The template of Nagios that hosts use: contacts, periods, attempts."""

    service_template: str = setting(_TEMPLATE, "generic-service")
    """The template of Nagios that services use: periods, attempts, and the contacts of services without an on-call
    duty.
    """

    contact_template: str = setting(_TEMPLATE, "generic-contact")
    """The template of Nagios that the contacts of on-call duties use: notification commands and periods."""

    command_file: Path | None = setting(PATH)
    """The pipe for external commands, which downtimes need.

    Without this pipe, hosts get no downtime while they are in a deployment step, and the first run of a plugin
    comes when Nagios has scheduled it.

    Example: /var/spool/nagios/cmd/nagios.cmd
    """

    status_file: Path | None = setting(PATH)
    """The status file of Nagios, which has the results.

    Without this file, no results are reported, and a rollout succeeds without a run of its plugin.

    Example: /var/spool/nagios/status.dat
    """

    verify: tuple[str, ...] = setting(COMMAND, REQUIRED)
    """The command that verifies the configuration of Nagios, in the syntax of a shell. No shell runs the command.

    If the file of ``-v FILE`` has a line ``cfg_dir=OBJECTS``, the bridge verifies changes in a copy before it
    writes them (:doc:`../monitoring`).

    Example: /usr/sbin/nagios -v /etc/nagios/nagios.cfg
    """

    reload: tuple[str, ...] = setting(COMMAND, REQUIRED)
    """The command that makes Nagios read its configuration again. No shell runs the command.

    Example: pkill -HUP --pidfile /run/nagios/nagios.pid
    """

    listen: str | None = setting(LISTEN)
    """The address and port at which the bridge receives pokes: those of the callback in the document of the
    monitoring system.

    A poke only names an instance that the bridge then fetches, so it needs no login.

    Example: 0.0.0.0:8421
    """

    interval: float | None = setting(POSITIVE_SECONDS)
    """The number of seconds between two polls. Default: 30, or no polls with ``listen``.

    Example: 30
    """

    @classmethod
    def complete(cls, section: Section, values: dict[str, Any]) -> None:
        """Report missing keys; a bridge that receives no pokes polls by default."""
        report_missing(cls, section, "nagios")
        if "listen" not in values:
            values.setdefault("interval", 30.0)


@dataclass(frozen=True, kw_only=True)
class PoolsSettings(SectionSettings):
    """The settings of the worker of host pools: the table of ``[pools]``."""

    interval: float = setting(Form(_duration), 300.0)
    """How often the worker checks all pools, in seconds or as text such as ``5m``. Changes wake it in between.
    Default: ``5m``.

    Example: 5m
    """

    ssh_key: Path | None = setting(PATH)
    """The file of the private key that all nodes of the mechanism ``ansible`` admit as root. Default: the keys of
    the user that runs the worker.

    Example: /var/lib/zkdeployment/pools/ssh_key
    """

    ssh_config: Path | None = setting(PATH)
    """A configuration file of ssh, for ports, jump hosts or known host keys.

    Without this file, the keys of nodes are not checked, because nodes are made again and again.

    Example: /var/lib/zkdeployment/pools/ssh_config
    """

    authorized_keys: str = setting(checked(_file_on_nodes_problem), "/root/.ssh/authorized_keys")
    """The file on the nodes that gets the keys of tenants. The file must exist, with the key of the worker in it.
    """

    lease_key: Path | None = setting(PATH)
    """The file of the SSH private key, without a passphrase, that signs the leases of hosts, which hosts with
    ``publishers`` demand. Default: leases are not signed.

    All workers of a fleet need a key if its hosts have ``publishers`` (:ref:`signed-leases`). The worker accepts
    leases that this key or one of the ``publishers`` in its own ``[zkdeployment]`` signed.

    Example: /etc/zkdeployment/lease_key
    """


TABLES = {
    "sync": SyncSettings,
    "coordinate": CoordinateSettings,
    "metrics": MetricsSettings,
    "promote": PromoteSettings,
    "checks": ChecksSettings,
    "nagios": NagiosSettings,
    "pools": PoolsSettings,
}
