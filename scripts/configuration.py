"""Writes ``etc/zkdeployment.cfg``, the sample, from the tables in ``src/zkdeployment/config``.

The manual's page of the configuration has the same tables (``etc/manual/conf.py``). The first paragraph of a key's
text is in both; the other paragraphs are in the manual only. The last paragraph may be ``Example: VALUE``, for the
sample; a key without it has its default there.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zkdeployment.config.settings import section_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "etc" / "zkdeployment.cfg"
PAGE = ROOT / "etc" / "manual" / "reference" / "configuration.rst"

HEAD = """\
The configuration of the agent, the monitor, the syncer, the coordinator and the tools:
/etc/zkdeployment/zkdeployment.cfg

A # at the beginning of a line or after a blank starts a comment. Unknown keys are errors. To check this file and
print the settings: ``zkdeployment config check FILE``. A host needs only host-id and run-directory."""

#: The keys that the sample sets; the others are comments.
SET = {("zkdeployment", "host-id"), ("zkdeployment", "role"), ("zkdeployment", "run-directory")}
SET |= {("sync", "url"), ("sync", "tree-directory")}

WIDTH = 120


class Key(NamedTuple):
    """A key as the manual and the sample show it; ``text`` are paragraphs, and ``default`` may be empty."""

    name: str
    default: str
    text: list[str]
    example: str


def keys(section: str) -> Iterator[Key]:
    """Yield the keys of a section in the order of its table."""
    table = section_tables()[section]
    texts = _texts(table)
    for name, row in table.rows().items():
        text = texts[row.name].split("\n\n")
        example = text.pop().removeprefix("Example: ") if text[-1].startswith("Example: ") else ""
        default = _shown(row.metadata["form"].show(getattr(table, row.name))) if hasattr(table, row.name) else ""
        yield Key(name, "" if "Default: " in text[0] else default, text, example or default)


def _texts(table: type) -> dict[str, str]:
    """Return the texts below the fields of a class."""
    tree = ast.parse(inspect.getsource(table))
    body = next(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    }


def _shown(default: object) -> str:
    match default:
        case None:
            return ""
        case list():
            return " ".join(default)
        case _:
            return str(default).removesuffix(".0")


def reference(section: str) -> str:
    """Return the keys of a section as a list of definitions in RST."""
    return "\n".join(
        f"``{key.name}``{f' (default: ``{key.default}``)' if key.default else ''}\n"
        + textwrap.indent("\n\n".join(key.text), "    ")
        + "\n"
        for key in keys(section)
    )


def sample() -> str:
    """Return the text of the sample."""
    page = PAGE.read_text(encoding="utf-8")
    heading = r"^``\[(\w+)(?: NAME)?\]``\n-+\n\n(?!\.\.)(.+(?:\n.+)*)"
    introductions = dict(re.findall(heading, page, flags=re.MULTILINE))
    parts = [comment(HEAD)]
    for section, table in section_tables().items():
        introduction = f"{comment(introductions[section])}\n" if section in introductions else ""
        first, *others = _rows(section)
        name = " main" if table.IS_NAMED else ""
        parts += [f"{introduction}[{section}{name}]\n{first}", *others]
    return "\n\n".join(parts) + "\n"


def _rows(section: str) -> Iterator[str]:
    for key in keys(section):
        text = key.text[0]
        if key.default and key.default != key.example:
            text += f" Default: {key.default}."
        mark = "" if (section, key.name) in SET else "# "
        yield f"{comment(text)}\n{mark}{key.name} = {key.example}"


def comment(text: str) -> str:
    """Return paragraphs in RST as the lines of a comment, of plain text."""
    wrapper = textwrap.TextWrapper(
        WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False, break_on_hyphens=False
    )
    return "\n#\n".join(wrapper.fill(_plain(" ".join(part.split()))) for part in text.split("\n\n"))


def _plain(text: str) -> str:
    text = re.sub(r":\w+:`([^<`]+?) <[^>]+>`", r"\1", text)
    return re.sub(r"``([^`]*)``", lambda match: f'"{match[1]}"' if " " in match[1] else match[1], text)


if __name__ == "__main__":
    SAMPLE.write_text(sample(), encoding="utf-8")
