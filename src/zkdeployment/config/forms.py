"""The frame of configuration files: their syntax, the rows of their tables, the forms of values.

A line that begins with ``#`` or ``;`` is a comment, and so is text after a ``#`` that follows a blank. A section
is a dataclass, and each of its fields with ``setting`` is a row of the table of keys: the name, the form, the
default, and below it the text for the manual and for ``etc/zkdeployment.cfg``. The table of ``[zkdeployment]`` is
in ``settings``, the others are in the modules ``settings`` of capabilities.
"""

from __future__ import annotations

import configparser
import io
import math
import re
import shlex
from dataclasses import MISSING, Field, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeAlias, TypeVar, overload
from urllib.parse import unquote, urlsplit

from zkdeployment.base.errors import ConfigurationError, without_passwords, without_secrets
from zkdeployment.base.values import dataclass
from zkdeployment.zookeeper.servers import AclEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

T = TypeVar("T")
D = TypeVar("D")

#: Reports a problem of a value: what was expected, and what was found.
Report: TypeAlias = "Callable[[str], None]"


#: Section → key → value, without empty values.
Values: TypeAlias = "dict[str, dict[str, str]]"

#: A configuration is a page of text; a larger file is a mistake.
_MOST_FILE_BYTES = 1 << 20


def read_file(path: Path) -> str:
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


def parse(
    text: str, main: type[SectionSettings], every: Callable[[], Mapping[str, type[SectionSettings]]]
) -> tuple[Values, list[str]]:
    """Return the values of a file by section and key, and all problems of the syntax.

    ``main`` is the table of the first section. ``every`` returns the tables of all sections; it is called only for
    a file with other sections, or with unknown keys.
    """
    problems = list(_duplicates(text))
    parser = _parser(strict=False)
    try:
        parser.read_string(text)
    except configparser.MissingSectionHeaderError as error:
        return {}, [f"line {error.lineno}: expected a section like [{main.SECTION}], found {error.line!r}"]
    except configparser.ParsingError as error:
        lines = [*io.StringIO(text)]
        problems += [f"line {line}: expected key = value, found {lines[line - 1]!r}" for line, _ in error.errors]
    values: Values = {}
    found = parser.sections()
    tables = every() if {*found} - {main.SECTION} else {main.SECTION: main}
    for section in found:
        kind, _, name = section.partition(" ")
        table = tables.get(kind)
        if table is None or (name and not table.IS_NAMED):
            problems.append(f"unknown section [{section}]{_suggestion(section, tables)}")
        elif table.IS_NAMED and not name.strip():
            problems.append(f"expected a name in [{kind} NAME], found [{section}]")
        elif pairs := dict(parser[section]):
            known = table.rows()
            for key in [key for key in pairs if key not in known]:
                place = next(
                    (f"; it belongs in [{other}]" for other, each in every().items() if key in each.rows()), ""
                )
                problems.append(f"unknown key {key} in [{section}]{place or _suggestion(key, known)}")
            values[section] = {key: value for key, value in pairs.items() if value and key in known}
    return values, problems


def _parser(*, strict: bool) -> configparser.RawConfigParser:
    # Without a default section: the keys of [DEFAULT] would appear in all sections.
    return configparser.RawConfigParser(strict=strict, inline_comment_prefixes=("#",), default_section="")


def _duplicates(text: str) -> Iterator[str]:
    """Yield a problem for each duplicate key or section; a found one is blanked out to find the next."""
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


def _suggestion(word: str, known: Collection[str]) -> str:
    import difflib  # noqa: PLC0415  programs start faster without it

    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else f"; expected one of {', '.join(sorted(known))}"


#: Names are short; a longer value is a mistake.
_MOST_BYTES = 1024

#: Seconds for all attempts to read a value from its address.
_SECONDS = 8.0
_ATTEMPTS = 3


class UnansweredError(ConfigurationError):
    """An address that the configuration names has no answer, or one of a server that does not work."""

    retry_helps = True


def is_external(value: str) -> bool:
    """Whether a value names the place of the real value; ``word:rest`` (for example a MAC address) does not."""
    return value.startswith(("file:///", "http://", "https://"))


def read_value(value: str) -> str | None:
    """Return a value, read from its external place if it names one, stripped; ``None`` if it does not exist.

    Raises ``ConfigurationError`` if the value cannot be read, and perhaps exists; ``UnansweredError`` if a later
    attempt may succeed.
    """
    if not is_external(value):
        return value
    content = _read_local(value) if value.startswith("file:") else _read_address(value)
    if content is None:
        return None
    if len(content) > _MOST_BYTES:
        raise ConfigurationError(f"expected at most {_MOST_BYTES} bytes at {without_passwords(value)}, found more")
    try:
        return content.decode("utf-8").strip() or None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{without_passwords(value)} is not UTF-8 text") from error


def _read_local(value: str) -> bytes | None:
    path = Path(unquote(urlsplit(value).path))
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from error


def _read_address(value: str) -> bytes | None:
    """Return the content at an address, with further attempts while the connection breaks."""
    from zkdeployment.base.machine.http import HttpClient, HttpError, TooSlowError  # noqa: PLC0415  few files need it

    shown = without_passwords(value)
    client, headers = HttpClient(), {"Accept": "text/plain, */*"}
    try:
        answer = client.request(
            "GET", value, timeout=_SECONDS, most=_MOST_BYTES, headers=headers, attempts=_ATTEMPTS
        )
    except HttpError as error:
        is_temporary = type(error) in {HttpError, TooSlowError}
        kind = UnansweredError if is_temporary else ConfigurationError
        raise kind(f"cannot read {shown}: {error}") from error
    finally:
        client.close()
    if answer.status == 404:
        return None
    if answer.status != 200:
        kind = UnansweredError if answer.status >= 500 else ConfigurationError
        raise kind(f"expected status 200 or 404 from {shown}, found {answer.status}")
    return answer.content


#: The largest number of seconds that settings and options accept: a year. Systems cannot wait for much longer.
LONGEST_WAIT = 365 * 86400.0


def shown(value: Any) -> Any:
    """Return a value for JSON, without passwords."""
    match value:
        case Path():
            return str(value)
        case tuple():
            return [shown(part) for part in value]
        case str():
            return without_passwords(value)
        case _:
            return value


class Form(NamedTuple, Generic[T]):
    """A form of values: ``read`` returns the value of a text, ``None`` after a problem; ``show`` the inverse."""

    read: Callable[[str, Report], T | None]
    show: Callable[[T], object] = shown


#: The default of a key without a default of its own.
REQUIRED: Any = MISSING


@overload
def setting(form: Form[T]) -> T | None: ...
@overload
def setting(form: Form[T], default: D) -> T | D: ...
def setting(form: Form[Any], default: Any = None) -> Any:
    """Return the field of a key: a row of the table of its section."""
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata={"form": form})
    return field(default=default, metadata={"form": form})


@dataclass(frozen=True)
class Section:
    """The texts of a section by key, and the problems that were found in the file.

    ``authenticated`` is whether the file has credentials for ZooKeeper, which access lists can name.
    """

    texts: Mapping[str, str]
    problems: list[str] = field(default_factory=list)
    authenticated: bool = False

    def report(self, key: str, problem: str) -> None:
        """Add a problem of a key."""
        self.problems.append(f"{key}: {problem}")

    def report_half(self, key: str, other: str, problem: str) -> None:
        """Add a problem of a key if the section specifies only one of two keys."""
        if (key in self.texts) != (other in self.texts):
            self.report(key, problem)


class SectionSettings:
    """The settings of a section: a dataclass whose fields with ``setting`` are the table of the section's keys.

    ``SECTION`` is the name of the section, and ``PLACE`` orders the sections in the manual. A file may have
    several sections that are ``IS_NAMED``, each with a name: ``[metrics main]``. ``MISSING`` is the problem of a
    file that lacks a section with required keys; by default, the problem names the section.
    """

    SECTION: ClassVar[str]
    PLACE: ClassVar[int] = 100
    IS_NAMED: ClassVar[bool] = False
    MISSING: ClassVar[str] = ""

    @classmethod
    def rows(cls) -> dict[str, Field[Any]]:
        """Return the rows of the table by the names of their keys."""
        every: tuple[Field[Any], ...] = fields(cls)  # type: ignore[arg-type]  # subclasses are dataclasses
        return {row.name.replace("_", "-"): row for row in every if row.metadata}

    @classmethod
    def values(cls, section: Section) -> dict[str, Any]:
        """Return the values of a section by field; problems are reported to the section.

        Raises ``UnansweredError`` at the first address without an answer.
        """
        values = {}
        for key, row in cls.rows().items():
            if key in section.texts:
                try:
                    value = row.metadata["form"].read(section.texts[key], partial(section.report, key))
                except UnansweredError as error:
                    raise UnansweredError(f"{key}: {error}") from error
                if value is not None:
                    values[row.name] = value
        cls.complete(section, values)
        return values

    @classmethod
    def complete(cls, section: Section, values: dict[str, Any]) -> None:
        """Report problems between keys, and add the values that follow from other keys."""

    @classmethod
    def lacking(cls, section: Section) -> list[str]:
        """Return the required keys that a section lacks."""
        required = (key for key, row in cls.rows().items() if row.default is row.default_factory is MISSING)
        return [key for key in required if not section.texts.get(key)]

    @classmethod
    def report_missing(cls, section: Section) -> None:
        """Report the required keys that a section lacks."""
        for key in cls.lacking(section):
            section.report(key, f"not specified in [{cls.SECTION}]")

    @classmethod
    def read(cls, section: Section) -> Self | None:
        """Return the settings; ``None`` if a required key has no value."""
        values = cls.values(section)
        needed = {row.name for row in cls.rows().values() if row.default is row.default_factory is MISSING}
        return cls(**values) if needed <= values.keys() else None


def checked(problem_of: Callable[[str], str | None]) -> Form[str]:
    """Return the form of texts for which ``problem_of`` returns no problem."""

    def read(text: str, report: Report) -> str | None:
        problem = problem_of(text)
        if problem is None:
            return text
        report(problem)
        return None

    return Form(read)


def matching(pattern: str, expected: str) -> Form[str]:
    """Return the form of texts that match a regular expression."""
    return checked(lambda text: None if re.fullmatch(pattern, text) else f"expected {expected}, found {text!r}")


def one_of(*words: str) -> Form[str]:
    """Return the form of a choice between words."""
    return checked(lambda text: None if text in words else f"expected {' or '.join(words)}, found {text!r}")


def number(most: int, expected: str) -> Form[int]:
    """Return the form of whole numbers from 1 to ``most``."""

    def read(text: str, report: Report) -> int | None:
        if text.isascii() and text.isdecimal() and len(text) <= len(str(most)) and 0 < int(text) <= most:
            return int(text)
        report(f"expected {expected}, found {text!r}")
        return None

    return Form(read)


def seconds(*, positive: bool = False, most: float = LONGEST_WAIT) -> Form[float]:
    """Return the form of numbers of seconds up to ``most``, and at least or, if ``positive``, above zero."""

    def read(text: str, report: Report) -> float | None:
        try:
            number = float(text if text.isascii() else "")
        except ValueError:
            number = math.nan
        if 0 <= number <= most and (number or not positive) and "_" not in text:
            return number
        limit = f", at most {most:.0f}" if number > most else ""
        report(f"expected a {'positive ' if positive else ''}number of seconds{limit}, found {text!r}")
        return None

    return Form(read)


def _path(text: str, report: Report) -> Path | None:
    if text.startswith("/") and "\0" not in text and "\n" not in text:
        return Path(text)
    report(f"expected an absolute path (/…), found {text!r}")
    return None


def _file(text: str, report: Report) -> Path | None:
    path = _path(text, report)
    try:
        if path is not None:
            path.open("rb").close()
    except OSError as error:
        report(f"cannot read {path}: {error.strerror}")
        return None
    return path


def _metrics_file(text: str, report: Report) -> Path | None:
    path = _path(text, report)
    if path is not None and path.suffix != ".prom":
        report(f"expected a path that ends in .prom (other files are not collected), found {str(path)!r}")
    return path


def _command(text: str, report: Report) -> tuple[str, ...] | None:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        hint = "; a # after a blank begins a comment" if "quotation" in str(error) else ""
        report(f"expected a command in shell syntax: {error}{hint}")
        return None


def items(text: str) -> tuple[str, ...]:
    """Return the distinct items that commas or line ends separate."""
    parts = (part.strip() for part in re.split(r"[,\n]", text))
    return tuple(dict.fromkeys(part for part in parts if part))


def _pairs(text: str, report: Report) -> Mapping[str, str]:
    pairs: dict[str, str] = {}
    for item in items(text):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not name or not equals:
            report(f"expected NAME=VALUE, separated by commas, found {item!r}")
        elif pairs.setdefault(name, value) != value:
            report(f"expected one value of {name}, found {pairs[name]!r} and {value!r}")
    return pairs


def _yes_no(text: str, report: Report) -> bool | None:
    if text not in {"yes", "no"}:
        report(f"expected yes or no, found {text!r}")
    return text == "yes"


#: All rights for the authenticated creator of a node.
CREATOR = AclEntry("auth", "", "cdrwa")

_ACL_ENTRY = re.compile(r"(?:(creator)|(world):(anyone)|(digest|x509|sasl|ip):(\S.*)):([cdrwa]+)")


def _acl(text: str, report: Report) -> tuple[AclEntry, ...]:
    entries = []
    for line in (line.strip() for line in text.splitlines()):
        if match := _ACL_ENTRY.fullmatch(line):
            creator, world, anyone, scheme, identity, rights = match.groups()
            who = CREATOR[:2] if creator else (world or scheme, anyone or identity)
            entries.append(AclEntry(*who, rights))
        elif line:
            report(
                "expected lines like creator:cdrwa, world:anyone:r, digest:USER:HASH:r or x509:CN=viewer:r,"
                f" found {line!r}"
            )
    return tuple(entries)


def _shown_acl(acl: tuple[AclEntry, ...]) -> list[str]:
    return [":".join(filter(None, entry)).replace("auth:", "creator:") for entry in acl]


def complete_acl(section: Section, values: dict[str, Any], key: str) -> None:
    """Report an access list that names an unknown creator; the default is all rights for the creator only."""
    acl = values.get(key.replace("-", "_"), ())
    if not section.authenticated and CREATOR[:2] in (entry[:2] for entry in acl):
        section.report(key, "creator requires zookeeper-credentials or zookeeper-certificate")
    if not acl and section.authenticated:
        values[key.replace("-", "_")] = (CREATOR,)


TEXT: Form[str] = Form(lambda text, _report: text)
PATH = Form(_path)
FILE = Form(_file)  # readable
METRICS_FILE = Form(_metrics_file)
COMMAND = Form(_command, lambda words: without_secrets(shlex.join(words)))
ITEMS: Form[tuple[str, ...]] = Form(lambda text, _report: items(text))
WORDS: Form[tuple[str, ...]] = Form(lambda text, _report: tuple(text.split()))
PAIRS = Form(_pairs)
YES_NO = Form(_yes_no, lambda value: "yes" if value else "no")
SECONDS = seconds()
POSITIVE_SECONDS = seconds(positive=True)
DAYS = number(3650, "a number of days from 1 to 3650")
ACL = Form(_acl, _shown_acl)
