"""The keys of ``[server]`` about webhooks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from zkdeployment.fleet.webhooks.outbox import WEBHOOK_KINDS, Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from zkdeployment.config.section import Section

#: Each webhook has a thread and a queue in the service.
_MOST = 20

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """The webhooks, the file with the key that signs their events, and the certificates to trust."""

    webhooks: tuple[Webhook, ...]
    key: Path
    ca: Path | None = None


def read_webhooks(section: Section) -> WebhookSettings | None:
    """Return the settings of webhooks, if there are some; problems are reported to the section."""
    webhooks = tuple(_webhooks(section))
    key, ca = section.path("webhook-key"), section.path("webhook-ca")
    specified = section.text("webhooks") is not None
    if specified != (section.text("webhook-key") is not None):
        section.report("webhooks", "expected both webhooks and webhook-key in [server], found only one of them")
    elif not specified and ca is not None:
        section.report("webhook-ca", "webhooks is not specified; expected both in [server]")
    urls = [webhook.url for webhook in webhooks]
    if len(urls) > _MOST:
        section.report("webhooks", f"expected at most {_MOST} lines, found {len(urls)}")
    for webhook in webhooks:
        if urls.count(webhook.url) > 1:
            section.report("webhooks", f"expected one line for each URL, found two at {webhook.origin}")
            break
    return WebhookSettings(webhooks=webhooks, key=key, ca=ca) if webhooks and key is not None else None


def _webhooks(section: Section) -> Iterator[Webhook]:
    """Yield the webhook of each line; problems do not contain the URL, which may be secret."""
    lines = (line.split(maxsplit=1) for line in (section.text("webhooks") or "").splitlines())
    for number, parts in enumerate((parts for parts in lines if parts), start=1):
        if not _is_acceptable(parts[0]):
            section.report(
                "webhooks",
                f"expected lines URL EVENTS with a URL https://HOST/… (or http:// on this machine) without a user"
                f" and a fragment, found another URL in line {number}",
            )
            continue
        kinds = [kind.strip() for kind in parts[1].split(",")] if len(parts) > 1 else []
        unknown = [kind for kind in kinds if kind not in WEBHOOK_KINDS]
        if kinds == ["*"]:
            yield Webhook(parts[0], frozenset(WEBHOOK_KINDS))
        elif not kinds or unknown:
            found = repr(unknown[0]) if unknown else "nothing"
            section.report(
                "webhooks",
                f"expected events after the URL in line {number}: * or some of {', '.join(WEBHOOK_KINDS)},"
                f" separated by commas; found {found}",
            )
        else:
            yield Webhook(parts[0], frozenset(kinds))


def _is_acceptable(url: str) -> bool:
    """Require encryption beyond this machine: URLs may contain secrets, and events name hosts and errors."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    safe = parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)
    return bool(safe and host and port != 0 and "@" not in parts.netloc and not parts.fragment) and url.isascii()
