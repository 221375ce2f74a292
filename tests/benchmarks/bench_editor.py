"""Measures the language server: the time from a key in a large tree until its problems are shown.

A key either keeps the tree valid or makes a mistake in a line. The reference of the first is a check of the whole
tree without a memory, as ``lint`` makes it; the second is measured against the limit for typing without a delay.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.fleets import fleet_text
from benchmarks.results import Result, Scale, best, seconds
from support.editor import Editor, open_editor
from zkdeployment.base.source_files import SourceFile
from zkdeployment.publishing.rules.review import review

#: The limit in seconds: people notice a longer time after a key.
_LIMIT = 0.3


def measure(scale: Scale) -> Iterator[Result]:
    """Measure both kinds of keys in a tree of the largest fleet."""
    text = fleet_text(scale.hosts[-1])
    source = SourceFile("tree.zk", text.encode())
    whole = best([seconds(lambda: review([source])) for _ in range(scale.rounds)])
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "tree.zk"
        path.write_bytes(source.content)
        valid, mistakes = asyncio.run(_session(path, scale.rounds))
    size = f"{len(review([source]).linted.tree):,} nodes"
    yield Result(
        work="editor: key until problems are shown",
        size=size,
        value=best(valid),
        against="check of the whole tree",
        reference=whole,
        at_least=1.5,
    )
    yield Result(
        work="editor: mistake until it is shown",
        size=size,
        value=best(mistakes),
        against="limit for typing",
        reference=_LIMIT,
        at_most=1,
    )


async def _session(path: Path, rounds: int) -> tuple[list[float], list[float]]:
    valid: list[float] = []
    mistakes: list[float] = []
    async with open_editor(path) as editor:
        await editor.diagnostics()
        editor.go_to("threads = ", end=True)
        for _ in range(rounds):
            valid.append(await _key(editor, "1", problems=0))
            mistakes.append(await _key(editor, "x", problems=1))
            editor.replace(editor.cursor - 2, editor.cursor, "")
            await editor.diagnostics()
    return valid, mistakes


async def _key(editor: Editor, key: str, *, problems: int) -> float:
    start = time.perf_counter()
    editor.type(key)
    found = await editor.diagnostics()
    taken = time.perf_counter() - start
    if len(found) != problems:
        raise AssertionError(f"expected {problems} problems, found {found}")
    return taken
