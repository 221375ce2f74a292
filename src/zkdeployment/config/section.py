"""The frame of configuration files: their syntax, the forms of values, and values outside the file.

A line that begins with ``#`` or ``;`` is a comment, and so is text after a ``#`` that follows a blank. The meaning
of keys belongs to ``load``.
"""

from __future__ import annotations

import configparser
import math
import re
import shlex
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote, urlsplit

from zkdeployment.base.errors import ConfigurationError, without_passwords
from zkdeployment.base.names import NameKind, name_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    import urllib3


#: Section → key → value, without empty values.
Values: TypeAlias = "dict[str, dict[str, str]]"

#: A configuration is a page of text; a larger file is a mistake.
_MOST_FILE_BYTES = 1 << 20


def read(path: Path) -> str:
    """Return a configuration file's text; raises ``ConfigurationError``."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_FILE_BYTES + 1)
    except FileNotFoundError as error:
        raise ConfigurationError(f"there is no configuration file {path}") from error
    except OSError as error:
        raise ConfigurationError(f"cannot read the configuration {path}: {error.strerror}") from error
    if len(content) > _MOST_FILE_BYTES:
        raise ConfigurationError(
            f"{path} is not a configuration: expected at most {_MOST_FILE_BYTES} bytes, found more"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ConfigurationError(f"{path}: line {line} is not UTF-8 text") from error


def parse(text: str, known: Mapping[str, Collection[str]]) -> tuple[Values, list[str]]:
    """Return the values of the ``known`` sections and keys, and all problems of the syntax."""
    problems = list(_duplicates(text))
    parser = _parser(strict=False)
    try:
        parser.read_string(text)
    except configparser.MissingSectionHeaderError as error:
        return {}, [f"line {error.lineno}: expected a section like [{next(iter(known))}], found {error.line!r}"]
    except configparser.ParsingError as error:
        problems += [f"line {line}: expected key = value, found {text}" for line, text in error.errors]
    values: Values = {}
    for section in parser.sections():
        if section not in known:
            problems.append(f"unknown section [{section}]{_suggestion(section, known)}")
            continue
        pairs = dict(parser[section])
        problems += [
            f"unknown key {key} in [{section}]{_elsewhere(key, known) or _suggestion(key, known[section])}"
            for key in pairs
            if key not in known[section]
        ]
        values[section] = {key: value for key, value in pairs.items() if value and key in known[section]}
    return values, problems


def _parser(*, strict: bool) -> configparser.RawConfigParser:
    # Without a default section: the keys of [DEFAULT] would appear in all sections.
    return configparser.RawConfigParser(strict=strict, inline_comment_prefixes=("#",), default_section="")


def _duplicates(text: str) -> Iterator[str]:
    """Yield a problem for each duplicate key or section; each is blanked out to find the next."""
    lines = text.splitlines()
    while True:
        try:
            _parser(strict=True).read_string("\n".join(lines))
        except configparser.DuplicateOptionError as error:
            yield f"line {error.lineno}: duplicate key {error.option} in [{error.section}]"
            lines[(error.lineno or 1) - 1] = ""
        except configparser.DuplicateSectionError as error:
            yield f"line {error.lineno}: duplicate section [{error.section}]"
            return
        except configparser.Error:
            return
        else:
            return


def _elsewhere(key: str, known: Mapping[str, Collection[str]]) -> str:
    """Return a hint at the section that a key belongs to; empty if no section knows the key."""
    return next((f"; it belongs in [{section}]" for section, keys in known.items() if key in keys), "")


def _suggestion(word: str, known: Collection[str]) -> str:
    import difflib  # noqa: PLC0415  programs start faster without it

    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else f"; expected one of {', '.join(sorted(known))}"


#: Keys of ``[server]`` about an OpenID provider, about proxies that authenticate people, and about webhooks.
OPENID = (
    "openid-issuer",
    "openid-client-id",
    "openid-client-secret",
    "openid-ca",
    "openid-scopes",
    "openid-name",
    "openid-roles",
)
PROXY = ("proxies", "proxy-user", "proxy-groups", "proxy-roles")
WEBHOOKS = ("webhooks", "webhook-key", "webhook-ca")

SERVER = (
    "listen",
    "certificate",
    "key",
    "plain-text",
    "base-url",
    "users-acl",
    *OPENID,
    *PROXY,
    *WEBHOOKS,
    "connections-per-address",
    "streams-per-user",
)

#: Keys of ``[nagios]`` without which no bridge can run.
NAGIOS_NEEDED = ("server", "user", "key-file", "objects", "verify", "reload")

NAGIOS = (
    *NAGIOS_NEEDED,
    "plugins",
    "host-template",
    "service-template",
    "contact-template",
    "command-file",
    "status-file",
    "listen",
    "interval",
)

POOLS = ("interval", "ssh-key", "ssh-config", "authorized-keys", "lease-key")

#: Names are short; a longer value is a mistake.
_MOST_BYTES = 1024

_CONNECT_SECONDS = 2.0
_READ_SECONDS = 5.0
_RETRIES = 2


def is_external(value: str) -> bool:
    """Whether a value is the place of the real value; ``word:rest`` (for example a MAC address) is not."""
    return value.startswith(("file:///", "http://", "https://"))


def read_value(value: str) -> str | None:
    """Return a value, read from its external place if it names one, stripped; ``None`` if it does not exist.

    Raises ``ConfigurationError`` if the value cannot be read, which leaves open whether it exists.
    """
    if not is_external(value):
        return value
    content = _read_file(value) if value.startswith("file:") else _read_address(value)
    if content is None:
        return None
    if len(content) > _MOST_BYTES:
        raise ConfigurationError(f"expected at most {_MOST_BYTES} bytes at {without_passwords(value)}, found more")
    try:
        return content.decode("utf-8").strip() or None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{without_passwords(value)} is not UTF-8 text") from error


def _read_file(value: str) -> bytes | None:
    path = Path(unquote(urlsplit(value).path))
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from error


def _read_address(value: str) -> bytes | None:
    """Return the content at an address, with retries, without redirects and the environment's proxies."""
    import urllib3  # noqa: PLC0415  few files name an address, and every command reads the configuration

    shown = without_passwords(value)
    try:
        with urllib3.PoolManager() as pool:
            response = pool.request(
                "GET",
                value,
                headers={"Accept": "text/plain, */*", "Accept-Encoding": "identity"},
                timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS),
                retries=urllib3.Retry(total=_RETRIES, backoff_factor=0.2),
                redirect=False,
                preload_content=False,
            )
            try:
                return _content(response, shown)
            finally:
                response.close()
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        raise ConfigurationError(f"cannot read {shown}: {_cause(error)}") from error


def _content(response: urllib3.BaseHTTPResponse, shown: str) -> bytes | None:
    if response.status == 404:
        return None
    if response.status != 200:
        raise ConfigurationError(f"expected status 200 or 404 from {shown}, found {response.status}")
    content = b""
    deadline = time.monotonic() + _READ_SECONDS
    while len(content) <= _MOST_BYTES and (more := response.read1(_MOST_BYTES)):
        content += more
        if time.monotonic() > deadline:
            raise ConfigurationError(f"cannot read {shown}: the response took longer than {_READ_SECONDS:g} s")
    return content


def _cause(error: Exception) -> str:
    """Return the cause of an error without the names of the library's objects."""
    return re.sub(r"^(<.*?>|\w+\(.*?\)): ", "", str(getattr(error, "reason", None) or error))


#: The largest number of seconds that settings and options accept: a year. Systems cannot wait for much longer.
LONGEST_WAIT = 365 * 86400.0


@dataclass(frozen=True)
class Section:
    """Parses the values of a section, and collects their problems in ``problems``."""

    name: str
    values: Mapping[str, str]
    problems: list[str] = field(default_factory=list)

    def text(self, key: str) -> str | None:
        """Return a value unchanged; ``None`` if it is not specified."""
        return self.values.get(key)

    def report(self, key: str, problem: str) -> None:
        """Add a problem of a key."""
        self.problems.append(f"{key}: {problem}")

    def checked(self, key: str, problem_of: Callable[[str], str | None]) -> str | None:
        """Return a value; ``None`` if it is not specified, or has a problem, which is reported."""
        value = self.text(key)
        problem = problem_of(value) if value is not None else None
        if problem is None:
            return value
        self.report(key, problem)
        return None

    def path(self, key: str) -> Path | None:
        """Return an absolute path."""
        value = self.checked(key, _path_problem)
        return None if value is None else Path(value)

    def metrics_file(self) -> Path | None:
        """Return the path of the file for metrics."""
        path = self.path("metrics")
        if path is not None and path.suffix != ".prom":
            self.report(
                "metrics",
                f"expected a path that ends in .prom (other files are not collected), found {str(path)!r}",
            )
        return path

    def file(self, key: str) -> Path | None:
        """Return the absolute path of a readable file."""
        path = self.path(key)
        try:
            if path is not None:
                path.open("rb").close()
        except OSError as error:
            self.report(key, f"cannot read {path}: {error.strerror}")
            return None
        return path

    def number(self, key: str, *, positive: bool = False) -> float | None:
        """Return a number of seconds of at most a year that is not negative (and not zero, if ``positive``)."""
        value = self.text(key)
        if value is None:
            return None
        try:
            number = float(value if value.isascii() else "")
        except ValueError:
            number = math.nan
        if not 0 <= number <= LONGEST_WAIT or (positive and number == 0) or "_" in value:
            most = f", at most {LONGEST_WAIT:.0f}" if number > LONGEST_WAIT else ""
            self.report(
                key, f"expected a {'positive ' if positive else ''}number of seconds{most}, found {value!r}"
            )
            return None
        return number

    def seconds(self, key: str, default: float) -> float:
        """Return a number of seconds, or ``default``."""
        number = self.number(key)
        return default if number is None else number

    def command(self, key: str) -> tuple[str, ...]:
        """Return a command, split into words like a shell does."""
        try:
            return tuple(shlex.split(self.text(key) or ""))
        except ValueError as error:
            hint = "; a # after a blank begins a comment" if "quotation" in str(error) else ""
            self.report(key, f"expected a command in shell syntax: {error}{hint}")
            return ()

    def items(self, key: str) -> tuple[str, ...]:
        """Return the distinct items that commas or line ends separate."""
        parts = (part.strip() for part in re.split(r"[,\n]", self.text(key) or ""))
        return tuple(dict.fromkeys(part for part in parts if part))

    def pairs(self, key: str) -> dict[str, str]:
        """Return a mapping of names to values, as in ``site=ams, tier=web``."""
        pairs: dict[str, str] = {}
        for item in self.items(key):
            name, equals, value = (part.strip() for part in item.partition("="))
            if not name or not equals:
                self.report(key, f"expected NAME=VALUE, separated by commas, found {item!r}")
            elif pairs.setdefault(name, value) != value:
                self.report(key, f"expected one value of {name}, found {pairs[name]!r} and {value!r}")
        return pairs

    def external_text(self, key: str) -> str | None:
        """Return a text that the section contains, or that is read from the place that the section names."""
        try:
            value = read_value(self.text(key) or "")
        except ConfigurationError as error:
            self.report(key, str(error))
            return None
        return value or None

    def external_name(self, key: str, kind: NameKind) -> str | None:
        """Return a name as ``external_text`` does, after a check."""
        value = self.external_text(key)
        problem = None if value is None else name_problem(kind, value)
        if problem is None:
            return value
        self.report(key, problem)
        return None


def _path_problem(value: str) -> str | None:
    if value.startswith("/") and "\0" not in value and "\n" not in value:
        return None
    return f"expected an absolute path (/…), found {value!r}"
