"""The verbs lint, plan and sync with repositories: real createrepo_c, dnf, git and ZooKeeper."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import pytest

from support.builders import make_known_host, make_package
from support.repository import Repository
from zkdeployment.base.inventory import Inventory
from zkdeployment.programs.main import main
from zkdeployment.publishing.store.hosts import write_inventory
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from pathlib import Path

    from support.hosts.repositories import PaperRepository
    from support.publishing import Publishing

TREE = "/who\n  /web : shop\n    version = '{}'\n    patches = {}\n    /deploy\n      /h1\n"
MISSING = (
    "no repository has the package shop 9.9; it has shop 1.0-1; publish it, or correct the version in the tree"
)
NO_REPOSITORIES = (
    "no repositories are configured: set repositories in [sync] of the configuration, or use --repositories"
)


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def call(*argv: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in argv])
        printed = capsys.readouterr()
        return end.value.code, printed.out, printed.err

    return call


def test_lint_asks_for_versions_and_patches_with_their_places(
    run, paper_repository: PaperRepository, tmp_path: Path
):
    file = tmp_path / "a.zk"
    file.write_text(TREE.format("9.9", ["fix 7"]))
    given = ("--packages", "--repositories", paper_repository.url)
    code, out, err = run("lint", *given, str(file))
    assert (code, out.splitlines()) == (
        1,
        [
            (
                f"{file}:2:3: /who/web: no repository has the package fix 7; publish it, or correct the version in"
                " the tree"
            ),
            f"{file}:2:3: /who/web: {MISSING}",
        ],
    )
    assert err == "1 file, 4 nodes, 2 errors, 0 warnings\n"

    paper_repository.leave()
    code, out, _ = run("lint", *given, str(file))
    assert (code, out.count("warning: ")) == (0, 3)
    assert "warning: the repository zkdeployment-1 cannot be reached: " in out
    assert run("lint", "--strict", *given, str(file))[0] == 1
    paper_repository.come_back()

    paper_repository.publish("fix-0:7-1.noarch")
    file.write_text(TREE.format("1.0", ["fix 7"]))
    assert run("lint", *given, str(file))[:2] == (0, "")

    file.write_text(TREE.format("9.9", ["fix 7"]) + "/who\n")
    code, out, err = run("lint", *given, str(file))
    assert (code, "no repository has" in out) == (1, False)
    assert "the packages are not checked: no repository is asked while the tree has errors" in err


def test_lint_without_repositories_explains_where_to_name_them(run, tmp_path: Path):
    (tmp_path / "a.zk").write_text(TREE.format("1.0", []))
    assert run("lint", "--packages", "a.zk") == (2, "", f"zkdeployment: {NO_REPOSITORIES}\n")
    code, _, err = run("lint", "--repositories", "/x", "a.zk")
    assert (code, "expected --packages with --repositories" in err) == (2, True)
    wrong = {
        "": "--repositories: expected a directory, a URL or a file, found nothing",
        "/nonexistent": "--repositories: /nonexistent is not a directory; create it, or correct the configuration",
        ".": f"--repositories: expected *.repo files in {tmp_path}, found none",
    }
    for value, message in wrong.items():
        code, _, err = run("lint", "--packages", "--repositories", value, "a.zk")
        assert (code, message in err) == (2, True), err


@pytest.mark.nightly
def test_lint_since_a_revision_looks_up_only_newly_wanted_packages(
    run, paper_repository: PaperRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    repository = Repository(tmp_path / "tree")
    monkeypatch.chdir(repository.directory)
    config = tmp_path / "x.cfg"
    config.write_text(
        f"[zkdeployment]\n[sync]\nurl = x\ntree-directory = {tmp_path}/m\nrepositories = {paper_repository.url}\n"
    )
    repository.commit({"a.zk": TREE.format("9.9", [])})
    repository.commit({"a.zk": TREE.format("9.9", []) + "/texts\n"})
    asked = ("lint", "--packages", "--config", str(config))
    assert run(*asked, "--since", "HEAD~1")[:2] == (0, "")
    assert MISSING in run(*asked, "HEAD")[1]
    patched = repository.commit({"a.zk": TREE.format("1.0", ["fix 7"])})
    assert "the package fix 7" in run(*asked, "--since", "HEAD~1")[1]
    before = repository.git("rev-parse", "HEAD~1").strip()
    for pushed in (f"{before} {patched} refs/heads/main\n", f"{'0' * 40} {patched} refs/heads/main\n"):
        monkeypatch.setattr("sys.stdin", io.StringIO(pushed))
        code, out, _ = run(*asked, "--hook")
        assert (code, "the package fix 7" in out) == (1, True), "as the hook pre-receive"
    repository.git("reset", "--soft", "HEAD~1")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert "the package fix 7" in run(*asked, "--hook")[1], "as the hook pre-commit"


def test_plan_and_a_dry_run_show_the_refusals_of_the_syncer(
    run, publishing: Publishing, paper_repository: PaperRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = tmp_path / "x.cfg"
    config.write_text(
        f"[zkdeployment]\nzookeeper = {publishing.zookeeper}\n[sync]\nurl = {publishing.repository.url}\n"
        f"tree-directory = {tmp_path}/var/tree\nrepositories = {paper_repository.url}\n"
    )
    paper_repository.publish("shop-0:1.2-1.noarch")
    legacy = Inventory(packages={"legacy": (make_package("legacy", "1.0"),)})
    with Session(publishing.zookeeper) as session:
        write_inventory(session, make_known_host(1, legacy))
    publishing.push("/who\n")
    publishing.sync()
    publishing.register("h1", str(publishing.version), "app1")
    conflict = "cannot install shop-1.2-1.noarch on app1 (h1): package shop-1.2-1.noarch conflicts with legacy"
    tip = publishing.push(TREE.format("1.2", []))
    code, out, err = run("plan", "--config", str(config))
    assert (code, f"the syncer would refuse this: /who/web: {conflict}" in err) == (1, True)
    assert "shop" in out, "the plan is shown nevertheless"
    plan = json.loads(run("plan", "--config", str(config), "-o", "json")[1])
    (problem,) = plan["packages"]["problems"]
    assert (plan["packages"]["checked"], problem["severity"], problem["path"]) == (1, "error", "/who/web")
    assert problem["message"].startswith(conflict)
    assert plan["warnings"] == []
    code, _, err = run("sync", "--dry-run", str(config))
    assert (code, f"{tip} is not published: hosts could not install its packages" in err) == (3, True)
    assert conflict in err
    assert not (tmp_path / "var").exists()

    publishing.push(TREE.format("1.0", []))
    assert run("plan", "--config", str(config))[::2] == (4, "")
    config.write_text(config.read_text().replace("repositories = ", "# "))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert json.loads(run("plan", "--config", str(config), "-o", "json")[1])["packages"] is None
    assert run("plan", "--config", str(config))[::2] == (4, f"the packages are not checked: {NO_REPOSITORIES}\n")
    config.write_text(config.read_text().replace("# ", "repositories = "))
    paper_repository.leave()
    code, _, err = run("plan", "--config", str(config), "--short")
    assert (code, "cannot be reached" in err) == (4, True)
    nowhere = str(tmp_path / "nowhere")
    assert run("plan", "--config", str(config), "--repositories", nowhere)[0] == 2
    config.write_text(
        config.read_text().replace(f"repositories = {paper_repository.url}", f"repositories = {nowhere}")
    )
    code, _, err = run("plan", "--config", str(config))
    assert (code, err) == (
        4,
        (
            f"warning: the packages are not checked: repositories: {nowhere} is not a directory; create it, or"
            " correct the configuration\n"
        ),
    )
