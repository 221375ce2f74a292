"""The contract of ``ports.TreeSource``, for git and Subversion."""

import time
from pathlib import Path

import pytest

from support.strategies import EXAMPLE_FILE
from zkdeployment.base.cluster import is_revision
from zkdeployment.base.errors import SourceError
from zkdeployment.publishing import ports
from zkdeployment.publishing.sources.directory import read_directory
from zkdeployment.publishing.sources.opening import open_source


@pytest.fixture
def source(repository, tmp_path: Path):
    return open_source(repository.url, tmp_path / "var" / "tree")


def contents(source, revision):
    return {file.name: file.content for file in source.files(revision)}


def test_the_newest_revision_is_fetched_and_older_revisions_stay_readable(repository, source):
    first = repository.commit({"a.zk": "/a\n"})
    assert source.fetch() == first
    second = repository.commit({"a.zk": "/a\n  x = 1\n"})
    assert source.fetch() == second
    assert is_revision(second)
    assert contents(source, first) == {"a.zk": b"/a\n"}
    assert contents(source, second) == {"a.zk": b"/a\n  x = 1\n"}


def test_the_revision_stays_the_same_without_a_commit(repository, source):
    revision = repository.commit({"a.zk": "/a\n"})
    assert source.fetch() == source.fetch() == revision


def test_tree_files_at_the_top_are_read_sorted_and_unchanged(repository, source):
    files = {
        "b.zkx": "/b\n",
        "a.zk": b"\xef\xbb\xbf/a\r\n\xff\x00",
        "Z.zk": "",
        "README.rst": "no",
        "old.zk.bak": "no",
        "sub/c.zk": "/c\n",
        "\u00e9 \u00fc@1.zk": "/e",
    }
    repository.commit(files)
    read = source.files(source.fetch())
    assert [(file.name, file.content) for file in read] == [
        ("Z.zk", b""),
        ("a.zk", b"\xef\xbb\xbf/a\r\n\xff\x00"),
        ("b.zkx", b"/b\n"),
        ("\u00e9 \u00fc@1.zk", b"/e"),
    ]


def test_yaml_files_that_mention_the_schema_of_a_rollout_document_are_read(repository, source):
    strategy = EXAMPLE_FILE.read_bytes()
    configuration = "schema: shipyard/DeploymentConfiguration/v1\ndata: {}\n"
    repository.commit(
        {
            "a.zk": "/a\n",
            "strategy.yaml": strategy,
            "é 1.yml": configuration,
            "broken.yaml": "# shipyard/DeploymentStrategy/v1\n: [",
            "ci.yml": "script: !reference [a, b]\n",
            "empty.yaml": "",
            "binary.yaml": b"\x00\xff" * 1000,
            "strategy.yaml.bak": strategy,
            "sub/strategy.yaml": strategy,
            "directory.yaml/strategy.yaml": strategy,
        }
    )
    assert [(file.name, file.content, file.is_nested) for file in source.files(source.fetch())] == [
        ("a.zk", b"/a\n", False),
        ("broken.yaml", b"# shipyard/DeploymentStrategy/v1\n: [", False),
        ("strategy.yaml", strategy, False),
        ("é 1.yml", configuration.encode(), False),
        ("directory.yaml/strategy.yaml", strategy, True),
        ("sub/strategy.yaml", strategy, True),
    ]


def test_a_revision_with_only_documents_has_no_tree(repository, source):
    repository.commit({"strategy.yaml": EXAMPLE_FILE.read_bytes()})
    with pytest.raises(SourceError, match="has no tree files"):
        source.files(source.fetch())


def test_other_yaml_files_may_be_links_or_of_any_size(repository, source, monkeypatch):
    strategy = EXAMPLE_FILE.read_bytes()
    monkeypatch.setattr(ports, "MOST_BYTES_OF_A_FILE", len(strategy))
    monkeypatch.setattr(ports, "MOST_BYTES", len(strategy) + 3)
    top = getattr(repository, "copy", None) or repository.directory
    (top / "link.yaml").symlink_to("/etc/passwd")
    repository.commit({"a.zk": "/a\n", "strategy.yaml": strategy, "huge.yaml": "x" * 10**6, "b.yaml": "x" * 1000})
    assert list(contents(source, source.fetch())) == ["a.zk", "strategy.yaml"]
    (top / "own.yaml").symlink_to("strategy.yaml")
    assert [file.name for file in read_directory(top, "the directory")] == ["a.zk", "strategy.yaml"]


def test_a_revision_has_an_origin(repository, source):
    before = time.time()
    repository.commit({"a.zk": "/a\n"}, message="Add \u00e9\n\nat length")
    origin = source.origin(source.fetch())
    assert origin.author
    assert origin.subject == "Add \u00e9"
    assert before - 2 <= origin.time <= time.time() + 2
    assert origin.signer is None


def test_a_long_subject_is_cut(repository, source):
    repository.commit({"a.zk": "/a\n"}, message="long " * 1000)
    assert len(source.origin(source.fetch()).subject) == 300


def test_later_revisions_descend_from_earlier_ones(repository, source):
    first = repository.commit({"a.zk": "/a\n"})
    second = repository.commit({"a.zk": "/b\n"})
    source.fetch()
    assert source.descends(second, first)
    assert source.descends(second, second)
    assert not source.descends(first, second)


@pytest.mark.parametrize("unknown", ["0" * 40, "initial", "--all"])
def test_no_revision_descends_from_an_unknown_one(repository, source, unknown):
    repository.commit({"a.zk": "/a\n"})
    assert not source.descends(source.fetch(), unknown)


@pytest.mark.parametrize("unknown", ["0" * 40, "--all", 99])
def test_an_unknown_revision_is_an_error(repository, source, unknown):
    repository.commit({"a.zk": "/a\n"})
    source.fetch()
    for read in (source.files, source.origin):
        with pytest.raises(SourceError, match="revision") as error:
            read(unknown)
        assert "\n" not in str(error.value)


def test_a_revision_without_tree_files_is_refused(repository, source):
    revision = repository.commit({"README.rst": "nothing else"})
    source.fetch()
    with pytest.raises(SourceError, match=f"revision {revision} has no tree files"):
        source.files(revision)


def test_a_symbolic_link_as_a_tree_file_is_refused(repository, source):
    top = getattr(repository, "copy", None) or repository.directory
    (top / "a.zk").symlink_to("/etc/passwd")
    repository.commit({"b.zk": "/b\n"})
    with pytest.raises(SourceError, match=r"a\.zk of revision .* is a symbolic link") as refused:
        source.files(revision := source.fetch())
    with pytest.raises(SourceError) as in_directory:
        list(read_directory(top, f"revision {revision}"))
    assert str(in_directory.value) == str(refused.value)


def test_a_directory_as_a_tree_file_is_refused(repository, source):
    repository.commit({"a.zk/b": "", "b.zk": "/b\n"})
    with pytest.raises(SourceError, match=r"a\.zk of revision .* is a directory") as refused:
        source.files(revision := source.fetch())
    with pytest.raises(SourceError) as in_directory:
        list(read_directory(getattr(repository, "copy", None) or repository.directory, f"revision {revision}"))
    assert str(in_directory.value) == str(refused.value)


def test_a_missing_repository_is_an_error(repository, tmp_path: Path):
    with pytest.raises(SourceError, match="nowhere"):
        open_source(f"{repository.url}/nowhere", tmp_path / "tree").fetch()


def test_newer_revisions_are_named_newest_first(repository, source):
    first, second, third = (repository.commit({"a.zk": f"/a{number}\n"}) for number in range(3))
    source.fetch()
    assert [commit.id for commit in source.newer(third, first, 5)] == [str(third), str(second)]
    assert [commit.id for commit in source.newer(third, first, 1)] == [str(third)]
    assert list(source.newer(first, first, 5)) == []


@pytest.mark.parametrize("unknown", ["", "0" * 40, "initial"])
def test_only_the_tip_is_newer_than_an_unknown_revision(repository, source, unknown):
    repository.commit({"a.zk": "/a\n"})
    tip = repository.commit({"a.zk": "/b\n"})
    source.fetch()
    assert [commit.id for commit in source.newer(tip, unknown, 5)] == [str(tip)]
