"""An invalid push is refused or stops the fleet, the error is reported, and other hosts keep their deployments."""

import shutil

import pytest

from support.hosts.rpms import build_rpm
from support.waiting import UNLIMITED, wait_until
from zkdeployment.base.machine import process
from zkdeployment.zookeeper.session import Session

pytestmark = pytest.mark.nightly

GOOD = '#!/bin/sh\nset -eu\nmkdir -p $ZKDEPLOYMENT_ROOT/ran\necho "$@" >> $ZKDEPLOYMENT_ROOT/ran/%s\n'
FAILING = "#!/bin/sh\necho looking for the cellar key\necho the key is under the mat >&2\nexit 3\n"

TREE = """\
/s
  /steady : steady
    version = '1'
    /deploy
      /host1
      /host2
"""


def with_bad(kind):
    return f"{TREE}  /bad : {kind}\n    version = '1'\n    /deploy\n      /host1\n"


@pytest.fixture(scope="module")
def box(make_box, place):
    """A fleet of two hosts that run ``steady``; the repository contains one package with each defect."""
    box = make_box("bad")
    box.up("--hosts", "2")
    rpms = place / "rpms"
    files = [
        build_rpm(rpms, "steady", "1", script=GOOD % "steady"),
        build_rpm(rpms, "failing", "1", script=FAILING),
        build_rpm(rpms, "scriptless", "1", script=GOOD % "x", places=["bin/other"]),
        build_rpm(rpms, "stiff", "1", script=GOOD % "x", mode="644"),
    ]
    assert box.sandbox("rpm", *files).returncode == 0
    unsigned = build_rpm(rpms, "unsigned", "1", script=GOOD % "x")
    repository = box.status["repository"]
    shutil.copy(unsigned, repository)
    process.run(["createrepo_c", "-q", repository]).check()
    return box


@pytest.fixture
def good(box):
    """Return a valid revision to which all hosts converged, after resuming the fleet if it was stopped."""
    revision = box.push(TREE, "all is well")
    if "null" in box.zkdeployment("status", "-o", "json").stdout:
        box.zkdeployment("resume", "--latest", "--reason", "mended", "--timeout", UNLIMITED)
    waited = box.wait(revision)
    assert waited.returncode == 0, waited.stdout + waited.stderr
    return revision


def hosts(box):
    """Return the cluster version and the properties of all host nodes by host id."""
    with Session(box.status["zookeeper"]) as session:
        nodes = {name: session.get(f"/hosts/{name}").properties for name in session.children("/hosts")}
        return session.get("/hosts").properties["version"], nodes


@pytest.mark.parametrize(
    ("kind", "expected", "changed"),
    [
        ("missing", ("missing",), False),
        ("unsigned", ("unsigned", "sign"), False),
        ("scriptless", ("scriptless", "zookeeper-deploy"), True),
        ("stiff", ("stiff", "executable"), True),
        ("failing", ("failing/bin/zookeeper-deploy", "exit status 3"), True),
    ],
)
def test_a_package_that_cannot_be_deployed_stops_the_fleet_and_the_reason_is_reported(
    box, good, kind, expected, changed
):
    revision = box.push(with_bad(kind), kind)
    waited = box.wait(revision)
    assert waited.returncode == 3, waited.stdout + waited.stderr
    cluster, nodes = hosts(box)
    assert cluster is None
    assert all(part in nodes["host1"]["error"] for part in expected), nodes
    # A host that a failed deployment has changed has no version until a deployment completes.
    assert nodes["host1"].get("version") == (None if changed else good)
    assert nodes["host1"].get("former") == (good if changed else None)
    assert "error" not in nodes["host2"]
    shown = box.zkdeployment("status")
    assert shown.returncode == 4
    config = box.status["hosts"]["host1"]["config"]
    check = box.run("check_zkdeployment", config)
    assert check.returncode == 1
    assert all(part in check.stdout for part in expected), check.stdout
    assert "Traceback" not in waited.stderr + shown.stderr + check.stderr + check.stdout
    assert "ALL STOP" in box.sync().stderr
    assert (box.root("host2") / "opt/steady/bin/zookeeper-deploy").exists()


def test_a_malformed_tree_is_not_published_and_the_error_names_file_line_and_column(box, good):
    box.push(f"{TREE}    /x : \n  y == 1\n", "malformed")
    done = box.sync()
    assert done.returncode == 1
    assert "tree.zk:8:" in done.stderr + done.stdout
    cluster, nodes = hosts(box)
    assert cluster == good
    assert not [node for node in nodes.values() if node.get("error")]


def test_a_tree_that_contradicts_itself_is_not_published(box, good):
    box.push(TREE + "  /other : steady\n    version = '2'\n    /deploy\n      /host1\n", "two versions")
    done = box.sync()
    assert done.returncode == 1
    assert "steady" in done.stderr + done.stdout
    assert hosts(box)[0] == good


@pytest.mark.usefixtures("good")
def test_every_command_reports_an_unreachable_zookeeper_and_the_fleet_recovers(box):
    box.sandbox("stop", "zookeeper1", "--kill")
    try:
        for command in (["status"], ["tree", "show"], ["sync", box.status["config"]]):
            done = box.zkdeployment(*command)
            assert done.returncode == 7, (command, done.stderr)
            assert box.status["zookeeper"] in done.stderr
            assert "Traceback" not in done.stderr
    finally:
        box.sandbox("start", "zookeeper1")
    wait_until(lambda: box.zkdeployment("status").returncode == 0, "the agents are back")
