"""Acts as commits, in real repositories with real hooks and keys."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from support.branches import Branch
from support.keys import key_ring
from support.repository import make_key, public
from zkdeployment.base.errors import ConflictError, RefusedError, SourceError, TreeError
from zkdeployment.base.source_files import Problem
from zkdeployment.publishing.acts.commits import Author, BranchSnapshot, CommitOrder, FileChanges
from zkdeployment.publishing.sources.git.command import Git

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from zkdeployment.base.source_files import SourceFile
    from zkdeployment.publishing.section import ApprovalObjection

ANN = Author("Ann", "ann@example.com")
DEEP: dict[str, str | bytes | None] = {"README": "read me\n", "docs/page.txt": "a page\n"}


@pytest.fixture
def branch(tmp_path: Path) -> Branch:
    branch = Branch(tmp_path)
    branch.push({"a.zk": "/a\n", **DEEP}, message="the first")
    return branch


def nothing_wrong(
    _before: Sequence[SourceFile], _after: Sequence[SourceFile], _objection: ApprovalObjection
) -> list[Problem]:
    return []


def order(
    compute: Callable[[BranchSnapshot], FileChanges],
    *,
    back_to: str | None = None,
    once: tuple[str, str] | None = None,
) -> CommitOrder:
    return CommitOrder(author=ANN, compute=compute, check=nothing_wrong, back_to=back_to, once=once)


def writing(
    files: dict[str, bytes | None], trailers: dict[str, str] | None = None
) -> Callable[[BranchSnapshot], FileChanges]:
    return lambda _branch: FileChanges(files, "Write files: a reason", "More text.", trailers or {})


def counting(branch: BranchSnapshot) -> FileChanges:
    """Add a line to the file ``count.zk``: acts that overwrite each other would lose lines."""
    old = next((file.content for file in branch.files if file.name == "count.zk"), b"/count\n")
    return FileChanges({"count.zk": old + b"  /more%d\n" % old.count(b"\n")}, "Count")


def restoring(branch: BranchSnapshot) -> FileChanges:
    old = {file.name: file.content for file in branch.past_files}
    gone = dict.fromkeys({*(file.name for file in branch.files), *branch.unusable} - old.keys())
    return FileChanges({**gone, **old}, "Go back")


def test_an_act_is_a_commit_on_the_tip_with_its_author_and_everything_else_stays(branch: Branch) -> None:
    before = branch.tip()
    outcome = branch.commits().commit(order(writing({"b.zk": b"/b\n", "a.zk": None}, {"Key": "value"})))
    assert outcome.commit == branch.tip()
    assert outcome.made
    assert branch.files() == {"b.zk": "/b\n", "README": "read me\n", "docs/page.txt": "a page\n"}
    assert branch.ask("log", "-1", "--format=%P|%an <%ae>|%cn <%ce>|%B", "main") == (
        f"{before}|Ann <ann@example.com>|zkdeployment <zkdeployment@server>|"
        "Write files: a reason\n\nMore text.\n\nKey: value"
    )
    assert "+/b\n" in outcome.diff
    assert branch.commits().trailer(str(outcome.commit), "Key") == "value"


def test_a_dry_run_returns_the_difference_and_pushes_nothing(branch: Branch) -> None:
    before = branch.tip()
    outcome = branch.commits().commit(order(writing({"a.zk": b"/a\n  /x\n"})), dry_run=True)
    assert (outcome.commit, outcome.changed, outcome.made) == (None, True, False)
    assert "+  /x" in outcome.diff
    assert branch.tip() == before


def test_an_act_that_changes_nothing_makes_no_commit(branch: Branch) -> None:
    before = branch.tip()
    outcome = branch.commits().commit(order(writing({"a.zk": b"/a\n", "no-such-file.yaml": None})))
    assert (outcome.commit, outcome.changed, outcome.made) == (before, False, False)
    assert branch.tip() == before


def test_a_change_with_errors_is_refused_with_all_errors_and_not_pushed(branch: Branch) -> None:
    before = branch.tip()

    def wrong(
        _before: Sequence[SourceFile], after: Sequence[SourceFile], _objection: ApprovalObjection
    ) -> list[Problem]:
        return [Problem("one", after[0].name), Problem("two")]

    bad = CommitOrder(author=ANN, compute=writing({"a.zk": b"??"}), check=wrong)
    with pytest.raises(TreeError, match=r"for 2 errors in its result:\n  a\.zk: one\n  two"):
        branch.commits().commit(bad)
    assert branch.tip() == before


def test_two_acts_at_the_same_time_both_land(branch: Branch) -> None:
    barrier = threading.Barrier(2)
    places = [branch.commits("one"), branch.commits("two")]

    def act(number: int) -> None:
        first = [True]

        def compute(found: BranchSnapshot) -> FileChanges:
            if first.pop() if first else False:
                barrier.wait(60)
            return FileChanges(counting(found).files, f"Count for the act {number}")

        places[number].commit(order(compute))

    threads = [threading.Thread(target=act, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert branch.files()["count.zk"] == "/count\n  /more1\n  /more2\n"
    assert branch.ask("rev-list", "--count", "main") == "3"


def test_an_act_gives_up_after_it_was_overtaken_five_times(branch: Branch) -> None:
    pushed = []

    def compute(_found: BranchSnapshot) -> FileChanges:
        pushed.append(branch.push({"other.zk": f"/other\n  /n{len(pushed)}\n"}))
        return FileChanges({"a.zk": b"/a\n  /x\n"}, "Overtaken")

    with pytest.raises(ConflictError, match="during each of 5 attempts; try again"):
        branch.commits().commit(order(compute))
    assert len(pushed) == 5
    assert branch.tip() == pushed[-1]


def test_a_commit_that_a_hook_refuses_is_reported_with_the_hooks_words(branch: Branch) -> None:
    branch.hook("pre-receive", "echo 'a.zk:1:1: hello 1.0 is quarantined' >&2; echo fetch first >&2; exit 1")
    before = branch.tip()
    with pytest.raises(RefusedError, match=r"refused the commit:\n  a\.zk:1:1: hello 1\.0 is quarantined"):
        branch.commits().commit(order(counting))
    assert branch.tip() == before


def test_a_push_whose_answer_is_lost_is_found_in_the_branch(branch: Branch) -> None:
    # The server updates the branch, and its process dies before it has answered.
    branch.hook("post-receive", "kill -9 $PPID")
    outcome = branch.commits().commit(order(counting))
    assert outcome.commit == branch.tip()
    assert branch.ask("rev-list", "--count", "main") == "2"


def test_a_push_that_the_server_does_not_take_fails_and_the_act_can_be_repeated(branch: Branch) -> None:
    branch.hook("pre-receive", "kill -9 $PPID")
    with pytest.raises(SourceError, match=r"was not pushed to .*; try again"):
        branch.commits().commit(order(counting))
    branch.hook("pre-receive", "exit 0")
    assert branch.commits().commit(order(counting)).commit == branch.tip()


def test_an_act_with_a_mark_is_committed_once(branch: Branch) -> None:
    first = str(branch.tip())
    branch.push({"a.zk": "/a\n  /bad\n"})
    key, value = once = ("Act-Number", "7-1")

    def compute(found: BranchSnapshot) -> FileChanges:
        return FileChanges(restoring(found).files, "Go back", trailers={key: value})

    made = branch.commits("one").commit(order(compute, back_to=first, once=once))
    branch.push({"b.zk": "/b\n"})
    again = branch.commits("two").commit(order(compute, back_to=first, once=once))
    assert again.commit == made.commit
    assert branch.ask("rev-list", "--count", "main") == "4"


def test_a_rollback_restores_the_files_of_a_revision_and_names_the_commits_since(branch: Branch) -> None:
    first = str(branch.tip())
    second = branch.push({"a.zk": "/a\n  /bad\n", "b.zk": "/b\n"}, message="a bad one")
    third = branch.push({"README": "newer\n"}, message="a page")
    outcome = branch.commits().commit(order(restoring, back_to=first[:10]))
    assert [(commit.id, commit.subject) for commit in outcome.undone] == [(third, "a page"), (second, "a bad one")]
    assert branch.files() == {"a.zk": "/a\n", "README": "newer\n", "docs/page.txt": "a page\n"}


def test_a_rollback_leaves_a_tip_without_usable_tree_files(branch: Branch) -> None:
    first = str(branch.tip())
    (branch.clone.directory / "a.zk").unlink()
    (branch.clone.directory / "a.zk").symlink_to("/etc/passwd")
    (branch.clone.directory / "d.zk").mkdir()
    branch.push({"d.zk/file": "text\n"})
    with pytest.raises(SourceError, match="symbolic link"):
        branch.commits().commit(order(counting))
    branch.commits().commit(order(restoring, back_to=first))
    assert branch.files() == branch.files(first)


@pytest.mark.parametrize("name", ["deadbeef", "0" * 40, "main", "--all", "HEAD", "", "a..b", "\x1b[31m"])
def test_a_revision_that_the_branch_does_not_contain_is_refused(branch: Branch, name: str) -> None:
    with pytest.raises(RefusedError, match="expected"):
        branch.commits().revision(name)


def test_descent_is_known_for_commits_that_came_later(branch: Branch) -> None:
    first = str(branch.tip())
    assert branch.commits().revision(first[:8]) == first
    second = branch.push({"b.zk": "/b\n"})
    commits = branch.commits()
    assert commits.contains(second, first)
    assert not commits.contains(first, second)
    assert not commits.contains(second, "0" * 40)
    assert not commits.contains("0" * 40, second)


def test_descent_is_determined_once(branch: Branch, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = str(branch.tip()), branch.push({"b.zk": "/b\n"})
    pairs = [(second, first), (first, second), ("0" * 40, first), (7, first)]
    commits = branch.commits()
    before = [commits.contains(*pair) for pair in pairs]
    monkeypatch.setattr(Git, "run", lambda *_arguments, **_options: pytest.fail("git was run again"))
    assert [commits.contains(*pair) for pair in pairs] == before == [True, False, False, False]


@pytest.mark.parametrize("name", ["../a.yaml", "x/y.yaml", ".git", "..", "", "a\n.yaml", "a\0.yaml"])
def test_a_hostile_file_name_is_refused(branch: Branch, name: str) -> None:
    before = branch.tip()
    with pytest.raises(RefusedError, match="cannot write"):
        branch.commits().commit(order(writing({name: b"text"})))
    assert branch.tip() == before


def test_a_directory_is_not_replaced_by_a_document(branch: Branch) -> None:
    branch.push({"quarantine.yaml/file": "text\n"})
    with pytest.raises(RefusedError, match="another kind of entry"):
        branch.commits().commit(order(writing({"quarantine.yaml": b"text"})))


def test_names_that_are_hostile_to_git_stay_unchanged(branch: Branch) -> None:
    names = ["-n.yaml", "a\nb", "\udcff.yaml", "tab\t.txt", "x y.yaml"]
    branch.push(dict.fromkeys(names, "schema: shipyard/x\n"))
    branch.commits().commit(order(writing({"\\xff.yaml": b"changed\n", "-n.yaml": None})))
    listing = branch.ask("-c", "core.quotePath=true", "ls-tree", "--name-only", "main").splitlines()
    assert listing == ["README", '"a\\nb"', "a.zk", "docs", '"tab\\t.txt"', "x y.yaml", '"\\377.yaml"']


def test_only_a_signed_commit_on_a_verified_tip_is_pushed(branch: Branch, tmp_path: Path) -> None:
    key, other = make_key(tmp_path, "key"), make_key(tmp_path, "other")
    signers = tmp_path / "signers"
    signers.write_text(f"ann@example.com {public(key)}\n")
    for setting, value in [("gpg.format", "ssh"), ("user.signingkey", f"{key}.pub")]:
        branch.clone.git("config", setting, value)
    signed = branch.push({"a.zk": "/a\n  /good\n", "doc.yaml": "schema: shipyard/x\n"}, "-S")

    with pytest.raises(RefusedError, match="names no signing-key"):
        branch.commits(allowed_signers=signers).commit(order(counting))
    with pytest.raises(RefusedError, match="was not pushed, because no syncer would publish it"):
        branch.commits(allowed_signers=signers, signing_key=other).commit(order(counting))
    assert branch.tip() == signed

    acts = branch.commits(allowed_signers=signers, signing_key=key)
    made = acts.commit(order(counting))
    acts.source.verify(str(made.commit))

    unsigned = branch.push({"a.zk": "/a\n  /evil\n", "doc.yaml": "schema: shipyard/evil\n", "evil.zk": "/evil\n"})
    with pytest.raises(RefusedError, match=r"it has no SSH signature.*rollback"):
        acts.commit(order(counting))
    assert branch.tip() == unsigned
    back = acts.commit(order(lambda found: FileChanges({}, "Go back", found.tip), back_to=signed))
    acts.source.verify(str(back.commit))
    # Nothing of the unsigned commit is in the signed one.
    assert branch.files() == branch.files(str(made.commit))
    with pytest.raises(SourceError, match="it has no SSH signature"):
        acts.commit(order(restoring, back_to=unsigned))


def test_an_openpgp_key_signs_too(branch: Branch, tmp_path: Path) -> None:
    with key_ring() as ring:
        fingerprint = ring.make_key("Ann <ann@example.com>")
        signers, key = tmp_path / "signers", tmp_path / "key"
        signers.write_bytes(ring.export(fingerprint))
        key.write_bytes(ring.export_secret(fingerprint))
    plain = str(branch.tip())
    commits = branch.commits(signing_key=key)
    made = commits.commit(order(counting))
    verified = branch.commits("verifying", allowed_signers=signers, signing_key=key)
    verified.source.fetch()
    verified.source.verify(str(made.commit))
    with pytest.raises(SourceError, match="no OpenPGP signature"):
        verified.source.verify(plain)


def test_a_refused_push_names_the_missing_right(branch: Branch) -> None:
    branch.hook("pre-receive", "echo 'Permission denied' >&2; exit 1")
    with pytest.raises(RefusedError, match="refused the commit:\n  Permission denied"):
        branch.commits().commit(order(counting))
    branch.ask("config", "receive.denyNonFastForwards", "true")
    commits = branch.commits("daemon")
    assert commits.commit(order(counting), dry_run=True).changed


@pytest.mark.nightly
def test_an_act_in_a_repository_with_many_files_below_costs_few_objects(branch: Branch) -> None:
    files: dict[str, str | bytes | None] = {f"d{n % 50}/f{n}.txt": f"{n}\n" for n in range(5000)}
    branch.push(files)
    before = int(branch.ask("count-objects").split()[0])
    branch.commits().commit(order(counting))
    assert int(branch.ask("count-objects").split()[0]) - before == 3  # a blob, a tree and a commit
