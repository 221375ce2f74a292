"""Role controllers in a sandbox: real packages, two hosts with a role and one host without a role."""

import pytest

from support.hosts.rpms import build_rpm

pytestmark = pytest.mark.nightly

HOSTS = """
web1: {role: web}
web2: {role: web}
db1: {}
"""
SCRIPT = """\
#!/bin/sh
echo "$ZKDEPLOYMENT_HOST_ID ${0##*/} $*%s" >> %s
"""
TREE = """\
/shop : shop
  version = '1.0'
  /deploy
    /web
    /db1
%s"""
ROLES = """\
/roles
  /web : %s
    version = '%s'
"""


@pytest.fixture(scope="module")
def box(make_box, place):
    box = make_box("roles")
    hosts = place / "hosts.yaml"
    hosts.write_text(HOSTS, encoding="utf-8")
    box.up("--hosts", hosts)
    journal = box.directory / "journal"
    both = ("bin/starting-deployments", "bin/ending-deployments")
    files = [build_rpm(place, "shop", "1.0", script=SCRIPT % ("", journal))]
    for name, version in (("bracket", "1.0"), ("bracket", "2.0"), ("fence", "1.0")):
        files.append(build_rpm(place, name, version, script=SCRIPT % (f" {name} {version}", journal), places=both))
    assert box.sandbox("rpm", *files).returncode == 0
    return box


def deploy(box, roles):
    """Publish the tree with these roles, wait for all hosts, and return the script calls of each host."""
    journal = box.directory / "journal"
    journal.unlink(missing_ok=True)
    waited = box.wait(box.push(TREE % roles, roles))
    assert waited.returncode == 0, waited.stderr
    noted = journal.read_text(encoding="utf-8").splitlines()
    return noted, {host: [line for line in noted if line.startswith(host)] for host in ("web1", "web2", "db1")}


def bracketed(host, controller):
    return [
        f"{host} starting-deployments /roles/web {controller}",
        f"{host} zookeeper-deploy /shop 0",
        f"{host} ending-deployments /roles/web {controller}",
    ]


def test_a_role_controller_is_added_changed_and_removed_by_the_tree(box):
    for package, version in (("bracket", "1.0"), ("bracket", "2.0"), ("fence", "1.0")):
        noted, by_host = deploy(box, ROLES % (package, version))
        for host in ("web1", "web2"):
            assert by_host[host] == bracketed(host, f"{package} {version}")
        assert by_host["db1"] == ["db1 zookeeper-deploy /shop 0"]
        web = [line.split()[0] for line in noted if line.startswith("web")]
        assert web in (["web1"] * 3 + ["web2"] * 3, ["web2"] * 3 + ["web1"] * 3)
    _, by_host = deploy(box, "/roles\n")
    assert by_host == {host: [f"{host} zookeeper-deploy /shop 0"] for host in ("web1", "web2", "db1")}
    assert [path.name for path in (box.root("web1") / "opt").iterdir()] == ["shop"]


def test_a_controller_that_conflicts_with_a_service_is_never_published(box):
    refused = box.push(TREE % (ROLES % ("shop", "9.9")), "conflict")
    shown = box.sync()
    assert shown.returncode == 1, shown.stderr
    assert "shop 9.9 for /roles/web and shop 1.0 for /shop on the same host" in shown.stderr
    assert refused in shown.stderr
