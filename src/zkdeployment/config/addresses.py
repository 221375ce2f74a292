"""Forms of addresses, branches and paths, for the sections that agents do not need."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from zkdeployment.config.forms import Form, Report, checked

# Common names that git refuses for a branch; the final decision is that of ``git check-ref-format``.
_NOT_A_BRANCH = re.compile(r"^[-/.]|[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|[/.]$|\.lock(/|$)")

#: A path that is the same in files of other programs and for a shell.
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9._/+@:-]*")

_LISTEN = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9_][A-Za-z0-9._-]*)):(?P<port>\d{1,5})")

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def branch_problem(text: str) -> str | None:
    """Return why the name of a branch is invalid; ``None`` for a valid one."""
    return f"expected the name of a branch, found {text!r}" if _NOT_A_BRANCH.search(text) else None


def is_plain_path(text: str) -> bool:
    """Whether an absolute path has only characters that mean nothing to a shell."""
    return _PLAIN_PATH.fullmatch(text) is not None


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


BASE_URL = Form(_base_url)
LISTEN = checked(listen_problem)
