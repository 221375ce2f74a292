"""The syntax of a configuration file: sections of ``key = value``, without interpolation.

A line that begins with ``#`` or ``;`` is a comment, and so is text after a ``#`` that follows a blank. The meaning
of keys belongs to ``load``.
"""

from __future__ import annotations

import configparser
from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

#: Section → key → value, without empty values.
Values: TypeAlias = "dict[str, dict[str, str]]"

#: A configuration is a page of text; a larger file is a mistake.
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
        raise ConfigurationError(
            f"{path} is not a configuration: expected at most {_MOST_BYTES} bytes, found more"
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
