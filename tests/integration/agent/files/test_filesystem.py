"""The host's files, with real files below a temporary root."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from support.builders import make_package
from zkdeployment.agent.files.filesystem import Filesystem
from zkdeployment.base.deployment import Deployment
from zkdeployment.base.errors import HostFilesError, ScriptError
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import Inventory, Marker

WHO_0 = Deployment("/who/myfoo", 0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


@pytest.fixture
def files(root: Path) -> Filesystem:
    return Filesystem(root)


def put(root: Path, name: str, content: str = "", mode: int = 0o644) -> Path:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    file.chmod(mode)
    return file


def test_the_inventory_of_an_empty_root_is_empty(files):
    assert files.inventory({}) == Inventory()


def test_a_directory_that_is_removed_during_the_inventory_is_skipped(root, files, monkeypatch):
    put(root, "opt/foo/bin/zookeeper-deploy")
    vanishing = put(root, "etc/vanishing/who:myfoo.0.deployed")
    put(root, "etc/foo/who:myfoo.0.deployed")
    scandir = os.scandir

    def scan(directory):
        if directory == root / "etc/foo":
            shutil.rmtree(vanishing.parent, ignore_errors=True)
        return scandir(directory)

    monkeypatch.setattr(os, "scandir", scan)
    assert [marker.application for marker in files.inventory({}).markers] == ["foo"]


def test_deploy_scripts_are_found_in_both_directories(root, files):
    inside = put(root, "opt/foo/bin/zookeeper-deploy")
    beside = put(root, "opt/bar-1.4/zookeeper-deploy")
    put(root, "opt/data/x")
    put(root, "opt/.hidden/zookeeper-deploy")
    put(root, "opt/file")
    inventory = files.inventory({})
    assert inventory.scripts == {"foo": str(inside), "bar-1.4": str(beside)}
    assert inventory.directories == {"foo", "bar-1.4", "data"}


def test_symbolic_links_to_targets_outside_the_root_are_not_followed(root, files, tmp_path):
    outside = put(tmp_path, "outside/bin/zookeeper-deploy", mode=0o755)
    put(tmp_path, "etc-outside/who:myfoo.0.deployed")
    (root / "opt/foo/bin").mkdir(parents=True)
    (root / "opt/foo/bin/zookeeper-deploy").symlink_to(outside)
    (root / "opt/bar").symlink_to(tmp_path / "outside")
    (root / "etc").mkdir()
    (root / "etc/foo").symlink_to(tmp_path / "etc-outside")
    inventory = files.inventory({})
    assert (inventory.scripts, inventory.markers, inventory.directories) == ({}, (), {"foo"})
    with pytest.raises(ScriptError):
        files.scripts.executable_deploy_script("foo")


def test_a_written_marker_is_read_back(root, files):
    files.make_application_directory("foo")
    marker = Marker(WHO_0, "foo", "foo-1", "bar", "/opt/foo-1/bin/zookeeper-deploy", "1.4")
    files.markers.write(marker)
    (read_back,) = files.inventory({}).markers
    assert read_back == Marker(
        WHO_0, "foo", "foo-1", "bar", "/opt/foo-1/bin/zookeeper-deploy", "1.4", ("who:myfoo.0.deployed",)
    )
    assert [path.name for path in (root / "etc/foo").iterdir()] == ["who:myfoo.0.deployed"]
    assert files.inventory({}).applications == {"foo"}


@pytest.mark.parametrize("role", [None, "web"])
def test_the_record_of_a_marker_names_the_host(files, role):
    files.make_application_directory("foo")
    identity = Identity("h1", "h1.example.com", role)
    marker = Marker(WHO_0, "foo", properties="p", packages=("foo-1-1.noarch",), identity=identity)
    files.markers.write(marker)
    assert files.inventory({}).markers == (replace(marker, files=("who:myfoo.0.deployed",)),)


def test_the_files_of_older_tools_are_read_and_replaced(root, files):
    put(root, "opt/foo-1/bin/zookeeper-deploy")
    put(root, "etc/foo/who,myfoo.0.deployed")
    put(root, "etc/foo/who,myfoo.0.script", "/opt/foo-1/bin/zookeeper-deploy\n")
    put(root, "etc/foo/foo.conf")
    (read_back,) = files.inventory({}).markers
    assert read_back == Marker(
        deployment=WHO_0,
        application="foo",
        package="foo-1",
        script="/opt/foo-1/bin/zookeeper-deploy",
        files=("who,myfoo.0.deployed", "who,myfoo.0.script"),
    )
    files.markers.write(Marker(WHO_0, "foo", "foo-1", files=read_back.files))
    assert sorted(path.name for path in (root / "etc/foo").iterdir()) == ["foo.conf", "who:myfoo.0.deployed"]


@pytest.mark.parametrize(
    "content", ["", "not json", "[1]", '{"package": 7}', '{"package": "../x"}', "x" * 100_000]
)
def test_an_empty_or_damaged_marker_of_existing_software_records_its_deployment(root, files, content):
    files.managed.add({"foo-1": "foo"})
    put(root, "etc/foo/a:b.3.deployed", content)
    assert files.inventory({}).markers == (Marker(Deployment("/a/b", 3), "foo", files=("a:b.3.deployed",)),)


FOO = {"foo": (make_package("foo", "1"),)}
PAIR = {"who,myfoo.0.deployed": "", "who,myfoo.0.script": "/opt/foo-1.4/bin/zookeeper-deploy\n"}
MARKER = json.dumps({"path": "/who/myfoo", "number": 0})


class TestFilesWithTheNamesOfMarkers:
    """A file counts as a marker only with proof; all other files in /etc belong to other programs."""

    @pytest.mark.parametrize(
        "contents",
        [
            {"who,myfoo.0.script": "/opt/foo-1.4/bin/zookeeper-deploy\n"},
            {"job.1.script": "#!/bin/sh\n"},
            {"who:myfoo.0.deployed": ""},
            {"who:myfoo.0.deployed": '{"path": "/who/other", "number": 0}'},
            {"who:myfoo.0.deployed": '{"path": "/who/myfoo", "number": 1}'},
            PAIR,
        ],
    )
    def test_files_without_proof_are_ignored_and_reported_once(self, root, files, contents):
        foreign = [put(root, f"etc/foreign/{name}", content) for name, content in contents.items()]
        with capture_logs() as logs:
            inventories = [files.inventory({}) for _ in range(2)]
        assert [(inventory.markers, inventory.applications) for inventory in inventories] == [
            ((), frozenset())
        ] * 2
        assert sorted(line["file"] for line in logs if line["event"] == "marker-ignored") == sorted(
            map(str, foreign)
        )

    def test_a_script_file_alone_is_no_marker_even_of_managed_software(self, root, files):
        files.managed.add({"foo": "foo"})
        put(root, "opt/foo/bin/zookeeper-deploy")
        put(root, "etc/foo/backup.1.script", "/opt/foo/bin/zookeeper-deploy")
        assert files.inventory(FOO).markers == ()

    def test_a_marker_written_by_this_agent_needs_no_software(self, root, files):
        put(root, "etc/foo/who:myfoo.0.deployed", MARKER)
        assert files.inventory({}).markers == (Marker(WHO_0, "foo", files=("who:myfoo.0.deployed",)),)

    @pytest.mark.parametrize("directory", ["foo", "foo-1.4"])
    @pytest.mark.parametrize("proof", ["package", "script", "registry", "checkout"])
    def test_a_marker_of_older_tools_counts_if_the_host_has_or_had_the_software(
        self, root, files, directory, proof
    ):
        packages = {}
        match proof:
            case "package":
                packages = {"foo-1.4": (make_package("foo-1.4", "1"),)}
            case "script":
                put(root, "opt/foo-1.4/bin/zookeeper-deploy")
            case "registry":
                files.managed.add({"foo-1.4": "foo"})
            case "checkout":
                put(root, "opt/foo-1.4/.zkdeployment-version", "git:/srv/foo#1\n")
        for name, content in PAIR.items():
            put(root, f"etc/{directory}/{name}", content)
        (marker,) = files.inventory(packages).markers
        assert (marker.deployment, marker.package, marker.files) == (WHO_0, "foo-1.4", tuple(PAIR))

    def test_a_script_file_is_removed_before_its_marker(self, root, files, monkeypatch):
        for name, content in PAIR.items():
            put(root, f"etc/foo/{name}", content)
        removed = []
        monkeypatch.setattr("zkdeployment.base.machine.files.remove", lambda file: removed.append(file.name))
        files.markers.remove("foo", WHO_0, PAIR)
        assert removed == ["who,myfoo.0.script", "who,myfoo.0.deployed", "who:myfoo.0.deployed"]


@pytest.mark.parametrize(
    "name", ["x.deployed", "a.-1.deployed", "a:..:b.0.deployed", "a::b.0.deployed", "a.0.old", ".0.deployed"]
)
def test_files_with_other_names_are_not_markers(root, files, name):
    put(root, f"etc/foo/{name}")
    assert files.inventory({}).markers == ()


def test_links_and_directories_with_the_name_of_a_marker_are_not_markers(root, files):
    (root / "etc/foo/a.0.deployed").mkdir(parents=True)
    (root / "etc/foo/b.0.deployed").symlink_to("/etc/passwd")
    assert files.inventory({}).markers == ()


NOBODY = 65534

#: Ways in which other users may change the marker /etc/foo/who:myfoo.0.deployed.
OPEN = {
    "owner of the file": lambda etc: os.chown(etc / "foo/who:myfoo.0.deployed", NOBODY, -1),
    "mode of the file": lambda etc: (etc / "foo/who:myfoo.0.deployed").chmod(0o666),
    "owner of the directory": lambda etc: os.chown(etc / "foo", NOBODY, -1),
    "mode of the directory": lambda etc: (etc / "foo").chmod(0o777),
    "group of the directory": lambda etc: (os.chown(etc / "foo", 0, NOBODY), (etc / "foo").chmod(0o775)),
    "all applications": lambda etc: os.chown(etc, NOBODY, -1),
}


@pytest.mark.parametrize("way", OPEN)
@pytest.mark.parametrize("content", ["", '{"path": "/who/myfoo", "number": 0}'])
def test_a_marker_that_other_users_may_have_made_is_ignored(root, files, way, content):
    put(root, "opt/foo/bin/zookeeper-deploy", mode=0o755)
    put(root, "etc/bar/x")
    files.markers.write(Marker(Deployment("/other", 0), "bar"))
    put(root, "etc/foo/who:myfoo.0.deployed", content)
    OPEN[way](root / "etc")
    with capture_logs() as logs:
        markers = [*files.inventory({}).markers, *files.inventory({}).markers]
    assert [marker for marker in markers if marker.application == "foo"] == []
    (line,) = [line for line in logs if line["event"] == "marker-ignored"]
    assert line["file"] == str(root / "etc/foo/who:myfoo.0.deployed")
    assert "other users may have made it: if the deployment is real, make root the owner" in line["reason"]


def test_a_marker_in_a_directory_of_a_services_user_counts_if_the_agent_wrote_it(root, files):
    (root / "etc/foo").mkdir(parents=True)
    os.chown(root / "etc/foo", NOBODY, NOBODY)
    marker = Marker(WHO_0, "foo", "foo-1", files=("who:myfoo.0.deployed",))
    files.markers.write(marker)
    assert files.inventory({}).markers == (marker,)
    # The user hides the marker, and shows it again when the agent has removed it.
    hidden = root / "etc/foo/hidden"
    (root / "etc/foo/who:myfoo.0.deployed").rename(hidden)
    files.markers.remove("foo", WHO_0, [])
    hidden.rename(root / "etc/foo/who:myfoo.0.deployed")
    assert files.inventory({}).markers == ()


def test_a_marker_of_an_earlier_agent_in_a_directory_of_a_services_user_counts(root, files):
    put(root, "opt/foo/bin/zookeeper-deploy", mode=0o755)
    put(root, "etc/foo/who:myfoo.0.deployed", '{"path": "/who/myfoo", "number": 0}')
    put(root, "etc/foo/who,myfoo.1.deployed")  # nothing proves that the agent of older tools made it
    os.chown(root / "etc/foo", NOBODY, NOBODY)
    (old,) = files.inventory({}).markers
    assert old.deployment == WHO_0
    (root / "etc/bar").mkdir()
    files.markers.write(Marker(Deployment("/other", 0), "bar"))
    assert [marker.deployment for marker in files.inventory({}).markers] == [Deployment("/other", 0), WHO_0]
    put(root, "etc/foo/who:myfoo.7.deployed", '{"path": "/who/myfoo", "number": 7}')
    assert [marker.deployment for marker in files.inventory({}).markers] == [Deployment("/other", 0), WHO_0]


def test_a_removal_of_a_marker_removes_all_its_files_and_may_be_repeated(root, files):
    put(root, "etc/foo/who:myfoo.0.deployed")
    put(root, "etc/foo/who,myfoo.0.script")
    for _ in range(2):
        files.markers.remove("foo", WHO_0, ["who,myfoo.0.script"])
        assert list((root / "etc/foo").iterdir()) == []
    (root / "etc/foo").rmdir()
    files.markers.remove("foo", WHO_0, [])


@pytest.mark.parametrize("name", ["../../victim", "victim", "/victim"])
def test_only_markers_are_removed(root, files, name):
    victim = put(root, "victim")
    put(root, "etc/foo/x")
    with pytest.raises(HostFilesError, match="not the name of a marker"):
        files.markers.remove("foo", WHO_0, [name])
    with pytest.raises(HostFilesError, match="not a package name"):
        files.markers.remove("../foo", WHO_0, [])
    assert victim.exists()


def test_software_and_empty_application_directories_are_removed(root, files):
    put(root, "opt/foo/lib/left")
    put(root, "opt/foo-1/left")
    (root / "etc/foo").mkdir(parents=True)
    put(root, "etc/bar/kept")
    for _ in range(2):
        files.clear_software(["foo"], ["foo", "bar"])
    assert [path.name for path in (root / "opt").iterdir()] == ["foo-1"]
    assert [path.name for path in (root / "etc").iterdir()] == ["bar"]


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "/"])
def test_only_directories_directly_below_opt_are_removed(root, files, name):
    put(root, "opt/a/b/precious")
    with pytest.raises(HostFilesError, match="not a package name"):
        files.clear_software([name], [])
    assert (root / "opt/a/b/precious").exists()


def test_a_symbolic_link_in_place_of_software_is_refused(root, files):
    put(root, "srv/precious")
    (root / "opt").mkdir()
    (root / "opt/foo").symlink_to(root / "srv")
    with pytest.raises(HostFilesError, match="symbolic link"):
        files.clear_software(["foo"], [])
    assert (root / "srv/precious").exists()


def test_symbolic_links_inside_removed_software_are_not_followed(root, files):
    put(root, "srv/precious")
    put(root, "opt/foo/x")
    (root / "opt/foo/link").symlink_to(root / "srv")
    files.clear_software(["foo"], [])
    assert (root / "srv/precious").exists()


def test_managed_packages_are_added_to_and_dropped_from_the_registry(root, files):
    files.managed.add({"foo-1": "foo", "bar": "bar"})
    files.managed.add({"foo-2": "foo"})
    files.managed.remove(["bar", "unknown"])
    assert files.inventory({}).managed == {"foo-1": "foo", "foo-2": "foo"}
    assert list((root / "var/lib/zkdeployment").iterdir()) == [root / "var/lib/zkdeployment/managed.json"]


def test_the_versions_of_the_systems_own_packages_are_recorded(files):
    files.originals.add({"fix": "0:1-7", "other": "1:2.0-1"})
    files.originals.remove(["other"])
    assert files.inventory({}).originals == {"fix": "0:1-7"}


def test_the_start_of_a_deployment_is_recorded_until_its_end(root, files):
    assert not files.inventory({}).deployments_started
    for _ in range(2):
        files.record_start("/roles/web")
        assert files.inventory({}).deployments_started
    assert (root / "var/lib/zkdeployment/starting-deployments").read_text() == "/roles/web\n"
    for _ in range(2):
        files.record_end()
        assert not files.inventory({}).deployments_started


@pytest.mark.parametrize("content", ["", "nonsense", "[]", '{"foo": 1}', '{"../foo": "foo"}'])
def test_a_damaged_registry_counts_as_empty_and_is_replaced(root, files, content):
    put(root, "var/lib/zkdeployment/managed.json", content)
    assert files.inventory({}).managed == {}
    files.managed.add({"foo": "foo"})
    assert json.loads((root / "var/lib/zkdeployment/managed.json").read_text()) == {"foo": "foo"}


def test_errors_name_the_action_and_the_file(root, files):
    put(root, "opt")
    with pytest.raises(HostFilesError, match=f"cannot read {root}/opt: Not a directory"):
        files.inventory({})
    put(root, "etc")
    with pytest.raises(HostFilesError, match=f"cannot make {root}/etc/foo: Not a directory"):
        files.make_application_directory("foo")
    (root / "etc").unlink()
    files.make_application_directory("foo")
    with pytest.raises(HostFilesError, match=r"cannot write .*File name too long"):
        files.markers.write(Marker(Deployment("/" + "/".join(["a" * 200] * 2), 0), "foo"))
    shutil.rmtree(root / "var")
    (root / "var").touch()
    with pytest.raises(HostFilesError, match=f"cannot read {root}/var/lib/zkdeployment/managed.json"):
        files.managed.add({"foo": "foo"})


def test_a_deploy_script_has_to_exist_and_to_be_executable(root, files):
    with pytest.raises(ScriptError, match=r"foo has no deploy script: expected .*/opt/foo/bin/zookeeper-deploy"):
        files.scripts.executable_deploy_script("foo")
    script = put(root, "opt/foo/bin/zookeeper-deploy")
    if os.geteuid() == 0:
        with pytest.raises(ScriptError, match="is not executable"):
            files.scripts.executable_deploy_script("foo")
    script.chmod(0o755)
    assert files.scripts.executable_deploy_script("foo") == str(script)


@pytest.mark.parametrize("way", ["file", "mode", "directory", "package", "target"])
def test_a_script_that_other_users_may_change_is_not_run(root, files, way):
    script = put(root, "opt/foo/bin/zookeeper-deploy", mode=0o755)
    put(root, "opt/bar/bin/starting-deployments", mode=0o755)
    match way:
        case "file":
            os.chown(script, NOBODY, -1)
        case "mode":
            script.chmod(0o777)
        case "directory":
            os.chown(script.parent, NOBODY, -1)
        case "package":
            (root / "opt/foo").chmod(0o777)
        case "target":
            target = put(root, "opt/foo/libexec/deploy", mode=0o755)
            os.chown(target.parent, NOBODY, -1)
            script.unlink()
            script.symlink_to("../libexec/deploy")
    os.chown(root / "opt/bar", NOBODY, -1)
    with capture_logs() as logs:
        inventory = files.inventory({})
        files.inventory({})
    assert (inventory.scripts, inventory.controllers) == ({}, frozenset())
    assert [line["file"] for line in logs if line["event"] == "script-ignored"] == [
        str(root / "opt/foo/bin/zookeeper-deploy"),
        str(root / "opt/bar/bin/starting-deployments"),
    ]
    with pytest.raises(ScriptError, match=r"is not run: other users may change .*/opt/foo.*make root their owner"):
        files.scripts.executable_deploy_script("foo")
    with pytest.raises(ScriptError, match=r"is not run: other users may change .*/opt/bar"):
        files.scripts.executable_controller_script("bar", "starting-deployments")


def test_the_script_of_a_checkout_is_taken_back_before_it_runs(root, files):
    script = put(root, "opt/foo/bin/zookeeper-deploy", "evil", mode=0o777)
    put(root, "opt/foo/data")
    put(root, "var/lib/zkdeployment/checkouts/foo/copy/bin/zookeeper-deploy", "committed", mode=0o755)
    for path in (root / "opt/foo", *(root / "opt/foo").rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    assert files.inventory({}).scripts == {"foo": str(script)}
    assert script.read_text() == "evil"
    assert files.scripts.executable_deploy_script("foo") == str(script)
    assert script.read_text() == "committed"
    assert [path.stat().st_uid for path in (root / "opt/foo", script.parent, script)] == [0, 0, 0]
    assert (root / "opt/foo/data").stat().st_uid == NOBODY


def test_checkouts_are_recognized_by_their_recorded_version(root, files):
    put(root, "opt/foo/.zkdeployment-version", "git:/srv/foo#1\n")
    put(root, "opt/foo/bin/zookeeper-deploy", mode=0o755)
    put(root, "opt/bar/bin/zookeeper-deploy", mode=0o755)
    put(root, "opt/.zkdeployment/new/old/.zkdeployment-version", "git:/srv/foo#1\n")
    (root / "opt/link").mkdir()
    (root / "opt/link/.zkdeployment-version").symlink_to(root / "opt/foo/.zkdeployment-version")
    (root / "opt/odd/.zkdeployment-version").mkdir(parents=True)
    (root / "etc/foo").mkdir(parents=True)
    inventory = files.inventory({})
    assert inventory.checkouts == {"foo": "git:/srv/foo#1"}
    assert inventory.applications == {"foo"}
    assert inventory.scripts.keys() == {"foo", "bar"}


def test_role_controllers_are_recognized_by_their_start_script(root, files, tmp_path):
    put(root, "opt/ctl/bin/starting-deployments")
    put(root, "opt/half/bin/ending-deployments")
    put(tmp_path, "outside")
    (root / "opt/far/bin").mkdir(parents=True)
    (root / "opt/far/bin/starting-deployments").symlink_to(tmp_path / "outside")
    assert files.inventory({}).controllers == {"ctl"}


def test_a_role_controllers_script_has_to_exist_and_to_be_executable(root, files):
    script = put(root, "opt/ctl/bin/starting-deployments")
    with pytest.raises(ScriptError, match=r"script .*starting-deployments is not executable"):
        files.scripts.executable_controller_script("ctl", "starting-deployments")
    script.chmod(0o755)
    assert files.scripts.executable_controller_script("ctl", "starting-deployments") == str(script)
    with pytest.raises(ScriptError, match=r"controller ctl has no script ending-deployments: expected .*/opt/ctl"):
        files.scripts.executable_controller_script("ctl", "ending-deployments")
