"""The form of a configuration file: sections of ``key = value``, without interpolation.

A line that begins with ``#`` or ``;``, and what stands behind a ``#`` that follows a blank, is a comment.
"""

from __future__ import annotations

import configparser
import difflib
from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

#: Section → key → value, without the empty ones.
Values: TypeAlias = "dict[str, dict[str, str]]"

#: A configuration is a page of text; a larger file is something else.
_MOST_BYTES = 1 << 20


def read(path: Path) -> str:
    """Return a configuration file's text; raises ``ConfigurationError``."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except FileNotFoundError as error:
        raise ConfigurationError(f"there is no configuration file {path}") from error
    except OSError as error:
        raise ConfigurationError(f"cannot read the configuration {path}: {error.strerror}") from error
    if len(content) > _MOST_BYTES:
        raise ConfigurationError(f"{path} is not a configuration: it is larger than {_MOST_BYTES} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ConfigurationError(f"{path}: line {line} is not UTF-8 text") from error


def parse(text: str, known: Mapping[str, Collection[str]]) -> tuple[Values, list[str]]:
    """Return the values of the ``known`` sections and keys, and everything that is wrong with the form."""
    problems = list(_duplicates(text))
    parser = _parser(strict=False)
    try:
        parser.read_string(text)
    except configparser.MissingSectionHeaderError as error:
        return {}, [f"line {error.lineno}: expected a section like [{next(iter(known))}], found {error.line!r}"]
    except configparser.ParsingError as error:
        problems += [f"line {line}: expected key = value, found {found}" for line, found in error.errors]
    values: Values = {}
    for section in parser.sections():
        if section not in known:
            problems.append(f"unknown section [{section}]{_suggestion(section, known)}")
            continue
        found = dict(parser[section])
        problems += [
            f"unknown key {key} in [{section}]{_elsewhere(key, known) or _suggestion(key, known[section])}"
            for key in found
            if key not in known[section]
        ]
        values[section] = {key: value for key, value in found.items() if value and key in known[section]}
    return values, problems


def _parser(*, strict: bool) -> configparser.RawConfigParser:
    # Without a default section: [DEFAULT] would lend its keys to all others.
    return configparser.RawConfigParser(strict=strict, inline_comment_prefixes=("#",), default_section="")


def _duplicates(text: str) -> Iterator[str]:
    """Say which keys or sections stand there twice; each is taken out to find the next."""
    lines = text.splitlines()
    while True:
        try:
            _parser(strict=True).read_string("\n".join(lines))
        except configparser.DuplicateOptionError as error:
            yield f"line {error.lineno}: {error.option} stands twice in [{error.section}]"
            lines[(error.lineno or 1) - 1] = ""
        except configparser.DuplicateSectionError as error:
            yield f"line {error.lineno}: section [{error.section}] stands twice"
            return
        except configparser.Error:
            return
        else:
            return


def _elsewhere(key: str, known: Mapping[str, Collection[str]]) -> str:
    """Name the section that has a key, if there is one."""
    return next((f"; it belongs in [{section}]" for section, keys in known.items() if key in keys), "")


def _suggestion(word: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else f"; expected one of {', '.join(sorted(known))}"
