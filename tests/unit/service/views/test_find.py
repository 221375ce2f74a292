"""The page that finds anything: acts and pages first, then hosts, services and publications."""

from support.builders import make_host
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.deployment import Assignment
from zkdeployment.base.system import WantedSystem
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import fleet_status
from zkdeployment.publishing.records import CommitSummary, Origin, PublicationRecord
from zkdeployment.service.views.frame import ActLink, Tab
from zkdeployment.service.views.hosts import find

FAILED = make_host("db1", "r1", error="disk full")
HOSTS = (*(make_host(f"web{number:02}", "r2") for number in range(12)), FAILED)
STATUS = fleet_status(FleetSnapshot(Cluster("r2"), published="r2", hosts=HOSTS))
OS = Assignment.of_system(WantedSystem("/os", "2026-11-20"))
TARGETS = {"web": (Assignment("/shop/web", 1, "shop-web", "1.3"),), "/system/web": (OS,)}
RECORDS = (PublicationRecord("r2" * 20, 100.0, 7, origin=Origin("Jane <jane@example.com>", "Web 1.3", 90.0)),)
WAITING = (CommitSummary("ab" * 20, "Ada <ada@example.com>", "Web 1.4", 95.0),)
TABS, ACTS = (Tab("Locks", "/locks", current=False),), (ActLink("Stop", "/acts/stop"),)


def found(text):
    groups = find(text, STATUS, TARGETS, RECORDS, TABS, ACTS, waiting=WAITING)
    return {group.title: [(link.name, link.href) for link in group.links] for group in groups}


def test_a_text_finds_hosts_services_publications_pages_and_acts():
    assert found("stop") == {"Acts": [("Stop", "/acts/stop")]}
    assert found("lock") == {"Pages": [("Locks", "/locks")]}
    assert found("disk  full") == {"Hosts": [("db1.example.com", "/hosts/db1")]}
    assert found("shop-web") == {"Services": [("/shop/web", "/services/shop/web")]}
    assert found("jane") == {"Publications": [("Web 1.3", "/history/7")]}
    assert found("r2r2") == {"Publications": [("Web 1.3", "/history/7")]}
    assert found("ada") == found("abab") == {"Commits that wait": [("Web 1.4", f"/commits/{WAITING[0].id}")]}
    assert found("nothing at all") == found("system") == {}


def test_without_a_text_the_acts_pages_and_failed_hosts_are_offered():
    assert list(found("")) == ["Acts", "Pages", "Hosts"]
    assert found("")["Hosts"] == [("db1.example.com", "/hosts/db1")]


def test_a_long_list_ends_with_the_page_that_shows_all():
    (hosts,) = [group for group in find("web", STATUS, {}, (), (), ()) if group.title == "Hosts"]

    assert (len(hosts.links), hosts.more, hosts.href) == (8, 4, "/?text=web")
