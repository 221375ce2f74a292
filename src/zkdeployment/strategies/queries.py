"""The queries of metrics: PromQL with variables for the hosts and instances of a group.

A variable stands only inside of the quoted value of a label matcher. Its values are escaped there, so that no text
of hosts, instances or services changes the structure of a query.
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple

from zkdeployment.base.records import Record
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The variables, each with its meaning in messages about missing values.
VARIABLES = {
    "instances": "no instance of the hosts is registered",
    "hosts": "there are no hosts",
    "others": "no instance of other hosts without the revision is registered",
    "revision": "there is no revision",
    "service": "the hosts deploy no service",
}

_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)
      | (?P<string>"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | `[^`]*`)
      | (?P<matcher>=~|!~|!=|=)
      | (?P<brace>[{}])
      | (?P<open>["'`])
      | (?P<blank>\s+)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
#: A variable, or an escaped character, behind which no variable begins.
_VARIABLE = re.compile(r"\\.|\$([A-Za-z_][A-Za-z0-9_]*)", re.DOTALL)

#: An escaped character of a quoted text, and the parts of a regular expression in which values lose their meaning.
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_PATTERN = re.compile(r"\\\$\w+ | \\. | \[\^?\]? (?: \\. | \[:\w+:\] | [^\]\\] )*", re.DOTALL | re.VERBOSE)
_NAME = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")

#: Characters with a meaning in a regular expression of RE2.
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")

#: Most characters of a query.
_LONGEST = 10_000


class UnresolvedError(Exception):
    """A variable of a query has no values, or too many for its matcher; the text states why."""


@dataclass(frozen=True, slots=True)
class QueryVariables(Record):
    """The values of the variables of queries at one moment; ``others`` are the instances of the other hosts.

    ``other_hosts`` are the names of the hosts outside of the group that do not have the revision.
    """

    instances: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    other_hosts: tuple[str, ...] = ()
    revision: tuple[str, ...] = ()
    service: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The number of all values."""
        return sum(len(getattr(self, each.name)) for each in fields(self))

    def of_others(self) -> QueryVariables:
        """Return the variables with which the same query measures the others."""
        return QueryVariables(
            self.others, self.other_hosts, self.others, self.other_hosts, self.revision, self.service
        )

    def values(self, name: str) -> tuple[str, ...]:
        """Return the values of a variable; raises ``UnresolvedError`` without a value."""
        values: tuple[str, ...] = getattr(self, name)
        if not values:
            raise UnresolvedError(VARIABLES[name])
        return values


class _Token(NamedTuple):
    """A part of a query; ``matcher`` is the operator before the quoted value of a label matcher."""

    kind: str
    text: str
    matcher: str = ""


def resolve(query: str, variables: QueryVariables) -> str:
    """Return a query with the values of its variables; raises ``UnresolvedError`` if one has no values."""
    return "".join(
        _filled(token, variables) if token.kind == "string" and _names(token.text) else token.text
        for token in _tokens(query)
    )


def _names(text: str) -> list[str]:
    """Return the names of the variables in a text."""
    return [name for name in _VARIABLE.findall(text) if name]


def _filled(token: _Token, variables: QueryVariables) -> str:
    """Return a quoted text with the values of its variables, as text in double quotes or with its own quotes."""
    quote, content = token.text[0], token.text[1:-1]
    if quote == "`":  # such a text has no escapes
        quote, content = '"', _escaped(content, '"')

    def value(match: re.Match[str]) -> str:
        if match[1] not in VARIABLES:
            return match[0]
        values = variables.values(match[1])
        if "~" not in token.matcher and len(values) > 1:
            found = f"${match[1]} has {len(values)} values"
            raise UnresolvedError(f"{found}; expected one after {token.matcher}, or use =~ or !~")
        if "~" in token.matcher:
            values = tuple(_SPECIAL.sub(r"\\\g<0>", each) for each in values)
        text = values[0] if len(values) == 1 else f"(?:{'|'.join(values)})"
        return _escaped(text, quote)

    return f"{quote}{_VARIABLE.sub(value, content)}{quote}"


def _escaped(text: str, quote: str) -> str:
    """Return text as the content of a quoted text of PromQL."""
    text = text.replace("\\", "\\\\").replace(quote, f"\\{quote}").replace("\n", "\\n")
    return re.sub(r"[\x00-\x1f\x7f]", lambda match: f"\\x{ord(match[0]):02x}", text)


def variables_in(query: str) -> frozenset[str]:
    """Return the names of the variables of a query."""
    return frozenset(name for token in _tokens(query) if token.kind == "string" for name in _names(token.text))


def query_faults(query: str) -> Iterator[str]:
    """Yield the faults of the variables and of the quotes of a query."""
    if len(query) > _LONGEST:
        yield f"expected a query of at most {_LONGEST} characters, found {len(query)}"
    for token in _tokens(query):
        if token.kind == "open":
            yield f"a quoted text begins with {token.text} and does not end"
            return
        for name in _names(token.text) if token.kind == "string" else ():
            yield from _variable_faults(name, token.matcher)
        if token.kind == "string" and "~" in token.matcher:
            yield from _pattern_faults(token.text)
    bare = "".join(" " if token.kind in {"string", "comment"} else token.text for token in _tokens(query))
    for name in _names(bare):
        yield f"${name} stands outside of a quoted value; expected it in a label matcher, as in {_example(name)}"


def _variable_faults(name: str, matcher: str) -> Iterator[str]:
    if name not in VARIABLES:
        import difflib  # noqa: PLC0415  programs start faster without it

        near = difflib.get_close_matches(name, VARIABLES, n=1)
        hint = f"did you mean ${near[0]}?" if near else f"expected one of: {', '.join(f'${v}' for v in VARIABLES)}"
        yield f"there is no variable ${name}; {hint}"
    elif not matcher:
        yield f"${name} is not the value of a label matcher; expected it as in {_example(name)}"


def _pattern_faults(text: str) -> Iterator[str]:
    """Yield the variables within a quoted regular expression that are escaped or in a class of characters.

    Values there have another meaning than their text.
    """
    pattern = text[1:-1] if text[0] == "`" else _ESCAPED.sub(r"\1", text[1:-1])
    for part in _PATTERN.findall(pattern):
        for name in _NAME.findall(part):
            if name in VARIABLES:
                yield f"${name} stands in [] or after a backslash; expected it outside, as in {_example(name)}"


def _example(name: str) -> str:
    return f'{{instance=~"${name if name in VARIABLES else "instances"}"}}'


def syntax_fault(query: str) -> str:
    """Return the fault that PromQL's parser finds in a query; empty without one."""
    import promql_parser  # noqa: PLC0415  only needed where documents are checked

    names = dict.fromkeys(VARIABLES, ("x",))
    try:
        parsed = promql_parser.parse(resolve(query, QueryVariables(**names)))
    except ValueError as error:
        return f"the query is not valid PromQL: {error}"
    while isinstance(parsed, promql_parser.ParenExpr):
        parsed = parsed.expr
    if isinstance(parsed, promql_parser.MatrixSelector | promql_parser.SubqueryExpr):
        return (
            "the query returns all values of a time range; expected one value, as with rate() or avg_over_time()"
        )
    return "the query is only a text; expected a number" if isinstance(parsed, promql_parser.StringLiteral) else ""


def _tokens(query: str) -> Iterator[_Token]:
    """Yield all parts of a query."""
    matcher, is_inside = "", False
    for match in _TOKEN.finditer(query):
        kind, text = match.lastgroup or "", match[0]
        if kind == "string":
            yield _Token(kind, text, matcher if is_inside else "")
        else:
            yield _Token(kind, text)
        if kind == "brace":
            is_inside = text == "{"
        if kind not in {"blank", "comment"}:
            matcher = text if kind == "matcher" else ""
