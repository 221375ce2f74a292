"""The changelog: fragments are assembled by kind into a release, and those of this repository are valid."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

HERE = Path(__file__).parents[2]
SCRIPT = SimpleNamespace(**runpy.run_path(str(HERE / "scripts" / "changes.py")))

OLDER = "0.1.0 (2026-12-01)\n------------------\n\nThe first release.\n"
FRAGMENTS = {
    "width.fixed.rst": "Tables fit into narrow terminals.\n",
    "old-key.removed.rst": "The key ``old`` is removed:\nuse ``new``.\n",
    "another.fixed.rst": "Completion works in fish.\n",
}
SECTIONS = """Removed
~~~~~~~

- The key ``old`` is removed:
  use ``new``.

Fixed
~~~~~

- Completion works in fish.
- Tables fit into narrow terminals.
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / ".changes").mkdir()
    for name, text in FRAGMENTS.items():
        (tmp_path / ".changes" / name).write_text(text)
    (tmp_path / "CHANGES.rst").write_text(f"Changes\n=======\n\n{OLDER}")
    return tmp_path


def test_fragments_are_printed_by_kind_and_name(root, capsys):
    SCRIPT.main(root)
    assert capsys.readouterr().out == SECTIONS
    assert len(SCRIPT.fragments(root)) == len(FRAGMENTS)


def test_a_release_is_placed_above_older_ones_and_its_fragments_are_removed(root):
    SCRIPT.main(root, "1.0.0")
    before, _, rest = (root / "CHANGES.rst").read_text().partition("1.0.0 (")
    assert before == "Changes\n=======\n\n"
    assert rest[len("2026-12-24") :] == f")\n------------------\n\n{SECTIONS}\n{OLDER}"
    assert SCRIPT.fragments(root) == []


@pytest.mark.parametrize("date", ["unreleased", "2026-11-30"])
def test_the_text_of_a_prepared_version_stays_its_date_is_renewed_and_fragments_follow_it(date):
    prepared = OLDER.replace("2026-12-01", date)
    assert SCRIPT.with_release(prepared, "0.1.0", "2026-12-01", SECTIONS) == f"{OLDER}\n{SECTIONS}"


def test_a_prepared_release_without_fragments_is_the_same_on_its_day():
    assert SCRIPT.with_release(OLDER, "0.1.0", "2026-12-01", "") == OLDER


def test_a_fragment_has_up_to_two_sentences_and_dots_within_words(tmp_path):
    fragment = tmp_path / "dnf.fixed.rst"
    fragment.write_text("dnf 5.4 is\nsupported. ``hosts.yaml`` is read by 1.0.0, too!\n")
    assert SCRIPT.assembled([fragment]).startswith("Fixed\n")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("width.rst", "Text.", "invalid name width.rst: expected NAME.KIND.rst"),
        ("width.better.rst", "Text.", "one of the kinds security, removed, changed, added, fixed"),
        ("width.fixed.rst", "\n", "width.fixed.rst is empty"),
        ("width.fixed.rst", "Tables fit.\nLines, too. A third.", "expected at most 2 sentences, found 3"),
    ],
)
def test_an_invalid_fragment_is_refused_and_nothing_is_changed(root, name, text, message):
    (root / ".changes" / name).write_text(text)
    before = (root / "CHANGES.rst").read_text()
    with pytest.raises(SCRIPT.FragmentError, match=message):
        SCRIPT.main(root, "1.0.0")
    assert (root / "CHANGES.rst").read_text() == before
    assert set(FRAGMENTS) <= {file.name for file in SCRIPT.fragments(root)}


@pytest.mark.parametrize(
    ("version", "message"),
    [("0.1.0", "has a release after 0.1.0 already"), ("next", "expected numbers with dots")],
)
def test_a_version_before_the_last_release_or_malformed_is_refused(root, version, message):
    newer = OLDER.replace("0.1.0", "0.2.0")
    (root / "CHANGES.rst").write_text(f"Changes\n=======\n\n{newer}\n{OLDER}")
    with pytest.raises(SCRIPT.FragmentError, match=message):
        SCRIPT.main(root, version)
    assert len(SCRIPT.fragments(root)) == len(FRAGMENTS)


def test_the_fragments_of_this_repository_become_part_of_its_changelog():
    changes = (HERE / "CHANGES.rst").read_text(encoding="utf-8")
    sections = SCRIPT.assembled(SCRIPT.fragments(HERE))
    assert sections.strip() in SCRIPT.with_release(changes, "999.0.0", "2026-12-01", sections)
