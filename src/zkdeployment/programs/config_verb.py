"""``zkdeployment config``: checks of a configuration file."""

from __future__ import annotations

import shlex
import stat
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.base.errors import without_passwords
from zkdeployment.cli.options import emit, output_option
from zkdeployment.cli.terminal import echo
from zkdeployment.cli.verb_group import VerbGroup
from zkdeployment.config.load import load
from zkdeployment.programs.host_trust import check_publishers
from zkdeployment.programs.process import check_access
from zkdeployment.programs.publish_key import lease_signer, publication_signer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.config.external_logins import OpenIdSettings
    from zkdeployment.config.nagios import NagiosSettings
    from zkdeployment.config.pools import PoolsSettings
    from zkdeployment.config.server import ServerSettings
    from zkdeployment.config.settings import Settings
    from zkdeployment.config.sync import SyncSettings
    from zkdeployment.config.webhooks import WebhookSettings
    from zkdeployment.service.users.external_logins import RoleRule, TrustedProxies
    from zkdeployment.zookeeper.servers import Access, AclEntry


@click.group(name="config", cls=VerbGroup)
def command() -> None:
    """Check a configuration file.

    \b
    Example:
      zkdeployment config check /etc/zkdeployment/zkdeployment.cfg
    """


@command.command()
@click.argument("config", type=click.Path(path_type=Path))
@output_option
def check(config: Path, output: str) -> None:
    """Print the settings of CONFIG with all defaults, or every error in CONFIG.

    Files and URLs with the host's id and role are read. Passwords are not shown.

    \b
    Example:
      zkdeployment config check /etc/zkdeployment/zkdeployment.cfg
    """
    settings = load(config)
    check_access(settings)
    publication_signer(settings)
    lease_signer(settings)
    url = "" if settings.sync is None else settings.sync.url
    if without_passwords(url) != url and config.stat().st_mode & stat.S_IRWXO:
        echo(
            f"warning: url contains a secret, and {config} is accessible to all users; run chmod o-rwx {config}",
            err=True,
        )
    role = None if settings.identity is None else settings.identity.role
    if role is not None and " " in role:
        echo(f"warning: nothing can be deployed to the role {role!r}: expected a name without blanks", err=True)
    for problem in check_publishers(settings):
        echo(f"warning: {problem}", err=True)
    sections = _plain(settings)
    if output != "table":
        emit(sections, output, schema="config")
        return
    for section, values in sections.items():
        echo(f"[{section}]")
        for key, value in values.items():
            echo(f"{key} = {_text(value)}".rstrip())


#: The fields that belong to sections of their own.
_SECTIONS = ("sync", "coordinator_metrics", "checks_interval", "server", "nagios", "pools")

#: The fields that are no keys of ``[zkdeployment]``, or that are shown in another form.
_SEPARATE = ("source", "identity", "named", "leasable", *_SECTIONS)


def _plain(settings: Settings) -> dict[str, dict[str, object]]:
    """Return the settings by section and by the keys of the file."""
    identity = settings.identity
    main: dict[str, object] = {
        "host-id": identity.id if identity else None,
        "host-name": identity.name if identity else None,
        "role": f"lease:{identity.role}" if identity and settings.leasable else identity and identity.role,
    }
    for field in fields(settings):
        if field.name == "access":
            main |= _plain_access(settings.access)
        elif field.name not in _SEPARATE:
            main[_key(field.name)] = _value(getattr(settings, field.name))
    main["after"] = shlex.join(settings.after)
    if not settings.checkout_sources:
        main["checkout-sources"] = ["any" if settings.checkout_sources is None else "none"]
    sections = {"zkdeployment": main}
    if settings.sync is not None:
        sections["sync"] = _plain_section(settings.sync)
    sections["coordinate"] = {"metrics": _value(settings.coordinator_metrics)}
    sections["checks"] = {"interval": _value(settings.checks_interval)}
    sections["pools"] = _plain_section(settings.require_pools())
    sections["server"] = _plain_server(settings.require_server())
    if settings.nagios is not None:
        sections["nagios"] = _plain_nagios(settings.nagios)
    return sections


def _plain_section(section: SyncSettings | PoolsSettings) -> dict[str, object]:
    return {_key(field.name): _value(getattr(section, field.name)) for field in fields(section)}


def _plain_nagios(nagios: NagiosSettings) -> dict[str, object]:
    values = {_key(field.name): _value(getattr(nagios, field.name)) for field in fields(nagios)}
    return values | {"verify": shlex.join(nagios.verify), "reload": shlex.join(nagios.reload)}


def _plain_server(server: ServerSettings) -> dict[str, object]:
    return {
        "listen": server.listen,
        "certificate": _value(server.certificate),
        "key": _value(server.key),
        "plain-text": "yes" if server.plain_text else "no",
        "base-url": server.base_url,
        "users-acl": _plain_acl(server.users_acl),
        "connections-per-address": server.limits.connections_per_address,
        "streams-per-user": server.limits.streams_per_user,
        **_plain_openid(server.openid),
        **_plain_proxies(server.proxies),
        **_plain_webhooks(server.webhooks),
    }


def _plain_openid(openid: OpenIdSettings | None) -> dict[str, object]:
    client = None if openid is None else openid.client
    return {
        "openid-issuer": None if client is None else client.issuer,
        "openid-client-id": None if client is None else client.client_id,
        "openid-client-secret": None if openid is None else _value(openid.secret),
        "openid-ca": None if openid is None else _value(openid.ca),
        "openid-scopes": [] if client is None else list(client.scopes),
        "openid-name": None if client is None else client.name_claim,
        "openid-roles": [] if client is None else [_plain_rule(rule, rule.claim) for rule in client.roles],
    }


def _plain_proxies(proxies: TrustedProxies) -> dict[str, object]:
    return {
        "proxies": [str(network) for network in proxies.networks],
        "proxy-user": proxies.user_header,
        "proxy-groups": proxies.groups_header,
        "proxy-roles": [_plain_rule(rule) for rule in proxies.roles],
    }


def _plain_webhooks(settings: WebhookSettings | None) -> dict[str, object]:
    """Return the webhooks by their origins: the rest of a URL may be secret."""
    webhooks = () if settings is None else settings.webhooks
    return {
        "webhooks": [f"{webhook.origin} {','.join(sorted(webhook.kinds))}" for webhook in webhooks],
        "webhook-key": None if settings is None else _value(settings.key),
        "webhook-ca": None if settings is None else _value(settings.ca),
    }


def _plain_rule(rule: RoleRule, *claim: str) -> str:
    return " ".join(part for part in (rule.role.value, *claim, rule.value) if part)


def _plain_access(access: Access) -> dict[str, object]:
    files = {name: getattr(access, name) for name in ("ca", "certificate", "key", "credentials")}
    return {f"zookeeper-{name}": _value(file) for name, file in files.items()} | {
        "zookeeper-plain-text": "yes" if access.plain_text else "no",
        "zookeeper-acl": _plain_acl(access.acl),
    }


def _plain_acl(acl: Sequence[AclEntry]) -> list[str]:
    return [":".join(filter(None, entry)).replace("auth:", "creator:") for entry in acl]


def _key(name: str) -> str:
    return name.replace("_", "-")


def _value(value: object) -> object:
    match value:
        case Path():
            return str(value)
        case tuple():
            return list(value)
        case str():
            return without_passwords(value)
        case _:
            return value


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case list():
            return ", ".join(str(part) for part in value)
        case dict():
            return ", ".join(f"{name}={part}" for name, part in value.items())
        case _:
            return str(value)
