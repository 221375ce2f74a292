"""One section of a configuration file, value by value."""

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


@dataclass(frozen=True, slots=True)
class Section:
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

    def file(self, key: str) -> Path | None:
        """Return the absolute path of a file that can be read."""
        path = self.path(key)
        try:
            if path is not None:
                path.open("rb").close()
        except OSError as error:
            self.note(key, f"cannot read {path}: {error.strerror}")
            return None
        return path

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

    def external_name(self, key: str, kind: NameKind) -> str | None:
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


def _path_problem(value: str) -> str | None:
    if value.startswith("/") and "\0" not in value and "\n" not in value:
        return None
    return f"expected a path from the root (/…), found {value!r}"
