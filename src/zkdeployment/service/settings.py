"""The table of ``[server]``: the service, logins elsewhere, webhooks."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias
from urllib.parse import urlsplit

from zkdeployment.base.values import dataclass
from zkdeployment.config.addresses import BASE_URL, LISTEN, LOOPBACK, split_listen
from zkdeployment.config.forms import (
    ACL,
    PATH,
    TEXT,
    YES_NO,
    Form,
    Report,
    Section,
    SectionSettings,
    checked,
    complete_acl,
    items,
    matching,
    number,
    one_of,
    setting,
)
from zkdeployment.fleet.webhooks.commit_status import Forge, ForgeRepository
from zkdeployment.fleet.webhooks.sender import WEBHOOK_KINDS, Webhook
from zkdeployment.service.site import COLOURS, UNNAMED, ClientLimits
from zkdeployment.service.users.external_logins import (
    EVERYBODY,
    Network,
    OpenIdClient,
    RoleRule,
    TrustedProxies,
    group_rule,
)
from zkdeployment.service.users.user import Role

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from zkdeployment.zookeeper.servers import AclEntry

#: The largest number of connections or event streams that can be configured.
_MOST = 999_999

#: The names of the forges that show statuses of commits.
_FORGES = tuple(forge.value for forge in Forge)

#: Each webhook has a thread and a queue in the service.
_MOST_WEBHOOKS = 20

_COUNT = number(_MOST, f"a whole number from 1 to {_MOST}")
_HEADER = matching(r"[A-Za-z0-9-]{1,100}", "the name of a header")

_Rules: TypeAlias = "tuple[RoleRule, ...]"


def _issuer_problem(text: str) -> str | None:
    """Return why an issuer is invalid; without encryption, an attacker could log in as any user."""
    expected = f"expected the URL of the provider, https://…, found {text!r}"
    try:
        parts = urlsplit(text)
        host = parts.hostname
    except ValueError:
        return expected
    safe = parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK)
    return None if safe and host and not parts.query and not parts.fragment else expected


def _scopes(text: str, report: Report) -> tuple[str, ...]:
    scopes = tuple(text.split())
    if "openid" not in scopes:
        report(f"expected openid among the scopes, found {' '.join(scopes)}")
    return scopes


def _openid_rules(text: str, report: Report) -> _Rules:
    rules = list(_rules(text, report, "ROLE CLAIM VALUE"))
    for role, words in rules:
        if words[1:] == [EVERYBODY]:
            report(f"expected a value of the claim, or {role.value} * for everybody; found {' '.join(words)!r}")
    return tuple(RoleRule(role, *words) if words[1:] else RoleRule(role, "", EVERYBODY) for role, words in rules)


def _proxy_rules(text: str, report: Report) -> _Rules:
    return tuple(group_rule(role, group) for role, (group,) in _rules(text, report, "ROLE GROUP"))


def _rules(text: str, report: Report, expected: str) -> Iterator[tuple[Role, list[str]]]:
    """Yield the role and the other words of each line; ``ROLE *`` is always a valid line."""
    roles = {role.value: role for role in Role}
    words = len(expected.split())
    for line in filter(str.strip, text.splitlines()):
        name, *others = line.split(maxsplit=words - 1)
        if name in roles and (len(others) == words - 1 or others == [EVERYBODY]):
            yield roles[name], others
        else:
            names = ", ".join(roles)
            report(f"expected lines {expected} or ROLE *, ROLE being one of {names}; found {line.strip()!r}")


def _networks(text: str, report: Report) -> tuple[Network, ...]:
    networks = []
    for item in items(text):
        try:
            networks.append(ipaddress.ip_network(item))
        except ValueError:
            report(f"expected addresses and networks, separated by commas, found {item!r}")
    return tuple(networks)


def _webhooks(text: str, report: Report) -> tuple[Webhook, ...]:
    """Return the webhook of each line; problems do not contain the URL, which may be secret."""
    lines = enumerate((line.split(maxsplit=1) for line in text.splitlines() if line.strip()), start=1)
    webhooks = tuple(hook for number, line in lines if (hook := _webhook(line, number, report)) is not None)
    urls = [webhook.url for webhook in webhooks]
    if len(urls) > _MOST_WEBHOOKS:
        report(f"expected at most {_MOST_WEBHOOKS} lines, found {len(urls)}")
    twice = next((webhook for webhook in webhooks if urls.count(webhook.url) > 1), None)
    if twice is not None:
        report(f"expected one line for each URL, found two at {twice.origin}")
    return webhooks


def _webhook(line: list[str], number: int, report: Report) -> Webhook | None:
    url, *words = line
    if not _is_acceptable(url):
        report(
            f"expected lines URL EVENTS with a URL https://HOST/… (or http:// on this machine) without a user"
            f" and a fragment, found another URL in line {number}"
        )
        return None
    kinds = [kind.strip() for kind in words[0].split(",")] if words else []
    if kinds == ["*"]:
        return Webhook(url, frozenset(WEBHOOK_KINDS))
    unknown = [kind for kind in kinds if kind not in WEBHOOK_KINDS]
    if kinds and not unknown:
        return Webhook(url, frozenset(kinds))
    report(
        f"expected events after the URL in line {number}: * or some of {', '.join(WEBHOOK_KINDS)},"
        f" separated by commas; found {repr(unknown[0]) if unknown else 'nothing'}"
    )
    return None


def _forge_repository(text: str, report: Report) -> ForgeRepository | None:
    """Return the repository of the tree in its forge."""
    match text.split():
        case [name, url] if name in _FORGES and _is_acceptable(url):
            return ForgeRepository(Forge(name), url.rstrip("/"))
    names = ", ".join(_FORGES)
    report(
        f"expected FORGE URL, FORGE being one of {names}, and URL the address https://HOST/… (or http:// on this"
        f" machine) of the repository in its API; found {text!r}"
    )
    return None


def _traces_url(text: str, report: Report) -> str:
    if not _is_acceptable(text):
        report(
            "expected a URL https://HOST/… (or http:// on this machine) without a user and a fragment,"
            f" found {text!r}"
        )
    return text


def _is_acceptable(url: str) -> bool:
    """Whether a URL is encrypted or local: URLs may contain secrets, and events name hosts and errors."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    safe = parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK)
    return bool(safe and host and port != 0 and "@" not in parts.netloc and not parts.fragment) and url.isascii()


def _shown_openid_rules(rules: _Rules) -> list[str]:
    return [" ".join(filter(None, (rule.role.value, rule.claim, rule.value))) for rule in rules]


def _shown_proxy_rules(rules: _Rules) -> list[str]:
    return [f"{rule.role.value} {rule.value}" for rule in rules]


def _shown_webhooks(webhooks: tuple[Webhook, ...]) -> list[str]:
    """Return the origins of the webhooks, because the rest of a URL may be secret."""
    return [f"{webhook.origin} {','.join(sorted(webhook.kinds))}" for webhook in webhooks]


@dataclass(frozen=True, kw_only=True)
class ServerSettings(SectionSettings):
    """The settings of the service: the table of ``[server]``.

    The files are not read: other machines and users have the same configuration, but not these files.
    """

    SECTION: ClassVar[str] = "server"
    PLACE: ClassVar[int] = 60

    listen: str = setting(LISTEN, "127.0.0.1:8420")
    """The address and port that ``zkdeployment serve`` listens on: ``ADDRESS:PORT``, with brackets around an IPv6
    address. An address that other machines can reach needs ``certificate`` and ``key``.
    """

    certificate: Path | None = setting(PATH)
    """The file of the certificate with its chain. With it, the service speaks TLS 1.2 or later.

    Example: /etc/zkdeployment/server.pem
    """

    key: Path | None = setting(PATH)
    """The file of that certificate's key, without a passphrase. Only the owner and the group may have access to
    it.

    Example: /etc/zkdeployment/server.key
    """

    plain_text: bool = setting(YES_NO, default=False)
    """``yes`` allows the service to listen on other than loopback addresses without encryption, in a network that
    is safe.
    """

    base_url: str | None = setting(BASE_URL)
    """The URL that people use if it differs from ``listen``: for example that of a proxy, or the name in the
    certificate.

    Requests for other host names are refused, except for the address that the service listens on.

    Example: https://deploy.example.com
    """

    name: str = setting(matching(r"[^\x00-\x1f\x7f]{1,40}", "a name of at most 40 characters"), UNNAMED)
    """The name of the fleet, in the bar and in the title of every page, and in the statuses of commits.

    Example: Production Amsterdam
    """

    colour: str = setting(one_of(*COLOURS), "none")
    """The colour of the bar on every page, so that people see which fleet this is: ``none``, ``red``, ``orange``,
    ``green``, ``teal``, ``blue``, ``purple`` or ``grey``.

    Example: red
    """

    users_acl: tuple[AclEntry, ...] = setting(ACL, ())
    """The access list of the nodes that hold users and logins, one entry per line, like ``zookeeper-acl``.
    Default: all rights for this service only, if it has credentials.

    Example: creator:cdrwa
    """

    openid_issuer: str | None = setting(checked(_issuer_problem))
    """The URL of an OpenID provider at which people log in: ``https://…``, exactly as the provider writes it.

    Example: https://id.example.com/realms/ops
    """

    openid_client_id: str | None = setting(TEXT)
    """The name of the service at the provider.

    Example: zkdeployment
    """

    openid_client_secret: Path | None = setting(PATH)
    """The file with the secret of the service at the provider. The file must not be accessible for everyone.
    Default: the service is a public client.

    Example: /etc/zkdeployment/openid.secret
    """

    openid_ca: Path | None = setting(PATH)
    """The file of the certificates that sign the provider's certificate. Default: the certificates of the system.

    Example: /etc/zkdeployment/openid-ca.pem
    """

    openid_scopes: tuple[str, ...] = setting(Form(_scopes), ("openid", "profile"))
    """The scopes that the service requests from the provider. Default: ``openid profile``.

    Some providers need a further scope, such as ``groups``, for the groups.

    Example: openid profile groups
    """

    openid_name: str = setting(TEXT, "preferred_username")
    """The claim that contains the name of the user."""

    openid_roles: _Rules = setting(Form(_openid_rules, _shown_openid_rules), ())
    """The roles of people who log in at the provider, one rule per line, ``ROLE CLAIM VALUE`` or ``ROLE *``. The
    first rule that matches decides, and a person without a matching rule is refused.

    ``ROLE CLAIM VALUE`` matches a claim that is VALUE or a list with VALUE; ``realm_access.roles`` is the claim
    ``roles`` within ``realm_access``. ``ROLE *`` matches everybody.

    Example: operator groups fleet-operators
    """

    proxies: tuple[Network, ...] = setting(Form(_networks, lambda networks: [*map(str, networks)]), ())
    """The addresses and networks of proxies in front of the service, separated by commas.

    Their ``X-Forwarded-For`` is believed, so that failed logins count for the client and not for the proxy.

    Example: 192.0.2.5, 10.1.0.0/16
    """

    proxy_user: str | None = setting(_HEADER)
    """The header in which these proxies send the name of a person whom they have authenticated. The proxies must
    remove this header, and that of ``proxy-groups``, from the requests of their clients.

    Example: X-Remote-User
    """

    proxy_groups: str | None = setting(_HEADER)
    """The header in which these proxies send the groups of the person, separated by commas.

    Example: X-Remote-Groups
    """

    proxy_roles: _Rules = setting(Form(_proxy_rules, _shown_proxy_rules), ())
    """The roles of people whom the proxies have authenticated, one rule per line, ``ROLE GROUP`` or ``ROLE *``.
    The first rule that matches decides.

    Example: operator fleet-operators
    """

    connections_per_address: int = setting(_COUNT, 250)
    """The most connections and event streams of one client address. Default: 250; no limit if ``listen`` is a
    loopback address and ``proxies`` is not set.

    For connections through ``proxies``, the address in ``X-Forwarded-For`` counts, and only for event streams.
    Without ``proxies``, all clients of a proxy have its address. A client has 10 seconds for the head of a
    request, and 60 for its body.

    Example: 250
    """

    streams_per_user: int = setting(_COUNT, 100)
    """The most event streams of one user.

    A quarter of all 2,000 streams is kept for users who may act on the fleet.
    """

    webhooks: tuple[Webhook, ...] = setting(Form(_webhooks, _shown_webhooks), ())
    """The receivers of events, at most 20, one per line: ``URL EVENTS``, where EVENTS are kinds separated by
    commas, or ``*`` for all.

    The kinds are those of the events of :doc:`../api`, but ``feed`` and ``reset``. A URL begins with ``https://``;
    ``http://`` is allowed for receivers on the same machine. All services need the same lines.

    Example: https://chat.example.com/hooks/deployments stop, rollout
    """

    webhook_key: Path | None = setting(PATH)
    """The file with the key that signs these events, one line. The file must not be accessible for everyone.
    Required with ``webhooks``.

    Example: /etc/zkdeployment/webhook.secret
    """

    webhook_ca: Path | None = setting(PATH)
    """The file of the certificates that sign the receivers' certificates. Default: the certificates of the system.

    Example: /etc/zkdeployment/webhook-ca.pem
    """

    commit_statuses: ForgeRepository | None = setting(Form(_forge_repository, str))
    """The forge that shows the state of the fleet beside each commit: ``github``, ``gitlab`` or ``gitea``, and the
    address of the tree's repository in the API of the forge. See :doc:`../forges`.

    Example: github https://api.github.com/repos/example/tree
    """

    commit_status_token: Path | None = setting(PATH)
    """The file with a token that may set statuses of commits, one line. The file must not be accessible for
    everyone. Required with ``commit-statuses``.

    Example: /etc/zkdeployment/forge.token
    """

    commit_status_ca: Path | None = setting(PATH)
    """The file of the certificates that sign the forge's certificate. Default: the certificates of the system.

    Example: /etc/zkdeployment/forge-ca.pem
    """

    traces: str | None = setting(Form(_traces_url))
    """The URL of a receiver of OpenTelemetry traces over OTLP/HTTP, to which each publication is exported.

    The URL begins with ``https://``; ``http://`` is allowed for a receiver on the same machine. See
    :doc:`../traces`.

    Example: http://127.0.0.1:4318/v1/traces
    """

    traces_ca: Path | None = setting(PATH)
    """The file of the certificates that sign the receiver's certificate. Default: the certificates of the system.

    Example: /etc/zkdeployment/traces-ca.pem
    """

    @property
    def host(self) -> str:
        """The host of the listening address."""
        return split_listen(self.listen)[0]

    @property
    def port(self) -> int:
        """The port of the listening address."""
        return split_listen(self.listen)[1]

    @property
    def url(self) -> str:
        """The address of the service for browsers on this machine, or the address that people use."""
        return self.base_url or f"{'http' if self.certificate is None else 'https'}://{self.listen}"

    @property
    def fleet(self) -> str:
        """The name of the fleet beside other fleets: ``name``, or the place of the service if that is not set."""
        return urlsplit(self.url).netloc if self.name == UNNAMED else self.name

    @property
    def openid(self) -> OpenIdClient | None:
        """The service as a client of an OpenID provider, if there is one."""
        if self.openid_issuer is None or self.openid_client_id is None:
            return None
        return OpenIdClient(
            issuer=self.openid_issuer,
            client_id=self.openid_client_id,
            scopes=self.openid_scopes,
            name_claim=self.openid_name,
            roles=self.openid_roles,
        )

    @property
    def trusted_proxies(self) -> TrustedProxies:
        """The proxies in front of the service."""
        return TrustedProxies(
            networks=self.proxies,
            user_header=self.proxy_user,
            groups_header=self.proxy_groups,
            roles=self.proxy_roles,
        )

    @property
    def limits(self) -> ClientLimits:
        """The limits of one client's connections and streams."""
        return ClientLimits(
            connections_per_address=self.connections_per_address, streams_per_user=self.streams_per_user
        )

    @classmethod
    def complete(cls, section: Section, values: dict[str, Any]) -> None:
        """Report problems between keys; clients that share the address of a local proxy share no limit."""
        complete_acl(section, values, "users-acl")
        section.report_half(
            "certificate", "key", "expected both certificate and key in [server], found only one of them"
        )
        host, _ = split_listen(values.get("listen", cls.listen))
        if not _is_loopback(host) and "certificate" not in values and not values.get("plain_text"):
            section.report(
                "listen",
                f"keys and logins would cross the network unencrypted, because {host} is not a loopback address;"
                " expected certificate and key in [server], or plain-text = yes in a network that is safe",
            )
        if _is_loopback(host) and not values.get("proxies"):
            values.setdefault("connections_per_address", _MOST)
        _check_openid(section)
        _check_proxies(section, values)
        section.report_half(
            "webhooks", "webhook-key", "expected both webhooks and webhook-key in [server], found only one of them"
        )
        section.report_half(
            "commit-statuses",
            "commit-status-token",
            "expected both commit-statuses and commit-status-token in [server], found only one of them",
        )
        if "traces_ca" in values and "traces" not in section.texts:
            section.report("traces-ca", "traces is not specified; expected both in [server]")
        if "commit_status_ca" in values and "commit-statuses" not in section.texts:
            section.report("commit-status-ca", "commit-statuses is not specified; expected both in [server]")
        if "webhook_ca" in values and not {"webhooks", "webhook-key"} & section.texts.keys():
            section.report("webhook-ca", "webhooks is not specified; expected both in [server]")


def _is_loopback(host: str) -> bool:
    """Whether only programs on this machine can connect to a listening address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_openid(section: Section) -> None:
    keys = (key for key in ServerSettings.rows() if key.startswith("openid-"))
    given = next((key for key in keys if key in section.texts), None)
    for key in ("openid-issuer", "openid-client-id", "openid-roles"):
        if given is not None and key not in section.texts:
            section.report(key, f"not specified, but {given} is; expected both in [server]")


def _check_proxies(section: Section, values: dict[str, Any]) -> None:
    if "proxies" not in section.texts:
        for key in ("proxy-user", "proxy-groups", "proxy-roles"):
            if key in section.texts:
                section.report(key, "proxies is not specified; expected the addresses of the proxies to believe")
    elif ("proxy_user" in values) != bool(values.get("proxy_roles")):
        section.report(
            "proxy-user", "expected both proxy-user and proxy-roles in [server], found only one of them"
        )


SECTIONS = (ServerSettings,)
