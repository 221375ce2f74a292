"""From a configuration file to settings, with everything that is wrong with it in one error."""

from __future__ import annotations

import math
import re
import shlex
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.config import ini
from zkdeployment.config.connection import connection_problem
from zkdeployment.config.settings import Settings, SyncSettings
from zkdeployment.config.sources import read_value
from zkdeployment.errors import ConfigurationError
from zkdeployment.model.host import Identity
from zkdeployment.model.names import Kind, name_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KEYS = {
    "zkdeployment": (
        "host-id",
        "host-name",
        "role",
        "run-directory",
        "after",
        "zookeeper",
        "root",
        "tags",
        "labels",
        "rack",
        "mailto",
        "smtp",
        "script-timeout",
        "stop-timeout",
        "lock-delay",
        "packages",
        "repositories",
        "checkout-sources",
        "metrics",
    ),
    "sync": ("url", "branch", "tree-directory", "interval", "allowed-signers", "history", "metrics"),
}

_PACKAGES = ("dnf", "none")
_MAIL_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_][A-Za-z0-9._-]*)(:[0-9]{1,5})?")
_MAIL_ADDRESS = re.compile(r"[^\s,@]+(@[^\s,@]+)?(\s*,\s*[^\s,@]+(@[^\s,@]+)?)*")
# What git refuses in the name of a branch; ``git check-ref-format`` has the last word.
_NOT_A_BRANCH = re.compile(r"^[-/]|[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|[/.]$|\.lock$")


def load(path: Path, *, host: bool = True, sync: Mapping[str, str] | None = None) -> Settings:
    """Read a configuration file; raises ``ConfigurationError`` with all problems.

    Where only the fleet matters, ``host=False`` leaves ``identity`` out: files and addresses that tell the
    host's id and role are not read. ``sync`` are values of ``[sync]`` that win over the file's.
    """
    values, problems = ini.parse(ini.read(path), KEYS)
    main = _Section("zkdeployment", values.get("zkdeployment", {}), problems)
    settings = Settings(
        source=path,
        zookeeper=main.checked("zookeeper", connection_problem) or "zookeeper:2181",
        root=main.path("root") or Path("/"),
        identity=_identity(main) if host else None,
        run_directory=main.path("run-directory"),
        after=main.command("after"),
        tags=main.items("tags"),
        labels=main.pairs("labels"),
        rack=main.text("rack"),
        mailto=main.checked("mailto", _matching(_MAIL_ADDRESS, "a mail address")),
        smtp=main.checked("smtp", _matching(_MAIL_SERVER, "HOST:PORT")) or "localhost:25",
        script_timeout=main.seconds("script-timeout", 0),
        lock_delay=main.seconds("lock-delay", 60),
        stop_timeout=main.seconds("stop-timeout", 30),
        packages=main.checked("packages", _package_manager_problem) or "dnf",
        repositories=tuple((main.text("repositories") or "").split()),
        checkout_sources=_checkout_sources(main),
        metrics=_metrics(main),
        sync=_sync(_Section("sync", values.get("sync", {}) | dict(sync or {}), problems)),
    )
    if settings.sync is not None and settings.metrics is not None and settings.metrics == settings.sync.metrics:
        problems.append(
            f"metrics: expected a file for the agent and another for the syncer, found {settings.metrics}"
        )
    if problems:
        raise ConfigurationError(
            "\n  ".join([f"{path}:", *problems]) if problems[1:] else f"{path}: {problems[0]}"
        )
    return settings


@dataclass(frozen=True, slots=True)
class _Section:
    """Reads values in the form a key has, and notes what is wrong with them."""

    name: str
    values: Mapping[str, str]
    problems: list[str] = field(default_factory=list)

    def text(self, key: str) -> str | None:
        """Return a value as it stands; ``None`` if it is not given."""
        return self.values.get(key)

    def note(self, key: str, problem: str) -> None:
        """Note what is wrong with a value."""
        self.problems.append(f"{key}: {problem}")

    def checked(self, key: str, problem_of: Callable[[str], str | None]) -> str | None:
        """Return a value, unless ``problem_of`` says what is wrong with it."""
        value = self.text(key)
        problem = problem_of(value) if value is not None else None
        if problem is None:
            return value
        self.note(key, problem)
        return None

    def path(self, key: str) -> Path | None:
        """Return an absolute path."""
        value = self.checked(key, _path_problem)
        return None if value is None else Path(value)

    def number(self, key: str, *, positive: bool = False) -> float | None:
        """Return a finite number that is not negative (nor zero, if ``positive``)."""
        value = self.text(key)
        if value is None:
            return None
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number) or number < 0 or (positive and number == 0):
            self.note(key, f"expected a {'positive ' if positive else ''}number of seconds, found {value!r}")
            return None
        return number

    def seconds(self, key: str, default: float) -> float:
        """Return a number of seconds, or ``default``."""
        number = self.number(key)
        return default if number is None else number

    def command(self, key: str) -> tuple[str, ...]:
        """Return a command, split like a shell line."""
        try:
            return tuple(shlex.split(self.text(key) or ""))
        except ValueError as error:
            hint = "; a # behind a blank begins a comment" if "quotation" in str(error) else ""
            self.note(key, f"expected words as a shell splits them: {error}{hint}")
            return ()

    def items(self, key: str) -> tuple[str, ...]:
        """Return what commas or ends of lines separate, each once."""
        parts = (part.strip() for part in re.split(r"[,\n]", self.text(key) or ""))
        return tuple(dict.fromkeys(part for part in parts if part))

    def pairs(self, key: str) -> dict[str, str]:
        """Return names and values, as in ``site=ams, tier=web``."""
        found: dict[str, str] = {}
        for item in self.items(key):
            name, equals, value = (part.strip() for part in item.partition("="))
            if not name or not equals:
                self.note(key, f"expected NAME=VALUE, separated by commas, found {item!r}")
            elif found.setdefault(name, value) != value:
                self.note(key, f"{name} has two values, {found[name]!r} and {value!r}")
        return found

    def found(self, key: str, kind: Kind) -> str | None:
        """Return a name that is given or stands where the value says."""
        try:
            value = read_value(self.text(key) or "")
        except ConfigurationError as error:
            self.note(key, str(error))
            return None
        if not value:
            return None
        problem = name_problem(kind, value)
        if problem is not None:
            self.note(key, problem)
            return None
        return value


def _identity(section: _Section) -> Identity | None:
    host_id = section.found("host-id", Kind.HOST_ID)
    role = section.found("role", Kind.ROLE)
    name = section.checked("host-name", lambda value: name_problem(Kind.HOST_NAME, value))
    if host_id is None:
        return None
    if name is None and section.text("host-name") is None:
        name = socket.getfqdn()
        problem = name_problem(Kind.HOST_NAME, name)
        if problem is not None:
            section.note("host-name", f"not given, and the machine's own name is of no use: {problem}")
    return Identity(id=host_id, name=name or host_id, role=role)


def _checkout_sources(section: _Section) -> tuple[str, ...] | None:
    """Return the beginnings of repositories that may be checked out; ``None`` for ``any``."""
    match (section.text("checkout-sources") or "any").split():
        case ["any"]:
            return None
        case ["none"]:
            return ()
        case words:
            for word in words:
                if "/" not in word and ":" not in word:
                    section.note(
                        "checkout-sources",
                        f"expected any, none or the beginnings of URLs and paths, found {word!r}",
                    )
            return tuple(words)


def _metrics(section: _Section) -> Path | None:
    path = section.path("metrics")
    if path is not None and path.suffix != ".prom":
        section.note(
            "metrics", f"expected a path that ends in .prom (others are not collected), found {str(path)!r}"
        )
    return path


def _sync(section: _Section) -> SyncSettings | None:
    url = section.text("url")
    tree_directory = section.path("tree-directory")
    branch = section.checked("branch", _branch_problem)
    interval = section.number("interval", positive=True)
    allowed_signers = section.path("allowed-signers")
    metrics = _metrics(section)
    history = int(section.checked("history", _count_problem) or 500)
    if url is None or tree_directory is None:
        return None
    return SyncSettings(
        url=url,
        tree_directory=tree_directory,
        branch=branch,
        interval=interval,
        allowed_signers=allowed_signers,
        history=history,
        metrics=metrics,
    )


def _path_problem(value: str) -> str | None:
    if value.startswith("/") and "\0" not in value and "\n" not in value:
        return None
    return f"expected a path from the root (/…), found {value!r}"


def _branch_problem(value: str) -> str | None:
    return f"{value!r} cannot be the name of a branch" if _NOT_A_BRANCH.search(value) else None


def _count_problem(value: str) -> str | None:
    return (
        None if re.fullmatch(r"[1-9][0-9]{0,4}", value) else f"expected a number from 1 to 99999, found {value!r}"
    )


def _package_manager_problem(value: str) -> str | None:
    return None if value in _PACKAGES else f"expected {' or '.join(_PACKAGES)}, found {value!r}"


def _matching(pattern: re.Pattern[str], expected: str) -> Callable[[str], str | None]:
    return lambda value: None if pattern.fullmatch(value) else f"expected {expected}, found {value!r}"
