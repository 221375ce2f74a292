"""The verb tree on a real ZooKeeper, and on files."""

from __future__ import annotations

import errno
import json
import sys
from unittest import mock

import pytest

from support import commands
from support.repository import Repository
from support.strategies import EXAMPLE_FILE
from support.zookeeper import write_node
from zkdeployment.agent.files import verified_properties
from zkdeployment.programs.main import main
from zkdeployment.publishing.store.documents import encode_strategy
from zkdeployment.strategies.strategy import ALL_HOSTS

WEB = """\
/shop
  owner = 'us'
  /web : web
    version = '1.2'
    database -> /databases/main
    size => /databases/main size
    /deploy
      /1
        n = 2
"""
DATABASES = """\
/databases
  /main
    size = 7
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "web.zk").write_text(WEB)
    (tmp_path / "databases.zk").write_text(DATABASES)
    (tmp_path / "notes.txt").write_text("not a tree")
    return tmp_path


@pytest.fixture
def run(zookeeper, capsys):
    def call(*argv: str):
        with pytest.raises(SystemExit) as end:
            main(["tree", argv[0], "-z", zookeeper, *map(str, argv[1:])])
        printed = capsys.readouterr()
        return end.value.code, printed.out, printed.err

    return call


@pytest.fixture
def imported(run, files):
    assert run("import", files)[0] == 0


def test_files_are_shown_as_one_object_layered(run, files):
    layer = files / "over.zkx"
    layer.write_text("/shop\n  /web\n    version = '2.0'\n  /new\n")
    code, out, _ = run("show", "--file", files / "web.zk", layer, files / "databases.zk", "-o", "json")
    assert code == 0
    assert json.loads(out) == {
        "/databases": {},
        "/databases/main": {"size": 7},
        "/shop": {"owner": "us"},
        "/shop/new": {},
        "/shop/web": {
            "type": "web",
            "version": "2.0",
            "database ->": "/databases/main",
            "size =>": "/databases/main size",
        },
        "/shop/web/deploy": {},
        "/shop/web/deploy/1": {"n": 2},
    }


def test_files_are_shown_without_a_zookeeper(files, capsys):
    with pytest.raises(SystemExit) as end:
        main(["tree", "show", "-z", "127.0.0.1:1", "--file", str(files / "databases.zk"), "/databases/main"])
    assert end.value.code == 0
    assert capsys.readouterr().out == DATABASES


def test_an_error_in_a_file_is_reported_with_its_place(run, tmp_path):
    broken = tmp_path / "broken.zk"
    broken.write_text("/a\n  x = import os\n")
    code, out, err = run("show", "--file", broken, "-o", "json")
    assert (code, out) == (1, "")
    assert f"{broken}:2:" in err


def test_the_error_for_a_missing_file_names_the_file(run, tmp_path):
    code, _, err = run("show", "--file", tmp_path / "none.zk")
    assert code == 2
    assert "none.zk: No such file" in err


@pytest.mark.usefixtures("imported")
def test_the_live_tree_is_shown_and_exported(run, client):
    client.create("/databases/main/a:1", b'{"pid": 7}', ephemeral=True)
    code, out, _ = run("show", "/databases", "-o", "json")
    assert code == 0
    assert json.loads(out) == {"/databases": {}, "/databases/main": {"size": 7}, "/databases/main/a:1": {"pid": 7}}
    assert run("export", "/databases/main")[1] == DATABASES
    assert run("export")[1] == DATABASES + WEB.replace("    database ->", "    X").replace(
        "    X /databases/main\n    size => /databases/main size\n",
        "    size => /databases/main size\n    database -> /databases/main\n",
    )


@pytest.mark.usefixtures("imported")
def test_an_export_reads_back_as_the_same_tree(run, tmp_path):
    (tmp_path / "all.zk").write_text(run("export")[1])
    assert run("diff", tmp_path / "all.zk")[:2] == (0, "")


def test_reserved_nodes_are_shown_when_named(run, client):
    client.create("/hosts", b'{"version": "x"}')
    client.create("/hosts/1", b'{"name": "web1"}', ephemeral=True)
    assert run("show")[1] == ""
    assert json.loads(run("show", "/hosts/", "-o", "json")[1]) == {
        "/hosts": {"version": "x"},
        "/hosts/1": {"name": "web1"},
    }


def test_a_missing_node_is_an_error(run):
    for verb in ("show", "export", "get"):
        code, out, err = run(verb, "/nowhere")
        assert (code, out) == (1, "")
        assert "there is no node /nowhere" in err
    assert run("show", "/a", "/b")[0] == 2
    assert run("get", "/a/../../b")[0] == 1


@pytest.mark.usefixtures("imported")
def test_properties_are_read_through_links(run):
    assert json.loads(run("get", "/shop/web/database")[1]) == {"size": 7}
    assert json.loads(run("get", "/shop/web")[1]) == {
        "type": "web",
        "version": "1.2",
        "size": 7,
        "database ->": "/databases/main",
    }
    assert run("get", "/shop/web", "size")[1] == "7\n"
    assert run("get", "/shop/web", "version")[1] == '"1.2"\n'
    code, _, err = run("get", "/shop/web", "colour")
    assert code == 1
    assert "/shop/web has no property colour" in err


@pytest.mark.usefixtures("imported")
def test_a_script_reads_the_verified_properties_of_its_service(run, tmp_path, monkeypatch):
    file = tmp_path / "shop:web.json"
    file.write_text('{"size": 9}')
    monkeypatch.setenv("ZKDEPLOYMENT_PROPERTIES", str(file))
    assert run("get", "/shop/web") == (0, '{\n  "size": 9\n}\n', "")
    assert run("get", "/shop/web/", "size") == (0, "9\n", "")
    assert "/shop/web has no property version" in run("get", "/shop/web", "version")[2]
    code, out, err = run("get", "/databases/main")
    assert (code, json.loads(out)) == (0, {"size": 7})
    assert err == "warning: /databases/main is not the service of this script: its properties are not verified\n"
    for content in ("[]", "{"):
        file.write_text(content)
        assert "does not hold verified properties" in run("get", "/shop/web")[2]
    denied = PermissionError(errno.EACCES, "Permission denied", str(file))
    with mock.patch.object(verified_properties.files, "read", side_effect=denied):
        code, _, err = run("get", "/shop/web")
    assert f"cannot read the verified properties of /shop/web in {file}: Permission denied" in err
    assert "run 'zkdeployment tree get' before the script changes its user" in err
    file.unlink()
    assert "a script that undeploys a service must not read its properties" in run("get", "/shop/web")[2]


def test_an_import_trims_nodes_missing_in_zk_files_and_layers_zkx_files(run, files, client):
    client.ensure_path("/foreign/kept")
    assert run("import", files)[0] == 0
    (files / "web.zk").write_text("/shop\n  /web : web\n    version = '1.3'\n")
    (files / "more.zkx").write_text("/foreign\n  x = 1\n")
    code, out, _ = run("import", files)
    assert code == 0
    assert "change property version from '1.2' to '1.3'" in out
    assert json.loads(run("show", "-o", "json")[1]) == {
        "/databases": {},
        "/databases/main": {"size": 7},
        "/foreign": {"x": 1},
        "/foreign/kept": {},
        "/shop": {},
        "/shop/web": {"type": "web", "version": "1.3"},
    }


def test_a_dry_run_changes_nothing(run, files, client):
    code, out, _ = run("import", "--dry-run", files)
    assert code == 0
    assert "add /shop/web" in out
    assert client.get_children("/") == []


def test_a_change_by_hand_of_a_signed_fleet_is_made_with_a_warning(run, files, client):
    assert "signed" not in run("import", "--dry-run", files)[2]
    client.create("/zkdeployment/signed", b"a statement", makepath=True)
    for option in (("--dry-run",), ()):
        code, _, err = run("import", *option, files)
        assert code == 0
        assert "hosts with publishers deploy nothing from a live tree that was changed by hand" in err
    assert "signed" not in run("import", files)[2]  # nothing changes
    client.set("/zkdeployment/signed", b"")
    assert "signed" not in run("rm", "/shop/web")[2]


@pytest.mark.parametrize(
    "text", ["/hosts\n  version = 'x'\n", "/zkdeployment\n", "/role-locks\n  /web\n    x = 1\n"]
)
def test_reserved_nodes_are_refused(run, tmp_path, client, text):
    (tmp_path / "bad.zk").write_text(f"/good\n{text}")
    code, _, err = run("import", tmp_path)
    assert code == 1
    assert "bad.zk:" in err
    assert client.get_children("/") == []


def test_the_lock_node_of_a_role_is_created(run, tmp_path, client):
    (tmp_path / "roles.zk").write_text("/role-locks\n  /web\n")
    assert run("import", tmp_path)[0] == 0
    assert client.exists("/role-locks/web")


def test_importing_takes_the_version_from_the_targets_but_not_from_the_cluster(run, files, client):
    client.create("/hosts", b'{"version": "r1"}')
    client.create("/zkdeployment/targets", b'{"version": "r1"}', makepath=True)
    assert run("import", files)[0] == 0
    assert client.get("/hosts")[0] == b'{"version": "r1"}'
    assert json.loads(client.get("/zkdeployment/targets")[0]) == {"version": None}


@pytest.mark.usefixtures("imported")
def test_differences_are_printed_and_reflected_in_the_exit_code(run, files):
    assert run("diff", files)[:2] == (0, "")
    (files / "web.zk").unlink()
    (files / "databases.zk").write_text("/databases\n  /other\n")
    code, out, _ = run("diff", files)
    assert code == 4
    assert out.splitlines() == ["delete /databases/main", "add /databases/other"]
    code, out, _ = run("diff", files, "-o", "json")
    assert code == 4
    assert json.loads(out) == {
        "schema": "zkdeployment/tree-diff/v1",
        "create": {"/databases/other": {}},
        "update": {},
        "delete": ["/databases/main"],
        "strategy": None,
    }


@pytest.mark.usefixtures("imported")
def test_a_strategy_difference_is_printed_when_the_whole_tree_is_compared(run, files, client):
    client.create("/zkdeployment/strategy", encode_strategy(ALL_HOSTS), makepath=True)
    assert run("diff", files / "web.zk")[:2] == (0, "")
    assert run("diff", files)[:2] == (4, "delete strategy all-hosts\ndelete group all-hosts\n")
    strategy = files / "strategy.yaml"
    strategy.write_text("schema: shipyard/DeploymentConfiguration/v1\ndata: {}\n")
    assert run("diff", files)[:2] == (0, "")
    strategy.write_bytes(EXAMPLE_FILE.read_bytes())
    code, out, _ = run("diff", files / "web.zk", strategy, "-o", "json")
    assert code == 4
    change = json.loads(out)["strategy"]
    assert (change["before"], change["after"]) == ("all-hosts", "deployment-strategy")
    assert change["groups"]["deleted"] == ["all-hosts"]
    strategy.write_text("schema: shipyard/DeploymentStrategy/v1\n")
    code, _, err = run("diff", files)
    assert code == 1
    assert f"{strategy}:1:1: " in err


@pytest.mark.usefixtures("imported")
def test_nodes_with_ephemeral_nodes_below_them_are_not_trimmed(run, files, client):
    client.create("/databases/main/a:1", ephemeral=True)
    (files / "web.zk").unlink()
    (files / "databases.zk").write_text("/databases\n")
    assert run("import", files)[0] == 0
    assert client.exists("/databases/main/a:1")


@pytest.mark.usefixtures("imported")
def test_a_link_is_created_followed_and_removed(run, client):
    client.create("/zkdeployment/targets", b'{"version": "r1"}', makepath=True)
    assert run("ln", "--dry-run", "/databases/main", "/shop/")[:2] == (
        0,
        "/shop add link main -> /databases/main\n",
    )
    assert run("get", "/shop/main", "size")[0] == 1
    assert run("ln", "/databases/main", "/shop/")[0] == 0
    assert run("get", "/shop/main", "size")[1] == "7\n"
    assert json.loads(client.get("/zkdeployment/targets")[0])["version"] is None
    assert run("rm", "/shop/main")[0] == 0
    assert run("get", "/shop/main", "size")[0] == 1
    assert run("get", "/databases/main", "size")[1] == "7\n"


@pytest.mark.usefixtures("imported")
def test_a_node_is_removed_with_all_below_it_unless_instances_are_registered_there(run, client):
    client.create("/shop/web/app1:80", ephemeral=True)
    code, _, err = run("rm", "/shop")
    assert (code, err) == (3, "zkdeployment: instances are registered below /shop; stop them first\n")
    assert run("rm", "/hosts")[0] == 3
    client.delete("/shop/web/app1:80")
    assert run("rm", "-n", "/shop/web")[1] == (
        "delete /shop/web\ndelete /shop/web/deploy\ndelete /shop/web/deploy/1\n"
    )
    assert client.exists("/shop/web/deploy/1")
    assert run("rm", "/shop/web")[0] == 0
    assert client.get_children("/shop") == []


def test_no_zookeeper_is_exit_code_7(capsys):
    with pytest.raises(SystemExit) as end:
        main(["tree", "get", "-z", "127.0.0.1:1", "/a"])
    assert end.value.code == 7
    assert "127.0.0.1:1: Connection refused" in capsys.readouterr().err


@pytest.fixture
def published(zookeeper, tmp_path, client):
    """A repository with a published first revision, an unpublished second revision, and a branch."""
    repository = Repository(tmp_path / "repository")
    revision = repository.commit({"databases.zk": DATABASES})
    repository.commit({"databases.zk": "/databases\n  /main\n    size = 8\n"})
    repository.git("checkout", "-q", "-b", "more", revision)
    repository.commit({"more.zk": "/more\n"})
    repository.git("checkout", "-q", "main")
    config = tmp_path / "zkdeployment.cfg"
    config.write_text(
        f"[zkdeployment]\nzookeeper = {zookeeper}\n"
        f"[sync]\nurl = {repository.url}\ntree-directory = {tmp_path}/mirror\n"
    )
    write_node(client, "/zkdeployment/targets", {"version": revision})
    client.create("/databases/main", b'{"size": 7}', makepath=True)
    return revision


@pytest.mark.usefixtures("published")
def test_the_published_revision_is_compared_by_default(run, tmp_path, client):
    config = ("--config", tmp_path / "zkdeployment.cfg")
    client.create("/foreign")
    client.create("/databases/main/a:1", ephemeral=True)
    assert run("diff", *config)[:2] == (0, "")
    assert not (tmp_path / "mirror").exists()
    client.set("/databases/main", b'{"size": 9}')
    client.create("/databases/stray")
    code, out, _ = run("diff", *config)
    assert code == 4
    assert out.splitlines() == [
        "/databases/main change property size from 9 to 7",
        "delete /databases/stray",
    ]
    code, out, _ = run("diff", *config, "-o", "json")
    assert code == 4
    assert json.loads(out) == {
        "schema": "zkdeployment/tree-diff/v1",
        "create": {},
        "update": {"/databases/main": {"size": 7}},
        "delete": ["/databases/stray"],
        "strategy": None,
    }


def test_any_branch_or_commit_is_compared(run, published, tmp_path):
    config = ("--config", tmp_path / "zkdeployment.cfg")
    assert run("diff", *config, "--revision", published)[:2] == (0, "")
    assert run("diff", *config, "--revision", "main")[:2] == (
        4,
        "/databases/main change property size from 7 to 8\n",
    )
    assert run("diff", *config, "--revision", "more")[:2] == (4, "add /more\n")
    code, _, err = run("diff", *config, "--revision", "moer")
    assert code == 1
    assert "no branch moer; did you mean more?" in err
    assert run("diff", *config, "--revision", "main", tmp_path)[0] == 2


@pytest.mark.usefixtures("published")
def test_drift_without_a_published_revision_is_refused(run, tmp_path, client):
    client.set("/zkdeployment/targets", b"")
    code, _, err = run("diff", "--config", tmp_path / "zkdeployment.cfg")
    assert (code, "there is no completely published revision" in err) == (3, True)


def test_a_comparison_without_files_or_a_repository_is_an_error(zookeeper, tmp_path, capsys, client):
    client.create("/zkdeployment/targets", b'{"version": "r1"}', makepath=True)
    config = tmp_path / "zkdeployment.cfg"
    config.write_text(f"[zkdeployment]\nzookeeper = {zookeeper}\n")
    with pytest.raises(SystemExit) as end:
        main(["tree", "diff", "--config", str(config)])
    assert end.value.code == 2
    assert "sync" in capsys.readouterr().err


def test_nodes_may_have_any_name_that_zookeeper_accepts(run, tmp_path):
    text = "/g\n  /-a\n  /a%b\n  /café\n  /x,y\n    n = 1\n  /~a\n  /日本\n    l -> /g/x,y\n"
    (tmp_path / "a.zk").write_text(text)
    assert run("import", str(tmp_path / "a.zk"))[0] == 0
    assert run("export", "/g")[1] == text
    assert run("get", "/g/日本/l", "n")[1] == "1\n"


def test_an_unreadable_file_in_a_subdirectory_is_named(tmp_path):
    below = tmp_path / "below"
    below.mkdir()
    (below / "a.yaml").touch()
    below.chmod(0o600)  # its files can be listed, not read
    unprivileged = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    done = commands.run(*unprivileged, sys.executable, "-m", "zkdeployment", "lint", tmp_path)
    assert done.stderr == f"zkdeployment: cannot read {below}/a.yaml: Permission denied\n"
