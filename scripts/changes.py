"""Assembles the changelog fragments in ``.changes`` into ``CHANGES.rst``.

::

    python scripts/changes.py            # print what the fragments add to the next release
    python scripts/changes.py 1.0.0      # at the release: write CHANGES.rst, and remove the fragments

A fragment is a file ``.changes/NAME.KIND.rst`` with one or two sentences for the users of zkdeployment.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parent.parent

#: The kinds of fragments in the order of their sections: what endangers a fleet and what needs work come first.
KINDS = {
    "security": "Security",
    "removed": "Removed",
    "changed": "Changed",
    "added": "Added",
    "fixed": "Fixed",
}

#: The most sentences of a fragment; the manual has the details.
SENTENCES = 2

RELEASE = re.compile(r"^(\d+(?:\.\d+)+) \((.+)\)\n-+\n", re.MULTILINE)


class FragmentError(Exception):
    """A fragment, or a version, that cannot become part of the changelog."""


def fragments(root: Path) -> list[Path]:
    """Return all files in ``.changes``, sorted by name."""
    return sorted((root / ".changes").glob("*"))


def assembled(files: list[Path]) -> str:
    """Return the sections of all fragments, by kind and then by name; raise FragmentError for an invalid one."""
    entries: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for file in files:
        entries[_kind(file)].append(_entry(file))
    return "\n".join(_section(KINDS[kind], texts) for kind, texts in entries.items() if texts)


def _kind(file: Path) -> str:
    match file.name.split("."):
        case [_, kind, "rst"] if kind in KINDS:
            return kind
    kinds = ", ".join(KINDS)
    msg = f"invalid name {file.name}: expected NAME.KIND.rst with one of the kinds {kinds}; rename the file"
    raise FragmentError(msg)


def _entry(file: Path) -> str:
    text = file.read_text(encoding="utf-8").strip()
    if not text:
        msg = f"{file.name} is empty: expected a sentence for users; write it, or remove the file"
        raise FragmentError(msg)
    if (count := len(re.split(r"(?<=[.!?])\s+", text))) > SENTENCES:
        msg = f"{file.name} is too long: expected at most {SENTENCES} sentences, found {count}; shorten it"
        raise FragmentError(msg)
    return "- " + textwrap.indent(text, "  ").lstrip() + "\n"


def _section(title: str, entries: list[str]) -> str:
    return f"{title}\n{'~' * len(title)}\n\n{''.join(entries)}"


def with_release(changes: str, version: str, date: str, sections: str) -> str:
    """Return the changelog with a release on top; the text of its own section stays, with a new date."""
    if not re.fullmatch(r"\d+(\.\d+)+", version):
        msg = f"invalid version {version!r}: expected numbers with dots, such as 1.0.0"
        raise FragmentError(msg)
    releases = [*RELEASE.finditer(changes)]
    if any(found[1] == version for found in releases[1:]):
        msg = f"CHANGES.rst has a release after {version} already; choose a higher version"
        raise FragmentError(msg)
    title = f"{version} ({date})"
    start = releases[0].start() if releases else len(changes)
    older, body = changes[start:], ""
    if releases and releases[0][1] == version:
        end = releases[1].start() if len(releases) > 1 else len(changes)
        body, older = changes[releases[0].end() : end].strip(), changes[end:]
    parts = (f"{title}\n{'-' * len(title)}", body, sections.strip(), older.strip())
    return changes[:start] + "\n\n".join(part for part in parts if part) + "\n"


def main(root: Path, *arguments: str) -> None:
    """Print the assembled fragments, or write them into the changelog as the release that is named."""
    files = fragments(root)
    sections = assembled(files)
    if not arguments:
        sys.stdout.write(sections)
        return
    (version,) = arguments
    changes = root / "CHANGES.rst"
    date = dt.datetime.now(tz=dt.UTC).date().isoformat()
    changes.write_text(
        with_release(changes.read_text(encoding="utf-8"), version, date, sections), encoding="utf-8"
    )
    for file in files:
        file.unlink()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit("expected at most one argument, the version of the release, such as 1.0.0")
    try:
        main(ROOT, *sys.argv[1:])
    except FragmentError as error:
        sys.exit(str(error))
