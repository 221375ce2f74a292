"""The values of one section of a configuration file, in their forms: paths, numbers, commands, lists, names."""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.config.external_values import read_value
from zkdeployment.errors import ConfigurationError
from zkdeployment.model.names import NameKind, name_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
