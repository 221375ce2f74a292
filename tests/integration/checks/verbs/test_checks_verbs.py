"""The verbs on check configurations, on a real ZooKeeper and a real repository."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.branches import Branch
from support.builders import make_known_host
from support.commands import Done, invoke
from zkdeployment.base.inventory import Inventory
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.records import SyncOptions
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.publishing.store.hosts import write_inventory
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from pathlib import Path

TREE = """\
/shop
  /web : web
    version = '1.0'
    port = [80, 81]
    /deploy
      /h1
      /edge
"""
CHECK = """\
schema: zkdeployment/CheckConfiguration/v1
metadata: {name: front-http}
data:
  object: /shop
  monitoring: nagios1
  check: {command: check_http, arguments: ["-H", "{host.name}", "-p", "{attribute.port}", "--", "$USER1$!"]}
  constraints: [{attribute: port}]
"""
SYSTEM = "schema: zkdeployment/MonitoringSystem/v1\nmetadata: {name: nagios1}\n"


class Site:
    """A repository, a ZooKeeper with two known hosts, and a configuration that names both."""

    def __init__(self, directory: Path, zookeeper: str) -> None:
        self.directory = directory
        self.branch = Branch(directory)
        self.zookeeper = zookeeper
        self.config = directory / "zkdeployment.cfg"
        self.config.write_text(
            f"[zkdeployment]\nzookeeper = {zookeeper}\n[sync]\nurl = {self.branch.bare}\nbranch = main\n"
            f"tree-directory = {directory / 'tree'}\n"
        )
        self.branch.push({"a.zk": TREE})

    def publish(self) -> None:
        with Session(self.zookeeper) as session:
            source = GitSource(str(self.branch.bare), self.directory / "syncer" / "tree", gap=0)
            Syncer(source, ZooKeeperPublications(session), SystemClock()).sync(SyncOptions(force=True))
            for host_id, role in (("h1", None), ("h2", "edge")):
                known = make_known_host(host_id, Inventory(), role)
                write_inventory(session, known)

    def file(self, text: str) -> Path:
        path = self.directory / "new.yaml"
        path.write_text(text)
        return path

    def run(self, *words: object) -> Done:
        person = {"GIT_CONFIG_GLOBAL": "/dev/null", "SUDO_USER": "ann"}
        return invoke("checks", *words, "--config", self.config, env=person)

    def json(self, *words: object) -> object:
        done = self.run(*words, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def site(tmp_path: Path, zookeeper: str) -> Site:
    return Site(tmp_path, zookeeper)


def test_a_check_is_previewed_created_listed_and_deleted(site: Site) -> None:
    site.publish()
    file = site.file(f"{SYSTEM}---\n{CHECK}")
    preview = site.json("preview", file)
    assert preview["schema"] == "zkdeployment/check-preview/v1"
    assert [
        (one["host"]["name"], one["attributes"], one["details"]["arguments"]) for one in preview["instances"]
    ] == [
        (name, {"port": port}, ["-H", name, "-p", str(port), "--", "$USER1$!"])
        for name in ("h1.example.com", "h2.example.com")
        for port in (80, 81)
    ]
    table = site.run("preview", file)
    assert table.returncode == 0
    assert "check_http -H h1.example.com -p 80 -- '$USER1$!'" in table.stdout
    assert table.stderr == "4 instances\n"

    assert "+  object: /shop" in site.run("create", file, "--dry-run").stdout
    created = site.json("create", file, "--reason", "the shop is live")
    assert created["job"] == site.branch.tip()
    assert {"check-front-http.yaml", "monitoring-nagios1.yaml"} < site.branch.files().keys()
    assert site.branch.ask("log", "-1", "--format=%an %s") == (
        "ann Create check front-http, monitoring nagios1: the shop is live"
    )
    again = site.run("create", file)
    assert again.returncode == 0
    assert "nothing changes" in again.stderr
    assert again.stdout.strip() == created["job"]
    other = site.run("create", site.file(CHECK.replace("check_http", "check_tcp")))
    assert other.returncode == 3
    assert "there is a check front-http already: check-front-http.yaml holds its document" in other.stderr

    site.publish()
    listed = site.json("list")
    assert [one["name"] for one in listed["checks"]] == ["front-http"]
    assert listed["monitoring"] == [{"name": "nagios1", "callback": None}]
    assert "front-http" in site.run("list").stdout

    assert site.run("delete", "front-http", "--reason", "closed").stdout.strip() == site.branch.tip()
    assert "check-front-http.yaml" not in site.branch.files()
    assert site.run("delete", "front-http").returncode == 3
    site.publish()
    assert "no check is published" in site.run("list").stderr


def test_an_act_waits_until_its_commit_is_published(site: Site) -> None:
    site.publish()
    unpublished = site.run("create", site.file(SYSTEM), "--wait", "--timeout", "0.1")
    assert (unpublished.returncode, unpublished.stdout.strip()) == (5, site.branch.tip())
    assert "waiting for the publication of" in unpublished.stderr
    assert "'zkdeployment status' shows the progress" in unpublished.stderr
    unknown = site.run("preview", site.file(CHECK))
    assert unknown.returncode == 1
    assert "there is no monitoring system nagios1" in unknown.stderr
    assert "compared with the published documents and tree; a commit counts when a syncer has" in unknown.stderr
    site.publish()
    published = site.run("create", site.file(SYSTEM), "--wait", "--timeout", "60")
    assert published.returncode == 0
    assert published.stderr.splitlines()[-1].startswith("published as ")
    assert site.run("preview", site.file(CHECK)).returncode == 0
    assert site.run("delete", "front-http", "--wait", "--dry-run").returncode == 2
    assert site.run("delete", "front-http", "--timeout", "1").returncode == 2


def test_documents_with_errors_are_neither_previewed_nor_created(site: Site) -> None:
    site.publish()
    for words in (("preview",), ("create",)):
        done = site.run(*words, site.file(f"{SYSTEM}---\n{CHECK}".replace("/shop", "/shops")))
        assert done.returncode == 1
        assert "data.object: there is no node /shops; expected the path of a node of the tree" in done.stderr
        done = site.run(*words, site.file(CHECK))
        assert done.returncode == 1
        assert "there is no monitoring system nagios1; expected a MonitoringSystem of that name" in done.stderr
    assert site.run("preview", site.directory / "missing.yaml").returncode == 2


def test_on_call_duties_are_created_shown_and_part_of_the_details(site: Site) -> None:
    duty = "schema: zkdeployment/OnCall/v1\nmetadata: {name: shop-team}\n"
    duty += "data: {object: /shop, contacts: [{name: ann, email: ann@example.com}]}\n"
    assert (
        site.run("on-call").stderr
        == "no on-call duty applies: the templates of monitoring systems name the contacts\n"
    )
    assert site.run("create", site.file(f"{SYSTEM}---\n{duty}")).returncode == 0
    assert "on-call-shop-team.yaml" in site.branch.files()
    site.publish()
    shown = site.run("on-call", "/shop/web")
    (row,) = (line.split() for line in shown.stdout.splitlines() if "shop-team" in line)
    assert row == ["shop-team", "/shop", "ann", "ann@example.com", "-"]
    contact = {"name": "ann", "email": "ann@example.com"}
    assert site.json("on-call")["on_call"] == [{"name": "shop-team", "object": "/shop", "contacts": [contact]}]
    assert site.json("list")["on_call"] == site.json("on-call")["on_call"]
    assert site.run("on-call", "/elsewhere").stdout == ""
    preview = site.json("preview", site.file(CHECK))
    assert preview["instances"][0]["details"]["on_call"] == {"name": "shop-team", "contacts": [contact]}


def test_the_difference_of_a_revision_is_shown_alone_and_in_the_plan(site: Site) -> None:
    site.branch.push({"nagios.yaml": SYSTEM, "check.yaml": CHECK})
    site.publish()
    same = site.run("diff")
    assert (same.returncode, same.stdout, same.stderr) == (0, "", "")
    site.branch.push({"a.zk": TREE.replace("[80, 81]", "[81, 82]"), "nagios.yaml": SYSTEM, "check.yaml": CHECK})
    done = site.run("diff", "main")
    assert done.returncode == 4
    assert done.stderr == "check front-http: instances: 2 added, 2 removed\n"
    rows = [line.split()[:2] for line in done.stdout.splitlines() if "front-http" in line]
    assert rows == [[mark, "front-http"] for mark in ("+", "+", "-", "-")]
    shown = site.run("diff", "-o", "json")
    assert json.loads(shown.stdout)["counts"] == {"added": 2, "changed": 0, "removed": 2}
    plan = invoke("plan", "--short", "--config", site.config)
    assert plan.returncode == 4
    assert "- check front-http: instances: 2 added, 2 removed" in plan.stdout.splitlines()
    listed = invoke("plan", "-o", "json", "--config", site.config)
    assert json.loads(listed.stdout)["checks"]["counts"] == {"added": 2, "changed": 0, "removed": 2}
    site.branch.push({"a.zk": "nonsense"})
    assert site.run("diff").returncode == 1


def test_a_revision_can_be_previewed_before_its_publication(site: Site) -> None:
    site.publish()
    site.branch.push({"a.zk": TREE.replace("[80, 81]", "[82]"), "nagios.yaml": SYSTEM})
    preview = site.json("preview", site.file(CHECK), "--revision", "main")
    assert [one["attributes"] for one in preview["instances"]] == [{"port": 82}, {"port": 82}]
    done = site.run("preview", site.file(CHECK), "--revision", "nowhere")
    assert done.returncode == 1
