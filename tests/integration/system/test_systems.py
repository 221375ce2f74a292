"""The verb, the API and the page show the same operating systems, on a real ZooKeeper."""

import json
import time

import pytest

from support.builders import make_inventory
from support.fleets.written import WrittenFleet
from support.forks import run_forked
from support.hosts.snapshots import OLD, SNAPSHOTS, definition
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


@pytest.mark.usefixtures("fleet")
def test_a_plan_shows_the_packages_that_an_update_would_change(
    zookeeper, session, snapshots, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "os.repo").write_text(definition(snapshots), encoding="utf-8")
    (tmp_path / "os.zk").write_text(
        TREE.replace("2026-11-20'", "2026-11-20'\n    generation = 2"), encoding="utf-8"
    )
    old = [offer.package for offer in SNAPSHOTS[OLD]]
    for number, packages in ((1, old), (2, old[1:])):
        identity = Identity(f"h{number}", f"app{number}", "web")
        write_inventory(session, KnownHost(identity, make_inventory(*packages), time=6.0))
    plan = ("plan", "-z", zookeeper, str(tmp_path / "os.zk"))
    printed = run_forked(*plan, "--repositories", str(tmp_path), "--short").stdout.splitlines()
    assert printed[-3:-1] == [
        "- /os/web to 2026-11-20: 1 host: 5 updates, 1 security, reboot (kernel-core)",
        "- /os/web to 2026-11-20: 1 host: 4 updates, 1 security, reboot (kernel-core)",
    ]
    found = json.loads(run_forked(*plan, "-o", "json").stdout)["system"]
    assert [kind["unknown"] for kind in found["kinds"]] == ["no repository was read"]
