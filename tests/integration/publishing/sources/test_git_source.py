from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.repository import Repository, break_objects
from support.strategies import EXAMPLE_FILE
from support.web.servers import silent_server, web_server
from zkdeployment.base.errors import SourceError
from zkdeployment.publishing import ports
from zkdeployment.publishing.sources.git.source import GitSource, revision_files

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.base.source_files import SourceFile


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    return tmp_path / "var" / "tree"


def source(repository: Repository, mirror: Path, **options: object) -> GitSource:
    return GitSource(repository.url, mirror, gap=0, **options)  # type: ignore[arg-type]


def contents(files: tuple[SourceFile, ...]) -> dict[str, bytes]:
    return {file.name: file.content for file in files}


def refused(act: object, *arguments: object) -> str:
    with pytest.raises(SourceError) as error:
        act(*arguments)  # type: ignore[operator]
    assert "\n" not in str(error.value)
    return str(error.value)


class TestBranches:
    def test_the_newest_branches_that_are_not_part_of_a_revision_are_listed(
        self, repository: Repository, mirror: Path
    ):
        first = repository.commit({"a.zk": "/a\n"})
        for number, name in enumerate(("old", "trial/\N{SNOWMAN}", "new")):
            repository.git("checkout", "--quiet", "-b", name, first)
            repository.commit(
                {"a.zk": f"/a\n  x = {number}\n"}, message=f"try {name}", date=2_000_000_000 + number
            )
        repository.git("branch", "merged", first)
        repository.git("checkout", "--quiet", "main")
        published = repository.commit({"b.zk": "/b\n"})
        git = source(repository, mirror)
        git.fetch()

        assert [(each.name, each.commit.subject) for each in git.branches(published, 2)] == [
            ("new", "try new"),
            ("trial/\N{SNOWMAN}", "try trial/\N{SNOWMAN}"),
        ]
        repository.git("branch", "-D", "new")
        assert [each.name for each in git.branches(published, 9)] == ["trial/\N{SNOWMAN}", "old"]
        assert [each.name for each in git.branches("f" * 40, 9)][2:] == ["main", "merged"]  # of another repository
        assert git.fetch() == published


class TestFetching:
    def test_the_tip_of_the_default_branch_is_followed(self, repository: Repository, mirror: Path):
        first = repository.commit({"a.zk": "/a\n"})
        git = source(repository, mirror)
        assert git.fetch() == first
        second = repository.commit({"a.zk": "/a\n  x = 1\n"})
        assert git.fetch() == second
        assert contents(git.files(first)) == {"a.zk": b"/a\n"}
        assert contents(git.files(second)) == {"a.zk": b"/a\n  x = 1\n"}

    def test_any_branch_can_be_followed_and_changed(self, repository: Repository, mirror: Path):
        main = repository.commit({"a.zk": "/a\n"})
        repository.git("checkout", "-q", "-b", "release/1.0")
        release = repository.commit({"a.zk": "/b\n"})
        repository.git("checkout", "-q", "main")
        assert source(repository, mirror, branch="release/1.0").fetch() == release
        assert source(repository, mirror, branch="main").fetch() == main

    def test_a_renamed_default_branch_is_followed(self, repository: Repository, mirror: Path):
        repository.commit({"a.zk": "/a\n"})
        git = source(repository, mirror)
        git.fetch()
        repository.git("branch", "-m", "main", "trunk")
        revision = repository.commit({"a.zk": "/b\n"})
        assert git.fetch() == revision

    def test_a_rewritten_branch_is_followed(self, repository: Repository, mirror: Path):
        repository.commit({"a.zk": "/a\n"})
        git = source(repository, mirror)
        git.fetch()
        rewritten = repository.commit({"a.zk": "/z\n"}, "--amend")
        assert git.fetch() == rewritten
        assert contents(git.files(rewritten)) == {"a.zk": b"/z\n"}

    def test_a_sha256_repository_is_followed(self, tmp_path: Path, mirror: Path):
        repository = Repository(tmp_path / "repository")
        shutil.rmtree(repository.directory / ".git")
        repository.git("init", "-q", "--initial-branch=main", "--object-format=sha256")
        revision = repository.commit({"a.zk": "/a\n"})
        git = source(repository, mirror)
        assert len(revision) == 64
        assert git.fetch() == revision
        assert contents(git.files(revision)) == {"a.zk": b"/a\n"}

    def test_a_relative_path_and_a_file_url_are_repositories(
        self, repository: Repository, mirror: Path, monkeypatch: pytest.MonkeyPatch
    ):
        revision = repository.commit({"a.zk": "/a\n"})
        monkeypatch.chdir(repository.directory.parent)
        assert GitSource("repository", mirror).fetch() == revision
        assert GitSource(f"file://{repository.directory}", mirror).fetch() == revision

    def test_the_git_environment_of_a_hook_is_ignored(
        self, repository: Repository, mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        other = Repository(tmp_path / "other")
        other.commit({"z.zk": "/z\n"})
        revision = repository.commit({"a.zk": "/a\n"})
        monkeypatch.setenv("GIT_DIR", str(other.directory / ".git"))
        monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path / "nowhere"))
        monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'remote.origin.url=/nowhere'")
        git = source(repository, mirror)
        assert git.fetch() == revision
        assert contents(git.files(revision)) == {"a.zk": b"/a\n"}

    def test_hooks_of_the_mirror_do_not_run(self, repository: Repository, mirror: Path, tmp_path: Path):
        repository.commit({"a.zk": "/a\n"})
        git = source(repository, mirror)
        git.fetch()
        hook = mirror / "hooks" / "reference-transaction"
        hook.parent.mkdir()
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        hook.chmod(0o755)
        repository.commit({"a.zk": "/b\n"})
        git.fetch()
        assert not (tmp_path / "ran").exists()

    def test_no_other_ref_is_fetched(self, repository: Repository, mirror: Path):
        repository.commit({"a.zk": "/a\n"})
        repository.git("tag", "v1")
        repository.git("branch", "other")
        source(repository, mirror).fetch()
        refs = subprocess.run(
            ["git", f"--git-dir={mirror}", "for-each-ref"], capture_output=True, check=True, text=True
        )
        assert [line.split("\t")[1] for line in refs.stdout.splitlines()] == ["refs/zkdeployment/tip"]


class TestCommits:
    def test_the_origin_and_ancestry_of_fetched_commits_need_no_call_of_git(
        self, repository: Repository, mirror: Path, monkeypatch: pytest.MonkeyPatch
    ):
        git = source(repository, mirror)
        first = repository.commit({"a.zk": "/a\n"})
        git.fetch()
        second = repository.commit({"a.zk": "/b\n"})
        git.fetch()
        monkeypatch.setenv("PATH", "/nowhere")
        assert git.origin(second).subject == "a change"
        assert git.descends(second, first)

    def test_control_characters_in_subjects_are_escaped(self, repository: Repository, mirror: Path):
        repository.commit({"a.zk": "/a\n"}, message="a \x1b[2J change \u202e of")
        git = source(repository, mirror)
        assert git.origin(git.fetch()).subject == r"a \x1b[2J change \u202e of"

    def test_the_commits_of_a_merged_branch_are_ancestors_of_the_merge(self, repository: Repository, mirror: Path):
        first = repository.commit({"a.zk": "/a\n"})
        repository.git("checkout", "-q", "-b", "side")
        side = repository.commit({"b.zk": "/b\n"})
        repository.git("checkout", "-q", "main")
        last = repository.commit({"a.zk": "/a\n  x = 1\n"})
        repository.git("merge", "-q", "-m", "both", "side")
        git = source(repository, mirror)
        merge = git.fetch()
        assert all(git.descends(merge, commit) for commit in (first, side, last))
        assert not git.descends(side, last)


class TestTheMirror:
    def test_only_the_owner_can_access_the_mirror(self, repository: Repository, mirror: Path):
        repository.commit({"a.zk": "/a\n"})
        source(repository, mirror).fetch()
        assert mirror.stat().st_mode & 0o077 == 0

    @pytest.mark.parametrize("damage", ["objects", "HEAD", "refs", "zkdeployment-mirror"])
    def test_a_damaged_mirror_is_created_again(self, repository: Repository, mirror: Path, damage: str):
        revision = repository.commit({"a.zk": "/a\n"})
        git = source(repository, mirror)
        git.fetch()
        if damage == "objects":
            break_objects(mirror)
        elif damage == "refs":
            shutil.rmtree(mirror / "refs")
        elif damage == "HEAD":
            (mirror / "HEAD").write_text("rubbish")
        else:
            (mirror / damage).write_text("rubbish")
        assert git.fetch() == revision
        assert contents(git.files(revision)) == {"a.zk": b"/a\n"}
        assert [path.name for path in mirror.parent.iterdir()] == ["tree"]

    def test_a_damaged_blob_is_fetched_again(self, repository: Repository, mirror: Path):
        revision = repository.commit({"a.zk": "/a\n"})
        git = source(repository, mirror)
        git.fetch()
        blob = repository.git("rev-parse", f"{revision}:a.zk")
        loose = mirror / "objects" / blob[:2] / blob[2:]
        loose.chmod(0o600)
        loose.write_bytes(b"rubbish")
        assert git.fetch() == revision
        assert contents(git.files(revision)) == {"a.zk": b"/a\n"}

    def test_another_url_replaces_the_mirror(self, repository: Repository, mirror: Path, tmp_path: Path):
        repository.commit({"a.zk": "/a\n"})
        source(repository, mirror).fetch()
        other = Repository(tmp_path / "other")
        revision = other.commit({"b.zk": "/b\n"})
        git = source(other, mirror)
        assert git.fetch() == revision
        assert contents(git.files(revision)) == {"b.zk": b"/b\n"}

    def test_leftovers_of_a_crash_are_deleted(self, repository: Repository, mirror: Path):
        revision = repository.commit({"a.zk": "/a\n"})
        for leftover in (".tree.new", ".tree.old"):
            (mirror.parent / leftover / "objects").mkdir(parents=True)
        assert source(repository, mirror).fetch() == revision
        assert [path.name for path in mirror.parent.iterdir()] == ["tree"]

    def test_an_empty_directory_becomes_the_mirror(self, repository: Repository, mirror: Path):
        revision = repository.commit({"a.zk": "/a\n"})
        mirror.mkdir(parents=True)
        assert source(repository, mirror).fetch() == revision

    def test_a_directory_with_foreign_files_is_refused_and_unchanged(self, repository: Repository, mirror: Path):
        repository.commit({"a.zk": "/a\n"})
        mirror.mkdir(parents=True)
        (mirror / "thesis.txt").write_text("years of work")
        assert "is there, but no mirror that this program made" in refused(source(repository, mirror).fetch)
        assert (mirror / "thesis.txt").read_text() == "years of work"

    def test_the_mirror_is_kept_if_its_replacement_fails(self, repository: Repository, mirror: Path):
        revision = repository.commit({"a.zk": "/a\n"})
        git = source(repository, mirror)
        git.fetch()
        repository.commit({"a.zk": "/b\n"})
        repository.break_objects()
        assert "failed" in refused(git.fetch)
        assert contents(git.files(revision)) == {"a.zk": b"/a\n"}
        assert [path.name for path in mirror.parent.iterdir()] == ["tree"]

    def test_an_unwritable_directory_is_an_error(self, repository: Repository, tmp_path: Path):
        repository.commit({"a.zk": "/a\n"})
        (tmp_path / "file").write_text("")
        problem = refused(source(repository, tmp_path / "file" / "tree").fetch)
        assert f"cannot keep a mirror in {tmp_path / 'file' / 'tree'}" in problem
        assert "Not a directory" in problem


class TestRemotesThatCannotBeRead:
    def test_a_missing_repository_is_an_error(self, tmp_path: Path, mirror: Path):
        problem = refused(GitSource(f"{tmp_path}/nowhere", mirror, gap=0).fetch)
        assert problem.startswith(f"there is no git repository at {tmp_path}/nowhere: ")
        assert not mirror.exists()

    def test_an_empty_repository_is_an_error(self, repository: Repository, mirror: Path):
        assert refused(source(repository, mirror).fetch) == (
            f"the repository {repository.url} is empty; push a commit first"
        )

    def test_the_error_for_an_unknown_branch_suggests_a_similar_name(self, repository: Repository, mirror: Path):
        repository.commit({"a.zk": "/a\n"})
        assert refused(source(repository, mirror, branch="mian").fetch) == (
            f"the repository {repository.url} has no branch mian; did you mean main?"
        )

    def test_a_deleted_branch_is_an_error(self, repository: Repository, mirror: Path):
        repository.commit({"a.zk": "/a\n"})
        repository.git("branch", "other")
        git = source(repository, mirror, branch="other")
        git.fetch()
        repository.git("branch", "-D", "other")
        assert "has no branch other" in refused(git.fetch)

    def test_the_error_for_a_missing_default_branch_names_the_branches(self, repository: Repository, mirror: Path):
        repository.commit({"a.zk": "/a\n"})
        repository.git("symbolic-ref", "HEAD", "refs/heads/gone")
        assert refused(source(repository, mirror).fetch) == (
            f"the repository {repository.url} has no default branch; set branch (there is main)"
        )

    def test_the_error_for_an_unreachable_remote_contains_no_password(self, mirror: Path):
        problem = refused(GitSource("https://me:secret@127.0.0.1:1/tree.git", mirror, gap=0).fetch)
        assert problem.startswith("cannot reach the repository https://***@127.0.0.1:1/tree.git: ")
        assert "secret" not in problem

    def test_an_unreachable_remote_is_tried_four_times_three_seconds_apart(
        self, mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, naps: list[float]
    ):
        ssh = tmp_path / "ssh"
        ssh.write_text(f"#!/bin/sh\necho tried >> {tmp_path}/tries\necho 'ssh: no route to host' >&2\nexit 255\n")
        ssh.chmod(0o755)
        monkeypatch.setenv("GIT_SSH", str(ssh))
        monkeypatch.setenv("GIT_SSH_VARIANT", "ssh")
        assert "ssh: no route to host" in refused(GitSource("ssh://git@git.example/tree", mirror).fetch)
        assert (tmp_path / "tries").read_text().count("tried") == 4
        assert naps == [3, 3, 3]

    def test_a_remote_that_was_unreachable_once_is_read(self, repository: Repository, mirror: Path):
        revision = repository.commit({"a.zk": "/a\n"})
        git = GitSource(f"ssh://git@git.example{repository.directory}", mirror, gap=0)
        with pytest.MonkeyPatch.context() as environment:
            script = repository.directory.parent / "ssh"
            script.write_text(
                "#!/bin/sh\n"
                f"if mkdir {mirror.parent.parent}/once 2>/dev/null; then echo down >&2; exit 255; fi\n"
                'for last; do :; done; exec sh -c "$last"\n'
            )
            script.chmod(0o755)
            environment.setenv("GIT_SSH", str(script))
            environment.setenv("GIT_SSH_VARIANT", "simple")
            assert git.fetch() == revision

    def test_a_denied_access_is_not_tried_again(self, mirror: Path):
        with web_server({"/tree.git/info/refs?service=git-upload-pack": (401, b"")}) as url:
            problem = refused(GitSource(f"{url}/tree.git", mirror, gap=60).fetch)
        assert problem.startswith(f"no access to the repository {url}/tree.git: ")

    def test_a_hanging_remote_is_a_timeout(self, mirror: Path):
        with silent_server() as port:
            before = time.monotonic()
            problem = refused(GitSource(f"git://127.0.0.1:{port}/tree", mirror, timeout=0.5, gap=60).fetch)
        assert problem == "git ls-remote did not end within 0.5 s and was stopped"
        assert time.monotonic() - before < 60

    def test_a_remote_that_hangs_during_a_fetch_leaves_the_mirror_unchanged(
        self, repository: Repository, mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        revision = repository.commit({"a.zk": "/a\n"})
        ssh = tmp_path / "ssh"
        ssh.write_text(
            f'#!/bin/sh\n[ -e {tmp_path}/hang ] && exec sleep 60\nfor last; do :; done; exec sh -c "$last"\n'
        )
        ssh.chmod(0o755)
        monkeypatch.setenv("GIT_SSH", str(ssh))
        monkeypatch.setenv("GIT_SSH_VARIANT", "simple")
        git = GitSource(f"ssh://git@git.example{repository.directory}", mirror, timeout=60, gap=60)
        git.fetch()
        (tmp_path / "hang").touch()
        for limit in (0.5, 5, 30):
            problem = refused(replace(git, timeout=limit).fetch)
            if problem.startswith("git fetch"):
                break  # else the machine was too slow for another command
        assert problem == f"git fetch did not end within {limit:g} s and was stopped"
        assert contents(git.files(revision)) == {"a.zk": b"/a\n"}

    @pytest.mark.parametrize("url", ["ext::sh -c touch% {}", "--upload-pack=touch {}", "foo::bar"])
    def test_a_url_runs_no_program(self, url: str, mirror: Path, tmp_path: Path):
        assert "there is no git repository at" in refused(
            GitSource(url.format(tmp_path / "ran"), mirror, gap=0).fetch
        )
        assert not (tmp_path / "ran").exists()

    def test_a_missing_git_is_an_error(self, repository: Repository, mirror: Path, tmp_path: Path):
        (tmp_path / "bin").mkdir()
        code = (
            "from pathlib import Path\n"
            "from zkdeployment.publishing.sources.git.source import GitSource\n"
            f"GitSource({repository.url!r}, Path({str(mirror)!r})).fetch()\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"PATH": str(tmp_path / "bin")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "zkdeployment.publishing.sources.git.command.GitError: git is not installed" in done.stderr


class TestFiles:
    def test_tree_files_at_the_top_are_read_sorted_and_unchanged(self, repository: Repository, mirror: Path):
        revision = repository.commit(
            {
                "b.zkx": "/b\n",
                "a.zk": b"\xef\xbb\xbf/a\r\n\xff",
                "Z.zk": "",
                "README.rst": "no",
                "old.zk.bak": "no",
                "sub/c.zk": "/c\n",
                "é ü.zk": "/e",
            }
        )
        git = source(repository, mirror)
        git.fetch()
        assert [(file.name, file.content) for file in git.files(revision)] == [
            ("Z.zk", b""),
            ("a.zk", b"\xef\xbb\xbf/a\r\n\xff"),
            ("b.zkx", b"/b\n"),
            ("é ü.zk", b"/e"),
        ]

    def test_documents_in_subdirectories_are_read_as_such(self, repository: Repository, mirror: Path):
        document = "schema: zkdeployment/Quarantine/v1\n"
        revision = repository.commit(
            {"a.zk": "/a\n", "sub/deep/b.yaml": document, "sub/c.yml": document, "sub/other.yaml": "x: 1\n"}
        )
        git = source(repository, mirror)
        git.fetch()
        expected = [("a.zk", False), ("sub/c.yml", True), ("sub/deep/b.yaml", True)]
        assert [(file.name, file.is_nested) for file in git.files(revision)] == expected
        assert [(file.name, file.is_nested) for file in revision_files(mirror, revision)] == expected

    def test_files_are_read_while_a_thousand_files_are_open(self, repository: Repository, mirror: Path):
        repository.commit({"a.zk": "/a\n"})
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with ExitStack() as stack:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
            for _ in range(1050):
                stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
            git = source(repository, mirror)
            assert contents(git.files(git.fetch())) == {"a.zk": b"/a\n"}

    def test_attributes_of_the_repository_do_not_change_tree_files(self, repository: Repository, mirror: Path):
        revision = repository.commit(
            {".gitattributes": "*.zk text eol=crlf ident\n", "a.zk": "/a\n  x = '$Id$'\n"}
        )
        git = source(repository, mirror)
        git.fetch()
        assert contents(git.files(revision)) == {"a.zk": b"/a\n  x = '$Id$'\n"}

    def test_a_symbolic_link_is_refused(self, repository: Repository, mirror: Path):
        (repository.directory / "a.zk").symlink_to("/etc/passwd")
        revision = repository.commit({"b.zk": "/b\n"})
        git = source(repository, mirror)
        git.fetch()
        assert refused(git.files, revision) == (
            f"a.zk of revision {revision} is a symbolic link; a tree file has to be a plain file"
        )

    def test_a_submodule_is_refused(self, repository: Repository, mirror: Path):
        head = repository.commit({"b.zk": "/b\n"})
        repository.git("update-index", "--add", "--cacheinfo", f"160000,{head},a.zk")
        repository.git("commit", "-q", "-m", "a submodule")
        git = source(repository, mirror)
        assert "is a submodule" in refused(git.files, git.fetch())

    def test_a_directory_is_refused(self, repository: Repository, mirror: Path):
        repository.commit({"a.zk/b": "", "b.zk": "/b\n"})
        git = source(repository, mirror)
        assert "is a directory" in refused(git.files, git.fetch())

    def test_a_name_that_is_not_text_is_refused(self, repository: Repository, mirror: Path):
        repository.commit({os.fsdecode(b"\xff.zk"): "/b\n"})
        git = source(repository, mirror)
        assert "is not UTF-8" in refused(git.files, git.fetch())

    def test_a_name_with_control_characters_is_refused(self, repository: Repository, mirror: Path):
        repository.commit({"\x1b[2J.zk": "/b\n"})
        git = source(repository, mirror)
        assert r"the name of '\x1b[2J.zk' has characters that cannot be printed" in refused(git.files, git.fetch())

    def test_only_damaged_files_that_are_read_are_an_error(self, repository: Repository):
        repository.commit({"a.zk": "/a\n", "README.rst": "read me", "strategy.yaml": EXAMPLE_FILE.read_bytes()})
        self.lose(repository, "README.rst")
        assert list(contents(revision_files(repository.directory, "HEAD"))) == ["a.zk", "strategy.yaml"]
        self.lose(repository, "strategy.yaml")
        assert "strategy.yaml" in refused(revision_files, repository.directory, "HEAD")

    def lose(self, repository: Repository, name: str) -> None:
        blob = repository.git("rev-parse", f"HEAD:{name}")
        (repository.directory / ".git" / "objects" / blob[:2] / blob[2:]).unlink()

    def test_a_revision_without_tree_files_is_refused(self, repository: Repository, mirror: Path):
        revision = repository.commit({"README.rst": "nothing else"})
        git = source(repository, mirror)
        git.fetch()
        assert refused(git.files, revision) == f"revision {revision} has no tree files (*.zk) at its top"

    def test_an_unknown_revision_is_an_error(self, repository: Repository, mirror: Path):
        repository.commit({"a.zk": "/a\n"})
        git = source(repository, mirror)
        git.fetch()
        for unknown in ("0" * 40, "--all", 12):
            assert "has no revision" in refused(git.files, unknown)

    @pytest.mark.parametrize(
        ("limit", "most", "problem"),
        [
            ("MOST_BYTES_OF_A_FILE", 5, "a.zk of revision {} has 6 bytes; 5 are allowed"),
            ("MOST_BYTES", 8, "the tree files of revision {} have more than 8 bytes"),
            ("MOST_FILES", 1, "revision {} has 2 tree files; 1 are allowed"),
        ],
    )
    def test_sizes_are_limited(
        self,
        repository: Repository,
        mirror: Path,
        monkeypatch: pytest.MonkeyPatch,
        limit: str,
        most: int,
        problem: str,
    ):
        revision = repository.commit({"a.zk": "/long\n", "b.zk": "/b\n"})
        git = source(repository, mirror)
        git.fetch()
        monkeypatch.setattr(ports, limit, most)
        assert refused(git.files, revision) == problem.format(revision)


class TestAnyRevisionOfALocalRepository:
    def test_branches_tags_and_trees_are_read(self, repository: Repository):
        repository.commit({"a.zk": "/a\n"})
        repository.git("tag", "-a", "v1", "-m", "one")
        repository.commit({"a.zk": "/b\n"})
        for revision, content in (
            ("v1", b"/a\n"),
            ("HEAD~1", b"/a\n"),
            ("main", b"/b\n"),
            ("HEAD^{tree}", b"/b\n"),
        ):
            assert contents(revision_files(repository.directory, revision)) == {"a.zk": content}

    def test_the_top_is_read_from_a_subdirectory(self, repository: Repository):
        repository.commit({"a.zk": "/a\n", "sub/x": ""})
        assert contents(revision_files(repository.directory / "sub", "HEAD")) == {"a.zk": b"/a\n"}

    def test_a_hook_reads_the_revision_that_is_being_pushed(
        self, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        revision = repository.commit({"a.zk": "/a\n"})
        bare = tmp_path / "bare.git"
        subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
        monkeypatch.setenv("GIT_DIR", ".")
        monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(repository.directory / ".git" / "objects"))
        assert contents(revision_files(bare, revision)) == {"a.zk": b"/a\n"}

    @pytest.mark.parametrize("revision", ["nope", "--all", "HEAD~7"])
    def test_an_unknown_revision_is_an_error(self, repository: Repository, revision: str):
        repository.commit({"a.zk": "/a\n"})
        assert refused(revision_files, repository.directory, revision) == (
            f"there is no revision {revision} in the repository at {repository.directory}"
        )

    def test_a_full_id_is_never_a_tag_or_a_branch(self, repository, mirror):
        first = repository.commit({"a.zk": "/first\n"})
        tip = repository.commit({"a.zk": "/second\n"})
        foreign = ["0123456789abcdef" * 4, "0123456789" * 4]
        for name in (first, *foreign):
            repository.git("update-ref", f"refs/heads/{name}", tip)
            repository.git("update-ref", f"refs/tags/{name}", tip)
        assert contents(revision_files(repository.directory, first)) == {"a.zk": b"/first\n"}
        mirrored = source(repository, mirror, branch="main")
        mirrored.fetch()
        assert contents(mirrored.files(first)) == {"a.zk": b"/first\n"}
        for name in foreign:
            assert f"there is no revision {name}" in refused(revision_files, repository.directory, name)
            assert f"has no revision {name}" in refused(mirrored.files, name)

    def test_a_directory_without_a_repository_is_an_error(self, tmp_path: Path):
        assert "not a git repository" in refused(revision_files, tmp_path, "HEAD")
        assert refused(revision_files, tmp_path / "x", "HEAD") == f"there is no directory {tmp_path}/x"


class TestSurprises:
    def test_a_shallow_repository_is_followed_and_its_known_history_is_used(
        self, repository: Repository, mirror: Path, tmp_path: Path
    ):
        first = repository.commit({"a.zk": "/a\n"})
        second = repository.commit({"a.zk": "/b\n"})
        shallow = Repository(tmp_path / "shallow")
        shallow.git("fetch", "-q", "--depth=1", f"file://{repository.directory}", "main")
        shallow.git("reset", "-q", "--hard", "FETCH_HEAD")
        git = source(shallow, mirror)
        assert git.fetch() == second
        assert contents(git.files(second)) == {"a.zk": b"/b\n"}
        assert not git.descends(second, first)
        third = shallow.commit({"a.zk": "/c\n"})
        assert git.fetch() == third
        assert git.descends(third, second)

    def test_a_full_disk_leaves_the_mirror_unchanged(self, repository: Repository, mirror: Path):
        first = repository.commit({"a.zk": "/a\n"})
        git = source(repository, mirror)
        git.fetch()
        second = repository.commit({"a.zk": "/b\n", "large": os.urandom(1 << 20)})
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, hard))
        try:
            assert "failed" in refused(git.fetch)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert contents(git.files(first)) == {"a.zk": b"/a\n"}
        assert [path.name for path in mirror.parent.iterdir()] == ["tree"]
        assert git.fetch() == second
        assert git.descends(second, first)

    def test_submodules_and_links_beside_tree_files_are_ignored(self, repository: Repository, mirror: Path):
        head = repository.commit({"a.zk": "/a\n", ".gitmodules": '[submodule "m"]\n  path = m\n  url = /etc\n'})
        repository.git("update-index", "--add", "--cacheinfo", f"160000,{head},m")
        (repository.directory / "loop").symlink_to("loop")
        (repository.directory / "zero").symlink_to("/dev/zero")
        repository.git("add", "loop", "zero")
        repository.git("commit", "-q", "-m", "surprises")
        git = source(repository, mirror)
        assert contents(git.files(git.fetch())) == {"a.zk": b"/a\n"}
