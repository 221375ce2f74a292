"""Checks docstrings, comments, messages and the manual for wordings at which readers stumble."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

ROOT = Path(__file__).parent.parent
ALLOWED = Path(__file__).parent / "wording_allowed.txt"

WORDINGS = {
    "none": (r"\b(?:is|are|was|were) (?-i:none)\b", "name what is missing or invalid"),
    "as it is": (
        r"(?<!far )(?<!long )(?<!soon )\bas (?:it|they) (?:is|are|was|were)\b",
        "write 'unchanged', or what stays",
    ),
    "say": (r"\b(?:say|says|said)\b", "write log, report, state, name or declare"),
    "somebody": (r"(?<!-)\b(?:some|no)body\b", "name the person or the program"),
    "look": (
        r"(?<![/`])\blook(?:s|ed|ing)?\b(?! (?:up|like|good|the same)\b)",
        "write inspect, read, check or poll",
    ),
    "are by": (
        r"\b(?:is|are) by (?:an? )?(?!default\b|hand\b|name\b)\w+(?: \w+){0,2}(?=[.,;:)]|$)",
        "write 'keyed by' or 'sorted by'",
    ),
    "leave out": (r"\b(?:leave|leaves|leaving|left) out\b", "write omit, exclude or skip"),
    "become of": (r"\bbec(?:ome|omes|ame) of\b", "write the outcome or the state of"),
    "go on": (r"\b(?:go|goes|went|going) on\b(?! to\b)", "write continue"),
    "belong into": (r"\bbelongs? into\b", "write 'belong in' or 'belong to'"),
    "ever": (r"\b(?:who|which|what)ever\b", "write any, or name the cases"),
    "however": (r"\bhowever (?:few|large|late|long|many|much|often|small)\b", "write 'for any number of'"),
    "hand on": (r"\bhand(?:s|ed|ing)? on\b", "write release or pass"),
    "hold up": (r"\b(?:hold|holds|holding|held) up\b", "write delay or block"),
    "in the way": (r"\b(?:stand|stands|standing|stood) in the way\b", "name the obstacle"),
    "speak against": (r"\b(?:speak|speaks|spoke) against\b", "write objection or reason"),
    "how many": (r"^(?-i:How many)\b", "write 'the number of' or 'the most'"),
    "return what": (r"^Return (?:how|what|who|whose)\b", "name the returned value"),
    "all the same": (r"\ball the same\b", "write nevertheless or still"),
    "as ever": (r"\bas ever\b", "write unchanged"),
}
OPENINGS = re.compile(r"(?:It|That|This|What|Those)\b(?!-)")
SENTENCES = re.compile(r"(?<=[.!?:])\s+|\n\s*\n")
WORDS = 3  # of a string that is a message


class Sentence(NamedTuple):
    """A sentence, the line on which its text begins, and whether a docstring has it."""

    line: int
    text: str
    documents: bool


class Finding(NamedTuple):
    """A wording in a sentence of a file."""

    wording: str
    file: str
    line: int
    sentence: str
    remedy: str


def python_sentences(source: str) -> Iterator[Sentence]:
    """Yield the sentences of the docstrings, messages and comments of a module."""
    tree = ast.parse(source)
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for line, text, is_docstring in _strings(tree, documents):
        yield from _sentences(line, text, documents=is_docstring)
    for line, text in _comments(source):
        yield from _sentences(line, text, documents=False)


def _strings(tree: ast.AST, documents: Collection[int]) -> Iterator[tuple[int, str, bool]]:
    """Yield the docstrings and messages with their lines; an f-string is one message."""
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        match node:
            case ast.JoinedStr(values=parts):
                yield node.lineno, "".join(_constant(part) for part in parts), False
                nodes += [part for part in parts if not isinstance(part, ast.Constant)]
                continue
            case ast.Constant(value=str(text)) if id(node) in documents:
                yield node.lineno, text, True
            case ast.Constant(value=str(text)) if len(text.split()) >= WORDS:
                yield node.lineno, text, False
        nodes += ast.iter_child_nodes(node)


def _constant(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "{}"


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield each block of comments, with the line on which the block begins."""
    comments = [
        (token.start[0], token.string.lstrip("# "))
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    for _, block in groupby(enumerate(comments), lambda item: item[1][0] - item[0]):
        lines = [comment for _, comment in block]
        yield lines[0][0], "\n".join(text for _, text in lines)


def manual_sentences(source: str) -> Iterator[Sentence]:
    """Yield the sentences of a page of the manual, without its literal blocks."""
    literal: int | None = None  # the indentation of the paragraph that announces a literal block
    for block in re.finditer(r"(?:[^\n]*\S[^\n]*(?:\n|$))+", source):
        text = block[0]
        indentation = len(text) - len(text.lstrip())
        if literal is not None and indentation > literal:
            continue
        directive = re.match(r"\s*\.\. (?:code-block|literalinclude|image|figure|_)", text)
        literal = indentation if directive or text.rstrip().endswith("::") else None
        if not directive:
            yield from _sentences(source.count("\n", 0, block.start()) + 1, text, documents=False)


def _sentences(line: int, text: str, *, documents: bool) -> Iterator[Sentence]:
    for part in SENTENCES.split(re.sub(r"``.*?``", "``…``", text, flags=re.DOTALL)):
        if sentence := " ".join(part.split()):
            yield Sentence(line, sentence, documents)


def findings(file: str, sentences: Iterator[Sentence]) -> Iterator[Finding]:
    """Yield the wordings of the sentences of one file that are not allowed anywhere."""
    for line, text, documents in sentences:
        for wording, (pattern, remedy) in WORDINGS.items():
            if re.search(pattern, text, re.IGNORECASE):
                yield Finding(wording, file, line, text, remedy)
        if documents and (opening := OPENINGS.match(text)):
            yield Finding(opening[0], file, line, text, "begin with the noun")


def problems(root: Path, files: Sequence[Path], allowed: str) -> Iterator[str]:
    """Yield a problem for each wording outside the allowed places, and for each allowed place that is not used.

    A line of ``allowed`` is WORDING | FILE | SENTENCE.
    """
    places = {line for line in allowed.splitlines() if line and not line.startswith("#")}
    used = set()
    for file in files:
        read = python_sentences if file.suffix == ".py" else manual_sentences
        name = file.relative_to(root).as_posix()
        for finding in findings(name, read(file.read_text(encoding="utf-8"))):
            place = f"{finding.wording} | {name} | {finding.sentence}"
            used.add(place)
            if place not in places:
                yield f"{name}:{finding.line}: '{finding.wording}' in: {finding.sentence} ({finding.remedy})"
    for place in sorted(places - used):
        yield f"{ALLOWED.name}: no sentence needs this line any more; remove it: {place}"


def main() -> None:
    """Print all problems; exit with 1 if there are any."""
    files = [
        *sorted((ROOT / "src").rglob("*.py")),
        ROOT / "README.rst",
        *sorted((ROOT / "etc" / "manual").rglob("*.rst")),
    ]
    if found := list(problems(ROOT, files, ALLOWED.read_text(encoding="utf-8"))):
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
