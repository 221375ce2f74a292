"""A signed publication, killed before and after each of its writes: what the next cycle finds and does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.keys import make_key, make_publishers, signed_by
from support.killed_syncer import KilledSyncer
from zkdeployment.publishing.daemon.signing import signing_file

if TYPE_CHECKING:
    from pathlib import Path

    from support.publishing import Publishing

#: With this limit, the publication below needs three transactions.
LIMIT = 14


def tree(version: str, services: int) -> str:
    return "/who\n" + "".join(
        f"  /a{number} : foo\n    version = {version!r}\n    /deploy\n      /h1\n" for number in range(services)
    )


#: The writes of a publication, in this order; the last two are of two threads.
PLAN = ["signed@1", "commit@1", "commit@2", "commit@3", "signed@2", "published@1"]

UNTOUCHED, INCOMPLETE, COMPLETE = "untouched", "incomplete", "complete"

#: What is in ZooKeeper after a crash before the write, and after it.
FOUND = {
    "signed@1": (UNTOUCHED, UNTOUCHED),
    "commit@1": (UNTOUCHED, INCOMPLETE),
    "commit@2": (INCOMPLETE, INCOMPLETE),
    "commit@3": (INCOMPLETE, COMPLETE),
    "signed@2": (COMPLETE, COMPLETE),
    "published@1": (COMPLETE, COMPLETE),
}

TABLE = [
    (f"{when}:{write}", found)
    for write, both in FOUND.items()
    for when, found in zip(("before", "after"), both, strict=True)
]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a key and the list of it."""
    directory = tmp_path_factory.mktemp("keys")
    key = make_key(directory / "key")
    return key, make_publishers(directory / "publishers", key)


def test_the_table_has_all_writes_of_a_publication(
    publishing: Publishing, keys: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
):
    publishing.key = keys[0]
    publishing.push(tree("1.0", 2))
    publishing.sync()
    publishing.push(tree("2.0", 4))
    living = KilledSyncer(publishing, monkeypatch, "never", LIMIT)
    living.run()
    assert living.reached[:-2] + sorted(living.reached[-2:], reverse=True) == PLAN == [*FOUND]


@pytest.mark.parametrize(("place", "found"), TABLE)
def test_the_next_cycle_completes_the_publication_with_a_number_that_was_never_signed(
    publishing: Publishing, keys: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, place: str, found: str
):
    publishing.key, publishers = keys
    old = publishing.push(tree("1.0", 2))
    publishing.sync()
    new = publishing.push(tree("2.0", 4))
    KilledSyncer(publishing, monkeypatch, place, LIMIT).run()
    assert (publishing.get("/hosts"), publishing.published) == {
        UNTOUCHED: ({"version": old}, old),
        INCOMPLETE: ({"version": old, "importing": new}, None),
        COMPLETE: ({"version": new}, new),
    }[found]
    signed = signing_file(publishing.directory / "syncer" / ".tree.signed")
    reserved = signed.load().reserved
    report = publishing.sync()
    assert report.startswith("nothing to do" if found == COMPLETE else "published")
    _, statement = signed_by(publishing.client, publishers)
    assert statement.revision == publishing.published == publishing.version == new
    assert publishing.targets == {"h1": [f"/who/a{number}" for number in range(4)]}
    assert (statement.sequence == reserved) if found == COMPLETE else (statement.sequence > reserved)
    assert signed.load().sequence == statement.sequence
    assert publishing.memory().load().sequence == statement.sequence
    assert publishing.sync().startswith("nothing to do")
