"""The files of a rollback."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.base.source_files import SourceFile
from zkdeployment.publishing.acts.commits import BranchSnapshot
from zkdeployment.publishing.acts.rollback import (
    is_rollback,
    restored_commit,
    restored_files,
    rollback_changes,
    with_strategies_of,
)
from zkdeployment.publishing.records import CommitSummary, Origin, PublicationRecord
from zkdeployment.tree.layers import merge
from zkdeployment.tree.parse import parse_bytes

STRATEGY = "schema: shipyard/DeploymentStrategy/v1\nmetadata: {name: deployment-strategy}\ndata: {groups: []}\n"
SLOW = STRATEGY.replace("[]", "[slow]")
QUARANTINE = "schema: zkdeployment/Quarantine/v1\nmetadata: {name: web, version: '1'}\n"


def snapshot(
    files: dict[str, str], past: dict[str, str], unusable: frozenset[str] = frozenset()
) -> BranchSnapshot:
    return BranchSnapshot("b" * 40, listed(files), unusable, past="a" * 40, past_files=listed(past))


def listed(files: dict[str, str]) -> tuple[SourceFile, ...]:
    return tuple(SourceFile(name, content.encode()) for name, content in files.items())


def test_tree_files_are_restored_and_strategies_and_other_documents_stay() -> None:
    tip = {"a.zk": "/a\n  /new\n", "new.zkx": "/a\n", "s.yaml": SLOW, "q.yaml": QUARANTINE, "added.yaml": SLOW}
    past = {"a.zk": "/a\n", "gone.zk": "/gone\n", "s.yaml": STRATEGY, "old.yaml": STRATEGY}
    found = snapshot(tip | {"s.yaml": STRATEGY, "added.yaml": ""}, past)
    assert restored_files(found) == {"a.zk": b"/a\n", "new.zkx": None, "gone.zk": b"/gone\n"}


@pytest.mark.parametrize(
    ("files", "is_exact"),
    [
        ({"a.zk": "/a\n", "new.zk": "/new\n", "s.yaml": SLOW}, True),
        ({"a.zk": "/a\n"}, True),  # of a former program
        ({"a.zk": "/a\n", "new.zk": "/new\n  /evil\n"}, False),
        ({"a.zk": "/a\n  /b\n", "new.zk": "/new\n"}, False),
        ({"a.zk": "/a\n", "more.zkx": "/a\n"}, False),
    ],
)
def test_a_rollback_is_recognised_by_its_tree_files(files: dict[str, str], is_exact: bool) -> None:
    branch = snapshot({"a.zk": "/a\n  /b\n", "new.zk": "/new\n  /b\n"}, {"a.zk": "/a\n"})
    assert is_rollback(branch, listed(files)) is is_exact


@pytest.mark.parametrize(
    ("tip", "unusable"), [({"s.yaml": f"{STRATEGY}extra: 1\n"}, frozenset()), ({}, frozenset({"s.yaml"}))]
)
def test_a_strategy_that_no_publication_could_follow_does_not_stay(
    tip: dict[str, str], unusable: frozenset[str]
) -> None:
    assert restored_files(snapshot(tip, {"s.yaml": STRATEGY}, unusable)) == {"s.yaml": STRATEGY.encode()}


def published(sequence: int, digit: str, subject: str) -> PublicationRecord:
    return PublicationRecord(digit * 40, 60.0, sequence, origin=Origin("Jane", subject, 50.0))


def test_a_rollback_is_named_after_the_commit_to_which_it_led() -> None:
    first = published(1, "a", "Web 1.2")
    back = published(3, "c", f"Roll back to {'a' * 12}: it burns")
    again = published(5, "e", f"Roll back to {'c' * 12}: it burns again")
    records = (again, published(4, "d", "Web 1.4"), back, published(2, "b", "Web 1.3"), first)
    for record in (again, back, first):
        assert restored_commit(record, records) == ("a" * 12, "Web 1.2")
    assert restored_commit(back, records[:3]) == ("a" * 12, "")


def test_tree_files_and_former_strategies_are_restored_and_other_documents_stay() -> None:
    tip = {"a.zk": "/a\n  /new\n", "new.zkx": "/a\n", "s.yaml": SLOW, "q.yaml": QUARANTINE, "added.yaml": SLOW}
    past = {"a.zk": "/a\n", "gone.zk": "/gone\n", "s.yaml": STRATEGY, "old.yaml": STRATEGY}
    assert restored_files(snapshot(tip, past), former_strategy=True) == {
        "a.zk": b"/a\n",
        "new.zkx": None,
        "gone.zk": b"/gone\n",
        "s.yaml": STRATEGY.encode(),
        "old.yaml": STRATEGY.encode(),
        "added.yaml": None,
    }


def test_top_level_nodes_that_only_the_tip_has_stay_empty_in_one_file() -> None:
    tip = {
        "a.zk": "/a\n  /old\n/new : foo\n  /deploy\n",
        "b.zk": "/b : foo\n  version = '1'\n  /deploy\n    /h1\n/moved\n  /x\n",
        "copy.zk": "/b\n",
        "layer.zkx": "/layer\n",
        "refused.zk": "/hosts\n",
    }
    past = {"a.zk": "/a", "m.zk": "/moved\n"}
    assert restored_files(snapshot(tip, past)) == {
        "a.zk": b"/a\n/new\n",
        "b.zk": b"/b\n",
        "copy.zk": None,
        "layer.zkx": None,
        "m.zk": b"/moved\n",
        "refused.zk": None,
    }


def test_documents_that_only_the_past_revision_had_are_not_restored() -> None:
    assert restored_files(snapshot({"a.zk": ""}, {"a.zk": "", "q.yaml": QUARANTINE})) == {}


def test_entries_that_are_not_files_are_replaced() -> None:
    found = snapshot({}, {"a.zk": "/a\n"}, frozenset({"a.zk", "link.zk"}))
    assert restored_files(found) == {"a.zk": b"/a\n", "link.zk": None}


@pytest.mark.parametrize(
    ("past", "present", "expected"),
    [
        (STRATEGY, f"# rules\n{SLOW}---\n# bad\n{QUARANTINE}", f"{STRATEGY}---\n# bad\n{QUARANTINE}"),
        (f"{QUARANTINE}---\n{STRATEGY}", f"{SLOW}---\n{QUARANTINE}", f"---\n{STRATEGY}---\n{QUARANTINE}"),
        ("", f"{SLOW}---\n{QUARANTINE}", f"---\n{QUARANTINE}"),
        (f"---\n{STRATEGY}...\n", f"---\n{QUARANTINE}", f"---\n{STRATEGY}...\n---\n{QUARANTINE}"),
        ("", SLOW, ""),
        (STRATEGY.rstrip("\n"), QUARANTINE, f"{STRATEGY}---\n{QUARANTINE}"),
        ('{"schema": "shipyard/x"}', QUARANTINE, f'{{"schema": "shipyard/x"}}\n---\n{QUARANTINE}'),
    ],
)
def test_a_file_with_several_kinds_of_documents_is_divided(past: str, present: str, expected: str) -> None:
    assert with_strategies_of(past.encode(), present.encode()).decode() == expected


def test_a_file_whose_strategies_are_the_same_stays_unchanged() -> None:
    present = f"# comment\n{STRATEGY}---\n{QUARANTINE}"
    assert with_strategies_of(f"# comment\n{STRATEGY}".encode(), present.encode()) == present.encode()


NAMES_ZK = ("a.zk", "b.zk", "c.zk")
NAMES = st.sampled_from(["a.zk", "b.zk", "c.zkx", "s.yaml", "t.yml"])
TEXTS = st.lists(st.sampled_from([STRATEGY, SLOW, QUARANTINE, "# only a comment\n"]), max_size=3).map("---\n".join)
FILES = st.dictionaries(NAMES, TEXTS)


@given(FILES, FILES, st.booleans())
def test_a_second_rollback_to_the_same_revision_changes_nothing(
    tip: dict[str, str], past: dict[str, str], former: bool
) -> None:
    found = snapshot(tip, past)
    after = rollback_changes(found, "a reason", former_strategy=former).apply(found.files)
    second = snapshot({file.name: file.content.decode() for file in after}, past)
    assert restored_files(second, former_strategy=former) == {}


TREES = st.fixed_dictionaries(
    {},
    optional={name: st.sampled_from([f"/{name[0]}\n", f"/{name[0]}\n  /x\n/{name[0]}2\n"]) for name in NAMES_ZK},
)


@given(TREES, TREES)
def test_each_rollback_restores_its_revision_and_leaves_no_top_level_node_without_a_file(
    tip: dict[str, str], past: dict[str, str]
) -> None:
    there = snapshot(tip, past)
    after = rollback_changes(there, "a reason").apply(there.files)
    tree, old, new = (
        merge([parse_bytes(file.name, file.content) for file in files]).base
        for files in (after, there.past_files, there.files)
    )
    assert set(tree.tops) == {*old.tops, *new.tops}
    assert {path for path in tree if path.count("/") > 1} == {path for path in old if path.count("/") > 1}
    back = BranchSnapshot("c" * 40, after, past="b" * 40, past_files=there.files)
    forward = rollback_changes(back, "a reason").apply(after)
    again = BranchSnapshot("d" * 40, forward, past="c" * 40, past_files=after)
    assert rollback_changes(again, "a reason").apply(forward) == after


@given(FILES, FILES)
def test_a_rollback_with_the_former_strategies_has_those_of_the_past_and_the_quarantines_of_the_tip(
    tip: dict[str, str], past: dict[str, str]
) -> None:
    found = snapshot(tip, past)
    changes = rollback_changes(found, "a reason", former_strategy=True)
    after = {file.name: file.content.decode() for file in changes.apply(found.files)}
    for name in after.keys() | tip.keys() | past.keys():
        new, old, then = (files.get(name, "") for files in (after, tip, past))
        if name.endswith(("zk", "zkx")):
            assert new == then
        else:
            assert (new.count("shipyard"), new.count("Quarantine")) == (
                then.count("shipyard"),
                old.count("Quarantine"),
            )


def test_the_message_names_the_revision_the_reason_and_the_undone_commits() -> None:
    newer = [CommitSummary(f"{number:040x}", "Ann <ann@x>", f"change {number}", 0.0) for number in range(52)]
    found = BranchSnapshot("b" * 40, (), past="a" * 40, newer=newer)
    message = rollback_changes(found, "it\nburns", rollout="7-1").message
    assert message.startswith(
        "Roll back to aaaaaaaaaaaa: it burns\n\nThis undoes 52 commits:\n\n  000000000000 change 0 (Ann"
    )
    assert "\n  and 2 more\n\n" in message
    assert message.endswith(f"\n\nZkdeployment-Rollback-To: {'a' * 40}\nZkdeployment-Failed-Rollout: 7-1\n")
