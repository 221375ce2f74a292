"""The verb, the API and the page show the same operating systems, on a real ZooKeeper."""

import json
import time

import pytest

from support.fleets.written import WrittenFleet
from support.forks import run_forked
from support.service import check_answer, running_service
from support.waiting import wait_until
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import KnownHost
from zkdeployment.base.system import HostSystem
from zkdeployment.publishing.store.hosts import write_inventory
from zkdeployment.service.users.user import Role

TREE = """
/os
  /web : system
    release = '2026-11-20'
    /deploy
      /web
"""
SINCE = time.time() - 10 * 86_400.0
SYSTEM = HostSystem("2026-10-16", 1, "5.14-1", "5.14-2", ("kernel-core",), SINCE, updated=SINCE)


@pytest.fixture
def fleet(zookeeper, session):
    with WrittenFleet(zookeeper) as written:
        written.publish("r1", TREE)
        for number in (1, 2):
            identity = Identity(f"h{number}", f"app{number}", "web")
            written.register(Host(identity, "r1"))
            write_inventory(session, KnownHost(identity, time=5.0, system=SYSTEM if number == 1 else None))
        yield written


@pytest.mark.usefixtures("fleet")
def test_the_verb_the_api_and_the_page_show_the_same(zookeeper):
    expected = {
        "schema": "zkdeployment/system/v1",
        "hosts": [
            {
                "id": f"h{number}",
                "name": f"app{number}",
                "path": "/os/web",
                "wanted": "2026-11-20",
                "system": system,
            }
            for number, system in ((1, SYSTEM.to_json()), (2, None))
        ],
        "summary": "1 host at 2026-10-16, 1 not updated yet; 1 needs a reboot",
    }
    printed = run_forked("system", "-z", zookeeper, "-o", "json")
    assert (printed.returncode, json.loads(printed.stdout)) == (0, expected)
    table = run_forked("system", "-z", zookeeper).stdout
    with running_service(zookeeper) as service:
        wait_until(lambda: service.adapters.feed.recent_events().last, "the first reading")
        login = service.add_user(Role.VIEWER)
        answer = service.client.get("/api/v1/system", auth=login)
        check_answer(answer)
        assert answer.json() == expected
        with service.browser(login) as browser:
            page = browser.get("/system").text
    for text in ("1 host at 2026-10-16", "2026-11-20", "5.14-1 (installed: 5.14-2)", ": kernel-core"):
        assert text in table
        assert text in page


@pytest.mark.usefixtures("fleet")
def test_the_monitor_of_the_fleet_warns_by_its_configuration(zookeeper, tmp_path):
    config = tmp_path / "zkdeployment.cfg"
    config.write_text(f"[zkdeployment]\nzookeeper = {zookeeper}\n[system]\nreboot-days = 3650\n")
    quiet = run_forked("monitor", "--cluster", str(config)).stdout
    config.write_text(f"[zkdeployment]\nzookeeper = {zookeeper}\n")
    assert "1 host has a reboot due: app1" in run_forked("monitor", "--cluster", str(config)).stdout
    assert "reboot due" not in quiet
